// The state folder under a running gateway, as a real process: moved, removed, replaced; and a folder whose database is
// gone when it starts.
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, it } from "vitest";
import { type Database, openDatabase } from "../../src/stores/database.ts";
import { createHarness, type Harness } from "../support/harness.ts";
import { runHerald } from "../support/run-herald.ts";
import { waitFor } from "../support/wait.ts";

const NOBODY = 65_534;
const GONE = /"msg":"The state folder was moved, removed or replaced while Herald runs: /;

const ready = async (herald: Pick<Harness, "origin">): Promise<number> => (await fetch(`${herald.origin()}/readyz`)).status;
const noticed = (herald: Harness): Promise<unknown> =>
  waitFor("it to notice", async () => (await ready(herald)) === 503 && GONE.test(herald.output()));

/** Posts like the page does, with a token kept from before. */
const post = (herald: Pick<Harness, "origin">, token: string, n: number, text: string): Promise<Response> =>
  fetch(`${herald.origin()}/api/chats/main/messages`, {
    method: "POST",
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    body: JSON.stringify({ id: `00000000-0000-4000-8000-00000000000${n}`, text, kind: "message" }),
  });

const tokenOf = (herald: Harness): string => readFileSync(join(herald.stateDir, "web-token"), "utf8").trim();

it("[RC4] moved away while it runs: noticed in seconds, nothing is taken in; moved back, it goes on", async () => {
  await using herald = await createHarness();
  const token = tokenOf(herald);
  await herald.say("hello");
  await herald.reply(/offline model/);
  const away = `${herald.stateDir}.away`;
  renameSync(herald.stateDir, away);
  // At once, noticed or not.
  expect((await post(herald, token, 1, "lost?")).status).toBe(503);
  await noticed(herald);
  expect(existsSync(herald.stateDir)).toBe(false);
  renameSync(away, herald.stateDir);
  await waitFor("it to go on", async () => (await ready(herald)) === 200);
  expect((await herald.messages()).filter((message) => message.text === "lost?")).toEqual([]);
  await herald.say("what is 6 * 7?");
  await herald.reply(/42/);
  await waitFor("the word", () => herald.output().includes("the state folder is back"));
});

it("[RC4] removed while it runs: it says so, takes nothing in, makes nothing anew, and stops when told to", async () => {
  await using herald = await createHarness({ leavesUnsent: true });
  const token = tokenOf(herald);
  await herald.say("hello");
  await herald.reply(/offline model/);
  rmSync(herald.stateDir, { recursive: true });
  await noticed(herald);
  for (const n of [1, 2]) expect((await post(herald, token, n, "into the void")).status).toBe(503);
  expect((await fetch(`${herald.origin()}/healthz`)).status).toBe(200);
  expect(existsSync(herald.stateDir)).toBe(false);
  expect(await herald.stop()).toBe(0);
});

it("[RC4] replaced by a copy while it runs: another file under the same name is not the one in use", async () => {
  await using herald = await createHarness();
  const away = `${herald.stateDir}.away`;
  renameSync(herald.stateDir, away);
  cpSync(away, herald.stateDir, { recursive: true });
  await noticed(herald);
  rmSync(herald.stateDir, { recursive: true });
  renameSync(away, herald.stateDir);
  await waitFor("it to go on", async () => (await ready(herald)) === 200);
});

it("[RN5][RC4] the lock removed while it runs: the first takes nothing in, and no second one starts beside it", async () => {
  await using herald = await createHarness();
  await herald.say("hello");
  await herald.reply(/offline model/);
  rmSync(join(herald.stateDir, "gateway.lock"));
  expect((await post(herald, tokenOf(herald), 1, "to which of the two?")).status).toBe(503);
  await noticed(herald);
  for (const _ of [1, 2]) {
    await using second = runHerald({ config: "{web: {port: 0}}", env: { HERALD_STATE_DIR: herald.stateDir } });
    expect(await second.ended()).toBe(1);
    expect(second.stderr()).toContain(`(pid ${herald.pid()})`);
  }
  expect(await herald.stop()).toBe(0);
  await herald.restart();
  expect((await herald.messages()).map((message) => message.text)).not.toContain("to which of the two?");
});

