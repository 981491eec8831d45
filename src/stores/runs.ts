// Run records. Every change is a compare-and-set on a transition that core/run.ts allows, so stop against finish
// has one winner; every query that a busy gateway asks has an index of its own (test/unit/stores asserts the plans).
import type { Clock } from "../core/clock.ts";
import {
  advance,
  type DeliveryState,
  type EndState,
  type PlanStep,
  type Run,
  type RunEvent,
  type RunSections,
  type RunState,
  SUSPENDED,
  sourcesOf,
  type Wait,
} from "../core/run.ts";
import type { Spend } from "../core/usage.ts";
import { PASSING, RELAXED, type Tx } from "./database.ts";
import { orphaned } from "./nodes.ts";
import { createRunLists, type RunListDeps, type RunLists, readRun } from "./run-lists.ts";
import { type NewRun, type RunRow, runColumns } from "./run-row.ts";

export interface RunEnd {
  readonly as: EndState;
  readonly reason: string | null;
  readonly incomplete: boolean;
  readonly delivery: DeliveryState;
  readonly sections?: RunSections | null;
  /** Its transcript is on disk, so the row needs to keep the task no longer. */
  readonly hasTranscript?: boolean;
}

export interface RunOpening {
  readonly childKey: string;
  readonly requesterKey: string;
  readonly text: string;
  readonly steps: number;
}

export interface Runs extends RunLists {
  /** Inserts as queued. The caller has checked the limits in the same transaction. */
  insert(tx: Tx, run: NewRun, firstMessage?: string | null): Promise<void>;
  /** What a child's transcript begins with, as long as its file may not be there (stores/transcripts.ts). */
  openingOf(sessionId: string): Promise<RunOpening | null>;
  get(id: string): Promise<Run | null>;
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
  /** waiting → running; the time it waited doesn't count against its limit. False: it doesn't wait any more. */
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
  /** A running one is taken up: this process works on it from now on, and says anew what it does. */
  own(id: string): Promise<void>;
  /** False: it runs no more, or another process works on it. */
  isOwn(id: string): Promise<boolean>;
  /** Those of them that were stopped. */
  stoppedAmong(ids: readonly string[]): Promise<ReadonlySet<string>>;
  /** It is taken up again after a restart. */
  countResume(tx: Tx, id: string): Promise<void>;
  /** What a running one does from now on is new work: its time and its steps begin anew. */
  renewLimits(id: string): Promise<void>;
  /** Model step `step` of a running one begins; written before the call, so that a crash can't make it free. False: it doesn't run any more. */
  beginStep(id: string, step: number, doing: string): Promise<boolean>;
  setDoing(id: string, doing: string | null): Promise<void>;
  /** The plan of a running child; replaces the one before. */
  setPlan(id: string, plan: readonly PlanStep[]): Promise<void>;
  addSpend(tx: Tx, id: string, spend: Spend): Promise<void>;
  setDelivery(tx: Tx, id: string, state: DeliveryState, reason?: string): Promise<void>;
  /** Its announcement needs nothing more: from now on the archive time counts. */
  markSettled(tx: Tx, id: string): Promise<void>;
  setArchiveName(tx: Tx, id: string, name: string): Promise<void>;
  setArchived(tx: Tx, id: string): Promise<void>;
  /** The documents of these runs are written, up to the generation given. */
  setDocumented(runs: readonly { readonly id: string; readonly generation: number }[]): Promise<void>;
}

export interface RunDeps extends RunListDeps {
  readonly clock: Clock;
  /** Who works on what is started here. */
  readonly bootId: string;
  /** Where a lane is rows: its place in it, in the same transaction. */
  onQueued?(tx: Tx, run: Pick<Run, "id" | "requesterKey">): Promise<void>;
}

export function createRuns(deps: RunDeps): Runs {
  const { db, clock } = deps;
  const one = (row: RunRow | undefined): Run | null => (row === undefined ? null : readRun(row, deps.onDamaged));
  const get = async (id: string): Promise<Run | null> => one(await db.get<RunRow>("SELECT * FROM runs WHERE id = ?", id));
  return {
    async insert(tx, run, firstMessage = null) {
      const columns = { ...runColumns(run, clock.now()), first_message: firstMessage };
      const names = Object.keys(columns);
      await tx.run(`INSERT INTO runs (${names.join(", ")}) VALUES (${names.map(() => "?").join(", ")})`, ...Object.values(columns));
      await changed(tx, run.id, "queued");
      await queued(deps, tx, run);
    },
    openingOf: async (sessionId) =>
      (await db.get<RunOpening>(
        `SELECT child_key AS "childKey", requester_key AS "requesterKey", first_message AS text, steps FROM runs
         WHERE child_key = (SELECT key FROM sessions WHERE id = ?) AND first_message IS NOT NULL`,
        sessionId,
      )) ?? null,
    get,
    findBySpawnKey: async (key) => one(await db.get<RunRow>("SELECT * FROM runs WHERE spawn_key = ?", key)),
    findBySession: async (sessionId) =>
      one(await db.get<RunRow>("SELECT * FROM runs WHERE child_key = (SELECT key FROM sessions WHERE id = ?)", sessionId)),
    findByChildKey: async (key) => one(await db.get<RunRow>("SELECT * FROM runs WHERE child_key = ?", key)),
    ...transitions(deps),
    ...fields(deps),
    ...progress(deps),
    ...createRunLists(deps),
  };
}

