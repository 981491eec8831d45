// Holds, reserves and raises, whatever database stands behind them: figures are numbers, each amount counts once, and of two who ask in the
// same moment no two get the same rest. stores.test.ts and writers.test.ts run it.
import { AsyncResource } from "node:async_hooks";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type Amount, type Asked, type Level, NOTHING, toCap } from "../../src/core/budget.ts";
import { noFailpoints } from "../../src/core/failpoints.ts";
import { createBudgets } from "../../src/stores/budgets.ts";
import { lock } from "../../src/stores/lock-keys.ts";
import { type Raised, type RaiseRequest, raise, readAmount } from "../../src/subagents/raising.ts";
import { createManualClock } from "../support/manual-clock.ts";
import { CHAT_KEY, newRun } from "../support/runs.ts";
import { okReply, type Stage, type StageOptions } from "../support/stage.ts";
import { waitFor } from "../support/wait.ts";
import type { StoreRig } from "./stores.contract.ts";

const level = (id: string, tokens: number): Level => ({ id, name: id, cap: toCap({ tokens, usd: 100 }) });
const asked = (tokens: number): Asked => ({ inputTokens: 100, inputUsd: 1_000_000, outputUsd: 0.5, maxOutput: tokens - 100 });
const amount = (tokens: number): Amount => ({ usd: 7, tokens });

export function budgetContract(name: string, makeRig: () => Promise<StoreRig>): void {
  describe(`budgets (${name})`, () => {
    let rig: StoreRig;
    beforeEach(async () => {
      rig = await makeRig();
    });
    afterEach(() => rig[Symbol.asyncDispose]());
    holdContract(() => rig);
  });
}

