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
/** Instead of hanging, or of being done. */
let answers: ((request: ModelRequest) => Promise<ModelReply>) | null;
const call = (request: ModelRequest): Promise<ModelReply> => {
  requests.push(request);
  if (answers !== null) return answers(request);
  return hangs
    ? new Promise((resolve) => request.signal.addEventListener("abort", () => resolve({ ...okReply("half"), outcome: "aborted" })))
    : Promise.resolve(okReply("done"));
};

beforeEach(async () => {
  hangs = true;
  answers = null;
  requests = [];
  stage = await createStage({
    clock: createManualClock(),
    call,
    subagents: { maxConcurrent: 2, maxSpawnDepth: 3, maxChildrenPerSession: 3 },
  });
});
afterEach(async () => stage[Symbol.asyncDispose]());

const stop = (...ids: string[]): string[] =>
  stage.stores.db.transaction([], (tx) => stage.parts.steering.stop(tx, ids.map(stage.get), "by the test")).map((run) => run.id);
const send = (id: string) => stage.stores.db.transaction([], (tx) => stage.parts.steering.send(tx, stage.get(id), "me", "hello"));
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
      stage.stores.db.transaction([], (tx) => {
        stage.parts.steering.stop(tx, [stage.get(id)], "by the test");
        throw new Error("the answer could not be recorded");
      }),
    ).toThrow("could not be recorded");
    expect(stage.get(id).state).toBe("running");
    expect(stage.lane.depth().running).toBe(1);
  });

  it("[LN4] stopping frees the place against maxChildrenPerSession at once", async () => {
    const three = [stage.spawn(), stage.spawn(), stage.spawn()];
    expect(() => stage.spawn()).toThrow("maxChildrenPerSession 3");
    stage.stores.db.transaction([], (tx) => stage.parts.steering.stopBelow(tx, CHAT_KEY, "by the test"));
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

  it("[ST4] the note of one stopped run doesn't keep another one from having its own", async () => {
    for (const { id } of [stage.spawn(), stage.spawn()]) {
      await running(id);
      stop(id);
      hangs = false;
      send(id);
      await waitFor("it to be done", () => stage.get(id).state === "done");
      hangs = true;
      expect(requests.at(-1)?.messages.some((message) => message.text.startsWith("[The gateway notes: you were stopped"))).toBe(true);
    }
  });

  it("[CM7] a message to a run that fails before it reads it: people are told, and it is read when the run goes on", async () => {
    let fail = (): void => {};
    answers = () =>
      new Promise((resolve) => {
        fail = () => resolve({ ...okReply("half"), outcome: "error", error: { kind: "auth", message: "The key is wrong." } });
      });
    const run = stage.spawn();
    await waitFor("it to ask", () => requests.length === 1);
    expect(send(run.id)).toBe("running");
    fail();
    await waitFor("it to fail", () => stage.get(run.id).state === "error");
    const [announced, note] = ["SELECT part AS text FROM outbox WHERE delivery LIKE 'announce:%'", "SELECT text FROM notes"].map(
      (sql) => stage.stores.db.get<{ text: string }>(sql)?.text,
    );
    for (const text of [announced, note])
      expect(text).toContain("A message to it was not read before it ended; it reads it when it goes on.");
    expect(stage.unread(run)).toBe(1);
    answers = null;
    hangs = false;
    expect(send(run.id)).toBe("continued");
    await waitFor("it to be done", () => stage.get(run.id).state === "done");
    expect(requests.at(-1)?.messages.filter((message) => message.text === "hello")).toHaveLength(2);
    expect(stage.unread(run)).toBe(0);
  });

  it("[ST4] a message that a stopped run did not come to read is not read later", async () => {
    const run = stage.spawn();
    await running(run.id);
    send(run.id);
    stop(run.id);
    expect(stage.unread(run)).toBe(0);
  });

  it("[SP10] a message after a run used up its steps is answered, not only read", async () => {
    hangs = false;
    let announcing = (): void => {};
    answers = (request) =>
      requests.length === 2
        ? new Promise((resolve) => {
            announcing = () => resolve(okReply("Result:\none"));
          })
        : Promise.resolve(
            requests.length === 1
              ? { ...okReply("looking"), finish: "tool-calls", toolCalls: [{ id: "c", name: "read", args: {} }] }
              : okReply(request.messages.at(-1)?.text === "hello" ? "hello yourself" : "Result:\ntwo"),
          );
    const run = stage.spawn({ maxIterations: 1 });
    await waitFor("the announce step", () => requests.length === 2);
    send(run.id);
    announcing();
    await waitFor("it to be done", () => stage.get(run.id).state === "done");
    expect(stage.get(run.id).incomplete).toBe(false);
    expect(requests.some((request) => request.messages.at(-1)?.text === "hello")).toBe(true);
  });

  it.each(["\0", " \u200b\n"])("[CM7][IN4] a message without a character that can be seen is refused (%j)", async (text) => {
    const run = stage.spawn();
    const answer = stage.stores.db.transaction([], (tx) => stage.parts.steering.send(tx, run, "me", text));
    expect(answer).toEqual({ refused: expect.stringContaining("no character that can be seen") });
    expect(stage.unread(run)).toBe(0);
    expect(() => stage.spawn({ task: text })).toThrow("task holds no character that can be seen");
  });

  it("[CM7][SP1] NUL in a task or a message is dropped before anything keeps it", async () => {
    const run = stage.spawn({ task: "a\0b", label: "c\0d" });
    stage.stores.db.transaction([], (tx) => stage.parts.steering.send(tx, run, "e\0f", "g\0h"));
    expect(stage.get(run.id)).toMatchObject({ task: "ab", label: "cd" });
    expect(stage.stores.mail.listForRun(run.id)).toMatchObject([{ from: "ef", text: "gh" }]);
    expect(stage.stores.db.get("SELECT first_message AS text FROM runs")).toEqual({ text: expect.stringMatching(/^[^\0]*ab[^\0]*$/) });
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
