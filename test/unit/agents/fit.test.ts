// What is shown of a history that doesn't fit: the newest, the question, and a word where something is missing. Pure.
import fc from "fast-check";
import { expect, it } from "vitest";
import { toMessages } from "../../../src/agents/context.ts";
import { charsOf, fitEntries } from "../../../src/agents/fit.ts";
import type { Entry, EntryBody } from "../../../src/stores/transcript-entry.ts";

const entries = (...bodies: EntryBody[]): Entry[] =>
  bodies.map((body, n) => ({ ...body, id: `e${n}`, parentId: n === 0 ? null : `e${n - 1}`, timestamp: "2026-01-01T00:00:00.000Z" }));
const user = (text: string): EntryBody => ({ type: "message", role: "user", text, from: "Ann" });
const step = (n: number, text: string): EntryBody[] => [
  { type: "message", role: "assistant", text: `step ${n}`, model: "a/b", calls: 1 },
  { type: "tool_call", callId: `c${n}`, name: "read", args: { n } },
  { type: "tool_result", callId: `c${n}`, name: "read", text, isError: false },
];

it("[SE7] what fits is shown as it is", () => {
  const list = entries(user("hi"), ...step(1, "one"));
  expect(fitEntries(list, 10_000)).toEqual({ entries: list, leftOut: 0, cutChars: 0 });
});

it("[SE7] the question stays, whatever came behind it, and each gap is named where it is", () => {
  const work = Array.from({ length: 20 }, (_, n) => step(n, "x".repeat(200))).flat();
  const { entries: shown, leftOut } = fitEntries(entries(user("old ".repeat(100)), user("the question"), ...work), 2_000);
  const texts = toMessages(shown).map((message) => message.text.slice(0, 40));
  expect(texts).toContain("the question");
  expect(texts.filter((text) => text.startsWith("[The gateway left"))).toHaveLength(2);
  expect(texts.at(-1)).toMatch(/^x+$/);
  expect(leftOut).toBeGreaterThan(10);
});

it("[SE7] CACHE-006 the newest step is shown in part when its results alone are too long", () => {
  const list = entries(user("read both"), ...step(1, `BEGINS${"x".repeat(50_000)}ENDS`));
  const { entries: shown, cutChars } = fitEntries(list, 2_000);
  expect(charsOf(shown)).toBeLessThanOrEqual(2_000);
  expect(cutChars).toBeGreaterThan(45_000);
  expect(toMessages(shown).at(-1)?.text).toMatch(/^BEGINSx+\n… \[The gateway left \d+ characters out here: they don't fit\.\] …\nx+ENDS$/);
});

it("[SE7] whatever the history: within the room, no call without its result, the last question among it", () => {
  const text = fc.integer({ min: 0, max: 3_000 }).map((length) => "é😀x".repeat(length).slice(0, length).toWellFormed());
  const turn = fc.oneof(
    text.map((words) => [user(`Q${words}`)]),
    fc.tuple(fc.nat(), text).map(([n, words]) => step(n, words)),
    text.map((words): EntryBody[] => [{ type: "note", text: words }]),
  );
  fc.assert(
    fc.property(fc.array(turn, { minLength: 1, maxLength: 25 }), fc.integer({ min: 1_500, max: 20_000 }), (turns, max) => {
      const list = entries(...turns.flat());
      const { entries: shown, leftOut, cutChars } = fitEntries(list, max);
      // A line in each gap besides.
      expect(charsOf(shown)).toBeLessThanOrEqual(max + 400);
      expect(leftOut + cutChars > 0).toBe(charsOf(list) > max);
      const calls = shown.flatMap((entry) => (entry.type === "tool_call" ? [entry.callId] : []));
      const results = shown.flatMap((entry) => (entry.type === "tool_result" ? [entry.callId] : []));
      expect(results).toEqual(calls);
      const isQuestion = (entry: Entry): boolean => entry.type === "message" && entry.role === "user";
      expect(shown.findLast(isQuestion)?.id).toBe(list.findLast(isQuestion)?.id);
      for (const entry of shown) if ("text" in entry) expect(entry.text.isWellFormed()).toBe(true);
    }),
    { numRuns: 300 },
  );
});
