// One gateway per state folder: an exclusive SQLite lock on a file of its own, held for the process's life. The
// kernel frees it on kill -9, so there is no stale lock to guess about; the pid beside it is only for the message.
// The scripts beside the gateway take turns the same way for as long as a change takes.
import { chmodSync, existsSync, readdirSync, readFileSync, readlinkSync, realpathSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { AppError, errorText } from "../core/errors.ts";

/** Its name in the state folder. */
export const LOCK = "gateway.lock";
const PID = "gateway.pid";
const SQLITE_BUSY = 5;

export interface Lock {
  release(): void;
}

/**
 * The lock's file is never removed by us. Where it is missing beside a database, a gateway that held it may live on, and with
 * a new file two would run. The kernel knows: whoever has a database open in WAL mode keeps a shared lock on it. Comes before
 * the lock is taken, or the next start would find a file and look no further. Throws AppError("locked").
 */
export function refuseUnlocked(stateDir: string, databasePath: string): void {
  const path = join(stateDir, LOCK);
  if (existsSync(path) || !isOpen(databasePath)) return;
  const pid = readPid(join(stateDir, PID));
  throw new AppError(
    "locked",
    `The lock ${path} was removed, and another program, most likely Herald (pid ${pid}), has the database open. Stop it, then start again.`,
  );
}

/** Throws AppError("locked") naming the pid that holds the folder. */
export function takeLock(stateDir: string, pid: number): Lock {
  const path = join(stateDir, LOCK);
  const pidPath = join(stateDir, PID);
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

function isOpen(path: string): boolean {
  // A database that is missing or empty is nobody's, and looking would make it.
  if ((statSync(path, { throwIfNoEntry: false })?.size ?? 0) === 0) return false;
  let db: DatabaseSync | undefined;
  try {
    db = new DatabaseSync(path);
    db.exec("PRAGMA busy_timeout=0; PRAGMA locking_mode=EXCLUSIVE; PRAGMA user_version;");
    return false;
  } catch (error) {
    // What else is wrong with it is said when it is opened for use.
    return (error as { errcode?: number }).errcode === SQLITE_BUSY;
  } finally {
    db?.close();
  }
}

/**
 * The pid of the gateway on this folder; null: there is none, or the system (other than Linux) doesn't tell. Only looked at: whoever asked
 * the lock itself would hold it for that moment, and a gateway that starts then would take it for another one.
 */
export function findHolder(stateDir: string): number | null {
  const pid = Number(readPid(join(stateDir, PID)));
  try {
    const lock = realpathSync(join(stateDir, LOCK));
    const open = readdirSync(`/proc/${pid}/fd`).map((fd) => linkOf(`/proc/${pid}/fd/${fd}`));
    return open.includes(lock) ? pid : null;
  } catch {
    return null;
  }
}

/** Empty: closed by now. */
function linkOf(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return "";
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
