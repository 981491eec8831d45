// The texts the runtime asks the offline model for by a fixed form: a sub-agent's sections (RO3), Result and Notes of
// the announce step (AN1), the bullet list of a compaction (SE6). All from what stands in the messages.
import type { ChatMessage } from "../model.ts";
import { type Call, cut, type Outcome, type Result } from "./job.ts";

export interface Evidence {
  readonly call: Call;
  readonly result: Result;
}

const MAX_BULLETS = 30;
const NATURE = "Done by Herald's built-in offline model: fixed rules, no LLM. Figures come from tool results; nothing was judged.";

/** The five sections, in the order the runtime parses. */
export function toSections(outcomes: readonly Outcome[], evidence: readonly Evidence[]): string {
  const changes = outcomes.flatMap((outcome) => outcome.changes ?? []);
  const seen = evidence
    .filter(({ call }) => call.name !== "plan")
    .map(({ call, result }) => `${describeCall(call)}: ${result.isError ? "failed" : "ok"}`);
  const sections: [string, string][] = [
    ["SUMMARY", outcomes.map((outcome) => outcome.text).join("\n\n")],
    ["CHANGES", bullets(changes)],
    ["EVIDENCE", bullets(seen)],
    ["RISKS", bullets([NATURE])],
    // With one it would not have come to this: it ends in an error then (offline.ts).
    ["BLOCKERS", bullets([])],
  ];
  return sections.map(([name, text]) => `${name}:\n${text}`).join("\n\n");
}

const bullets = (lines: readonly string[]): string =>
  lines.length === 0 ? "None." : lines.map((line) => `- ${line.replace(/^- /, "")}`).join("\n");

function describeCall(call: Call): string {
  const first = Object.values(call.args).find((value) => typeof value === "string");
  return `\`${call.name}\`${first === undefined ? "" : ` ${cut(String(first).replace(/\s+/g, " "), 100)}`}`;
}

/** `Result:` and `Notes:` from the child's last texts; the SUMMARY section if there is one. */
export function toAnnouncement(messages: readonly ChatMessage[]): string {
  const texts = messages.flatMap((message) => (message.role === "assistant" && message.text.trim() !== "" ? [message.text.trim()] : []));
  const last = texts.at(-1) ?? "";
  const result = readSection(last, "SUMMARY") ?? last;
  return `Result:\n${result || "(not available)"}\n\nNotes:\n${readSection(last, "RISKS") || "- (none)"}`;
}

function readSection(text: string, name: string): string | null {
  const found = new RegExp(`^${name}:[ \\t]*\\n?([\\s\\S]*?)(?=\\n+(?:SUMMARY|CHANGES|EVIDENCE|RISKS|BLOCKERS):|$(?![\\s\\S]))`, "m").exec(
    text,
  );
  return found?.[1]?.trim() ?? null;
}

/** Who said and did what, one line each, the newest kept. */
export function toCompaction(messages: readonly ChatMessage[]): string {
  const lines = messages.flatMap((message) => {
    if (message.role === "user") return [`- Said to me: ${shortLine(message.text)}`];
    if (message.role === "tool") return [`- \`${message.name}\` ${message.isError ? "failed" : "gave"}: ${shortLine(message.text)}`];
    return message.text.trim() === "" ? [] : [`- I answered: ${shortLine(message.text)}`];
  });
  const left = lines.length - MAX_BULLETS;
  return (
    [...(left > 0 ? [`- (${left} earlier lines left out)`] : []), ...lines.slice(-MAX_BULLETS)].join("\n") || "- Nothing was said yet."
  );
}

const shortLine = (text: string): string => cut(text.replace(/\s+/g, " ").trim(), 160);
