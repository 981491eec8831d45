// One line of a transcript, as JSON. The shapes a reader may meet, and the only way to make a line or read one.
import { type Attachment, isPicture } from "../core/attachment.ts";
import { newId } from "../core/ids.ts";
import type { InputCount, Usage } from "../core/usage.ts";

export interface TranscriptHeader {
  readonly type: "session";
  readonly version: 1;
  readonly id: string;
  readonly timestamp: string;
  readonly key: string;
  /** Key of the requester, for a child. */
  readonly parent: string | null;
}

/** How a provider ended an answer that is no whole one. */
export type CutShort = "length" | "filter";

export type EntryBody =
  | {
      readonly type: "message";
      readonly role: "user";
      readonly text: string /** Who wrote it: a person, a requester, the runtime. */;
      readonly from: string;
      /** What came with it: never the bytes. */
      readonly files?: readonly Attachment[];
    }
  | {
      readonly type: "message";
      readonly role: "assistant";
      readonly text: string;
      readonly model: string;
      readonly extras?: Readonly<Record<string, unknown>>;
      readonly usage?: Usage | null;
      /** What the provider counted for the request it answers, and which that was: what a budget's next hold begins from. */
      readonly counted?: InputCount;
      /** Calls that follow as entries of their own. 0 = this ended the turn. */
      readonly calls: number;
      /** Cut off in the middle: aborted, timed out, failed. */
      readonly partial?: boolean;
      /** The provider ended it there, and it is no whole answer. */
      readonly cut?: CutShort;
    }
  | { readonly type: "tool_call"; readonly callId: string; readonly name: string; readonly args: unknown; readonly invalid?: string }
  | { readonly type: "tool_result"; readonly callId: string; readonly name: string; readonly text: string; readonly isError: boolean }
  /** Something the model should know that nobody said: a child's result, a restart. */
  | { readonly type: "note"; readonly text: string; readonly about?: string }
  | {
      readonly type: "compaction";
      readonly summary: string /** Id of the first entry that is still shown as it was. */;
      readonly keptFrom: string | null;
      /** The summary holds those before it. Entries of earlier versions don't. */
      readonly carries?: true;
    }
  /** The person put another request in the place of one: from that entry on, all that stands before this line is set aside. */
  | { readonly type: "rewound"; readonly from: string };

/** `phase: "announce"` marks the announce step, which is no part of the child's own conversation. */
export type Entry = EntryBody & {
  readonly id: string;
  readonly parentId: string | null;
  readonly timestamp: string;
  readonly phase?: "announce";
};

/** `about` of notes that tell a model how something stands (agents/topics.ts): written down, or only their place held. */
export const TOLD_NOTE = "now:";
export const HELD_NOTE = "held:";
/** `about` of the note that says a request was stopped by the person, before the request's entry id. */
export const STOP_NOTE = "stop:";
const isAbout = (entry: Entry, what: string): boolean =>
  // A file may be damaged: it says what it likes there.
  entry.type === "note" && typeof entry.about === "string" && entry.about.startsWith(what);
export const isHeldNote = (entry: Entry): boolean => isAbout(entry, HELD_NOTE);
/** Such a note is the runtime talking to the model, and nobody else's business. */
export const isTopicNote = (entry: Entry): boolean => isHeldNote(entry) || isAbout(entry, TOLD_NOTE);

/** What was thought before these words, as far as it is kept: providers that want it back have it among their extras (models/wire.ts). */
export function thoughtsOf(entry: Entry): string {
  if (entry.type !== "message" || entry.role !== "assistant") return "";
  const parts = Object.values(entry.extras ?? {}).flatMap((extra) => {
    const { parts: found } = (extra ?? {}) as { parts?: unknown };
    return Array.isArray(found) ? found : [];
  });
  const texts = parts.flatMap((part: { type?: unknown; text?: unknown } | null) =>
    part?.type === "reasoning" && typeof part.text === "string" && part.text.trim() !== "" ? [part.text] : [],
  );
  return texts.join("\n\n");
}

/** Those of its files that a model can be shown. A file may be damaged: it says what it likes there. */
export const picturesOf = ({ files }: { readonly files?: readonly Attachment[] }): readonly Attachment[] =>
  Array.isArray(files)
    ? files.filter((file: Attachment) => typeof file?.id === "string" && isPicture(file) && file.unfit === undefined)
    : [];

export const isHeader = (line: string): boolean => line.startsWith('{"type":"session"');

type Fields = Readonly<Record<string, "string" | "number" | "boolean">>;

/** What an entry must hold, a message by its role and all others by their type: a flipped byte can leave good JSON of a bad shape. */
const MESSAGE_FIELDS: ReadonlyMap<unknown, Fields> = new Map<unknown, Fields>([
  ["user", { text: "string", from: "string" }],
  ["assistant", { text: "string", model: "string", calls: "number" }],
]);
const OTHER_FIELDS: ReadonlyMap<unknown, Fields> = new Map<unknown, Fields>([
  ["tool_call", { callId: "string", name: "string" }],
  ["tool_result", { callId: "string", name: "string", text: "string", isError: "boolean" }],
  ["note", { text: "string" }],
  ["compaction", { summary: "string" }],
  ["rewound", { from: "string" }],
]);

/** A line → an entry, or null when it is not one of the shapes we write. */
export function parseEntry(line: string): Entry | null {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    return null;
  }
  if (typeof value !== "object" || value === null) return null;
  const entry = value as Record<string, unknown>;
  const fields = entry.type === "message" ? MESSAGE_FIELDS.get(entry.role) : OTHER_FIELDS.get(entry.type);
  // Lines written by versions before the field had its present name.
  entry.timestamp ??= entry.at;
  if (fields === undefined || typeof entry.id !== "string" || typeof entry.timestamp !== "string") return null;
  for (const name in fields) if (typeof entry[name] !== fields[name]) return null;
  return value as Entry;
}

/** `id` may be given to make an append recognisable after a crash; else one is made. */
export type NewEntry = EntryBody & { readonly id?: string; readonly phase?: "announce" };

/** New entries as they are kept, one line each, behind the entry `lastId`. */
export function toLines(
  deps: { now(): number; redact(text: string): string },
  entries: readonly NewEntry[],
  lastId: string | null,
): { full: Entry[]; lines: string[] } {
  const timestamp = new Date(deps.now()).toISOString();
  let parentId = lastId;
  const lines: string[] = [];
  const full = entries.map((entry): Entry => {
    const made = { ...entry, id: entry.id ?? newId(), parentId, timestamp };
    parentId = made.id;
    const text = JSON.stringify(made);
    const redacted = deps.redact(text);
    lines.push(redacted);
    // A turn goes on with what a resumed one would read: no secret reaches a provider through a tool's result either.
    return redacted === text ? made : (JSON.parse(redacted) as Entry);
  });
  return { full, lines };
}
