// Lists of runs, and what can be counted of them: what a busy gateway asks all the time, so each has an index of its own
// (test/unit/stores asserts the plans). runs.ts changes them.
import type { Run } from "../core/run.ts";
import type { Database } from "./database.ts";
import { orphaned } from "./nodes.ts";
import { fromRunRow, type RunRow } from "./run-row.ts";

export interface RunLists {
  /** Ended runs whose last generation is not documented yet, oldest end first. */
  listUndocumented(limit: number): Promise<Run[]>;
  /** In order of arrival; all of them without a limit. */
  listUnfinished(limit?: number): Promise<Run[]>;
  /** Those that run, and nobody alive works on them. */
  listOrphaned(): Promise<Run[]>;
  countUnfinished(requesterKey: string): Promise<number>;
  /** Newest first. */
  listOf(requesterKey: string, limit: number): Promise<Run[]>;
  listRecent(limit: number): Promise<Run[]>;
  /** Whose announcement could not be delivered, newest first. */
  listBlocked(limit: number): Promise<Run[]>;
  /** Main sessions whose key begins so and that have unfinished runs, at any depth; at most `limit`. */
  rootsAtWork(prefix: string, limit: number): Promise<string[]>;
  /** What a session itself has sent out and waits. */
  listWaitingOf(requesterKey: string): Promise<Run[]>;
  /** All unfinished runs below a session, at any depth, in order of arrival. Costs what its own tree costs, not what others run. */
  unfinishedBelow(requesterKey: string): Promise<Run[]>;
  /** Is this child session below that session, at any depth? */
  isBelow(childKey: string, ancestorKey: string): Promise<boolean>;
  childrenOf(runId: string): Promise<Run[]>;
  /** The runs of a group, in the order of the call that sent them out. */
  listGroup(groupId: string): Promise<Run[]>;
  /** Those that repeat it (RP1), newest first. */
  listRerunsOf(runId: string, limit: number): Promise<Run[]>;
  /** Those that share a status message, in order of arrival. */
  listBatch(batch: string): Promise<Run[]>;
  /** Settled before `settledBefore` (null: none by time), and everything settled that was to be deleted. */
  listArchiveDue(settledBefore: number | null, limit: number): Promise<Run[]>;
  /** Those whose transcript may bear its archive name although the row doesn't say so yet. */
  listHalfArchived(): Promise<Run[]>;
  /** Waiting ones whose time has come, and when the next one's does; null: none has a time. */
  listWakeDue(now: number): Promise<{ readonly due: readonly Pick<Run, "id" | "requesterKey">[]; readonly nextAt: number | null }>;
  /** A look that costs the same however many have ended. */
  countUnfinishedByState(): Promise<Record<string, number>>;
}

export interface RunListDeps {
  readonly db: Database;
  /** Hears of a row that can't be read. It is left out of every list, so that one broken run doesn't stop all others. */
  onDamaged?(error: unknown): void;
}

export function readRun(row: RunRow, onDamaged: RunListDeps["onDamaged"]): Run | null {
  try {
    return fromRunRow(row);
  } catch (error) {
    onDamaged?.(error);
    return null;
  }
}

const UNFINISHED = "state IN ('queued', 'running', 'waiting')";
/** Of a child session the main session at the top of its tree; a main session is that itself. Takes the key twice. */
const ROOT_OF = "coalesce((SELECT root_key FROM runs WHERE child_key = ?), ?)";
/** Each unfinished run of a tree with every session it is below. From the bottom up: the other way leads past all that ever ended. */
const ABOVE_UNFINISHED = `WITH RECURSIVE above (seq, key) AS (SELECT seq, requester_key FROM runs WHERE root_key = ? AND ${UNFINISHED}
  UNION SELECT above.seq, runs.requester_key FROM above JOIN runs ON runs.child_key = above.key)`;

