// A waiting message → its turn → the reply and the done row, on real stores and real turns; only the model is the test's.
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { z } from "zod";
import type { Agent } from "../../../src/agents/agent.ts";
import { createTurns } from "../../../src/agents/turn.ts";
import { noFailpoints } from "../../../src/core/failpoints.ts";
import type { Channel } from "../../../src/core/message.ts";
import { createSecrets } from "../../../src/core/secrets.ts";
import { defineTool, type Tool } from "../../../src/core/tool.ts";
import { type Conversations, createConversations } from "../../../src/gateway/conversation.ts";
import { createLane } from "../../../src/lanes/lanes.ts";
import type { ModelReply, ModelRequest } from "../../../src/models/model.ts";
import { settle } from "../../contract/lanes.contract.ts";
import { noFiles } from "../../support/files.ts";
import { paymentsOf } from "../../support/payments.ts";
import { createStateFolder, type StateFolder } from "../../support/state-folder.ts";
import { waitFor } from "../../support/wait.ts";

const KEY = "agent:main:test:dm:ann";
let folder: StateFolder;
let conversations: Conversations;
let asked: ModelRequest[];
let answer: (request: ModelRequest) => Partial<ModelReply> | Promise<Partial<ModelReply>>;
let signs: string[];
let timeoutMs: number;
let isOn: boolean;
let agentId: string;
let isOperators: boolean;
let lane: ReturnType<typeof createLane>;
let tools: readonly Tool[];

const channel = (): Channel => ({
  name: "test",
  account: "a",
  isOperators,
  start: async () => {},
  stop: async () => {},
  health: () => ({ state: "on" }),
  decode: (raw) => {
    const { text, kind = "dm" } = raw as { text: string; kind?: "dm" | "group" };
    return {
      kind: "message",
      address: { channel: "test", account: "a", chat: "ann", kind },
      sender: { id: "7", name: 'Ann "x"' },
      text,
      mentioned: true,
    };
  },
  render: (message) => {
    if (message.markdown === "unprintable") throw new Error("no font");
    return [{ text: message.markdown }];
  },
  send: async () => ({ status: "sent", ref: "x" }),
  status: async (_address, state) => void signs.push(state),
});

const agent = (): Agent => ({
  ...{ id: "main", name: "main", model: "test/model", fallbacks: [], thinking: "off", workspace: folder.stateDir, maxIterations: 5 },
  timeoutMs,
  policies: [],
  subagents: {} as Agent["subagents"],
});

function create(): void {
  const { stores } = folder;
  const models = {
    async call(request: ModelRequest): Promise<ModelReply> {
      asked.push(request);
      const empty = { outcome: "ok", text: "", toolCalls: [], finish: "stop", usage: null, costUsd: null, model: request.model } as const;
      return { ...empty, ...(await answer(request)) };
    },
    check: () => null,
    contextWindow: () => 100_000,
  };
  lane = createLane({ name: "main", concurrency: 1, onError: (_id, error) => expect.unreachable(String(error)) });
  conversations = createConversations({
    gather: noFiles,
    ...stores,
    ...{ clock: folder.clock, bus: folder.bus, log: folder.log, failpoint: noFailpoints, lane },
    payments: paymentsOf({ ...stores, clock: folder.clock, bus: folder.bus, failpoint: noFailpoints }),
    turns: createTurns({ models, transcripts: stores.transcripts, failpoint: noFailpoints, secrets: createSecrets() }),
    agents: { defaultId: () => "main", find: (id) => (id === agentId ? agent() : null), list: () => [agent()] },
    channel: (name, account) => (isOn && name === "test" && account === "a" ? channel() : null),
    tools: () => tools,
    prompt: async () => ({ system: "system", topics: [] }),
    heldBack: () => 0,
  });
  lane.serve(conversations.work);
}

beforeEach(async () => {
  folder = await createStateFolder();
  tools = [];
  [asked, signs, timeoutMs, isOn, agentId, isOperators] = [[], [], 0, true, "main", false];
  answer = (request) => ({ text: `answer to ${request.messages.at(-1)?.text}` });
  create();
});
afterEach(async () => {
  conversations.suspend();
  await lane.drain();
  folder[Symbol.dispose]();
});

