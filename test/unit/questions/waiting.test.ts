// A question over time: a weekend, another process, a clock that is set, an orderly shutdown in the moment the answer is there. Real
// stores, lane, runner and tool; the model and the clock are the test's.
import { rmSync } from "node:fs";
import { afterEach, beforeEach, expect, it } from "vitest";
import { isUnfinished, type Run } from "../../../src/core/run.ts";
import type { ModelReply, ModelRequest } from "../../../src/models/model.ts";
import { createReplies } from "../../../src/questions/replies.ts";
import { lock } from "../../../src/stores/lock-keys.ts";
import { createManualClock, type ManualClock } from "../../support/manual-clock.ts";
import { createStage, makeStateDir, okReply, type Stage } from "../../support/stage.ts";
import { waitFor } from "../../support/wait.ts";

const HOUR = 3_600_000;

let stateDir: string;
let clock: ManualClock;
beforeEach(() => {
  stateDir = makeStateDir();
  // A Friday evening.
  clock = createManualClock(Date.UTC(2026, 0, 2, 18));
});
afterEach(() => rmSync(stateDir, { recursive: true, force: true }));

/** Asks as its task says (JSON), then says what it read. */
function call({ messages }: ModelRequest): Promise<ModelReply> {
  const results = messages.filter(({ role }) => role === "tool");
  if (messages.at(-1)?.text.startsWith("Your work is over."))
    return Promise.resolve(okReply(`Result:\n${results.map(({ text }) => text).join()}`));
  if (results.length > 0) return Promise.resolve(okReply("done"));
  const args = JSON.parse(/\{.*\}/.exec(messages[0]?.text ?? "")?.[0] ?? "{}");
  return Promise.resolve({ ...okReply(""), finish: "tool-calls", toolCalls: [{ id: "q", name: "ask", args }] });
}

const open = (more: { idle?: boolean } = {}): Promise<Stage> =>
  createStage({ ...more, clock, call, stateDir, subagents: { maxConcurrent: 1, maxChildrenPerSession: 100, archiveAfterMinutes: 0 } });
const spawnAsker = (stage: Stage, timeoutSeconds: number, runTimeoutSeconds = 60): Promise<Run> =>
  stage.spawn({ task: JSON.stringify({ question: "Which?", timeoutSeconds }), runTimeoutSeconds }, { tools: ["ask"] });
const waiting = (stage: Stage, { id }: Run) => waitFor("it to wait", async () => (await stage.get(id)).state === "waiting");
const ended = (stage: Stage, { id }: Run) =>
  waitFor("its end", async () => (isUnfinished((await stage.get(id)).state) ? null : await stage.get(id)));
const questionOf = async ({ stores }: Stage, { id }: Run) => {
  const row = await stores.db.get<{ id: string }>("SELECT id FROM questions WHERE run_id = ?", id);
  return stores.questions.get(row?.id ?? "");
};
async function answer({ stores }: Stage, run: Run, words: string): Promise<string> {
  const replies = createReplies({ ...stores, clock, isTurnOpen: async () => false });
  const question = await stores.db.get<{ id: string }>("SELECT id FROM questions WHERE run_id = ?", run.id);
  return stores.db.transaction([lock.tree(run.rootKey)], (tx) => replies.settle(tx, question?.id ?? "", { id: "1", name: "Ann" }, words));
}
const resultsOf = async ({ stores }: Stage, { agentId, sessionId }: Run): Promise<string[]> =>
  (await stores.transcripts.tail({ agentId, sessionId }, 100)).flatMap((entry) => (entry.type === "tool_result" ? [entry.text] : []));

