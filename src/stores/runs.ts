// Run records. Every change is a compare-and-set on a transition that core/run.ts allows, so stop against finish
// has one winner; every query that a busy gateway asks has an index of its own (test/unit/stores asserts the plans).
import type { Address } from "../core/address.ts";
import type { CheckResult } from "../core/check.ts";
import type { Clock } from "../core/clock.ts";
import {
  advance,
  type DeliveryState,
  type EndState,
  type Run,
  type RunBudget,
  type RunEvent,
  type RunSections,
  type RunState,
  SUSPENDED,
  sourcesOf,
  untilOf,
  type Wait,
} from "../core/run.ts";
import type { Spend } from "../core/usage.ts";
import { parseColumn, RELAXED, type Tx } from "./database.ts";
import { addRun } from "./ledger.ts";
import { orphaned } from "./nodes.ts";
import { createRunLists, type RunListDeps, type RunLists, readRun } from "./run-lists.ts";
import { type RunOutcomes, runOutcomes } from "./run-outcomes.ts";
import { changed, createRunProgress, FRESH_LIMITS, type RunProgress } from "./run-progress.ts";
import { createInsert, type NewRun, type RunRow, runColumns } from "./run-row.ts";

export interface RunEnd {
  readonly as: EndState;
  readonly reason: string | null;
  readonly incomplete: boolean;
  readonly delivery: DeliveryState;
  readonly sections?: RunSections | null;
  /** What its checks found; left out: they were not run at its end. */
  readonly checks?: readonly CheckResult[];
  /** Its transcript is on disk, so the row needs to keep the task no longer. */
  readonly hasTranscript?: boolean;
}

export interface RunBegin {
  /** The child's, when the row keeps it until its transcript is there. */
  readonly firstMessage?: string | null;
  /** What has to come before it may begin, and how that reads. */
  readonly waits?: { readonly waits: readonly Wait[]; readonly doing: string };
}

/** What is asked for at each end and each delivery; the whole row has ten times as many columns, some of them long. */
export type RunGlance = Pick<Run, "id" | "state" | "generation" | "childKey" | "requesterKey" | "requesterRunId">;

export interface RunOpening {
  readonly childKey: string;
  readonly requesterKey: string;
  readonly text: string;
  readonly steps: number;
  readonly address: Address;
}

type StoredOpening = Omit<RunOpening, "address"> & { readonly id: string; readonly address: string };

const toOpening = (row: StoredOpening | undefined): RunOpening | null =>
  row === undefined ? null : { ...row, address: parseColumn<Address>(row.address, { table: "runs", id: row.id, column: "address" }) };

export interface Runs extends RunLists, RunOutcomes, RunProgress {
  /** Inserts as queued, or as waiting to begin. The caller has checked the limits in the same transaction. */
  insert(tx: Tx, run: NewRun, begin?: RunBegin): Promise<void>;
  /** What a child's transcript begins with, as long as its file may not be there (stores/transcripts.ts). */
  openingOf(sessionId: string): Promise<RunOpening | null>;
  get(id: string): Promise<Run | null>;
  glance(id: string): Promise<RunGlance | null>;
  /** Whose status message it is part of (LV1). */
  batchOf(id: string): Promise<string | null>;
  /** Where its transcript lies now; null: there is no such run. */
  archivedAs(id: string): Promise<Pick<Run, "archivedAt" | "archiveName"> | null>;
  findBySpawnKey(key: string): Promise<Run | null>;
  findByChildKey(key: string): Promise<Run | null>;
  findBySession(sessionId: string): Promise<Run | null>;
  /** queued → running. False when it is not queued any more. */
  start(id: string): Promise<boolean>;
  /**
   * running → waiting, until any of these comes true. False: it doesn't run any more. The caller has looked in the same
   * transaction that none of them has come yet.
   */
  wait(tx: Tx, id: string, waits: readonly Wait[], doing: string): Promise<boolean>;
  /** queued → waiting to begin, in the same way. False: it is queued no more. */
  putOff(tx: Tx, id: string, waits: readonly Wait[], doing: string): Promise<boolean>;
  /** waiting → running; the time it waited doesn't count against its limit, which one that waited to begin has all of. False: it doesn't wait any more. */
  wake(id: string): Promise<boolean>;
  /** → an end state. False when it had ended already; then nothing was written. */
  end(tx: Tx, id: string, end: RunEnd): Promise<boolean>;
  /** A finished run goes on in its session as the next generation, with all its time and steps. False when it is unfinished. */
  reopen(tx: Tx, run: Pick<Run, "id" | "requesterKey">): Promise<boolean>;
  /**
   * Found running although nobody alive works on it: it is this process's from now on, and a crash of the one before is noted. The
   * row stays running. False: somebody else was first.
   */
  putAside(tx: Tx, id: string, afterCrash: boolean): Promise<boolean>;
  /** It is taken up again after a restart. */
  countResume(tx: Tx, id: string): Promise<void>;
  addSpend(tx: Tx, id: string, spend: Spend): Promise<void>;
  /** Raised by a person. */
  setBudget(tx: Tx, id: string, budget: RunBudget): Promise<void>;
  /** `generation`: only as long as it is in that one. */
  setDelivery(tx: Tx, id: string, state: DeliveryState, reason?: string, generation?: number): Promise<void>;
  /** What became of its announcement, as long as it is in that generation: it needs nothing more, and the archive time counts. */
  settle(tx: Tx, run: Pick<Run, "id" | "generation">, state: DeliveryState, reason?: string): Promise<void>;
  /** The same of one whose delivery state is right already. */
  markSettled(tx: Tx, id: string): Promise<void>;
  setArchiveName(tx: Tx, id: string, name: string): Promise<void>;
  setArchived(tx: Tx, id: string): Promise<void>;
}

