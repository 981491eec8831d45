// outbox → channel.send on a real outbox and a clock the test drives; the channel does as the test says.
import { afterEach, beforeEach, expect, it } from "vitest";
import { type Address, addressKey } from "../../../src/core/address.ts";
import { noFailpoints } from "../../../src/core/failpoints.ts";
import type { Channel, Pace, Part, Reconciled, ReconcileRequest, SendRequest, SendResult } from "../../../src/core/message.ts";
import { createDelivery, type Delivery } from "../../../src/gateway/delivery.ts";
import { createStateFolder, type StateFolder } from "../../support/state-folder.ts";
import { waitFor } from "../../support/wait.ts";

type Send = (request: SendRequest) => SendResult | Promise<SendResult>;

let folder: StateFolder;
let delivery: Delivery;
let attempts: { text: unknown; at: number; request: SendRequest }[];
let send: Send;
let reconcile: ((key: string, since: number) => Reconciled) | null;
let isOn: boolean;
let pace: Pace | undefined;
let runs: string[];
let startedAt: number;

const HOME: Address = { channel: "test", account: "a", chat: "home", kind: "dm" };
const AWAY: Address = { ...HOME, chat: "away" };
const ok: Send = ({ key }) => ({ status: "sent", ref: `ref ${key}` });
const retry =
  (afterMs?: number): Send =>
  () => ({ status: "retry", reason: "busy", ...(afterMs === undefined ? {} : { afterMs }) });
/** One answer per attempt, the last one again and again. */
const inTurn = (...answers: Send[]): Send => {
  let n = 0;
  return (request) => (answers[Math.min(n++, answers.length - 1)] as Send)(request);
};

function makeChannel(): Channel {
  return {
    name: "test",
    account: "a",
    start: async () => {},
    stop: async () => {},
    health: () => ({ state: "on" }),
    decode: () => null,
    render: () => [{}],
    ...(pace === undefined ? {} : { pace }),
    join: (parts) => {
      const text = parts.map((part) => part.text).join(" & ");
      return text.length > 60 ? null : { text };
    },
    async send(request) {
      attempts.push({ text: request.part.text, at: folder.clock.now() - startedAt, request });
      return send(request);
    },
    ...(reconcile === null
      ? {}
      : { reconcile: async ({ key, since }: ReconcileRequest) => reconcile?.(key, since) ?? { status: "absent" as const } }),
  };
}

async function start(): Promise<void> {
  const { db, outbox } = folder.stores;
  delivery = createDelivery({
    ...{ db, outbox, clock: folder.clock, bus: folder.bus, log: folder.log, failpoint: noFailpoints },
    channel: (name) => (isOn && name === "test" ? makeChannel() : null),
    async recordDelivery(_tx, row, state, reason) {
      if (row.runId !== null) runs.push([row.runId, state, reason].filter((one) => one !== undefined).join(" "));
    },
  });
  await delivery.start();
}

/** As after kill -9: nothing is settled, another process begins. */
async function startAgain(): Promise<void> {
  void delivery.stop();
  await folder.reopen();
  await start();
}

const add = (id: string, texts: string[], to = HOME, runId?: string): Promise<boolean> =>
  folder.stores.db.transaction([], (tx) =>
    folder.stores.outbox.add(tx, {
      delivery: id,
      address: to,
      parts: texts.map((text): Part => ({ text })),
      ...(runId === undefined ? {} : { runId }),
    }),
  );
const settled = (count: number): Promise<unknown> => waitFor(`${count} attempts`, () => attempts.length >= count);
const texts = (): unknown[] => attempts.map((one) => one.text);
const open = (): Promise<number> => folder.stores.outbox.countAllOpen();
const allSent = (): Promise<unknown> => waitFor("an empty outbox", async () => (await open()) === 0);

beforeEach(async () => {
  folder = await createStateFolder();
  [attempts, send, reconcile, isOn, runs, startedAt] = [[], ok, null, true, [], folder.clock.now()];
  pace = undefined;
});
afterEach(async () => {
  await delivery.stop();
  folder[Symbol.dispose]();
});

it("[DL5] per address in order, part by part, one at a time", async () => {
  let atOnce = 0;
  send = async (request) => {
    expect(++atOnce).toBe(1);
    await new Promise((resolve) => setImmediate(resolve));
    atOnce--;
    return ok(request);
  };
  await add("reply:1", ["a1", "a2", "a3"]);
  await start();
  await add("reply:2", ["b1"]);
  await allSent();
  await add("reply:3", ["c1"]);
  await allSent();
  expect(texts()).toEqual(["a1", "a2", "a3", "b1", "c1"]);
  expect(attempts.map((one) => one.request.key)).toEqual(["reply:1#0", "reply:1#1", "reply:1#2", "reply:2#0", "reply:3#0"]);
  expect(await folder.stores.outbox.get(1)).toMatchObject({ state: "sent", ref: "ref reply:1#0" });
  expect(folder.events.filter((event) => event.type === "outbox.settled")).toHaveLength(3);
});

