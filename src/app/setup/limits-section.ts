// Set-up: what may be spent, and what needs a person's yes.
import { type PlainField, plainEdits, plainView, type Section } from "./section.ts";

const usd = (name: string, label: string, help: string, path: readonly string[]): PlainField => ({
  ...{ name, label, help: `US dollars. ${help}`, kind: "number", path: [...path, "usd"], placeholder: "no limit" },
});

const DEFAULTS = ["agents", "defaults"];

const FIELDS: readonly PlainField[] = [
  usd("perDay", "All of Herald, in a day", "Counted from midnight UTC.", ["budgets", "perDay"]),
  usd("perMonth", "All of Herald, in a month", "Counted from the first, UTC.", ["budgets", "perMonth"]),
  usd("personPerDay", "One person, in a day", "All that they set off.", ["budgets", "personPerDay"]),
  usd("chatPerDay", "One chat, in a day", "With its sub-agents.", ["budgets", "chatPerDay"]),
  usd("message", "One message", "All that it sets off.", ["budgets", "message"]),
  usd("run", "One sub-agent", "With all it sends out itself.", [...DEFAULTS, "subagents", "budget"]),
  {
    name: "unpriced",
    label: "A model without a known price",
    help: "Where a limit in dollars applies.",
    kind: "choice",
    path: ["budgets", "unpriced"],
    options: [
      { value: "refuse", label: "is not called" },
      { value: "allow", label: "is called, and not counted" },
    ],
  },
  {
    name: "approve",
    label: "Ask before these tools",
    help: "One a line, such as exec or github__*: a person says yes in the chat before each call.",
    kind: "list",
    path: ["tools", "approve"],
  },
  { name: "deny", label: "Never these tools", help: "One a line, for every agent.", kind: "list", path: ["tools", "deny"] },
  {
    name: "maxConcurrent",
    label: "Sub-agents at the same time",
    help: "The rest wait.",
    kind: "number",
    path: [...DEFAULTS, "subagents", "maxConcurrent"],
    placeholder: "8",
  },
  {
    name: "runTimeoutSeconds",
    label: "Time for one sub-agent",
    help: "In seconds; then it is stopped. 0: no limit.",
    kind: "number",
    path: [...DEFAULTS, "subagents", "runTimeoutSeconds"],
    placeholder: "0",
  },
];

export const limitsSection: Section = {
  id: "limits",
  view: (now) => ({
    id: "limits",
    title: "Budgets and approvals",
    about: "What may be spent, and what needs your yes.",
    items: [{ id: "limits", title: "Limits", state: "", fields: FIELDS.map((field) => plainView(now, field)), canRemove: false }],
    blank: null,
    isTested: false,
    notes: [],
  }),
  edit: ({ values }, now) => plainEdits(now, FIELDS, values),
};
