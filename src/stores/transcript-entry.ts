// One line of a transcript, as JSON. The shapes a reader may meet, and the only way to make a line or read one.
import type { Usage } from "../core/usage.ts";

export interface TranscriptHeader {
  readonly type: "session";
  readonly version: 1;
  readonly id: string;
  readonly at: string;
  readonly key: string;
  readonly agentId: string;
  /** Key of the requester, for a child. */
  readonly parent: string | null;
}

export type EntryBody =
  | {
      readonly type: "message";
      readonly role: "user";
      readonly text: string /** Who wrote it: a person, a requester, the runtime. */;
      readonly from: string;
    }
  | {
      readonly type: "message";
      readonly role: "assistant";
      readonly text: string;
      readonly model: string;
      readonly extras?: Readonly<Record<string, unknown>>;
      readonly usage?: Usage | null;
      /** Calls that follow as entries of their own. 0 = this ended the turn. */
      readonly calls: number;
      /** Cut off in the middle: aborted, timed out, failed. */
      readonly partial?: boolean;
    }
  | { readonly type: "tool_call"; readonly callId: string; readonly name: string; readonly args: unknown; readonly invalid?: string }
  | { readonly type: "tool_result"; readonly callId: string; readonly name: string; readonly text: string; readonly isError: boolean }
  /** Something the model should know that nobody said: a child's result, a restart. */
  | { readonly type: "note"; readonly text: string; readonly about?: string }
  | {
      readonly type: "compaction";
      readonly summary: string /** Id of the first entry that is still shown as it was. */;
      readonly keptFrom: string | null;
    };

/** `phase: "announce"` marks the announce step, which is no part of the child's own conversation. */
export type Entry = EntryBody & { readonly id: string; readonly parentId: string | null; readonly at: string; readonly phase?: "announce" };

export const isHeader = (line: string): boolean => line.startsWith('{"type":"session"');

const ENTRY_TYPES = new Set(["message", "tool_call", "tool_result", "note", "compaction"]);
const TEXT_FIELD: Record<string, string> = {
  message: "text",
  tool_call: "callId",
  tool_result: "text",
  note: "text",
  compaction: "summary",
};

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
  if (typeof entry.id !== "string" || typeof entry.type !== "string" || !ENTRY_TYPES.has(entry.type)) return null;
  return typeof entry[TEXT_FIELD[entry.type] ?? "text"] === "string" ? (value as Entry) : null;
}
