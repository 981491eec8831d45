// The database's file: opening it with its pragmas, and bringing its tables up to date.
import { chmodSync, statSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { AppError, errorText, isStorageError } from "../core/errors.ts";
import { copyDatabase } from "./database-copy.ts";
import { lendFolding } from "./letter-case.ts";
import { MIGRATIONS, TABLES } from "./schema.ts";

export interface FileOptions {
  path: string;
  /** No other process has it open, or may: its file can be made anew. */
  isSole?: boolean;
  /** Called before a new database is made: there is none, or it is empty. What it throws refuses that. */
  onNew?(): void;
  /** Told of a database that was brought up to date, and where it lies as it was before. */
  onMigrated?(step: { readonly from: number; readonly to: number; readonly copy: string }): void;
}

/**
 * Every commit writes whole pages, and most change a few hundred bytes in each of some: small pages are most of what a turn
 * doesn't write. SQLite's own 4 096 wrote three times as much; below 1 024 the trees get too deep.
 */
const PAGE_BYTES = 1_024;
/** Pages that change again and again are written back once in so many bytes of journal. */
const WAL_BYTES = 4 * 1024 * 1024;
/** Making it anew takes a moment that nobody should wait for when the file is large: that one keeps its pages. */
const MAX_REFIT_BYTES = 64 * 1024 * 1024;

const pageBytes = (db: DatabaseSync): number => (db.prepare("PRAGMA page_size").get() as { page_size: number }).page_size;

/**
 * Gives a database of an earlier version small pages. All or nothing: outside WAL mode VACUUM works under a rollback journal, so a
 * crash leaves the old file. What refuses (a full disk, another program that reads) leaves it as well; it works with either.
 */
function refit(db: DatabaseSync): void {
  const { page_count: pages } = db.prepare("PRAGMA page_count").get() as { page_count: number };
  if (pageBytes(db) === PAGE_BYTES || pages * pageBytes(db) > MAX_REFIT_BYTES) return;
  try {
    db.exec(`PRAGMA journal_mode=DELETE; PRAGMA page_size=${PAGE_BYTES}; VACUUM;`);
  } catch (error) {
    if (!isStorageError(error)) throw error;
  } finally {
    db.exec("PRAGMA journal_mode=WAL");
  }
}

/** Throws AppError("state") in words when it can't be used. */
export function openFile(options: FileOptions): DatabaseSync {
  const { path } = options;
  let db: DatabaseSync | undefined;
  try {
    // Before it is opened: opening makes the file.
    if ((statSync(path, { throwIfNoEntry: false })?.size ?? 0) === 0) options.onNew?.();
    db = new DatabaseSync(path);
    chmodSync(path, 0o600);
    // A long busy_timeout would freeze the whole event loop while it waits. The page size counts for a file without pages only.
    db.exec(`PRAGMA busy_timeout=2000; PRAGMA synchronous=FULL; PRAGMA page_size=${PAGE_BYTES}; PRAGMA journal_mode=WAL;`);
    if (options.isSole === true) refit(db);
    db.exec(`PRAGMA foreign_keys=ON; PRAGMA wal_autocheckpoint=${Math.round(WAL_BYTES / pageBytes(db))};`);
    migrate(db, options);
    lendFolding(db);
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

function migrate(db: DatabaseSync, { path, onNew, onMigrated }: FileOptions): void {
  const { user_version: from } = db.prepare("PRAGMA user_version").get() as { user_version: number };
  const to = MIGRATIONS.length;
  if (from > to) {
    const text = `The database ${path} was written by a newer Herald (schema ${from}, this one knows ${to}). Start the newer version.`;
    throw new AppError("state", text);
  }
  if (from === to) return requireTables(db);
  const isEmpty = db.prepare("SELECT 1 FROM sqlite_schema LIMIT 1").get() === undefined;
  if (isEmpty) onNew?.();
  const copy = isEmpty ? null : copyDatabase(db, path, from);
  for (let version = from; version < to; version++) {
    db.exec(`BEGIN IMMEDIATE; ${MIGRATIONS[version]} PRAGMA user_version=${version + 1}; COMMIT;`);
  }
  if (copy !== null) onMigrated?.({ from, to, copy });
}

/** Else the first statement that misses one would say so, somewhere at the start or days later. */
function requireTables(db: DatabaseSync): void {
  const found = new Set(
    db
      .prepare("SELECT name FROM sqlite_schema WHERE type = 'table'")
      .all()
      .map(({ name }) => name),
  );
  const missing = TABLES.filter((name) => !found.has(name));
  if (missing.length > 0) throw new Error(`it lacks the tables ${missing.join(", ")}`);
}