export function createRunLists({ db, onDamaged }: RunListDeps): RunLists {
  const many = async (sql: string, ...params: (string | number)[]): Promise<Run[]> =>
    (await db.all<RunRow>(sql, ...params)).map((row) => readRun(row, onDamaged)).filter((run) => run !== null);
  return {
    ...countsOf(db),
    listUndocumented: (limit) =>
      many("SELECT * FROM runs WHERE ended_at IS NOT NULL AND documented < generation ORDER BY ended_at LIMIT ?", limit),
    listUnfinished: (limit = Number.MAX_SAFE_INTEGER) =>
      many(`SELECT * FROM runs WHERE ${UNFINISHED} ORDER BY queued_at, seq LIMIT ?`, limit),
    listOrphaned: () => many(`SELECT * FROM runs WHERE state = 'running' AND ${orphaned("runs")}`),
    listOf: (key, limit) => many("SELECT * FROM runs WHERE requester_key = ? ORDER BY seq DESC LIMIT ?", key, limit),
    listRecent: (limit) => many("SELECT * FROM runs ORDER BY seq DESC LIMIT ?", limit),
    listBlocked: (limit) => many("SELECT * FROM runs WHERE delivery = 'blocked' ORDER BY seq DESC LIMIT ?", limit),
    listWaitingOf: (key) =>
      many(
        `SELECT * FROM runs ${db.by("runs_unfinished_tree")} WHERE root_key = ${ROOT_OF} AND requester_key = ? AND ${UNFINISHED}
           AND state = 'waiting' ORDER BY seq`,
        ...[key, key, key],
      ),
    async unfinishedBelow(key) {
      // Most sessions have sent nobody out, and this is asked before every model call.
      const sent = await db.get<{ root: string }>("SELECT root_key AS root FROM runs WHERE requester_key = ? LIMIT 1", key);
      if (sent === undefined) return [];
      const { root } = sent;
      if (root === key) return many(`SELECT * FROM runs WHERE root_key = ? AND ${UNFINISHED} ORDER BY seq`, key);
      return many(`${ABOVE_UNFINISHED} SELECT * FROM runs WHERE seq IN (SELECT seq FROM above WHERE key = ?) ORDER BY seq`, root, key);
    },
    isBelow: async (childKey, ancestorKey) =>
      (await db.get(
        `WITH RECURSIVE above (key) AS (SELECT requester_key FROM runs WHERE child_key = ? UNION SELECT requester_key FROM runs JOIN above ON runs.child_key = above.key)
         SELECT 1 FROM above WHERE key = ?`,
        childKey,
        ancestorKey,
      )) !== undefined,
    childrenOf: (runId) => many("SELECT * FROM runs WHERE requester_run_id = ? ORDER BY seq", runId),
    listGroup: (groupId) => many("SELECT * FROM runs WHERE group_id = ? ORDER BY seq", groupId),
    listRerunsOf: (runId, limit) => many("SELECT * FROM runs WHERE rerun_of = ? ORDER BY seq DESC LIMIT ?", runId, limit),
    listBatch: (batch) => many("SELECT * FROM runs WHERE batch = ? ORDER BY seq", batch),
    listArchiveDue: (settledBefore, limit) =>
      many(
        `SELECT * FROM runs WHERE settled_at IS NOT NULL AND archived_at IS NULL AND cleanup = 'delete'
         UNION ALL SELECT * FROM runs WHERE settled_at IS NOT NULL AND archived_at IS NULL AND cleanup = 'keep' AND settled_at <= ? LIMIT ?`,
        settledBefore ?? -1,
        limit,
      ),
    listHalfArchived: () => many("SELECT * FROM runs WHERE settled_at IS NOT NULL AND archived_at IS NULL AND archive_name IS NOT NULL"),
    listWakeDue: async (now) => ({
      due: await db.all<Pick<Run, "id" | "requesterKey">>(
        'SELECT id, requester_key AS "requesterKey" FROM runs WHERE wake_at IS NOT NULL AND wake_at <= ? ORDER BY wake_at',
        now,
      ),
      nextAt:
        (await db.get<{ at: number | null }>("SELECT min(wake_at) AS at FROM runs WHERE wake_at IS NOT NULL AND wake_at > ?", now))?.at ??
        null,
    }),
  };
}

/** What is known without reading a run. */
function countsOf(db: Database): Pick<RunLists, "countUnfinished" | "rootsAtWork" | "countUnfinishedByState"> {
  return {
    // Left to itself SQLite takes runs_requester and walks every run the requester ever had.
    countUnfinished: async (key) =>
      (
        await db.get<{ n: number }>(
          `SELECT count(*) AS n FROM runs ${db.by("runs_unfinished_tree")} WHERE root_key = ${ROOT_OF} AND requester_key = ? AND ${UNFINISHED}`,
          ...[key, key, key],
        )
      )?.n ?? 0,
    rootsAtWork: async (prefix, limit) =>
      (
        await db.all<{ key: string }>(
          `SELECT DISTINCT root_key AS key FROM runs WHERE root_key >= ? AND root_key < ? AND ${UNFINISHED} LIMIT ?`,
          prefix,
          `${prefix}\u{10ffff}`,
          limit,
        )
      ).map((row) => row.key),
    // From the index alone: thousands may be queued, and each row is long.
    countUnfinishedByState: async () => ({
      ...(await db.get<{ queued: number; running: number; waiting: number }>(
        `SELECT count(*) FILTER (WHERE state = 'queued') AS queued, count(*) FILTER (WHERE state = 'running') AS running,
           count(*) FILTER (WHERE state = 'waiting') AS waiting FROM runs ${db.by("runs_unfinished")} WHERE ${UNFINISHED}`,
      )),
    }),
  };
}