export interface RunDeps extends RunListDeps {
  readonly clock: Clock;
  /** Who works on what is started here. */
  readonly bootId: string;
  /** Where a lane is rows: its place in it, in the same transaction. */
  onQueued?(tx: Tx, run: Pick<Run, "id" | "requesterKey">): Promise<void>;
  /** What it leaves behind that means nothing without it, in the transaction that ends it. */
  onEnded?(tx: Tx, id: string): Promise<void>;
}

export function createRuns(deps: RunDeps): Runs {
  const { db, clock } = deps;
  const one = (row: RunRow | undefined): Run | null => (row === undefined ? null : readRun(row, deps.onDamaged));
  const insertInto = createInsert();
  const get = async (id: string): Promise<Run | null> => one(await db.get<RunRow>("SELECT * FROM runs WHERE id = ?", id));
  return {
    async insert(tx, run, { firstMessage = null, waits } = {}) {
      const now = clock.now();
      const waiting: RunRow =
        waits === undefined ? {} : { state: "waiting", waits: JSON.stringify(waits.waits), waiting_since: now, doing: waits.doing };
      const columns: RunRow = { ...runColumns(run, now), ...waiting, first_message: firstMessage };
      await tx.run(insertInto(columns), ...Object.values(columns));
      await addRun(tx, clock, { ...run, channel: run.address.channel });
      const state = waits === undefined ? "queued" : "waiting";
      tx.emit({ type: "run.changed", runId: run.id, state, batch: run.batch });
      if (waits === undefined) await queued(deps, tx, run);
    },
    openingOf: async (sessionId) =>
      toOpening(
        await db.get<StoredOpening>(
          `SELECT id, child_key AS "childKey", requester_key AS "requesterKey", first_message AS text, steps, address FROM runs
           WHERE child_key = (SELECT key FROM sessions WHERE id = ?) AND first_message IS NOT NULL`,
          sessionId,
        ),
      ),
    get,
    glance: async (id) =>
      (await db.get<RunGlance>(
        `SELECT id, state, generation, child_key AS "childKey", requester_key AS "requesterKey", requester_run_id AS "requesterRunId"
         FROM runs WHERE id = ?`,
        id,
      )) ?? null,
    batchOf: async (id) => (await db.get<{ batch: string | null }>("SELECT batch FROM runs WHERE id = ?", id))?.batch ?? null,
    archivedAs: async (id) =>
      (await db.get<Pick<Run, "archivedAt" | "archiveName">>(
        'SELECT archived_at AS "archivedAt", archive_name AS "archiveName" FROM runs WHERE id = ?',
        id,
      )) ?? null,
    findBySpawnKey: async (key) => one(await db.get<RunRow>("SELECT * FROM runs WHERE spawn_key = ?", key)),
    findBySession: async (sessionId) =>
      one(await db.get<RunRow>("SELECT * FROM runs WHERE child_key = (SELECT key FROM sessions WHERE id = ?)", sessionId)),
    findByChildKey: async (key) => one(await db.get<RunRow>("SELECT * FROM runs WHERE child_key = ?", key)),
    ...transitions(deps),
    ...fields(deps),
    ...createRunProgress(deps),
    ...createRunLists(deps),
    ...runOutcomes,
  };
}

