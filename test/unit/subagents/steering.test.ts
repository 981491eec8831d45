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

const stop = async (...ids: string[]): Promise<string[]> =>
  (
    await stage.stores.db.transaction([], async (tx) => stage.parts.steering.stop(tx, await Promise.all(ids.map(stage.get)), "by the test"))
  ).map((run) => run.id);
const send = (id: string, from = "me") =>
  stage.stores.db.transaction([], async (tx) => stage.parts.steering.send(tx, await stage.get(id), from, "hello"));
const below = async (id: string) => {
  const run = await stage.get(id);
  return stage.spawn({}, { sessionKey: run.childKey, sessionId: run.sessionId, runId: run.id });
};
const running = (id: string) => waitFor("it to run", async () => (await stage.get(id)).state === "running");

describe("stop", () => {
  it("[ST1] ends queued and running runs with everything below them, and counts only those that were unfinished", async () => {
    const [top, other] = [await stage.spawn(), await stage.spawn()];
    await Promise.all([running(top.id), running(other.id)]);
    const middle = await below(top.id);
    const deep = await below(middle.id);
    expect(await stage.get(deep.id)).toMatchObject({ state: "queued", depth: 3 });
    expect((await stop(top.id)).sort()).toEqual([top.id, middle.id, deep.id].sort());
    expect(await stop(top.id)).toEqual([]);
    expect((await stage.get(other.id)).state).toBe("running");
    expect(await Promise.all([top, middle, deep].map((run) => stage.get(run.id)))).toEqual(
      [top, middle, deep].map(() => expect.objectContaining({ state: "stopped", delivery: "none", reason: "by the test" })),
    );
    await waitFor("the slot to be free", async () => (await stage.lane.depth()).running === 1);
  });

  it("[ST2] a stop that is rolled back stops nothing", async () => {
    const { id } = await stage.spawn();
    await running(id);
    await expect(() =>
      stage.stores.db.transaction([], async (tx) => {
        await stage.parts.steering.stop(tx, [await stage.get(id)], "by the test");
        throw new Error("the answer could not be recorded");
      }),
    ).rejects.toThrow("could not be recorded");
    expect((await stage.get(id)).state).toBe("running");
    expect((await stage.lane.depth()).running).toBe(1);
  });

  it("[LN4] stopping frees the place against maxChildrenPerSession at once", async () => {
    const three = [await stage.spawn(), await stage.spawn(), await stage.spawn()];
    await expect(() => stage.spawn()).rejects.toThrow("maxChildrenPerSession 3");
    await stage.stores.db.transaction([], (tx) => stage.parts.steering.stopBelow(tx, CHAT_KEY, "by the test"));
    expect(await Promise.all(three.map(async (run) => (await stage.get(run.id)).state))).toEqual(["stopped", "stopped", "stopped"]);
    hangs = false;
    const next = await stage.spawn();
    await waitFor("it to be done", async () => (await stage.get(next.id)).state === "done");
  });
});

