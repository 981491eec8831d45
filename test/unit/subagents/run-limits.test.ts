// A run's limits over restarts, on real stores: the time it has and the steps it has used are the run's, not the
// process's. What asks for new work begins them anew.
import { rmSync } from "node:fs";
import { afterEach, beforeEach, expect, it } from "vitest";
import { isUnfinished, type Run } from "../../../src/core/run.ts";
import type { ModelReply, ModelRequest } from "../../../src/models/model.ts";
import { createManualClock, type ManualClock } from "../../support/manual-clock.ts";
import { createStage, makeStateDir, okReply, type Stage } from "../../support/stage.ts";
import { waitFor } from "../../support/wait.ts";

const SECOND = 1_000;

let stateDir: string;
let clock: ManualClock;
/** The child's steps, in all lives together. */
let steps: number;
let reply: (request: ModelRequest) => Promise<ModelReply>;
beforeEach(() => {
  stateDir = makeStateDir();
  clock = createManualClock();
  steps = 0;
});
afterEach(() => rmSync(stateDir, { recursive: true, force: true }));

const isAnnouncing = (request: ModelRequest): boolean => request.messages.at(-1)?.text.includes("\nResult:") === true;
const hangs = (request: ModelRequest): Promise<ModelReply> =>
  new Promise((resolve) => request.signal.addEventListener("abort", () => resolve({ ...okReply(""), outcome: "aborted" })));
const looks = async (): Promise<ModelReply> => ({
  ...okReply(`look ${steps}`),
  finish: "tool-calls",
  toolCalls: [{ id: `c${steps}`, name: "read", args: { path: `${steps}` } }],
});

/** One life of the gateway. */
async function life<T>(work: (stage: Stage) => Promise<T>): Promise<T> {
  const call = async (request: ModelRequest): Promise<ModelReply> => {
    if (!isAnnouncing(request)) steps++;
    return reply(request);
  };
  await using stage = await createStage({ clock, call, stateDir, idle: true });
  await stage.parts.start();
  await stage.parts.recover();
  stage.lane.serve(stage.parts.runner.work);
  try {
    return await work(stage);
  } finally {
    const drained = stage.lane.drain();
    await stage.parts.runner.suspend();
    await drained;
  }
}

const ended = (stage: Stage, { id }: Run): Promise<Run> =>
  waitFor("it to end", async () => (isUnfinished((await stage.get(id)).state) ? null : await stage.get(id)));
const atStep = (count: number): Promise<unknown> => waitFor(`step ${count}`, () => steps === count);

it("[SP10] the time limit goes on over restarts: 60 s are 60 s, whatever ended in between", async () => {
  reply = hangs;
  const run = await life(async (stage) => {
    const spawned = await stage.spawn({ runTimeoutSeconds: 60 });
    await atStep(1);
    await clock.advance(25 * SECOND);
    return spawned;
  });
  await life(async (stage) => {
    await atStep(2);
    await clock.advance(25 * SECOND);
    expect((await stage.get(run.id)).state).toBe("running");
  });
  await life(async (stage) => {
    await atStep(3);
    await clock.advance(9 * SECOND);
    expect((await stage.get(run.id)).state).toBe("running");
    await clock.advance(1 * SECOND);
    expect(await ended(stage, run)).toMatchObject({ state: "timeout", endedAt: ((await stage.get(run.id)).startedAt ?? 0) + 60 * SECOND });
  });
});

it("[SP10] a run whose time is over when the gateway comes back ends as a timeout, without another call", async () => {
  reply = hangs;
  const run = await life(async (stage) => {
    const spawned = await stage.spawn({ runTimeoutSeconds: 60 });
    await atStep(1);
    return spawned;
  });
  clock.set(clock.now() + 61 * SECOND);
  await life(async (stage) => {
    expect((await ended(stage, run)).state).toBe("timeout");
    expect(await stage.announced(run)).toHaveLength(1);
    expect(steps).toBe(1);
  });
});

