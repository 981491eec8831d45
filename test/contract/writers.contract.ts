// Two writers at once, whatever database stands behind them: each case is a check and the change that rests on it, and fails when
// somebody else gets in between (stores/lock-keys.ts). writers.test.ts runs it over SQLite.
//
// Where only a few moments are dangerous the second writer starts a growing number of turns after the first, so that it comes by
// in every one of them; a database that answers over a wire shuffles them by itself.
import { AsyncResource } from "node:async_hooks";
import { tmpdir } from "node:os";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Agent } from "../../src/agents/agent.ts";
import { stopMark, stoppedBy } from "../../src/agents/context.ts";
import { createTurns } from "../../src/agents/turn.ts";
import { createWebChannel, WEB, type WebChannel } from "../../src/channels/web/channel.ts";
import { addressKey } from "../../src/core/address.ts";
import { type Failpoint, type HitFailpoint, noFailpoints } from "../../src/core/failpoints.ts";
import { newId } from "../../src/core/ids.ts";
import { silentLogger } from "../../src/core/logger.ts";
import type { Channel } from "../../src/core/message.ts";
import type { Run } from "../../src/core/run.ts";
import { createSecrets } from "../../src/core/secrets.ts";
import { attempt } from "../../src/gateway/attempt.ts";
import { type Conversations, createConversations } from "../../src/gateway/conversation.ts";
import { createPacer } from "../../src/gateway/pace.ts";
import { createLane } from "../../src/lanes/lanes.ts";
import type { ModelReply, ModelRequest } from "../../src/models/model.ts";
import type { Tx } from "../../src/stores/database.ts";
import { lock } from "../../src/stores/lock-keys.ts";
import type { TranscriptRef } from "../../src/stores/transcripts.ts";
import { createWebPosts } from "../../src/stores/web-posts.ts";
import { transcriptOfRun } from "../../src/subagents/deps.ts";
import type { SendAnswer } from "../../src/subagents/steering.ts";
import { noFiles } from "../support/files.ts";
import { createManualClock } from "../support/manual-clock.ts";
import { paymentsOf } from "../support/payments.ts";
import { ADDRESS, CHAT_KEY } from "../support/runs.ts";
import { okReply, type Stage, type StageOptions } from "../support/stage.ts";
import { callTool } from "../support/tool-context.ts";
import { waitFor } from "../support/wait.ts";
import { briefWriters } from "./briefs.contract.ts";
import { raiseWriters } from "./budgets.contract.ts";
import { askWriters } from "./question-writers.contract.ts";
import { questionWriters } from "./questions.contract.ts";
import type { StoreRig } from "./stores.contract.ts";

export interface WriterRigs {
  makeRig(): Promise<StoreRig>;
  makeStage(options: StageOptions): Promise<Stage>;
  /** The transcript of a session stands under its own name, not under that of an archived one. */
  isOpen(stage: Stage, ref: TranscriptRef): Promise<boolean>;
}

export function writersContract(name: string, { makeRig, makeStage, isOpen }: WriterRigs): void {
  describe(`writers at once (${name})`, () => {
    spawnWriters(makeStage);
    raiseWriters(makeStage);
    briefWriters(makeStage);
    endWriters(makeStage);
    waitWriters(makeStage);
    askWriters(makeStage);
    questionWriters(makeStage);
    archiveWriters(makeStage, isOpen);
    describe("stores", () => {
      let rig: StoreRig;
      beforeEach(async () => {
        rig = await makeRig();
      });
      afterEach(() => rig[Symbol.asyncDispose]());
      outboxWriters(() => rig);
      inboxWriters(() => rig);
      pageWriters(() => rig);
      smallWriters(() => rig);
      turnWriters(() => rig);
    });
  });
}

const many = <T>(count: number, work: (n: number) => T): T[] => Array.from({ length: count }, (_, n) => work(n));

/** So many turns later. */
async function later<T>(turns: number, work: () => Promise<T>): Promise<T> {
  for (let turn = 0; turn < turns; turn++) await null;
  return work();
}

/**
 * What somebody else does at a moment that is named while a transaction may be open: bound to where it is made, so that it is
 * no part of that transaction.
 */
function atMoment<T>(turns: number, work: () => Promise<T>): { readonly start: () => void; readonly done: Promise<T> } {
  const { promise: done, resolve, reject } = Promise.withResolvers<T>();
  return { start: AsyncResource.bind(() => void later(turns, work).then(resolve, reject)), done };
}

const aborted = async (signal: AbortSignal): Promise<void> => {
  if (!signal.aborted) await new Promise((resolve) => signal.addEventListener("abort", resolve));
};

