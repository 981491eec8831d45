// The texts the runtime asks the offline model for by a fixed form: a sub-agent's sections (RO3), Result and Notes of
// the announce step (AN1), the bullet list of a compaction (SE6), a brief (RP3). All from what stands in the messages.
import { withoutFences } from "../../core/fence.ts";
import type { ChatMessage } from "../model.ts";
import { type Call, cut, type Outcome, type Result } from "./job.ts";

export interface Evidence {
  readonly call: Call;
  readonly result: Result;
}

const MAX_BULLETS = 30;
const BRIEF_BULLETS = 10;
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

/** All it has when its budget is used up: what its tools gave last. */
export function toLanding(material: string): string {
  const task = /^Your task: (.*)$/m.exec(material)?.[1] ?? "";
  const seen = withoutFences(material).split(/\n\n/).slice(2, -1).join("\n\n").trim();
  const had = seen === "" ? "I had not come to anything yet." : `What my tools gave last:\n\n${cut(seen, 600)}`;
  return `I could not finish "${cut(task, 200)}". ${had}`;
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

/** A brief of the last turns: it can't tell what matters in them, so it quotes their ends. */
export function toBrief(messages: readonly ChatMessage[]): string {
  const said = messages.map((message) => withoutFences(message.text)).join("\n");
  const lines = said.split("\n").flatMap((line) => (/^(?:Person|Agent): ./.test(line) ? [`- ${shortLine(line)}`] : []));
  return ["Herald's offline model can't sum up; this was said last.", ...lines.slice(-BRIEF_BULLETS)].join("\n");
}

const shortLine = (text: string): string => cut(text.replace(/\s+/g, " ").trim(), 160);
