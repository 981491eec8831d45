// The one SQLite file: statements and transactions (database-file.ts opens it). One writer connection in one process; every store
// is a thin set of statements on this. Synchronous on purpose: nothing can await inside a transaction.
import type { DatabaseSync, SQLInputValue, StatementSync } from "node:sqlite";
import { AppError } from "../core/errors.ts";
import { type FileOptions, openFile } from "./database-file.ts";

export type Row = Record<string, unknown>;
export type Params = SQLInputValue[];

export interface Database {
  /** Runs one statement; returns how many rows changed. */
  run(sql: string, ...params: Params): number;
  /** For reading. A write with RETURNING belongs into a transaction: alone, its failed commit would go unnoticed. */
  get<T = Row>(sql: string, ...params: Params): T | undefined;
  all<T = Row>(sql: string, ...params: Params): T[];
  /** All or nothing, durable on return; so it can't be begun inside another, whose end it doesn't know: that throws. */
  transaction<T>(work: () => T): T;
  /**
   * Statements that belong together, in the transaction that is open, or in one of their own. What one of them throws is the end
   * of that whole transaction, also when somebody in between catches it: half of them must not stay.
   */
  part<T>(work: () => T): T;
  /**
   * A transaction that is not waited for on its way to the disk: it survives kill -9 at once, but a power cut only
   * together with the next real transaction. For what nobody was promised: what a run does now, what a call has cost.
   */
  relaxed<T>(work: () => T): T;
  /** Runs after the open transaction is durable (at once when there is none); dropped when it rolls back. */
  afterCommit(effect: () => void): void;
  /** Stands behind a table's name where only this index will do and the planner takes another. */
  by(index: string): string;
  /** Housekeeping: lets SQLite refresh its statistics and give WAL pages back. */
  optimize(): void;
  /** The sizes its files must have at least to hold what was committed; null inside a transaction, where SQLite doesn't tell. */
  neededBytes(): NeededBytes | null;
  close(): void;
}

export interface NeededBytes {
  readonly file: number;
  readonly journal: number;
}

export interface DatabaseOptions extends FileOptions {
  /** Told of a transaction that held the event loop for long. */
  onSlow?(ms: number): void;
  /** Called before every write, and told whether somebody is promised it; what it throws refuses it. */
  check?(isRelaxed: boolean): void;
  /** Told of an effect that threw. What is committed is committed, so neither the caller nor the other effects learn of it. */
  onEffectFailed?(error: unknown): void;
  /** Every text on its way in passes here: no known secret is written, whoever said it (SC4). */
  redact?(text: string): string;
}

const SLOW_MS = 50;
const READS = /^\s*SELECT\b/;
const SQLITE_IOERR_FSYNC = 1034;

/** Opens and migrates. Throws AppError("state") in words when the file can't be used; never recreates a damaged one. */
export function openDatabase(options: DatabaseOptions): Database {
  const db = openFile(options);
  const doubt = createDoubt(db);
  const prepared = new Map<string, StatementSync>();
  const statement = (sql: string): StatementSync => {
    let known = prepared.get(sql);
    if (known === undefined) {
      // A bare `LIMIT ?` is part of the plan: SQLite would prepare the statement anew whenever it is given a number, at ten times
      // what asking costs.
      known = db.prepare(sql.replaceAll("LIMIT ?", "LIMIT ? + 0"));
      prepared.set(sql, known);
    }
    return known;
  };
  const { redact = (text) => text } = options;
  // NUL ends a text for SQLite's own functions, and other databases refuse it; nobody can type it or see it.
  const withoutNul = (text: string): string => (text.includes("\0") ? text.replaceAll("\0", "") : text);
  const clean = (params: Params): Params => params.map((value) => (typeof value === "string" ? redact(withoutNul(value)) : value));
  const sync = createSync(db);
  const transactions = createTransactions({ db, statement, doubt, sync, options });

  return {
    run(sql, ...params) {
      const write = (): number => Number(statement(sql).run(...clean(params)).changes);
      if (transactions.isOpen()) return write();
      options.check?.(false);
      sync.set("FULL");
      return doubt.watch(write);
    },
    get: <T>(sql: string, ...params: Params) => statement(sql).get(...clean(params)) as T | undefined,
    all<T>(sql: string, ...params: Params) {
      const query = statement(sql);
      const given = clean(params);
      // Most lists are empty, and `get` says so at an eighth of what `all` costs. A write would be made twice.
      if (READS.test(sql) && query.get(...given) === undefined) return [];
      return query.all(...given) as T[];
    },
    transaction: (work) => transactions.commit(work, false),
    relaxed: (work) => transactions.commit(work, true),
    part: transactions.part,
    afterCommit: transactions.afterCommit,
    by: (index) => `INDEXED BY ${index}`,
    optimize() {
      db.exec("PRAGMA optimize; PRAGMA wal_checkpoint(PASSIVE);");
    },
    neededBytes: () => (db.isTransaction ? null : neededBytes(db)),
    close() {
      prepared.clear();
      db.close();
    },
  };
}

const JOURNAL_HEADER = 32;
const FRAME_HEADER = 24;

