// The yardstick: how many durable writes a piece of work makes, counted from outside (commits in the database's WAL,
// syncs of files), and the same number of them done bare: one small row per transaction, one line per sync, nothing else.
import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { join } from "node:path";
import { DatabaseSync, StatementSync } from "node:sqlite";

export interface WriteCount {
  /** Those that were waited for: a relaxed one (stores/database.ts) is no durable write. */
  readonly commits: number;
  readonly syncs: number;
}

/** Divided by `times`, as one piece of work of many. */
export const each = (count: WriteCount, times: number): WriteCount => ({
  commits: Math.round(count.commits / times),
  syncs: Math.round(count.syncs / times),
});

/** What `work` writes durably. Keep it to a few hundred pages: it is done again when a checkpoint restarts the WAL. */
export async function countWrites(databasePath: string, work: () => Promise<void>): Promise<WriteCount> {
  for (let tries = 0; tries < 5; tries++) {
    const count = await countOnce(databasePath, work);
    if (count !== null) return count;
  }
  throw new Error("the WAL was restarted every time its commits were counted");
}

async function countOnce(databasePath: string, work: () => Promise<void>): Promise<WriteCount | null> {
  const { fdatasync, fdatasyncSync, fsync, fsyncSync } = fs;
  let syncs = 0;
  const counted = <Args extends unknown[]>(call: (...args: Args) => void) => {
    return (...args: Args): void => {
      syncs++;
      call(...args);
    };
  };
  Object.assign(fs, {
    fdatasync: counted(fdatasync),
    fdatasyncSync: counted(fdatasyncSync),
    fsync: counted(fsync),
    fsyncSync: counted(fsyncSync),
  });
  syncBuiltinESMExports();
  const relaxedBefore = relaxedCommits;
  const before = walCommits(databasePath);
  try {
    await work();
  } finally {
    Object.assign(fs, { fdatasync, fdatasyncSync, fsync, fsyncSync });
    syncBuiltinESMExports();
  }
  const after = walCommits(databasePath);
  const relaxed = relaxedCommits - relaxedBefore;
  return after.salt === before.salt ? { commits: after.commits - before.commits - relaxed, syncs } : null;
}

/** From the first statement on: the store tells SQLite only when it is another kind of commit than the one before. */
let relaxedCommits = 0;
watchRelaxed();

function watchRelaxed(): void {
  const { exec } = DatabaseSync.prototype;
  const { run, get } = StatementSync.prototype;
  let isRelaxed = false;
  /** A transaction that only looked leaves no commit in the WAL. */
  let hasWritten = false;
  DatabaseSync.prototype.exec = function (sql) {
    const [, how] = /^PRAGMA synchronous=(NORMAL|FULL)$/.exec(sql) ?? [];
    if (how !== undefined) isRelaxed = how === "NORMAL";
    exec.call(this, sql);
  };
  StatementSync.prototype.run = function (...params) {
    if (isRelaxed && hasWritten && this.sourceSQL === "COMMIT") relaxedCommits++;
    const done = run.apply(this, params as Parameters<typeof run>);
    if (/^(BEGIN|COMMIT|ROLLBACK)/.test(this.sourceSQL)) hasWritten = false;
    else if (Number(done.changes) > 0) hasWritten = true;
    return done;
  };
  StatementSync.prototype.get = function (...params) {
    const row = get.apply(this, params as Parameters<typeof get>);
    if (row !== undefined && / RETURNING /.test(this.sourceSQL)) hasWritten = true;
    return row;
  };
}

const WAL_HEADER = 32;
const FRAME_HEADER = 24;

/** A frame whose header names a database size ends a transaction; frames with another salt are left over from before. */
function walCommits(databasePath: string): { commits: number; salt: string } {
  const wal = fs.readFileSync(`${databasePath}-wal`);
  const pageSize = wal.readUInt32BE(8);
  const salt = wal.toString("hex", 16, 24);
  let commits = 0;
  for (let at = WAL_HEADER; at + FRAME_HEADER + pageSize <= wal.length; at += FRAME_HEADER + pageSize) {
    if (wal.toString("hex", at + 8, at + 16) !== salt) break;
    if (wal.readUInt32BE(at + 4) !== 0) commits++;
  }
  return { commits, salt };
}

export interface BareDisk {
  /** The same number of durable writes, as fast as a plain loop makes them. */
  write(count: WriteCount): void;
  close(): void;
}

const LINE = `${JSON.stringify({ type: "message", id: "0".repeat(36), text: "x".repeat(120) })}\n`;

/** On the same disk, with the pragmas of stores/database.ts. */
export function createBareDisk(folder: string): BareDisk {
  const db = new DatabaseSync(join(folder, "bare.db"));
  db.exec("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=1000;");
  db.exec("CREATE TABLE bare (id INTEGER PRIMARY KEY, text TEXT NOT NULL) STRICT");
  const insert = db.prepare("INSERT INTO bare (text) VALUES (?)");
  const fd = fs.openSync(join(folder, "bare.jsonl"), "a");
  return {
    write({ commits, syncs }) {
      for (let i = 0; i < commits; i++) insert.run(LINE);
      for (let i = 0; i < syncs; i++) {
        fs.writeSync(fd, LINE);
        fs.fdatasyncSync(fd);
      }
    },
    close() {
      db.close();
      fs.closeSync(fd);
    },
  };
}
