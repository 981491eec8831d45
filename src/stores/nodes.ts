// Processes that are alive, by boot id. Work that is under way carries the id of whoever works on it (`owner`: a run that runs, a
// message that is answered, a part that is sent); work whose owner is not among these is taken up by whoever looks next
// (app/life.ts), at its start and later. Alone on a state folder a process is the only one, because it holds the folder's lock;
// several of them are in postgres/nodes.ts.
import type { Clock } from "../core/clock.ts";
import type { NodeRole } from "../core/node-role.ts";
import type { Database } from "./database.ts";

/** A process as people see it. */
export interface NodeView {
  readonly id: string;
  readonly name: string;
  readonly version: string;
  readonly role: NodeRole;
  /** The agents it can run. */
  readonly agents: readonly string[];
  /** How many jobs each lane may have, by its settings. */
  readonly limits: Readonly<Record<string, number>>;
  /** Tools that its settings deny everybody. */
  readonly denies: readonly string[];
  readonly startedAt: number;
  readonly seenAt: number;
  /** How much of each lane it works on now. */
  readonly load: Readonly<Record<string, number>>;
  /** It does what only one may do: it receives, routes and delivers. */
  readonly isFront: boolean;
}

export interface Nodes {
  /** This process is alive from now on. */
  enter(): Promise<void>;
  /** It has ended in an orderly way: nobody needs to wait until it is missed. */
  leave(): Promise<void>;
  /** All that are alive; empty where there can be only one. */
  list(): Promise<NodeView[]>;
  /** Boot ids of all that are alive. */
  alive(): Promise<ReadonlySet<string>>;
}

/**
 * SQL, of a row that is under way: nobody alive works on it. Counted, because PostgreSQL makes a join of NOT EXISTS: of two that take the
 * same row over, the one that had to wait would be held against the owner it saw first, and take it over once more.
 */
export const orphaned = (table: string): string => `(SELECT count(*) FROM nodes WHERE nodes.id = ${table}.owner) = 0`;

export function createNodes({ db, clock, bootId }: { db: Database; clock: Clock; bootId: string }): Nodes {
  return {
    enter: () =>
      db.transaction([], async (tx) => {
        await tx.run("DELETE FROM nodes");
        await tx.run("INSERT INTO nodes (id, started_at) VALUES (?, ?)", bootId, clock.now());
      }),
    leave: async () => {},
    list: async () => [],
    alive: async () => new Set([bootId]),
  };
}