/** `state` where the caller knows it: a look at the row for each small change is a good part of what the change costs. */
async function changed(tx: Tx, id: string, known?: RunState): Promise<void> {
  const state = known ?? (await tx.get<{ state: RunState }>("SELECT state FROM runs WHERE id = ?", id))?.state;
  if (state !== undefined) tx.emit({ type: "run.changed", runId: id, state });
}

/** Takes the present time as its parameter. */
const FRESH_LIMITS = "deadline_at = CASE WHEN timeout_ms > 0 THEN ? + timeout_ms END, steps = 0";

/** Nothing of a wait is left behind. */
const NO_WAIT = "waits = NULL, waiting_since = NULL, wake_at = NULL";

/** The one place where a state changes: only from a state the machine allows. `set`: what else, with its parameters. */
async function move(tx: Tx, id: string, event: RunEvent, [set, ...params]: [string, ...(string | number | null)[]]): Promise<boolean> {
  const sources = sourcesOf(event);
  const target = advance(sources[0] ?? "queued", event);
  const marks = sources.map(() => "?").join(", ");
  const sql = `UPDATE runs SET state = ?, ${set} WHERE id = ? AND state IN (${marks})`;
  const moved = (await tx.run(sql, target, ...params, id, ...sources)) === 1;
  if (moved && target !== null) await changed(tx, id, target);
  return moved;
}

/** What a run that goes on after its end begins with. */
const ANEW = `generation = generation + 1, resumes = 0, crashes = 0, started_at = NULL, deadline_at = NULL, ended_at = NULL, reason = NULL,
  incomplete = 0, plan = NULL, sections = NULL, delivery = 'none', delivery_reason = NULL, settled_at = NULL, archived_at = NULL, archive_name = NULL`;

async function queued({ onQueued }: RunDeps, tx: Tx, run: Pick<Run, "id" | "requesterKey">): Promise<void> {
  await onQueued?.(tx, run);
  tx.emit({ type: "run.queued", runId: run.id, requesterKey: run.requesterKey, isPlaced: onQueued !== undefined });
}

function transitions(deps: RunDeps): Pick<Runs, "start" | "wait" | "wake" | "end" | "reopen"> {
  const { db, clock, bootId } = deps;
  return {
    // Nobody waits for this one: a power cut that takes it leaves a queued run, which starts from what its transcript has.
    start(id) {
      const set = `owner = ?, started_at = coalesce(started_at, ?), ${FRESH_LIMITS}`;
      return db.transaction([], (tx) => move(tx, id, { type: "start" }, [set, bootId, clock.now(), clock.now()]), RELAXED);
    },
    wait(tx, id, waits, doing) {
      const set = "owner = NULL, waits = ?, wake_at = ?, waiting_since = ?, doing = ?";
      return move(tx, id, { type: "wait" }, [set, JSON.stringify(waits), wakeAt(waits), clock.now(), doing]);
    },
    // Nobody waits for this one either: a power cut that takes it leaves one that waits and is rung again.
    wake(id) {
      const now = clock.now();
      // A clock that was set back has waited for nothing.
      const waited = "CASE WHEN ? > waiting_since THEN ? - waiting_since ELSE 0 END";
      const set = `owner = ?, deadline_at = deadline_at + ${waited}, ${NO_WAIT}, doing = NULL`;
      return db.transaction([], (tx) => move(tx, id, { type: "wake" }, [set, bootId, now, now]), RELAXED);
    },
    async end(tx, id, { as, reason, incomplete, delivery, sections, hasTranscript }) {
      const set = `owner = NULL, ${NO_WAIT}, ended_at = ?, reason = ?, incomplete = ?, delivery = ?, sections = ?, delivery_reason = NULL, doing = NULL${hasTranscript === true ? ", first_message = NULL" : ""}`;
      const text = sections == null ? null : JSON.stringify(sections);
      const moved = await move(tx, id, { type: "end", as }, [set, clock.now(), reason, incomplete ? 1 : 0, delivery, text]);
      if (moved) tx.emit({ type: "run.ended", runId: id, state: as });
      return moved;
    },
    async reopen(tx, { id, requesterKey }) {
      const moved = await move(tx, id, { type: "reopen" }, [`queued_at = ?, ${ANEW}`, clock.now()]);
      if (moved) await queued(deps, tx, { id, requesterKey });
      return moved;
    },
  };
}

