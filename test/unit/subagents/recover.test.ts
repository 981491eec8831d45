// Restarts on real stores: which of them are held against a run. A row as a killed process leaves it is one that was
// started and never worked on.
import { rmSync } from "node:fs";
import { afterEach, beforeEach, expect, it } from "vitest";
import { z } from "zod";
import { SUSPENDED } from "../../../src/core/run.ts";
import { defineTool } from "../../../src/core/tool.ts";
import type { ModelReply, ModelRequest } from "../../../src/models/model.ts";
import { createSpawnTool } from "../../../src/subagents/spawn-tool.ts";
import { createJudge } from "../../../src/tools/judge.ts";
import { createManualClock } from "../../support/manual-clock.ts";
import { ADDRESS } from "../../support/runs.ts";
import { createStage, makeStateDir, okReply, type Stage, type StageOptions } from "../../support/stage.ts";
import { callTool } from "../../support/tool-context.ts";
import { waitFor } from "../../support/wait.ts";

let stateDir: string;
beforeEach(() => {
  stateDir = makeStateDir();
});
afterEach(() => rmSync(stateDir, { recursive: true, force: true }));

const hangs = (request: ModelRequest): Promise<ModelReply> =>
  new Promise((resolve) => request.signal.addEventListener("abort", () => resolve({ ...okReply(""), outcome: "aborted" })));
const clock = createManualClock();
const stageOf = (options: Partial<StageOptions> = {}): Promise<Stage> =>
  createStage({ clock, call: hangs, stateDir, idle: true, subagents: { maxConcurrent: 1 }, ...options });
const atWork = (stage: Stage) =>
  waitFor("one to work", async () => (await stage.stores.runs.listUnfinished()).some((run) => run.doing === "thinking"));
/** A start and a graceful stop of the gateway; `meanwhile` sees it at work. */
async function visit(options: Partial<StageOptions>, meanwhile: (stage: Stage) => Promise<unknown>) {
  await using stage = await stageOf(options);
  await stage.parts.start();
  const recovered = await stage.parts.recover();
  stage.lane.serve(stage.parts.runner.work);
  await meanwhile(stage);
  const drained = stage.lane.drain();
  await stage.parts.runner.suspend();
  await drained;
  return recovered;
}

it("[RC2] a run that still waited for its slot after a crash is not held to have crashed again by a graceful stop", async () => {
  {
    await using stage = await stageOf();
    for (const { id } of [await stage.spawn(), await stage.spawn()]) await stage.stores.runs.start(id);
  }
  expect(await visit({}, atWork)).toEqual({ queued: 0, resumed: 2, interrupted: 0 });
  expect(await visit({}, atWork)).toEqual({ queued: 0, resumed: 2, interrupted: 0 });
  await using stage = await stageOf();
  expect((await stage.stores.runs.listUnfinished()).map(({ resumes, crashes }) => ({ resumes, crashes }))).toEqual([
    { resumes: 2, crashes: 1 },
    { resumes: 2, crashes: 1 },
  ]);
});

it("[RC2] a run that was taken up and lost its process counts, one that waited doesn't", async () => {
  {
    await using before = await stageOf();
    for (const { id } of [await before.spawn(), await before.spawn()]) await before.stores.runs.start(id);
  }
  {
    await using stage = await stageOf();
    await stage.parts.start();
    await stage.parts.recover();
    stage.lane.serve(stage.parts.runner.work);
    await atWork(stage);
    // What the kill leaves behind is what stands there now.
    const rows = await stage.stores.runs.listUnfinished();
    const drained = stage.lane.drain();
    await stage.parts.runner.suspend();
    await drained;
    for (const { id, doing } of rows) await stage.stores.runs.setDoing(id, doing);
  }
  await using stage = await stageOf();
  await stage.parts.start();
  expect(await stage.parts.recover()).toEqual({ queued: 0, resumed: 1, interrupted: 1 });
});

