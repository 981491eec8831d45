// Several processes, and which of them are alive. A lease without a time of day: each process lets its beat grow every few seconds, and
// whoever sees a beat stand still for the length of a lease, by its own clock that never goes back, deletes that row. The process
// itself counts from before its last renewal was sent, so it knows first. A server whose clock is set declares nobody dead.
//
// Dead is a deleted row, and the fence (database.ts) keeps the dead from writing. What they may still do is speak: a process that was
// frozen wakes up in the middle of a send. So it asks itself before everything that leaves it (`isValid`), and ends at once.
import type { Clock } from "../../core/clock.ts";
import { errorText } from "../../core/errors.ts";
import type { Logger } from "../../core/logger.ts";
import type { NodeRole } from "../../core/node-role.ts";
import type { Nodes, NodeView } from "../nodes.ts";
import type { PostgresDatabase } from "./database.ts";
import { refuseDuringMove } from "./move-mark.ts";

export interface Membership extends Nodes {
  /** It may still work and speak: its lease has not run out, as far as it can know. */
  isValid(): boolean;
  /** Renews its own lease, and ends those of others that are gone; until the signal. */
  run(signal: AbortSignal): Promise<void>;
  /** Its settings changed: others hear of it now, or with the next renewal. */
  follow(): Promise<void>;
  /** Takes a duty that only one may have, if nobody alive has it. True: it is this one's. */
  take(duty: string): Promise<boolean>;
}

export interface MembershipOptions {
  readonly db: PostgresDatabase;
  readonly clock: Clock;
  readonly log: Logger;
  readonly bootId: string;
  readonly name: string;
  readonly version: string;
  readonly role: NodeRole;
  readonly leaseMs?: number;
  /** Who is certainly gone, however fresh its row looks: this process has what only one can hold, and that one had it before. */
  readonly predecessor?: string | null;
  steady(): number;
  agents(): readonly string[];
  denies(): readonly string[];
  limits(): Readonly<Record<string, number>>;
  /** Its lease is over: somebody else may have its work by now. */
  onLost(): void;
  /** Others were declared dead. */
  onGone(ids: readonly string[]): void;
}

/** With the look at others and the taking up, work of a dead process goes on elsewhere within 15 s (SO3). */
const LEASE_MS = 10_000;
/** The server's clock may drift from ours; more between two renewals means that somebody set one of them. */
const STEP_MS = 30_000;

interface Watched {
  beat: number;
  since: number;
}

export function createMembership(options: MembershipOptions): Membership {
  const { db, clock, log, bootId, steady, leaseMs = LEASE_MS } = options;
  const settings = (): string[] => [options.agents(), options.limits(), options.denies()].map((value) => JSON.stringify(value));
  let validUntil = 0;
  let isLost = false;
  const lose = (): void => {
    if (isLost) return;
    isLost = true;
    options.onLost();
  };
  const watched = new Map<string, Watched>();
  const isValid = (): boolean => !isLost && (validUntil === 0 || steady() < validUntil);

  const renew = createRenewal(options, settings, (sentAt) => {
    validUntil = sentAt + leaseMs;
  });
  const bury = async (): Promise<void> => {
    const gone = await findGone(db, watched, bootId, leaseMs, steady);
    if (gone.length > 0) options.onGone(gone);
  };
  return {
    isValid,
    async enter() {
      const sentAt = steady();
      const { name, version, role, predecessor = null } = options;
      const isBuried = await db.transaction([], async (tx) => {
        await refuseDuringMove(tx, db.namespace);
        await tx.run(
          "INSERT INTO nodes (id, started_at, seen_at, name, version, role, agents, limits, denies) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
          ...[bootId, clock.now(), clock.now(), name, version, role, ...settings()],
        );
        // The server may not have noticed yet that a transaction of it is cut off; then its lease runs out like anybody's.
        const sql = "DELETE FROM nodes WHERE id IN (SELECT id FROM nodes WHERE id = ? FOR UPDATE SKIP LOCKED)";
        return predecessor !== null && (await tx.run(sql, predecessor)) === 1;
      });
      db.fence(bootId);
      validUntil = sentAt + leaseMs;
      if (isBuried && predecessor !== null) options.onGone([predecessor]);
    },
    async leave() {
      await db.transaction([], async (tx) => {
        await tx.run("DELETE FROM leaders WHERE owner = ?", bootId);
        await tx.run("DELETE FROM nodes WHERE id = ?", bootId);
        tx.emit({ type: "duty.free" });
      });
    },
    async run(signal) {
      // A timer of its own: whatever hangs, a process past its lease ends. One that was frozen comes here when it wakes.
      const watch = setInterval(() => isValid() || lose(), 100);
      try {
        while (!signal.aborted && !isLost) {
          try {
            if (!(await renew())) lose();
            await bury();
          } catch (error) {
            log.debug({ reason: errorText(error) }, "the lease could not be renewed yet");
          }
          await clock.sleep(leaseMs / 5, signal);
        }
      } finally {
        clearInterval(watch);
      }
    },
    async follow() {
      const sql = "UPDATE nodes SET agents = ?, limits = ?, denies = ? WHERE id = ?";
      try {
        await db.transaction([], (tx) => tx.run(sql, ...settings(), bootId));
      } catch (error) {
        log.debug({ reason: errorText(error) }, "changed settings are told with the next renewal");
      }
    },
    take: (duty) =>
      db.transaction([], async (tx) => {
        const sql = `INSERT INTO leaders (duty, owner) VALUES (?, ?) ON CONFLICT (duty) DO UPDATE SET owner = excluded.owner
          WHERE leaders.owner = excluded.owner OR NOT EXISTS (SELECT 1 FROM nodes WHERE nodes.id = leaders.owner)`;
        return (await tx.run(sql, duty, bootId)) === 1;
      }),
    list: () => list(db),
    alive: async () => new Set((await db.all<{ id: string }>("SELECT id FROM nodes")).map((row) => row.id)),
  };
}

