// A journal beside a database it does not belong to, on real files: what SQLite would make of the two is never found out.
import { copyFileSync, existsSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, expect, it } from "vitest";
import { type Database, openDatabase } from "../../../src/stores/database.ts";
import { refuseForeignJournal, setJournalAside } from "../../../src/stores/journal.ts";

let dir: string;
let path: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "herald-journal-"));
  path = join(dir, "herald.db");
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const fill = (db: Database, from: number, to: number): Promise<void> =>
  db.transaction([], async (tx) => {
    for (let n = from; n < to; n++)
      await tx.run("INSERT INTO listings (session_key, run_ids, at) VALUES (?, ?, 1)", `k${n}`, "x".repeat(500));
  });

/** A backup from an earlier day, and the files as a kill leaves them: much in the database, the last of it in the journal. */
async function makeKilled(): Promise<{ backup: string }> {
  const backup = join(dir, "backup.db");
  const killed = join(dir, "killed.db");
  const first = openDatabase({ path });
  await fill(first, 0, 20);
  first.close();
  copyFileSync(path, backup);
  const db = openDatabase({ path });
  await fill(db, 20, 9_000);
  await db.optimize();
  await fill(db, 9_000, 9_100);
  copyFileSync(path, killed);
  copyFileSync(`${path}-wal`, `${killed}-wal`);
  db.close();
  renameSync(killed, path);
  renameSync(`${killed}-wal`, `${path}-wal`);
  return { backup };
}

const count = async (): Promise<unknown> => {
  const db = openDatabase({ path });
  try {
    return await db.get("SELECT count(*) AS n FROM listings");
  } finally {
    db.close();
  }
};

it("[RC4] its own journal is taken", async () => {
  await makeKilled();
  refuseForeignJournal(path);
  expect(await count()).toEqual({ n: 9_100 });
});

it("[RC4] a backup put in under the journal of another database is refused and left as it is; without the journal it works", async () => {
  const { backup } = await makeKilled();
  copyFileSync(backup, path);
  const before = [path, `${path}-wal`].map((file) => readFileSync(file));
  expect(() => refuseForeignJournal(path)).toThrow(/is sound, but not together with the journal.*move them away before a backup/);
  expect([path, `${path}-wal`].map((file) => readFileSync(file))).toEqual(before);
  for (const ending of ["-wal", "-shm"]) rmSync(`${path}${ending}`, { force: true });
  refuseForeignJournal(path);
  expect(await count()).toEqual({ n: 20 });
});

it("[RC4] a database that somebody holds just now is not taken for a damaged one", async () => {
  await makeKilled();
  const other = new DatabaseSync(path);
  try {
    // As while the journal of a killed process is sorted out for another reader.
    other.exec("PRAGMA locking_mode = EXCLUSIVE; BEGIN IMMEDIATE; DELETE FROM listings WHERE at = 2; COMMIT");
    expect(() => refuseForeignJournal(path)).not.toThrow();
  } finally {
    other.close();
  }
});

it("[RC4] a damaged page is no matter of the journal: it is met where it is read", async () => {
  await makeKilled();
  const bytes = readFileSync(path);
  bytes.fill(0xa5, 200_000, 240_000);
  writeFileSync(path, bytes);
  expect(() => refuseForeignJournal(path)).not.toThrow();
});

it("[RC4] put aside for a new database only where there is none", async () => {
  await makeKilled();
  const journal = readFileSync(`${path}-wal`);
  setJournalAside(path, "now");
  expect(existsSync(`${path}-wal`)).toBe(true);
  rmSync(path);
  setJournalAside(path, "now");
  expect(existsSync(`${path}-wal`)).toBe(false);
  expect(readFileSync(`${path}-wal.before-now`).equals(journal)).toBe(true);
});