const fulfilled = <T>(settled: readonly PromiseSettledResult<T>[]): T[] =>
  settled.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
const reasons = (settled: readonly PromiseSettledResult<unknown>[]): string[] =>
  settled.flatMap((one) => (one.status === "rejected" ? [(one.reason as Error).message] : []));

const sendTo = (stage: Stage, run: Run, text: string): Promise<SendAnswer> => {
  const { steering } = stage.parts;
  return stage.stores.db.transaction(steering.locks([run]), (tx) => steering.send(tx, run, "me", text));
};
const stopRun = (stage: Stage, run: Run): Promise<Run[]> => {
  const { steering } = stage.parts;
  return stage.stores.db.transaction(steering.locks([run]), async (tx) => steering.stop(tx, [await stage.get(run.id)], "by the test"));
};
const reads = (request: ModelRequest, text: string): boolean => request.messages.some((message) => message.text.includes(text));
const atRest = (stage: Stage): Promise<unknown> =>
  waitFor("the lane to be empty", async () => Object.values(await stage.lane.depth()).every((count) => count === 0), 5_000);

function spawnWriters(makeStage: WriterRigs["makeStage"]): void {
  /** Nobody works: only who gets a row counts. */
  const makeIdle = (subagents: Record<string, unknown>): Promise<Stage> =>
    makeStage({ clock: createManualClock(), call: () => Promise.reject(new Error("nobody works")), subagents, idle: true });

  it("[SP6] twenty spawns at once against a cap of five: five are accepted, the others are refused in words", async () => {
    await using stage = await makeIdle({ maxChildrenPerSession: 5 });
    const answers = await Promise.allSettled(many(20, (n) => stage.spawn({ label: `run ${n}` })));
    expect(fulfilled(answers)).toHaveLength(5);
    expect(reasons(answers)).toEqual(many(15, () => expect.stringContaining("maxChildrenPerSession 5")));
    expect(await stage.stores.runs.listOf(CHAT_KEY, 100)).toHaveLength(5);
  });

  it("[SP6][CM7] finished runs that are sent something and new ones at once: together they don't pass the cap", async () => {
    await using stage = await makeIdle({ maxChildrenPerSession: 4 });
    const ended = await Promise.all(many(4, () => stage.spawn()));
    for (const run of ended) await stopRun(stage, run);
    const [sent, spawned] = await Promise.all([
      Promise.all(ended.map((run) => sendTo(stage, run, "go on"))),
      Promise.allSettled(many(4, () => stage.spawn())),
    ]);
    const continued = sent.filter((answer) => answer === "continued").length;
    expect(continued + fulfilled(spawned).length).toBe(4);
    expect(await stage.stores.runs.countUnfinished(CHAT_KEY)).toBe(4);
    // Who was refused has left nothing behind that is read some day.
    expect(await Promise.all(ended.map((run) => stage.unread(run)))).toEqual(sent.map((answer) => (answer === "continued" ? 1 : 0)));
  });

  it("[SP2] one call of one turn, made several times at once, is one run", async () => {
    await using stage = await makeIdle({});
    const runs = await Promise.all(many(6, () => stage.spawn({}, { spawnKey: "turn:1:c0" })));
    expect(new Set(runs.map((run) => run.id)).size).toBe(1);
    expect(await stage.stores.runs.listOf(CHAT_KEY, 100)).toHaveLength(1);
  });

  it("[ST1][ST2] a turn that spawns when a stop has settled its message, which its own process has not heard of yet, sends nobody out", async () => {
    await using stage = await makeIdle({});
    const { inbox, db, runs } = stage.stores;
    await inbox.sink("web", "local").put([{ externalId: "m1", raw: "m1" }]);
    const id = await inbox.lastId();
    await inbox.route(id, CHAT_KEY);
    const requester = { turnId: `turn:${id}`, signal: new AbortController().signal };
    await stage.spawn({ label: "before" }, requester);
    // As a process beside it does: the rows say so at once, the signal comes when its bell is heard.
    await db.transaction([lock.tree(CHAT_KEY)], (tx) => inbox.drop(tx, CHAT_KEY));
    await expect(stage.spawn({ label: "after" }, requester)).rejects.toThrow("This turn has ended");
    expect((await runs.listOf(CHAT_KEY, 10)).map(({ label }) => label)).toEqual(["before"]);
    // Nor does it set anybody to work who has ended, or tell one more.
    const agent = stage.agents.find("main");
    const tool = (agent === null ? [] : stage.parts.mainTools(agent)).find(({ name }) => name === "subagents");
    if (tool === undefined) return expect.unreachable();
    const [before] = await runs.listOf(CHAT_KEY, 1);
    const args = { action: "send", ids: [before?.id ?? ""], text: "one more thing" };
    expect((await callTool(tool, args, { sessionKey: CHAT_KEY, turnId: `turn:${id}` })).text).toContain("nothing was sent");
    expect(await stage.stores.mail.listForRun(before?.id ?? "")).toEqual([]);
  });

  it("[ST1][ST2] a run that spawns in the moment it is stopped: no child below it is left at work", async () => {
    await using stage = await makeIdle({ maxSpawnDepth: 2 });
    const outcomes: { child: string; parent: string }[] = [];
    for (let round = 0; round < 60; round++) {
      const parent = await stage.spawn();
      await stage.stores.runs.start(parent.id);
      const spawn = async (): Promise<string> => {
        const requester = { sessionKey: parent.childKey, sessionId: parent.sessionId, runId: parent.id };
        return stage.spawn({}, requester).then(
          (run) => run.id,
          (error: Error) => error.message,
        );
      };
      const stop = (): Promise<unknown> => stopRun(stage, parent);
      const turns = Math.floor(round / 2);
      const [child] = await Promise.all(round % 2 === 0 ? [spawn(), later(turns, stop)] : [later(turns, spawn), stop()]);
      const state = (await stage.stores.runs.get(child))?.state ?? child;
      outcomes.push({ child: state, parent: (await stage.get(parent.id)).state });
    }
    for (const { child, parent } of outcomes) {
      expect(parent).toBe("stopped");
      expect(["stopped", "This run has ended; it sends nobody out any more."]).toContain(child);
    }
  });
}

