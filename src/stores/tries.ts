// Work that an earlier process left unfinished may be what ended it. Whoever takes such work up writes the try down first,
// or a command that kills the process would kill every start for ever; after MAX_DEATHS it is given up instead, in words, and
// after MAX_WORDLESS without. Rows that count for themselves do so: a message its attempts (inbox), a run its crashes (runs).
// What is tried for the first time writes nothing here, so an ordinary day costs nothing. A send is not counted: nobody can be
// told that it was given up, and its text was rendered, which is what could be deadly about it, before it came into the outbox.
import type { Clock } from "../core/clock.ts";
import { type Database, RELAXED } from "./database.ts";

/** So many processes may end at the same piece of work. */
export const MAX_DEATHS = 3;
/**
 * So many before not even the words about giving it up are tried any more. Far apart from the other: a kill from outside looks
 * the same, and three or four of those in a row, at a machine that is slow to start, must not make anybody wait for ever.
 */
export const MAX_WORDLESS = 20;

export interface Tries {
  /** Survives kill -9 at once. Returns how many processes have ended before this work did; the one that left it behind is the first. */
  begin(work: string): Promise<number>;
  /** It came to its end, well or not, and the process is still there. */
  end(work: string): Promise<void>;
  /** Forgets what was begun before this time and never heard of again. */
  purge(before: number): Promise<void>;
}

export function createTries({ db, clock }: { db: Database; clock: Clock }): Tries {
  return {
    begin: (work) =>
      db.transaction(
        [],
        async (tx) => {
          const sql = `INSERT INTO tries (work, deaths, at) VALUES (?, 1, ?)
          ON CONFLICT (work) DO UPDATE SET deaths = tries.deaths + 1, at = excluded.at RETURNING deaths`;
          return (await tx.get<{ deaths: number }>(sql, work, clock.now()))?.deaths ?? 1;
        },
        RELAXED,
      ),
    async end(work) {
      await db.transaction([], (tx) => tx.run("DELETE FROM tries WHERE work = ?", work), RELAXED);
    },
    async purge(before) {
      await db.transaction([], (tx) => tx.run("DELETE FROM tries WHERE at < ?", before));
    },
  };
}
