// Who did what when: trace.md, an append-only list that goes down with a delegation and is merged back when it returns.
// Each entry is two or three lines of Markdown; values are kept to one line each, so text can't pose as a further entry.
import { DocumentError, decodeDocument } from "./document.ts";

export interface TraceEntry {
  readonly agent: string;
  readonly action: string;
  readonly briefId?: string;
  readonly timestamp: string;
}

export type NewTraceEntry = Omit<TraceEntry, "timestamp"> & {
  /** ISO time; now when left out. */
  readonly timestamp?: string;
};

const HEAD = /^- \*\*Agent\*\*: `([^`]+)` @ `([^`]+)`\s*$/;
const ACTION = /^ {2}- \*\*Action\*\*:(.*)$/s;
const BRIEF = /^ {2}- \*\*Brief\*\*: `([^`]+)`\s*$/;
// Whatever a reader or a terminal could take for a line break or hide text with: controls, separators, bidirectional marks.
const NOT_ONE_LINE = /[\s\p{Cc}\u200e\u200f\u202a-\u202e\u2066-\u2069]+/gu;

/** Mutable: `append` and `merge` change this trace and return it. Entries themselves never change. */
export class Trace {
  #entries: TraceEntry[];

  private constructor(entries: TraceEntry[]) {
    this.#entries = entries;
  }

  static create(): Trace {
    return new Trace([]);
  }

  /** Never throws on text: a line that belongs to no entry, and an entry without a valid time, is passed over. Linear in the text. */
  static parse(content: string | Uint8Array): Trace {
    const text = typeof content === "string" ? content : decodeDocument(content);
    return new Trace(readEntries(text.replace(/^\uFEFF/, "")));
  }

  get length(): number {
    return this.#entries.length;
  }

  getEntries(): readonly TraceEntry[] {
    return [...this.#entries];
  }

  /** Values are put on one line each (and back-ticks in ids replaced) as they come in. Throws on an empty agent or an invalid time. */
  append(entry: NewTraceEntry): this {
    const clean = toEntry({ ...entry, timestamp: entry.timestamp ?? new Date().toISOString() });
    if (!clean) throw new DocumentError("Invalid Trace entry: it needs an agent and a valid time");
    this.#entries.push(clean);
    return this;
  }

  clone(): Trace {
    return new Trace([...this.#entries]);
  }

  /** All entries of both in time order, each once; at the same time this trace's come first, in the order they had. */
  merge(other: Trace): this {
    const unique = new Map<string, TraceEntry>();
    for (const entry of [...this.#entries, ...other.#entries]) {
      const identity = JSON.stringify([entry.timestamp, entry.agent, entry.action, entry.briefId]);
      if (!unique.has(identity)) unique.set(identity, entry);
    }
    this.#entries = unique
      .values()
      .map((entry) => ({ entry, at: Date.parse(entry.timestamp) }))
      .toArray()
      .sort((a, b) => a.at - b.at)
      .map(({ entry }) => entry);
    return this;
  }

  /** The text of trace.md, empty without entries. Texts of two traces can be joined: the file may be written by appending. */
  toString(): string {
    return this.#entries.map(renderEntry).join("");
  }
}

function renderEntry({ agent, timestamp, action, briefId }: TraceEntry): string {
  const head = `- **Agent**: \`${agent}\` @ \`${timestamp}\`\n  - **Action**: ${action}\n`;
  return briefId === undefined ? head : `${head}  - **Brief**: \`${briefId}\`\n`;
}

function readEntries(text: string): TraceEntry[] {
  const found: { agent: string; timestamp: string; action?: string; briefId?: string }[] = [];
  for (const line of text.split("\n")) {
    const head = HEAD.exec(line);
    if (head?.[1] && head[2]) {
      found.push({ agent: head[1], timestamp: head[2] });
      continue;
    }
    const current = found.at(-1);
    if (!current) continue;
    // The first line of its kind counts; later ones would be somebody else's words under this entry.
    current.action ??= ACTION.exec(line)?.[1];
    current.briefId ??= BRIEF.exec(line)?.[1];
  }
  return found.map((raw) => toEntry({ ...raw, action: raw.action ?? "" })).filter((entry) => entry !== null);
}

/** The entry as it is kept and written, or null without an agent or a valid time. */
function toEntry(raw: TraceEntry): TraceEntry | null {
  const agent = codeText(raw.agent);
  const timestamp = codeText(raw.timestamp);
  const briefId = codeText(raw.briefId ?? "");
  if (agent === "" || Number.isNaN(Date.parse(timestamp))) return null;
  return Object.freeze({ agent, action: oneLine(raw.action), ...(briefId === "" ? {} : { briefId }), timestamp });
}

function oneLine(text: string): string {
  return text.toWellFormed().replace(NOT_ONE_LINE, " ").trim();
}

/** For a code span, which a back-tick would end. */
function codeText(text: string): string {
  return oneLine(text.replaceAll("`", "'"));
}
