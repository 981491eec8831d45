// The board's list of runs (WB4): those that need a person first, then those at work, then those that ended, the newest first within
// each, page by page behind a cursor, whatever is filtered by. A gateway may have a million of them on record: what has no index of its
// own is read in stretches of the newest numbers, other work in between, and after so many a page ends as far as it came.
import type { Run, RunState } from "../core/run.ts";
import type { Database, Params } from "./database.ts";
import { literal } from "./letter-case.ts";
import { type RunListDeps, readRun } from "./run-lists.ts";
import type { RunRow } from "./run-row.ts";
import { inStretches } from "./stretches.ts";

export interface RunFilter {
  /** In any of these states; left out: in all. */
  readonly states?: readonly RunState[] | undefined;
  /** Only those that need a person. */
  readonly isNeedy?: boolean | undefined;
  readonly agentId?: string | undefined;
  readonly model?: string | undefined;
  readonly channel?: string | undefined;
  /** The main session at the top of its tree. */
  readonly rootKey?: string | undefined;
  readonly minCostUsd?: number | undefined;
  /** Accepted at this moment or later. */
  readonly since?: number | undefined;
  /** Stands in its label, the beginning of its task or its id as it is written here, in any case of letters. */
  readonly text?: string | undefined;
}

/** Where a run stands in the order: what it is to people, then its number. */
export interface RunPlace {
  readonly rank: RunRank;
  readonly seq: number;
}

/** asking: waits for somebody's answer; blocked: its announcement could not be delivered. Both need a person. */
export const RUN_RANKS = ["asking", "blocked", "live", "ended"] as const;
export type RunRank = (typeof RUN_RANKS)[number];

export interface FoundRun extends RunPlace {
  readonly run: Run;
}

export interface RunPage {
  readonly found: readonly FoundRun[];
  /** Where the next page begins; null: there is nothing more. */
  readonly next: RunPlace | null;
}

export interface RunTotals {
  /** How many there are in each state, whichever states are asked for. */
  readonly states: Readonly<Record<string, number>>;
  readonly needy: number;
  /** False: of those that ended only the newest were counted. */
  readonly isWhole: boolean;
}

/** What there is to filter by, among the newest. */
export interface RunFacets {
  readonly agents: readonly string[];
  readonly models: readonly string[];
  readonly rootKeys: readonly string[];
}

export interface RunSearch {
  page(filter: RunFilter, after: RunPlace | null, limit: number): Promise<RunPage>;
  /** Those of these that fit. */
  among(filter: RunFilter, ids: readonly string[]): Promise<FoundRun[]>;
  totals(filter: RunFilter): Promise<RunTotals>;
  facets(): Promise<RunFacets>;
}

/** After so many numbers a page ends, found or not. */
const MAX_LOOKED_AT = 20_000;
/** Characters of a task that are searched: thousands of huge ones would hold everything else up. */
const SEARCHED_TASK = 4_000;
const FACET_RUNS = 2_000;
const MAX_FACETS = 100;

const UNFINISHED = "state IN ('queued', 'running', 'waiting')";
const ASKS = `state = 'waiting' AND waits LIKE '%"for":"answer"%'`;
const RANK_WHERE: Record<RunRank, string> = {
  // In these words, too: SQLite takes an index of some rows only where its own condition stands.
  asking: `${UNFINISHED} AND ${ASKS}`,
  blocked: `delivery = 'blocked' AND NOT (${UNFINISHED})`,
  live: `${UNFINISHED} AND NOT (state = 'waiting' AND coalesce(waits, '') LIKE '%"for":"answer"%')`,
  ended: `NOT (${UNFINISHED}) AND delivery <> 'blocked'`,
};
const RANK_CASE = `CASE WHEN ${ASKS} THEN 'asking' WHEN ${UNFINISHED} THEN 'live' WHEN delivery = 'blocked' THEN 'blocked' ELSE 'ended' END`;