function endWriters(makeStage: WriterRigs["makeStage"]): void {
  it("[CM7] a message in the moment a run ends is read before that end, or by the run that goes on", async () => {
    const requests: ModelRequest[] = [];
    let door = Promise.withResolvers<void>();
    let onEnd: (() => void) | null = null;
    await using stage = await makeStage({
      clock: createManualClock(),
      async call(request) {
        requests.push(request);
        await door.promise;
        return okReply("done");
      },
      failpoint(name) {
        if (name !== "run.before-end") return;
        onEnd?.();
        onEnd = null;
      },
    });
    for (let round = 0; round < 40; round++) {
      door = Promise.withResolvers();
      const words = `message ${round}.`;
      const run = await stage.spawn();
      const sending = atMoment(round, () => sendTo(stage, run, words));
      onEnd = sending.start;
      door.resolve();
      const answer = await sending.done;
      await atRest(stage);
      const after = await stage.get(run.id);
      const generation = answer === "continued" ? 2 : 1;
      expect({ answer, state: after.state, generation: after.generation, unread: await stage.unread(run) }).toEqual({
        ...{ answer: expect.stringMatching(/^(running|continued)$/), state: "done", generation, unread: 0 },
      });
      expect(requests.filter((request) => reads(request, words)).length).toBeGreaterThan(0);
    }
  });
}

function waitWriters(makeStage: WriterRigs["makeStage"]): void {
  it("[CM7][SP5] a message in the moment a run begins to wait for its child is read, not left until that ends", async () => {
    let door = Promise.withResolvers<void>();
    await using stage = await makeStage({
      clock: createManualClock(),
      async call(request) {
        // The child never ends by itself.
        if (reads(request, "the child's task")) await aborted(request.signal);
        else await door.promise;
        return okReply("done");
      },
      subagents: { maxSpawnDepth: 2 },
    });
    for (let turns = 0; turns < 120; turns += 4) {
      door = Promise.withResolvers();
      const parent = await stage.spawn();
      const requester = { sessionKey: parent.childKey, sessionId: parent.sessionId, runId: parent.id };
      const child = await stage.spawn({ task: "the child's task" }, requester);
      const isRunning = async ({ id }: Run): Promise<boolean> => (await stage.get(id)).state === "running";
      await waitFor("both to work", async () => (await isRunning(parent)) && (await isRunning(child)), 5_000);
      door.resolve();
      expect(await later(turns, () => sendTo(stage, parent, "hello"))).toBe("running");
      await waitFor("the message to be read", async () => (await stage.unread(parent)) === 0, 2_000);
      await stopRun(stage, parent);
      await atRest(stage);
    }
  });
}

