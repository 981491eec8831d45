// Work that an earlier process left unfinished may be what ended it. Whoever takes such work up writes the try down first,
// or a command that kills the process would kill every start for ever; after MAX_DEATHS it is given up instead, in words.
// Rows that count for themselves do so: a message its attempts (inbox), a run its crashes (runs). What is tried for the first
// time writes nothing here, so an ordinary day costs nothing.
import type { Clock } from "../core/clock.ts";
import type { Database } from "./database.ts";

/** So many processes may end at the same piece of work. */
export const MAX_DEATHS = 3;

export interface Tries {
  /** Survives kill -9 at once. Returns how many processes have ended before this work did; the one that left it behind is the first. */
  begin(work: string): number;
  /** It came to its end, well or not, and the process is still there. */
  end(work: string): void;
  /** Forgets what was begun before this time and never heard of again. */
  purge(before: number): void;
}

export function createTries({ db, clock }: { db: Database; clock: Clock }): Tries {
  return {
    begin: (work) =>
      db.relaxed(() => {
        const sql = `INSERT INTO tries (work, deaths, at) VALUES (?, 1, ?)
          ON CONFLICT (work) DO UPDATE SET deaths = deaths + 1, at = excluded.at RETURNING deaths`;
        return db.get<{ deaths: number }>(sql, work, clock.now())?.deaths ?? 1;
      }),
    end(work) {
      db.relaxed(() => db.run("DELETE FROM tries WHERE work = ?", work));
    },
    purge(before) {
      db.run("DELETE FROM tries WHERE at < ?", before);
    },
  };
}