type Fields = Pick<Runs, "putAside" | "countResume" | "addSpend" | "setDelivery" | "markSettled" | "setArchiveName" | "setArchived">;

function fields({ clock, bootId }: RunDeps): Fields {
  return {
    // Until somebody takes it up, another restart is nothing it could have caused.
    async putAside(tx, id, afterCrash) {
      const sql = `UPDATE runs SET owner = ?, crashes = crashes + ?, doing = ? WHERE id = ? AND state = 'running' AND ${orphaned("runs")}`;
      return (await tx.run(sql, bootId, afterCrash ? 1 : 0, SUSPENDED, id)) === 1;
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
    async setDelivery(tx, id, state, reason) {
      // Sent again after all: it is not settled any more. What is archived already stays so.
      const settled = "settled_at = CASE WHEN ? = 'pending' AND archive_name IS NULL THEN NULL ELSE settled_at END";
      await tx.run(`UPDATE runs SET delivery = ?, delivery_reason = ?, ${settled} WHERE id = ?`, state, reason ?? null, state, id);
      await changed(tx, id);
    },
    async markSettled(tx, id) {
      const sql = "UPDATE runs SET settled_at = ? WHERE id = ? AND ended_at IS NOT NULL RETURNING cleanup, state";
      const settled = await tx.get<{ cleanup: Run["cleanup"]; state: RunState }>(sql, clock.now(), id);
      if (settled === undefined) return;
      tx.emit({ type: "run.settled", runId: id, cleanup: settled.cleanup });
      await changed(tx, id, settled.state);
    },
    async setArchiveName(tx, id, name) {
      await tx.run("UPDATE runs SET archive_name = ? WHERE id = ?", name, id);
    },
    async setArchived(tx, id) {
      await tx.run("UPDATE runs SET archived_at = ?, first_message = NULL WHERE id = ?", clock.now(), id);
      await changed(tx, id);
    },
  };
}

type Progress = Pick<Runs, "own" | "isOwn" | "stoppedAmong" | "renewLimits" | "beginStep" | "setDoing" | "setPlan" | "setDocumented">;

/** Each a transaction of its own. */
function progress({ db, clock, bootId }: RunDeps): Progress {
  return {
    own: (id) =>
      db.transaction(
        [],
        async (tx) => {
          const sql =
            "UPDATE runs SET owner = ?, doing = NULL WHERE id = ? AND state = 'running' AND (owner IS DISTINCT FROM ? OR doing IS NOT NULL)";
          if ((await tx.run(sql, bootId, id, bootId)) === 1) await changed(tx, id, "running");
        },
        RELAXED,
      ),
    async stoppedAmong(ids) {
      if (ids.length === 0) return new Set();
      const sql = `SELECT id FROM runs WHERE state = 'stopped' AND id IN (${ids.map(() => "?").join(", ")})`;
      return new Set((await db.all<{ id: string }>(sql, ...ids)).map((row) => row.id));
    },
    isOwn: async (id) => (await db.get("SELECT 1 FROM runs WHERE id = ? AND state = 'running' AND owner = ?", id, bootId)) !== undefined,
    async renewLimits(id) {
      await db.transaction([], (tx) => tx.run(`UPDATE runs SET ${FRESH_LIMITS} WHERE id = ? AND state = 'running'`, clock.now(), id));
    },
    beginStep: (id, step, doing) =>
      db.transaction(
        [],
        async (tx) => {
          const sql = "UPDATE runs SET steps = ?, doing = ? WHERE id = ? AND state = 'running'";
          const isRunning = (await tx.run(sql, step, doing, id)) === 1;
          if (isRunning) await changed(tx, id, "running");
          return isRunning;
        },
        PASSING,
      ),
    setDoing: (id, doing) =>
      db.transaction(
        [],
        async (tx) => {
          const sql = "UPDATE runs SET doing = ? WHERE id = ? AND state = 'running' AND doing IS DISTINCT FROM ?";
          if ((await tx.run(sql, doing, id, doing)) === 1) await changed(tx, id, "running");
        },
        PASSING,
      ),
    async setPlan(id, plan) {
      const text = JSON.stringify(plan);
      const sql = "UPDATE runs SET plan = ? WHERE id = ? AND state = 'running' AND plan IS DISTINCT FROM ?";
      await db.transaction([], async (tx) => {
        if ((await tx.run(sql, text, id, text)) === 1) await changed(tx, id, "running");
      });
    },
    async setDocumented(runs) {
      // Writing the documents once more changes nothing, so nobody needs to wait for this.
      await db.transaction(
        [],
        async (tx) => {
          for (const { id, generation } of runs) await tx.run("UPDATE runs SET documented = ? WHERE id = ?", generation, id);
        },
        PASSING,
      );
    },
  };
}

const wakeAt = (waits: readonly Wait[]): number | null => {
  const times = waits.flatMap((wait) => (wait.for === "runs" ? [wait.until] : []));
  return times.length === 0 ? null : Math.min(...times);
};
