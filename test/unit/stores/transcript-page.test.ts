import { appendFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { readTranscriptPage } from "../../../src/stores/transcript-page.ts";

let folder: string;
let path: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "herald-page-"));
  path = join(folder, "t.jsonl");
});

afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

const HEADER = `${JSON.stringify({ type: "session", version: 1, id: "s", timestamp: "", key: "k", parent: null })}\n`;
const note = (text: string) => `${JSON.stringify({ id: text, parentId: null, timestamp: "", type: "note", text })}\n`;
const read = (before: number | null, limit: number, fits: (text: string) => boolean = () => true) => {
  const page = readTranscriptPage(path, { before, limit, fits: (entry) => entry.type === "note" && fits(entry.text) });
  return { texts: page.entries.map(({ entry }) => (entry.type === "note" ? entry.text : "")), before: page.before, page };
};

it("[SE4] pages back to the first entry, without the header, the damaged and the torn lines", () => {
  appendFileSync(path, `${HEADER}${note("1")}${note("2")}not json\n${note("3")}${note("4")}{"torn`);
  const end = read(null, 2);
  expect(end.texts).toEqual(["3", "4"]);
  const first = read(end.before, 2);
  expect([first.texts, first.before]).toEqual([["1", "2"], null]);
  expect(read(null, 4)).toMatchObject({ texts: ["1", "2", "3", "4"], before: null });
});

it("[SE4] what does not fit is passed over and does not count", () => {
  appendFileSync(path, HEADER + ["a1", "b", "b", "a2", "b", "a3", "b"].map(note).join(""));
  const end = read(null, 2, (text) => text.startsWith("a"));
  expect(end.texts).toEqual(["a2", "a3"]);
  expect(read(end.before, 2, (text) => text.startsWith("a"))).toMatchObject({ texts: ["a1"], before: null });
});

it("[SE4] a cursor nobody gave out harms nothing", () => {
  appendFileSync(path, `${HEADER}${note("1")}${note("2")}`);
  expect(read(999_999, 5).texts).toEqual(["1", "2"]);
  expect(read(HEADER.length + 5, 5).texts).toEqual([]);
  expect(read(0, 5)).toMatchObject({ texts: [], before: null });
});

it("[SE4] reads a bounded piece of a huge file, and the next page goes on there", () => {
  appendFileSync(path, HEADER + note("first"));
  const chunk = note("x".repeat(1_000)).repeat(1_000);
  for (let n = 0; n < 10; n++) appendFileSync(path, chunk);
  let before: number | null = null;
  let pages = 0;
  const found: string[] = [];
  do {
    const page = read(before, 5, (text) => text === "first");
    found.push(...page.texts);
    before = page.before;
    pages++;
  } while (before !== null && pages < 50);
  expect(found).toEqual(["first"]);
  expect(pages).toBeGreaterThan(3);
  expect(pages).toBeLessThan(15);
});

it("[RC4] a missing file is said to be missing", () => {
  expect(() => read(null, 5)).toThrow(/ENOENT/);
});