it("[DL5] a chat that hangs or fails delays nobody else", async () => {
  const door = Promise.withResolvers<SendResult>();
  send = (request) => (request.address.chat === "home" ? door.promise : ok(request));
  await start();
  await add("reply:1", ["stuck"]);
  await add("reply:2", ["fine"], AWAY);
  await add("reply:3", ["fine too"], AWAY);
  await waitFor("the others", async () => (await folder.stores.outbox.head(addressKey(AWAY))) === null);
  expect(await open()).toBe(1);
  door.resolve({ status: "sent", ref: "x" });
  await allSent();
});

it("[DL3] PROC-018 backs off from 1 s, doubling, to 5 min, and gives up after 24 h with the reason", async () => {
  send = retry();
  await start();
  await add("announce:1", ["text"], HOME, "run-1");
  await folder.clock.advance(25 * 3_600_000);
  const gaps = attempts.slice(1).map((one, n) => (one.at - (attempts[n]?.at ?? 0)) / 1_000);
  expect(gaps.slice(0, 10)).toEqual([1, 2, 4, 8, 16, 32, 64, 128, 256, 300]);
  expect(new Set(gaps.slice(10))).toEqual(new Set([300]));
  expect(attempts.at(-1)?.at).toBeGreaterThanOrEqual(24 * 3_600_000);
  expect(attempts.at(-1)?.at).toBeLessThan(24 * 3_600_000 + 600_000);
  expect(await folder.stores.outbox.get(1)).toMatchObject({ state: "blocked", reason: "not delivered within 24 h: busy" });
  expect(runs.at(-1)).toBe("run-1 blocked not delivered within 24 h: busy");
});

it("[DL3] retry_after is honoured, also when it is longer than the backoff, and in the order of the chat", async () => {
  send = inTurn(retry(7_500), ok);
  await start();
  await add("reply:1", ["one"]);
  await add("reply:2", ["two"]);
  await settled(1);
  await folder.clock.advance(7_000);
  expect(attempts).toHaveLength(1);
  await folder.clock.advance(600);
  await allSent();
  expect(attempts.map((one) => [one.text, one.at])).toEqual([
    ["one", 0],
    ["one", 7_500],
    ["two", 7_500],
  ]);
});

it("[DL3] a new message for a waiting chat doesn't cut its wait short", async () => {
  send = inTurn(retry(5_000), ok);
  await start();
  await add("reply:1", ["one"]);
  await settled(1);
  await folder.clock.advance(1_000);
  await add("reply:2", ["two"]);
  await folder.clock.advance(1_000);
  expect(attempts).toHaveLength(1);
  await folder.clock.advance(3_000);
  await allSent();
});

it("[DL6] a message that fails steps aside: what comes behind it goes ahead, and it follows when it can", async () => {
  send = (request) => (request.part.text === "failing" && attempts.length < 4 ? { status: "retry", reason: "503" } : ok(request));
  await start();
  await add("announce:1", ["failing"], HOME, "run-1");
  await add("reply:2", ["two"]);
  await add("answer:3", ["three"]);
  await folder.clock.advance(0);
  expect(attempts.map((one) => [one.text, one.at])).toEqual([
    ["failing", 0],
    ["two", 0],
    ["three", 0],
  ]);
  await folder.clock.advance(1_000);
  expect(attempts.slice(3).map((one) => [one.text, one.at])).toEqual([["failing", 1_000]]);
  expect(runs).toEqual(["run-1 sending", "run-1 sending 503; next try 2026-01-01T00:00:01.000Z", "run-1 sending", "run-1 delivered"]);
});

it("[DL6] a message that fails for hours holds up nobody, however many come behind it", async () => {
  send = (request) => (request.part.text === "failing" ? { status: "unknown", reason: "500" } : ok(request));
  await start();
  await add("announce:1", ["failing"], HOME, "run-1");
  for (let n = 0; n < 200; n++) {
    await add(`reply:${n}`, [`${n}`]);
    await folder.clock.advance(60_000);
    expect(attempts.findLast((one) => one.text === `${n}`)?.at).toBe(n * 60_000);
  }
  expect(await folder.stores.outbox.listAside(addressKey(HOME), 5)).toHaveLength(1);
});

it("[DL6][DL2] parts of one message stay in order, whatever goes ahead of them, and after a restart", async () => {
  send = (request) => (request.part.text === "a2" && attempts.length < 5 ? { status: "retry", reason: "503" } : ok(request));
  await start();
  await add("reply:1", ["a1", "a2", "a3"]);
  await add("reply:2", ["b1", "b2"]);
  await folder.clock.advance(0);
  expect(texts()).toEqual(["a1", "a2", "b1", "b2"]);
  await startAgain();
  await add("reply:3", ["c1"]);
  await folder.clock.advance(1_000);
  await allSent();
  expect(texts()).toEqual(["a1", "a2", "b1", "b2", "c1", "a2", "a3"]);
});

it("[DL6] the answer to a command goes before everything else that waits there, also between two parts", async () => {
  const door = Promise.withResolvers<SendResult>();
  send = inTurn(() => door.promise, ok);
  await start();
  await add("reply:1", ["a1", "a2"]);
  await add("announce:2", ["b"], HOME, "run-1");
  await settled(1);
  await folder.stores.db.transaction([], (tx) =>
    folder.stores.outbox.add(tx, { delivery: "answer:3", address: HOME, parts: [{ text: "stopped" }], isAnswer: true }),
  );
  door.resolve({ status: "sent", ref: "x" });
  await allSent();
  expect(texts()).toEqual(["a1", "stopped", "a2", "b"]);
});