it("[SP10] a clock that was set back gives no run more than its whole limit", async () => {
  reply = hangs;
  const run = await life(async (stage) => {
    const spawned = await stage.spawn({ runTimeoutSeconds: 60 });
    await atStep(1);
    return spawned;
  });
  clock.set(clock.now() - 3600 * SECOND);
  await life(async (stage) => {
    await atStep(2);
    await clock.advance(60 * SECOND);
    expect((await ended(stage, run)).state).toBe("timeout");
  });
});

it("[SP10][RC2] work that said its last word in time is done, however late the gateway comes back to announce it", async () => {
  reply = async (request) => (isAnnouncing(request) ? hangs(request) : okReply("all of it"));
  const run = await life(async (stage) => {
    const spawned = await stage.spawn({ runTimeoutSeconds: 60 });
    await atStep(1);
    await waitFor(
      "the announce step",
      async () => (await stage.stores.transcripts.tail({ agentId: "main", sessionId: spawned.sessionId }, 9)).length > 2,
    );
    return spawned;
  });
  clock.set(clock.now() + 3600 * SECOND);
  reply = async () => okReply("Result:\nall of it");
  await life(async (stage) => {
    expect(await ended(stage, run)).toMatchObject({ state: "done", incomplete: false });
    expect(steps).toBe(1);
  });
});

it("[SP10][SP9] steps go on counting over restarts: a run never takes more of them than it may", async () => {
  reply = async (request) => (steps % 2 === 0 ? hangs(request) : looks());
  const run = await life(async (stage) => {
    const spawned = await stage.spawn({ maxIterations: 5 });
    await atStep(2);
    return spawned;
  });
  await life(() => atStep(4));
  reply = async (request) => (isAnnouncing(request) ? okReply("Result:\nhalf of it") : looks());
  await life(async (stage) => {
    expect(await ended(stage, run)).toMatchObject({ state: "done", incomplete: true, reason: "it reached its limit of 5 steps" });
    expect(steps).toBe(5);
  });
});

it("[SP10] a new generation is new work: it has its whole time and all its steps again", async () => {
  reply = hangs;
  await life(async (stage) => {
    const run = await stage.spawn({ runTimeoutSeconds: 60, maxIterations: 2 });
    await atStep(1);
    await clock.advance(60 * SECOND);
    expect((await ended(stage, run)).state).toBe("timeout");
    await stage.stores.db.transaction([], async (tx) => stage.parts.steering.send(tx, await stage.get(run.id), "you", "go on"));
    await atStep(2);
    await clock.advance(59 * SECOND);
    expect((await stage.get(run.id)).state).toBe("running");
    reply = async () => okReply("there");
    await clock.advance(1 * SECOND);
    expect((await ended(stage, run)).state).toBe("timeout");
    await stage.stores.db.transaction([], async (tx) => stage.parts.steering.send(tx, await stage.get(run.id), "you", "and now?"));
    expect((await ended(stage, run)).state).toBe("done");
  });
});

it("[SP10] a message that comes after its last word is new work too: it is read, not cut off by the time that is over", async () => {
  let letGo = (): void => {};
  const announcing = new Promise<ModelReply>((resolve) => {
    letGo = () => resolve(okReply("Result:\none"));
  });
  reply = async (request) => (isAnnouncing(request) ? announcing : okReply(`word ${steps}`));
  await life(async (stage) => {
    const run = await stage.spawn({ runTimeoutSeconds: 30, maxIterations: 1 });
    await atStep(1);
    await clock.advance(40 * SECOND);
    await stage.stores.db.transaction([], async (tx) => stage.parts.steering.send(tx, await stage.get(run.id), "you", "one more thing"));
    letGo();
    expect(await ended(stage, run)).toMatchObject({ state: "done", incomplete: false });
    expect(steps).toBe(2);
    expect(await stage.unread(run)).toBe(0);
  });
});