export function createRunSearch({ db, onDamaged }: RunListDeps): RunSearch {
  const facets = createFacets(db);
  const toFound = (rows: readonly RunRow[], rank?: RunRank): FoundRun[] =>
    rows.flatMap((row) => {
      const run = readRun(row, onDamaged);
      return run === null ? [] : [{ run, seq: Number(row.seq), rank: rank ?? (row.rank as RunRank) }];
    });
  return {
    async page(filter, after, limit) {
      const found: FoundRun[] = [];
      for (const rank of ranksOf(filter)) {
        if (after !== null && RUN_RANKS.indexOf(rank) < RUN_RANKS.indexOf(after.rank)) continue;
        const range = { below: after?.rank === rank ? after.seq : Number.MAX_SAFE_INTEGER, limit: limit - found.length };
        const { rows, reached } = await (rank === "ended" ? searchEnded(db, filter, range) : few(db, filter, rank, range));
        found.push(...toFound(rows, rank));
        if (reached !== null) return { found, next: { rank, seq: reached } };
      }
      return { found, next: null };
    },
    async among(filter, ids) {
      if (ids.length === 0) return [];
      const { where, params } = conditionOf(db, filter);
      const wanted = `id IN (${ids.map(() => "?").join(", ")})`;
      return toFound(await db.all<RunRow>(`SELECT *, ${RANK_CASE} AS rank FROM runs WHERE ${wanted} AND ${where}`, ...ids, ...params));
    },
    totals: (filter) => totalsOf(db, { ...filter, states: undefined, isNeedy: undefined }),
    facets,
  };
}

interface Range {
  readonly below: number;
  readonly limit: number;
}

/** `reached`: the last number looked at, where more may follow. */
interface Part {
  readonly rows: readonly RunRow[];
  readonly reached: number | null;
}

const FINISHED: readonly RunState[] = ["done", "error", "timeout", "stopped", "interrupted"];
const LIVE: readonly RunState[] = ["queued", "running", "waiting"];

/** Those in which anything can be found. */
function ranksOf({ states, isNeedy }: RunFilter): RunRank[] {
  const any = (some: readonly RunState[]): boolean => states === undefined || some.some((state) => states.includes(state));
  const isOpen: Record<RunRank, boolean> = { asking: any(["waiting"]), blocked: any(FINISHED), live: any(LIVE), ended: any(FINISHED) };
  return RUN_RANKS.filter((rank) => isOpen[rank] && (isNeedy !== true || rank === "asking" || rank === "blocked"));
}

/** Of those that are few: each has an index that holds nothing else. `+ 0` keeps planners from walking all numbers instead. */
async function few(db: Database, filter: RunFilter, rank: RunRank, { below, limit }: Range): Promise<Part> {
  const { where, params } = conditionOf(db, filter);
  const by = db.by(rank === "blocked" ? "runs_blocked" : "runs_unfinished");
  const sql = `SELECT * FROM runs ${by} WHERE ${RANK_WHERE[rank]} AND seq < ? AND ${where} ORDER BY seq + 0 DESC LIMIT ?`;
  return cut(await db.all<RunRow>(sql, below, ...params, limit + 1), { below, limit });
}

async function searchEnded(db: Database, filter: RunFilter, { below, limit }: Range): Promise<Part> {
  const { where, params } = conditionOf(db, filter);
  const sql = `SELECT * FROM runs WHERE seq < ? AND seq >= ? AND ${RANK_WHERE.ended} AND ${where} ORDER BY seq DESC LIMIT ?`;
  const { first, last } = await ends(db);
  const rows: RunRow[] = [];
  const start = Math.min(below, last + 1);
  const range = { from: start, to: Math.max(first, start - MAX_LOOKED_AT), length: db.stretch };
  const reached = await inStretches(range, async (top, bottom) => {
    rows.push(...(await db.all<RunRow>(sql, top, bottom, ...params, limit - rows.length + 1)));
    return rows.length <= limit;
  });
  if (rows.length > limit) return cut(rows, { below, limit });
  return { rows, reached: reached > first ? reached : null };
}

/** One more than asked for says that more follow. */
function cut(rows: readonly RunRow[], { below, limit }: Range): Part {
  if (rows.length <= limit) return { rows, reached: null };
  const shown = rows.slice(0, limit);
  return { rows: shown, reached: Number(shown.at(-1)?.seq ?? below) };
}

async function ends(db: Database): Promise<{ first: number; last: number }> {
  // Two looks: together they are none at an index.
  const first = await db.get<{ seq: number | null }>("SELECT min(seq) AS seq FROM runs");
  const last = await db.get<{ seq: number | null }>("SELECT max(seq) AS seq FROM runs");
  return { first: first?.seq ?? 0, last: last?.seq ?? -1 };
}

interface Counted {
  readonly state: string;
  readonly n: number;
}