it("[DL6] an attempt that hangs is waited for two seconds; then what comes behind it goes ahead, and nobody sends it twice", async () => {
  const door = Promise.withResolvers<SendResult>();
  send = (request) => (request.part.text === "hangs" ? door.promise : ok(request));
  await start();
  await add("reply:1", ["hangs", "its second part"]);
  await add("reply:2", ["two"]);
  await folder.clock.advance(1_999);
  expect(texts()).toEqual(["hangs"]);
  await folder.clock.advance(1);
  await add("reply:3", ["three"]);
  await folder.clock.advance(120_000);
  expect(texts()).toEqual(["hangs", "two", "three"]);
  door.resolve({ status: "sent", ref: "x" });
  await allSent();
  expect(texts()).toEqual(["hangs", "two", "three", "its second part"]);
  expect(await folder.stores.outbox.get(1)).toMatchObject({ state: "sent", ref: "x" });
});

it("[DL6][ST1] the answer to a command waits a moment for an attempt that hangs, not two seconds", async () => {
  const door = Promise.withResolvers<SendResult>();
  send = (request) => (request.part.text === "hangs" ? door.promise : ok(request));
  await start();
  await add("announce:1", ["hangs"]);
  await add("reply:2", ["two"]);
  await settled(1);
  await folder.stores.db.transaction([], (tx) =>
    folder.stores.outbox.add(tx, { delivery: "answer:3", address: HOME, parts: [{ text: "stopped" }], isAnswer: true }),
  );
  await folder.clock.advance(200);
  await settled(2);
  expect(texts()).toEqual(["hangs", "stopped", "two"].slice(0, texts().length));
  expect(texts()).toContain("stopped");
  door.resolve({ status: "sent", ref: "1" });
  await allSent();
  expect(texts()).toEqual(["hangs", "stopped", "two"]);
});

it("[DL6][DL4] killed while others had gone ahead of a hanging attempt: it is asked for, and sent only when it is not there", async () => {
  const door = Promise.withResolvers<SendResult>();
  send = (request) => (request.part.text === "hangs" && attempts.length < 2 ? door.promise : ok(request));
  reconcile = () => ({ status: "absent" });
  await start();
  await add("reply:1", ["hangs"]);
  await add("reply:2", ["two"]);
  await folder.clock.advance(2_000);
  await startAgain();
  await allSent();
  expect(texts()).toEqual(["hangs", "two", "hangs"]);
  expect(await folder.stores.outbox.get(1)).toMatchObject({ state: "sent" });
  door.resolve({ status: "retry", reason: "too late" });
});

it("[DL6][DL5] what the platform asks a chat to wait for goes for everybody there: nobody goes ahead, the order is kept", async () => {
  send = (request) => (attempts.length < 2 ? { status: "retry", reason: "429", afterMs: 4_000 } : ok(request));
  await start();
  await add("reply:1", ["one"]);
  await add("reply:2", ["two"]);
  await folder.clock.advance(3_999);
  expect(texts()).toEqual(["one"]);
  await folder.clock.advance(1);
  await allSent();
  expect(texts()).toEqual(["one", "one", "two"]);
});

it.each([
  ["fails", (): SendResult => ({ status: "retry", reason: "503" }), "withdrawn"],
  ["is refused for good", (): SendResult => ({ status: "failed", reason: "kicked" }), "withdrawn"],
  ["arrives", (): SendResult => ({ status: "sent", ref: "x" }), "sent"],
])("[ST2] what was under way when it was withdrawn and %s", async (_how, result, state) => {
  const door = Promise.withResolvers<SendResult>();
  send = (request) => (request.part.text === "unsaid" ? door.promise : ok(request));
  await start();
  await add("started:1", ["unsaid"]);
  await settled(1);
  await folder.stores.db.transaction([], (tx) => folder.stores.outbox.withdraw(tx, "started:1"));
  door.resolve(result());
  await folder.clock.advance(600_000);
  expect(texts()).toEqual(["unsaid"]);
  expect(await folder.stores.outbox.get(1)).toMatchObject({ state });
});

it.each([
  ["0", 0],
  ["nonsense", Number.NaN],
  ["less than nothing", -5_000],
  ["nothing", undefined],
])("[DL3] PACE-004 a platform that asks for %s: our own backoff, no busy loop", async (_what, afterMs) => {
  send = () => ({ status: "retry", reason: "429", ...(afterMs === undefined ? {} : { afterMs }) });
  await start();
  await add("reply:1", ["1"]);
  await folder.clock.advance(16_000);
  expect(attempts.map((one) => one.at)).toEqual([0, 1_000, 3_000, 7_000, 15_000]);
});