it("[RC2][RN4] output a tool still writes while it is put aside doesn't make the stop a crash", async () => {
  const builds = defineTool({
    name: "read",
    description: "prints until it is killed, and a little longer",
    schema: z.strictObject({}),
    capability: "read",
    run: (_args, context) =>
      new Promise((resolve) => {
        context.progress("line 1");
        context.signal.addEventListener("abort", () => {
          context.progress("line 2");
          resolve({ text: "killed" });
        });
      }),
  });
  const callsTool = async (request: ModelRequest): Promise<ModelReply> =>
    request.messages.at(-1)?.role === "tool"
      ? hangs(request)
      : { ...okReply("I build."), finish: "tool-calls", toolCalls: [{ id: "c1", name: "read", args: {} }] };
  let id = "";
  await visit({ tools: [builds], call: callsTool }, async (stage) => {
    id = (await stage.spawn()).id;
    await waitFor("its output", async () => (await stage.get(id)).doing === "read: line 1");
  });
  await using stage = await stageOf();
  expect(await stage.get(id)).toMatchObject({ state: "running", doing: SUSPENDED });
});

it("[RC2] what onRestart: interrupt ends was not resumed, and nobody is told that it was", async () => {
  {
    await using stage = await stageOf();
    await stage.stores.runs.start((await stage.spawn()).id);
  }
  await using stage = await stageOf({ subagents: { onRestart: "interrupt" } });
  await stage.parts.start();
  expect(await stage.parts.recover()).toEqual({ queued: 0, resumed: 0, interrupted: 1 });
  const [run] = await stage.stores.runs.listRecent(1);
  expect(run).toMatchObject({ state: "interrupted", resumes: 0 });
  const posted = (await stage.stores.db.all<{ part: string }>("SELECT part FROM outbox")).map((row) => row.part).join();
  expect(posted).toContain("It was interrupted (the gateway restarted)");
  expect(posted).not.toContain("resumed");
});

it("[RC2] a child whose requester is given up ends with it, and is not put aside", async () => {
  {
    await using stage = await stageOf({ subagents: { maxSpawnDepth: 2 } });
    const parent = await stage.spawn();
    const below = await stage.spawn({}, { sessionKey: parent.childKey, sessionId: parent.sessionId, runId: parent.id });
    for (const { id } of [parent, below]) await stage.stores.runs.start(id);
  }
  await using stage = await stageOf({ subagents: { onRestart: "interrupt" } });
  await stage.parts.start();
  expect(await stage.parts.recover()).toEqual({ queued: 0, resumed: 0, interrupted: 1 });
  expect((await stage.stores.runs.listRecent(5)).map(({ state, doing }) => ({ state, doing }))).toEqual([
    { state: "stopped", doing: null },
    { state: "interrupted", doing: null },
  ]);
});

it.each([
  { crashes: 4, delivery: "pending", posts: ["the gateway ended 4 times at its end"] },
  { crashes: 20, delivery: "pending", posts: ["the gateway ended 20 times at its end"] },
  { crashes: 21, delivery: "blocked", posts: [] },
])("[RC1][RC4] a run at whose end $crashes processes ended: $delivery", async ({ crashes, delivery, posts }) => {
  {
    await using stage = await stageOf();
    const { id } = await stage.spawn();
    await stage.stores.runs.start(id);
    await stage.stores.db.transaction([], (tx) => tx.run("UPDATE runs SET crashes = ? WHERE id = ?", crashes - 1, id));
    await stage.stores.runs.setDoing(id, "being ended");
  }
  await using stage = await stageOf();
  await stage.parts.start();
  expect(await stage.parts.recover()).toEqual({ queued: 0, resumed: 0, interrupted: 1 });
  expect(await stage.stores.runs.listRecent(1)).toMatchObject([{ state: "interrupted", delivery, crashes }]);
  const posted = await stage.stores.db.all<{ part: string }>("SELECT part FROM outbox WHERE delivery LIKE 'announce:%'");
  expect(posted.map((row) => row.part)).toEqual(posts.map((text) => expect.stringContaining(text)));
});

