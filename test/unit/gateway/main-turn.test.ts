// A sitting: the time a turn of a chat may work, and its typing sign, while it works and while it waits.
import { beforeEach, expect, it } from "vitest";
import { createBus } from "../../../src/core/events.ts";
import { silentLogger } from "../../../src/core/logger.ts";
import type { Wait } from "../../../src/core/run.ts";
import { type Job, type MainTurnDeps, openSitting } from "../../../src/gateway/main-turn.ts";
import { createManualClock, type ManualClock } from "../../support/manual-clock.ts";

const DAY = 24 * 3_600_000;
const FOR_ANSWER: Wait = { for: "answer", id: "q", since: 0, until: DAY };
const FOR_RUNS: Wait = { for: "runs", ids: ["r"], mode: "all", since: 0, until: DAY };

let clock: ManualClock;
let abort: AbortController;
let signs: string[];
beforeEach(() => {
  clock = createManualClock();
  abort = new AbortController();
  signs = [];
});

const sit = (timeoutMs: number) => {
  const bus = createBus((error) => expect.unreachable(String(error)));
  const job = {
    ...{ row: { id: 1 }, inbound: { address: { channel: "test", account: "a", chat: "c", kind: "dm" } }, abort, written: "" },
    ...{ agent: { timeoutMs }, session: { key: "k" }, channel: { status: async (_: unknown, sign: string) => void signs.push(sign) } },
  };
  return openSitting({ clock, bus, log: silentLogger } as unknown as MainTurnDeps, job as unknown as Job);
};

it.each([
  ["a person", FOR_ANSWER],
  ["sub-agents", FOR_RUNS],
])("[QA2][AG4] what passes while it waits for %s is none of its time; what it works is, all in all", async (_whom, wait) => {
  const sitting = sit(1_000);
  for (let worked = 0; worked < 900; worked += 300) {
    await clock.advance(300);
    sitting.rest([wait]);
    await clock.advance(3 * DAY);
    expect(abort.signal.aborted).toBe(false);
    sitting.goOn();
  }
  await clock.advance(99);
  expect(abort.signal.aborted).toBe(false);
  await clock.advance(1);
  expect(abort.signal.reason).toBe("timeout");
});

it("[QA2] a clock that is set back while it works gives it no less time, and one that is set ahead ends no wait", async () => {
  const sitting = sit(1_000);
  clock.set(clock.now() - DAY);
  sitting.rest([FOR_ANSWER]);
  clock.set(clock.now() + 3 * DAY);
  sitting.goOn();
  await clock.advance(999);
  expect(abort.signal.aborted).toBe(false);
  await clock.advance(1);
  expect(abort.signal.aborted).toBe(true);
});

it("[AG4][QA2] nobody is shown as typing while a person is asked; while sub-agents are waited for somebody is", async () => {
  const sitting = sit(0);
  expect(signs).toEqual(["working"]);
  sitting.rest([FOR_RUNS]);
  await clock.advance(4_000);
  expect(signs).toEqual(["working", "working"]);
  sitting.goOn();
  sitting.rest([FOR_RUNS, FOR_ANSWER]);
  expect(signs.splice(0)).toEqual(["working", "working", "idle"]);
  await clock.advance(DAY);
  expect(signs).toEqual([]);
  sitting.goOn();
  expect(signs).toEqual(["working"]);
  await sitting.close("done");
  sitting.goOn();
  await clock.advance(DAY);
  expect(signs).toEqual(["working", "idle"]);
});
