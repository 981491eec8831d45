// Transcripts as files: what is on disk, what damage does, and what reading and appending cost.
import { appendFileSync, chmodSync, closeSync, openSync, readFileSync, renameSync, rmSync, statSync, writeFileSync, writeSync } from "node:fs";
import fs from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { isStorageError } from "../../../src/core/errors.ts";
import { newId } from "../../../src/core/ids.ts";
import { parseEntry, type TranscriptRef } from "../../../src/stores/transcripts.ts";
import { user } from "../../contract/transcripts.contract.ts";
import { createStateFolder, type StateFolder } from "../../support/state-folder.ts";

let folder: StateFolder;
let ref: TranscriptRef;
let path: string;

beforeEach(async () => {
  folder = await createStateFolder();
  ref = { agentId: "main", sessionId: newId() };
  folder.stores.transcripts.create(ref, { key: "agent:main:web:dm:main", parent: "agent:main:web:dm:parent" });
  path = folder.stores.transcripts.path(ref);
});
afterEach(() => folder[Symbol.dispose]());

const append = (...texts: string[]): void => {
  for (const text of texts) folder.stores.transcripts.append(ref, [user(text)]);
};
const texts = (count = 1_000): unknown[] =>
  folder.stores.transcripts.tail(ref, count).map((entry) => (entry.type === "message" ? entry.text : entry.type));
const warnings = (): unknown[] => folder.lines.filter((line) => line.level === "warn");

it("[SE2] the file is where the rule says, mode 0600 in folders of 0700, with a header line first", () => {
  append("hello");
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
    at: new Date(folder.clock.now()).toISOString(),
    key: "agent:main:web:dm:main",
    agentId: "main",
    parent: "agent:main:web:dm:parent",
  });
  expect(JSON.parse(first ?? "")).toMatchObject({ type: "message", role: "user", text: "hello", parentId: null });
  expect(rest).toEqual([""]);
});

it("[SE2] what is appended is in the file at once, so that a crash of the process loses none of it", () => {
  append("one");
  expect(readFileSync(path, "utf8")).toContain('"one"');
  folder.stores.transcripts.sync(ref);
});

it("[SE3] a torn last line is cut off at the next open and logged; every earlier line survives", () => {
  append("one", "two");
  folder.reopen();
  appendFileSync(path, '{"type":"message","role":"user","te');
  expect(texts()).toEqual(["one", "two"]);
  append("three");
  expect(texts()).toEqual(["one", "two", "three"]);
  expect(warnings()).toEqual([expect.objectContaining({ path, cutBytes: 35, msg: expect.stringMatching(/torn last line/) })]);
  expect(readFileSync(path, "utf8").split("\n")).toHaveLength(5);
});

it("[SE3] a torn last line longer than a chunk, ending inside a character, is cut as well", () => {
  append("one");
  folder.reopen();
  appendFileSync(path, Buffer.concat([Buffer.from(`{"text":"${"x".repeat(200_000)}`), Buffer.from([0xf0, 0x9f])]));
  append("two");
  expect(texts()).toEqual(["one", "two"]);
});

it("[SE3] a file that holds nothing but a torn header is cut, and appending goes on", () => {
  folder.reopen();
  writeFileSync(path, '{"type":"sess');
  append("one");
  expect(texts()).toEqual(["one"]);
});

it("[SE3] corrupt lines in the middle are skipped with a warning that names the line; the rest is shown", () => {
  append("one");
  appendFileSync(path, Buffer.from([0xff, 0x00, 0xfe, 0x0a]));
  append("two");
  appendFileSync(path, '{"id":"x","type":"message"}\n[1,2]\n"text"\nnull\n{"id":"x","type":"unknown","text":""}\n\n');
  append("three");
  expect(texts()).toEqual(["one", "two", "three"]);
  expect(warnings().map((line) => (line as { line: number }).line)).toEqual([10, 9, 8, 7, 6, 5, 3]);
  expect(warnings()[0]).toMatchObject({ path, msg: "skipped a damaged line of a transcript" });
});

it("[SE3] a line of 5 MB is read, one of 9 MB is skipped as damage, and the lines around stay", () => {
  append("before");
  append("x".repeat(5 * 1024 * 1024));
  appendFileSync(path, `{"id":"big","type":"note","text":"${"y".repeat(9 * 1024 * 1024)}"}\n`);
  append("after");
  expect(texts().map((text) => String(text).length)).toEqual([6, 5 * 1024 * 1024, 5]);
  expect(warnings()).toEqual([expect.objectContaining({ line: 4 })]);
});

it("[SE3] the parent of the next entry is right after a damaged last line", () => {
  const [first] = folder.stores.transcripts.append(ref, [user("one")]);
  appendFileSync(path, "garbage\n");
  folder.reopen();
  append("two");
  const [, two] = folder.stores.transcripts.tail(ref, 5);
  expect(two?.parentId === null || two?.parentId === first?.id).toBe(true);
  expect(texts()).toEqual(["one", "two"]);
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

/** Bytes asked of the file system while `work` runs. */
function bytesRead(work: () => void): number {
  let bytes = 0;
  const real = fs.readSync;
  const spy = vi.spyOn(fs, "readSync").mockImplementation(((...args: Parameters<typeof real>) => {
    const read = real(...args);
    bytes += read;
    return read;
  }) as typeof real);
  try {
    work();
  } finally {
    spy.mockRestore();
  }
  return bytes;
}

it("[SE4] the last entries of a 50 MB file are read without reading the file", () => {
  append("first");
  const line = `${JSON.stringify({ id: "x", parentId: null, at: "", type: "note", text: "z".repeat(1_000) })}\n`;
  const block = Buffer.from(line.repeat(1_000));
  const fd = openSync(path, "a");
  for (let written = 0; written < 50 * 1024 * 1024; written += block.length) writeSync(fd, block);
  closeSync(fd);
  append("last");
  // Not measured through the module's own import; the memory and the time tell the same.
  const before = process.memoryUsage().arrayBuffers + process.memoryUsage().heapUsed;
  const startedAt = performance.now();
  expect(folder.stores.transcripts.tail(ref, 20)).toHaveLength(20);
  expect(folder.stores.transcripts.window(ref, 100_000).length).toBeGreaterThan(50);
  expect(texts(1)).toEqual(["last"]);
  expect(performance.now() - startedAt).toBeLessThan(1_000);
  expect(process.memoryUsage().arrayBuffers + process.memoryUsage().heapUsed - before).toBeLessThan(10 * 1024 * 1024);
});
