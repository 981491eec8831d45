// The one SQLite file: open, pragmas, migrations, transactions. One writer connection in one process; every store
// is a thin set of statements on this. Synchronous on purpose: nothing can await inside a transaction.
import { chmodSync, statSync } from "node:fs";
import { DatabaseSync, type SQLInputValue, type StatementSync } from "node:sqlite";
import { AppError, errorText, isStorageError } from "../core/errors.ts";
import { copyDatabase } from "./database-copy.ts";
import { MIGRATIONS } from "./schema.ts";

export type Row = Record<string, unknown>;
export type Params = SQLInputValue[];

export interface Database {
  /** Runs one statement; returns how many rows changed. */
  run(sql: string, ...params: Params): number;
  /** For reading. A write with RETURNING belongs into a transaction: alone, its failed commit would go unnoticed. */
  get<T = Row>(sql: string, ...params: Params): T | undefined;
  all<T = Row>(sql: string, ...params: Params): T[];
  /** All or nothing, durable on return. A nested call joins the outer one. */
  transaction<T>(work: () => T): T;
  /**
   * A transaction that is not waited for on its way to the disk: it survives kill -9 at once, but a power cut only
   * together with the next real transaction. For what nobody was promised: what a run does now, what a call has cost.
   */
  relaxed<T>(work: () => T): T;
  /** Runs after the outermost transaction is durable (at once when there is none); dropped when it rolls back. */
  afterCommit(effect: () => void): void;
  /** Housekeeping: lets SQLite refresh its statistics and give WAL pages back. */
  optimize(): void;
  close(): void;
}

export interface DatabaseOptions {
  path: string;
  /** Told of a transaction that held the event loop for long. */
  onSlow?(ms: number): void;
  /** Called before anything is promised; what it throws refuses the write. */
  check?(): void;
  /** Called before a new database is made: there is none, or it is empty. What it throws refuses that. */
  onNew?(): void;
  /** Told of a database that was brought up to date, and where it lies as it was before. */
  onMigrated?(step: { readonly from: number; readonly to: number; readonly copy: string }): void;
  /** Every text on its way in passes here: no known secret is written, whoever said it (SC4). */
  redact?(text: string): string;
}

const SLOW_MS = 50;
const SQLITE_IOERR_FSYNC = 1034;

/** Opens and migrates. Throws AppError("state") in words when the file can't be used; never recreates a damaged one. */
export function openDatabase(options: DatabaseOptions): Database {
  const db = openFile(options);
  const statements = new Map<string, StatementSync>();
  const doubt = createDoubt(db);
  let depth = 0;
  let effects: (() => void)[] = [];

  const statement = (sql: string): StatementSync => {
    let prepared = statements.get(sql);
    if (prepared === undefined) {
      prepared = db.prepare(sql);
      statements.set(sql, prepared);
    }
    return prepared;
  };

  function commit<T>(work: () => T, isRelaxed: boolean): T {
    if (depth > 0) return work();
    const startedAt = performance.now();
    // Commits stay in order in the WAL, so the sync of the next one covers a relaxed one too.
    if (isRelaxed) db.exec("PRAGMA synchronous=NORMAL");
    depth = 1;
    let result: T;
    try {
      if (!isRelaxed) options.check?.();
      doubt.settle();
      statement("BEGIN IMMEDIATE").run();
      result = work();
      statement("COMMIT").run();
    } catch (error) {
      doubt.hear(error);
      effects = [];
      // After a failed COMMIT (disk full) SQLite may have rolled back already.
      if (db.isTransaction) statement("ROLLBACK").run();
      throw error;
    } finally {
      depth = 0;
      // Before the effects: what they write is promised to somebody.
      if (isRelaxed) db.exec("PRAGMA synchronous=FULL");
    }
    const heldMs = performance.now() - startedAt;
    if (heldMs > SLOW_MS) options.onSlow?.(heldMs);
    const due = effects;
    effects = [];
    for (const effect of due) effect();
    return result;
  }

  const { redact = (text) => text } = options;
  const clean = (params: Params): Params => params.map((value) => (typeof value === "string" ? redact(value) : value));

  return {
    run(sql, ...params) {
      const write = (): number => Number(statement(sql).run(...clean(params)).changes);
      if (depth > 0) return write();
      options.check?.();
      return doubt.watch(write);
    },
    get: <T>(sql: string, ...params: Params) => statement(sql).get(...clean(params)) as T | undefined,
    all: <T>(sql: string, ...params: Params) => statement(sql).all(...clean(params)) as T[],
    transaction: (work) => commit(work, false),
    relaxed: (work) => commit(work, true),
    afterCommit(effect) {
      if (depth > 0) effects.push(effect);
      else effect();
    },
    optimize() {
      db.exec("PRAGMA optimize; PRAGMA wal_checkpoint(PASSIVE);");
    },
    close() {
      statements.clear();
      db.close();
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

function openFile(options: DatabaseOptions): DatabaseSync {
  const { path } = options;
  let db: DatabaseSync | undefined;
  try {
    // Before it is opened: opening makes the file.
    if ((statSync(path, { throwIfNoEntry: false })?.size ?? 0) === 0) options.onNew?.();
    db = new DatabaseSync(path);
    chmodSync(path, 0o600);
    // A long busy_timeout would freeze the whole event loop while it waits.
    db.exec(
      "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA busy_timeout=2000; PRAGMA foreign_keys=ON; PRAGMA wal_autocheckpoint=1000;",
    );
    migrate(db, options);
    return db;
  } catch (error) {
    db?.close();
    if (error instanceof AppError) throw error;
    const advice = isStorageError(error)
      ? "Nothing in it was changed; start again when the disk can be written."
      : "Restore it from a backup or move it away; Herald does not replace it by itself.";
    throw new AppError("state", `The database ${path} can't be used: ${errorText(error)}. ${advice}`, { cause: error });
  }
}

function migrate(db: DatabaseSync, { path, onNew, onMigrated }: DatabaseOptions): void {
  const { user_version: from } = db.prepare("PRAGMA user_version").get() as { user_version: number };
  const to = MIGRATIONS.length;
  if (from > to) {
    const text = `The database ${path} was written by a newer Herald (schema ${from}, this one knows ${to}). Start the newer version.`;
    throw new AppError("state", text);
  }
  if (from === to) return;
  const isEmpty = db.prepare("SELECT 1 FROM sqlite_schema LIMIT 1").get() === undefined;
  if (isEmpty) onNew?.();
  const copy = isEmpty ? null : copyDatabase(db, path, from);
  for (let version = from; version < to; version++) {
    db.exec(`BEGIN IMMEDIATE; ${MIGRATIONS[version]} PRAGMA user_version=${version + 1}; COMMIT;`);
  }
  if (copy !== null) onMigrated?.({ from, to, copy });
}
