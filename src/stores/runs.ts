// Run records. Every change is a compare-and-set on a transition that core/run.ts allows, so stop against finish
// has one winner; every query that a busy gateway asks has an index of its own (test/unit/stores asserts the plans).
import type { Clock } from "../core/clock.ts";
import type { Bus } from "../core/events.ts";
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
} from "../core/run.ts";
import type { Spend } from "../core/usage.ts";
import type { Database } from "./database.ts";
import { fromRunRow, type NewRun, type RunRow, runColumns } from "./run-row.ts";

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

export interface Runs {
  /** Inserts as queued. The caller has checked the limits in the same transaction. */
  insert(run: NewRun, firstMessage?: string | null): void;
  /** What a child's transcript begins with, as long as its file may not be there (stores/transcripts.ts). */
  openingOf(sessionId: string): RunOpening | null;
  get(id: string): Run | null;
  findBySpawnKey(key: string): Run | null;
  findByChildKey(key: string): Run | null;
  findBySession(sessionId: string): Run | null;
  /** queued → running. False when it is not queued any more. */
  start(id: string): boolean;
  /** → an end state. False when it had ended already; then nothing was written. */
  end(id: string, end: RunEnd): boolean;
  /** A finished run goes on in its session as the next generation, with all its time and steps. False when it is unfinished. */
  reopen(id: string): boolean;
  /** Found running after a restart: nobody works on it, and a crash of its process is noted. The row stays running. */
  putAside(id: string, afterCrash: boolean): void;
  /** It is taken up again after a restart. */
  countResume(id: string): void;
  /** What a running one does from now on is new work: its time and its steps begin anew. */
  renewLimits(id: string): void;
  /** Model step `step` of a running one begins; written before the call, so that a crash can't make it free. */
  beginStep(id: string, step: number, doing: string): void;
  setDoing(id: string, doing: string | null): void;
  /** The plan of a running child; replaces the one before. */
  setPlan(id: string, plan: readonly PlanStep[]): void;
  addSpend(id: string, spend: Spend): void;
  setDelivery(id: string, state: DeliveryState, reason?: string): void;
  /** Its announcement needs nothing more: from now on the archive time counts. */
  markSettled(id: string): void;
  setArchiveName(id: string, name: string): void;
  setArchived(id: string): void;
  /** The documents of these runs are written, up to the generation given. */
  setDocumented(runs: readonly { readonly id: string; readonly generation: number }[]): void;
  /** Ended runs whose last generation is not documented yet, oldest end first. */
  listUndocumented(limit: number): Run[];
  /** In order of arrival; all of them without a limit. */
  listUnfinished(limit?: number): Run[];
  countUnfinished(requesterKey: string): number;
  /** Newest first. */
  listOf(requesterKey: string, limit: number): Run[];
  listRecent(limit: number): Run[];
  /** Whose announcement could not be delivered, newest first. */
  listBlocked(limit: number): Run[];
  /** Main sessions whose key begins so and that have unfinished runs, at any depth; at most `limit`. */
  rootsAtWork(prefix: string, limit: number): string[];
  /** All unfinished runs below a session, at any depth, in order of arrival. Costs what its own tree costs, not what others run. */
  unfinishedBelow(requesterKey: string): Run[];
  /** Is this child session below that session, at any depth? */
  isBelow(childKey: string, ancestorKey: string): boolean;
  childrenOf(runId: string): Run[];
  /** Settled before `settledBefore` (null: none by time), and everything settled that was to be deleted. */
  listArchiveDue(settledBefore: number | null, limit: number): Run[];
  /** Those whose transcript may bear its archive name although the row doesn't say so yet. */
  listHalfArchived(): Run[];
  /** A look that costs the same however many have ended. */
  countUnfinishedByState(): Record<string, number>;
}

export interface RunDeps {
  readonly db: Database;
  readonly clock: Clock;
  readonly bus: Bus;
  /** Hears of a row that can't be read. It is left out of every list, so that one broken run doesn't stop all others. */
  onDamaged?(error: unknown): void;
}

