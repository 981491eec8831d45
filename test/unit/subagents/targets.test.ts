// Which run a target means, on real stores: every form, and only ever below the caller's own session.
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Run } from "../../../src/core/run.ts";
import { currentRuns, findTarget, runsOf } from "../../../src/subagents/targets.ts";
import { createManualClock, type ManualClock } from "../../support/manual-clock.ts";
import { CHAT_KEY, makeRun } from "../../support/runs.ts";
import { createStage, okReply, type Stage } from "../../support/stage.ts";

const OTHER = "agent:main:web:dm:11111111-1111-4111-8111-111111111111";
let clock: ManualClock;
let stage: Stage;
beforeEach(async () => {
  clock = createManualClock();
  stage = await createStage({ clock, call: async () => okReply("x"), subagents: { maxSpawnDepth: 2 }, idle: true });
});
afterEach(async () => stage[Symbol.asyncDispose]());

/** One millisecond apart, so that newest first means something. */
async function spawn(label: string, requester: { sessionKey?: string; sessionId?: string; runId?: string } = {}): Promise<Run> {
  await clock.advance(1);
  return stage.spawn({ label }, requester);
}
const find = async (text: string, key = CHAT_KEY): Promise<string> => {
  const found = await findTarget(stage.stores, key, text);
  return "run" in found ? found.run.label : found.problem;
};

describe("findTarget", () => {
  it("[CM3] by number of the last list, last, id prefix, label in any case, and key", async () => {
    const [first, second] = [await spawn("first"), await spawn("Second One")];
    await stage.stores.db.transaction([], (tx) => stage.stores.listings.save(tx, CHAT_KEY, [second.id, first.id]));
    expect(await Promise.all(["1", "#2", "last", " LAST ", "first", "FIRST", "second one"].map((text) => find(text)))).toEqual([
      "Second One",
      "first",
      "Second One",
      "Second One",
      "first",
      "first",
      "Second One",
    ]);
    for (const length of [4, 8, 20, 36]) {
      const prefix = first.id.slice(0, length);
      // A short prefix of digits only is a number of the list.
      if (!/^\d{1,4}$/.test(prefix) && !second.id.startsWith(prefix)) expect(await find(prefix)).toBe("first");
    }
    expect(await find(first.childKey)).toBe("first");
    expect(await find(first.childKey.toUpperCase().replace("AGENT:", "agent:"))).toBe("first");
  });

  it("[CM3] a label wins over an id prefix, and too short a prefix is no target", async () => {
    const one = await spawn("plain");
    const two = await spawn(one.id.slice(0, 8));
    expect(await findTarget(stage.stores, CHAT_KEY, one.id.slice(0, 8))).toMatchObject({ run: { id: two.id } });
    if (!/^\d/.test(one.id)) expect(await find(one.id.slice(0, 2))).toContain("There is no sub-agent");
  });

  it("[CM3] unknown, ambiguous and out of range differ", async () => {
    await spawn("twin");
    await spawn("twin");
    expect(await find("1")).toContain("call it first");
    await stage.stores.db.transaction([], (tx) => stage.stores.listings.save(tx, CHAT_KEY, ["a"]));
    expect(await find("2")).toBe("There is no number 2: the last list went from 1 to 1.");
    expect(await find("twin")).toContain('"twin" fits 2 sub-agents');
    expect(await find("nobody")).toContain('There is no sub-agent "nobody"');
    expect(await find("")).toContain("Which sub-agent?");
    expect((await find("x".repeat(10_000))).length).toBeLessThan(200);
  });

  it("[TL4] a run of another session is not found by any form", async () => {
    const theirs = await spawn("theirs", { sessionKey: OTHER });
    for (const text of ["theirs", theirs.id, theirs.id.slice(0, 8), theirs.childKey, "last"])
      expect(await find(text)).toMatch(/^There (is|are) no/);
    expect(await find("theirs", OTHER)).toBe("theirs");
  });

  it("[TL8] unfinished runs further down are found from above", async () => {
    const parent = await spawn("parent");
    const child = await spawn("grandchild", { sessionKey: parent.childKey, sessionId: parent.sessionId, runId: parent.id });
    expect(await find("grandchild")).toBe("grandchild");
    expect(await find(child.childKey)).toBe("grandchild");
    expect(await find("parent", child.childKey)).toContain("There is no");
    expect((await runsOf(stage.stores.runs, CHAT_KEY)).map((run) => run.label)).toEqual(["grandchild", "parent"]);
  });
});

it("[RU3] the current list is this boot's runs and every unfinished one", () => {
  const runs = [
    makeRun({ id: "a", bootId: "now", state: "done" }),
    makeRun({ id: "b", bootId: "before", state: "running" }),
    makeRun({ id: "c", bootId: "before", state: "done" }),
    makeRun({ id: "d", bootId: "before", state: "queued" }),
  ];
  expect(currentRuns(runs, new Set(["now"])).map((run) => run.id)).toEqual(["a", "b", "d"]);
});