function holdContract(rig: () => StoreRig): void {
  const reserve = (id: string, levels: readonly Level[], what: Amount) => {
    const { db, budgets } = rig().stores;
    return db.transaction(budgets.locksOf(levels), (tx) => budgets.reserve(tx, id, levels, what));
  };
  const figures = (id: string) => rig().stores.budgets.figures(id);

  it("[BG2] figures are numbers; a settle counts once, at every level, and also behind a restart", async () => {
    const levels = [level("run:r", 50_000), level("day:d", 9_000_000_000_000)];
    expect(await rig().stores.budgets.hold({ id: "a", levels, asked: asked(1_100) })).toMatchObject({ kind: "held", maxOutput: 1_000 });
    expect(await figures("run:r")).toEqual({ spent: NOTHING, held: { usd: 1_000_500, tokens: 1_100 }, kept: NOTHING });
    const big = { usd: 3_000_000_000, tokens: 5_000_000_000 };
    expect(await rig().stores.budgets.settle("a", big)).toBe(true);
    expect(await rig().stores.budgets.settle("a", big)).toBe(false);
    await rig().reopen();
    for (const { id } of levels) expect(await figures(id)).toEqual({ spent: big, held: NOTHING, kept: NOTHING });
  });

  it("[BG2][BG3] of twenty who ask at once so many get it as fit, and nobody passes the level", async () => {
    const shared = level("message:m", 3_500);
    const decisions = await Promise.all(
      Array.from({ length: 20 }, (_, n) =>
        rig().stores.budgets.hold({ id: `h${n}`, levels: [level(`run:${n}`, 9_000), shared], asked: asked(1_000) }),
      ),
    );
    const { held } = await figures("message:m");
    expect(held.tokens).toBeLessThanOrEqual(3_500);
    expect(decisions.filter(({ kind }) => kind === "held").length).toBeGreaterThanOrEqual(3);
    expect(decisions.filter(({ kind }) => kind === "over")).toEqual([]);
    await Promise.all(decisions.map((_, n) => rig().stores.budgets.settle(`h${n}`, amount(10))));
    expect(await figures("message:m")).toMatchObject({ held: NOTHING });
  });

  it("[BG4] a reserve is drawn once, kept again when nothing came of it, and not freed under a call that it pays for", async () => {
    const levels = [level("run:r", 9_000)];
    const { db, budgets } = rig().stores;
    expect(await reserve("landing:r:1", levels, amount(500))).toBe("kept");
    expect(await Promise.all([budgets.draw("landing:r:1"), budgets.draw("landing:r:1")])).toEqual(expect.arrayContaining([true, false]));
    expect(await figures("run:r")).toEqual({ spent: NOTHING, held: amount(500), kept: NOTHING });
    await budgets.putBack("landing:r:1");
    expect(await figures("run:r")).toEqual({ spent: NOTHING, held: NOTHING, kept: amount(500) });
    await budgets.draw("landing:r:1");
    // Stopped while it was made.
    await db.transaction([], (tx) => budgets.release(tx, "landing:r:1"));
    expect(await budgets.settle("landing:r:1", amount(120))).toBe(true);
    expect(await figures("run:r")).toEqual({ spent: amount(120), held: NOTHING, kept: NOTHING });
  });

  it("[BG3] who ends two runs in one transaction and a call of the second that settles meanwhile never wait for each other", async () => {
    const { db } = rig().stores;
    // Made outside of the transaction: what is called in its work is part of it.
    const elsewhere = new AsyncResource("settle");
    let works = 0;
    const counting: typeof db = {
      ...db,
      transaction: (keys, work, how) =>
        db.transaction(
          keys,
          (tx) => {
            works++;
            return work(tx);
          },
          how,
        ),
    };
    const budgets = createBudgets({ db: counting, clock: rig().clock, bootId: "boot", failpoint: noFailpoints });
    const message = level("message:m", 90_000);
    for (const run of ["a", "b"]) await reserve(`landing:${run}:1`, [level(`run:${run}`, 9_000), message], amount(100));
    await budgets.hold({ id: "call", levels: [level("run:b", 9_000), message], asked: asked(1_000) });
    works = 0;
    let settled: Promise<boolean> | null = null;
    await counting.transaction([], async (tx) => {
      await budgets.release(tx, "landing:a:1");
      settled ??= elsewhere.runInAsyncScope(() => budgets.settle("call", amount(5)));
      await new Promise((resolve) => setTimeout(resolve, 100));
      await budgets.release(tx, "landing:b:1");
    });
    expect(await settled).toBe(true);
    expect(works, "one of them was begun again").toBe(2);
    expect(await figures("message:m")).toEqual({ spent: amount(5), held: NOTHING, kept: NOTHING });
  });

  it("[BG3] what a dead process held is spent; what a run keeps is freed when that generation is over, whichever way", async () => {
    const day = level("day:d", 100_000);
    const { db, runs } = rig().stores;
    const [at, over] = [newRun("at"), newRun("over")];
    for (const run of [at, over]) await db.transaction([], (tx) => runs.insert(tx, run, { firstMessage: "task" }));
    const id = (run: { id: string }, generation = 1): string => `landing:${run.id}:${generation}`;
    for (const one of [id(at), id(at, 7), id(over), id({ id: "purged" })]) await reserve(one, [day], amount(100));
    await db.transaction([], (tx) => runs.end(tx, over.id, { as: "stopped", reason: null, incomplete: false, delivery: "none" }));
    await reserve("landing:drawn:1", [day], amount(40));
    await rig().stores.budgets.draw("landing:drawn:1");
    await rig().stores.budgets.hold({ id: "call", levels: [day], asked: asked(1_000) });
    const { budgets, nodes } = await rig().reopen();
    await nodes.enter();
    expect(await budgets.recover()).toBe(2);
    expect(await budgets.recover()).toBe(0);
    expect(await budgets.figures("day:d")).toMatchObject({ spent: { tokens: 1_040 }, held: NOTHING, kept: { tokens: 100 } });
    expect(await budgets.reserved(id(at))).toEqual(amount(100));
  });

  it("[BG3] purge forgets levels that are over, but none with a hold and none of a run on record", async () => {
    const { db, runs, budgets } = rig().stores;
    const run = newRun("kept");
    await db.transaction([], (tx) => runs.insert(tx, run, { firstMessage: "task" }));
    const ids = [`run:${run.id}`, "run:gone", "message:m", "day:held"];
    for (const id of ids) await budgets.hold({ id, levels: [level(id, 9_000)], asked: asked(1_000) });
    for (const id of ids.slice(0, 3)) await budgets.settle(id, null);
    await rig().clock.advance(1_000);
    expect(await budgets.purge(rig().clock.now())).toBe(2);
    expect((await db.all<{ id: string }>("SELECT id FROM budget_levels ORDER BY id")).map(({ id }) => id)).toEqual(["day:held", ids[0]]);
  });
}