function archiveWriters(makeStage: WriterRigs["makeStage"], isOpen: WriterRigs["isOpen"]): void {
  const moments: readonly (Failpoint | "run.settled")[] = ["run.settled", "archive.named"];
  it.each(moments)("[AR1][AR2][CM7] a message in the moment a run is archived (%s): it goes on with its own transcript", async (moment) => {
    let onMoment: (() => void) | null = null;
    const hit = (name: string): void => {
      if (name !== moment) return;
      onMoment?.();
      onMoment = null;
    };
    let run: Run | null = null;
    /** Of each call of a run that went on: what it read, and whether its file and its row were those of a run at work. */
    let calls: { task: boolean; message: boolean; file: boolean; archiveName: string | null; archivedAt: number | null }[] = [];
    let door = Promise.withResolvers<void>();
    await using stage = await makeStage({
      clock: createManualClock(),
      async call(request) {
        await door.promise;
        const { agentId, sessionId, generation, archiveName, archivedAt } = await stage.get((run as Run).id);
        if (generation > 1) {
          const file = await isOpen(stage, { agentId, sessionId });
          const [task, message] = [reads(request, "the first task"), reads(request, "and one more thing")];
          calls.push({ task, message, file, archiveName, archivedAt });
        }
        return okReply("done");
      },
      failpoint: hit,
      // No announce step: each generation is one call.
      config: { agents: { list: [{ id: "main", subagents: { announce: "silent" } }] } },
    });
    stage.bus.on((event) => hit(event.type));
    for (let turns = 0; turns < 24; turns++) {
      door = Promise.withResolvers();
      calls = [];
      const own = await stage.spawn({ task: "the first task", cleanup: "delete" });
      run = own;
      const sending = atMoment(turns, () => sendTo(stage, own, "and one more thing"));
      onMoment = sending.start;
      door.resolve();
      expect(await sending.done).toBe("continued");
      await atRest(stage);
      expect(calls).toEqual([{ task: true, message: true, file: true, archiveName: null, archivedAt: null }]);
      // Its second end is archived as the first was.
      const archived = await waitFor(
        "the archive",
        async () => ((await stage.get(own.id)).archivedAt === null ? null : stage.get(own.id)),
        5_000,
      );
      expect(archived).toMatchObject({ state: "done", generation: 2, archiveName: expect.stringContaining(".jsonl.deleted.") });
      const { transcripts } = stage.stores;
      expect(await isOpen(stage, { agentId: own.agentId, sessionId: own.sessionId })).toBe(false);
      const texts = (await transcripts.tail(transcriptOfRun(archived), 50)).map((entry) => ("text" in entry ? entry.text : ""));
      expect(texts.filter((text) => text === "and one more thing")).toHaveLength(1);
      expect(await stage.unread(own)).toBe(0);
    }
  });
}