async function totalsOf(db: Database, filter: RunFilter): Promise<RunTotals> {
  const { where, params } = conditionOf(db, filter);
  const states: Record<string, number> = {};
  const count = async (sql: string, ...more: Params): Promise<void> => {
    for (const { state, n } of await db.all<Counted>(sql, ...more)) states[state] = (states[state] ?? 0) + Number(n);
  };
  const at = (index: string): string => `SELECT state, count(*) AS n FROM runs ${db.by(index)} WHERE`;
  await count(`${at("runs_unfinished")} ${UNFINISHED} AND ${where} GROUP BY state`, ...params);
  const { first, last } = await ends(db);
  const least = Math.max(first, last + 1 - MAX_LOOKED_AT);
  const ended = `SELECT state, count(*) AS n FROM runs WHERE seq < ? AND seq >= ? AND NOT (${UNFINISHED}) AND ${where} GROUP BY state`;
  await inStretches({ from: last + 1, to: least, length: db.stretch }, async (top, bottom) => {
    await count(ended, top, bottom, ...params);
    return true;
  });
  const number = async (sql: string): Promise<number> => Number((await db.get<{ n: number }>(sql, ...params))?.n ?? 0);
  const asking = await number(`SELECT count(*) AS n FROM runs ${db.by("runs_unfinished")} WHERE ${RANK_WHERE.asking} AND ${where}`);
  const blocked = await number(`SELECT count(*) AS n FROM runs ${db.by("runs_blocked")} WHERE ${RANK_WHERE.blocked} AND ${where}`);
  return { states, needy: asking + blocked, isWhole: least <= first };
}

/** Asked with every key that is typed into the search, and other ones only when another run is on record. */
function createFacets(db: Database): () => Promise<RunFacets> {
  let known: { readonly last: number; readonly facets: RunFacets } | null = null;
  return async () => {
    const { last } = await ends(db);
    if (known?.last !== last) known = { last, facets: await facetsOf(db, last) };
    return known.facets;
  };
}

async function facetsOf(db: Database, last: number): Promise<RunFacets> {
  const rows = await db.all<{ agent: string; model: string; root: string }>(
    "SELECT agent_id AS agent, model, root_key AS root FROM runs WHERE seq > ? ORDER BY seq DESC",
    last - FACET_RUNS,
  );
  const distinct = (values: readonly string[]): string[] => [...new Set(values)].slice(0, MAX_FACETS);
  return {
    agents: distinct(rows.map(({ agent }) => agent)).sort(),
    models: distinct(rows.map(({ model }) => model)).sort(),
    rootKeys: distinct(rows.map(({ root }) => root)),
  };
}

/** Each side of it as SQL that this database reads. */
function conditionOf(db: Database, filter: RunFilter): { where: string; params: Params } {
  const sides: [string, ...Params][] = [];
  const { states, isNeedy, agentId, model, channel, rootKey, minCostUsd, since, text } = filter;
  if (states !== undefined) sides.push([`state IN (${states.map(() => "?").join(", ") || "NULL"})`, ...states]);
  if (isNeedy === true) sides.push([`(delivery = 'blocked' AND NOT (${UNFINISHED}) OR ${ASKS})`]);
  if (agentId !== undefined) sides.push(["agent_id = ?", agentId]);
  if (model !== undefined) sides.push(["model = ?", model]);
  // A key is `agent:<id>:<channel>:…`, and none of these has a colon in it.
  if (channel !== undefined) sides.push(["root_key LIKE ? ESCAPE '\\'", `agent:%:${literal(channel)}:%`]);
  if (rootKey !== undefined) sides.push(["root_key = ?", rootKey]);
  if (minCostUsd !== undefined) sides.push(["cost_usd >= ?", minCostUsd]);
  if (since !== undefined) sides.push(["created_at >= ?", since]);
  if (text !== undefined) {
    const places = ["label", `substr(task, 1, ${SEARCHED_TASK})`].map((column) => db.holds(column, text));
    const sql = [...places.map((place) => place.sql), "id LIKE ? ESCAPE '\\'"].join(" OR ");
    sides.push([`(${sql})`, ...places.map(({ param }) => param), `${literal(text.toLowerCase())}%`]);
  }
  return { where: ["1 = 1", ...sides.map(([sql]) => sql)].join(" AND "), params: sides.flatMap(([, ...values]) => values) };
}