/**
 * On a connection of its own: a pool that is empty, or a reach that waits a second, must not cost the lease. False: the row is gone.
 */
function createRenewal(
  { db, clock, log, bootId, steady }: MembershipOptions,
  settings: () => string[],
  onRenewed: (sentAt: number) => void,
) {
  let client: Awaited<ReturnType<PostgresDatabase["connections"]["single"]>> | null = null;
  let last: { readonly server: number; readonly steady: number } | null = null;
  const drop = (): void => {
    const broken = client;
    client = null;
    void broken?.end().catch(() => {});
  };
  const sayStep = (server: number, now: number): void => {
    const step = last === null ? 0 : server - last.server - (now - last.steady);
    last = { server, steady: now };
    if (Math.abs(step) > STEP_MS)
      log.warn(
        { stepMs: Math.round(step) },
        "the clock of the PostgreSQL server was set; leases don't depend on it, ages shown may be off",
      );
  };
  return async (): Promise<boolean> => {
    const sentAt = steady();
    try {
      client ??= await db.connections.single(drop);
      const { rows, rowCount } = await client.query<{ now: number }>(
        // Its settings, too: a server that was away when they changed hears of them when it is back.
        `UPDATE nodes SET beat = beat + 1, seen_at = $2, agents = $3, limits = $4, denies = $5 WHERE id = $1
         RETURNING extract(epoch FROM clock_timestamp())::float8 * 1000 AS now`,
        [bootId, clock.now(), ...settings()],
      );
      if (rowCount !== 1) return false;
      onRenewed(sentAt);
      sayStep(rows[0]?.now ?? 0, sentAt);
      return true;
    } catch (error) {
      drop();
      throw error;
    }
  };
}

/** Whose beat stood still for a whole lease, and whose row was deleted for it here. */
async function findGone(
  db: PostgresDatabase,
  watched: Map<string, Watched>,
  bootId: string,
  leaseMs: number,
  steady: () => number,
): Promise<string[]> {
  const rows = await db.all<{ id: string; beat: number }>("SELECT id, beat FROM nodes WHERE id <> ?", bootId);
  const now = steady();
  for (const id of [...watched.keys()]) if (!rows.some((row) => row.id === id)) watched.delete(id);
  const gone: string[] = [];
  for (const { id, beat } of rows) {
    const known = watched.get(id);
    if (known === undefined || known.beat !== beat) {
      watched.set(id, { beat, since: now });
      continue;
    }
    if (now - known.since < leaseMs) continue;
    // SKIP LOCKED: one that was frozen in the middle of a transaction holds its row; the next look takes it.
    const sql = `DELETE FROM nodes WHERE id IN (SELECT id FROM nodes WHERE id = ? AND beat = ? FOR UPDATE SKIP LOCKED)`;
    if ((await db.transaction([], (tx) => tx.run(sql, id, beat))) === 1) gone.push(id);
  }
  return gone;
}

export interface EmptyOptions extends Pick<MembershipOptions, "db" | "clock" | "steady"> {
  readonly leaseMs?: number;
  /** Told before it waits, how long at most. */
  onWait(ms: number): void;
}

/**
 * For who wants the database for itself and keeps newcomers out: waits until whoever is on record has shown that it lives, or is dead
 * and buried. Returns the name of one that lives, else null.
 */
export async function waitForNobody({ db, clock, steady, leaseMs = LEASE_MS, onWait }: EmptyOptions): Promise<string | null> {
  const look = (): Promise<{ id: string; name: string; beat: number }[]> => db.all("SELECT id, name, beat FROM nodes");
  const first = await look();
  if (first.length > 0) onWait(leaseMs);
  const watched = new Map<string, Watched>();
  for (let rows = first; rows.length > 0; rows = await look()) {
    const beating = rows.find(({ id, beat }) => first.find((one) => one.id === id)?.beat !== beat);
    if (beating !== undefined) return beating.name;
    await findGone(db, watched, "", leaseMs, steady);
    await clock.sleep(200);
  }
  return null;
}

interface Stored {
  id: string;
  name: string;
  version: string;
  role: NodeRole;
  agents: string;
  limits: string;
  denies: string;
  started_at: number;
  seen_at: number;
  main: number;
  subagent: number;
  front: number;
}

async function list(db: PostgresDatabase): Promise<NodeView[]> {
  const rows = await db.all<Stored>(
    `SELECT nodes.*, (SELECT count(*) FROM lane_jobs WHERE lane = 'main' AND owner = nodes.id) AS main,
       (SELECT count(*) FROM lane_jobs WHERE lane = 'subagent' AND owner = nodes.id) AS subagent,
       (SELECT count(*) FROM leaders WHERE owner = nodes.id) AS front
     FROM nodes ORDER BY name, started_at`,
  );
  return rows.map((row) => ({
    id: row.id,
    name: row.name,
    version: row.version,
    role: row.role,
    agents: JSON.parse(row.agents) as string[],
    limits: JSON.parse(row.limits) as Record<string, number>,
    denies: JSON.parse(row.denies) as string[],
    startedAt: row.started_at,
    seenAt: row.seen_at,
    load: { main: row.main, subagent: row.subagent },
    isFront: row.front > 0,
  }));
}