/** A database that lacks pages can't say how many it needs: then all of them. */
function neededBytes(db: DatabaseSync): NeededBytes {
  try {
    const { page_size: page } = db.prepare("PRAGMA page_size").get() as { page_size: number };
    const { page_count: pages } = db.prepare("PRAGMA page_count").get() as { page_count: number };
    // NOOP: moves nothing, only counts the frames of the journal that are in use.
    const { log: frames } = db.prepare("PRAGMA wal_checkpoint(NOOP)").get() as { log: number };
    return { file: page * pages, journal: frames > 0 ? JOURNAL_HEADER + frames * (FRAME_HEADER + page) : 0 };
  } catch {
    return { file: Number.POSITIVE_INFINITY, journal: Number.POSITIVE_INFINITY };
  }
}

interface Transactions extends Pick<Database, "part" | "afterCommit"> {
  isOpen(): boolean;
  commit<T>(work: () => T, isRelaxed: boolean): T;
}

interface TransactionDeps {
  readonly db: DatabaseSync;
  readonly doubt: ReturnType<typeof createDoubt>;
  readonly sync: ReturnType<typeof createSync>;
  readonly options: DatabaseOptions;
  statement(sql: string): StatementSync;
}

/** At most one is open: there is one connection, and nothing can await inside. */
function createTransactions({ db, doubt, sync, options, statement }: TransactionDeps): Transactions {
  let isOpen = false;
  /** What a part of the open one threw. */
  let broken: { readonly error: unknown } | null = null;
  let effects: (() => void)[] = [];
  const { onEffectFailed = rethrow } = options;

  function part<T>(work: () => T): T {
    if (!isOpen) return commit(work, false);
    try {
      return work();
    } catch (error) {
      broken ??= { error };
      throw error;
    }
  }

  function commit<T>(work: () => T, isRelaxed: boolean): T {
    if (isOpen) return part(refuseNesting);
    const startedAt = performance.now();
    isOpen = true;
    let result: T;
    try {
      // A relaxed one too: a gateway that lost its folder must not touch rows that another may work on by now.
      options.check?.(isRelaxed);
      doubt.settle();
      sync.set(isRelaxed ? "NORMAL" : "FULL");
      statement("BEGIN IMMEDIATE").run();
      result = work();
      if (broken !== null) throw broken.error;
      statement("COMMIT").run();
    } catch (error) {
      doubt.hear(error);
      effects = [];
      // After a failed COMMIT (disk full) SQLite may have rolled back already.
      if (db.isTransaction) statement("ROLLBACK").run();
      throw error;
    } finally {
      isOpen = false;
      broken = null;
    }
    const heldMs = performance.now() - startedAt;
    if (heldMs > SLOW_MS) options.onSlow?.(heldMs);
    const due = effects;
    effects = [];
    for (const effect of due) attempt(effect, onEffectFailed);
    return result;
  }

  return {
    isOpen: () => isOpen,
    part,
    commit,
    afterCommit(effect) {
      if (isOpen) effects.push(effect);
      else effect();
    },
  };
}

/**
 * Whether a commit waits for the disk. Commits stay in order in the WAL, so the sync of the next one that waits covers those
 * before it too. Whoever writes says which it needs; told to SQLite only when that is another than the last time.
 */
function createSync(db: DatabaseSync) {
  let current: "FULL" | "NORMAL" | null = null;
  return {
    set(wanted: "FULL" | "NORMAL"): void {
      if (wanted === current) return;
      db.exec(`PRAGMA synchronous=${wanted}`);
      current = wanted;
    },
  };
}

function attempt(effect: () => void, onFailed: (error: unknown) => void): void {
  try {
    effect();
  } catch (error) {
    onFailed(error);
  }
}

function rethrow(error: unknown): never {
  throw error;
}

function refuseNesting(): never {
  throw new Error("a transaction can't be begun inside another");
}

/**
 * After a sync that failed the kernel may forget what it could not write and call the next sync a success. SQLite writes
 * its own transaction again, but relaxed ones before it lie in the WAL unsynced: all that came after would hang on them. So
 * before anything else is promised everything is moved into the main file, synced there, and the WAL begins anew.
 */
function createDoubt(db: DatabaseSync) {
  let isDoubtful = false;
  const settle = (): void => {
    if (!isDoubtful) return;
    const { busy } = db.prepare("PRAGMA wal_checkpoint(TRUNCATE)").get() as { busy: number };
    if (busy !== 0) throw new AppError("storage", "the database can't be synced while another program reads it");
    isDoubtful = false;
  };
  const hear = (error: unknown): void => {
    if ((error as { errcode?: number }).errcode === SQLITE_IOERR_FSYNC) isDoubtful = true;
  };
  return {
    settle,
    hear,
    watch<T>(write: () => T): T {
      try {
        settle();
        return write();
      } catch (error) {
        hear(error);
        throw error;
      }
    },
  };
}

/** A column that holds JSON of ours. Throws AppError("state") naming the row, because a repair by guessing would hide the damage. */
export function parseColumn<T>(text: string, where: { table: string; id: string | number; column: string }): T {
  try {
    return JSON.parse(text) as T;
  } catch (error) {
    throw new AppError("state", `Row ${where.id} of table ${where.table} is damaged: its ${where.column} can't be read`, { cause: error });
  }
}
