// The inbox a channel records into, in memory: for tests of a channel without the rest.
import type { InboxSink } from "../../src/core/message.ts";

export interface MemoryInbox extends InboxSink {
  readonly rows: Map<string, unknown>;
  /** Every put refuses until set back, as a full disk does. */
  broken: boolean;
  refused: number;
}

export function createMemoryInbox(now: () => number = Date.now): MemoryInbox {
  const rows = new Map<string, unknown>();
  let stored: { value: string; at: number } | null = null;
  const inbox: MemoryInbox = {
    rows,
    broken: false,
    refused: 0,
    async put(updates, cursor) {
      if (inbox.broken) {
        inbox.refused++;
        throw Object.assign(new Error("database or disk is full"), { code: "ERR_SQLITE_ERROR" });
      }
      // As in the database: what can't be JSON can't be stored, and a known id changes nothing.
      for (const { externalId, raw } of updates) if (!rows.has(externalId)) rows.set(externalId, JSON.parse(JSON.stringify(raw)));
      if (cursor !== undefined) stored = { value: cursor, at: now() };
    },
    cursor: async () => stored,
  };
  return inbox;
}
