// Processes that are alive, by boot id. Work that is under way carries the id of whoever works on it (`owner`: a run that runs, a
// message that is answered, a part that is sent); work whose owner is not among these is taken up by whoever looks next
// (app/life.ts), at its start and later. Today one process works on a state folder, and the folder's lock says that it is alone.
import type { Clock } from "../core/clock.ts";
import type { Database } from "./database.ts";

export interface Nodes {
  /** This process is alive from now on, and no other: it holds the lock. */
  enter(): Promise<void>;
}

/** SQL, of a row that is under way: nobody alive works on it. */
export const orphaned = (table: string): string => `NOT EXISTS (SELECT 1 FROM nodes WHERE nodes.id = ${table}.owner)`;

export function createNodes({ db, clock, bootId }: { db: Database; clock: Clock; bootId: string }): Nodes {
  return {
    enter: () =>
      db.transaction([], async (tx) => {
        await tx.run("DELETE FROM nodes");
        await tx.run("INSERT INTO nodes (id, started_at) VALUES (?, ?)", bootId, clock.now());
      }),
  };
}