function outboxWriters(rig: () => StoreRig): void {
  const add = (delivery: string, texts: readonly string[], runId?: string): Promise<boolean> =>
    rig().stores.db.transaction([lock.chat(ADDRESS)], (tx) =>
      rig().stores.outbox.add(tx, {
        delivery,
        address: ADDRESS,
        parts: texts.map((text) => ({ text })),
        ...(runId === undefined ? {} : { runId }),
      }),
    );

  it("[DL1] one delivery added by several at once: one text wins, with all of its parts and none of another's", async () => {
    const answers = await Promise.all(
      many(8, (n) =>
        add(
          "reply:1",
          many(3, (part) => `${n}:${part}`),
        ),
      ),
    );
    expect(answers.filter(Boolean)).toHaveLength(1);
    const rows = await rig().stores.db.all<{ part: string }>("SELECT part FROM outbox ORDER BY n");
    expect(rows.map((row) => JSON.parse(row.part).text)).toEqual(many(3, (part) => `${answers.indexOf(true)}:${part}`));
  });

  /** An attempt's surroundings, and what was said through them. */
  const sending = (more: Partial<Channel>) => {
    const { db, outbox } = rig().stores;
    const said: string[] = [];
    const channel: Channel = {
      ...{ name: ADDRESS.channel, account: ADDRESS.account },
      start: async () => {},
      stop: async () => {},
      health: () => ({ state: "on" }),
      decode: () => null,
      render: (message) => [{ text: message.markdown }],
      join: (parts) => ({ text: parts.map((part) => part.text).join(" + ") }),
      async send({ part }) {
        said.push(String(part.text));
        return { status: "sent", ref: "x" };
      },
      ...more,
    };
    const { clock } = rig();
    const pacer = createPacer(clock, () => undefined);
    const state = {
      ...{ db, outbox, clock, pacer, log: silentLogger, failpoint: noFailpoints },
      channel: () => channel,
      recordDelivery: async () => {},
    };
    return { state, said, pacer };
  };

  /** Posts as the page does: in one transaction with what is recorded of it. */
  const ownTable = (posted: string[] = []): Partial<Channel> => ({
    async postIn(tx, { part }) {
      posted.push(String(part.text));
      // As long as another transaction may take.
      await (tx as Tx).get("SELECT 1");
      return "x";
    },
  });

  it("[ST2][DL1] taken back in the moment it goes into a table of ours: not posted, or not taken back", async () => {
    const { db, outbox } = rig().stores;
    const posted: string[] = [];
    const { state, pacer } = sending(ownTable(posted));
    for (let turns = 0; turns < 24; turns++) {
      await add(`announce:${turns}o`, [`own ${turns}`], "run-a");
      const row = (await outbox.head(addressKey(ADDRESS)))!;
      const [, isTakenBack] = await Promise.all([
        attempt(state, row, { place: pacer.take(ADDRESS), isLast: true }),
        // An announcement of several runs is taken back by whoever stops one of them, who may not know where it goes.
        later(turns, () => db.transaction(turns % 2 === 0 ? [] : [lock.chat(ADDRESS)], (tx) => outbox.withdraw(tx, row.delivery))),
      ]);
      expect({ said: posted.includes(`own ${turns}`), state: (await outbox.get(row.id))?.state }).toEqual(
        isTakenBack ? { said: false, state: "withdrawn" } : { said: true, state: "sent" },
      );
    }
  });

  it("[DL7][ST2] an announcement that is taken back in the moment it is to go out with another one: not said, or not taken back", async () => {
    const { db, outbox } = rig().stores;
    const { state, said, pacer } = sending({});
    for (let turns = 0; turns < 24; turns++) {
      const [first, second] = [`first ${turns}.`, `second ${turns}.`];
      await add(`announce:${turns}a`, [first], "run-a");
      await add(`announce:${turns}b`, [second], "run-b");
      const row = (await outbox.head(addressKey(ADDRESS)))!;
      const [, isTakenBack] = await Promise.all([
        attempt(state, row, { place: pacer.take(ADDRESS), isLast: true }),
        later(turns, () => db.transaction([lock.chat(ADDRESS)], (tx) => outbox.withdraw(tx, `announce:${turns}b`))),
      ]);
      const states = await db.all<{ state: string }>("SELECT state FROM outbox WHERE delivery LIKE ? ORDER BY id", `announce:${turns}_`);
      expect({ said: said.at(-1), states: states.map((one) => one.state) }).toEqual(
        isTakenBack ? { said: first, states: ["sent", "withdrawn"] } : { said: `${first} + ${second}`, states: ["sent", "sent"] },
      );
    }
    expect(said).toHaveLength(24);
  });

  it("[ST2] an announcement that was taken back since it was looked up is not said, also where the platform is a table of ours", async () => {
    const { db, outbox } = rig().stores;
    for (const isOwnTable of [true, false]) {
      const { state, said, pacer } = sending(isOwnTable ? ownTable() : {});
      await add(`announce:${isOwnTable}`, ["over"], "run-a");
      const row = (await outbox.head(addressKey(ADDRESS)))!;
      expect(await db.transaction([lock.chat(ADDRESS)], (tx) => outbox.withdraw(tx, row.delivery))).toBe(true);
      await attempt(state, row, { place: pacer.take(ADDRESS), isLast: true });
      expect([said, (await outbox.get(row.id))?.state]).toEqual([[], "withdrawn"]);
    }
  });
}

/** Reads on behind the last number it has seen until the writers are done and there is nothing more. */
async function readOn<T>(writers: Promise<unknown>, next: (after: number) => Promise<T[]>, numberOf: (row: T) => number): Promise<T[]> {
  let isOver = false;
  const over = writers.finally(() => {
    isOver = true;
  });
  const seen: T[] = [];
  for (let look = 0; look < 10_000; look++) {
    // Looked up before it reads: what came before the last writer was done is found by this look.
    const isLast = isOver;
    const rows = await next(seen.length === 0 ? 0 : numberOf(seen.at(-1) as T));
    seen.push(...rows);
    if (isLast && rows.length === 0) break;
  }
  await over;
  return seen;
}

/** What JSON can't say is refused when its row is written. */
const UNWRITABLE = {
  toJSON(): never {
    throw new Error("can't be written");
  },
};

