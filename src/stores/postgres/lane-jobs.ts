// The rows of lanes: what waits, in which order, and who works on it (lanes/shared-lane.ts has the story of that order). The limit is
// counted here, under the lane's lock: whatever becomes of processes and doorbells, never more run than may.

import { RELAXED, type Tx } from "../database.ts";
import { lock } from "../lock-keys.ts";
import { orphaned } from "../nodes.ts";
import type { PostgresDatabase } from "./database.ts";

export interface Claimed {
  readonly id: string;
  /** Never given twice: a job that is claimed again by the same process is another claim. */
  readonly claim: number;
  readonly rungAt: number;
}

export interface LaneJobs {
  /** It waits from now on, unless it does so already; if somebody works on it, it will afterwards. */
  ring(tx: Tx, job: { readonly id: string; readonly group: string; readonly isFront: boolean }): Promise<void>;
  /** The next that one of these agents works on, if there is a place. */
  claim(agents: readonly string[]): Promise<Claimed | null>;
  /** This process works on it from now on, beside the order. Null: somebody does, or it waits. */
  hold(id: string): Promise<number | null>;
  /**
   * Nobody works on it under this claim any more: it is gone, or waits again because it was rung meanwhile. Made again because its answer
   * was lost, it changes nothing: by then the job may be at work under another claim.
   */
  finish(id: string, claim: number): Promise<void>;
  /** Nobody has begun it after all: it waits at its place. */
  putBack(id: string, claim: number): Promise<void>;
  /** It doesn't wait any more. */
  drop(id: string): Promise<void>;
  positions(ids: readonly string[]): Promise<ReadonlyMap<string, number>>;
  /** Of these, those that wait for an agent that nobody alive can run, and which. */
  stranded(ids: readonly string[]): Promise<ReadonlyMap<string, string>>;
  depth(): Promise<{ waiting: number; running: number }>;
  /**
   * What nobody works on and nobody has rung for: its ring was lost with whoever was to ring. Sessions with a message that nobody answers;
   * runs that are queued without a place, or wait for what may have come. (What runs belongs to who is alive, or is recovered.)
   */
  unrung(): Promise<string[]>;
  /** Jobs whose worker is not alive any more. */
  listOrphaned(): Promise<string[]>;
  /** These wait again, first of all, if still nobody alive works on them. */
  release(ids: readonly string[]): Promise<number>;
  /** What was claimed for this process without its knowing: the answer to the claim was lost. `known`: the claims it works on. */
  forget(known: readonly number[]): Promise<number>;
}

export interface LaneJobDeps {
  readonly db: PostgresDatabase;
  readonly lane: "main" | "subagent" | (string & {});
  readonly bootId: string;
  now(): number;
}

/** A session's key names its agent, a run's row does. */
const AGENT = "CASE WHEN ? = 'subagent' THEN coalesce((SELECT agent_id FROM runs WHERE id = ?), '') ELSE split_part(?, ':', 2) END";
const ORDER = "front DESC, tag, seq";
const NEXT = "nextval(pg_get_serial_sequence('lane_jobs', 'seq'))";

/** Never begun, or begun and released (inbox.ts): what somebody owns is rung for by whoever finds that one gone. */
const UNRUNG_SESSIONS = `SELECT DISTINCT session_key AS id FROM inbox WHERE state = 'waiting' AND coalesce(owner, '') = ''
  AND NOT EXISTS (SELECT 1 FROM lane_jobs WHERE lane = 'main' AND lane_jobs.id = inbox.session_key)`;

const ENDED = "state NOT IN ('queued', 'running', 'waiting')";
/** Whether what a run waits for has really come is for others to say (subagents/waits.ts). */
const MAY_BE_DUE = `wake_at <= ? OR EXISTS (SELECT 1 FROM run_messages WHERE run_id = runs.id AND taken_at IS NULL)
  OR EXISTS (SELECT 1 FROM notes WHERE session_id = runs.session_id AND taken_at IS NULL)
  OR NOT EXISTS (SELECT 1 FROM runs AS child WHERE child.requester_run_id = runs.id AND NOT (child.${ENDED}))
  OR EXISTS (SELECT 1 FROM json_array_elements(waits::json) AS wait, json_array_elements_text(wait -> 'ids') AS awaited
             LEFT JOIN runs AS other ON other.id = awaited WHERE other.id IS NULL OR other.${ENDED})`;
