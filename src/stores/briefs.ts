// Briefs of child sessions, one per child and requester (BF3). Rows hold the brief as JSON; what it means and how it is
// shown is subagents/documents/briefing.ts. The file BRIEF.md is made from these rows.
import type { Clock } from "../core/clock.ts";
import type { Database, Tx } from "./database.ts";

export interface BriefRow {
  readonly requesterKey: string;
  readonly appliedAt: number;
  /** As it was given; the reader checks it again. */
  readonly brief: unknown;
}

export interface Briefs {
  /** Replaces the whole brief this requester gave before. */
  put(tx: Tx, sessionId: string, requesterKey: string, brief: unknown): Promise<void>;
  /** Oldest first. */
  list(sessionId: string): Promise<BriefRow[]>;
  /** One requester's, or all of the session's with null. Returns how many there were. */
  remove(tx: Tx, sessionId: string, requesterKey: string | null): Promise<number>;
}

interface Stored {
  requester_key: string;
  applied_at: number;
  brief: string;
}

export function createBriefs({ db, clock }: { db: Database; clock: Clock }): Briefs {
  return {
    async put(tx, sessionId, requesterKey, brief) {
      await tx.run(
        `INSERT INTO briefs (session_id, requester_key, brief, applied_at) VALUES (?, ?, ?, ?)
         ON CONFLICT (session_id, requester_key) DO UPDATE SET brief = excluded.brief, applied_at = excluded.applied_at`,
        sessionId,
        requesterKey,
        JSON.stringify(brief),
        clock.now(),
      );
    },
    list: async (sessionId) =>
      (
        await db.all<Stored>(
          "SELECT requester_key, applied_at, brief FROM briefs WHERE session_id = ? ORDER BY applied_at, requester_key",
          sessionId,
        )
      ).map((row) => ({ requesterKey: row.requester_key, appliedAt: row.applied_at, brief: JSON.parse(row.brief) as unknown })),
    remove: async (tx, sessionId, requesterKey) =>
      requesterKey === null
        ? await tx.run("DELETE FROM briefs WHERE session_id = ?", sessionId)
        : await tx.run("DELETE FROM briefs WHERE session_id = ? AND requester_key = ?", sessionId, requesterKey),
  };
}
