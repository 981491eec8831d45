// A database that is only looked at, beside whoever works on it or when nobody does: nothing is made, migrated or written.
import { existsSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { AppError, errorText } from "../core/errors.ts";
import { type Database, type Params, STRETCH } from "./database.ts";
import { holdsInSqlite, lendFolding } from "./letter-case.ts";
import { MIGRATIONS } from "./schema.ts";

const BUSY_MS = 2_000;

/** Throws AppError("state") in words when there is none, or one of another version. */
export function openReadOnly(path: string): Database & { close(): void } {
  if (!existsSync(path))
    throw new AppError("state", `There is no database ${path}: Herald has not been started with this state folder yet.`);
  const db = new DatabaseSync(path, { readOnly: true, timeout: BUSY_MS });
  try {
    refuseOther(versionOf(db, path), path);
  } catch (error) {
    db.close();
    throw error;
  }
  lendFolding(db);
  const refuse = (): never => {
    throw new AppError("state", "this database is only read");
  };
  return {
    get: async <T>(sql: string, ...params: Params) => db.prepare(sql).get(...params) as T | undefined,
    all: async <T>(sql: string, ...params: Params) => db.prepare(sql).all(...params) as T[],
    transaction: async () => refuse(),
    by: (index) => `INDEXED BY ${index}`,
    stretch: STRETCH,
    holds: holdsInSqlite,
    optimize: async () => refuse(),
    close: () => db.close(),
  };
}

function refuseOther(found: number, path: string): void {
  if (found === MIGRATIONS.length) return;
  const advice = found > MIGRATIONS.length ? "use the newer Herald" : "start Herald once, which brings it up to date";
  throw new AppError("state", `The database ${path} has schema ${found}, this Herald reads ${MIGRATIONS.length}: ${advice}.`);
}

/** The first that is read of a file which may be anything. Throws AppError("state") when it is no database. */
export function versionOf(db: DatabaseSync, path: string): number {
  try {
    return (db.prepare("PRAGMA user_version").get() as { user_version: number }).user_version;
  } catch (error) {
    throw new AppError("state", `The database ${path} can't be read: ${errorText(error)}. herald doctor tells more.`, { cause: error });
  }
}

/** What is wrong with a database's file, whatever its version; null: nothing. */
export function checkFile(path: string): string | null {
  const db = new DatabaseSync(path, { readOnly: true, timeout: BUSY_MS });
  try {
    const [first] = db.prepare("PRAGMA quick_check(1)").all() as { quick_check: string }[];
    return first?.quick_check === "ok" ? null : (first?.quick_check ?? "it says nothing about itself");
  } finally {
    db.close();
  }
}