describe("send", () => {
  it("[ST4] a stopped run that is sent something reads that it was stopped, before the message", async () => {
    const { id } = await stage.spawn({ task: "the old task" });
    await running(id);
    await stop(id);
    hangs = false;
    expect(await send(id)).toBe("continued");
    await waitFor("it to be done", async () => (await stage.get(id)).state === "done");
    const read = requests.at(-1)?.messages.map((message) => message.text.slice(0, 45)) ?? [];
    const at = read.indexOf("[The gateway notes: you were stopped before y");
    expect(read.indexOf("the old task")).toBeLessThan(at);
    expect(read[at + 1]).toBe("hello");
  });

  it("[ST4] the note of one stopped run doesn't keep another one from having its own", async () => {
    const runs = [await stage.spawn(), await stage.spawn()];
    await waitFor("both to ask", () => requests.length === 2);
    for (const { id } of runs) {
      await stop(id);
      hangs = false;
      await send(id);
      await waitFor("it to be done", async () => (await stage.get(id)).state === "done");
      hangs = true;
      expect(requests.at(-1)?.messages.some((message) => message.text.startsWith("[The gateway notes: you were stopped"))).toBe(true);
    }
  });

  it.each(["me", "runtime"])(
    "[CM7] a message of %s to a run that fails before it reads it: people are told, and it is read when the run goes on",
    async (from) => {
      let fail = (): void => {};
      answers = () =>
        new Promise((resolve) => {
          fail = () => resolve({ ...okReply("half"), outcome: "error", error: { kind: "auth", message: "The key is wrong." } });
        });
      const run = await stage.spawn();
      await waitFor("it to ask", () => requests.length === 1);
      expect(await send(run.id, from)).toBe("running");
      fail();
      await waitFor("it to fail", async () => (await stage.get(run.id)).state === "error");
      const [announced, note] = await Promise.all(
        ["SELECT part AS text FROM outbox WHERE delivery LIKE 'announce:%'", "SELECT text FROM notes"].map(
          async (sql) => (await stage.stores.db.get<{ text: string }>(sql))?.text,
        ),
      );
      for (const text of [announced, note])
        expect(text).toContain("A message to it was not read before it ended; it reads it when it goes on.");
      expect(await stage.unread(run)).toBe(1);
      answers = null;
      hangs = false;
      expect(await send(run.id)).toBe("continued");
      await waitFor("it to be done", async () => (await stage.get(run.id)).state === "done");
      expect(requests.at(-1)?.messages.filter((message) => message.text === "hello")).toHaveLength(2);
      expect(await stage.unread(run)).toBe(0);
    },
  );

  it("[ST4] a message that a stopped run did not come to read is not read later", async () => {
    const run = await stage.spawn();
    await running(run.id);
    await send(run.id);
    await stop(run.id);
    expect(await stage.unread(run)).toBe(0);
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
    const run = await stage.spawn({ maxIterations: 1 });
    await waitFor("the announce step", () => requests.length === 2);
    await send(run.id);
    announcing();
    await waitFor("it to be done", async () => (await stage.get(run.id)).state === "done");
    expect((await stage.get(run.id)).incomplete).toBe(false);
    expect(requests.some((request) => request.messages.at(-1)?.text === "hello")).toBe(true);
  });

  it.each(["\0", " \u200b\n"])("[CM7][IN4] a message without a character that can be seen is refused (%j)", async (text) => {
    const run = await stage.spawn();
    const answer = await stage.stores.db.transaction([], (tx) => stage.parts.steering.send(tx, run, "me", text));
    expect(answer).toEqual({ refused: expect.stringContaining("no character that can be seen") });
    expect(await stage.unread(run)).toBe(0);
    await expect(() => stage.spawn({ task: text })).rejects.toThrow("task holds no character that can be seen");
  });

  it("[CM7][SP1] NUL in a task or a message is dropped before anything keeps it", async () => {
    const run = await stage.spawn({ task: "a\0b", label: "c\0d" });
    await stage.stores.db.transaction([], (tx) => stage.parts.steering.send(tx, run, "e\0f", "g\0h"));
    expect(await stage.get(run.id)).toMatchObject({ task: "ab", label: "cd" });
    expect(await stage.stores.mail.listForRun(run.id)).toMatchObject([{ from: "ef", text: "gh" }]);
    expect(await stage.stores.db.get("SELECT first_message AS text FROM runs")).toEqual({
      text: expect.stringMatching(/^[^\0]*ab[^\0]*$/),
    });
  });

  it("[CM7] says what it met: queued, running, or a finished one that goes on", async () => {
    const [first, second, third] = [await stage.spawn(), await stage.spawn(), await stage.spawn()];
    await Promise.all([running(first.id), running(second.id)]);
    expect(await send(first.id)).toBe("running");
    expect(await send(third.id)).toBe("queued");
    expect(await Promise.all([first, third].map((run) => stage.unread(run)))).toEqual([1, 1]);
    await stop(first.id);
    hangs = false;
    expect(await send(first.id)).toBe("continued");
    await waitFor("its next generation", async () => (await stage.get(first.id)).state === "done");
    expect((await stage.get(first.id)).generation).toBe(2);
    expect(await stage.unread(first)).toBe(0);
  });

  it("[SP6] a finished run doesn't go on past the cap of unfinished ones, and nothing is written", async () => {
    hangs = false;
    const done = await stage.spawn();
    await waitFor("it to be done", async () => (await stage.get(done.id)).settledAt !== null);
    hangs = true;
    for (let n = 0; n < 3; n++) await stage.spawn();
    expect(await send(done.id)).toEqual({ refused: expect.stringContaining("maxChildrenPerSession") });
    expect(await stage.get(done.id)).toMatchObject({ state: "done", generation: 1 });
    expect(await stage.unread(done)).toBe(0);
  });
});

it("[SP2] the same turn and call find the run they made instead of a second one", async () => {
  const first = await stage.spawn({ label: "once" }, { spawnKey: "turn:1:c0" });
  const again = await stage.spawn({ label: "something else" }, { spawnKey: "turn:1:c0" });
  expect(again.id).toBe(first.id);
  expect(await stage.stores.runs.listOf(CHAT_KEY, 10)).toHaveLength(1);
});
