// What is spent and held at each level that has a limit, and the holds themselves (BG2, BG3). A hold is a row: kill -9 neither frees
// money that was spent nor locks unspent money for good, because whoever finds a hold of a dead process settles it as fully used.
// How much is held and whether it fits: core/budget. Which levels there are: budgets/.
import {
  type Amount,
  type Asked,
  add,
  type Decision,
  decide,
  type Figures,
  type Level,
  type LevelNow,
  NOTHING,
  type Taken,
} from "../core/budget.ts";
import type { Clock } from "../core/clock.ts";
import type { HitFailpoint } from "../core/failpoints.ts";
import { type Database, PASSING, parseColumn, type Tx } from "./database.ts";
import { type LockKey, lock } from "./lock-keys.ts";
import { orphaned } from "./nodes.ts";

export interface Hold {
  /** Of one attempt: retries and fallbacks are calls of their own. */
  readonly id: string;
  readonly levels: readonly Level[];
  readonly asked: Asked;
}

export interface Budgets {
  /** Decides and holds, in one transaction under the locks of all levels: counted outside, two would be given the same rest. */
  hold(hold: Hold): Promise<Decision>;
  /**
   * A certain amount, kept until somebody settles it: for a run's last call. The caller holds the locks of all levels. `wait`: only what
   * others hold is in the way.
   */
  reserve(tx: Tx, id: string, levels: readonly Level[], amount: Amount): Promise<"kept" | "wait" | "over">;
  /** What is reserved under this id; null: nothing. */
  reserved(id: string): Promise<Amount | null>;
  /** It is, and no call is paid from it. */
  isKept(id: string): Promise<boolean>;
  /** The reserve pays for a call that begins now: a process that dies at it has spent it. False: it was drawn or is gone. */
  draw(id: string): Promise<boolean>;
  /** That call was refused without work: kept as before. */
  putBack(id: string): Promise<void>;
  /** Frees a reserve that nobody has drawn: what a call under way takes is still to come. */
  release(tx: Tx, id: string): Promise<void>;
  levels(levels: readonly Level[]): Promise<LevelNow[]>;
  /**
   * The hold becomes what the call took; null: nobody knows, so all of it, or all of its money. False: it was settled before. Where it can't be recorded it
   * throws, and is made up for before the next hold: its process lives, so nobody else would ever free it.
   */
  settle(id: string, took: Taken | null): Promise<boolean>;
  locksOf(levels: readonly Pick<Level, "id">[]): LockKey[];
  figures(levelId: string): Promise<Figures>;
  /** Marks that the chat was told of this level. False: it was before. */
  warn(tx: Tx, levelId: string): Promise<boolean>;
  /** Settles as unknown what nobody alive holds; returns how many. */
  recover(): Promise<number>;
  /** Forgets levels that nothing has touched since, but not a run's: it can be raised and go on for as long as it is on record. */
  purge(before: number): Promise<number>;
}

interface StoredLevel {
  readonly spent_usd: number;
  readonly spent_tokens: number;
  readonly held_usd: number;
  readonly held_tokens: number;
  readonly kept_usd: number;
  readonly kept_tokens: number;
}

interface StoredHold {
  readonly levels: string;
  readonly usd: number;
  readonly tokens: number;
  readonly lasting: number;
}

interface BudgetsOptions {
  readonly db: Database;
  readonly clock: Clock;
  readonly bootId: string;
  readonly failpoint: HitFailpoint;
}