function inboxWriters(rig: () => StoreRig): void {
  it("[AG1] two claims of one session's message at once give the same row and count two tries", async () => {
    const { inbox } = rig().stores;
    await inbox.sink("web", "local").put([{ externalId: "a", raw: {} }]);
    await inbox.route(1, CHAT_KEY);
    const claims = await Promise.all([inbox.claim(CHAT_KEY), inbox.claim(CHAT_KEY)]);
    expect(claims.map((row) => [row?.id, row?.attempts]).sort()).toEqual([
      [1, 1],
      [1, 2],
    ]);
  });

  it("[RC3] who reads on behind the last number sees each stored row once, and none of a batch that was not stored", async () => {
    const { inbox } = rig().stores;
    const put = async (n: number): Promise<string[]> => {
      const stored: string[] = [];
      for (let batch = 0; batch < 4; batch++) {
        const ids = [`${n}:${batch}:a`, `${n}:${batch}:b`] as const;
        const isRefused = (n + batch) % 3 === 0;
        const updates = [
          { externalId: ids[0], raw: ids[0] },
          { externalId: ids[1], raw: isRefused ? UNWRITABLE : ids[1] },
        ];
        const put = inbox.sink("web", "local").put(updates);
        if (isRefused) await expect(put).rejects.toThrow("can't be written");
        else await put.then(() => stored.push(...ids));
      }
      return stored;
    };
    const writers = Promise.all(many(12, put));
    const seen = await readOn(
      writers,
      (after) => inbox.listNew(after, 5),
      (row) => row.id,
    );
    expect(seen.map((row) => row.raw).sort()).toEqual((await writers).flat().sort());
  });
}

function pageWriters(rig: () => StoreRig): void {
  const open = async (): Promise<WebChannel> => {
    const { stores, bus } = rig();
    const channel = createWebChannel({ posts: createWebPosts(stores, WEB), bus, split: (markdown) => [markdown] });
    await channel.start(stores.inbox.sink(WEB.channel, WEB.account));
    return channel;
  };
  const post = (id: string, text: string) => ({ id, chat: "main", text, kind: "message" as const });
  const stored = async (): Promise<{ messages: string[]; inbox: unknown[]; rings: number }> => {
    const { webMessages, inbox } = rig().stores;
    return {
      messages: (await webMessages.list("main", { limit: 100 })).map((message) => message.text),
      inbox: (await inbox.listNew(0, 100)).map((row) => (row.raw as { text: string }).text),
      rings: rig().events.filter((event) => event.type === "web.posted").length,
    };
  };

  it("[RC3][WB1] one post several times at once is taken once, also when the first try could not be recorded", async () => {
    const channel = await open();
    const id = newId();
    const answers = await Promise.allSettled([
      channel.accept({ ...post(id, "hello"), ...UNWRITABLE }),
      ...many(5, () => channel.accept(post(id, "hello"))),
    ]);
    // The one that can't be written fails; but when it comes late it hears, like the others, that it is known.
    const isLate = answers[0]?.status === "fulfilled" && answers[0].value === "known";
    expect(reasons(answers)).toEqual(isLate ? [] : ["can't be written"]);
    expect(fulfilled(answers).sort()).toEqual(["accepted", ...many(isLate ? 5 : 4, () => "known")]);
    expect(await stored()).toEqual({ messages: ["hello"], inbox: ["hello"], rings: 1 });
  });

  it("[RC3][WB1] one id for several texts at once: one of them is taken, and it is the one that is answered", async () => {
    const channel = await open();
    const id = newId();
    const answers = await Promise.allSettled([
      channel.accept({ ...post(id, "text 0"), ...UNWRITABLE }),
      ...many(4, (n) => channel.accept(post(id, `text ${n + 1}`))),
    ]);
    // The one that can't be written fails; but when it comes late it hears, like the others, that the id is taken.
    const isLate = answers[0]?.status === "fulfilled" && answers[0].value === "conflict";
    expect(fulfilled(answers).sort()).toEqual(["accepted", ...many(isLate ? 4 : 3, () => "conflict")]);
    const taken = `text ${answers.findIndex((one) => one.status === "fulfilled" && one.value === "accepted")}`;
    expect(await stored()).toEqual({ messages: [taken], inbox: [taken], rings: 1 });
  });

  it("[WB2] a tab that reads on behind its cursor sees each message of its chat once, and none that was not taken", async () => {
    const channel = await open();
    const { webMessages } = rig().stores;
    const write = async (n: number): Promise<string[]> => {
      const taken: string[] = [];
      for (let turn = 0; turn < 5; turn++) {
        const text = `${n}:${turn}`;
        if ((n + turn) % 3 === 0) await expect(channel.accept({ ...post(newId(), text), ...UNWRITABLE })).rejects.toThrow();
        else {
          // The agent speaks as well, without waiting for the disk.
          if (n % 2 === 0) await channel.accept(post(newId(), text));
          else await channel.send({ address: ADDRESS, part: { text }, key: text, repeated: false });
          taken.push(text);
        }
      }
      return taken;
    };
    const writers = Promise.all(many(12, write));
    const seen = await readOn(
      writers,
      (afterSeq) => webMessages.list("main", { afterSeq, limit: 5 }),
      (message) => message.seq,
    );
    expect(seen.map((message) => message.text).sort()).toEqual((await writers).flat().sort());
  });

  it("[WB2][LV3] a tab that reads on behind the last change it saw has every message as it is in the end", async () => {
    const channel = await open();
    const { webMessages } = rig().stores;
    const refs = await Promise.all(
      many(6, async (n) => {
        const sent = await channel.send({ address: ADDRESS, part: { text: `new ${n}` }, key: `k${n}`, repeated: false });
        return sent.status === "sent" ? sent.ref : expect.unreachable();
      }),
    );
    // The clock of the test stands still: every change is in the same millisecond.
    const write = async (ref: string): Promise<void> => {
      for (let turn = 0; turn < 5; turn++)
        expect(await channel.edit?.({ address: ADDRESS, ref, part: { text: `${ref}:${turn}` } })).toEqual({ status: "shown" });
    };
    const writers = Promise.all(refs.map(write));
    const seen = await readOn(
      writers,
      (after) => webMessages.listEdited("main", after, 2),
      (message) => message.editedAt ?? 0,
    );
    const last = new Map(seen.map((message) => [String(message.seq), message.text]));
    expect(Object.fromEntries(last)).toEqual(Object.fromEntries(refs.map((ref) => [ref, `${ref}:4`])));
    expect(new Set(seen.map((message) => message.editedAt)).size).toBe(seen.length);
  });
}