let n = 0;
async function arrive(text: string, kind = "dm"): Promise<void> {
  const { inbox } = folder.stores;
  await inbox.sink("test", "a").put([{ externalId: `m${n++}`, raw: { text, kind } }]);
  for (const row of await inbox.listNew(0, 10)) await inbox.route(row.id, KEY);
  lane.ring(KEY, KEY);
}
const replies = async (): Promise<string[]> =>
  (await folder.stores.db.all<{ part: string }>("SELECT part FROM outbox ORDER BY id")).map((row) => JSON.parse(row.part).text);
const rows = (): Promise<unknown[]> => folder.stores.db.all("SELECT state, attempts FROM inbox ORDER BY id");
const answered = (count: number): Promise<unknown> => waitFor(`${count} replies`, async () => (await replies()).length === count);

const halt = (): Promise<boolean> => folder.stores.db.transaction([], (tx) => conversations.halt(tx, KEY));
const ended = (): Promise<unknown> => waitFor("the end", () => !conversations.isActive(KEY));

it("[AG1] what arrives during a turn waits and is answered next, in order", async () => {
  const door = Promise.withResolvers<void>();
  answer = async (request) => {
    await door.promise;
    return { text: `answer to ${request.messages.at(-1)?.text}` };
  };
  await arrive("one");
  await waitFor("the first to be asked", () => asked.length === 1);
  await arrive("two");
  await arrive("three");
  await settle();
  expect(asked).toHaveLength(1);
  door.resolve();
  await answered(3);
  expect(await replies()).toEqual(["answer to one", "answer to two", "answer to three"]);
  expect(await folder.stores.db.all("SELECT delivery FROM outbox ORDER BY id")).toEqual([
    { delivery: "reply:1" },
    { delivery: "reply:2" },
    { delivery: "reply:3" },
  ]);
});

it("[ST2] a second stop while the first one's turn is still going finds nothing more to end", async () => {
  const door = Promise.withResolvers<void>();
  // A model that takes its time to notice.
  answer = () => door.promise.then(() => ({ text: "too late" }));
  await arrive("one");
  await waitFor("the model to be asked", () => asked.length === 1);
  expect(await halt()).toBe(true);
  expect(conversations.isActive(KEY)).toBe(true);
  expect(await halt()).toBe(false);
  door.resolve();
  await ended();
  expect(await replies()).toEqual([]);
});

it("[AG4] the chat shows that it works, again every few seconds, and rests afterwards", async () => {
  const door = Promise.withResolvers<void>();
  answer = () => door.promise.then(() => ({ text: "done" }));
  await arrive("one");
  await waitFor("the first sign", () => signs.length === 1);
  await folder.clock.advance(9_000);
  expect(signs).toEqual(["working", "working", "working"]);
  door.resolve();
  await answered(1);
  expect(signs.at(-1)).toBe("idle");
  expect(folder.events.filter((event) => event.type.startsWith("turn.")).map((event) => event.type)).toEqual([
    "turn.started",
    "turn.doing",
    "turn.ended",
  ]);
});

it.each([3, 4, 20])(
  "[RC1][RC4] a message whose process died %i times is answered with an apology instead of one more try",
  async (died) => {
    await folder.stores.inbox.sink("test", "a").put([{ externalId: "poison", raw: { text: "poison" } }]);
    await folder.stores.inbox.route(1, KEY);
    for (let crash = 0; crash < died; crash++) await folder.stores.inbox.claim(KEY);
    lane.ring(KEY, KEY);
    await answered(1);
    expect((await replies())[0]).toContain(`This message could not be answered: the gateway ended ${died} times while working on it`);
    // Its words may have nothing to do with it.
    expect((await replies())[0]).toMatch(/need not be its fault\. Sending it again is worth a try/);
    expect(asked).toEqual([]);
    await arrive("next");
    await answered(2);
  },
);

