// Briefs of child sessions, one per child and requester (BF3), and every change of them (WB5): a brief that was replaced or taken back can
// still be read. Rows hold the brief as JSON; what it means and how it is shown is subagents/documents/briefing.ts. The file BRIEF.md is
// made from these rows.
import type { Clock } from "../core/clock.ts";
import type { Database, Tx } from "./database.ts";

export interface BriefRow {
  readonly requesterKey: string;
  readonly appliedAt: number;
  /** As it was given; the reader checks it again. */
  readonly brief: unknown;
}

export interface BriefChange {
  readonly id: number;
  /** Whose brief; null: all there were. */
  readonly requesterKey: string | null;
  /** Null: taken back. */
  readonly brief: unknown;
  /** Whose brief it took the place of; null: nobody else's. */
  readonly replaces: string | null;
  readonly by: string;
  readonly at: number;
}

export interface Briefs {
  /** Replaces the whole brief this requester gave before, and that of `replaces` with it. */
  put(tx: Tx, sessionId: string, given: GivenBrief): Promise<void>;
  /** Oldest first. */
  list(sessionId: string): Promise<BriefRow[]>;
  /** One requester's, or all of the session's with null. Returns how many there were. */
  remove(tx: Tx, sessionId: string, requesterKey: string | null, by: string): Promise<number>;
  /** The newest changes, oldest first. */
  changes(sessionId: string, limit: number): Promise<BriefChange[]>;
  /** The id of the last change; 0: there was none. Grows with each. */
  version(sessionId: string): Promise<number>;
  /** Briefs and changes, with all their words. */
  forget(tx: Tx, sessionId: string): Promise<void>;
}

export interface GivenBrief {
  readonly requesterKey: string;
  readonly brief: unknown;
  readonly by: string;
  readonly replaces: string | null;
}

interface Stored {
  requester_key: string;
  applied_at: number;
  brief: string;
}

interface StoredChange {
  id: number;
  requester_key: string | null;
  brief: string | null;
  replaces: string | null;
  changed_by: string;
  at: number;
}

export function createBriefs({ db, clock }: { db: Database; clock: Clock }): Briefs {
  const note = (tx: Tx, sessionId: string, change: Omit<BriefChange, "id" | "at" | "brief">, brief: string | null) =>
    tx.run(
      "INSERT INTO brief_changes (session_id, requester_key, brief, replaces, changed_by, at) VALUES (?, ?, ?, ?, ?, ?)",
      ...[sessionId, change.requesterKey, brief, change.replaces, change.by, clock.now()],
    );
  const take = (tx: Tx, sessionId: string, requesterKey: string | null): Promise<number> =>
    requesterKey === null
      ? tx.run("DELETE FROM briefs WHERE session_id = ?", sessionId)
      : tx.run("DELETE FROM briefs WHERE session_id = ? AND requester_key = ?", sessionId, requesterKey);
  return {
    async put(tx, sessionId, { requesterKey, brief, by, replaces }) {
      const json = JSON.stringify(brief);
      const isReplaced = replaces !== null && (await take(tx, sessionId, replaces)) > 0;
      await tx.run(
        `INSERT INTO briefs (session_id, requester_key, brief, applied_at) VALUES (?, ?, ?, ?)
         ON CONFLICT (session_id, requester_key) DO UPDATE SET brief = excluded.brief, applied_at = excluded.applied_at`,
        ...[sessionId, requesterKey, json, clock.now()],
      );
      await note(tx, sessionId, { requesterKey, by, replaces: isReplaced ? replaces : null }, json);
    },
    list: async (sessionId) =>
      (
        await db.all<Stored>(
          "SELECT requester_key, applied_at, brief FROM briefs WHERE session_id = ? ORDER BY applied_at, requester_key",
          sessionId,
        )
      ).map((row) => ({ requesterKey: row.requester_key, appliedAt: row.applied_at, brief: JSON.parse(row.brief) as unknown })),
    async remove(tx, sessionId, requesterKey, by) {
      const removed = await take(tx, sessionId, requesterKey);
      if (removed > 0) await note(tx, sessionId, { requesterKey, by, replaces: null }, null);
      return removed;
    },
    changes: async (sessionId, limit) =>
      (await db.all<StoredChange>("SELECT * FROM brief_changes WHERE session_id = ? ORDER BY id DESC LIMIT ?", sessionId, limit))
        .map(toChange)
        .reverse(),
    version: async (sessionId) =>
      (await db.get<{ id: number | null }>("SELECT max(id) AS id FROM brief_changes WHERE session_id = ?", sessionId))?.id ?? 0,
    async forget(tx, sessionId) {
      await take(tx, sessionId, null);
      await tx.run("DELETE FROM brief_changes WHERE session_id = ?", sessionId);
    },
  };
}

const toChange = (row: StoredChange): BriefChange => ({
  ...{ id: row.id, requesterKey: row.requester_key, replaces: row.replaces, by: row.changed_by, at: row.at },
  brief: row.brief === null ? null : (JSON.parse(row.brief) as unknown),
});
