// Waiting is a row: a parent that waits for its children holds no slot, no promise and no time of its limit; whoever ends
// rings it, and it goes on from its transcript, also in another process.
import { rmSync } from "node:fs";
import { afterEach, beforeEach, expect, it } from "vitest";
import { isUnfinished, type Run } from "../../../src/core/run.ts";
import type { ModelReply, ModelRequest, ToolCall } from "../../../src/models/model.ts";
import { createManualClock, type ManualClock } from "../../support/manual-clock.ts";
import { createStage, makeStateDir, okReply, type Stage } from "../../support/stage.ts";
import { allOf, waitFor } from "../../support/wait.ts";

const MINUTE = 60_000;

let stateDir: string;
let clock: ManualClock;
/** Children answer once their door is open. */
let door: PromiseWithResolvers<void>;
beforeEach(() => {
  stateDir = makeStateDir();
  clock = createManualClock();
  door = Promise.withResolvers();
});
afterEach(() => rmSync(stateDir, { recursive: true, force: true }));

const calling = (...toolCalls: ToolCall[]): ModelReply => ({ ...okReply(""), finish: "tool-calls", toolCalls });
const aborted = (request: ModelRequest): Promise<ModelReply> =>
  new Promise((resolve) => request.signal.addEventListener("abort", () => resolve({ ...okReply(""), outcome: "aborted" })));

