// A child's transcript as the open run shows it: who said what, tool calls and their results, capped and with secrets
// replaced by their names. The sub-agent's words become safe HTML; everything else stays text.
import { withoutFences } from "../core/fence.ts";
import { argsText } from "../core/tool.ts";
import type { Entry } from "../stores/transcript-entry.ts";
import type { TranscriptPage } from "../stores/transcript-page.ts";
import { createHtmlCache, mapInPieces, type Renderer } from "./rendering.ts";

export interface LogView {
  /** Tells entries apart and orders them. */
  readonly position: number;
  readonly at: string;
  readonly kind: "task" | "said" | "sent" | "call" | "result" | "note" | "summary";
  /** Who spoke, or which tool. */
  readonly who: string;
  readonly text?: string;
  /** The sub-agent's words, safe to insert. */
  readonly html?: string;
  readonly isError?: boolean;
}

export interface LogViews {
  /** In the same order. Lets other work through between costly entries. */
  toViews(runId: string, entries: TranscriptPage["entries"]): Promise<LogView[]>;
}

const MAX_WORDS = 12_000;
const MAX_RESULT = 4_000;
const MAX_CALL = 1_000;

export function createLogViews(redact: (text: string) => string, { render }: Pick<Renderer, "render">): LogViews {
  // Appended lines never change.
  const rendered = createHtmlCache<string>();
  // Redacted before it is cut: half a secret would not be recognised.
  const short = (text: string, max: number): string => cap(redact(withoutFences(text)), max);
  return {
    toViews: (runId, entries) =>
      mapInPieces(entries, async ({ position, entry }): Promise<LogView> => {
        const base = { position, at: entry.timestamp };
        if (entry.type !== "message" || entry.role !== "assistant") return { ...base, ...textOf(entry, short) };
        const text = entry.partial === true ? `${entry.text}\n\n*(cut off here)*` : entry.text;
        return {
          ...base,
          kind: "said",
          who: "Sub-agent",
          html: await rendered(`${runId} ${position}`, () => render(short(text, MAX_WORDS))),
        };
      }),
  };
}

type Spoken = Exclude<Entry, { role: "assistant" }>;

function textOf(entry: Spoken, short: (text: string, max: number) => string): Omit<LogView, "position" | "at"> {
  switch (entry.type) {
    case "message":
      // The id the spawn gives the first message of a child.
      return { kind: entry.id === "task" ? "task" : "sent", who: short(entry.from, 200), text: short(entry.text, MAX_WORDS) };
    case "tool_call":
      return { kind: "call", who: entry.name, text: short(argsText(entry.args), MAX_CALL) };
    case "tool_result":
      return { kind: "result", who: entry.name, text: short(entry.text, MAX_RESULT), isError: entry.isError };
    case "note":
      return { kind: "note", who: "Note", text: short(entry.text, MAX_WORDS) };
    case "compaction":
      return { kind: "summary", who: "Summary of what came before", text: short(entry.summary, MAX_WORDS) };
  }
}

function cap(text: string, max: number): string {
  if (text.length <= max) return text;
  return `${text.slice(0, max).replace(/[\ud800-\udbff]$/, "")}\n… (cut: ${text.length} characters in all, the transcript has them)`;
}
