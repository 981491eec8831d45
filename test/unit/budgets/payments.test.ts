// Who pays for which call: what a provider did or refused to do, days that change, spawns on a limit that is used up, one last call.
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type BudgetSettings, levelsOf } from "../../../src/budgets/levels.ts";
import { createPayments, type Payments } from "../../../src/budgets/payments.ts";
import { createPurse } from "../../../src/budgets/purse.ts";
import { decide, type Level, NOTHING, toCap } from "../../../src/core/budget.ts";
import { noFailpoints } from "../../../src/core/failpoints.ts";
import type { Run } from "../../../src/core/run.ts";
import type { Outlay, Permit, Usage } from "../../../src/core/usage.ts";
import { createBudgets } from "../../../src/stores/budgets.ts";
import { createManualClock } from "../../support/manual-clock.ts";
import { NO_LIMITS, paymentsOf } from "../../support/payments.ts";
import { ADDRESS, makeRun } from "../../support/runs.ts";
import { createStage, okReply, type Stage } from "../../support/stage.ts";
import { createStateFolder, type StateFolder } from "../../support/state-folder.ts";

let folder: StateFolder;
let told: string[];
beforeEach(async () => {
  folder = await createStateFolder();
  await folder.stores.nodes.enter();
  told = [];
});
afterEach(() => folder[Symbol.dispose]());

/** A dollar for a million tokens, in and out. */
const costUsd = ({ input, output }: Usage): number => (input + output) / 1_000_000;
const outlay = (more: Partial<Outlay> = {}): Outlay => ({ model: "p/m", inputTokens: () => 1_000, costUsd, maxOutput: 1_000, ...more });
const level = (cap: { usd?: number; tokens?: number }, id = "day:1"): Level => ({ id, name: "today", cap: toCap(cap) });
const purseFor = (levels: () => readonly Level[], unpriced: "refuse" | "allow" = "refuse") =>
  createPurse(
    { db: folder.stores.db, budgets: folder.stores.budgets, clock: folder.clock, bus: folder.bus, failpoint: noFailpoints },
    { levels: async () => levels(), unpriced, chat: ADDRESS, isReachable: () => true, tell: async (_tx, { text }) => void told.push(text) },
  );
const signal = new AbortController().signal;
const permitted = (opened: Permit | { refused: string }): Permit => {
  if ("refused" in opened) throw new Error(opened.refused);
  return opened;
};
const used = (input: number, output: number) => {
  const usage = { input, output, cacheRead: 0, cacheWrite: 0 };
  return { usage, costUsd: costUsd(usage) };
};
const figures = async (id = "day:1") => folder.stores.budgets.figures(id);

