// The database's file: opening it with its pragmas, and bringing its tables up to date.
import { chmodSync, statSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { AppError, errorText, isStorageError } from "../core/errors.ts";
import { copyDatabase } from "./database-copy.ts";
import { MIGRATIONS } from "./schema.ts";

export interface FileOptions {
  path: string;
  /** Called before a new database is made: there is none, or it is empty. What it throws refuses that. */
  onNew?(): void;
  /** Told of a database that was brought up to date, and where it lies as it was before. */
  onMigrated?(step: { readonly from: number; readonly to: number; readonly copy: string }): void;
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

function migrate(db: DatabaseSync, { path, onNew, onMigrated }: FileOptions): void {
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