it("[RC4] a message whose apology ended the process too is dropped, and the next one is answered", async () => {
  await folder.stores.inbox.sink("test", "a").put([{ externalId: "poison", raw: { text: "poison" } }]);
  await folder.stores.inbox.route(1, KEY);
  for (let crash = 0; crash < 21; crash++) await folder.stores.inbox.claim(KEY);
  await arrive("next");
  await answered(1);
  expect(await replies()).toEqual(["answer to next"]);
});

it("[RC4] a disk that refuses: the message waits, is tried again, and the spoilt tries are not held against it", async () => {
  await folder.stores.db.transaction([], (tx) => tx.run("PRAGMA busy_timeout=10"));
  const other = new DatabaseSync(join(folder.stateDir, "herald.db"));
  answer = (request) => {
    // The disk fills up while the model answers, again and again.
    if (asked.length <= 5) other.exec("BEGIN IMMEDIATE");
    return { text: `answer to ${request.messages.at(-1)?.text}`, usage: { input: 1, output: 1, cacheRead: 0, cacheWrite: 0 } };
  };
  await arrive("one");
  for (let round = 1; round <= 5; round++) {
    await waitFor("the refusal", () => folder.lines.filter((line) => line.msg === "a message could not be answered").length === round);
    if (round < 5) await folder.clock.advance(5_000);
    other.exec("ROLLBACK");
    await folder.clock.advance(5_000);
  }
  await answered(1);
  other.close();
  expect(await replies()).toEqual(["answer to one"]);
  expect(await rows()).toEqual([{ state: "done", attempts: 1 }]);
});

it("[RC4] a transcript that is gone: one sentence, the row is settled, nothing is recreated, the next chat works", async () => {
  await arrive("one");
  await answered(1);
  const session = await folder.stores.sessions.find(KEY);
  const path = folder.stores.transcripts.path({ agentId: "main", sessionId: session?.id ?? "" });
  await folder.reopen();
  create();
  rmSync(path);
  await arrive("two");
  await answered(2);
  expect((await replies())[1]).toMatch(
    /^⚠️ This message could not be answered: The transcript …\/[^/]*\.jsonl can't be opened: ENOENT[^/]*'…\/[^/]*\.jsonl'\. The log says more; \/new starts a new conversation\.$/,
  );
  expect(existsSync(path)).toBe(false);
  expect(await rows()).toEqual([
    { state: "done", attempts: 1 },
    { state: "done", attempts: 1 },
  ]);
});

it("[ST1] a turn aborted after its rows were dropped says nothing", async () => {
  answer = ({ signal }) => new Promise((resolve) => signal.addEventListener("abort", () => resolve({ outcome: "aborted", text: "half" })));
  await arrive("one");
  await waitFor("the turn", () => asked.length === 1);
  expect(await halt()).toBe(true);
  await ended();
  expect(await replies()).toEqual([]);
  expect(await halt()).toBe(false);
});