describe("a purse", () => {
  it("[BG2] holds the worst case, lowers the answer to what fits, and refuses below 512 tokens, naming level, limit and figure", async () => {
    const purse = purseFor(() => [level({ tokens: 3_000 })]);
    const first = permitted(await purse.open(outlay(), signal));
    expect(first.maxOutput).toBe(1_000);
    expect((await figures()).held.tokens).toBe(2_000);
    await first.settle(used(1_000, 200));
    expect(await figures()).toMatchObject({ spent: { tokens: 1_200, usd: 1_200 }, held: { tokens: 0 } });
    const second = permitted(await purse.open(outlay(), signal));
    expect(second.maxOutput).toBe(800);
    await second.settle(used(1_000, 800));
    expect(await purse.open(outlay(), signal)).toEqual({ refused: "The budget of today is used up: 3000 of 3000 tokens." });
  });

  it("[BG2] BUD-011 refused by the provider without work: released in full; cut off with nothing reported: charged in full", async () => {
    const purse = purseFor(() => [level({ usd: 1 })]);
    for (let n = 0; n < 6; n++) await permitted(await purse.open(outlay(), signal)).settle("nothing");
    expect(await figures()).toMatchObject({ spent: { usd: 0, tokens: 0 }, held: { usd: 0, tokens: 0 } });
    await permitted(await purse.open(outlay(), signal)).settle(null);
    expect(await figures()).toMatchObject({ spent: { usd: 2_000, tokens: 2_000 }, held: { usd: 0, tokens: 0 } });
  });

  it("[BG4] a limit that does not pay for even one call says that, and what the call needs, instead of being used up", async () => {
    const small = purseFor(() => [level({ tokens: 1_200 })]);
    expect(await small.open(outlay(), signal)).toEqual({
      refused: "The budget of today does not pay for a single call: it is 1200 tokens, and the call needs at least 1512 tokens.",
    });
    const cheap = purseFor(() => [level({ usd: 0.001, tokens: 9_000 })]);
    expect(await cheap.open(outlay(), signal)).toEqual({
      refused: "The budget of today does not pay for a single call: it is $0.0010 and 9000 tokens, and the call needs at least $0.0015.",
    });
  });

  it("[BG2] reported in figures that no price can be made of (more from the cache than there was input), it is charged in full", async () => {
    const purse = purseFor(() => [level({ usd: 1, tokens: 9_000 })]);
    await permitted(await purse.open(outlay(), signal)).settle({ ...used(900, 100), costUsd: null });
    expect(await figures()).toMatchObject({ spent: { usd: 2_000, tokens: 1_000 }, held: { usd: 0, tokens: 0 } });
  });

  it("[BG3] BUD-005 a provider that gives more than its maximum passes the limit by that excess, and the next call is refused", async () => {
    const purse = purseFor(() => [level({ tokens: 2_000 })]);
    await permitted(await purse.open(outlay(), signal)).settle(used(1_000, 3_000));
    expect((await figures()).spent.tokens).toBe(4_000);
    expect(await purse.open(outlay(), signal)).toEqual({ refused: "The budget of today is used up: 4000 of 2000 tokens." });
  });

  it("[BG2] where only others' holds are in the way it waits for them; a stop ends the wait", async () => {
    const purse = purseFor(() => [level({ tokens: 2_500 })]);
    const first = permitted(await purse.open(outlay(), signal));
    let isOpen = false;
    const second = purse.open(outlay(), signal).then((opened) => {
      isOpen = true;
      return opened;
    });
    const stop = new AbortController();
    const third = purse.open(outlay(), stop.signal);
    stop.abort();
    expect(await third).toEqual({ refused: "It was stopped while it waited for its budget." });
    // It had as long as the other to find room, and did not.
    expect(isOpen).toBe(false);
    await first.settle(used(100, 0));
    expect(permitted(await second).maxOutput).toBe(1_000);
  });

  it("[BG3] a settle that the disk refuses costs no answer, and is made up for before the next hold", async () => {
    const { db } = folder.stores;
    let isFull = false;
    const failing: typeof db = {
      ...db,
      transaction: (...args) =>
        isFull ? Promise.reject(Object.assign(new Error("no space left"), { code: "ENOSPC" })) : db.transaction(...args),
    };
    const budgets = createBudgets({ db: failing, clock: folder.clock, bootId: "boot", failpoint: noFailpoints });
    const purse = createPurse(
      { db: failing, budgets, clock: folder.clock, bus: folder.bus, failpoint: noFailpoints },
      { levels: async () => [level({ tokens: 2_500 })], unpriced: "refuse", chat: ADDRESS, isReachable: () => true, async tell() {} },
    );
    const first = permitted(await purse.open(outlay(), signal));
    isFull = true;
    await first.settle(used(100, 50));
    isFull = false;
    expect((await figures()).held.tokens).toBe(2_000);
    expect(permitted(await purse.open(outlay(), signal)).maxOutput).toBe(1_000);
    expect(await figures()).toMatchObject({ spent: { tokens: 150 }, held: { tokens: 2_000 } });
  });

  it("[BG6] raised while it waits, it goes on", async () => {
    let cap = 2_500;
    const purse = purseFor(() => [level({ tokens: cap })]);
    await purse.open(outlay(), signal);
    const second = purse.open(outlay(), signal);
    await folder.clock.advance(1_000);
    cap = 4_500;
    await folder.clock.advance(1_000);
    expect(permitted(await second).maxOutput).toBe(1_000);
  });

  it("[BG5] BUD-007 a call is settled into the day it was held in; 80 % is told once for each level and period", async () => {
    let day = "day:1";
    const purse = purseFor(() => [level({ tokens: 2_400 }, day)]);
    const late = permitted(await purse.open(outlay(), signal));
    day = "day:2";
    await late.settle(used(1_000, 1_000));
    expect((await figures("day:1")).spent.tokens).toBe(2_000);
    expect((await figures("day:2")).spent.tokens).toBe(0);
    for (const _ of [1, 2])
      await permitted(await purse.open(outlay({ inputTokens: () => 100, maxOutput: 512 }), signal)).settle(used(900, 100));
    expect(told).toEqual([
      "⚠️ More than 80 % of the budget of today is used: 2000 of 2400 tokens.",
      "⚠️ More than 80 % of the budget of today is used: 2000 of 2400 tokens.",
    ]);
  });

  it("[BG7] no price and a limit in USD: refused, unless the settings allow it; a limit in tokens alone needs no price", async () => {
    const unpriced = outlay({ costUsd: () => null });
    expect(await purseFor(() => [level({ usd: 1 })]).open(unpriced, signal)).toEqual({
      refused: expect.stringContaining("no price is known for p/m"),
    });
    expect(permitted(await purseFor(() => [level({ usd: 1 })], "allow").open(unpriced, signal)).maxOutput).toBe(1_000);
    expect(permitted(await purseFor(() => [level({ tokens: 5_000 })]).open(unpriced, signal)).maxOutput).toBe(1_000);
  });
});