export function raiseWriters(makeStage: (options: StageOptions) => Promise<Stage>): void {
  describe("raising", () => {
    let stage: Stage;
    beforeEach(async () => {
      stage = await makeStage({
        clock: createManualClock(),
        call: async (request) => {
          const error = { kind: "refused", message: "The budget of this run is used up: 900 of 1000 tokens." } as const;
          return request.tools.length > 0 ? { ...okReply(""), outcome: "error", error } : okReply("so far");
        },
        subagents: { maxChildrenPerSession: 2 },
      });
    });
    afterEach(async () => stage[Symbol.asyncDispose]());

    const press = (id: string, by: string, more: Partial<RaiseRequest> = {}): Promise<Raised> =>
      stage.stores.db.transaction([lock.tree(CHAT_KEY)], async (tx) =>
        raise({ runs: stage.stores.runs, steering: stage.parts.steering }, tx, await stage.get(id), {
          ...{ by, amount: "x2", generation: 1, ...more },
        }),
      );
    const ended = (id: string, generation: number) =>
      waitFor("its end", async () => {
        const run = await stage.get(id);
        return run.generation === generation && run.endedAt !== null ? run : null;
      });

    it("[BG6] BUD-009 pressed by two in the same moment, and again: raised once, one next generation, the others read by whom", async () => {
      const { id } = await stage.spawn({ budget: { tokens: 1_000 } });
      const first = await ended(id, 1);
      expect(first).toMatchObject({ state: "done", incomplete: true });
      const answers = await Promise.all([press(id, "Ann"), press(id, "Ben")]);
      const [winner, loser] = "refused" in (answers[0] ?? {}) ? ["Ben", answers[0]] : ["Ann", answers[1]];
      expect(loser).toEqual({ refused: `Already raised by ${winner}.` });
      expect(answers.filter((answer) => "goesOn" in answer)).toMatchObject([{ goesOn: true, budget: { tokens: 2_000 } }]);
      expect(await press(id, "Cem")).toEqual({ refused: `Already raised by ${winner}.` });
      const second = await ended(id, 2);
      expect(second.budget).toMatchObject({ tokens: 2_000 });
      expect(await press(id, "Cem")).toEqual({ refused: `Already raised by ${winner}.` });
      expect(await stage.announced(second)).toHaveLength(2);
    });

    it("[BG6] what can't go on is not raised either, however often it is pressed", async () => {
      const { id } = await stage.spawn({ budget: { tokens: 1_000 } });
      await ended(id, 1);
      stage.reconfigure({ maxChildrenPerSession: 1, maxConcurrent: 1 });
      // Unfinished for as long as it takes: it waits for what doesn't come.
      const waits = { waits: [{ for: "after", ids: ["what never ends"] }], doing: "waiting" } as const;
      await stage.stores.db.transaction([], (tx) => stage.stores.runs.insert(tx, newRun("in-the-way"), { firstMessage: "task", waits }));
      for (let n = 0; n < 2; n++) expect(await press(id, "Ann")).toEqual({ refused: expect.stringContaining("maxChildrenPerSession") });
      expect((await stage.get(id)).budget).toEqual({ usd: null, tokens: 1_000 });
    });

    it("[BG6] raised in what its limit is not in, it is told how that is written", async () => {
      const typed = (text: string): Pick<RaiseRequest, "amount" | "generation"> => ({ amount: readAmount(text) ?? "x2", generation: null });
      const { id } = await stage.spawn({ budget: { usd: 1 } });
      await ended(id, 1);
      expect(await press(id, "Ann", typed("+100"))).toEqual({ refused: "Its limit is in USD: write `+0.50` or `+$100`." });
      expect(await press(id, "Ann", typed("+$100"))).toMatchObject({ budget: { usd: 101_000_000, tokens: null } });
      const other = await stage.spawn({ budget: { tokens: 1_000 } });
      await ended(other.id, 1);
      expect(await press(other.id, "Ann", typed("+5"))).toEqual({ refused: "Its limit is in tokens: write `+20k` or `+500`." });
    });

    it("[BG6] by its button both sides are raised: it may be either that was used up", async () => {
      const { id } = await stage.spawn({ budget: { tokens: 1_000, usd: 0.0004 } });
      await ended(id, 1);
      expect(await press(id, "Ann")).toMatchObject({ budget: { tokens: 2_000, usd: 800 }, goesOn: true });
      await ended(id, 2);
    });
  });
}
