// Transcripts with random damage: a line is one of our shapes or skipped, whole lines always survive, appending goes on.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, expect, it } from "vitest";
import { standingOf, toMessages } from "../../src/agents/context.ts";
import { newId } from "../../src/core/ids.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { type Entry, type NewEntry, parseEntry } from "../../src/stores/transcript-entry.ts";
import { createTranscripts } from "../../src/stores/transcripts.ts";
import { createRenderer } from "../../src/web/rendering.ts";
import { createLogViews } from "../../src/web/run-log.ts";
import { cases, checkPrototype, damagedBytes, damagedText, damagedTree } from "./cases.ts";

const usage = { input: 1, output: 2, cacheRead: 0, cacheWrite: 0 };
const BODIES: NewEntry[] = [
  { type: "message", role: "user", text: 'hi\n\u2028 "quoted" 👋🏽', from: "Ann", id: "task" },
  { type: "message", role: "assistant", text: "", model: "a/b", calls: 1, usage, extras: { a: { v: 1, model: "b", parts: [] } } },
  { type: "tool_call", callId: "c1", name: "read", args: { path: "x", deep: [{ a: null }] } },
  { type: "tool_result", callId: "c1", name: "read", text: "line\nline", isError: false },
  { type: "note", text: "a child ended", about: "run:1" },
  { type: "compaction", summary: "earlier", keptFrom: null },
  { type: "message", role: "assistant", text: "cut", model: "a/b", calls: 0, partial: true, phase: "announce" },
];
const ENTRIES = BODIES.map(
  (body, n): Entry => ({ id: `id${n}`, ...body, parentId: n === 0 ? null : `id${n - 1}`, timestamp: "2026-02-06T03:55:00.000Z" }),
);
const LINES = ENTRIES.map((entry) => JSON.stringify(entry));
const sessionId = newId();
const HEADER = JSON.stringify({
  type: "session",
  version: 1,
  id: sessionId,
  timestamp: "2026-02-06T03:55:00.000Z",
  key: "k",
  parent: null,
});

/** Everything that reads entries must be able to read this one. */
async function checkReaders(entries: readonly Entry[]): Promise<void> {
  for (const message of toMessages(entries)) expect(["user", "assistant", "tool"]).toContain(message.role);
  expect(["answered", "calls", "cut", "open"]).toContain(standingOf(entries).kind);
  const views = await createLogViews((text) => text.replaceAll("\0", ""), createRenderer()).toViews(
    "run",
    entries.map((entry, position) => ({ position, entry })),
  );
  expect(views).toHaveLength(entries.length);
}

it("[SE3] any line is no entry, or one that every reader can read", async () => {
  const line = fc.oneof(
    damagedText(fc.constantFrom(HEADER, ...LINES)),
    damagedTree(fc.constantFrom(...ENTRIES)).map((tree) => JSON.stringify(tree) ?? ""),
  );
  let read = 0;
  await fc.assert(
    fc.asyncProperty(line, async (text) => {
      const entry = parseEntry(text);
      checkPrototype();
      if (entry === null) return;
      read++;
      expect(entry).toEqual(JSON.parse(text));
      await checkReaders([entry]);
    }),
    cases(),
  );
  expect(read).toBeGreaterThan(0);
}, 240_000);

let stateDir: string;
beforeAll(() => {
  stateDir = mkdtempSync(join(tmpdir(), "herald-transcripts-"));
});
afterAll(() => rmSync(stateDir, { recursive: true, force: true }));

const ref = { agentId: "main", sessionId };
const NEW: NewEntry = { type: "note", text: "after the damage" };

it("[SE3][RC4] after any damage every whole line is still read in order, a torn end is cut, and appending goes on", async () => {
  const warned: string[] = [];
  const log = { ...silentLogger, warn: (_fields: object, message: string) => void warned.push(message) };
  const open = () => createTranscripts({ stateDir, log, now: Date.now, redact: (text) => text });
  const path = open().path(ref);
  mkdirSync(dirname(path), { recursive: true });
  // Lines longer than one read, so that damage falls on the borders of chunks too.
  const long = JSON.stringify({ ...ENTRIES[0], id: "long", text: "ä".repeat(40_000) });
  const file = fc.array(fc.constantFrom(...LINES, ...LINES, long), { maxLength: 8 }).map((lines) => `${[HEADER, ...lines].join("\n")}\n`);
  await fc.assert(
    fc.asyncProperty(damagedBytes(file), fc.nat(3), async (bytes, count) => {
      writeFileSync(path, bytes);
      const whole = bytes.toString("utf8").split("\n").slice(0, -1);
      const expected = whole.flatMap((text) => parseEntry(text) ?? []);
      const transcripts = open();
      warned.splice(0);
      expect(await transcripts.tail(ref, 1_000)).toEqual(expected);
      const skipped = whole.filter((text, n) => parseEntry(text) === null && !(n === 0 && text.startsWith('{"type":"session"')));
      expect(warned).toHaveLength(skipped.length);
      expect(await transcripts.tail(ref, count)).toEqual(count === 0 ? [] : expected.slice(-count));
      const shown = await transcripts.window(ref, 3, () => 1);
      expect(shown).toEqual(shown.length === 0 ? [] : expected.slice(-shown.length));
      expect(await transcripts.lastCompaction(ref)).toEqual(expected.findLast((entry) => entry.type === "compaction") ?? null);
      const [fresh] = await transcripts.append(ref, [NEW]);
      expect(fresh?.parentId).toBe(expected.at(-1)?.id ?? null);
      expect(await transcripts.tail(ref, 1_000)).toEqual([...expected, fresh]);
      transcripts.close();
      const end = bytes.lastIndexOf(10) + 1;
      expect(readFileSync(path).subarray(0, end).equals(bytes.subarray(0, end))).toBe(true);
    }),
    cases(25), // files are written, synced and read
  );
});

it("[SE4] leafing back in pages of any size gives every entry once, from any cursor", async () => {
  const transcripts = createTranscripts({ stateDir, log: silentLogger, now: Date.now, redact: (text) => text });
  const path = transcripts.path(ref);
  await fc.assert(
    fc.asyncProperty(
      damagedBytes(fc.constant(`${[HEADER, ...LINES, ...LINES].join("\n")}\n`)),
      fc.integer({ min: 1, max: 5 }),
      fc.nat(3_000),
      async (bytes, limit, from) => {
        writeFileSync(path, bytes);
        const all: Entry[] = [];
        let before: number | null = null;
        for (let pages = 0; pages <= 200; pages++) {
          const page = await transcripts.page(ref, { before, limit, fits: () => true });
          expect(page.entries.length).toBeLessThanOrEqual(limit);
          all.unshift(...page.entries.map(({ entry }) => entry));
          before = page.before;
          if (before === null) break;
        }
        expect(before).toBeNull();
        expect(all).toEqual(await transcripts.tail(ref, 1_000));
        for (const { position } of (await transcripts.page(ref, { before: from, limit, fits: () => true })).entries)
          expect(position).toBeLessThan(from);
      },
    ),
    cases(25), // files are written and read
  );
  transcripts.close();
});
