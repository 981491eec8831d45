// What every store works on, whichever database stands behind it, and the one SQLite file (database-file.ts opens it,
// transactions.ts puts its statements in order): one writer connection in one process. PostgreSQL is in postgres/database.ts.
// Asynchronous, because not every database is a library in our process.
import type { DatabaseSync, StatementSync } from "node:sqlite";
import { AppError } from "../core/errors.ts";
import type { AppEvent } from "../core/events.ts";
import { type FileOptions, openFile } from "./database-file.ts";
import { type Holding, holdsInSqlite } from "./letter-case.ts";
import type { LockKey } from "./lock-keys.ts";
import { type Ask, createTransactions, type Statements } from "./transactions.ts";

export type Row = Record<string, unknown>;
export type Params = (string | number | null)[];

export interface Query {
  /** For reading; a write with RETURNING is made with a `tx`. */
  get<T = Row>(sql: string, ...params: Params): Promise<T | undefined>;
  all<T = Row>(sql: string, ...params: Params): Promise<T[]>;
}

/** An open transaction. Whoever writes takes one, so that nobody can write outside of one, or begin another inside. */
export interface Tx extends Query {
  /** Runs one statement; returns how many rows changed. */
  run(sql: string, ...params: Params): Promise<number>;
  /** For whoever listens, once the transaction is durable; dropped when it rolls back. */
  emit(event: AppEvent): void;
}

export interface TransactionOptions {
  /**
   * Not waited for on its way to the disk: it survives kill -9 at once, but a power cut only together with the next transaction
   * that is waited for. For what nobody was promised: what a run does now, what a call has cost.
   */
  readonly relaxed?: boolean;
  /**
   * Relaxed, and no process goes on from it in its memory: only shown, or done again without anybody seeing it. A server beside us can
   * crash while we live, and takes only such back. Where the database is part of the process it is the same as relaxed.
   */
  readonly passing?: boolean;
}

export const RELAXED: TransactionOptions = { relaxed: true };
export const PASSING: TransactionOptions = { relaxed: true, passing: true };

/**
 * What is read inside a transaction's work is read in that transaction, whoever reads it: a store's look at a row that was just
 * changed must see the change. All other reads see what is committed.
 */
export interface Database extends Query {
  /**
   * All or nothing under these locks (lock-keys.ts), durable on return. Never inside another, whose end it doesn't know: that throws.
   * The work waits for nothing but rows and files: everybody else waits for it.
   */
  transaction<T>(keys: readonly LockKey[], work: (tx: Tx) => Promise<T>, options?: TransactionOptions): Promise<T>;
  /** Stands behind a table's name where only this index will do and the planner takes another. */
  by(index: string): string;
  /** How many rows are looked through in one go: where they are read on our own thread, in a few milliseconds. */
  readonly stretch: number;
  /** That this column holds these words, as they are, in any case of letters. */
  holds(column: string, words: string): Holding;
  /** Housekeeping: lets SQLite refresh its statistics and give WAL pages back; in PostgreSQL connections that are gone are forgotten. */
  optimize(): Promise<void>;
}

/** Told of what a transaction has to say; gives what is to be told after it. */
type AtEnd = (tx: Tx, events: readonly AppEvent[]) => Promise<readonly AppEvent[]>;

export interface SqliteDatabase extends Database {
  /** Asked at the end of each transaction, in it: what it has to say may be carried out there and then. What it throws is its end. */
  onEnd(ask: AtEnd): void;
  /** The sizes its files must have at least to hold what was committed; null inside a transaction, where SQLite doesn't tell. */
  neededBytes(): NeededBytes | null;
  close(): void;
}

export interface NeededBytes {
  readonly file: number;
  readonly journal: number;
}

export interface DatabaseOptions extends FileOptions {
  /** Told of a transaction for which everybody else waited for long. */
  onSlow?(ms: number): void;
  /** Called before every write, and told whether somebody is promised it; what it throws refuses it. */
  check?(isRelaxed: boolean): void;
  /** Told of what a transaction has to say, once it is durable; what is committed is committed, so it never throws. */
  onEvent?(event: AppEvent): void;
  /** Every text on its way in passes here: no known secret is written, whoever said it (SC4). */
  redact?(text: string): string;
}

export const STRETCH = 400;

/** Not what looks through many rows for few, or counts them: that would do all of it twice. */
const LISTS = /^\s*SELECT\b(?!.*\b(?:LIKE|GROUP BY)\b)/s;
const SQLITE_IOERR_FSYNC = 1034;

/** Opens and migrates. Throws AppError("state") in words when the file can't be used; never recreates a damaged one. */
export function openDatabase(options: DatabaseOptions): SqliteDatabase {
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
  const lists = new Map<string, boolean>();
  const isList = (sql: string): boolean => {
    const known = lists.get(sql) ?? LISTS.test(sql);
    lists.set(sql, known);
    return known;
  };
  const { redact = (text) => text } = options;
  const clean = cleanWith(redact);
  const sync = createSync(db);

  const statements: Statements = {
    get: (sql, ...params) => statement(sql).get(...clean(params)),
    all(sql, ...params) {
      const wanted = statement(sql);
      const given = clean(params);
      // Most lists are empty, and `get` says so at an eighth of what `all` costs. A write would be made twice.
      if (isList(sql) && wanted.get(...given) === undefined) return [];
      return wanted.all(...given);
    },
    run: (sql, ...params) => Number(statement(sql).run(...clean(params)).changes),
  };
  let atEnd: AtEnd = async (_tx, events) => events;
  const { read, transact, alone } = createTransactions<Tx>({
    ...{ db, statement, doubt, sync, options, statements, txOf },
    atEnd: (tx, events) => atEnd(tx, events),
  });

  return {
    get: <T>(sql: string, ...params: Params) => read((from) => from.get(sql, ...params) as T | undefined),
    all: <T>(sql: string, ...params: Params) => read((from) => from.all(sql, ...params) as T[]),
    // There is one line for all: whoever passes has every lock.
    transaction: (_keys, work, { relaxed = false } = {}) => transact(work, relaxed),
    by: (index) => `INDEXED BY ${index}`,
    stretch: STRETCH,
    holds: holdsInSqlite,
    optimize: () => alone(() => db.exec("PRAGMA optimize; PRAGMA wal_checkpoint(PASSIVE);")),
    neededBytes: () => (db.isTransaction ? null : neededBytes(db)),
    onEnd(ask) {
      atEnd = ask;
    },
    close() {
      prepared.clear();
      db.close();
    },
  };
}

/** NUL ends a text for SQLite's own functions, and PostgreSQL refuses it; nobody can type it or see it. */
export const withoutNul = (text: string): string => (text.includes("\0") ? text.replaceAll("\0", "") : text);

/** What is written, as it may be kept. */
export const cleanWith =
  (redact: (text: string) => string) =>
  (params: Params): Params =>
    params.map((value) => (typeof value === "string" ? redact(withoutNul(value)) : value));

const txOf = (ask: Ask, emit: Tx["emit"]): Tx => ({
  get: async <T>(sql: string, ...params: Params) => ask((from) => from.get(sql, ...params) as T | undefined),
  all: async <T>(sql: string, ...params: Params) => ask((from) => from.all(sql, ...params) as T[]),
  run: async (sql, ...params) => ask((from) => from.run(sql, ...params)),
  emit,
});

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