/** `parent`: sends two out, then says so, or waits for them with the tool. Everything else is a child behind the door. */
async function call(request: ModelRequest): Promise<ModelReply> {
  const texts = request.messages.map((message) => message.text);
  if (texts.at(-1)?.startsWith("Your work is over.")) return okReply("Result:\nreported");
  const [kind] = /parent(?:-waits)?/.exec(texts[0] ?? "") ?? [];
  if (kind === undefined) {
    await Promise.race([door.promise, aborted(request)]);
    return okReply("a child's answer");
  }
  const results = request.messages.filter((message) => message.role === "tool");
  if (results.length === 0) return calling(...["a", "b"].map((id) => ({ id, name: "sessions_spawn", args: { task: `child ${id}` } })));
  const ids = results.slice(0, 2).map(({ text }) => /"runId":"([^"]+)"/.exec(text)?.[1] ?? "");
  if (kind === "parent-waits" && results.length === 2)
    return calling({ id: "w", name: "subagents", args: { action: "wait", ids, timeoutSeconds: 600 } });
  return okReply(texts.some((text) => /a child's answer|reported/.test(text)) ? "all reported" : "sent out");
}

const open = (more: { maxConcurrent?: number; idle?: boolean } = {}): Promise<Stage> =>
  createStage({
    ...{ clock, call, stateDir, idle: more.idle === true },
    subagents: { maxConcurrent: more.maxConcurrent ?? 1, maxSpawnDepth: 2, maxChildrenPerSession: 1_000, archiveAfterMinutes: 0 },
  });

const spawnParent = (stage: Stage, kind = "parent", more: object = {}): Promise<Run> =>
  stage.spawn({ task: kind, ...more }, { tools: ["read", "sessions_spawn", "subagents"] });
const waiting = (stage: Stage, run: Run) => waitFor("it to wait", async () => (await stage.get(run.id)).state === "waiting");
const ended = (stage: Stage, run: Run) =>
  waitFor("its end", async () => (isUnfinished((await stage.get(run.id)).state) ? null : await stage.get(run.id)));

it.each(["parent", "parent-waits"])(
  "[SP5][LN2] a %s of two at maxConcurrent 1 waits as a row while they work, and goes on",
  async (kind) => {
    await using stage = await open();
    const run = await spawnParent(stage, kind);
    await waiting(stage, run);
    expect(await stage.get(run.id)).toMatchObject({ doing: "waiting for 2 sub-agents", steps: 2 });
    await waitFor("a child at work", async () => (await stage.stores.runs.childrenOf(run.id)).some((child) => child.state === "running"));
    expect(await stage.stores.runs.countUnfinishedByState()).toEqual({ queued: 1, running: 1, waiting: 1 });
    door.resolve();
    expect(await ended(stage, run)).toMatchObject({ state: "done", waits: [] });
    expect(await stage.stores.transcripts.tail({ agentId: "main", sessionId: run.sessionId }, 50)).toContainEqual(
      expect.objectContaining({ type: "message", role: "assistant", text: "all reported" }),
    );
  },
);

it("[SP10] the time a run waits is none of its own", async () => {
  await using stage = await open();
  const run = await spawnParent(stage, "parent", { runTimeoutSeconds: 60 });
  await waiting(stage, run);
  const before = (await stage.get(run.id)).deadlineAt;
  await clock.advance(10 * MINUTE);
  door.resolve();
  expect(await ended(stage, run)).toMatchObject({ state: "done", deadlineAt: (before ?? 0) + 10 * MINUTE });
});

it.each(["parent", "parent-waits"])(
  "[RC1][RC2] a %s that waits when its process dies goes on in the next one, and ends once",
  async (kind) => {
    const first = await open();
    const run = await spawnParent(first, kind);
    await waiting(first, run);
    // Nothing of it is in memory: what the process would do at its end changes nothing for a run that waits.
    await first[Symbol.asyncDispose]();
    expect(await first.lane.depth()).toEqual({ waiting: 0, running: 0 });
    door.resolve();
    await using second = await open({ idle: true });
    expect(await second.get(run.id)).toMatchObject({ state: "waiting", crashes: 0, resumes: 0 });
    await second.parts.start();
    await second.parts.recover();
    second.lane.serve(second.parts.runner.work);
    expect(await ended(second, run)).toMatchObject({ state: "done", crashes: 0, resumes: 1 });
    expect(await second.announced(run)).toHaveLength(1);
    await second.lane.drain();
  },
);

it("[ST1] one that waits is stopped with those it waits for, and none of them goes on", async () => {
  await using stage = await open();
  const run = await spawnParent(stage);
  await waiting(stage, run);
  await stage.stores.db.transaction([], async (tx) => stage.parts.steering.stop(tx, [await stage.get(run.id)], "by the test"));
  door.resolve();
  const all = [run, ...(await stage.stores.runs.childrenOf(run.id))];
  expect(await Promise.all(all.map(async ({ id }) => (await stage.get(id)).state))).toEqual(["stopped", "stopped", "stopped"]);
  expect((await stage.get(run.id)).waits).toEqual([]);
});

it("[TL8] a wait for runs ends when its time is over, and says that it is not complete", async () => {
  await using stage = await open({ maxConcurrent: 3 });
  const run = await spawnParent(stage, "parent-waits");
  await waiting(stage, run);
  await clock.advance(9 * MINUTE);
  expect((await stage.get(run.id)).state).toBe("waiting");
  await clock.advance(MINUTE + 1_000);
  // It says so, and then waits for its children as every parent does.
  await waitFor("it to wait for its children", async () => (await stage.get(run.id)).waits.some((wait) => wait.for === "children"));
  const results = (await stage.stores.transcripts.tail({ agentId: "main", sessionId: run.sessionId }, 50)).filter(
    (one) => one.type === "tool_result",
  );
  expect(results.at(-1)).toMatchObject({ name: "subagents", text: expect.stringContaining('"complete":false') });
  door.resolve();
  expect((await ended(stage, run)).state).toBe("done");
});

it("[SP5] a message wakes one that waits for its children, and it waits again", async () => {
  await using stage = await open({ maxConcurrent: 3 });
  const run = await spawnParent(stage);
  await waiting(stage, run);
  await stage.stores.db.transaction([], async (tx) =>
    stage.parts.steering.send(tx, await stage.get(run.id), "agent:main:web:dm:main", "hurry"),
  );
  await waitFor("it to have read", async () => (await stage.unread(run)) === 0);
  await waiting(stage, run);
  door.resolve();
  expect((await ended(stage, run)).state).toBe("done");
});

it.each([1, 8])(
  "[SP5][LN2] 200 parents of two children each at maxConcurrent %i all end once",
  async (maxConcurrent) => {
    await using stage = await open({ maxConcurrent });
    const runs = await Promise.all(Array.from({ length: 200 }, () => spawnParent(stage)));
    door.resolve();
    await waitFor("all to end", () => allOf(runs, async (run) => !isUnfinished((await stage.get(run.id)).state)), 60_000);
    expect(new Set(await Promise.all(runs.map(async (run) => (await stage.get(run.id)).state)))).toEqual(new Set(["done"]));
    expect(await Promise.all(runs.map(async (run) => (await stage.announced(run)).length))).toEqual(runs.map(() => 1));
    expect(await stage.stores.runs.countUnfinishedByState()).toEqual({ queued: 0, running: 0, waiting: 0 });
  },
  90_000,
);

it("[SP5][ST2] a run that was stopped in the middle of a step sends nobody out any more", async () => {
  await using stage = await open({ maxConcurrent: 3 });
  const run = await spawnParent(stage);
  await waiting(stage, run);
  const below = { runId: run.id, sessionKey: run.childKey, sessionId: run.sessionId };
  expect((await stage.spawn({}, below)).state).toBe("queued");
  await stage.stores.db.transaction([], async (tx) => stage.parts.steering.stop(tx, [await stage.get(run.id)], "by the test"));
  await expect(() => stage.spawn({}, below)).rejects.toThrow("This run has ended; it sends nobody out any more.");
  expect(await stage.stores.runs.unfinishedBelow(run.requesterKey)).toEqual([]);
});