it.each([
  ["a day", 86_400_000, 86_400_000],
  ["thirty years", 1e12, 86_400_001],
])("[DL3] PACE-004 a platform that asks for %s is not asked before, and by the 24 h rule it ends", async (_what, afterMs, lastAt) => {
  send = () => ({ status: "retry", reason: "429", afterMs });
  await start();
  await add("announce:1", ["1"], HOME, "run-1");
  await folder.clock.advance(3 * 86_400_000);
  expect(attempts[1]?.at).toBe(lastAt);
  expect(await folder.stores.outbox.get(1)).toMatchObject({ state: "blocked", reason: "not delivered within 24 h: 429" });
});

it("[DL3] two waiting chats wake each at their own time", async () => {
  const tries = new Map<string, number>();
  send = (request) => {
    const n = (tries.get(request.address.chat) ?? 0) + 1;
    tries.set(request.address.chat, n);
    return n > 1 ? ok(request) : { status: "retry", reason: "busy", afterMs: request.address.chat === "home" ? 10_000 : 3_000 };
  };
  await start();
  await add("reply:1", ["home"]);
  await add("reply:2", ["away"], AWAY);
  await settled(2);
  await folder.clock.advance(20_000);
  await allSent();
  expect(attempts.slice(2).map((one) => [one.text, one.at])).toEqual([
    ["away", 3_000],
    ["home", 10_000],
  ]);
});

it("[DL3] a permanent failure stops at once, marks the run and lets the next message through", async () => {
  send = inTurn(ok, () => ({ status: "failed", reason: "bot was kicked" }), ok);
  await start();
  await add("announce:1", ["part 1", "part 2", "part 3"], HOME, "run-1");
  await add("reply:2", ["next"]);
  await allSent();
  expect(texts()).toEqual(["part 1", "part 2", "next"]);
  expect(await folder.stores.outbox.get(3)).toMatchObject({ state: "blocked", reason: "bot was kicked" });
  expect(runs).toEqual(["run-1 sending", "run-1 blocked bot was kicked"]);
  expect(folder.events).toContainEqual({ type: "outbox.settled", delivery: "announce:1", channel: "test", outcome: "blocked" });
});

it("[DL3] /subagents retry: requeued parts are sent again, without those that arrived", async () => {
  send = inTurn(ok, () => ({ status: "failed", reason: "kicked" }), ok);
  await start();
  await add("announce:1", ["part 1", "part 2", "part 3"], HOME, "run-1");
  await allSent();
  expect(await folder.stores.db.transaction([], (tx) => folder.stores.outbox.requeue(tx, "run-1"))).toBe(2);
  await allSent();
  expect(texts()).toEqual(["part 1", "part 2", "part 2", "part 3"]);
  expect(runs.at(-1)).toBe("run-1 delivered");
});

/** A lost answer, then a refusal, then /subagents retry. */
async function retryAfterDoubt(): Promise<void> {
  send = inTurn(
    () => ({ status: "unknown", reason: "connection reset" }),
    () => ({ status: "failed", reason: "kicked" }),
    ok,
  );
  await start();
  await add("announce:1", ["1"], HOME, "run-1");
  await settled(1);
  await folder.clock.advance(1_000);
  await allSent();
  expect((await folder.stores.outbox.get(1))?.state).toBe("blocked");
  expect(await folder.stores.db.transaction([], (tx) => folder.stores.outbox.requeue(tx, "run-1"))).toBe(1);
  await allSent();
  expect(runs.at(-1)).toBe("run-1 delivered");
}

it("[DL4] /subagents retry after a lost answer is marked where nobody can be asked", async () => {
  await retryAfterDoubt();
  expect(attempts.map((one) => one.request.repeated)).toEqual([false, true, true]);
});

it("[DL4] /subagents retry after a lost answer asks the platform first", async () => {
  const answers: Reconciled[] = [{ status: "absent" }, { status: "found", ref: "9" }];
  reconcile = () => answers.shift() ?? expect.unreachable();
  await retryAfterDoubt();
  expect(attempts).toHaveLength(2);
  expect(answers).toEqual([]);
});

it("[DL4] /subagents retry of what surely never arrived is not marked, and nobody is asked", async () => {
  reconcile = () => expect.unreachable();
  send = inTurn(retry(), () => ({ status: "failed", reason: "kicked" }), ok);
  await start();
  await add("announce:1", ["1"], HOME, "run-1");
  await settled(1);
  await folder.clock.advance(1_000);
  await allSent();
  await folder.stores.db.transaction([], (tx) => folder.stores.outbox.requeue(tx, "run-1"));
  await allSent();
  expect(attempts.map((one) => one.request.repeated)).toEqual([false, false, false]);
});

it("[DL3][DL5] a clock set back two hours holds up neither the message that waits nor those behind it", async () => {
  send = inTurn(retry(), retry(), ok);
  await start();
  await add("reply:1", ["1"]);
  await folder.clock.advance(0);
  folder.clock.set(folder.clock.now() - 2 * 3_600_000);
  await folder.clock.advance(1_000);
  await settled(2);
  await add("reply:2", ["2"]);
  await folder.clock.advance(1_999);
  expect(texts()).toEqual(["1", "1", "2"]);
  await folder.clock.advance(1);
  await allSent();
  expect(texts()).toEqual(["1", "1", "2", "1"]);
});

