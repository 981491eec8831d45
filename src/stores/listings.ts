// What the numbers of the last `/subagents list` meant, per session, so that `stop 2` means the same run until the next list.
import type { Clock } from "../core/clock.ts";
import type { Database, Tx } from "./database.ts";

export interface Listings {
  /** From now on number n of this session means runIds[n-1]. */
  save(tx: Tx, sessionKey: string, runIds: readonly string[]): Promise<void>;
  find(sessionKey: string): Promise<string[]>;
}

export function createListings({ db, clock }: { db: Database; clock: Clock }): Listings {
  return {
    async save(tx, sessionKey, runIds) {
      await tx.run(
        `INSERT INTO listings (session_key, run_ids, at) VALUES (?, ?, ?)
         ON CONFLICT (session_key) DO UPDATE SET run_ids = excluded.run_ids, at = excluded.at`,
        sessionKey,
        JSON.stringify(runIds),
        clock.now(),
      );
    },
    async find(sessionKey) {
      const row = await db.get<{ run_ids: string }>("SELECT run_ids FROM listings WHERE session_key = ?", sessionKey);
      return row === undefined ? [] : (JSON.parse(row.run_ids) as string[]);
    },
  };
}
