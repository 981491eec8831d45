import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { systemClock } from "../../../src/core/clock.ts";
import { openDatabase, type SqliteDatabase } from "../../../src/stores/database.ts";
import { createScratchpad } from "../../../src/stores/scratchpad.ts";
import { createScratchpadTool } from "../../../src/tools/scratchpad.ts";
import { callTool } from "../../support/tool-context.ts";

let dir: string;
let db: SqliteDatabase;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "herald-scratchpad-"));
  db = openDatabase({ path: join(dir, "state.db") });
});
afterEach(() => {
  db.close();
  rmSync(dir, { recursive: true });
});

const other = { sessionKey: "agent:main:web:dm:other" };

it("[NV2] write, append, read and clear, per session", async () => {
  const tool = createScratchpadTool(createScratchpad({ db, clock: systemClock }));
  await callTool(tool, { op: "write", section: "plan", text: "one" });
  await callTool(tool, { op: "append", section: "plan", text: "zwei ä" });
  await callTool(tool, { op: "append", section: "context_transfer", text: "for children" });
  expect(await callTool(tool, { op: "read", section: "plan" })).toEqual({ text: "one\nzwei ä" });
  expect(await callTool(tool, { op: "read" })).toEqual({ text: "context_transfer (12 bytes)\nplan (11 bytes)" });
  expect(await callTool(tool, { op: "read", section: "plan" }, other)).toMatchObject({ isError: true });
  expect(await callTool(tool, { op: "clear", section: "plan" }, other)).toEqual({ text: "There was no such section." });
  expect(await callTool(tool, { op: "clear", section: "plan" })).toEqual({ text: "Section plan is gone." });
  expect((await callTool(tool, { op: "read", section: "plan" })).text).toContain("There are: context_transfer.");
});

it("[NV2] survives a restart", async () => {
  const written = await createScratchpad({ db, clock: systemClock }).write("key", "plan", "kept");
  expect(written).toEqual({ ok: true, bytes: 4 });
  db.close();
  db = openDatabase({ path: join(dir, "state.db") });
  const again = createScratchpad({ db, clock: systemClock });
  expect(await again.read("key", "plan")).toBe("kept");
  await again.write("key", "more", "x");
  expect(await again.clear("key")).toBe(2);
  expect(await again.sections("key")).toEqual([]);
});

it("[NV2] caps: name, section size, number of sections; a refused write changes nothing", async () => {
  const scratchpad = createScratchpad({ db, clock: systemClock });
  const tool = createScratchpadTool(scratchpad);
  for (const section of ["", "../x", "A", "a b", "x".repeat(65), "a\n"]) {
    expect((await callTool(tool, { op: "write", section, text: "x" })).isError, section).toBe(true);
  }
  expect((await scratchpad.write("key", "big", "é".repeat(8192))).ok).toBe(true);
  expect((await scratchpad.append("key", "big", "x")).ok).toBe(false);
  expect(await scratchpad.read("key", "big")).toHaveLength(8192);
  for (let n = 1; n < 20; n++) expect((await scratchpad.write("key", `s${n}`, "")).ok).toBe(true);
  expect(await scratchpad.write("key", "s20", "")).toMatchObject({ ok: false });
  expect((await scratchpad.write("key", "s1", "still writable")).ok).toBe(true);
  expect((await callTool(tool, { op: "write", section: "a" })).text).toBe("write needs a text.");
  expect((await callTool(tool, { op: "append", text: "a" })).text).toBe("append needs a section.");
  expect(() => tool.schema.parse({ op: "drop" })).toThrow();
});

it("[NV2] what it writes may also be called content, as for write; two different texts are refused", async () => {
  const tool = createScratchpadTool(createScratchpad({ db, clock: systemClock }));
  const call = (args: object) => callTool(tool, args);
  await call({ op: "write", section: "plan", content: "one" });
  await call({ op: "append", section: "plan", content: "two", text: "two" });
  expect((await call({ op: "read", section: "plan" })).text).toBe("one\ntwo");
  expect(await call({ op: "write", section: "plan", content: "a", text: "b" })).toMatchObject({ isError: true });
  expect(await call({ op: "write", section: "plan" })).toMatchObject({ isError: true, text: expect.stringContaining("needs a text") });
});