it("[DL3] a clock set back while the gateway was off: what waits is tried at once, then backs off as ever", async () => {
  send = inTurn(retry(3_600_000), retry(), ok);
  await start();
  await add("reply:1", ["1"]);
  await settled(1);
  folder.clock.set(folder.clock.now() - 30 * 24 * 3_600_000);
  await startAgain();
  await settled(2);
  await folder.clock.advance(1_999);
  expect(attempts).toHaveLength(2);
  await folder.clock.advance(1);
  await allSent();
});

it("[DL3] a machine that slept for days gives nothing up at its first try afterwards", async () => {
  send = retry();
  await start();
  await add("reply:1", ["1"]);
  await folder.clock.advance(20 * 60_000);
  const before = attempts.length;
  await folder.clock.leap(60 * 3_600_000);
  await settled(before + 1);
  expect(await folder.stores.outbox.get(1)).toMatchObject({ state: "queued" });
  await folder.clock.advance(24 * 3_600_000 + 600_000);
  expect(await folder.stores.outbox.get(1)).toMatchObject({ state: "blocked", reason: "not delivered within 24 h: busy" });
});

it("[DL2] after a failure only the missing parts are sent", async () => {
  send = inTurn(ok, retry(), retry(), ok);
  await start();
  await add("reply:1", ["1", "2", "3"]);
  await settled(2);
  await folder.clock.advance(10_000);
  await allSent();
  expect(texts()).toEqual(["1", "2", "2", "2", "3"]);
  expect(attempts.every((one) => !one.request.repeated)).toBe(true);
});

it("[DL3] a chat that moved gets everything at its new address, in order", async () => {
  send = (request) => (request.address.chat === "home" ? { status: "retarget", address: AWAY, reason: "upgraded" } : ok(request));
  await start();
  await add("reply:1", ["one", "two"]);
  await add("reply:2", ["three"]);
  await allSent();
  expect(attempts.map((one) => `${one.text} → ${one.request.address.chat}`)).toEqual([
    "one → home",
    "one → away",
    "two → away",
    "three → away",
  ]);
});

it("[DL2] a part the platform can't format is sent plain, at once, under the same key", async () => {
  send = inTurn(() => ({ status: "rerender", part: { text: "plain" }, reason: "can't parse entities" }), ok);
  await start();
  await add("reply:1", ["*broken"]);
  await allSent();
  expect(attempts.map((one) => [one.text, one.request.key])).toEqual([
    ["*broken", "reply:1#0"],
    ["plain", "reply:1#0"],
  ]);
});

it("[DL4] a reserved place is recorded before the text goes into it, and used again after a crash", async () => {
  const hang = Promise.withResolvers<SendResult>();
  send = inTurn(
    () => ({ status: "reserved", ref: "place-7" }),
    () => hang.promise,
  );
  await start();
  await add("announce:1", ["result"], HOME, "run-1");
  await settled(2);
  expect(attempts[1]?.request.ref).toBe("place-7");
  send = ok;
  await startAgain();
  await allSent();
  // The place is edited unmarked; only a message of its own, where the place is gone, must say that it may be a repeat.
  expect(attempts[2]?.request).toMatchObject({ ref: "place-7", repeated: true });
  hang.resolve({ status: "retry", reason: "too late" });
});

it("[DL4] a lost answer where nobody can be asked: sent once more, marked", async () => {
  send = inTurn(() => ({ status: "unknown", reason: "connection reset" }), ok);
  await start();
  await add("reply:1", ["1", "2"]);
  await settled(1);
  await folder.clock.advance(1_000);
  await allSent();
  expect(attempts.map((one) => [one.text, one.request.repeated])).toEqual([
    ["1", false],
    ["1", true],
    ["2", false],
  ]);
});

it.each([
  ["is put off", { status: "retry", reason: "429" } as const],
  ["is refused for its formatting", { status: "rerender", reason: "entities", part: { text: "1" } } as const],
  ["moves elsewhere", { status: "retarget", reason: "upgraded", address: AWAY } as const],
])("[DL4] a lost answer is not forgotten when the next attempt %s", async (_how, second) => {
  send = inTurn(
    () => ({ status: "unknown", reason: "connection reset" }),
    () => second,
    ok,
  );
  await start();
  await add("reply:1", ["1"]);
  await settled(1);
  await folder.clock.advance(1_000);
  await settled(2);
  await folder.clock.advance(60_000);
  await allSent();
  expect(attempts.map((one) => one.request.repeated)).toEqual([false, true, true]);
});

it("[DL4] a lost answer is not forgotten while its channel is off", async () => {
  send = inTurn(() => ({ status: "unknown", reason: "connection reset" }), ok);
  await start();
  await add("reply:1", ["1"]);
  await settled(1);
  isOn = false;
  await folder.clock.advance(10_000);
  isOn = true;
  await folder.clock.advance(600_000);
  await allSent();
  expect(attempts.map((one) => one.request.repeated)).toEqual([false, true]);
});