it("[RC4] the journal removed while it runs: nothing is taken in, and stopping writes what it held", async () => {
  await using herald = await createHarness();
  await herald.say("hello");
  await herald.reply(/offline model/);
  const before = await herald.messages();
  for (const name of ["herald.db-wal", "herald.db-shm"]) rmSync(join(herald.stateDir, name));
  expect((await post(herald, tokenOf(herald), 1, "lost?")).status).toBe(503);
  await noticed(herald);
  expect(await herald.stop()).toBe(0);
  await herald.restart();
  expect(await herald.messages()).toEqual(before);
});

it.each(["herald.db", "herald.db-wal"])("[RC4] %s cut short while it runs: it says so and takes nothing in", async (name) => {
  await using herald = await createHarness({ leavesUnsent: true });
  await herald.say("hello");
  await herald.reply(/offline model/);
  const token = tokenOf(herald);
  // What is being written in that very moment would make it whole again.
  await waitFor("it to be at rest", () => herald.rows("SELECT 1 FROM outbox WHERE state NOT IN ('sent', 'blocked')").length === 0);
  truncateSync(join(herald.stateDir, name));
  for (const n of [1, 2]) expect((await post(herald, token, n, "lost?")).status).toBe(503);
  await waitFor("it to notice", async () => (await ready(herald)) === 503 && /Another program cut .* short/.test(herald.output()));
  expect(await herald.stop()).toBe(0);
});

it("[RC4][RN4] a folder it may not look into: words, nothing is taken in; readable again, it goes on and stops in order", async () => {
  const isRoot = process.getuid?.() === 0;
  await using herald = runHerald({
    config: "{web: {port: 0}, models: {probeLocal: false}}",
    // Root may look anywhere: then somebody else starts it.
    ...(isRoot ? { uid: NOBODY } : {}),
    prepare(dir) {
      for (const path of [dir, join(dir, "config"), join(dir, "config/herald.json5")]) if (isRoot) chownSync(path, NOBODY, NOBODY);
    },
  });
  const origin = await herald.ready();
  const page = { origin: () => origin };
  const token = readFileSync(join(herald.stateDir, "web-token"), "utf8").trim();
  chmodSync(herald.stateDir, 0o000);
  expect((await post(page, token, 1, "lost?")).status).toBe(503);
  expect(await ready(page)).toBe(503);
  await waitFor("it to notice", () => GONE.test(herald.stderr()));
  expect(herald.stderr()).toContain("gateway.lock can't be reached (EACCES");
  chmodSync(herald.stateDir, 0o700);
  expect(await ready(page)).toBe(200);
  expect((await post(page, token, 2, "hello")).status).toBe(202);
  await waitFor("the watch to go on", () => herald.stderr().includes("the state folder is back"));
  herald.kill("SIGTERM");
  expect(await herald.ended()).toBe(0);
  // Closed in order: the journal is gone.
  expect(existsSync(join(herald.stateDir, "herald.db-wal"))).toBe(false);
});

it("[RC4] a journal that SQLite itself emptied lacks nothing", async () => {
  await using herald = await createHarness();
  await herald.say("hello");
  await herald.reply(/offline model/);
  const other = new DatabaseSync(join(herald.stateDir, "herald.db"));
  const emptied = (): boolean => {
    other.prepare("PRAGMA wal_checkpoint(TRUNCATE)").get();
    return statSync(join(herald.stateDir, "herald.db-wal")).size === 0;
  };
  // The gateway may just have begun it anew, with what it wrote after the answer.
  await waitFor("an empty journal", emptied);
  other.close();
  expect((await post(herald, tokenOf(herald), 1, "what is 6 * 7?")).status).toBe(202);
  await herald.reply(/42/);
});