export function createBudgets(options: BudgetsOptions): Budgets {
  const { db, clock, bootId } = options;
  const figures = async (levelId: string): Promise<Figures> => toFigures(await db.get<StoredLevel>(LEVEL, levelId));
  const now = async (level: Level): Promise<LevelNow> => ({ ...level, ...(await figures(level.id)) });
  const insert = async (tx: Tx, id: string, levels: readonly Level[], amount: Amount, isLasting: boolean): Promise<void> => {
    // The outermost first, here and wherever it is changed again: who ends several runs in one transaction has the row that all share from
    // the first on. Innermost first, he would wait for a row of somebody who waits for that one.
    const ids = levels.map((level) => level.id).reverse();
    await tx.run(
      "INSERT INTO budget_holds (id, owner, levels, usd, tokens, lasting, at) VALUES (?, ?, ?, ?, ?, ?, ?)",
      ...[id, bootId, JSON.stringify(ids), amount.usd, amount.tokens, isLasting ? 1 : 0, clock.now()],
    );
    for (const level of ids) await change(tx, clock, level, { ...UNCHANGED, [isLasting ? "kept" : "held"]: amount });
  };
  const settling = createSettling(options);
  return {
    async hold({ id, levels, asked }) {
      await settling.makeUp();
      return db.transaction(locksOf(levels), async (tx) => {
        const decision = decide(await Promise.all(levels.map(now)), asked);
        if (decision.kind === "held") await insert(tx, id, levels, decision.amount, false);
        return decision;
      });
    },
    async reserve(tx, id, levels, amount) {
      const present = await Promise.all(levels.map(now));
      const fits = (taken: (level: LevelNow) => Amount): boolean =>
        present.every((level) => {
          const { usd, tokens } = add(taken(level), amount);
          return (level.cap.usd === null || usd <= level.cap.usd) && (level.cap.tokens === null || tokens <= level.cap.tokens);
        });
      if (!fits(({ spent, kept }) => add(spent, kept))) return "over";
      if (!fits(({ spent, kept, held }) => add(held, add(spent, kept)))) return "wait";
      await insert(tx, id, levels, amount, true);
      return "kept";
    },
    async reserved(id) {
      const row = await db.get<StoredHold>("SELECT levels, usd, tokens, lasting FROM budget_holds WHERE id = ?", id);
      return row === undefined ? null : { usd: row.usd, tokens: row.tokens };
    },
    isKept: async (id) => (await db.get("SELECT 1 FROM budget_holds WHERE id = ? AND lasting = 1", id)) !== undefined,
    ...settling,
    levels: (levels) => levelsNow(db, levels),
    locksOf,
    figures,
    warn: async (tx, levelId) => (await tx.run("UPDATE budget_levels SET warned = 1 WHERE id = ? AND warned = 0", levelId)) === 1,
    recover: () => recover(db, settling),
    purge: (before) => db.transaction([], (tx) => tx.run(PURGE, before), PASSING),
  };
}

/** In one statement: the board asks for a hundred at once, and over a network each would be a way there and back. */
async function levelsNow(db: Database, levels: readonly Level[]): Promise<LevelNow[]> {
  if (levels.length === 0) return [];
  const ids = padded(levels.map(({ id }) => id));
  const sql = `SELECT id, ${AMOUNTS.join(", ")} FROM budget_levels WHERE id IN (${ids.map(() => "?").join(", ")})`;
  const rows = new Map((await db.all<StoredLevel & { id: string }>(sql, ...ids)).map((row) => [row.id, row]));
  return levels.map((level) => ({ ...level, ...toFigures(rows.get(level.id)) }));
}

/** As many places as the next power of two, the last id in all that are left over: few statements to keep prepared. */
const padded = (ids: readonly string[]): string[] =>
  Array.from({ length: 2 ** Math.ceil(Math.log2(ids.length)) }, (_, n) => ids[Math.min(n, ids.length - 1)] ?? "");

const locksOf = (levels: readonly Pick<Level, "id">[]): LockKey[] => levels.map(({ id }) => lock.budget(id));

interface Settling extends Pick<Budgets, "settle" | "release" | "draw" | "putBack"> {
  /** Settles what could not be recorded when it was due. */
  makeUp(): Promise<void>;
}

/** How holds end, and change their kind. */
function createSettling({ db, clock, bootId, failpoint }: BudgetsOptions): Settling {
  const levelsIn = (id: string, { levels }: Pick<StoredHold, "levels">): string[] =>
    parseColumn<string[]>(levels, { table: "budget_holds", id, column: "levels" });
  const takeOut = async (tx: Tx, id: string, took: Taken | null, which: "" | "AND lasting = 1" = ""): Promise<boolean> => {
    // The row is the lock: of two who settle one deletes it.
    const sql = `DELETE FROM budget_holds WHERE id = ? ${which} RETURNING levels, usd, tokens, lasting`;
    const row = await tx.get<StoredHold>(sql, id);
    if (row === undefined) return false;
    const { usd, tokens, lasting } = row;
    const freed = { [lasting === 1 ? "kept" : "held"]: { usd: -usd, tokens: -tokens } };
    const spent = { usd: took?.usd ?? usd, tokens: took?.tokens ?? tokens };
    for (const level of levelsIn(id, row)) await change(tx, clock, level, { ...UNCHANGED, ...freed, spent });
    tx.emit({ type: "budget.settled" });
    return true;
  };
  const moveTo = (kind: "held" | "kept", id: string): Promise<boolean> =>
    db.transaction([], async (tx) => {
      const isLasting = kind === "kept" ? 1 : 0;
      const sql = "UPDATE budget_holds SET lasting = ?, owner = ? WHERE id = ? AND lasting = ? RETURNING levels, usd, tokens, lasting";
      const row = await tx.get<StoredHold>(sql, isLasting, bootId, id, 1 - isLasting);
      if (row === undefined) return false;
      const more = { usd: row.usd, tokens: row.tokens };
      const less = { usd: -row.usd, tokens: -row.tokens };
      const moved = kind === "kept" ? { kept: more, held: less } : { held: more, kept: less };
      for (const level of levelsIn(id, row)) await change(tx, clock, level, { ...UNCHANGED, ...moved });
      return true;
    });
  const unrecorded = new Map<string, Taken | null>();
  const settle = async (id: string, took: Taken | null): Promise<boolean> => {
    try {
      const row = await db.get<StoredHold>("SELECT levels, usd, tokens, lasting FROM budget_holds WHERE id = ?", id);
      const levels = row === undefined ? [] : levelsIn(id, row).map((level) => ({ id: level }));
      const isFirst = await db.transaction(locksOf(levels), async (tx) => {
        const taken = await takeOut(tx, id, took);
        failpoint("budget.settling");
        return taken;
      });
      unrecorded.delete(id);
      return isFirst;
    } catch (error) {
      unrecorded.set(id, took);
      throw error;
    }
  };
  return {
    settle,
    release: async (tx, id) => void (await takeOut(tx, id, NOTHING, "AND lasting = 1")),
    draw: (id) => moveTo("held", id),
    putBack: async (id) => void (await moveTo("kept", id)),
    async makeUp() {
      for (const [id, took] of [...unrecorded]) await settle(id, took);
    },
  };
}