const UNRUNG_RUNS = `SELECT id FROM runs WHERE state IN ('queued', 'waiting') AND (state = 'queued' OR ${MAY_BE_DUE})
  AND NOT EXISTS (SELECT 1 FROM lane_jobs WHERE lane = 'subagent' AND lane_jobs.id = runs.id) ORDER BY queued_at, seq`;

export function createLaneJobs(deps: LaneJobDeps): LaneJobs {
  const { db, lane, bootId } = deps;
  return {
    ring: (tx, job) => ring(deps, tx, job),
    claim: (agents) => (agents.length === 0 ? Promise.resolve(null) : claim(deps, agents)),
    ...giving(deps),
    async drop(id) {
      await db.transaction([], (tx) => tx.run("DELETE FROM lane_jobs WHERE lane = ? AND id = ? AND owner IS NULL", lane, id), RELAXED);
    },
    ...lookUps(deps),
    release: (ids) =>
      release(
        deps,
        ids.map((id) => ({ id, where: orphaned("lane_jobs"), params: [] })),
      ),
    async forget(known) {
      const sql = "SELECT id, claim FROM lane_jobs WHERE lane = ? AND owner = ?";
      const rows = await db.all<{ id: string; claim: number }>(sql, lane, bootId);
      const lost = rows.filter(({ claim }) => !known.includes(claim));
      return release(
        deps,
        lost.map(({ id, claim }) => ({ id, where: "owner = ? AND claim = ?", params: [bootId, claim] })),
      );
    },
  };
}

type LookUps = Pick<LaneJobs, "positions" | "stranded" | "depth" | "unrung" | "listOrphaned">;

function lookUps(deps: LaneJobDeps): LookUps {
  const { db, lane } = deps;
  return {
    async positions(ids) {
      if (ids.length === 0) return new Map();
      const rows = await db.all<{ id: string; place: number }>(
        `SELECT id, place FROM (SELECT id, row_number() OVER (ORDER BY ${ORDER}) AS place FROM lane_jobs WHERE lane = ? AND owner IS NULL) AS waiting
         WHERE id IN (SELECT json_array_elements_text(?::json))`,
        lane,
        JSON.stringify(ids),
      );
      return new Map(rows.map((row) => [row.id, row.place]));
    },
    async stranded(ids) {
      if (ids.length === 0) return new Map();
      const rows = await db.all<{ id: string; agent: string }>(
        `SELECT id, agent FROM lane_jobs WHERE lane = ? AND owner IS NULL AND id IN (SELECT json_array_elements_text(?::json))
           AND NOT EXISTS (SELECT 1 FROM nodes WHERE agents::jsonb @> to_jsonb(lane_jobs.agent))`,
        lane,
        JSON.stringify(ids),
      );
      return new Map(rows.map((row) => [row.id, row.agent]));
    },
    depth: async () =>
      (await db.get<{ waiting: number; running: number }>(
        `SELECT count(*) FILTER (WHERE owner IS NULL) AS waiting, count(*) FILTER (WHERE owner IS NOT NULL) AS running
         FROM lane_jobs WHERE lane = ?`,
        lane,
      )) ?? { waiting: 0, running: 0 },
    async unrung() {
      const sql = { main: UNRUNG_SESSIONS, subagent: UNRUNG_RUNS }[lane as string];
      return sql === undefined
        ? []
        : (await db.all<{ id: string }>(sql, ...(lane === "subagent" ? [deps.now()] : []))).map((row) => row.id);
    },
    listOrphaned: async () =>
      (
        await db.all<{ id: string }>(`SELECT id FROM lane_jobs WHERE lane = ? AND owner IS NOT NULL AND ${orphaned("lane_jobs")}`, lane)
      ).map((row) => row.id),
  };
}