/** What is set, and its parameters. */
type Change = [string, ...(string | number | null)[]];

/** For whoever doesn't know the state it is in. `generation`: only as long as it is in that one. */
async function update(tx: Tx, id: string, [set, ...params]: Change, generation?: number): Promise<void> {
  const sql = `UPDATE runs SET ${set} WHERE id = ? AND generation = coalesce(?, generation) RETURNING state`;
  const row = await tx.get<{ state: RunState }>(sql, ...params, id, generation ?? null);
  if (row !== undefined) changed(tx, id, row.state);
}

/** Nothing of a wait is left behind. */
const NO_WAIT = "waits = NULL, waiting_since = NULL, wake_at = NULL";

/** The one place where a state changes: only from a state the machine allows. `set`: what else, with its parameters. */
async function move(tx: Tx, id: string, event: RunEvent, [set, ...params]: Change): Promise<boolean> {
  const sources = sourcesOf(event);
  const target = advance(sources[0] ?? "queued", event);
  const marks = sources.map(() => "?").join(", ");
  const sql = `UPDATE runs SET state = ?, ${set} WHERE id = ? AND state IN (${marks})`;
  const moved = (await tx.run(sql, target, ...params, id, ...sources)) === 1;
  if (moved && target !== null) changed(tx, id, target);
  return moved;
}

/** What a run that goes on after its end begins with. */
const ANEW = `generation = generation + 1, resumes = 0, crashes = 0, started_at = NULL, deadline_at = NULL, ended_at = NULL, reason = NULL,
  incomplete = 0, plan = NULL, sections = NULL, checks = NULL, check_rounds = 0, data = NULL, misfits = NULL, delivery = 'none', delivery_reason = NULL, settled_at = NULL, archived_at = NULL, archive_name = NULL`;

async function queued({ onQueued }: RunDeps, tx: Tx, run: Pick<Run, "id" | "requesterKey">): Promise<void> {
  await onQueued?.(tx, run);
  tx.emit({ type: "run.queued", runId: run.id, requesterKey: run.requesterKey, isPlaced: onQueued !== undefined });
}

function transitions(deps: RunDeps): Pick<Runs, "start" | "wait" | "putOff" | "wake" | "end" | "reopen"> {
  const { db, clock, bootId } = deps;
  const wait = (type: "wait" | "putOff", ...[tx, id, waits, doing]: Parameters<Runs["wait"]>): Promise<boolean> => {
    const set = "owner = NULL, waits = ?, wake_at = ?, waiting_since = ?, doing = ?";
    return move(tx, id, { type }, [set, JSON.stringify(waits), wakeAt(waits), clock.now(), doing]);
  };
  return {
    // Nobody waits for this one: a power cut that takes it leaves a queued run, which starts from what its transcript has.
    start(id) {
      const set = `owner = ?, started_at = coalesce(started_at, ?), ${FRESH_LIMITS}`;
      return db.transaction([], (tx) => move(tx, id, { type: "start" }, [set, bootId, clock.now(), clock.now()]), RELAXED);
    },
    wait: (...waiting) => wait("wait", ...waiting),
    putOff: (...waiting) => wait("putOff", ...waiting),
    // Nobody waits for this one either: a power cut that takes it leaves one that waits and is rung again.
    wake(id) {
      const now = clock.now();
      // A clock that was set back has waited for nothing.
      const waited = "CASE WHEN ? > waiting_since THEN ? - waiting_since ELSE 0 END";
      const deadline = `CASE WHEN started_at IS NOT NULL THEN deadline_at + ${waited} WHEN timeout_ms > 0 THEN ? + timeout_ms END`;
      const set = `owner = ?, deadline_at = ${deadline}, started_at = coalesce(started_at, ?), ${NO_WAIT}, doing = NULL`;
      return db.transaction([], (tx) => move(tx, id, { type: "wake" }, [set, bootId, now, now, now, now]), RELAXED);
    },
    async end(tx, id, { as, reason, incomplete, delivery, sections, checks, hasTranscript }) {
      const set = `owner = NULL, ${NO_WAIT}, ended_at = ?, reason = ?, incomplete = ?, delivery = ?, sections = ?, checks = coalesce(?, checks), delivery_reason = NULL, doing = NULL${hasTranscript === true ? ", first_message = NULL" : ""}`;
      const text = sections == null ? null : JSON.stringify(sections);
      const found = checks === undefined ? null : JSON.stringify(checks);
      const moved = await move(tx, id, { type: "end", as }, [set, clock.now(), reason, incomplete ? 1 : 0, delivery, text, found]);
      if (!moved) return false;
      await deps.onEnded?.(tx, id);
      tx.emit({ type: "run.ended", runId: id, state: as });
      return true;
    },
    async reopen(tx, { id, requesterKey }) {
      const moved = await move(tx, id, { type: "reopen" }, [`queued_at = ?, ${ANEW}`, clock.now()]);
      if (moved) await queued(deps, tx, { id, requesterKey });
      return moved;
    },
  };
}

