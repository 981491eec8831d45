// The stores of several processes: PostgreSQL behind them all, and what makes the processes one installation: who is alive, the doorbell,
// lanes of rows. The state folder keeps what belongs to its machine: workspaces, memory, scratch, keys.
import { readFileSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { AppError, errorText } from "../core/errors.ts";
import type { Logger } from "../core/logger.ts";
import { createByteRows } from "../stores/byte-rows.ts";
import { createDocumentRows } from "../stores/document-rows.ts";
import type { Lock } from "../stores/lock.ts";
import { LOCK } from "../stores/lock.ts";
import { createBell } from "../stores/postgres/bell.ts";
import { openPostgres, type PostgresDatabase } from "../stores/postgres/database.ts";
import { createLaneJobs, type LaneJobs } from "../stores/postgres/lane-jobs.ts";
import { migrate } from "../stores/postgres/migrate.ts";
import { refuseMarked } from "../stores/postgres/move-mark.ts";
import { createMembership, type Membership } from "../stores/postgres/nodes.ts";
import { isAway } from "../stores/postgres/reach.ts";
import { createSharedTranscripts } from "../stores/postgres/transcripts.ts";
import { holdStateFolder } from "../stores/state-folder.ts";
import type { SharedOptions } from "./installation.ts";
import { createParts, openingOf, type StoreDeps, type Stores } from "./store-parts.ts";

/** Throws AppError("state") in words when the database can't be used. */
export async function openShared(deps: StoreDeps & { readonly shared: SharedOptions }, lock: Lock): Promise<Stores> {
  const { shared, stateDir, clock, bus, log, secrets, bootId } = deps;
  const redact = (text: string): string => secrets.redact(text);
  const folder = holdStateFolder(stateDir, [{ name: LOCK }]);
  const { steady } = shared;
  // Who has left owns nothing any more; what of it still tries to write is refused, and that is no reason for an alarm.
  let hasLeft = false;
  const onLost = (): void => {
    if (!hasLeft) shared.onLost();
  };
  const wait = <T>(open: () => Promise<T>): Promise<T> => reachable(open, log);
  const db = await wait(() =>
    openPostgres({
      ...{ url: shared.url, poolSize: shared.poolSize, log, steady, redact, name: `herald ${shared.nodeName ?? hostname()}` },
      ...(shared.leaseMs === undefined ? {} : { leaseMs: shared.leaseMs }),
      onEvents: (events) => events.forEach(bus.emit),
      onChange: () => bus.emit({ type: "folder.changed" }),
      onSlow: (ms) => log.warn({ ms }, "a transaction took long"),
      onLost,
    }),
  );
  try {
    await wait(() => migrate(db, log));
    // Said here in a sentence; what decides is the same question when this process becomes one of the living.
    await wait(() => refuseMarked(db));
    const jobs = (lane: string): LaneJobs => createLaneJobs({ db, lane, bootId, now: () => clock.now() });
    const places = jobs("subagent");
    const parts = createParts({
      ...deps,
      db,
      onQueued: (tx, run) => places.ring(tx, { id: run.id, group: run.requesterKey, isFront: false }),
    });
    const nodeName = shared.nodeName ?? hostname();
    const last = lastOn(stateDir);
    const membership = createMembership({
      ...{ predecessor: last.id, db, clock, log, bootId, steady, name: nodeName, version: shared.version, role: shared.role },
      ...{ agents: shared.agents, limits: shared.limits, denies: shared.denies, onLost },
      ...(shared.leaseMs === undefined ? {} : { leaseMs: shared.leaseMs }),
      onGone(ids) {
        log.warn({ nodes: ids }, "another process is gone; its work is taken up");
        bus.emit({ type: "duty.free" });
      },
    });
    const members: Membership = {
      ...membership,
      enter: () => membership.enter().then(() => last.keep(bootId)),
      leave() {
        hasLeft = true;
        return membership.leave();
      },
    };
    return {
      ...parts,
      db,
      transcripts: createSharedTranscripts({
        ...{ db, log, redact, now: () => clock.now(), addressOf: shared.addressOf },
        opening: openingOf(parts, log),
      }),
      ...{ sessionDocuments: createDocumentRows({ db, clock }), attachmentBytes: createByteRows({ db, clock }) },
      nodes: members,
      installation: {
        ...{ db, nodeName, role: shared.role, members, bell: createBell({ db, bus, clock, log, bootId, steady }), jobs },
        keep: (name, first) => keep(db, name, first),
        whyStranded: async (agentId) =>
          (await members.list()).some((node) => node.agents.includes(agentId)) ? null : shared.whereIs(agentId),
      },
      problem: () => folder.problem() ?? db.problem(),
      async close() {
        await db.close();
        lock.release();
      },
    };
  } catch (error) {
    await db.close();
    throw error;
  }
}

const NODE_ID = "node-id";

/**
 * Who worked on this folder last. Its lock is ours, so that one is gone: killed and started again, a process goes on at once with what it
 * had begun, where others wait until its lease is over.
 */
function lastOn(stateDir: string): { readonly id: string | null; keep(id: string): void } {
  const path = join(stateDir, NODE_ID);
  let id: string | null = null;
  try {
    id = readFileSync(path, "utf8").trim();
  } catch {
    // The first one here.
  }
  return { id, keep: (next) => writeFileSync(path, `${next}\n`, { mode: 0o600 }) };
}

async function keep(db: PostgresDatabase, name: string, first: () => string): Promise<string> {
  const known = async (): Promise<string | null> =>
    (await db.get<{ value: string }>("SELECT value FROM kept WHERE name = ?", name))?.value ?? null;
  const value = await known();
  if (value !== null) return value;
  await db.transaction([], (tx) => tx.run("INSERT INTO kept (name, value) VALUES (?, ?) ON CONFLICT (name) DO NOTHING", name, first()));
  return (await known()) ?? first();
}

/** A start failed because PostgreSQL went away in its middle: it may be back in a moment. */
export const wentAway = (error: unknown): boolean => (error instanceof AppError ? error.code === "storage" : isAway(error));

const TRY_EVERY_MS = 1_000;
const SAY_EVERY_MS = 30_000;

/** A server that is not there yet is waited for: after a power cut everything starts at once, in any order. */
async function reachable<T>(open: () => Promise<T>, log: Logger): Promise<T> {
  for (let saidAt = Number.NEGATIVE_INFINITY; ; ) {
    try {
      return await open();
    } catch (error) {
      if (error instanceof AppError) throw error;
      if (!isAway(error)) throw new AppError("state", `PostgreSQL (store.url) can't be used: ${errorText(error)}.`);
      if (performance.now() - saidAt > SAY_EVERY_MS) {
        saidAt = performance.now();
        log.warn({ reason: errorText(error) }, "PostgreSQL (store.url) can't be used yet; waiting for it");
      }
      await new Promise((resolve) => setTimeout(resolve, TRY_EVERY_MS));
    }
  }
}