export function createRuns(deps: RunDeps): Runs {
  const { db, clock } = deps;
  const one = (row: RunRow | undefined): Run | null => (row === undefined ? null : readRun(deps, row));
  const get = (id: string): Run | null => one(db.get<RunRow>("SELECT * FROM runs WHERE id = ?", id));
  const changed: Changed = (id, known) => {
    const state = known ?? db.get<{ state: RunState }>("SELECT state FROM runs WHERE id = ?", id)?.state;
    if (state !== undefined) db.afterCommit(() => deps.bus.emit({ type: "run.changed", runId: id, state }));
  };
  return {
    insert(run, firstMessage = null) {
      const columns = { ...runColumns(run, clock.now()), first_message: firstMessage };
      const names = Object.keys(columns);
      const root = "coalesce((SELECT root_key FROM runs WHERE id = ?), ?)";
      db.run(
        `INSERT INTO runs (${names.join(", ")}, root_key) VALUES (${names.map(() => "?").join(", ")}, ${root})`,
        ...Object.values(columns),
        run.requesterRunId,
        run.requesterKey,
      );
      changed(run.id, "queued");
    },
    openingOf: (sessionId) =>
      db.get<RunOpening>(
        `SELECT child_key AS childKey, requester_key AS requesterKey, first_message AS text, steps FROM runs
         WHERE child_key = (SELECT key FROM sessions WHERE id = ?) AND first_message IS NOT NULL`,
        sessionId,
      ) ?? null,
    get,
    findBySpawnKey: (key) => one(db.get<RunRow>("SELECT * FROM runs WHERE spawn_key = ?", key)),
    findBySession: (sessionId) =>
      one(db.get<RunRow>("SELECT * FROM runs WHERE child_key = (SELECT key FROM sessions WHERE id = ?)", sessionId)),
    findByChildKey: (key) => one(db.get<RunRow>("SELECT * FROM runs WHERE child_key = ?", key)),
    ...transitions(deps, changed),
    ...fields(deps, changed),
    ...listings(deps),
  };
}

function readRun({ onDamaged }: Pick<RunDeps, "onDamaged">, row: RunRow): Run | null {
  try {
    return fromRunRow(row);
  } catch (error) {
    onDamaged?.(error);
    return null;
  }
}

/** `state` where the caller knows it: a look at the row for each small change is a good part of what the change costs. */
type Changed = (id: string, state?: RunState) => void;

/** Takes the present time as its parameter. */
const FRESH_LIMITS = "deadline_at = CASE WHEN timeout_ms > 0 THEN ? + timeout_ms END, steps = 0";

function transitions({ db, clock, bus }: RunDeps, changed: Changed): Pick<Runs, "start" | "end" | "reopen"> {
  /** The one place where a state changes: only from a state the machine allows. */
  const move = (id: string, event: RunEvent, set: string, ...params: (string | number | null)[]): boolean => {
    const sources = sourcesOf(event);
    const target = advance(sources[0] ?? "queued", event);
    const marks = sources.map(() => "?").join(", ");
    const moved = db.run(`UPDATE runs SET state = ?, ${set} WHERE id = ? AND state IN (${marks})`, target, ...params, id, ...sources) === 1;
    if (moved && target !== null) changed(id, target);
    return moved;
  };
  return {
    // Nobody waits for this one: a power cut that takes it leaves a queued run, which starts from what its transcript has.
    start: (id) =>
      db.relaxed(() => move(id, { type: "start" }, `started_at = coalesce(started_at, ?), ${FRESH_LIMITS}`, clock.now(), clock.now())),
    end(id, end) {
      const set = `ended_at = ?, reason = ?, incomplete = ?, delivery = ?, sections = ?, delivery_reason = NULL, doing = NULL${end.hasTranscript === true ? ", first_message = NULL" : ""}`;
      const sections = end.sections == null ? null : JSON.stringify(end.sections);
      const moved = move(id, { type: "end", as: end.as }, set, clock.now(), end.reason, end.incomplete ? 1 : 0, end.delivery, sections);
      if (moved) db.afterCommit(() => bus.emit({ type: "run.ended", runId: id, state: end.as }));
      return moved;
    },
    reopen: (id) =>
      move(
        id,
        { type: "reopen" },
        `generation = generation + 1, resumes = 0, crashes = 0, queued_at = ?, started_at = NULL, deadline_at = NULL, ended_at = NULL, reason = NULL, incomplete = 0,
         plan = NULL, sections = NULL, delivery = 'none', delivery_reason = NULL, settled_at = NULL, archived_at = NULL, archive_name = NULL`,
        clock.now(),
      ),
  };
}

