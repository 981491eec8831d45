// The journal (-wal) beside the database, when a gateway starts: until it is checkpointed, what was committed last stands in it
// alone. SQLite takes it for that of whatever database lies beside it, and throws it away where there is none.
import { renameSync, statSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { pathToFileURL } from "node:url";
import { AppError } from "../core/errors.ts";

/** Reading it all takes a moment that nobody should wait for when the file is large. */
const MAX_CHECKED_BYTES = 64 * 1024 * 1024;

/** Longer than anybody needs for it. */
const BUSY_MS = 2_000;
/** The lowest byte of its codes. */
const SQLITE_BUSY = 5;

const sizeOf = (path: string): number => statSync(path, { throwIfNoEntry: false })?.size ?? 0;

export const hasJournal = (databasePath: string): boolean => sizeOf(`${databasePath}-wal`) > 0;

/** What to do with it before a backup is put in its database's place. */
export const journalAdvice = (databasePath: string): string =>
  `${databasePath}-wal and ${databasePath}-shm belong to the database that was in use, and damage any other: move them away before a backup takes its place.`;

/**
 * Throws AppError("state") when a backup was put in under the journal of another database: as often as not that gives a broken
 * one. Damage of any other kind is met where it is read. Looks without writing: opened for use, the journal would be played into
 * the backup for good.
 */
export function refuseForeignJournal(databasePath: string): void {
  if (!hasJournal(databasePath) || sizeOf(databasePath) > MAX_CHECKED_BYTES) return;
  const alone = pathToFileURL(databasePath);
  alone.searchParams.set("immutable", "1");
  if (isSound(databasePath) || !isSound(alone)) return;
  throw new AppError(
    "state",
    `The database ${databasePath} is sound, but not together with the journal beside it. ${journalAdvice(databasePath)} Nothing was changed.`,
  );
}

function isSound(path: string | URL): boolean {
  let db: DatabaseSync | undefined;
  try {
    db = new DatabaseSync(path, { readOnly: true, timeout: BUSY_MS });
    return (db.prepare("PRAGMA integrity_check(1)").get() as { integrity_check: string }).integrity_check === "ok";
  } catch (error) {
    // Somebody reads it just now, and the journal of a killed process is sorted out for them: that is no damage, and a start that was
    // refused for it would need a person.
    return ((error as { errcode?: number }).errcode ?? 0) % 256 === SQLITE_BUSY;
  } finally {
    db?.close();
  }
}

/** All it holds is in the database afterwards. Nobody else has that open. */
export function foldJournal(databasePath: string): void {
  const db = new DatabaseSync(databasePath);
  try {
    db.exec("PRAGMA wal_checkpoint(TRUNCATE)");
  } finally {
    db.close();
  }
}

/** Before a new database is begun where there is none: with the old journal goes what only it holds. */
export function setJournalAside(databasePath: string, stamp: string): void {
  if (sizeOf(databasePath) > 0) return;
  for (const path of [`${databasePath}-wal`, `${databasePath}-shm`]) if (sizeOf(path) > 0) renameSync(path, `${path}.before-${stamp}`);
}
