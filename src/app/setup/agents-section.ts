// Set-up: the agents. Few fields of each; whatever else stands in the settings about one stays there.
import { AppError } from "../../core/errors.ts";
import type { FieldView } from "../../web/setup.ts";
import {
  joined,
  NO_EDIT,
  type Path,
  type PlainField,
  plainEdits,
  plainView,
  put,
  rawAt,
  type Section,
  type SetupNow,
  textOf,
} from "./section.ts";

const MAIN = "main";

/** The settings of one, below `at`. */
const plainFields = (at: Path, now: SetupNow): PlainField[] => [
  { name: "name", label: "Name", help: "What people see; empty: its id.", kind: "text", path: [...at, "name"] },
  {
    name: "model",
    label: "Model",
    help: "provider/model-id; empty: the one under Model.",
    kind: "text",
    path: [...at, "model", ...(isBlock(rawAt(now.files.tree, [...at, "model"])) ? ["primary"] : [])],
  },
  {
    name: "workspace",
    label: "Folder of its files",
    help: "An absolute path, or one that begins with ~/; empty: a folder of Herald's own.",
    kind: "text",
    path: [...at, "workspace"],
  },
  {
    name: "allow",
    label: "Only these tools",
    help: "One a line, * stands for any characters; empty: all.",
    kind: "list",
    path: [...at, "tools", "allow"],
  },
  { name: "deny", label: "Never these tools", help: "One a line.", kind: "list", path: [...at, "tools", "deny"] },
  {
    name: "approve",
    label: "Ask before these tools",
    help: "One a line: a person says yes before each call.",
    kind: "list",
    path: [...at, "tools", "approve"],
  },
];

const isBlock = (value: unknown): boolean => typeof value === "object" && value !== null;

/** As written; none: the one agent there is without a list. */
function writtenIds(now: SetupNow): string[] {
  const list = rawAt(now.files.tree, ["agents", "list"]);
  return Array.isArray(list) ? list.map((agent) => String(rawAt(agent, ["id"]))) : [];
}

const idField: FieldView = {
  name: "id",
  label: "Id",
  help: "Lower case letters, digits, _ and -; it stands in folders and keys and stays.",
  kind: "text",
  value: "",
};

export const agentsSection: Section = {
  id: "agents",
  view(now) {
    const written = writtenIds(now);
    const ids = written.length === 0 ? [MAIN] : written;
    return {
      id: "agents",
      title: "Agents",
      about: "Who there is to talk to: each has its model, its folder and its tools.",
      items: ids.map((id, n) => ({
        id,
        title: now.config.agents.list.find((agent) => agent.id === id)?.name ?? id,
        state: now.config.agents.list.find((agent) => agent.id === id)?.default ? "answers chats that name no agent" : "",
        fields: plainFields(["agents", "list", n], now).map((field) => plainView(now, field)),
        canRemove: ids.length > 1,
      })),
      blank: {
        title: "Add an agent",
        fields: [idField, ...plainFields(["agents", "list", ids.length], now).map((field) => plainView(now, field))],
      },
      isTested: false,
      notes: [],
    };
  },
  edit({ item, values }, now) {
    const written = writtenIds(now);
    // Without a list there is main; with one, only who is in it.
    const missing = written.length === 0 ? [{ path: ["agents", "list"], value: [{ id: MAIN }] }] : [];
    const ids = written.length === 0 ? [MAIN] : written;
    if (item !== null) {
      const n = ids.indexOf(item);
      if (n < 0) throw new AppError("invalid", `There is no agent ${item} any more.`);
      return joined([{ ...NO_EDIT, set: missing }, plainEdits(now, plainFields(["agents", "list", n], now), values)]);
    }
    const id = textOf(values.id);
    if (id === "") throw new AppError("invalid", "Id: it is missing.");
    const at: Path = ["agents", "list", ids.length];
    return joined([{ ...NO_EDIT, set: [...missing, { path: at, value: { id } }] }, plainEdits(now, plainFields(at, now), values)]);
  },
  remove(item, now) {
    const n = writtenIds(now).indexOf(item);
    if (n < 0) throw new AppError("invalid", `There is no agent ${item} any more.`);
    return put(now, ["agents", "list", n], undefined);
  },
};
