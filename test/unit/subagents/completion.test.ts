// A child's word held against its checks on real stores: limits, stops, messages and crashes that come in between.
import { rmSync } from "node:fs";
import { afterEach, beforeEach, expect, it } from "vitest";
import { systemClock } from "../../../src/core/clock.ts";
import type { Run } from "../../../src/core/run.ts";
import type { ModelReply } from "../../../src/models/model.ts";
import { transcriptOfRun } from "../../../src/subagents/deps.ts";
import { createManualClock } from "../../support/manual-clock.ts";
import { createStage, makeStateDir, okReply, type Stage } from "../../support/stage.ts";
import { waitFor } from "../../support/wait.ts";

let stateDir: string;
beforeEach(() => {
  stateDir = makeStateDir();
});
afterEach(() => rmSync(stateDir, { recursive: true, force: true }));

const ended = (stage: Stage, { id }: Run): Promise<Run> =>
  waitFor("its end", async () => {
    const run = await stage.get(id);
    return run.endedAt === null ? null : run;
  });
const posted = async (stage: Stage): Promise<string> =>
  (await stage.stores.db.all<{ part: string }>("SELECT part FROM outbox WHERE delivery LIKE 'announce:%'")).map(({ part }) => part).join();
const ENDLESS = { result: { matches: "^(a+)+$" } };
const TOTAL = { type: "object", properties: { total: { type: "number" } }, required: ["total"] };
const finish = (total: number): ModelReply => ({
  ...okReply(""),
  finish: "tool-calls",
  toolCalls: [{ id: `c${total}`, name: "finish", args: { data: { total } } }],
});
const checking = (stage: Stage, { id }: Run) => waitFor("its check", async () => (await stage.get(id)).doing === "checking 1 of 1");

it.each([
  { params: {}, state: "done" },
  { params: { checks: [{ exists: "." }] }, state: "interrupted" },
  { params: { resultSchema: TOTAL }, state: "interrupted" },
])("[EV2][TR1] given up at its end after three crashes, $params is $state: its word alone makes no success", async ({ params, state }) => {
  {
    await using stage = await createStage({ clock: createManualClock(), call: async () => okReply("never"), stateDir, idle: true });
    const run = await stage.spawn(params);
    await stage.stores.runs.start(run.id);
    await stage.stores.transcripts.ensure(transcriptOfRun(run));
    const word = { type: "message", role: "assistant", text: "my word", model: "m", usage: null, calls: 0 } as const;
    await stage.stores.transcripts.append(transcriptOfRun(run), [word]);
    await stage.stores.db.transaction([], (tx) => tx.run("UPDATE runs SET crashes = 2, doing = 'checking 1 of 1' WHERE id = ?", run.id));
  }
  await using stage = await createStage({ clock: createManualClock(), call: async () => okReply("never"), stateDir, idle: true });
  await stage.parts.start();
  expect(await stage.parts.recover()).toMatchObject({ interrupted: 1 });
  expect(await stage.stores.runs.listRecent(1)).toMatchObject([{ state }]);
  expect(await posted(stage)).toContain("my word");
});

it("[EV2][SP8] its time runs out while it is checked: timeout, and nobody says that all passed", async () => {
  const clock = createManualClock();
  await using stage = await createStage({ clock, call: async () => okReply(`${"a".repeat(60)}!`), stateDir });
  const run = await stage.spawn({ checks: [ENDLESS], runTimeoutSeconds: 5 });
  await checking(stage, run);
  await clock.advance(6_000);
  expect(await ended(stage, run)).toMatchObject({ state: "timeout", reason: "runTimeoutSeconds 5s", checks: null, checkRounds: 0 });
  expect(await posted(stage)).toContain("Checks: not run");
});

it("[EV2][ST2] stopped while it is checked: nothing goes back to it and nothing is announced", async () => {
  await using stage = await createStage({ clock: systemClock, call: async () => okReply(`${"a".repeat(60)}!`), stateDir });
  const run = await stage.spawn({ checks: [ENDLESS] });
  await checking(stage, run);
  const { steering } = stage.parts;
  await stage.stores.db.transaction(steering.locks([run]), (tx) => steering.stop(tx, [run], "by a test"));
  await waitFor("its slot to be free", async () => (await stage.lane.depth()).running === 0);
  expect(await stage.get(run.id)).toMatchObject({ state: "stopped", checkRounds: 0 });
  expect([await stage.unread(run), await stage.announced(run)]).toEqual([0, []]);
});

it("[EV2][SP10] a round is no new work: time and steps go on counting", async () => {
  const clock = createManualClock();
  const stepsSeen: number[] = [];
  let id = "";
  const call = async (): Promise<ModelReply> => {
    stepsSeen.push((await stage.stores.runs.get(id))?.steps ?? 0);
    if (stepsSeen.length === 1) await clock.advance(3_000);
    return okReply("done");
  };
  await using stage = await createStage({ clock, call, stateDir, idle: true });
  const run = await stage.spawn({ checks: [{ exists: "nowhere" }], runTimeoutSeconds: 100 });
  id = run.id;
  stage.lane.serve(stage.parts.runner.work);
  stage.lane.ring(run.id, run.requesterKey);
  const end = await ended(stage, run);
  expect(stepsSeen).toEqual([1, 2, 3]);
  expect(end).toMatchObject({ state: "error", checkRounds: 2, deadlineAt: (end.startedAt ?? 0) + 100_000 });
  await stage.lane.drain();
});

it("[TR1][CM7] a message that comes before its end is read first, and the data is asked for anew", async () => {
  let calls = 0;
  let sent = false;
  let run: Run | null = null;
  const seen: string[] = [];
  await using stage: Stage = await createStage({
    clock: systemClock,
    stateDir,
    call: async ({ messages }) => {
      seen.push(messages.at(-1)?.text ?? "");
      return finish(++calls);
    },
    failpoint: (name) => {
      if (name !== "run.announced" || sent || run === null) return;
      sent = true;
      const { steering } = stage.parts;
      const wanted = run;
      void stage.stores.db.transaction(steering.locks([wanted]), (tx) => steering.send(tx, wanted, "a person", "count again"));
    },
  });
  run = await stage.spawn({ resultSchema: TOTAL });
  expect(await ended(stage, run)).toMatchObject({ state: "done", data: '{"total":2}' });
  expect(seen.at(-1)).toBe("count again");
  expect(await stage.announced(run)).toHaveLength(1);
});

it("[TR1] its budget or steps used up before it finished: error with both reasons", async () => {
  await using stage = await createStage({ clock: systemClock, call: async () => finish(1), stateDir });
  const run = await stage.spawn({ resultSchema: { ...TOTAL, properties: { total: { type: "string" } } }, maxIterations: 1 });
  expect(await ended(stage, run)).toMatchObject({
    state: "error",
    reason: expect.stringMatching(
      /^it reached its limit of 1 steps; its result did not fit resultSchema, 1 try: 1\) data\/total must be string$/,
    ),
  });
});
