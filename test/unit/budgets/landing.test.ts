// The one last call of a run whose budget is used up: it fits what is kept in any script, outlives a provider that refuses for a while,
// and is paid for also when somebody stops the run meanwhile.
import { afterEach, describe, expect, it } from "vitest";
import { NOTHING } from "../../../src/core/budget.ts";
import type { Run } from "../../../src/core/run.ts";
import type { Took } from "../../../src/core/usage.ts";
import type { ModelReply, ModelRequest } from "../../../src/models/model.ts";
import { raise } from "../../../src/subagents/raising.ts";
import { createManualClock } from "../../support/manual-clock.ts";
import { createStage, okReply, type Stage } from "../../support/stage.ts";
import { waitFor } from "../../support/wait.ts";

let stage: Stage;
afterEach(async () => stage[Symbol.asyncDispose]());

const failed = (kind: "refused" | "overload", message: string): ModelReply => ({
  ...okReply(""),
  outcome: "error",
  error: { kind, message },
});
const USED_UP = failed("refused", "The budget of this run is used up: 1 of 2 tokens.");
const LAST: Took = { usage: { input: 300, output: 50, cacheRead: 0, cacheWrite: 0 }, costUsd: null };

/** Work is refused; a last call asks its purse as the adapter does, once for each of `took`. */
function scripted(took: readonly Took[], during: () => Promise<void> = async () => {}) {
  return async (request: ModelRequest): Promise<ModelReply> => {
    if (request.tools.length > 0 || request.purse === undefined) return USED_UP;
    const inputTokens = (): number => Buffer.byteLength(JSON.stringify([request.system, request.messages]));
    for (const one of took) {
      const permit = await request.purse.open({ model: "p/m", inputTokens, costUsd: () => null, maxOutput: null }, request.signal);
      if ("refused" in permit) return failed("refused", permit.refused);
      await during();
      await permit.settle(one);
      if (one !== "nothing") return okReply("what I have");
    }
    return failed("overload", "busy");
  };
}

const ended = (run: Run): Promise<Run> =>
  waitFor("its end", async () => ((await stage.get(run.id)).endedAt === null ? null : await stage.get(run.id)));
const level = (run: Run) => stage.stores.budgets.figures(`run:${run.id}`);

describe("a last call", () => {
  it.each([
    ["in a script of three bytes a letter", "世".repeat(2_000), 8_000],
    ["of a small limit", "task ".repeat(400), 5_000],
  ])("[BG4] %s is shown as much as what was kept pays for", async (_name, task, tokens) => {
    stage = await createStage({ clock: createManualClock(), call: scripted([LAST]) });
    const run = await stage.spawn({ task, budget: { tokens } });
    expect(await ended(run)).toMatchObject({ state: "done", incomplete: true });
    expect(await level(run)).toEqual({ spent: { usd: 0, tokens: 350 }, held: NOTHING, kept: NOTHING });
  });

  it.each(["failures", "digest"])("[BG4][AP1] it is announced at once where only %s are", async (when) => {
    const announce = { when, ...(when === "digest" ? { everyMinutes: 60 } : {}) };
    const config = { agents: { list: [{ id: "main", subagents: { announce } }] } };
    stage = await createStage({ clock: createManualClock(), call: scripted([LAST]), config });
    const run = await ended(await stage.spawn({ budget: { tokens: 60_000 } }));
    expect(await stage.announced(run)).toHaveLength(1);
  });

  it("[BG4] BUD-011 refused by a busy provider, what was kept is there for the next try", async () => {
    stage = await createStage({ clock: createManualClock(), call: scripted(["nothing", "nothing", LAST]) });
    const run = await stage.spawn({ budget: { tokens: 60_000 } });
    await ended(run);
    expect(await level(run)).toEqual({ spent: { usd: 0, tokens: 350 }, held: NOTHING, kept: NOTHING });
  });

  it("[BG4] refused to the end, it costs nothing, and the run ends with what it said", async () => {
    stage = await createStage({ clock: createManualClock(), call: scripted(["nothing", "nothing", "nothing"]) });
    const run = await stage.spawn({ budget: { tokens: 60_000 } });
    expect(await ended(run)).toMatchObject({ state: "done", incomplete: true });
    expect(await level(run)).toEqual({ spent: NOTHING, held: NOTHING, kept: NOTHING });
  });

  it("[BG6] raised while it is made, the run goes on instead of ending for want of what it has by now", async () => {
    let isRaised = false;
    const { promise: spawned, resolve } = Promise.withResolvers<Run>();
    const raiseIt = async (): Promise<void> => {
      const run = await spawned;
      const { runs, db } = stage.stores;
      const wanted = { by: "Ann", amount: { usd: null, tokens: 60_000 }, generation: null };
      const { steering } = stage.parts;
      const raised = await db.transaction(steering.locks([run]), (tx) => raise({ runs, steering }, tx, run, wanted));
      isRaised = true;
      expect(raised).toMatchObject({ goesOn: false, budget: { tokens: 120_000 } });
    };
    const landing = scripted([LAST], raiseIt);
    const call = async (request: ModelRequest): Promise<ModelReply> =>
      isRaised && request.tools.length > 0 ? okReply("all of it") : landing(request);
    stage = await createStage({ clock: createManualClock(), call });
    const run = await stage.spawn({ budget: { tokens: 60_000 } });
    resolve(run);
    expect(await ended(run)).toMatchObject({ state: "done", incomplete: false, reason: null, generation: 1 });
    expect(await stage.announced(run)).toHaveLength(1);
    expect(await stage.unread(run)).toBe(0);
  });

  it("[BG4][RC1] its end is not on record behind it: taken up, the run still ends incomplete and names the limit, without an announce step", async () => {
    const clock = createManualClock();
    let tries = 0;
    const failpoint = (name: string): void => {
      if (name === "run.before-end" && ++tries === 1) throw Object.assign(new Error("no space left"), { code: "ENOSPC" });
    };
    const asked: string[] = [];
    const landing = scripted([LAST]);
    const call = async (request: ModelRequest): Promise<ModelReply> => {
      const last = request.messages.at(-1);
      asked.push(last?.role === "user" ? last.text.slice(-40) : "");
      return landing(request);
    };
    stage = await createStage({ clock, call, failpoint });
    const run = await stage.spawn({ budget: { tokens: 60_000 } });
    await waitFor("the first try", () => tries === 1);
    const before = asked.length;
    await waitFor("the second", async () => {
      await clock.advance(5_000);
      return tries === 2;
    });
    expect(await ended(run)).toMatchObject({ state: "done", incomplete: true, reason: "The budget of this run is used up: 1 of 2 tokens" });
    expect(asked.slice(before)).toEqual([]);
    expect(await stage.announced(run)).toHaveLength(1);
  });

  it("[BG3][ST2] stopped while it is made: what it took is spent all the same", async () => {
    const stop = async (): Promise<void> => {
      await stage.stores.db.transaction([], async (tx) => stage.parts.steering.stop(tx, [await stage.get(run.id)], "by the test"));
    };
    stage = await createStage({ clock: createManualClock(), call: scripted([LAST], stop) });
    const run = await stage.spawn({ budget: { tokens: 60_000 } });
    expect(await ended(run)).toMatchObject({ state: "stopped" });
    await waitFor("the settle", async () => (await level(run)).spent.tokens === 350);
    expect(await level(run)).toEqual({ spent: { usd: 0, tokens: 350 }, held: NOTHING, kept: NOTHING });
  });
});
