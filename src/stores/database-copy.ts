// A copy of the database from before a migration, beside it and readable by its owner only: a step that turns out wrong, or a
// return to the version before, must not cost anybody's runs. The newest few are kept.
import { chmodSync, closeSync, openSync, readdirSync, renameSync, rmSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import type { DatabaseSync } from "node:sqlite";
import { AppError, errorText } from "../core/errors.ts";
import { syncPath } from "./sync-path.ts";

const KEPT = 3;

/** Durable on return; returns its path. Throws AppError("state") in words when there is no room for it. */
export function copyDatabase(db: DatabaseSync, path: string, version: number): string {
  const copy = `${path}.schema-${version}`;
  const unfinished = `${copy}.unfinished`;
  try {
    rmSync(unfinished, { force: true });
    // Made empty first: SQLite writes into an empty file, and would make a new one for everybody to read.
    closeSync(openSync(unfinished, "wx", 0o600));
    // One consistent state, what lies in the journal included.
    db.prepare("VACUUM INTO ?").run(unfinished);
    chmodSync(unfinished, 0o600);
    syncPath(unfinished);
    renameSync(unfinished, copy);
    syncPath(dirname(path));
    prune(path);
    return copy;
  } catch (error) {
    rmSync(unfinished, { force: true });
    const text = `The database ${path} must be brought up to date, and the copy made of it before can't be written: ${errorText(error)}. Nothing was changed; make room for a file of its size, then start again.`;
    throw new AppError("state", text, { cause: error });
  }
}

function prune(path: string): void {
  const versionOf = (name: string): number => Number(name.slice(`${basename(path)}.schema-`.length));
  const copies = readdirSync(dirname(path)).filter((name) => name.startsWith(`${basename(path)}.schema-`) && versionOf(name) >= 0);
  const oldest = copies.sort((a, b) => versionOf(b) - versionOf(a)).slice(KEPT);
  for (const name of oldest) rmSync(join(dirname(path), name), { force: true });
}
