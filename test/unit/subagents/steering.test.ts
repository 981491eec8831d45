// Stop and send on real stores: what counts as unfinished, what lies below, and what each answer means.
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { ModelReply, ModelRequest } from "../../../src/models/model.ts";
import { createManualClock } from "../../support/manual-clock.ts";
import { CHAT_KEY } from "../../support/runs.ts";
import { createStage, okReply, type Stage } from "../../support/stage.ts";
import { waitFor } from "../../support/wait.ts";

let stage: Stage;
let hangs: boolean;
let requests: ModelRequest[];
const call = (request: ModelRequest): Promise<ModelReply> => {
  requests.push(request);
  return hangs
    ? new Promise((resolve) => request.signal.addEventListener("abort", () => resolve({ ...okReply("half"), outcome: "aborted" })))
    : Promise.resolve(okReply("done"));
};

beforeEach(async () => {
  hangs = true;
  requests = [];
  stage = await createStage({
    clock: createManualClock(),
    call,
    subagents: { maxConcurrent: 2, maxSpawnDepth: 3, maxChildrenPerSession: 3 },
  });
});
afterEach(async () => stage[Symbol.asyncDispose]());

const stop = (...ids: string[]): string[] =>
  stage.stores.db.transaction(() => stage.parts.steering.stop(ids.map(stage.get), "by the test")).map((run) => run.id);
const send = (id: string) => stage.stores.db.transaction(() => stage.parts.steering.send(stage.get(id), "me", "hello"));
const below = (id: string) => {
  const run = stage.get(id);
  return stage.spawn({}, { sessionKey: run.childKey, sessionId: run.sessionId, runId: run.id });
};
const running = (id: string) => waitFor("it to run", () => stage.get(id).state === "running");

describe("stop", () => {
  it("[ST1] ends queued and running runs with everything below them, and counts only those that were unfinished", async () => {
    const [top, other] = [stage.spawn(), stage.spawn()];
    await Promise.all([running(top.id), running(other.id)]);
    const middle = below(top.id);
    const deep = below(middle.id);
    expect(stage.get(deep.id)).toMatchObject({ state: "queued", depth: 3 });
    expect(stop(top.id).sort()).toEqual([top.id, middle.id, deep.id].sort());
    expect(stop(top.id)).toEqual([]);
    expect(stage.get(other.id).state).toBe("running");
    expect([top, middle, deep].map((run) => stage.get(run.id))).toEqual(
      [top, middle, deep].map(() => expect.objectContaining({ state: "stopped", delivery: "none", reason: "by the test" })),
    );
    await waitFor("the slot to be free", () => stage.lane.depth().running === 1);
  });

  it("[ST2] a stop that is rolled back stops nothing", async () => {
    const { id } = stage.spawn();
    await running(id);
    expect(() =>
      stage.stores.db.transaction(() => {
        stage.parts.steering.stop([stage.get(id)], "by the test");
        throw new Error("the answer could not be recorded");
      }),
    ).toThrow("could not be recorded");
    expect(stage.get(id).state).toBe("running");
    expect(stage.lane.depth().running).toBe(1);
  });

  it("[LN4] stopping frees the place against maxChildrenPerSession at once", async () => {
    const three = [stage.spawn(), stage.spawn(), stage.spawn()];
    expect(() => stage.spawn()).toThrow("maxChildrenPerSession 3");
    stage.stores.db.transaction(() => stage.parts.steering.stopBelow(CHAT_KEY, "by the test"));
    expect(three.map((run) => stage.get(run.id).state)).toEqual(["stopped", "stopped", "stopped"]);
    hangs = false;
    const next = stage.spawn();
    await waitFor("it to be done", () => stage.get(next.id).state === "done");
  });
});

describe("send", () => {
  it("[ST4] a stopped run that is sent something reads that it was stopped, before the message", async () => {
    const { id } = stage.spawn({ task: "the old task" });
    await running(id);
    stop(id);
    hangs = false;
    expect(send(id)).toBe("continued");
    await waitFor("it to be done", () => stage.get(id).state === "done");
    const read = requests.at(-1)?.messages.map((message) => message.text.slice(0, 45)) ?? [];
    const at = read.indexOf("[The gateway notes: you were stopped before y");
    expect(read.indexOf("the old task")).toBeLessThan(at);
    expect(read[at + 1]).toBe("hello");
  });

  it("[CM7] says what it met: queued, running, or a finished one that goes on", async () => {
    const [first, second, third] = [stage.spawn(), stage.spawn(), stage.spawn()];
    await Promise.all([running(first.id), running(second.id)]);
    expect(send(first.id)).toBe("running");
    expect(send(third.id)).toBe("queued");
    expect([first, third].map((run) => stage.unread(run))).toEqual([1, 1]);
    stop(first.id);
    hangs = false;
    expect(send(first.id)).toBe("continued");
    await waitFor("its next generation", () => stage.get(first.id).state === "done");
    expect(stage.get(first.id).generation).toBe(2);
    expect(stage.unread(first)).toBe(0);
  });

  it("[SP6] a finished run doesn't go on past the cap of unfinished ones, and nothing is written", async () => {
    hangs = false;
    const done = stage.spawn();
    await waitFor("it to be done", () => stage.get(done.id).settledAt !== null);
    hangs = true;
    for (let n = 0; n < 3; n++) stage.spawn();
    expect(send(done.id)).toEqual({ refused: expect.stringContaining("maxChildrenPerSession") });
    expect(stage.get(done.id)).toMatchObject({ state: "done", generation: 1 });
    expect(stage.unread(done)).toBe(0);
  });
});

it("[SP2] the same turn and call find the run they made instead of a second one", async () => {
  const first = stage.spawn({ label: "once" }, { spawnKey: "turn:1:c0" });
  const again = stage.spawn({ label: "something else" }, { spawnKey: "turn:1:c0" });
  expect(again.id).toBe(first.id);
  expect(stage.stores.runs.listOf(CHAT_KEY, 10)).toHaveLength(1);
});