it("[QA2] open over a weekend and two restarts: answered on Monday it goes on, with all of its time", async () => {
  let run: Run;
  {
    await using friday = await open();
    run = await spawnAsker(friday, 5 * 24 * 3_600);
    await waiting(friday, run);
  }
  await clock.leap(30 * HOUR);
  {
    await using saturday = await open({ idle: true });
    await saturday.parts.recover();
    expect(await saturday.get(run.id)).toMatchObject({ state: "waiting" });
  }
  await clock.leap(33 * HOUR);
  await using monday = await open({ idle: true });
  await monday.parts.recover();
  monday.lane.serve(monday.parts.runner.work);
  monday.parts.waker.start();
  expect(await answer(monday, run, "the blue one")).toMatch(/^📨/);
  expect(await ended(monday, run)).toMatchObject({ state: "done" });
  expect(await resultsOf(monday, run)).toEqual([expect.stringContaining("\nthe blue one\n")]);
  await monday.lane.drain();
});

it("[QA3] ASK-007 nobody answers while the gateway is down for two days: one result that says so, and the waiting costs it no time", async () => {
  let run: Run;
  {
    await using before = await open();
    run = await spawnAsker(before, 24 * 3_600);
    await waiting(before, run);
  }
  await clock.leap(48 * HOUR);
  await using after = await open({ idle: true });
  await after.parts.recover();
  after.lane.serve(after.parts.runner.work);
  expect(await ended(after, run)).toMatchObject({ state: "done" });
  expect(await resultsOf(after, run)).toEqual([expect.stringMatching(/^Nobody answered in time/)]);
  expect(await questionOf(after, run)).toMatchObject({ state: "expired", answer: null });
  expect(await answer(after, run, "too late")).toBe("This question is closed: nobody had answered in time.");
  expect(await questionOf(after, run)).toMatchObject({ late: [expect.stringContaining("Ann: too late")] });
  await after.lane.drain();
});

it("[QA2] a call that lost its process before it could ask gives people their whole time, whenever it comes to ask", async () => {
  await using stage = await open({ idle: true });
  const run = await spawnAsker(stage, 3_600, 0);
  const ref = { agentId: run.agentId, sessionId: run.sessionId };
  // As a process left it that was killed right before the question.
  await stage.stores.runs.start(run.id);
  await stage.stores.transcripts.ensure({ ...ref, runId: run.id, archiveName: null });
  await stage.stores.transcripts.append(ref, [
    { type: "message", role: "assistant", text: "", model: "scripted/model-1", usage: null, calls: 1 },
    { type: "tool_call", id: "entry-1", callId: "q", name: "ask", args: { question: "Which?", timeoutSeconds: 3_600 } },
  ]);
  await clock.leap(48 * HOUR);
  stage.lane.serve(stage.parts.runner.work);
  stage.lane.ring(run.id, run.requesterKey);
  await waiting(stage, run);
  expect(await questionOf(stage, run)).toMatchObject({ state: "open", expiresAt: clock.now() + HOUR });
  await stage.lane.drain();
});

it.each([
  ["back", -72 * HOUR],
  ["ahead, but not past its time", 12 * HOUR],
])("[QA2] a clock that is set %s neither closes what is asked nor keeps the answer from it", async (_how, ms) => {
  await using stage = await open();
  const run = await spawnAsker(stage, 24 * 3_600);
  await waiting(stage, run);
  clock.set(clock.now() + ms);
  await clock.advance(2 * 60_000);
  expect(await questionOf(stage, run)).toMatchObject({ state: "open" });
  await answer(stage, run, "in time");
  expect(await ended(stage, run)).toMatchObject({ state: "done" });
  expect(await resultsOf(stage, run)).toEqual([expect.stringContaining("\nin time\n")]);
});

it("[QA3] a run that is silent, and what it sends out, asks nobody: it is told so at once", async () => {
  await using stage = await createStage({
    clock,
    call,
    stateDir,
    config: { agents: { list: [{ id: "main", subagents: { announce: "silent" } }] } },
  });
  const run = await spawnAsker(stage, 60);
  await ended(stage, run);
  expect(await resultsOf(stage, run)).toEqual([expect.stringMatching(/^Nobody can be asked: this run works silently/)]);
  expect(await questionOf(stage, run)).toBeNull();
});