it.each([
  ["found", { status: "found", ref: "9" } as const, ["1", "2"]],
  ["absent", { status: "absent" } as const, ["1", "1", "2"]],
])("[DL4] a lost answer where the platform can be asked: %s", async (_what, answer, expected) => {
  reconcile = () => answer;
  send = inTurn(() => ({ status: "unknown", reason: "timeout" }), ok);
  await start();
  await add("reply:1", ["1", "2"]);
  await settled(1);
  await folder.clock.advance(1_000);
  await allSent();
  expect(texts()).toEqual(expected);
  expect(attempts.some((one) => one.request.repeated)).toBe(false);
});

it("[DL4] as long as the platform can't tell, nothing is sent, ever more patiently", async () => {
  const asked: number[] = [];
  reconcile = () => {
    asked.push(folder.clock.now() - startedAt);
    return asked.length < 5 ? { status: "unknown", reason: "still down" } : { status: "found", ref: "9" };
  };
  send = () => ({ status: "unknown", reason: "timeout" });
  await start();
  await add("reply:1", ["1"]);
  await settled(1);
  await folder.clock.advance(120_000);
  expect(await open()).toBe(0);
  expect(attempts).toHaveLength(1);
  expect(asked).toEqual([1_000, 3_000, 7_000, 15_000, 31_000]);
});

it("[DL4] DSC-002 sent again without knowing, it is the first attempt that is asked about later", async () => {
  const asked: number[] = [];
  reconcile = (_key, since) => {
    asked.push(since - startedAt);
    return asked.length < 3 ? { status: "again" } : { status: "found", ref: "9" };
  };
  send = () => ({ status: "unknown", reason: "timeout" });
  await start();
  await folder.clock.advance(500);
  await add("reply:1", ["text"]);
  await settled(1);
  await folder.clock.advance(10_000);
  await allSent();
  expect(asked).toEqual([500, 500, 500]);
  expect(attempts.map(({ request }) => request.repeated)).toEqual([false, false, false]);
});

it("[DL1] killed while it was sent: after the restart it is unknown, asked for, and the rest follows", async () => {
  const hang = Promise.withResolvers<SendResult>();
  send = inTurn(ok, () => hang.promise);
  reconcile = (key) => (key === "reply:1#1" ? { status: "found", ref: "2" } : { status: "absent" });
  await start();
  await add("reply:1", ["1", "2", "3"]);
  await settled(2);
  send = ok;
  await startAgain();
  await allSent();
  expect(texts()).toEqual(["1", "2", "3"]);
  hang.resolve({ status: "retry", reason: "too late" });
});

it("[DL3] a channel that is off is asked ever more rarely, and everything goes out when it is on again", async () => {
  isOn = false;
  await start();
  await add("reply:1", ["1"]);
  await folder.clock.advance(3_600_000);
  const warned = folder.lines.filter((line) => line.msg.includes("did not succeed")).length;
  expect(warned).toBeGreaterThan(5);
  expect(warned).toBeLessThan(30);
  expect(await folder.stores.outbox.head(addressKey(HOME))).toMatchObject({ state: "queued", reason: "the channel test is off" });
  isOn = true;
  await folder.clock.advance(300_000);
  expect(texts()).toEqual(["1"]);
});

it("[RC4] a damaged row is given up by name; the chat goes on", async () => {
  await add("reply:1", ["lost"]);
  await add("reply:2", ["fine"]);
  await folder.stores.db.transaction([], (tx) => tx.run("UPDATE outbox SET part = '{\"te' WHERE delivery = 'reply:1'"));
  await start();
  await allSent();
  expect(texts()).toEqual(["fine"]);
  expect(await folder.stores.db.get("SELECT state, reason FROM outbox WHERE delivery = 'reply:1'")).toEqual({
    state: "blocked",
    reason: "its row in the database is damaged",
  });
  expect(folder.lines).toContainEqual(expect.objectContaining({ level: "error", delivery: "reply:1", msg: "gave a message up" }));
});

it("[RC4] FS-002 a disk that refuses pauses the chat, and the message goes out when it is over", async () => {
  await start();
  await folder.stores.db.transaction([], (tx) =>
    tx.run("CREATE TEMP TRIGGER full BEFORE UPDATE ON outbox BEGIN SELECT RAISE(ABORT, 'disk full'); END"),
  );
  await add("reply:1", ["1"]);
  await folder.clock.advance(5_000);
  expect(attempts).toEqual([]);
  await folder.stores.db.transaction([], (tx) => tx.run("DROP TRIGGER full"));
  await folder.clock.advance(2_000);
  expect(texts()).toEqual(["1"]);
});

it("[RN4] stop() lets the send under way settle, starts no further one, and leaves the rest queued", async () => {
  const door = Promise.withResolvers<SendResult>();
  send = () => door.promise;
  await start();
  await add("reply:1", ["1", "2"]);
  await settled(1);
  const stopped = delivery.stop();
  door.resolve({ status: "sent", ref: "x" });
  await stopped;
  expect(texts()).toEqual(["1"]);
  expect(await folder.stores.outbox.head(addressKey(HOME))).toMatchObject({ n: 1, state: "queued" });
});