function smallWriters(rig: () => StoreRig): void {
  const ask = (senderId: string): Promise<string | null> => {
    const { db, pairing } = rig().stores;
    const from = { channel: "telegram", account: "bot", senderId, senderName: senderId };
    return db.transaction([lock.pairing], (tx) =>
      pairing.request(tx, { ...from, address: { ...ADDRESS, channel: "telegram", chat: senderId } }),
    );
  };

  it("[SC1] six strangers ask at once: three get a code", async () => {
    const codes = await Promise.all(many(6, (n) => ask(`stranger-${n}`)));
    expect(codes.filter((code) => code !== null)).toHaveLength(3);
    expect((await rig().stores.pairing.listPending()).map((one) => one.code).sort()).toEqual(codes.filter((code) => code !== null).sort());
  });

  it("[SC1] one code approved and refused at once: one of the two decides, and the other is told that there is none", async () => {
    const { pairing } = rig().stores;
    for (const first of ["approve", "refuse"] as const) {
      const code = (await ask(`asked by ${first}`))!;
      const second = first === "approve" ? "refuse" : "approve";
      const decided = await Promise.all([pairing[first](code), pairing[second](code)]);
      expect(decided.filter((one) => one === null)).toHaveLength(1);
      const state = (decided[0] === null ? second : first) === "approve" ? "paired" : "refused";
      const people = (await pairing.listPeople()).filter((one) => one.senderId === `asked by ${first}`);
      expect(people.map((one) => one.state)).toEqual([state]);
    }
  });

  it("[NV2] twenty lines appended to one section at once all stand there", async () => {
    const { scratchpad } = rig().stores;
    const lines = many(20, (n) => `line ${n}`);
    await Promise.all(lines.map((line) => scratchpad.append(CHAT_KEY, "notes", line)));
    expect((await scratchpad.read(CHAT_KEY, "notes"))?.split("\n").sort()).toEqual(lines.sort());
  });

  it("[NV2] thirty sections written at once: twenty stay, the others are refused", async () => {
    const { scratchpad } = rig().stores;
    const answers = await Promise.all(many(30, (n) => scratchpad.write(CHAT_KEY, `section-${n}`, "text")));
    expect(answers.filter((answer) => answer.ok)).toHaveLength(20);
    const kept = (await scratchpad.sections(CHAT_KEY)).map((one) => one.section);
    expect(kept.sort()).toEqual(answers.flatMap((answer, n) => (answer.ok ? [`section-${n}`] : [])).sort());
  });

  it("[WB8] of many browsers that sign in at once a hundred stay", async () => {
    const { browsers } = rig().stores;
    await Promise.all(
      many(130, (n) => browsers.add({ cookieHash: `c${n}`, keyHash: `k${n}`, tokenMark: "t", seenFrom: "::1", agent: "a" })),
    );
    expect(await browsers.list()).toHaveLength(100);
  });

  it("[PR1] of many tokens of one name one is made; it is found by what it holds, of which only the hash is kept, until it is taken back", async () => {
    const { programTokens, db } = rig().stores;
    const wanted = { name: "claude", scopes: ["spawn", "read"], agentId: null, expiresAt: null } as const;
    const address = { channel: "telegram", account: "bot", chat: "1", kind: "dm" } as const;
    const made = (await Promise.all(many(8, () => programTokens.make({ ...wanted, address })))).filter((secret) => secret !== null);
    expect(made).toHaveLength(1);
    const [secret = ""] = made;
    const found = await programTokens.find(secret);
    expect(found).toMatchObject({ ...wanted, address, usedAt: null });
    expect(await programTokens.find(`${secret}x`)).toBeNull();
    expect(JSON.stringify(await db.all("SELECT * FROM program_tokens"))).not.toContain(secret);
    await programTokens.used(found?.id ?? "");
    expect((await programTokens.list()).map(({ name, usedAt }) => [name, usedAt !== null])).toEqual([["claude", true]]);
    expect([await programTokens.revoke("claude"), await programTokens.revoke("claude")]).toEqual([true, false]);
    expect([await programTokens.find(secret), await programTokens.get(found?.id ?? "")]).toEqual([null, null]);
  });
}