async function settled(tx: Tx, id: string, [set, ...params]: Change, generation?: number): Promise<void> {
  const sql = `UPDATE runs SET ${set} WHERE id = ? AND generation = coalesce(?, generation) AND ended_at IS NOT NULL RETURNING cleanup, state`;
  const row = await tx.get<{ cleanup: Run["cleanup"]; state: RunState }>(sql, ...params, id, generation ?? null);
  if (row === undefined) return;
  tx.emit({ type: "run.settled", runId: id, cleanup: row.cleanup });
  changed(tx, id, row.state);
}

type Fields = Pick<
  Runs,
  "setBudget" | "putAside" | "countResume" | "addSpend" | "setDelivery" | "settle" | "markSettled" | "setArchiveName" | "setArchived"
>;

function fields({ clock, bootId }: RunDeps): Fields {
  return {
    // Until somebody takes it up, another restart is nothing it could have caused.
    async putAside(tx, id, afterCrash) {
      const sql = `UPDATE runs SET owner = ?, crashes = crashes + ?, doing = ? WHERE id = ? AND state = 'running' AND ${orphaned("runs")}`;
      return (await tx.run(sql, bootId, afterCrash ? 1 : 0, SUSPENDED, id)) === 1;
    },
    async setBudget(tx, id, budget) {
      await update(tx, id, ["budget = ?", JSON.stringify(budget)]);
    },
    async countResume(tx, id) {
      await tx.run("UPDATE runs SET resumes = resumes + 1 WHERE id = ? AND state IN ('running', 'waiting')", id);
    },
    async addSpend(tx, id, { usage, costUsd }) {
      if (usage === null) return;
      await tx.run(
        `UPDATE runs SET cost_usd = CASE WHEN input IS NULL THEN ? ELSE cost_usd + ? END, input = coalesce(input, 0) + ?, output = coalesce(output, 0) + ?,
           cache_read = coalesce(cache_read, 0) + ?, cache_write = coalesce(cache_write, 0) + ? WHERE id = ?`,
        costUsd,
        costUsd,
        usage.input,
        usage.output,
        usage.cacheRead,
        usage.cacheWrite,
        id,
      );
    },
    async setDelivery(tx, id, state, reason, generation) {
      // Sent again after all: it is not settled any more. What is archived already stays so.
      const settled = "settled_at = CASE WHEN ? = 'pending' AND archive_name IS NULL THEN NULL ELSE settled_at END";
      const set = `delivery = ?, delivery_reason = ?, ${settled}`;
      await update(tx, id, [set, state, reason ?? null, state], generation);
    },
    settle: (tx, { id, generation }, state, reason) =>
      settled(tx, id, ["delivery = ?, delivery_reason = ?, settled_at = ?", state, reason ?? null, clock.now()], generation),
    markSettled: (tx, id) => settled(tx, id, ["settled_at = ?", clock.now()]),
    async setArchiveName(tx, id, name) {
      await tx.run("UPDATE runs SET archive_name = ? WHERE id = ?", name, id);
    },
    async setArchived(tx, id) {
      await update(tx, id, ["archived_at = ?, first_message = NULL", clock.now()]);
    },
  };
}

const wakeAt = (waits: readonly Wait[]): number | null => {
  const times = waits.map(untilOf).filter((time) => time !== null);
  return times.length === 0 ? null : Math.min(...times);
};