it("[DL5] thirty chats at once: each in order, nothing lost, nothing doubled", async () => {
  send = async (request) => {
    await new Promise((resolve) => setImmediate(resolve));
    return ok(request);
  };
  await start();
  for (let n = 0; n < 5; n++)
    for (let chat = 0; chat < 30; chat++) await add(`reply:${chat}:${n}`, [`${n}`], { ...HOME, chat: `c${chat}` });
  await waitFor("all", () => attempts.length === 150);
  for (let chat = 0; chat < 30; chat++) {
    expect(attempts.filter((one) => one.request.address.chat === `c${chat}`).map((one) => one.text)).toEqual(["0", "1", "2", "3", "4"]);
  }
});

/** Two at once, one a second, and one more for answers. */
const ONE_A_SECOND: Pace = { chat: { burst: 3, everyMs: 1_000, answersOnTop: 0 } };
const announce = (n: number, to = HOME, text = `${n}`): Promise<boolean> => add(`announce:${n}`, [text], to, `run-${n}`);
const sentAt = (): [unknown, number][] => attempts.map((one) => [one.text, one.at]);
const states = async (): Promise<Record<string, string>> =>
  Object.fromEntries(
    (await folder.stores.db.all<{ delivery: string; state: string }>("SELECT delivery, state FROM outbox")).map((row) => [
      row.delivery,
      row.state,
    ]),
  );

it("[DL7] paced: a short burst, then one a second; what would wait anyway goes out together, each run delivered once", async () => {
  pace = ONE_A_SECOND;
  for (let n = 1; n <= 8; n++) await announce(n);
  await start();
  await folder.clock.advance(0);
  expect(sentAt()).toEqual([
    ["1", 0],
    ["2 & 3 & 4 & 5 & 6 & 7 & 8", 0],
  ]);
  expect(new Set(Object.values(await states()))).toEqual(new Set(["sent"]));
  for (let n = 1; n <= 8; n++) expect(runs.filter((line) => line === `run-${n} delivered`)).toHaveLength(1);
  expect(folder.events.filter((event) => event.type === "outbox.settled")).toHaveLength(8);
  expect(attempts[1]?.request.key).toBe("announce:2#0+3+4+5+6+7+8");
});

it("[DL7] only what fits goes together, in order; a reply or a message of several parts between them is not passed over", async () => {
  pace = ONE_A_SECOND;
  const long = (n: number): string => `${n}`.repeat(25);
  await announce(1);
  for (const n of [2, 3, 4]) await announce(n, HOME, long(n));
  await add("reply:5", ["a reply"]);
  await announce(6);
  await add("announce:7", ["7a", "7b"], HOME, "run-7");
  await announce(8);
  await announce(9);
  await start();
  await folder.clock.advance(10_000);
  await allSent();
  expect(sentAt()).toEqual([
    ["1", 0],
    [`${long(2)} & ${long(3)}`, 0],
    [long(4), 1_000],
    ["a reply", 2_000],
    ["6", 3_000],
    ["7a", 4_000],
    ["7b & 8 & 9", 5_000],
  ]);
});

it("[DL7] while there is room each goes by itself", async () => {
  pace = ONE_A_SECOND;
  await start();
  for (let n = 1; n <= 4; n++) {
    await announce(n);
    await folder.clock.advance(1_500);
  }
  expect(texts()).toEqual(["1", "2", "3", "4"]);
});

it("[DL7][CM9] the answer to a command goes before announcements that wait for their turn, and waits for none of them", async () => {
  pace = ONE_A_SECOND;
  await start();
  for (let n = 1; n <= 3; n++) await announce(n, HOME, `${n}`.repeat(50));
  await folder.clock.advance(100);
  await folder.stores.db.transaction([], (tx) =>
    folder.stores.outbox.add(tx, { delivery: "answer:1", address: HOME, parts: [{ text: "stopped" }], isAnswer: true }),
  );
  await folder.clock.advance(0);
  expect(sentAt().slice(2)).toEqual([["stopped", 100]]);
});

it("[DL7] another topic of the same chat shares its pace, and each has its turn", async () => {
  pace = ONE_A_SECOND;
  const topic = (thread: string): Address => ({ ...HOME, kind: "group", thread });
  for (let n = 1; n <= 6; n++) await add(`reply:${n}`, [`t${n % 2} ${n}`], topic(`t${n % 2}`));
  await start();
  await folder.clock.advance(10_000);
  await allSent();
  expect(attempts.map((one) => one.at)).toEqual([0, 0, 1_000, 2_000, 3_000, 4_000]);
  expect(texts().filter((text) => String(text).startsWith("t1"))).toEqual(["t1 1", "t1 3", "t1 5"]);
  expect(
    texts()
      .slice(2, 6)
      .map((text) => String(text).slice(0, 2))
      .sort(),
  ).toEqual(["t0", "t0", "t1", "t1"]);
});

