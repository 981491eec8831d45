// A child's transcript as the open run shows it: who said what, what was thought before, tool calls and their results, capped and with
// secrets replaced by their names. What was cut is asked for piece by piece. The sub-agent's words become safe HTML; everything else stays text.
import { withoutFences } from "../core/fence.ts";
import type { Entry } from "../stores/transcript-entry.ts";
import { thoughtsOf } from "../stores/transcript-entry.ts";
import type { TranscriptPage } from "../stores/transcript-page.ts";
import { createHtmlCache, mapInPieces, type Renderer } from "./rendering.ts";
import { callText, resultForm, type TextForm } from "./tool-text.ts";

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
  /** What it thought before these words. */
  readonly thoughts?: string;
  /** Of a call and its result: what belongs together. */
  readonly callId?: string;
  /** Of a call: what it is about, in one line. */
  readonly line?: string;
  readonly form?: TextForm;
  /** Of a text that was cut: how long it is. */
  readonly length?: number;
  readonly isError?: boolean;
}

/** A stretch of what an entry says. */
export interface LogPiece {
  readonly text: string;
  /** Where the next one begins; null: this was the last. */
  readonly next: number | null;
}

export interface LogViews {
  /** For who is no browser: every word as text. */
  toTexts(entries: TranscriptPage["entries"]): LogView[];
  /** In the same order. Lets other work through between costly entries. */
  toViews(runId: string, entries: TranscriptPage["entries"]): Promise<LogView[]>;
  /** From this character on, of a call's arguments or anybody's text. */
  pieceOf(entry: Entry, from: number): LogPiece;
}

const MAX_WORDS = 12_000;
const MAX_TOOL = 4_000;
const MAX_LINE = 200;
const PIECE = 32_000;

export function createLogViews(redact: (text: string) => string, { render }: Pick<Renderer, "render">): LogViews {
  // Appended lines never change.
  const rendered = createHtmlCache<string>();
  // Redacted before it is cut: half a secret would not be recognised.
  const clean = (text: string): string => redact(withoutFences(text));
  return {
    toTexts: (entries) => logTexts(entries, redact),
    toViews: (runId, entries) =>
      mapInPieces(entries, async ({ position, entry }): Promise<LogView> => {
        const base = { position, at: entry.timestamp };
        if (!isSaid(entry)) return { ...base, ...textOf(entry, clean) };
        const text = saidText(entry);
        const thoughts = clean(thoughtsOf(entry));
        return {
          ...{ ...base, ...SAID },
          html: await rendered(`${runId} ${position}`, () => render(cap(clean(text), MAX_WORDS).text)),
          ...(thoughts === "" ? {} : { thoughts: cap(thoughts, MAX_WORDS).text }),
          ...(text.length > MAX_WORDS ? { length: text.length } : {}),
        };
      }),
    pieceOf(entry, from) {
      const text = clean(wholeOf(entry));
      const to = from + PIECE;
      return { text: text.slice(from, to), next: to < text.length ? to : null };
    },
  };
}

const SAID = { kind: "said", who: "Sub-agent" } as const;
type Said = Extract<Entry, { role: "assistant" }>;
const isSaid = (entry: Entry): entry is Said => entry.type === "message" && entry.role === "assistant";
const saidText = ({ text, partial }: Said): string => (partial === true ? `${text}\n\n*(cut off here)*` : text);

/** As `LogViews.toTexts`, for who reads the files themselves. */
export function logTexts(entries: TranscriptPage["entries"], redact: (text: string) => string): LogView[] {
  const clean = (text: string): string => redact(withoutFences(text));
  return entries.map(({ position, entry }) => ({
    position,
    at: entry.timestamp,
    ...(isSaid(entry) ? { ...SAID, ...cap(clean(saidText(entry)), MAX_WORDS) } : textOf(entry, clean)),
  }));
}

const wholeOf = (entry: Entry): string => {
  if (entry.type === "tool_call") return callText(entry.name, entry.args).text;
  if (entry.type === "rewound") return SET_ASIDE;
  return entry.type === "compaction" ? entry.summary : entry.text;
};

const SET_ASIDE = "What stands above was set aside.";

type Spoken = Exclude<Entry, { role: "assistant" }>;

function textOf(entry: Spoken, clean: (text: string) => string): Omit<LogView, "position" | "at"> {
  const short = (text: string, max: number) => cap(clean(text), max);
  switch (entry.type) {
    case "message":
      // The id the spawn gives the first message of a child.
      return { kind: entry.id === "task" ? "task" : "sent", who: short(entry.from, 200).text, ...short(entry.text, MAX_WORDS) };
    case "tool_call": {
      const { line, text, form } = callText(entry.name, entry.args);
      const about = clean(line).slice(0, MAX_LINE).toWellFormed();
      return { kind: "call", who: entry.name, callId: entry.callId, line: about, form, ...short(text, MAX_TOOL) };
    }
    case "tool_result": {
      const { callId, isError } = entry;
      return { kind: "result", who: entry.name, callId, isError, form: resultForm(entry.name, entry.text), ...short(entry.text, MAX_TOOL) };
    }
    case "note":
      return { kind: "note", who: "Note", ...short(entry.text, MAX_WORDS) };
    case "compaction":
      return { kind: "summary", who: "Summary of what came before", ...short(entry.summary, MAX_WORDS) };
    case "rewound":
      return { kind: "note", who: "Note", ...short(SET_ASIDE, MAX_WORDS) };
  }
}

/** The beginning of a text that is too long, and how long it is. */
function cap(text: string, max: number): Pick<LogView, "length"> & { readonly text: string } {
  return text.length <= max ? { text } : { text: text.slice(0, max).replace(/[\ud800-\udbff]$/, ""), length: text.length };
}