describe("a request that was stopped", () => {
  const hang: typeof answer = ({ signal }) =>
    new Promise((resolve) => signal.addEventListener("abort", () => resolve({ outcome: "aborted", text: "I begin" })));
  const isStopNote = (text: string): boolean => /^\[The gateway notes: the person ended the request above with \/stop/.test(text);

  it("[ST4] is marked so in what later turns read, once, right before the next question", async () => {
    answer = hang;
    await arrive("delete everything");
    await waitFor("the turn", () => asked.length === 1);
    await halt();
    await ended();
    answer = (request) => ({ text: `answer to ${request.messages.at(-1)?.text}` });
    await arrive("what time is it?");
    await answered(1);
    expect(await replies()).toEqual(["answer to what time is it?"]);
    const read = asked[1]?.messages.map((message) => message.text) ?? [];
    expect(read.map((text) => (isStopNote(text) ? "STOPPED" : text))).toEqual([
      "delete everything",
      "I begin",
      "STOPPED",
      "what time is it?",
    ]);
    expect(read[2]).toMatch(/not to be carried out/);
    await arrive("and now?");
    await answered(2);
    // Byte for byte what was there before, and the mark only once.
    expect(asked[2]?.messages.slice(0, 4)).toEqual(asked[1]?.messages);
    expect(asked[2]?.messages.filter((message) => isStopNote(message.text))).toHaveLength(1);
  });

  it("[ST4] killed right after the stop was recorded: the mark is in the transaction of the stop, and its open call is stopped too", async () => {
    const { transcripts } = folder.stores;
    answer = (request) =>
      asked.length > 1 ? hang(request) : { text: "looking", toolCalls: [{ id: "c1", name: "none", args: {} }], finish: "tool-calls" };
    await arrive("delete everything");
    await waitFor("the second step", () => asked.length === 2);
    await halt();
    await ended();
    // As a process leaves it that was killed before the tool had its result.
    const session = await folder.stores.sessions.find(KEY);
    const ref = { agentId: "main", sessionId: session?.id ?? "" };
    const path = transcripts.path(ref);
    const lines = readFileSync(path, "utf8").trimEnd().split("\n");
    const call = lines.findIndex((line) => line.includes('"tool_call"'));
    await folder.reopen();
    writeFileSync(path, `${lines.slice(0, call + 1).join("\n")}\n`);
    create();
    answer = () => ({ text: "noon" });
    asked = [];
    await arrive("what time is it?");
    await answered(1);
    expect(asked[0]?.messages.map((message) => message.role)).toEqual(["user", "assistant", "tool", "user", "user"]);
    expect(asked[0]?.messages[2]?.text).toMatch(/stopped by the person/i);
    expect(isStopNote(asked[0]?.messages[3]?.text ?? "")).toBe(true);
    expect(asked[0]?.messages[4]?.text).toBe("what time is it?");
  });

  it("[ST4] that no model ever read needs no mark, and an answered one gets none", async () => {
    await arrive("one");
    await answered(1);
    expect(await halt()).toBe(false);
    await folder.stores.inbox.sink("test", "a").put([{ externalId: "late", raw: { text: "dropped unread" } }]);
    for (const row of await folder.stores.inbox.listNew(0, 10)) await folder.stores.inbox.route(row.id, KEY);
    expect(await halt()).toBe(true);
    await arrive("two");
    await answered(2);
    expect(asked[1]?.messages.map((message) => message.text)).toEqual(["one", "answer to one", "two"]);
  });

  it("[ST3][ST4] an answer that was stopped is marked as read up to there", async () => {
    answer = hang;
    await arrive("tell me a story");
    await waitFor("the turn", () => asked.length === 1);
    await folder.stores.db.transaction([], (tx) => conversations.stopAnswer(tx, KEY, { note: "Stopped here.", buttons: [] }));
    await ended();
    answer = () => ({ text: "ok" });
    await arrive("thanks");
    await answered(2);
    expect(asked[1]?.messages.at(-2)?.text).toMatch(/^\[The gateway notes: the person stopped the answer above/);
    expect(asked[1]?.messages.at(-1)?.text).toBe("thanks");
  });
});

it("[RN4] a suspended turn leaves its row waiting and uncounted, and goes on from its transcript", async () => {
  answer = ({ signal }) =>
    new Promise((resolve) => signal.addEventListener("abort", () => resolve({ outcome: "aborted", text: "half an" })));
  await arrive("one");
  await waitFor("the turn", () => asked.length === 1);
  conversations.suspend();
  await ended();
  expect(await rows()).toEqual([{ state: "waiting", attempts: 0 }]);
  answer = () => ({ text: "the whole answer" });
  lane.ring(KEY, KEY);
  await answered(1);
  expect(await replies()).toEqual(["the whole answer"]);
  expect(asked[1]?.messages.filter((message) => message.text === "one")).toHaveLength(1);
});

it("[RC1] a message whose channel is off waits, uncounted, for a start with it on; nothing spins meanwhile", async () => {
  isOn = false;
  await arrive("one");
  await settle();
  expect(await rows()).toEqual([{ state: "new", attempts: 0 }]);
  expect(folder.lines.filter((line) => line.level !== "debug")).toHaveLength(1);
  isOn = true;
  await arrive("two");
  await answered(2);
  expect(await replies()).toEqual(["answer to one", "answer to two"]);
});

it("[RC1] a message to a bot that is gone holds up none to the one in its place", async () => {
  const { inbox } = folder.stores;
  await inbox.sink("test", "old bot").put([{ externalId: "1", raw: { text: "to the old one" } }]);
  await inbox.route(1, KEY);
  await arrive("one");
  await answered(1);
  expect(await replies()).toEqual(["answer to one"]);
  expect(await rows()).toEqual([
    { state: "new", attempts: 0 },
    { state: "done", attempts: 1 },
  ]);
});

it("[RC1] a message whose agent is gone is answered with one sentence", async () => {
  agentId = "another";
  await arrive("one");
  await answered(1);
  expect(await replies()).toEqual([
    '⚠️ This message could not be answered: its agent "main" is not in the settings any more. Send it again, and the present one answers.',
  ]);
  expect(await rows()).toEqual([{ state: "done", attempts: 1 }]);
});

it("[ST1] a compaction that is stopped says so, and the next one works", async () => {
  for (const text of ["one", "two"]) await arrive(text.repeat(10_000));
  await answered(2);
  answer = ({ signal }) => new Promise((resolve) => signal.addEventListener("abort", () => resolve({ outcome: "aborted" })));
  const compacted = conversations.compact(KEY);
  await waitFor("the model", () => asked.length === 3);
  expect(await halt()).toBe(true);
  expect(await compacted).toBe("stopped");
  answer = () => ({ text: "summed up" });
  expect(await conversations.compact(KEY)).toBe("done");
});

it("[AG2] a turn past its time is ended and says so", async () => {
  timeoutMs = 60_000;
  answer = ({ signal }) => new Promise((resolve) => signal.addEventListener("abort", () => resolve({ outcome: "aborted" })));
  await arrive("one");
  await waitFor("the turn", () => asked.length === 1);
  await folder.clock.advance(60_000);
  await answered(1);
  expect((await replies())[0]).toMatch(/^⚠️ The turn was ended after 60 s\. What it did so far is kept/);
});

it("[QA2][AG2][AG4] while a person is asked its time stands still and nobody is shown to work; it goes on where it was", async () => {
  timeoutMs = 60_000;
  const { questions, db } = folder.stores;
  const find = () => questions.findByCall("the call");
  tools = [
    defineTool({
      ...{ name: "asks", description: "Asks.", schema: z.strictObject({}), capability: "read", repeatable: true },
      async waitsFor(_, { sessionId, turnId }) {
        const wanted = { kind: "ask", rootKey: KEY, sessionId, runId: null, generation: 1, turnId, asker: "main", text: "Now?" } as const;
        const more = {
          callKey: "the call",
          address: { channel: "test", account: "a", chat: "ann", kind: "dm" },
          tool: null,
          digest: null,
        } as const;
        const {
          id,
          state,
          createdAt: since,
          expiresAt: until,
        } = (await find()) ??
        (
          await db.transaction([], (tx) =>
            questions.put(tx, { ...wanted, ...more, options: [], expiresAt: folder.clock.now() + 3_600_000 }),
          )
        ).question;
        return state === "open" ? { for: "answer", id, since, until } : null;
      },
      run: async () => ({ text: "answered" }),
    }),
  ];
  answer = () => (asked.length === 1 ? { toolCalls: [{ id: "c", name: "asks", args: {} }] } : { text: "done" });
  await arrive("one");
  await waitFor("the question", find);
  await waitFor("it to rest", () => signs.at(-1) === "idle");
  const before = signs.length;
  await folder.clock.advance(600_000);
  expect([await replies(), signs.length]).toEqual([[], before]);
  const { id = "" } = (await find()) ?? {};
  await db.transaction([], (tx) => questions.answer(tx, id, { by: { id: "7" }, answer: "yes", verdict: null }));
  await answered(1);
  expect([await replies(), signs.slice(before)]).toEqual([["done"], ["working", "idle"]]);
});

it("[AG3] a model that fails: the chat reads what a person there can do, the settings are for whoever runs the gateway", async () => {
  const error = { kind: "auth", message: "The key is refused.", remedy: "Set SOME_KEY." } as const;
  answer = () => ({ outcome: "error", error });
  await arrive("one");
  await answered(1);
  expect(folder.lines).toContainEqual(expect.objectContaining({ level: "warn", msg: "The key is refused.", remedy: "Set SOME_KEY." }));
  isOperators = true;
  await arrive("two");
  await answered(2);
  answer = () => ({ outcome: "error", error: { kind: "context", message: "It no longer fits." } });
  await arrive("three");
  await answered(3);
  expect(await replies()).toEqual([
    "⚠️ The key is refused.",
    "⚠️ The key is refused. Set SOME_KEY.",
    "⚠️ It no longer fits. /compact makes room, /new starts afresh.",
  ]);
});

it("[AG2] a silent model, a broken renderer and a cap each give the chat words", async () => {
  answer = () => ({ text: "  " });
  await arrive("one");
  await answered(1);
  answer = () => ({ text: "unprintable" });
  await arrive("two");
  await answered(2);
  answer = () => ({ text: "and", finish: "length" });
  await arrive("three");
  await answered(3);
  expect(await replies()).toEqual([
    "(The agent ended its turn without saying anything.)",
    "⚠️ The answer could not be shown: no font",
    expect.stringMatching(/^and\n\n_Stopped early: .*length limit\. Say "go on"/),
  ]);
});

it("[AN5] in a group the speaker's name is data, quoted, so that it can't pose as anything else", async () => {
  await arrive("hello", "group");
  await answered(1);
  expect(asked[0]?.messages.at(-1)?.text).toBe('[from "Ann \\"x\\""]\nhello');
});

it("[AN5] notes that wait for the session are read before the model is asked, once", async () => {
  await arrive("one");
  await answered(1);
  await folder.stores.db.transaction([], async (tx) =>
    folder.stores.mail.addNote(tx, (await folder.stores.sessions.find(KEY))?.id ?? "", "run:1", "[Sub-agent done: 42]"),
  );
  await arrive("two");
  await answered(2);
  await arrive("three");
  await answered(3);
  const counts = asked.map((request) => request.messages.filter((message) => message.text.startsWith("[Sub-agent")).length);
  expect(counts).toEqual([0, 1, 1]);
});

it("[SE7] /compact that fails says why, and the history stays as it was", async () => {
  for (const text of ["one", "two"]) await arrive(text.repeat(10_000));
  await answered(2);
  const session = await folder.stores.sessions.find(KEY);
  const before = await folder.stores.transcripts.tail({ agentId: "main", sessionId: session?.id ?? "" }, 100);
  answer = () => ({ outcome: "error", error: { kind: "overload", message: "The provider is down." } });
  expect(await conversations.compact(KEY)).toEqual({ failed: "The provider is down." });
  expect(await folder.stores.transcripts.tail({ agentId: "main", sessionId: session?.id ?? "" }, 100)).toEqual(before);
});

it("[SE7] /compact of more than can be summed up counts what is left out", async () => {
  await arrive("one");
  await answered(1);
  const ref = { agentId: "main", sessionId: (await folder.stores.sessions.find(KEY))?.id ?? "" };
  const entry = { type: "message", role: "user", text: "x".repeat(4_000), from: "Ann" } as const;
  await folder.stores.transcripts.append(
    ref,
    Array.from({ length: 800 }, () => entry),
  );
  answer = () => ({ text: "- much was said" });
  expect(await conversations.compact(KEY)).toEqual({ leftOut: expect.any(Number) });
  const [made] = await folder.stores.transcripts.tail(ref, 1);
  expect(made).toMatchObject({ type: "compaction", summary: expect.stringMatching(/^\(\d+ older messages were too many/) });
});

it("[SE7] an answer made without a part of the history says so in the chat", async () => {
  answer = (request) => (request.system.startsWith("[COMPACTION]") ? { text: "" } : { text: "the answer" });
  for (const text of ["one", "two", "three", "four"]) await arrive(`${text} ${"x".repeat(100_000)}`);
  await answered(4);
  expect((await replies())[0]).toBe("the answer");
  expect((await replies())[3]).toMatch(
    /^the answer\n\n_⚠️ .*could not be summed up: the model said nothing\..*\d+ earlier messages did not fit.*_$/,
  );
});
