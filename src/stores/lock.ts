// One gateway per state folder: an exclusive SQLite lock on a file of its own, held for the process's life. The
// kernel frees it on kill -9, so there is no stale lock to guess about; the pid beside it is only for the message.
// The scripts beside the gateway take turns the same way for as long as a change takes.
import { chmodSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { AppError, errorText } from "../core/errors.ts";

/** Its name in the state folder. */
export const LOCK = "gateway.lock";
const SQLITE_BUSY = 5;

export interface Lock {
  release(): void;
}

/** Throws AppError("locked") naming the pid that holds the folder. */
export function takeLock(stateDir: string, pid: number): Lock {
  const path = join(stateDir, LOCK);
  const pidPath = join(stateDir, "gateway.pid");
  let db: DatabaseSync | undefined;
  try {
    const held = new DatabaseSync(path);
    db = held;
    chmodSync(path, 0o600);
    held.exec("PRAGMA busy_timeout=0; PRAGMA locking_mode=EXCLUSIVE; BEGIN EXCLUSIVE;");
    writeFileSync(pidPath, `${pid}\n`, { mode: 0o600 });
    return { release: () => held.close() };
  } catch (error) {
    db?.close();
    if ((error as { errcode?: number }).errcode !== SQLITE_BUSY) {
      throw new AppError("state", `The state folder ${stateDir} can't be used: ${errorText(error)}`, { cause: error });
    }
    throw new AppError(
      "locked",
      `Another Herald (pid ${readPid(pidPath)}) uses the state folder ${stateDir}. Stop it, or set HERALD_STATE_DIR to another folder.`,
      {
        cause: error,
      },
    );
  }
}

const TURN_MS = 10_000;

/** Runs `work` while no other process does so under this path. The file stays: removed, two could hold locks on two of them. */
export function withLock<T>(path: string, work: () => T): T {
  const db = new DatabaseSync(path);
  try {
    chmodSync(path, 0o600);
    db.exec(`PRAGMA busy_timeout=${TURN_MS}; BEGIN EXCLUSIVE;`);
    return work();
  } finally {
    db.close();
  }
}

function readPid(path: string): string {
  try {
    return readFileSync(path, "utf8").trim() || "unknown";
  } catch {
    return "unknown";
  }
}
