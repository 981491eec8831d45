// What a compaction has to sum up: everything between the entry the last compaction kept and the border of the new one, also
// what lay outside of what the turn had read. Found page by page from the end, then read again from its beginning: a
// transcript may have 100 MB, and only a few entries of it are in memory at once. compact.ts → here → stores
import { setImmediate } from "node:timers/promises";
import { capText } from "../core/visible-text.ts";
import type { ChatMessage } from "../models/model.ts";
import { createRewinding } from "../stores/rewinding.ts";
import { type Entry, isTopicNote } from "../stores/transcript-entry.ts";
import type { TranscriptRef, Transcripts } from "../stores/transcripts.ts";
import { stoppedBy, toMessages } from "./context.ts";
import { charsOf } from "./fit.ts";

export interface Older {
  /** Positions in the transcript, from the oldest entry that is summed up to the first that is kept. */
  readonly from: number;
  readonly to: number;
  /** How many are summed up, how many before them are not, and how many stand before the entries in hand. */
  readonly messages: number;
  readonly leftOut: number;
  readonly unread: number;
  /** Those met on the way, oldest first. */
  readonly compactions: readonly Entry[];
  /** Id of a request that the person stopped → the note that says so. */
  readonly stopped: ReadonlyMap<string, string>;
  /** Ids of requests from which on all was set aside, up to the line that says so. */
  readonly rewound: ReadonlySet<string>;
}

interface Range {
  /** Id of the first entry to keep; null: none is kept. */
  readonly until: string | null;
  /** Id of the first entry in hand. */
  readonly inHand: string | null;
  /** What may be summed up at all; of more the newest. */
  readonly maxChars: number;
}

const PAGE_ENTRIES = 200;
/** Longest line in a request for a summary. */
const MAX_LINE = 4_000;
const MAX_ARGS = 500;

export async function surveyOlder(transcripts: Transcripts, ref: TranscriptRef, range: Range): Promise<Older> {
  const found = { from: 0, to: Number.MAX_SAFE_INTEGER, messages: 0, leftOut: 0, unread: 0 };
  const compactions: Entry[] = [];
  const stopped = new Map<string, string>();
  const rewound = new Set<string>();
  let chars = 0;
  let isOlder = range.until === null;
  let isUnread = false;
  for await (const { entry, position } of newestFirst(transcripts, ref, rewound)) {
    // Wherever it stands: a stop is noted with the message after it, which may be kept.
    const request = stoppedBy(entry);
    if (request !== null && entry.type === "note") stopped.set(request, entry.text);
    if (entry.type === "compaction") compactions.unshift(entry);
    else if (isOlder && isSummedUp(entry)) {
      chars += Math.min(charsOf([entry]), MAX_LINE);
      const fits = chars <= range.maxChars;
      if (fits) found.from = position;
      if (isCounted(entry)) found[fits ? "messages" : "leftOut"]++;
      if (isUnread && isCounted(entry)) found.unread++;
    }
    if (entry.id === range.inHand) isUnread = true;
    if (entry.id === range.until) {
      isOlder = true;
      found.to = position;
    }
    const last = compactions.at(-1);
    if (last?.type === "compaction" && (last.keptFrom === null || last.keptFrom === entry.id)) break;
  }
  return { ...found, compactions, stopped, rewound };
}

/** Said or done in the conversation itself, not how things stood or how it was announced. */
export const isSummedUp = (entry: Entry): boolean =>
  entry.type !== "compaction" && entry.type !== "rewound" && entry.phase !== "announce" && !isTopicNote(entry);
const isCounted = (entry: Entry): boolean => entry.type === "message" || entry.type === "note";

/** Those that still count; where what was set aside begins goes into `rewound`. */
export async function* newestFirst(
  transcripts: Transcripts,
  ref: TranscriptRef,
  rewound = new Set<string>(),
): AsyncGenerator<{ entry: Entry; position: number }> {
  const counts = createRewinding();
  for (let before: number | null = null; ; ) {
    const page = await transcripts.page(ref, { before, limit: PAGE_ENTRIES, fits: () => true });
    for (const one of page.entries.toReversed()) {
      if (one.entry.type === "rewound") rewound.add(one.entry.from);
      if (counts(one.entry)) yield one;
    }
    before = page.before;
    if (before === null) return;
    // A long history is many pages, and other sessions are at work meanwhile.
    await setImmediate();
  }
}

/** The conversation as plain lines, in pieces that one request each can hold. */
export async function* piecesOf(transcripts: Transcripts, ref: TranscriptRef, older: Older, maxChars: number): AsyncGenerator<string> {
  let lines: string[] = [];
  let chars = 0;
  for await (const line of linesOf(transcripts, ref, older)) {
    if (chars > 0 && chars + line.length > maxChars) {
      yield lines.join("\n");
      lines = [];
      chars = 0;
    }
    chars += line.length + 1;
    lines.push(line);
  }
  if (lines.length > 0) yield lines.join("\n");
}

async function* linesOf(transcripts: Transcripts, ref: TranscriptRef, { from, to, stopped, rewound }: Older): AsyncGenerator<string> {
  const told = new Set<string>();
  let aside: string | null = null;
  // A message with the calls, results and notes behind it: they are read together.
  let group: Entry[] = [];
  for await (const entry of transcripts.between(ref, from, to)) {
    if (rewound.has(entry.id)) aside = entry.id;
    if (entry.type === "rewound" && entry.from === aside) aside = null;
    if (aside !== null || !isSummedUp(entry) || told.has(stoppedBy(entry) ?? "")) continue;
    if (entry.type === "message") {
      yield* toMessages(group).map(toLine);
      group = [];
    }
    // Beside its request (ST4): its own place may be in the next piece, or among what is kept.
    const note = stopped.get(entry.id);
    if (note !== undefined) told.add(entry.id);
    group.push(note !== undefined && entry.type === "message" ? { ...entry, text: `${entry.text}\n${note}` } : entry);
  }
  yield* toMessages(group).map(toLine);
}

/** A message as a line of a request for a summary. */
export function toLine(message: ChatMessage): string {
  const text = capText(message.text, MAX_LINE, "left out");
  if (message.role === "user") return `Person: ${text}`;
  if (message.role === "tool") return `Result of ${message.name}: ${text}`;
  const calls = message.toolCalls.map((call) => ` [calls ${call.name} ${capText(JSON.stringify(call.args) ?? "", MAX_ARGS, "left out")}]`);
  return `Agent: ${text}${calls.join("")}`;
}