// biome-ignore format: a list of names reads better in rows
type Fields = Pick<
  Runs,
  | "putAside" | "countResume" | "renewLimits" | "beginStep" | "setDoing" | "setPlan" | "setDocumented" | "addSpend" | "setDelivery" | "markSettled"
  | "setArchiveName" | "setArchived"
>;

function fields({ db, clock, bus }: RunDeps, changed: Changed): Fields {
  return {
    // Until somebody takes it up, another restart is nothing it could have caused.
    putAside(id, afterCrash) {
      const sql = "UPDATE runs SET crashes = crashes + ?, doing = ? WHERE id = ? AND state = 'running'";
      db.run(sql, afterCrash ? 1 : 0, SUSPENDED, id);
    },
    countResume(id) {
      db.run("UPDATE runs SET resumes = resumes + 1 WHERE id = ? AND state = 'running'", id);
    },
    renewLimits(id) {
      db.run(`UPDATE runs SET ${FRESH_LIMITS} WHERE id = ? AND state = 'running'`, clock.now(), id);
    },
    beginStep: (id, step, doing) =>
      db.relaxed(() => {
        if (db.run("UPDATE runs SET steps = ?, doing = ? WHERE id = ? AND state = 'running'", step, doing, id) === 1)
          changed(id, "running");
      }),
    setDoing: (id, doing) =>
      db.relaxed(() => {
        const sql = "UPDATE runs SET doing = ? WHERE id = ? AND state = 'running' AND doing IS DISTINCT FROM ?";
        if (db.run(sql, doing, id, doing) === 1) changed(id, "running");
      }),
    setPlan(id, plan) {
      const text = JSON.stringify(plan);
      const sql = "UPDATE runs SET plan = ? WHERE id = ? AND state = 'running' AND plan IS DISTINCT FROM ?";
      if (db.run(sql, text, id, text) === 1) changed(id, "running");
    },
    setDocumented(runs) {
      // Writing the documents once more changes nothing, so nobody needs to wait for this.
      db.relaxed(() => {
        for (const { id, generation } of runs) db.run("UPDATE runs SET documented = ? WHERE id = ?", generation, id);
      });
    },
    addSpend(id, { usage, costUsd }) {
      if (usage === null) return;
      db.run(
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
    setDelivery(id, state, reason) {
      // Sent again after all: it is not settled any more. What is archived already stays so.
      const settled = "settled_at = CASE WHEN ? = 'pending' AND archive_name IS NULL THEN NULL ELSE settled_at END";
      db.run(`UPDATE runs SET delivery = ?, delivery_reason = ?, ${settled} WHERE id = ?`, state, reason ?? null, state, id);
      changed(id);
    },
    markSettled(id) {
      const sql = "UPDATE runs SET settled_at = ? WHERE id = ? AND ended_at IS NOT NULL RETURNING cleanup, state";
      const settled = db.get<{ cleanup: Run["cleanup"]; state: RunState }>(sql, clock.now(), id);
      if (settled === undefined) return;
      db.afterCommit(() => bus.emit({ type: "run.settled", runId: id, cleanup: settled.cleanup }));
      changed(id, settled.state);
    },
    setArchiveName(id, name) {
      db.run("UPDATE runs SET archive_name = ? WHERE id = ?", name, id);
    },
    setArchived(id) {
      db.run("UPDATE runs SET archived_at = ?, first_message = NULL WHERE id = ?", clock.now(), id);
      changed(id);
    },
  };
}

const UNFINISHED = "state IN ('queued', 'running')";
/** Of a child session the main session at the top of its tree; a main session is that itself. Takes the key twice. */
const ROOT_OF = "coalesce((SELECT root_key FROM runs WHERE child_key = ?), ?)";
/** Each unfinished run of a tree with every session it is below. From the bottom up: the other way leads past all that ever ended. */
const ABOVE_UNFINISHED = `WITH RECURSIVE above (seq, key) AS (SELECT seq, requester_key FROM runs WHERE root_key = ? AND ${UNFINISHED}
  UNION SELECT above.seq, runs.requester_key FROM above JOIN runs ON runs.child_key = above.key)`;

type Listings = Omit<
  Runs,
  | keyof ReturnType<typeof transitions>
  | keyof ReturnType<typeof fields>
  | "insert"
  | "openingOf"
  | "get"
  | "findBySpawnKey"
  | "findByChildKey"
  | "findBySession"
>;

function listings({ db, ...deps }: RunDeps): Listings {
  const many = (sql: string, ...params: (string | number)[]): Run[] =>
    db
      .all<RunRow>(sql, ...params)
      .map((row) => readRun(deps, row))
      .filter((run) => run !== null);
  return {
    listUndocumented: (limit) =>
      many("SELECT * FROM runs WHERE ended_at IS NOT NULL AND documented < generation ORDER BY ended_at LIMIT ?", limit),
    listUnfinished: (limit = Number.MAX_SAFE_INTEGER) =>
      many(`SELECT * FROM runs WHERE ${UNFINISHED} ORDER BY queued_at, seq LIMIT ?`, limit),
    // Left to itself SQLite takes runs_requester and walks every run the requester ever had.
    countUnfinished: (key) =>
      db.get<{ n: number }>(
        `SELECT count(*) AS n FROM runs ${db.by("runs_unfinished_tree")} WHERE root_key = ${ROOT_OF} AND requester_key = ? AND ${UNFINISHED}`,
        ...[key, key, key],
      )?.n ?? 0,
    rootsAtWork: (prefix, limit) =>
      db
        .all<{ key: string }>(
          `SELECT DISTINCT root_key AS key FROM runs WHERE root_key >= ? AND root_key < ? AND ${UNFINISHED} LIMIT ?`,
          prefix,
          `${prefix}\u{10ffff}`,
          limit,
        )
        .map((row) => row.key),
    listOf: (key, limit) => many("SELECT * FROM runs WHERE requester_key = ? ORDER BY seq DESC LIMIT ?", key, limit),
    listRecent: (limit) => many("SELECT * FROM runs ORDER BY seq DESC LIMIT ?", limit),
    listBlocked: (limit) => many("SELECT * FROM runs WHERE delivery = 'blocked' ORDER BY seq DESC LIMIT ?", limit),
    unfinishedBelow(key) {
      const { root } = db.get<{ root: string }>(`SELECT ${ROOT_OF} AS root`, key, key) ?? { root: key };
      if (root === key) return many(`SELECT * FROM runs WHERE root_key = ? AND ${UNFINISHED} ORDER BY seq`, key);
      return many(`${ABOVE_UNFINISHED} SELECT * FROM runs WHERE seq IN (SELECT seq FROM above WHERE key = ?) ORDER BY seq`, root, key);
    },
    isBelow: (childKey, ancestorKey) =>
      db.get(
        `WITH RECURSIVE above (key) AS (SELECT requester_key FROM runs WHERE child_key = ? UNION SELECT requester_key FROM runs JOIN above ON runs.child_key = above.key)
         SELECT 1 FROM above WHERE key = ?`,
        childKey,
        ancestorKey,
      ) !== undefined,
    childrenOf: (runId) => many("SELECT * FROM runs WHERE requester_run_id = ? ORDER BY seq", runId),
    listArchiveDue: (settledBefore, limit) =>
      many(
        `SELECT * FROM runs WHERE settled_at IS NOT NULL AND archived_at IS NULL AND cleanup = 'delete'
         UNION ALL SELECT * FROM runs WHERE settled_at IS NOT NULL AND archived_at IS NULL AND cleanup = 'keep' AND settled_at <= ? LIMIT ?`,
        settledBefore ?? -1,
        limit,
      ),
    listHalfArchived: () => many("SELECT * FROM runs WHERE settled_at IS NOT NULL AND archived_at IS NULL AND archive_name IS NOT NULL"),
    // From the index alone: thousands may be queued, and each row is long.
    countUnfinishedByState: () => ({
      ...db.get<{ queued: number; running: number }>(
        `SELECT count(*) FILTER (WHERE state = 'queued') AS queued, count(*) FILTER (WHERE state = 'running') AS running
         FROM runs ${db.by("runs_unfinished")} WHERE ${UNFINISHED}`,
      ),
    }),
  };
}