it.each([
  { cut: undefined, incomplete: false, says: "these are the sub-agent's own last words." },
  { cut: "length" as const, incomplete: true, says: "these are the sub-agent's own last words, and they were cut short." },
])("[SP9][RC1] a run at whose announcement three processes ended, its answer cut: $cut", async ({ cut, incomplete, says }) => {
  {
    await using stage = await stageOf();
    const { id, sessionId } = await stage.spawn();
    await stage.stores.runs.start(id);
    const answer = { type: "message", role: "assistant", text: "the result", model: "test/model", calls: 0 } as const;
    await stage.stores.transcripts.append({ agentId: "main", sessionId }, [{ ...answer, ...(cut === undefined ? {} : { cut }) }]);
    await stage.stores.db.transaction([], (tx) => tx.run("UPDATE runs SET crashes = 2 WHERE id = ?", id));
    await stage.stores.runs.setDoing(id, "announcing");
  }
  await using stage = await stageOf();
  await stage.parts.start();
  await stage.parts.recover();
  expect(await stage.stores.runs.listRecent(1)).toMatchObject([{ state: "done", incomplete, crashes: 3 }]);
  const [posted] = await stage.stores.db.all<{ part: string }>("SELECT part FROM outbox WHERE delivery LIKE 'announce:%'");
  expect(posted?.part).toContain("the result");
  expect(posted?.part).toContain(says);
});

it("[RC2] while it runs: what another process works on is left alone, and taken up when that one is not alive any more", async () => {
  await using stage = await stageOf({ call: async () => okReply("Result:\ndone"), idle: false });
  const { db, runs } = stage.stores;
  const [theirs, own] = [await stage.spawn(), await stage.spawn()];
  await waitFor("both to end", async () => (await runs.listUnfinished()).length === 0);
  const owned = (owner: string, id: string) =>
    db.transaction([], (tx) => tx.run("UPDATE runs SET state = 'running', ended_at = NULL, owner = ? WHERE id = ?", owner, id));
  await db.transaction([], (tx) => tx.run("INSERT INTO nodes (id, started_at) VALUES ('another', 1)"));
  await owned("another", theirs.id);
  expect(await stage.parts.recoverOrphans()).toEqual({ queued: 0, resumed: 0, interrupted: 0 });
  expect(await runs.get(theirs.id)).toMatchObject({ state: "running", crashes: 0 });
  await db.transaction([], (tx) => tx.run("DELETE FROM nodes WHERE id = 'another'"));
  // Two that look at the same moment: one of them takes it up.
  const both = await Promise.all([stage.parts.recoverOrphans(), stage.parts.recoverOrphans()]);
  expect(both.map(({ resumed }) => resumed).sort()).toEqual([0, 1]);
  await waitFor("it to end", async () => (await runs.get(theirs.id))?.state === "done");
  expect(await runs.get(theirs.id)).toMatchObject({ crashes: 1, resumes: 1 });
  expect(await runs.get(own.id)).toMatchObject({ crashes: 0, resumes: 0 });
});

it("[ST2] a run that another process ended makes no further model call, and says nothing", async () => {
  const looks = defineTool({
    name: "read",
    description: "x",
    schema: z.strictObject({}),
    capability: "read",
    run: async () => ({ text: "seen" }),
  });
  const door = Promise.withResolvers<void>();
  let calls = 0;
  const call = async (): Promise<ModelReply> => {
    if (++calls > 1) return okReply("never");
    await door.promise;
    return { ...okReply(""), finish: "tool-calls", toolCalls: [{ id: "1", name: "read", args: {} }] };
  };
  await using stage = await stageOf({ call, tools: [looks], idle: false });
  const run = await stage.spawn();
  await waitFor("it to ask", () => calls === 1);
  const sql = "UPDATE runs SET state = 'stopped', ended_at = 1, owner = NULL WHERE id = ?";
  await stage.stores.db.transaction([], (tx) => tx.run(sql, run.id));
  door.resolve();
  await waitFor("its slot to be free", async () => (await stage.lane.depth()).running === 0);
  expect([calls, await stage.announced(run)]).toEqual([1, []]);
});

it("[SP2] a spawn whose result was never recorded is found again by the next generation of its requester, not made a second time", async () => {
  await using stage = await stageOf();
  const tool = createSpawnTool({ spawn: stage.parts.spawn, toolNames: async () => [], judge: createJudge() });
  const context = { sessionId: "00000000-0000-4000-8000-000000000000", callId: "call-entry", address: ADDRESS };
  const answers = [];
  for (const turnId of ["run:a:1", "run:a:2"]) answers.push(await callTool(tool, { task: "do it" }, { ...context, turnId }));
  const [first, second] = answers.map(({ text }) => (JSON.parse(text) as { runId: string }).runId);
  expect(second).toBe(first);
  expect(await callTool(tool, { task: "do it" }, { ...context, callId: "another", turnId: "run:a:2" })).not.toMatchObject({
    text: expect.stringContaining(first ?? "none"),
  });
});
