// A tool call as people read it: one line that says what it is about, and all of it as a command, a difference or plain JSON. Pure.
import { EXEC_TOOL } from "../core/tool-names.ts";
import { spellUnseen } from "../core/visible-text.ts";

/** How a text is drawn: a difference in colours, all others in one. */
export type TextForm = "command" | "diff" | "json" | "text";

export interface CallText {
  /** `npm test`, `src/a.ts`: what it is about, in one line. */
  readonly line: string;
  readonly text: string;
  readonly form: TextForm;
}

/** What a call is about, by the names arguments have: the first that is there. */
const TELLING = ["command", "path", "url", "query", "pattern", "label", "question", "id", "target", "name", "task", "text", "message"];

export function callText(name: string, args: unknown): CallText {
  const fields = (typeof args === "object" && args !== null ? args : {}) as Readonly<Record<string, unknown>>;
  const shown = bodyOf(name, fields) ?? { text: JSON.stringify(args, null, 2) ?? "", form: "json" };
  const about = TELLING.map((field) => asText(fields[field])).find((text) => text !== null) ?? compact(args);
  return { ...shown, text: spellUnseen(shown.text), line: spellUnseen(about).replace(/\s+/g, " ").trim() };
}

/** An edit answers with the places it changed. */
export const resultForm = (name: string, text: string): TextForm => (name === "edit" && /^@@ -\d/m.test(text) ? "diff" : "text");

function bodyOf(name: string, fields: Readonly<Record<string, unknown>>): Pick<CallText, "text" | "form"> | null {
  const command = asText(fields.command);
  if (name === EXEC_TOOL && command !== null) return { text: `${command}${besides(fields, ["command"])}`, form: "command" };
  const { path, oldText, newText, content } = fields;
  if (name === "edit" && isTexts(path, oldText, newText))
    return { text: `--- ${path}\n+++ ${path}\n@@ change @@\n${marked("-", oldText)}${marked("+", newText)}`, form: "diff" };
  if (name === "write" && isTexts(path, content)) return { text: `+++ ${path}\n@@ all of it @@\n${marked("+", content)}`, form: "diff" };
  return null;
}

const isTexts = (...values: readonly unknown[]): boolean => values.every((value) => typeof value === "string");

const marked = (mark: string, text: unknown): string => (text === "" ? "" : `${String(text).replace(/\n$/, "").replaceAll(/^/gm, mark)}\n`);

/** A command may be given as its words. */
function asText(value: unknown): string | null {
  if (typeof value === "string") return value.trim() === "" ? null : value;
  return Array.isArray(value) && value.length > 0 && isTexts(...value) ? value.join(" ") : null;
}

/** The arguments that stand nowhere else. */
function besides(fields: Readonly<Record<string, unknown>>, shown: readonly string[]): string {
  const rest = Object.entries(fields).filter(([field]) => !shown.includes(field));
  return rest.length === 0 ? "" : `\n\n${JSON.stringify(Object.fromEntries(rest), null, 2)}`;
}

const compact = (args: unknown): string => {
  const text = JSON.stringify(args) ?? "";
  return text === "{}" ? "" : text;
};