it("[BG4] what a run keeps for its last call waits for calls under way that are in its way, is kept once, and is let be where nobody's end would help", async () => {
  const run = makeRun();
  const shared = { id: `message:${run.message}`, name: "it", cap: toCap({ tokens: 10_000 }) };
  const payments = paymentsOf({ ...folder.stores, clock: folder.clock, bus: folder.bus, failpoint: noFailpoints }, { message: shared.cap });
  const keptOf = async (): Promise<number> => (await figures(shared.id)).kept.tokens;
  const asked = { inputTokens: 9_000, inputUsd: 0, outputUsd: 0, maxOutput: 1_000 };
  await folder.stores.budgets.hold({ id: "other", levels: [shared], asked });
  const reserving = payments.reserve(run, signal);
  await folder.clock.advance(1_000);
  expect(await keptOf()).toBe(0);
  await folder.stores.budgets.settle("other", { usd: 0, tokens: 1_000 });
  await reserving;
  await payments.reserve(run, signal);
  expect(await keptOf()).toBe(200);
  await folder.stores.budgets.hold({ id: "last", levels: [shared], asked: { ...asked, inputTokens: 8_000 } });
  await folder.stores.budgets.settle("last", null);
  await payments.reserve({ ...run, id: "22222222-2222-4333-8444-555555555555" }, signal);
  expect(await keptOf()).toBe(200);
});

describe("80 %", () => {
  const said: string[] = [];
  const payingFor = (settings: Partial<BudgetSettings>): Payments => {
    said.length = 0;
    return createPayments({
      ...{ ...folder.stores, clock: folder.clock, bus: folder.bus, failpoint: noFailpoints, priceOf: () => () => null },
      settings: () => ({ ...NO_LIMITS, ...settings }),
      isReachable: ({ channel }) => channel !== "mcp",
      say: async (_tx, _to, { markdown }) => void said.push(markdown),
    });
  };
  const spend = async (payments: Payments, run: Run, tokens: number): Promise<void> => {
    const purse = (await payments.ofRun(run)) ?? expect.fail("nothing limits it");
    await permitted(await purse.open(outlay({ inputTokens: () => 10, maxOutput: 512 }), signal)).settle(used(10, tokens - 10));
  };

  it("[BG5] is told with which run and which person it is about", async () => {
    const payments = payingFor({ personPerDay: toCap({ tokens: 2_000 }) });
    const run = makeRun({ label: "survey", budget: toCap({ tokens: 2_000 }), person: { id: "7", name: "Ada" } });
    await spend(payments, run, 1_900);
    expect(said).toEqual([
      '⚠️ More than 80 % of the budget of the run "survey" is used: 1900 of 2000 tokens.',
      '⚠️ More than 80 % of the budget of "Ada" today is used: 1900 of 2000 tokens.',
    ]);
  });

  it("[BG5] passed where nobody can be told, by a program's run, is told by the next that can, once", async () => {
    const payments = payingFor({ perMonth: toCap({ tokens: 10_000 }) });
    const program = makeRun({ address: { channel: "mcp", account: "t1", chat: "ci", kind: "dm" } });
    await spend(payments, program, 8_500);
    expect(said).toEqual([]);
    for (let n = 0; n < 2; n++) await spend(payments, makeRun(), 100);
    expect(said).toEqual(["⚠️ More than 80 % of the budget of everything this month is used: 8600 of 10k tokens."]);
  });
});