it("[RC4] a database that is missing or empty beside old transcripts is not begun anew without a word", async () => {
  await using herald = await createHarness();
  await herald.say("hello");
  await herald.reply(/offline model/);
  expect(await herald.stop()).toBe(0);
  const path = join(herald.stateDir, "herald.db");
  const sessions = join(herald.stateDir, "agents/main/sessions");
  const before = readdirSync(sessions);
  rmSync(path);
  await expect(herald.restart()).rejects.toThrow(/is missing or empty, but the folder was in use before[\s\S]*HERALD_NEW_DATABASE=1/);
  expect(existsSync(path)).toBe(false);
  writeFileSync(path, "");
  await expect(herald.restart()).rejects.toThrow(/is missing or empty/);
  expect(statSync(path).size).toBe(0);
  await herald.restart({ env: { HERALD_NEW_DATABASE: "1" } });
  expect(await herald.messages()).toEqual([]);
  expect(readdirSync(sessions)).toEqual(before);
});

it("[RC4] keys set before the first start are no remains of an earlier one", async () => {
  await using herald = await createHarness();
  expect(await herald.stop()).toBe(0);
  rmSync(herald.stateDir, { recursive: true });
  mkdirSync(join(herald.stateDir, "agents/main"), { recursive: true });
  writeFileSync(join(herald.stateDir, "agents/main/auth.json"), "{}", { mode: 0o600 });
  await herald.restart();
  expect(await ready(herald)).toBe(200);
});

it.each(["web-token", "herald.db.schema-3"])("[RC4] a database gone from beside %s is not begun anew without a word", async (name) => {
  await using herald = await createHarness();
  expect(await herald.stop()).toBe(0);
  const token = tokenOf(herald);
  rmSync(herald.stateDir, { recursive: true });
  mkdirSync(herald.stateDir, { mode: 0o700 });
  writeFileSync(join(herald.stateDir, name), token, { mode: 0o600 });
  await expect(herald.restart()).rejects.toThrow(new RegExp(`was in use before \\(.*${name}\\)`));
  await herald.restart({ env: { HERALD_NEW_DATABASE: "1" } });
});

it("[RC4] a journal without its database: the way back names it, and a new database leaves its bytes alone", async () => {
  await using herald = await createHarness();
  await herald.say("hello");
  await herald.reply(/offline model/);
  await herald.crash();
  const journal = readFileSync(join(herald.stateDir, "herald.db-wal"));
  rmSync(join(herald.stateDir, "herald.db"));
  await expect(herald.restart()).rejects.toThrow(/herald\.db-wal and .*herald\.db-shm belong to .*move them away before a backup/);
  await herald.restart({ env: { HERALD_NEW_DATABASE: "1" } });
  const kept = readdirSync(herald.stateDir).filter((name) => name.startsWith("herald.db-wal.before-"));
  expect(kept).toHaveLength(1);
  expect(readFileSync(join(herald.stateDir, kept[0] ?? "")).equals(journal)).toBe(true);
});

it("[RC4] a backup put in under the journal of another database: the start is refused in words, and the backup stays whole", async () => {
  const fill = (db: Database, from: number, to: number): Promise<void> =>
    db.transaction([], async (tx) => {
      for (let n = from; n < to; n++)
        await tx.run("INSERT INTO listings (session_key, run_ids, at) VALUES (?, ?, 1)", `k${n}`, "x".repeat(500));
    });
  const made = mkdtempSync(join(tmpdir(), "herald-backup-"));
  const source = join(made, "herald.db");
  const early = openDatabase({ path: source });
  await fill(early, 0, 20);
  early.close();
  const backup = readFileSync(source);
  const db = openDatabase({ path: source });
  await fill(db, 20, 9_000);
  await db.optimize();
  await fill(db, 9_000, 9_100);
  // As a kill leaves it: closing would empty it.
  const journal = readFileSync(`${source}-wal`);
  db.close();
  rmSync(made, { recursive: true });
  await using herald = runHerald({
    config: "{web: {port: 0}}",
    prepare(dir) {
      const path = join(dir, "state/herald.db");
      mkdirSync(join(dir, "state"), { mode: 0o700 });
      writeFileSync(path, backup);
      writeFileSync(`${path}-wal`, journal);
    },
  });
  expect(await herald.ended()).toBe(1);
  expect(herald.stderr()).toMatch(/is sound, but not together with the journal beside it/);
  expect(readFileSync(join(herald.stateDir, "herald.db")).equals(backup)).toBe(true);
});