/** Of jobs under a claim. */
function giving(deps: LaneJobDeps): Pick<LaneJobs, "finish" | "hold" | "putBack"> {
  const { db, lane, bootId } = deps;
  return {
    async finish(id, claim) {
      await db.transaction(
        [],
        async (tx) => {
          const own = "lane = ? AND id = ? AND owner = ? AND claim = ?";
          const gone = await tx.run(`DELETE FROM lane_jobs WHERE ${own} AND again = 0`, lane, id, bootId, claim);
          if (gone === 1) return tx.emit({ type: "lane.rung", lane });
          const rung = await tx.get<{ grp: string; again: number }>(
            `SELECT grp, again FROM lane_jobs WHERE ${own}`,
            ...[lane, id, bootId, claim],
          );
          if (rung === undefined) return;
          const isFront = rung.again === 2;
          const tag = isFront ? 0 : await nextTag(deps, tx, rung.grp);
          const sql = `UPDATE lane_jobs SET owner = NULL, again = 0, front = ?, tag = ?, rung_at = ?,
            seq = ${NEXT} WHERE lane = ? AND id = ?`;
          await tx.run(sql, Number(isFront), tag, deps.now(), lane, id);
          tx.emit({ type: "lane.rung", lane });
        },
        RELAXED,
      );
    },
    async hold(id) {
      const sql = `INSERT INTO lane_jobs (lane, id, grp, agent, front, tag, rung_at, owner, claim) VALUES (?, ?, ?, ${AGENT}, 0, 0, ?, ?, ${NEXT})
        ON CONFLICT (lane, id) DO NOTHING RETURNING claim`;
      const values = [lane, id, id, lane, id, id, deps.now(), bootId];
      return (await db.transaction([], (tx) => tx.get<{ claim: number }>(sql, ...values), RELAXED))?.claim ?? null;
    },
    async putBack(id, claim) {
      await db.transaction([], async (tx) => {
        const sql = "UPDATE lane_jobs SET owner = NULL, again = 0 WHERE lane = ? AND id = ? AND owner = ? AND claim = ?";
        await tx.run(sql, lane, id, bootId, claim);
        tx.emit({ type: "lane.rung", lane });
      });
    },
  };
}

interface Left {
  readonly id: string;
  /** What must still be so. */
  readonly where: string;
  readonly params: readonly (string | number)[];
}

async function release({ db, lane }: LaneJobDeps, left: readonly Left[]): Promise<number> {
  if (left.length === 0) return 0;
  return db.transaction([], async (tx) => {
    let released = 0;
    for (const { id, where, params } of left)
      released += await tx.run(
        `UPDATE lane_jobs SET owner = NULL, front = 1, again = 0 WHERE lane = ? AND id = ? AND owner IS NOT NULL AND ${where}`,
        lane,
        id,
        ...params,
      );
    if (released > 0) tx.emit({ type: "lane.rung", lane });
    return released;
  });
}

/** One more than the group's last, never less than the present (lanes/lanes.ts tells why). */
async function nextTag({ lane }: LaneJobDeps, tx: Tx, group: string): Promise<number> {
  const row = await tx.get<{ tag: number }>(
    `INSERT INTO lane_groups (lane, grp, last_tag) VALUES (?, ?, coalesce((SELECT now FROM lane_times WHERE lane = ?), 0))
     ON CONFLICT (lane, grp) DO UPDATE SET last_tag = greatest(lane_groups.last_tag + 1, excluded.last_tag) RETURNING last_tag AS tag`,
    ...[lane, group, lane],
  );
  return row?.tag ?? 0;
}

const MAX_TRIES = 5;