it("[BG2] an answer lowered to what fits never holds more than the level has, to the last millionth", () => {
  const unused = { spent: NOTHING, held: NOTHING, kept: NOTHING };
  for (const outputUsd of [0.07, 0.28, 0.6, 1.1, 4.4, 15])
    for (let left = 512; left < 2_000; left++) {
      const asked = { inputTokens: 0, inputUsd: 4_630, outputUsd, maxOutput: 9_000 };
      const decision = decide([{ id: "day", name: "today", cap: { usd: 4_630 + left, tokens: null }, ...unused }], asked);
      if (decision.kind === "held") expect(decision.amount.usd).toBeLessThanOrEqual(4_630 + left);
    }
});

it("[BG1] levels from the run to the month; only those that limit something, days and months in UTC", () => {
  const cap = toCap({ usd: 1 });
  const settings = { ...NO_LIMITS, message: cap, chatPerDay: cap, personPerDay: cap, agentPerDay: cap, perDay: cap, perMonth: cap };
  const payer = {
    runs: [
      { id: "a", label: "inner", budget: cap },
      { id: "b", label: "outer", budget: null },
    ],
    ...{ message: "m", rootKey: "root", agentId: "main", person: { id: "7", channel: "telegram" } },
  };
  const ids = levelsOf(settings, payer, Date.UTC(2026, 10, 30, 23, 59, 59)).map(({ id }) => id);
  expect(ids).toEqual([
    ...["run:a", "message:m", "chat:root:2026-11-30", "person:telegram:7:2026-11-30", "agent:main:2026-11-30"],
    ...["day:2026-11-30", "month:2026-11"],
  ]);
  expect(levelsOf(NO_LIMITS, { ...payer, runs: [] }, 0)).toEqual([]);
});

describe("a spawn", () => {
  let stage: Stage;
  afterEach(async () => stage[Symbol.asyncDispose]());

  it("[BG4] on a limit that is used up is forbidden, naming the level; nothing is recorded", async () => {
    const clock = createManualClock();
    stage = await createStage({
      clock,
      call: async () => okReply("never"),
      idle: true,
      config: { budgets: { perDay: { tokens: 1_000 } } },
    });
    const day = levelsOf(
      { ...NO_LIMITS, perDay: toCap({ tokens: 1_000 }) },
      { runs: [], message: "", rootKey: "", person: null, agentId: "main" },
      clock.now(),
    );
    await stage.stores.budgets.hold({ id: "x", levels: day, asked: { inputTokens: 10, inputUsd: 0, outputUsd: 0, maxOutput: 900 } });
    await stage.stores.budgets.settle("x", null);
    await expect(stage.spawn({ label: "late" })).rejects.toThrow(
      "The budget of everything today is used up: 910 of 1000 tokens. Nobody is sent out on it.",
    );
    expect(await stage.stores.runs.listRecent(10)).toEqual([]);
  });

  it.each([
    ["more than the settings give", { tokens: 1_000_000 }, { usd: 500_000, tokens: 60_000 }],
    ["nothing", {}, { usd: 500_000, tokens: 60_000 }],
    ["only the other side", { usd: 0.1 }, { usd: 100_000, tokens: 60_000 }],
    ["less of both", { usd: 0.1, tokens: 9_000 }, { usd: 100_000, tokens: 9_000 }],
  ])("[BG1] whose budget names %s is under both limits: no model raises what the operator set", async (_, budget, expected) => {
    const subagents = { budget: { usd: 0.5, tokens: 60_000 } };
    stage = await createStage({ call: async () => okReply("never"), idle: true, clock: createManualClock(), subagents });
    expect((await stage.spawn({ budget })).budget).toEqual(expected);
  });

  it("[BG1] without a limit of the settings has what its budget names, and none where that names nothing", async () => {
    stage = await createStage({ call: async () => okReply("never"), idle: true, clock: createManualClock() });
    expect((await stage.spawn({ budget: { usd: 0.1 } })).budget).toEqual({ usd: 100_000, tokens: null });
    expect((await stage.spawn({ budget: {} })).budget).toBeNull();
  });
});