it.each([
  ["found", { status: "found", ref: "9" } as const, 2],
  ["absent", { status: "absent" } as const, 3],
])("[DL7][DL4] killed while several went out in one: asked for under the key they share, %s", async (_what, answer, count) => {
  pace = ONE_A_SECOND;
  const asked: string[] = [];
  const hang = Promise.withResolvers<SendResult>();
  reconcile = (key) => {
    asked.push(key);
    return answer;
  };
  send = inTurn(ok, () => hang.promise, ok);
  for (let n = 1; n <= 4; n++) await announce(n);
  await start();
  await settled(2);
  await startAgain();
  await folder.clock.advance(5_000);
  await allSent();
  expect(asked).toEqual(["announce:2#0+3+4"]);
  expect(texts()).toEqual(["1", "2 & 3 & 4", "2 & 3 & 4"].slice(0, count));
  expect(attempts.some((one) => one.request.repeated)).toBe(false);
  for (const n of [2, 3, 4]) expect(runs.filter((line) => line === `run-${n} delivered`)).toHaveLength(1);
  hang.resolve({ status: "retry", reason: "too late" });
});

it("[DL7][DL4] killed while several went out in one where nobody can be asked: the same message once more, marked", async () => {
  pace = ONE_A_SECOND;
  const hang = Promise.withResolvers<SendResult>();
  send = inTurn(ok, () => hang.promise, ok);
  for (let n = 1; n <= 4; n++) await announce(n);
  await start();
  await settled(2);
  await startAgain();
  await announce(5);
  await folder.clock.advance(5_000);
  await allSent();
  expect(attempts.map((one) => [one.text, one.request.repeated])).toEqual([
    ["1", false],
    ["2 & 3 & 4", false],
    ["2 & 3 & 4", true],
    ["5", false],
  ]);
  hang.resolve({ status: "retry", reason: "too late" });
});

it("[DL7] refused together: each is tried alone before it is given up", async () => {
  pace = ONE_A_SECOND;
  send = (request) => (String(request.part.text).includes("3") ? { status: "failed", reason: "too long" } : ok(request));
  for (let n = 1; n <= 4; n++) await announce(n);
  await start();
  await folder.clock.advance(20_000);
  expect(texts()).toEqual(["1", "2 & 3 & 4", "2", "3", "4"]);
  expect(await states()).toEqual({ "announce:1": "sent", "announce:2": "sent", "announce:3": "blocked", "announce:4": "sent" });
  expect(runs.filter((line) => line.includes("blocked"))).toEqual(["run-3 blocked too long"]);
});

it("[DL7][ST2] a run that is stopped before its turn is left out of the message it waited to go with", async () => {
  pace = ONE_A_SECOND;
  send = inTurn(ok, retry(5_000), ok);
  for (let n = 1; n <= 4; n++) await announce(n);
  await start();
  await settled(2);
  await folder.clock.advance(100);
  expect(await folder.stores.db.transaction([], (tx) => folder.stores.outbox.withdraw(tx, "announce:3"))).toBe(true);
  await folder.clock.advance(10_000);
  expect(texts()).toEqual(["1", "2 & 3 & 4", "2", "4"]);
  expect((await states())["announce:3"]).toBe("withdrawn");
});

it("[DL7] PACE-004 a 429 keeps the order and silences that chat alone, answers included", async () => {
  pace = ONE_A_SECOND;
  send = (request) =>
    request.address.chat === "home" && attempts.length < 3 ? { status: "retry", reason: "429", afterMs: 30_000 } : ok(request);
  await announce(1);
  await announce(2);
  await announce(3, AWAY);
  await start();
  await folder.clock.advance(1_000);
  await folder.stores.db.transaction([], (tx) =>
    folder.stores.outbox.add(tx, { delivery: "answer:1", address: HOME, parts: [{ text: "answer" }], isAnswer: true }),
  );
  await folder.clock.advance(28_000);
  expect(texts().sort()).toEqual(["1", "3"]);
  await folder.clock.advance(2_000);
  await allSent();
  expect(texts().slice(2)).toEqual(["answer", "1 & 2"]);
  expect(runs).toContain("run-1 sending 429; next try 2026-01-01T00:00:30.000Z");
});

it("[DL7] what the process before this one sent counts for the pace", async () => {
  pace = ONE_A_SECOND;
  await add("reply:1", ["1"]);
  await add("reply:2", ["2"]);
  await start();
  await folder.clock.advance(0);
  await startAgain();
  await add("reply:3", ["3"]);
  await add("reply:4", ["4"]);
  await folder.clock.advance(10_000);
  expect(sentAt()).toEqual([
    ["1", 0],
    ["2", 0],
    ["3", 1_000],
    ["4", 2_000],
  ]);
});

it("[DL4] what another process was sending when it ended is taken up while this one runs: asked for, and sent once more", async () => {
  await folder.stores.nodes.enter();
  reconcile = () => ({ status: "absent" });
  await start();
  // As it wrote it: nobody rang here.
  const sql = `INSERT INTO outbox (delivery, n, parts, address, address_key, part, state, rank, created_at, owner, sending_at)
    VALUES ('reply:1', 0, 1, ?, ?, '{"text":"hello"}', 'sending', 1, 1, 'another', 1)`;
  await folder.stores.db.transaction([], (tx) => tx.run(sql, JSON.stringify(HOME), addressKey(HOME)));
  await delivery.takeUp();
  await allSent();
  expect(texts()).toEqual(["hello"]);
  await delivery.takeUp();
  expect(texts()).toEqual(["hello"]);
});