const AMOUNTS = ["spent_usd", "spent_tokens", "held_usd", "held_tokens", "kept_usd", "kept_tokens"];
const LEVEL = `SELECT ${AMOUNTS.join(", ")} FROM budget_levels WHERE id = ?`;
const PURGE = `DELETE FROM budget_levels WHERE at < ? AND held_usd = 0 AND held_tokens = 0 AND kept_usd = 0 AND kept_tokens = 0
  AND (id NOT LIKE 'run:%' OR NOT EXISTS (SELECT 1 FROM runs WHERE runs.id = substr(budget_levels.id, 5)))`;
const ADDED = `ON CONFLICT (id) DO UPDATE SET at = excluded.at, ${AMOUNTS.map((name) => `${name} = budget_levels.${name} + excluded.${name}`).join(", ")}`;
const UNCHANGED: Figures = { spent: NOTHING, held: NOTHING, kept: NOTHING };

const toFigures = (row: StoredLevel | undefined): Figures =>
  row === undefined
    ? UNCHANGED
    : {
        spent: { usd: row.spent_usd, tokens: row.spent_tokens },
        held: { usd: row.held_usd, tokens: row.held_tokens },
        kept: { usd: row.kept_usd, tokens: row.kept_tokens },
      };

/** Adds to what stands there. */
async function change(tx: Tx, clock: Clock, levelId: string, { held, spent, kept }: Figures): Promise<void> {
  const amounts = [spent.usd, spent.tokens, held.usd, held.tokens, kept.usd, kept.tokens];
  const sql = `INSERT INTO budget_levels (id, ${AMOUNTS.join(", ")}, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ${ADDED}`;
  await tx.run(sql, levelId, ...amounts, clock.now());
}

async function recover(db: Database, { settle, release }: Settling): Promise<number> {
  const left = await db.all<{ id: string }>(`SELECT id FROM budget_holds WHERE lasting = 0 AND ${orphaned("budget_holds")}`);
  for (const { id } of left) await settle(id, null);
  // What a run kept for its last call is free when that generation has ended, whichever way that was.
  const kept = await db.all<{ id: string }>("SELECT id FROM budget_holds WHERE lasting = 1");
  const atWork = await generationsAtWork(db, [...new Set(kept.map(({ id }) => runOf(id)))]);
  for (const { id } of kept) if (!atWork.has(id)) await db.transaction([], (tx) => release(tx, id));
  return left.length;
}

const runOf = (reserveId: string): string => reserveId.split(":")[1] ?? "";

/** Names of the reserves they may have. In few statements: a thousand runs may wait for people, and this is asked every few seconds. */
async function generationsAtWork(db: Database, runIds: readonly string[]): Promise<ReadonlySet<string>> {
  const names = new Set<string>();
  for (let from = 0; from < runIds.length; from += MAX_ASKED) {
    const ids = padded(runIds.slice(from, from + MAX_ASKED));
    const sql = `SELECT id, generation FROM runs WHERE ended_at IS NULL AND id IN (${ids.map(() => "?").join(", ")})`;
    for (const { id, generation } of await db.all<{ id: string; generation: number }>(sql, ...ids))
      names.add(`landing:${id}:${generation}`);
  }
  return names;
}

const MAX_ASKED = 512;
