// Session keys, run ids and labels that point at somebody else, at nothing, or at whoever reads them.
import { readdirSync, rmSync } from "node:fs";
import { afterEach, beforeEach, expect, it } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import { chatKey, isUuid, newId, parseKey } from "../../src/core/ids.ts";
import type { Run } from "../../src/core/run.ts";
import { findTarget } from "../../src/subagents/targets.ts";
import { CHAT_KEY } from "../support/runs.ts";
import { createStage, makeStateDir, okReply, type Stage } from "../support/stage.ts";
import { createToolDesk, type Outcome, type ToolDesk } from "../support/tool-desk.ts";

let stateDir: string;
let stage: Stage;
let desk: ToolDesk;
beforeEach(async () => {
  stateDir = makeStateDir();
  stage = await createStage({ clock: systemClock, stateDir, idle: true, subagents: { maxSpawnDepth: 3 }, call: async () => okReply("x") });
  desk = createToolDesk(stage);
});
afterEach(async () => {
  await stage[Symbol.asyncDispose]();
  rmSync(stateDir, { recursive: true, force: true });
});

const SESSION_TOOLS = ["sessions_spawn", "sessions_history", "sessions_send", "sessions_list", "subagents"];
const spawn = (label: string, under?: Run): Promise<Run> =>
  stage.spawn(
    { label },
    under === undefined
      ? { tools: SESSION_TOOLS }
      : { sessionKey: under.childKey, sessionId: under.sessionId, runId: under.id, tools: SESSION_TOOLS },
  );
const notVisible = (key: string): Outcome => ({ isError: true, text: `There is no session "${key.slice(0, 120)}" that you can see.` });

it("[TL4] KEY-002 a sibling's key, a parent's and an invented one are all not visible", async () => {
  const [one, sibling] = [await spawn("one"), await spawn("sibling")];
  const below = await spawn("below", one);
  const invented = one.childKey.replace(/.{8}$/, "00000000");
  for (const key of [sibling.childKey, CHAT_KEY, invented, `agent:other:subagent:${newId()}`]) {
    expect(await desk.call("sessions_history", { sessionKey: key }, one)).toEqual(notVisible(key));
    expect(await desk.call("sessions_send", { sessionKey: key, message: "x" }, one)).toEqual(notVisible(key));
  }
  expect((await desk.call("sessions_history", { sessionKey: below.childKey }, one)).isError).toBe(false);
  expect(await stage.unread(sibling)).toBe(0);
});

it("[SE1] KEY-006 an endless, empty, blank or NUL key is refused, and leaves no file, row or long word", async () => {
  await spawn("one");
  const traces = async () => [
    readdirSync(stateDir, { recursive: true }).length,
    (await stage.stores.db.all("SELECT id FROM sessions")).length,
  ];
  const before = await traces();
  for (const key of ["x".repeat(10_000), "", "   ", "a\0b", `agent:main:web:dm:${"x".repeat(10_000)}`, "agent:main:subagent:\0"]) {
    expect(parseKey(key)).toBeNull();
    for (const [name, more] of [["sessions_history", {}] as const, ["sessions_send", { message: "x" }] as const]) {
      const { isError, text } = await desk.call(name, { sessionKey: key, ...more });
      expect(isError).toBe(true);
      expect(text.length).toBeLessThan(300);
    }
    expect(() => chatKey("main", { channel: "web", account: "a", chat: key, kind: "dm" })).toThrow(RangeError);
  }
  expect(await traces()).toEqual(before);
});

it("[SE1] KEY-008 keys that differ only in how a letter is written are both refused; upper case is no key", () => {
  const key = (chat: string) => () => chatKey("main", { channel: "web", account: "a", chat, kind: "dm" });
  for (const chat of ["caf\u00e9", "cafe\u0301", "\u212a", "\uff41"]) {
    expect(key(chat)).toThrow(RangeError);
    expect(parseKey(`agent:main:web:dm:${chat}`)).toBeNull();
  }
  expect(parseKey("agent:main:web:dm:Main")).toBeNull();
  expect(parseKey("agent:Main:web:dm:main")).toBeNull();
});

it("[RU1] KEY-010 run ids are random: a hundred thousand guesses find none", async () => {
  const runs = await Promise.all(Array.from({ length: 5 }, (_, n) => spawn(`run ${n}`)));
  for (const { id } of runs) expect([isUuid(id), id[14]]).toEqual([true, "4"]);
  let hits = 0;
  for (let n = 0; n < 50_000; n++) for (const guess of [String(n), newId()]) hits += (await stage.stores.runs.get(guess)) === null ? 0 : 1;
  expect(hits).toBe(0);
  for (const guess of ["1", "2", "9999"])
    expect(await findTarget(stage.stores, "agent:main:web:dm:other", guess)).toHaveProperty("problem");
});

it("[TL4] KEY-011 a session can't send to itself", async () => {
  const one = await spawn("one");
  const cases = [
    { as: undefined, sessionKey: CHAT_KEY },
    { as: one, sessionKey: one.childKey },
    { as: one, sessionKey: one.childKey.toUpperCase() },
  ];
  for (const { as, sessionKey } of cases) {
    const refused = { isError: true, text: "A session cannot send to itself." };
    expect(await desk.call("sessions_send", { sessionKey, message: "again" }, as)).toEqual(refused);
  }
  expect(await stage.unread(one)).toBe(0);
});

it("[TL4] KEY-012 messages go down the tree only, so no two sessions can keep each other going", async () => {
  const parent = await spawn("parent");
  const below = await spawn("below", parent);
  expect((await desk.call("sessions_send", { sessionKey: below.childKey, message: "ping" }, parent)).isError).toBe(false);
  for (const key of [parent.childKey, CHAT_KEY]) {
    expect(await desk.call("sessions_send", { sessionKey: key, message: "pong" }, below)).toEqual(notVisible(key));
    const { isError, text } = await desk.call("subagents", { action: "send", ids: [key], text: "pong" }, below);
    expect([isError, text]).toEqual([true, expect.stringContaining("There is no sub-agent")]);
  }
  expect([await stage.unread(below), await stage.unread(parent)]).toEqual([1, 0]);
});

const clusters = (text: string): string[] => [...new Intl.Segmenter().segment(text)].map(({ segment }) => segment);

it.each([
  ["emoji families", "👩‍👩‍👧‍👦"],
  ["flags", "🇦🇹"],
  ["right-to-left words", "שָׁלוֹם "],
  ["letters under a heap of marks", `e${"\u0301".repeat(30)}`],
  ["marks outside the basic plane", `a${"\u{1d165}".repeat(21)}`],
])("[AN5] KEY-016 a label of 5000 %s is cut at 80 characters people see, never inside one", async (_what, unit) => {
  const label = unit.repeat(5_000);
  const { text, isError } = await desk.call("sessions_spawn", { task: "x", label: label.slice(0, 60_000) });
  expect(isError, text.slice(0, 300)).toBe(false);
  const run = await stage.get((JSON.parse(text) as { runId: string }).runId);
  expect(run.label.isWellFormed()).toBe(true);
  expect(run.label.endsWith("…")).toBe(true);
  const shown = clusters(run.label.slice(0, -1));
  expect(shown.length).toBeGreaterThan(0);
  expect(shown.length).toBeLessThan(80);
  const whole = new Set(clusters(unit));
  for (const one of shown) expect(whole.has(one)).toBe(true);
  // A task gives the label when there is none, and is kept whole beside it.
  expect((await stage.spawn({ task: label, label: undefined as unknown as string })).label).toBe(run.label);
});