function turnWriters(rig: () => StoreRig): void {
  const channel: Channel = {
    ...{ name: "test", account: "a" },
    start: async () => {},
    stop: async () => {},
    health: () => ({ state: "on" }),
    decode: (raw) => ({
      kind: "message",
      address: { channel: "test", account: "a", chat: String(raw), kind: "dm" },
      ...{ sender: { id: "7" }, text: "do it", mentioned: true },
    }),
    render: (message) => [{ text: message.markdown }],
    send: async () => ({ status: "sent", ref: "x" }),
  };
  const agent: Agent = {
    ...{
      id: "main",
      name: "main",
      model: "test/model",
      fallbacks: [],
      thinking: "off",
      workspace: tmpdir(),
      maxIterations: 5,
      timeoutMs: 0,
    },
    policies: [],
    subagents: {} as Agent["subagents"],
  };

  it("[ST2][ST4] a stop in the moment a message is begun: it is not in the transcript, or it is marked as stopped there", async () => {
    const { stores, clock, bus } = rig();
    let asked = 0;
    const models = {
      async call({ signal, model }: ModelRequest): Promise<ModelReply> {
        asked++;
        // Until somebody stops it: a test that hangs here has lost its stop.
        await aborted(signal);
        return { ...okReply("half"), outcome: "aborted", model };
      },
      check: () => null,
      contextWindow: () => 100_000,
    };
    let onClaim: (() => void) | null = null;
    const failpoint: HitFailpoint = (name) => {
      if (name === "turn.claimed") onClaim?.();
    };
    const lane = createLane({ name: "main", concurrency: 1, onError: (_id, error) => expect.unreachable(String(error)) });
    const conversations: Conversations = createConversations({
      gather: noFiles,
      ...stores,
      ...{ clock, bus, log: silentLogger, failpoint, lane },
      payments: paymentsOf({ ...stores, clock, bus, failpoint }),
      turns: createTurns({ models, transcripts: stores.transcripts, failpoint: noFailpoints, secrets: createSecrets() }),
      agents: { defaultId: () => "main", find: () => agent, list: () => [agent] },
      channel: () => channel,
      tools: () => [],
      prompt: async () => ({ system: "system", topics: [] }),
      heldBack: () => 0,
    });
    lane.serve(conversations.work);
    for (let turns = 0; turns < 60; turns++) {
      const key = `agent:main:test:dm:chat-${turns}`;
      await stores.inbox.sink("test", "a").put([{ externalId: key, raw: `chat-${turns}` }]);
      const id = await stores.inbox.lastId();
      await stores.inbox.route(id, key);
      const before = asked;
      const halt = async (): Promise<number> => {
        await stores.db.transaction([lock.tree(key)], (tx) => conversations.halt(tx, key));
        return asked;
      };
      const stopping = atMoment(turns, halt);
      onClaim = stopping.start;
      lane.ring(key, key);
      const askedByThen = await stopping.done;
      await waitFor("the end", async () => !conversations.isActive(key) && (await lane.depth()).running === 0, 5_000);
      const session = await stores.sessions.find(key);
      const entries = session === null ? [] : await stores.transcripts.tail({ agentId: "main", sessionId: session.id }, 20);
      const isThere = entries.some((entry) => entry.id === `in:${id}`);
      const notes = session === null ? [] : await stores.mail.listNotes(session.id);
      // The turn it ends may still come to read the mark; then it stands in the transcript.
      const isMarked = notes.some((note) => note.from === stopMark(`in:${id}`)) || entries.some((entry) => stoppedBy(entry) === `in:${id}`);
      expect({ turns, isThere, isMarked }).toEqual({ turns, isThere, isMarked: isThere });
      expect(asked).toBe(askedByThen);
      expect(asked - before).toBeLessThanOrEqual(isThere ? 1 : 0);
    }
    await lane.drain();
  });
}
