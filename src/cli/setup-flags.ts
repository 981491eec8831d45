// The flags of `herald setup`, one for each question. Those of a connection are made of its fields, so a new connection has its own
// without a word here. A secret is never the value of a flag, which everybody on this machine could read in the list of processes.
import { CONNECTIONS } from "../app/setup/connections.ts";
import type { Option } from "./command.ts";

export interface SetupFlag {
  readonly flag: string;
  readonly section: string;
  /** The field's name, or what stands before the colon in it. */
  readonly field: string;
  /** `secret`: its value names where the answer is. */
  readonly kind: "secret" | "text" | "list" | "switch";
  readonly option: Option;
}

const dashed = (name: string): string => name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
const text = (value: string, about: string): Option => ({ type: "string", value, about });

const MODEL: readonly SetupFlag[] = [
  {
    ...{ flag: "model", section: "model", field: "model", kind: "text" },
    option: text("PROVIDER[/MODEL]", "who answers: anthropic, openai, google, openrouter, ollama, or compatible for another server"),
  },
  {
    ...{ flag: "key-env", section: "model", field: "key", kind: "secret" },
    option: text("NAME", "the variable that holds the provider's key now; - reads it from stdin"),
  },
  {
    ...{ flag: "address", section: "model", field: "address", kind: "text" },
    option: text("URL", "where a server of your own is, such as https://llm.example.com/v1"),
  },
];

const connectionFlags = CONNECTIONS.flatMap(({ id, title, secrets, plain }): SetupFlag[] => [
  {
    ...{ flag: id, section: id, field: "enabled", kind: "switch" },
    option: text("on|off", `whether ${title} is used; its tokens stay`),
  },
  ...secrets.map(
    ({ name, label }): SetupFlag => ({
      ...{ flag: `${id}-${dashed(name)}-env`, section: id, field: name, kind: "secret" },
      option: text("NAME", `${title}, ${label}: the variable that holds it now; - reads it from stdin`),
    }),
  ),
  ...plain.map(
    ({ name, label, kind }): SetupFlag => ({
      ...{ flag: `${id}-${dashed(name)}`, section: id, field: name, kind: kind === "list" ? "list" : "text" },
      option: text(kind === "list" ? "A,B,…" : "TEXT", `${title}, ${label}`),
    }),
  ),
]);

export const SETUP_FLAGS: readonly SetupFlag[] = [...MODEL, ...connectionFlags];

export const SETUP_OPTIONS: Readonly<Record<string, Option>> = {
  ...Object.fromEntries(SETUP_FLAGS.map(({ flag, option }) => [flag, option])),
  untested: { type: "boolean", about: "keep also what could not be tried with success" },
};
