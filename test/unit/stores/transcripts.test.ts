// Transcripts as files: what is on disk, what damage does, and what reading and appending cost.
import fs, {
  appendFileSync,
  closeSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { isStorageError } from "../../../src/core/errors.ts";
import { newId } from "../../../src/core/ids.ts";
import { silentLogger } from "../../../src/core/logger.ts";
import { type Entry, parseEntry } from "../../../src/stores/transcript-entry.ts";
import { createTranscripts, type TranscriptRef } from "../../../src/stores/transcripts.ts";
import { user } from "../../contract/transcripts.contract.ts";
import { createRandom } from "../../support/random.ts";
import { ADDRESS, newRun } from "../../support/runs.ts";
import { createStateFolder, type StateFolder } from "../../support/state-folder.ts";
import { waitFor } from "../../support/wait.ts";

let folder: StateFolder;
let ref: TranscriptRef;
let path: string;

beforeEach(async () => {
  folder = await createStateFolder();
  ref = { agentId: "main", sessionId: newId() };
  await folder.stores.transcripts.create(ref, { key: "agent:main:web:dm:main", parent: "agent:main:web:dm:parent" });
  path = folder.stores.transcripts.path(ref);
});
afterEach(() => folder[Symbol.dispose]());

const append = async (...texts: string[]): Promise<void> => {
  for (const text of texts) await folder.stores.transcripts.append(ref, [user(text)]);
};
const texts = async (count = 1_000): Promise<unknown[]> =>
  (await folder.stores.transcripts.tail(ref, count)).map((entry) => (entry.type === "message" ? entry.text : entry.type));
const warnings = (): unknown[] => folder.lines.filter((line) => line.level === "warn");

it("[SE2] the file is where the rule says, mode 0600 in folders of 0700, with a header line first", async () => {
  await append("hello");
  expect(path).toBe(join(folder.stateDir, "agents/main/sessions", `${ref.sessionId}.jsonl`));
  expect(statSync(path).mode & 0o777).toBe(0o600);
  for (const dir of ["", "agents", "agents/main", "agents/main/sessions"]) {
    expect(statSync(join(folder.stateDir, dir)).mode & 0o777).toBe(0o700);
  }
  const [header, first, ...rest] = readFileSync(path, "utf8").split("\n");
  expect(JSON.parse(header ?? "")).toEqual({
    type: "session",
    version: 1,
    id: ref.sessionId,
    timestamp: new Date(folder.clock.now()).toISOString(),
    key: "agent:main:web:dm:main",
    parent: "agent:main:web:dm:parent",
  });
  expect(JSON.parse(first ?? "")).toEqual({
    ...user("hello"),
    id: expect.any(String),
    parentId: null,
    timestamp: new Date(folder.clock.now()).toISOString(),
  });
  expect(rest).toEqual([""]);
});

it("[SE2] a transcript whose lines name their time `at`, as they once did, is read and continued", async () => {
  const at = "2026-01-02T03:04:05.678Z";
  const header = { type: "session", version: 1, id: ref.sessionId, at, key: "agent:main:web:dm:main", agentId: "main", parent: null };
  await folder.reopen();
  writeFileSync(path, [header, { ...user("old"), id: "e1", parentId: null, at }].map((line) => `${JSON.stringify(line)}\n`).join(""));
  await append("new");
  expect(await texts()).toEqual(["old", "new"]);
  const [old, added] = await folder.stores.transcripts.tail(ref, 9);
  expect(old?.timestamp).toBe(at);
  expect(added).toMatchObject({ parentId: "e1", timestamp: new Date(folder.clock.now()).toISOString() });
  expect(warnings()).toEqual([]);
});

it("[SE2] what is appended is in the file at once, so that a crash of the process loses none of it", async () => {
  await append("one");
  expect(readFileSync(path, "utf8")).toContain('"one"');
  await folder.stores.transcripts.sync(ref);
});

it("[SE3] a torn last line is cut off at the next open and logged; every earlier line survives", async () => {
  await append("one", "two");
  await folder.reopen();
  appendFileSync(path, '{"type":"message","role":"user","te');
  expect(await texts()).toEqual(["one", "two"]);
  await append("three");
  expect(await texts()).toEqual(["one", "two", "three"]);
  expect(warnings()).toEqual([expect.objectContaining({ path, cutBytes: 35, msg: expect.stringMatching(/torn last line/) })]);
  expect(readFileSync(path, "utf8").split("\n")).toHaveLength(5);
});

it("[SE3] a torn last line longer than a chunk, ending inside a character, is cut as well", async () => {
  await append("one");
  await folder.reopen();
  appendFileSync(path, Buffer.concat([Buffer.from(`{"text":"${"x".repeat(200_000)}`), Buffer.from([0xf0, 0x9f])]));
  await append("two");
  expect(await texts()).toEqual(["one", "two"]);
});

it("[SE3] a file that holds nothing but a torn header is cut, and appending goes on", async () => {
  await folder.reopen();
  writeFileSync(path, '{"type":"sess');
  await append("one");
  expect(await texts()).toEqual(["one"]);
});

it("[SE3] FS-007 corrupt lines in the middle are skipped with a warning that names the line; the rest is shown", async () => {
  await append("one");
  appendFileSync(path, Buffer.from([0xff, 0x00, 0xfe, 0x0a]));
  await append("two");
  appendFileSync(path, '{"id":"x","type":"message"}\n[1,2]\n"text"\nnull\n{"id":"x","type":"unknown","text":""}\n\n');
  await append("three");
  expect(await texts()).toEqual(["one", "two", "three"]);
  expect(warnings().map((line) => (line as { line: number }).line)).toEqual([10, 9, 8, 7, 6, 5, 3]);
  expect(warnings()[0]).toMatchObject({ path, msg: "skipped a damaged line of a transcript" });
});

it("[SE3] FS-007 a line of 5 MB is read, one of 9 MB is skipped as damage, and the lines around stay", async () => {
  await append("before");
  await append("x".repeat(5 * 1024 * 1024));
  appendFileSync(path, `{"id":"big","type":"note","text":"${"y".repeat(9 * 1024 * 1024)}"}\n`);
  await append("after");
  expect((await texts()).map((text) => String(text).length)).toEqual([6, 5 * 1024 * 1024, 5]);
  expect(warnings()).toEqual([expect.objectContaining({ line: 4 })]);
});

it("[SE3] the parent of the next entry is right after a damaged last line", async () => {
  const [first] = await folder.stores.transcripts.append(ref, [user("one")]);
  appendFileSync(path, "garbage\n");
  await folder.reopen();
  await append("two");
  const [, two] = await folder.stores.transcripts.tail(ref, 5);
  expect(two?.parentId).toBe(first?.id);
  expect(await texts()).toEqual(["one", "two"]);
});

it.each([
  ["text", "not json"],
  ["no id", '{"type":"note","text":"x"}'],
  ["unknown type", '{"id":"1","type":"session","text":"x"}'],
  ["text of a wrong type", '{"id":"1","type":"note","text":5}'],
  ["call without an id", '{"id":"1","type":"tool_call","name":"x"}'],
  ["array", "[]"],
  ["null", "null"],
])("[SE3] %s is no entry", (_what, line) => {
  expect(parseEntry(line)).toBeNull();
});

/** Bytes read from and written to files while `work` runs. */
async function ioOf(work: () => Promise<void>): Promise<{ read: number; written: number }> {
  const io = { read: 0, written: 0 };
  const { readSync, writeSync: write } = fs;
  Object.assign(fs, {
    readSync(...args: Parameters<typeof readSync>) {
      const bytes = readSync(...args);
      io.read += bytes;
      return bytes;
    },
    writeSync(...args: Parameters<typeof write>) {
      const bytes = write(...args);
      io.written += bytes;
      return bytes;
    },
  });
  syncBuiltinESMExports();
  try {
    await work();
  } finally {
    Object.assign(fs, { readSync, writeSync: write });
    syncBuiltinESMExports();
  }
  return io;
}

function fillWith(megabytes: number): void {
  const line = `${JSON.stringify({ id: "x", parentId: null, timestamp: "", type: "note", text: "z".repeat(1_000) })}\n`;
  const block = Buffer.from(line.repeat(1_000));
  const fd = openSync(path, "a");
  for (let written = 0; written < megabytes * 1024 * 1024; written += block.length) writeSync(fd, block);
  closeSync(fd);
}

it("[SE4] the last entries of a 50 MB file are read in a few chunks", async () => {
  await append("first");
  fillWith(50);
  await append("last");
  const { transcripts } = folder.stores;
  expect((await ioOf(async () => expect(await transcripts.tail(ref, 20)).toHaveLength(20))).read).toBeLessThanOrEqual(128 * 1024);
  expect(
    (await ioOf(async () => expect((await transcripts.window(ref, 100, () => 1)).length).toBeGreaterThan(50))).read,
  ).toBeLessThanOrEqual(256 * 1024);
  expect(await texts(1)).toEqual(["last"]);
});

it("[SE4] what this process wrote or read last is not read from the file again; what somebody else made of the file is", async () => {
  await append("one");
  expect((await ioOf(async () => expect(await texts()).toEqual(["one"]))).read).toBeGreaterThan(0);
  await append("two");
  expect((await ioOf(async () => expect(await texts()).toEqual(["one", "two"]))).read).toBe(0);
  appendFileSync(path, `${JSON.stringify({ id: "x", parentId: null, timestamp: "", type: "note", text: "by hand" })}\n`);
  expect(await texts()).toEqual(["one", "two", "note"]);
  expect((await ioOf(async () => expect(await texts()).toEqual(["one", "two", "note"]))).read).toBe(0);
  await append("three");
  expect((await ioOf(async () => expect(await texts(3)).toEqual(["two", "note", "three"]))).read).toBe(0);
  // As long as the one before, but another file.
  writeFileSync(`${path}.new`, readFileSync(path, "utf8").replace("two", "TWO"));
  renameSync(`${path}.new`, path);
  expect(await texts()).toEqual(["one", "TWO", "note", "three"]);
  rmSync(path);
  await expect(texts()).rejects.toThrow("can't be opened");
});

it("[SE4] a long conversation is in memory; of many, those that were written last", async () => {
  const { transcripts } = folder.stores;
  const others = Array.from({ length: 8 }, () => ({ agentId: "main", sessionId: newId() }));
  const readOf = async (one: TranscriptRef): Promise<number> =>
    (await ioOf(async () => expect(await transcripts.tail(one, 10_000)).toHaveLength(1_000))).read;
  for (const one of [ref, ...others]) {
    if (one !== ref) await transcripts.create(one, { key: "agent:main:web:dm:other", parent: null });
    for (let n = 0; n < 10; n++)
      await transcripts.append(
        one,
        Array.from({ length: 100 }, () => user("x".repeat(500))),
      );
    expect(await readOf(one)).toBeGreaterThan(500_000);
    expect(await readOf(one)).toBe(0);
  }
  const [newest, last] = [others.at(-1) ?? ref, others.at(-2) ?? ref];
  expect([await readOf(newest), await readOf(last)]).toEqual([0, 0]);
  expect(await readOf(ref)).toBeGreaterThan(500_000);
});

it("[SE4] whatever was appended and read before, a process that knows nothing yet reads the same", async () => {
  const { transcripts } = folder.stores;
  const random = createRandom(7);
  for (let n = 0; n < 120; n++) {
    const count = 1 + random.between(0, 3);
    // Now and then more at once than is kept in memory.
    const long = random.chance(0.1) ? 400_000 : 2_000;
    await transcripts.append(
      ref,
      Array.from({ length: count }, () => user("é".repeat(random.between(0, long)))),
    );
    if (random.chance(0.08)) await transcripts.append(ref, [{ type: "compaction", summary: "all", keptFrom: null }]);
    const fresh = createTranscripts({ stateDir: folder.stateDir, log: silentLogger, now: Date.now, redact: (text) => text });
    const last = random.between(0, 30);
    expect(await transcripts.tail(ref, last)).toEqual(await fresh.tail(ref, last));
    const room = random.between(0, 60_000);
    const weigh = (entry: Entry): number => ("text" in entry ? entry.text.length : 1);
    expect(await transcripts.window(ref, room, weigh)).toEqual(await fresh.window(ref, room, weigh));
  }
});

it("[SE4] opening a 50 MB file for the next entry reads its end only, and appending reads nothing", async () => {
  const small = await ioOf(() => append("a"));
  fillWith(50);
  await folder.reopen();
  expect((await ioOf(() => append("a"))).read).toBeLessThanOrEqual(256 * 1024);
  const large = await ioOf(() => append("b"));
  expect(large.read).toBe(0);
  // The same line: only the first entry has no parent id.
  expect(large.written).toBeLessThanOrEqual(small.written + 64);
});

it("[SE3] many damaged lines cost no more than reading the file a few times", async () => {
  appendFileSync(path, "damage\n".repeat(20_000));
  await append("last");
  expect((await ioOf(async () => expect(await texts()).toEqual(["last"]))).read).toBeLessThanOrEqual(3 * statSync(path).size);
  expect((warnings() as { line: number }[]).map(({ line }) => line)).toEqual(Array.from({ length: 20_000 }, (_, n) => 20_001 - n));
});

it("[SC4] a secret is stored under its name", async () => {
  folder.secrets.add("OPENAI_API_KEY", "sk-very-secret-value");
  await append("my key is sk-very-secret-value, mind");
  expect(await texts()).toEqual(["my key is [OPENAI_API_KEY], mind"]);
  expect(readFileSync(path, "utf8")).not.toContain("sk-very-secret-value");
});

it("[RC4] a transcript that was deleted is not made anew: the append says so and names it", async () => {
  await append("one");
  await folder.reopen();
  rmSync(path);
  await expect(() => append("two")).rejects.toThrow(new RegExp(`The transcript .*${ref.sessionId}.jsonl can't be opened`));
  expect(() => statSync(path)).toThrow();
});

it("[RC4] a transcript replaced by a folder: a clear error, nothing changed", async () => {
  await folder.reopen();
  rmSync(path);
  mkdirSync(path);
  await expect(() => append("x")).rejects.toThrow(/can't be opened/);
});

it("[RC4] FS-001 a write that fails half way leaves no half line, and the next append works", async () => {
  await append("one");
  const { writeSync: write } = fs;
  Object.assign(fs, {
    writeSync(fd: number, bytes: Buffer) {
      return write(fd, bytes, 0, 10);
    },
  });
  syncBuiltinESMExports();
  try {
    await append("two");
    expect.unreachable();
  } catch (error) {
    expect(String(error)).toMatch(/can't be written: the disk is full/);
    expect(isStorageError(error)).toBe(true);
  } finally {
    Object.assign(fs, { writeSync: write });
    syncBuiltinESMExports();
  }
  await append("three");
  expect(await texts()).toEqual(["one", "three"]);
  expect(warnings()).toEqual([]);
});

it("[AR2] a crash between renaming and recording is mended: the file is found under either name", async () => {
  await append("one");
  const archiveName = `${ref.sessionId}.jsonl.deleted.x`;
  // Recorded as archived, but still under its own name.
  expect(folder.stores.transcripts.path({ ...ref, archiveName })).toBe(path);
  renameSync(path, `${path}.deleted.x`);
  expect(folder.stores.transcripts.path({ ...ref, archiveName })).toBe(`${path}.deleted.x`);
});

it("[AR2][SE2] archiving begun before a crash leaves what was archived as it was, also of a run that never started", async () => {
  const run = newRun("a", { sessionId: folder.stores.sessions.newSessionId() });
  const { db, runs, sessions } = folder.stores;
  await db.transaction([], async (tx) => {
    await sessions.insert(tx, {
      id: run.sessionId,
      key: run.childKey,
      agentId: run.agentId,
      address: ADDRESS,
      parentKey: run.requesterKey,
    });
    await runs.insert(tx, run, { firstMessage: "count the lines" });
  });
  const child = { agentId: run.agentId, sessionId: run.sessionId };
  const name = `${run.sessionId}.jsonl.deleted.2026-01-01T00-00-00.000Z`;
  expect(await folder.stores.transcripts.archive(child, name)).toBe(true);
  const kept = readFileSync(join(folder.stateDir, "agents", run.agentId, "sessions", name), "utf8");
  expect(kept).toContain("count the lines");
  await folder.clock.advance(1_000);
  const { transcripts } = await folder.reopen();
  expect(await transcripts.archive(child, name)).toBe(true);
  expect(readFileSync(join(folder.stateDir, "agents", run.agentId, "sessions", name), "utf8")).toBe(kept);
});

it("[SE2][RC4] more sessions at once than files are held open: each line is in its own transcript", async () => {
  const { transcripts, sessions } = folder.stores;
  const refs = Array.from({ length: 200 }, () => ({ agentId: "main", sessionId: sessions.newSessionId() }));
  for (const ref of refs) await transcripts.create(ref, { key: `agent:main:web:dm:${ref.sessionId}`, parent: null });
  await Promise.all(
    refs.map(async (ref) => {
      await transcripts.append(ref, [{ type: "note", text: ref.sessionId }]);
      await transcripts.sync(ref);
    }),
  );
  for (const ref of refs) expect(await transcripts.tail(ref, 5)).toMatchObject([{ text: ref.sessionId }]);
});

it("[SE2][AR2] archived and closed while their lines are on the way to the disk: nothing is lost, and no handle is left", async () => {
  const isOurs = (fd: string): boolean => {
    try {
      return /\.jsonl$/.test(readlinkSync(`/proc/self/fd/${fd}`)) && readlinkSync(`/proc/self/fd/${fd}`).startsWith(folder.stateDir);
    } catch {
      // The one of this very look is gone again.
      return false;
    }
  };
  const { transcripts, sessions } = folder.stores;
  const refs = Array.from({ length: 20 }, () => ({ agentId: "main", sessionId: sessions.newSessionId() }));
  const archived = refs.map((one) => ({ ...one, archiveName: `${one.sessionId}.archived.1.jsonl` }));
  for (const one of refs) {
    await transcripts.create(one, { key: `agent:main:web:dm:${one.sessionId}`, parent: null });
    await transcripts.append(one, [user("one"), user("two")]);
  }
  await Promise.all(archived.flatMap((one) => [transcripts.sync(one), transcripts.archive(one, one.archiveName), transcripts.sync(one)]));
  for (const one of archived) expect(await transcripts.tail(one, 5)).toMatchObject([{ text: "one" }, { text: "two" }]);
  await append("last");
  const syncing = transcripts.sync(ref);
  // Its file is looked up first; then it is under way, and no tick of the loop has passed in which it could end.
  for (let n = 0; n < 5; n++) await null;
  transcripts.close();
  await syncing;
  await waitFor("every handle to be closed", () => !readdirSync("/proc/self/fd").some(isOurs));
  expect(readFileSync(path, "utf8")).toContain("last");
});