async function ring(deps: LaneJobDeps, tx: Tx, { id, group, isFront }: Parameters<LaneJobs["ring"]>[1]): Promise<void> {
  const { lane } = deps;
  tx.emit({ type: "lane.rung", lane });
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    // Somebody works on it. If its worker is ending just now this waits for it, and then finds that there is nobody.
    const busy = `UPDATE lane_jobs SET again = greatest(again, ?::bigint) WHERE lane = ? AND id = ? AND owner IS NOT NULL AND NOT ${orphaned("lane_jobs")}`;
    if ((await tx.run(busy, isFront ? 2 : 1, lane, id)) === 1) return;
    // Nobody alive does: it waits again, as work half done.
    const left = `UPDATE lane_jobs SET owner = NULL, again = 0, front = 1 WHERE lane = ? AND id = ? AND owner IS NOT NULL AND ${orphaned("lane_jobs")}`;
    if ((await tx.run(left, lane, id)) === 1) return;
    if ((await tx.get("SELECT 1 FROM lane_jobs WHERE lane = ? AND id = ? AND owner IS NULL", lane, id)) !== undefined) return;
    const tag = isFront ? 0 : await nextTag(deps, tx, group);
    const sql = `INSERT INTO lane_jobs (lane, id, grp, agent, front, tag, rung_at) VALUES (?, ?, ?, ${AGENT}, ?, ?, ?) ON CONFLICT (lane, id) DO NOTHING`;
    if ((await tx.run(sql, ...[lane, id, group, lane, id, id], Number(isFront), tag, deps.now())) === 1) return;
  }
}

async function claim(deps: LaneJobDeps, agents: readonly string[]): Promise<Claimed | null> {
  const { db, lane, bootId } = deps;
  // Nobody is promised it: a claim that a crash of the server takes back is one that never was.
  return db.transaction(
    [lock.lane(lane)],
    async (tx) => {
      // The settings of several machines may differ: the smallest limit counts, never their sum.
      const places = await tx.get<{ free: number | null }>(
        `SELECT (SELECT min((limits::json ->> ?)::bigint) FROM nodes) - (SELECT count(*) FROM lane_jobs WHERE lane = ? AND owner IS NOT NULL) AS free`,
        ...[lane, lane],
      );
      if ((places?.free ?? 0) <= 0) return null;
      const row = await tx.get<{ id: string; grp: string; tag: number; front: number; rung_at: number; claim: number }>(
        `UPDATE lane_jobs SET owner = ?, claim = ${NEXT} WHERE lane = ? AND id = (SELECT id FROM lane_jobs
           WHERE lane = ? AND owner IS NULL AND agent IN (SELECT json_array_elements_text(?::json)) ORDER BY ${ORDER} LIMIT 1 FOR UPDATE SKIP LOCKED)
         RETURNING id, grp, tag, front, rung_at, claim`,
        ...[bootId, lane, lane, JSON.stringify(agents)],
      );
      if (row === undefined) return null;
      if (row.front === 0) await moveOn(deps, tx, row.grp, row.tag);
      return { id: row.id, claim: row.claim, rungAt: row.rung_at };
    },
    RELAXED,
  );
}

/** A group that just had its turn doesn't start at the present time with its next one: what waits of others goes first. */
async function moveOn({ lane }: LaneJobDeps, tx: Tx, group: string, tag: number): Promise<void> {
  await tx.run("INSERT INTO lane_times (lane, now) VALUES (?, ?) ON CONFLICT (lane) DO UPDATE SET now = excluded.now", lane, tag);
  await tx.run("INSERT INTO lane_groups (lane, grp, last_tag) VALUES (?, ?, ?) ON CONFLICT (lane, grp) DO NOTHING", lane, group, tag);
  // Whoever rings for one of these just now keeps it; it is passed over, or the two would wait for each other.
  await tx.run(
    `DELETE FROM lane_groups WHERE lane = ? AND grp IN
       (SELECT grp FROM lane_groups WHERE lane = ? AND last_tag < ? LIMIT 50 FOR UPDATE SKIP LOCKED)`,
    ...[lane, lane, tag],
  );
}
