// What every store must do, whatever database stands behind it: compare-and-set with one winner, all or nothing,
// idempotent by key, and the same answers after a restart. stores.test.ts runs it over SQLite.
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Stores } from "../../src/app/stores.ts";
import type { Address } from "../../src/core/address.ts";
import type { AppEvent, Bus } from "../../src/core/events.ts";
import { isUnfinished, RUN_STATES } from "../../src/core/run.ts";
import { RELAXED, type Tx } from "../../src/stores/database.ts";
import type { ManualClock } from "../support/manual-clock.ts";
import { ADDRESS, CHAT_KEY, newRun } from "../support/runs.ts";

export interface StoreRig extends Disposable {
  readonly clock: ManualClock;
  readonly events: AppEvent[];
  readonly bus: Bus;
  readonly stores: Stores;
  /** Closes and opens again on the same data. */
  reopen(): Stores;
}

const OTHER: Address = { ...ADDRESS, chat: "other" };

export function storeContract(name: string, makeRig: () => Promise<StoreRig>): void {
  describe(`stores (${name})`, () => {
    let rig: StoreRig;
    beforeEach(async () => {
      rig = await makeRig();
    });
    afterEach(() => rig[Symbol.dispose]());
    inboxContract(() => rig);
    outboxContract(() => rig);
    sessionContract(() => rig);
    runContract(() => rig);
    transactionContract(() => rig);
    smallStoreContract(() => rig);
  });
}

/** One statement or a few, in a transaction of their own. */
const writer =
  (rig: () => StoreRig) =>
  <T>(work: (tx: Tx) => T): T =>
    rig().stores.db.transaction([], work);

function inboxContract(rig: () => StoreRig): void {
  const write = writer(rig);
  const put = (...ids: string[]): void =>
    rig()
      .stores.inbox.sink("web", "local")
      .put(ids.map((externalId) => ({ externalId, raw: { text: externalId } })));

  it("[RC3] a replayed id is dropped, also after it was answered and after a restart", () => {
    put("a", "b");
    put("b", "c", "a");
    const rows = rig().stores.inbox.listNew(0, 10);
    expect(rows.map((row) => row.raw)).toEqual([{ text: "a" }, { text: "b" }, { text: "c" }]);
    for (const row of rows) expect(write((tx) => rig().stores.inbox.finish(tx, row.id))).toBe(true);
    const { inbox } = rig().reopen();
    inbox.sink("web", "local").put([{ externalId: "a", raw: { text: "again" } }]);
    expect(inbox.listNew(0, 10)).toEqual([]);
  });

  it("[RC3] the same id of another channel or account is another message", () => {
    const { inbox } = rig().stores;
    for (const [channel, account] of [
      ["web", "local"],
      ["telegram", "bot1"],
      ["telegram", "bot2"],
    ] as const)
      inbox.sink(channel, account).put([{ externalId: "1", raw: channel }]);
    expect(inbox.listNew(0, 10)).toHaveLength(3);
  });

  it("[RC3] updates and cursor are stored together and the bell rings once they are", () => {
    const sink = rig().stores.inbox.sink("telegram", "bot");
    expect(sink.cursor()).toBeNull();
    sink.put([{ externalId: "7", raw: {} }], "8");
    expect(sink.cursor()?.value).toBe("8");
    expect(rig().reopen().inbox.sink("telegram", "bot").cursor()?.value).toBe("8");
    expect(rig().events).toContainEqual({ type: "inbox.added", channel: "telegram" });
  });

  it("[RC3] one update that can't be stored stores none of its batch, nor the cursor", () => {
    const sink = rig().stores.inbox.sink("telegram", "bot");
    const circular: Record<string, unknown> = {};
    circular.self = circular;
    expect(() =>
      sink.put(
        [
          { externalId: "1", raw: {} },
          { externalId: "2", raw: circular },
        ],
        "3",
      ),
    ).toThrow();
    expect(rig().stores.inbox.listNew(0, 10)).toEqual([]);
    expect(sink.cursor()).toBeNull();
    expect(rig().events).toEqual([]);
  });

  it("[AG1] a session's messages are claimed oldest first; attempts count, releases don't", () => {
    put("a", "b", "c");
    const { inbox } = rig().stores;
    const [a, b, c] = inbox.listNew(0, 10).map((row) => row.id);
    for (const id of [a, b]) expect(inbox.route(id!, CHAT_KEY)).toBe(true);
    expect(inbox.route(c!, "another")).toBe(true);
    expect(inbox.route(a!, CHAT_KEY)).toBe(false);
    expect(inbox.claim(CHAT_KEY)).toMatchObject({ id: a, attempts: 1, sessionKey: CHAT_KEY });
    expect(inbox.claim(CHAT_KEY)).toMatchObject({ id: a, attempts: 2 });
    inbox.release(a!);
    expect(inbox.claim(CHAT_KEY)).toMatchObject({ id: a, attempts: 2 });
    write((tx) => inbox.finish(tx, a!));
    expect(inbox.claim(CHAT_KEY)).toMatchObject({ id: b, attempts: 1 });
    expect(inbox.countWaiting(CHAT_KEY)).toBe(1);
    expect(inbox.waitingSessions().sort()).toEqual([CHAT_KEY, "another"].sort());
  });

  it("[RC1] what is put back is new and uncounted, and comes before what arrived after it", () => {
    put("a", "b");
    const { inbox } = rig().stores;
    const [a, b] = inbox.listNew(0, 10).map((row) => row.id);
    for (const id of [a, b]) inbox.route(id!, CHAT_KEY);
    inbox.claim(CHAT_KEY);
    inbox.putBack(a!);
    expect(inbox.listNew(0, 10)).toMatchObject([{ id: a, attempts: 0, sessionKey: null, raw: { text: "a" } }]);
    inbox.route(a!, CHAT_KEY);
    expect(inbox.claim(CHAT_KEY)?.id).toBe(a);
    write((tx) => inbox.finish(tx, a!));
    inbox.putBack(a!);
    expect(inbox.listNew(0, 10)).toEqual([]);
  });

  it("[ST1] finish has one winner, and drop settles all that wait in a session", () => {
    put("a", "b", "c");
    const { inbox } = rig().stores;
    const ids = inbox.listNew(0, 10).map((row) => row.id);
    for (const id of ids) inbox.route(id, CHAT_KEY);
    expect(write((tx) => inbox.finish(tx, ids[0]!))).toBe(true);
    expect(write((tx) => inbox.finish(tx, ids[0]!))).toBe(false);
    expect(write((tx) => inbox.drop(tx, CHAT_KEY))).toEqual(ids.slice(1));
    expect(write((tx) => inbox.drop(tx, CHAT_KEY))).toEqual([]);
    expect(write((tx) => inbox.finish(tx, ids[1]!))).toBe(false);
    expect(inbox.claim(CHAT_KEY)).toBeNull();
  });

  it("[RC3] purge forgets only what was settled before", async () => {
    put("old", "new", "open");
    const { inbox } = rig().stores;
    const [old, fresh] = inbox.listNew(0, 10).map((row) => row.id);
    write((tx) => inbox.finish(tx, old!));
    await rig().clock.advance(1_000);
    write((tx) => inbox.finish(tx, fresh!));
    expect(inbox.purge(rig().clock.now())).toBe(1);
    expect(inbox.listNew(0, 10).map((row) => row.raw)).toEqual([{ text: "open" }]);
  });
}

function outboxContract(rig: () => StoreRig): void {
  const write = writer(rig);
  const add = (delivery: string, parts: string[], more: { address?: Address; runId?: string; isAnswer?: boolean } = {}): boolean =>
    write((tx) => rig().stores.outbox.add(tx, { delivery, address: ADDRESS, parts: parts.map((text) => ({ text })), ...more }));
  const key = "web/local/main/-";

  it("[DL1] a delivery is added once: the first text wins, whatever is added later", () => {
    expect(add("reply:1", ["one", "two"])).toBe(true);
    expect(add("reply:1", ["another"])).toBe(false);
    expect(rig().stores.outbox.countAllOpen()).toBe(2);
    expect(rig().stores.outbox.head(key)).toMatchObject({ delivery: "reply:1", n: 0, parts: 2, part: { text: "one" }, state: "queued" });
    expect(rig().events.filter((event) => event.type === "outbox.added")).toHaveLength(1);
  });

  it("[DL5] the head is the oldest unsettled part of its address", () => {
    add("reply:1", ["one", "two"]);
    add("reply:2", ["three"]);
    add("reply:3", ["elsewhere"], { address: OTHER });
    const { outbox } = rig().stores;
    const texts: unknown[] = [];
    for (let row = outbox.head(key); row !== null; row = outbox.head(key)) {
      texts.push(row.part.text);
      write((tx) => outbox.markSending(tx, row.id));
      expect(outbox.head(key)?.id).toBe(row.id);
      write((tx) => outbox.markSent(tx, row.id, `ref-${row.n}`));
    }
    expect(texts).toEqual(["one", "two", "three"]);
    expect(outbox.openAddresses()).toEqual(["web/local/other/-"]);
  });

  it("[DL4] what was being sent when the process died is unknown after the restart, the rest is as it was", () => {
    add("reply:1", ["one", "two", "three"]);
    const first = rig().stores.outbox.head(key)!;
    write((tx) => rig().stores.outbox.markSending(tx, first.id));
    write((tx) => rig().stores.outbox.markSent(tx, first.id, "ref"));
    write((tx) => rig().stores.outbox.markSending(tx, rig().stores.outbox.head(key)!.id));
    const { outbox } = rig().reopen();
    outbox.recover();
    expect(outbox.head(key)).toMatchObject({ n: 1, state: "unknown", sendingAt: rig().clock.now() });
    expect(outbox.countAllOpen()).toBe(2);
  });

  it("[DL3] blocking gives up the delivery's unsent parts only; requeue brings a run's back", () => {
    add("announce:1", ["one", "two", "three"], { runId: "run" });
    add("reply:2", ["later"]);
    const { outbox } = rig().stores;
    write((tx) => outbox.markSent(tx, outbox.head(key)!.id, "ref"));
    write((tx) => outbox.markBlocked(tx, "announce:1", "kicked", "queued"));
    expect(outbox.head(key)).toMatchObject({ delivery: "reply:2" });
    expect(write((tx) => outbox.requeue(tx, "run"))).toBe(2);
    expect(outbox.head(key)).toMatchObject({ delivery: "announce:1", n: 1, state: "queued", attempts: 0, firstAt: null, reason: null });
    expect(write((tx) => outbox.requeue(tx, "nobody"))).toBe(0);
  });

  it("[DL3] each try that failed counts, sent or not", () => {
    add("reply:1", ["one"]);
    const { outbox } = rig().stores;
    const { id } = outbox.head(key)!;
    const firstAt = rig().clock.now();
    for (let tries = 1; tries <= 3; tries++) {
      write((tx) =>
        outbox.retryAt(tx, id, { notBefore: firstAt + 1_000, firstAt, reason: "the channel is off", as: "queued", stepsAside: false }),
      );
      expect(outbox.head(key)).toMatchObject({ attempts: tries, firstAt, state: "queued", reason: "the channel is off" });
    }
    write((tx) => outbox.markSending(tx, id));
    write((tx) => outbox.retryAt(tx, id, { notBefore: 0, firstAt, reason: "lost", as: "unknown", stepsAside: true }));
    expect(outbox.get(id)).toMatchObject({ attempts: 4, firstAt, state: "unknown", isAside: true });
  });

  it("[DL6] answers to commands stand before the rest; what stepped aside stands in a line of its own, due first, parts in order", () => {
    add("announce:1", ["one", "two"], { runId: "run" });
    add("reply:2", ["three"]);
    add("announce:3", ["four", "five"]);
    add("answer:4", ["six"], { isAnswer: true });
    const { outbox } = rig().stores;
    const now = rig().clock.now();
    const line = (): unknown[] => outbox.listAside(key, 10).map((row) => row.part.text);
    expect(outbox.head(key)?.part.text).toBe("six");
    write((tx) => outbox.markSent(tx, outbox.head(key)!.id, "ref"));
    const failing = outbox.head(key)!;
    write((tx) => outbox.markSending(tx, failing.id));
    write((tx) => outbox.retryAt(tx, failing.id, { notBefore: now + 2_000, firstAt: now, reason: "503", as: "queued", stepsAside: true }));
    expect(outbox.head(key)?.part.text).toBe("three");
    write((tx) => outbox.markSent(tx, outbox.head(key)!.id, "ref"));
    write((tx) =>
      outbox.retryAt(tx, outbox.head(key)!.id, { notBefore: now + 1_000, firstAt: now, reason: "503", as: "queued", stepsAside: true }),
    );
    expect(outbox.head(key)).toBeNull();
    expect(line()).toEqual(["four", "five", "one", "two"]);
    expect(outbox.listAside(key, 1)).toHaveLength(1);
    write((tx) => outbox.markSent(tx, outbox.listAside(key, 1)[0]!.id, "ref"));
    write((tx) =>
      outbox.retryAt(tx, outbox.listAside(key, 1)[0]!.id, {
        notBefore: now + 3_000,
        firstAt: now,
        reason: "503",
        as: "queued",
        stepsAside: true,
      }),
    );
    expect(line()).toEqual(["one", "two", "five"]);
    write((tx) => outbox.markBlocked(tx, "announce:1", "kicked", "queued"));
    write((tx) => outbox.requeue(tx, "run"));
    expect(outbox.head(key)).toMatchObject({ part: { text: "one" }, isAside: false });
  });

  it("[DL7] joined: one lead is in line for all, they are sent and given up together, and stand as before when they are set apart", () => {
    for (const n of [1, 2, 3, 4]) add(`announce:${n}`, [`text ${n}`], { runId: `run-${n}` });
    const { outbox } = rig().stores;
    const [first, ...rest] = [1, 2, 3, 4].map((id) => outbox.get(id)!);
    expect(outbox.listBehind(first!, 2).map((row) => row.id)).toEqual([2, 3]);
    let lead = write((tx) => outbox.join(tx, first!, rest.slice(0, 2), { text: "together" }));
    write((tx) => outbox.markSending(tx, lead.id));
    expect(lead).toMatchObject({ isLead: true, part: { text: "together" }, joinedAs: "announce:1#0+2+3" });
    expect([2, 3].map((id) => outbox.get(id)?.state)).toEqual(["joined", "joined"]);
    expect(outbox.listBehind(first!, 5).map((row) => row.id)).toEqual([4]);
    lead = rig().reopen().outbox.get(1)!;
    const { outbox: again } = rig().stores;
    again.recover();
    expect(again.head(key)).toMatchObject({
      id: 1,
      state: "unknown",
      part: { text: "together" },
      joinedAs: "announce:1#0+2+3",
      isLead: true,
    });
    expect(again.listJoined(lead).map((row) => row.id)).toEqual([2, 3]);
    // It may have arrived: then each is asked for under the key they shared.
    write((tx) => again.dissolve(tx, lead, "unknown"));
    expect([1, 2, 3].map((id) => again.get(id))).toMatchObject(
      [1, 2, 3].map((n) => ({ state: "unknown", joinedAs: "announce:1#0+2+3", part: { text: `text ${n}` }, isAlone: true, isLead: false })),
    );
    write((tx) => again.markSending(tx, 2));
    expect(again.get(2)).toMatchObject({ joinedAs: null, state: "sending" });
  });

  it("[DL7][ST2] one run's announcement is taken out of a message that surely has not arrived, and of no other", () => {
    for (const n of [1, 2, 3]) add(`announce:${n}`, [`text ${n}`], { runId: `run-${n}` });
    const { outbox } = rig().stores;
    const rows = [1, 2, 3].map((id) => outbox.get(id)!);
    const join = (): void => {
      write((tx) => outbox.join(tx, rows[0]!, rows.slice(1), { text: "together" }));
      write((tx) => outbox.markSending(tx, 1));
    };
    join();
    expect(write((tx) => outbox.withdraw(tx, "announce:2"))).toBe(false);
    write((tx) => outbox.retryAt(tx, 1, { notBefore: 5, firstAt: 1, reason: "429", as: "queued", stepsAside: false }));
    expect(write((tx) => outbox.withdraw(tx, "announce:2"))).toBe(true);
    expect([1, 2, 3].map((id) => outbox.get(id)?.state)).toEqual(["queued", "withdrawn", "queued"]);
    expect(outbox.get(1)).toMatchObject({ isLead: false, isAlone: false, joinedAs: null, part: { text: "text 1" } });
  });

  it("[DL7] those that go together move together, and are given up together", () => {
    for (const n of [1, 2]) add(`announce:${n}`, [`text ${n}`], { runId: `run-${n}` });
    const { outbox } = rig().stores;
    write((tx) => outbox.join(tx, outbox.get(1)!, [outbox.get(2)!], { text: "together" }));
    write((tx) => outbox.markSending(tx, 1));
    write((tx) => outbox.retarget(tx, 1, ADDRESS, OTHER, "unknown"));
    write((tx) => outbox.setPart(tx, 1, { text: "plainer" }, "unknown"));
    expect([outbox.get(1), outbox.get(2)]).toMatchObject([
      { address: OTHER, part: { text: "plainer" }, state: "unknown" },
      { address: OTHER, part: { text: "text 2" }, state: "joined" },
    ]);
    for (const n of [1, 2]) expect(write((tx) => outbox.markBlocked(tx, `announce:${n}`, "kicked", "unknown"))).toBe(true);
    expect(write((tx) => outbox.requeue(tx, "run-2"))).toBe(1);
    expect(outbox.get(2)).toMatchObject({ state: "unknown", joinedAs: "announce:1#0+2", isLead: false });
    expect(write((tx) => outbox.requeue(tx, "run-1"))).toBe(1);
    expect(outbox.get(1)).toMatchObject({ state: "unknown", isLead: false, part: { text: "text 1" } });
  });

  it("[DL7] what went out lately, or may have, is told once for each message", async () => {
    for (const n of [1, 2, 3, 4]) add(`announce:${n}`, [`text ${n}`], { runId: `run-${n}` });
    const { outbox } = rig().stores;
    const since = rig().clock.now() - 1;
    write((tx) => outbox.join(tx, outbox.get(1)!, [outbox.get(2)!], { text: "together" }));
    write((tx) => outbox.markSending(tx, 1));
    for (const id of [1, 2]) write((tx) => outbox.markSent(tx, id, "ref"));
    await rig().clock.advance(10);
    write((tx) => outbox.markSending(tx, 3));
    expect(outbox.listSentSince(since)).toEqual([
      { address: ADDRESS, at: since + 1 },
      { address: ADDRESS, at: since + 11 },
    ]);
    expect(outbox.listSentSince(since + 11)).toEqual([]);
  });

  it("[ST2] withdrawn: it is not said any more, however an attempt under way fails; one that arrives has arrived", () => {
    add("started:1", ["one"]);
    add("started:2", ["two"]);
    add("reply:3", ["three"]);
    const { outbox } = rig().stores;
    expect(["started:1", "started:2", "nobody"].map((delivery) => write((tx) => outbox.withdraw(tx, delivery)))).toEqual([
      true,
      true,
      false,
    ]);
    expect(outbox.head(key)).toMatchObject({ delivery: "reply:3" });
    expect(write((tx) => outbox.markBlocked(tx, "started:1", "kicked", "queued"))).toBe(false);
    write((tx) => outbox.retryAt(tx, 1, { notBefore: 0, firstAt: 0, reason: "503", as: "queued", stepsAside: true }));
    expect(outbox.get(1)).toMatchObject({ state: "withdrawn", attempts: 0 });
    write((tx) => outbox.markSent(tx, 2, "ref"));
    expect(write((tx) => outbox.withdraw(tx, "started:2"))).toBe(false);
    expect(outbox.get(2)).toMatchObject({ state: "sent" });
  });

  it("[ST2] what has begun to arrive is not withdrawn; what was, and began all the same, is finished", () => {
    add("announce:1", ["one", "two"], { runId: "begun" });
    add("announce:2", ["three", "four"], { runId: "waits" });
    const { outbox } = rig().stores;
    write((tx) => outbox.markSent(tx, 1, "ref"));
    expect([write((tx) => outbox.withdraw(tx, "announce:1")), write((tx) => outbox.withdraw(tx, "announce:2"))]).toEqual([false, true]);
    expect(outbox.get(2)).toMatchObject({ state: "queued" });
    write((tx) => outbox.markSent(tx, 3, "ref"));
    write((tx) => outbox.reopen(tx, "announce:2"));
    expect(outbox.get(4)).toMatchObject({ state: "queued", reason: null });
  });

  it("[DL4] when the last attempt began is kept as long as it may have arrived, also while it is blocked", () => {
    add("announce:1", ["one"], { runId: "run" });
    const { outbox } = rig().stores;
    const { id } = outbox.head(key)!;
    const now = rig().clock.now();
    const next = { notBefore: 0, firstAt: now, reason: "x", stepsAside: false };
    const sends: [() => void, number | null][] = [
      [() => write((tx) => outbox.retryAt(tx, id, { ...next, as: "unknown" })), now],
      [() => write((tx) => outbox.retryAt(tx, id, { ...next, as: "queued" })), null],
      [() => write((tx) => outbox.setPart(tx, id, {}, "unknown")), now],
      [() => write((tx) => outbox.setPart(tx, id, {}, "queued")), null],
      [() => write((tx) => outbox.retarget(tx, id, ADDRESS, ADDRESS, "unknown")), now],
      [() => write((tx) => outbox.retarget(tx, id, ADDRESS, ADDRESS, "queued")), null],
      [() => write((tx) => outbox.reserve(tx, id, "place")), null],
    ];
    for (const [settle, sendingAt] of sends) {
      write((tx) => outbox.markSending(tx, id));
      settle();
      expect(outbox.get(id)).toMatchObject({ sendingAt, state: sendingAt === null ? "queued" : "unknown" });
    }
    for (const as of ["queued", "unknown"] as const) {
      write((tx) => outbox.markSending(tx, id));
      write((tx) => outbox.markBlocked(tx, "announce:1", "kicked", as));
      write((tx) => outbox.requeue(tx, "run"));
      expect(outbox.get(id)?.state).toBe(as);
    }
  });

  it("[DL4] a lost attempt of a clock that was set back since began now at the latest", () => {
    add("reply:1", ["one"]);
    const { outbox } = rig().stores;
    const { id } = outbox.head(key)!;
    write((tx) => outbox.markSending(tx, id));
    const now = rig().clock.now() - 7_200_000;
    rig().clock.set(now);
    write((tx) => outbox.retryAt(tx, id, { notBefore: now, firstAt: now, reason: "lost", as: "unknown", stepsAside: false }));
    expect(outbox.get(id)?.sendingAt).toBe(now);
  });

  it("[DL3] a chat that moved takes everything open along, and a part can be replaced", () => {
    add("reply:1", ["one", "two"]);
    add("reply:2", ["three"]);
    const { outbox } = rig().stores;
    write((tx) => outbox.markSending(tx, 3));
    write((tx) => outbox.markSending(tx, 1));
    write((tx) => outbox.retarget(tx, 1, ADDRESS, OTHER, "queued"));
    expect(outbox.head(key)).toBeNull();
    // How the other attempt under way ends nobody knows yet.
    expect(outbox.get(3)).toMatchObject({ state: "sending", address: OTHER });
    const moved = outbox.head("web/local/other/-")!;
    expect(moved).toMatchObject({ state: "queued", address: OTHER, part: { text: "one" } });
    write((tx) => outbox.setPart(tx, moved.id, { text: "plain" }, "queued"));
    expect(outbox.get(moved.id)?.part).toEqual({ text: "plain" });
    expect(outbox.countAllOpen()).toBe(3);
  });

  it("[DL3] purge keeps what is open and what /subagents retry may still want", async () => {
    add("reply:1", ["sent"]);
    add("reply:2", ["open"], { address: OTHER });
    add("announce:3", ["blocked"], { runId: "run" });
    const { outbox } = rig().stores;
    write((tx) => outbox.markSent(tx, outbox.head(key)!.id, "ref"));
    write((tx) => outbox.markBlocked(tx, "announce:3", "kicked", "queued"));
    await rig().clock.advance(10);
    expect(outbox.purge(rig().clock.now())).toBe(1);
    expect(write((tx) => outbox.requeue(tx, "run"))).toBe(1);
    expect(outbox.countAllOpen()).toBe(2);
  });
}

function sessionContract(rig: () => StoreRig): void {
  const write = writer(rig);
  const open = (key = CHAT_KEY): string => {
    const id = rig().stores.sessions.newSessionId();
    write((tx) => rig().stores.sessions.insert(tx, { id, key, agentId: "main", address: ADDRESS, parentKey: null }));
    return id;
  };

  it("[SE5] a key has one open session; ended ones stay readable, newest first", async () => {
    const old = open();
    expect(() => open()).toThrow();
    write((tx) => rig().stores.sessions.setModel(tx, old, "x/y"));
    write((tx) => rig().stores.sessions.end(tx, old));
    expect(rig().stores.sessions.find(CHAT_KEY)).toBeNull();
    await rig().clock.advance(5);
    const fresh = open();
    const { sessions } = rig().reopen();
    expect(sessions.find(CHAT_KEY)).toMatchObject({ id: fresh, model: null, address: ADDRESS });
    expect(sessions.get(old)).toMatchObject({ model: "x/y", endedAt: rig().clock.now() - 5 });
    expect(sessions.get(old)?.endedAt).not.toBeNull();
  });

  it("[MO3] spend is summed per session and day; one call without a price leaves the cost out", async () => {
    const usage = { input: 10, output: 2, cacheRead: 1, cacheWrite: 0 };
    const [a, b] = [open("agent:main:web:dm:a"), open("agent:main:web:dm:b")];
    const { sessions } = rig().stores;
    const today = rig().clock.now();
    expect(sessions.spendOf([a])).toEqual({ usage: null, costUsd: null });
    write((tx) => sessions.addSpend(tx, a, "p/m", { usage, costUsd: 0.5 }));
    write((tx) => sessions.addSpend(tx, a, "p/m", { usage, costUsd: 0.25 }));
    write((tx) => sessions.addSpend(tx, a, "p/m", { usage: null, costUsd: null }));
    await rig().clock.advance(24 * 3_600_000);
    write((tx) => sessions.addSpend(tx, b, "p/free", { usage, costUsd: null }));
    expect(sessions.spendOf([a])).toEqual({ usage: { input: 20, output: 4, cacheRead: 2, cacheWrite: 0 }, costUsd: 0.75 });
    expect(sessions.spendOf([a, b]).costUsd).toBeNull();
    expect(sessions.spendOf([a, b]).usage?.input).toBe(30);
    expect(sessions.spendOfDay(today).costUsd).toBe(0.75);
    expect(sessions.spendOfDay(rig().clock.now())).toEqual({ usage, costUsd: null });
  });
}

function runContract(rig: () => StoreRig): void {
  const write = writer(rig);
  const END = { reason: null, incomplete: false, delivery: "pending" } as const;

  it("[RU1] a run survives a restart as it was", () => {
    const { runs } = rig().stores;
    write((tx) =>
      runs.insert(tx, newRun("r1", { params: { role: "explore", allowedTools: ["read"] }, address: { ...ADDRESS, thread: "42" } })),
    );
    runs.start("r1");
    runs.setDoing("r1", "reading");
    write((tx) => runs.addSpend(tx, "r1", { usage: { input: 5, output: 1, cacheRead: 0, cacheWrite: 0 }, costUsd: 0.1 }));
    const before = runs.get("r1");
    expect(rig().reopen().runs.get("r1")).toEqual(before);
    expect(before).toMatchObject({ state: "running", doing: "reading", address: { thread: "42" }, spend: { costUsd: 0.1 } });
  });

  it("[SP2] the requester's turn and call name one run", () => {
    const { runs } = rig().stores;
    write((tx) => runs.insert(tx, newRun("r1")));
    expect(() => write((tx) => runs.insert(tx, newRun("r2", { spawnKey: "spawn-r1" })))).toThrow();
    expect(runs.findBySpawnKey("spawn-r1")?.id).toBe("r1");
    expect(runs.findByChildKey("child-r1")?.id).toBe("r1");
    expect([runs.findBySpawnKey("x"), runs.findByChildKey("x"), runs.get("x")]).toEqual([null, null, null]);
  });

  it("[RU2] a run starts once and ends once, whatever comes second", () => {
    const { runs } = rig().stores;
    write((tx) => runs.insert(tx, newRun("r1")));
    expect(write((tx) => runs.end(tx, "r1", { ...END, as: "done" }))).toBe(false);
    expect([runs.start("r1"), runs.start("r1")]).toEqual([true, false]);
    expect(write((tx) => runs.end(tx, "r1", { ...END, as: "stopped", delivery: "none" }))).toBe(true);
    for (const as of RUN_STATES.filter((state) => !isUnfinished(state))) {
      expect(write((tx) => runs.end(tx, "r1", { ...END, as, reason: "too late" }))).toBe(false);
    }
    expect(runs.get("r1")).toMatchObject({ state: "stopped", reason: null, delivery: "none" });
    expect(rig().events.filter((event) => event.type === "run.ended")).toEqual([{ type: "run.ended", runId: "r1", state: "stopped" }]);
  });

  it("[CM7] a finished run goes on as the next generation, an unfinished one doesn't", () => {
    const { runs } = rig().stores;
    write((tx) => runs.insert(tx, newRun("r1")));
    expect(write((tx) => runs.reopen(tx, newRun("r1")))).toBe(false);
    runs.start("r1");
    expect(write((tx) => runs.reopen(tx, newRun("r1")))).toBe(false);
    write((tx) => runs.putAside(tx, "r1", true));
    write((tx) => runs.countResume(tx, "r1"));
    expect(runs.get("r1")).toMatchObject({ resumes: 1, crashes: 1 });
    write((tx) => runs.end(tx, "r1", { ...END, as: "error", reason: "broke" }));
    write((tx) => runs.markSettled(tx, "r1"));
    expect(write((tx) => runs.reopen(tx, newRun("r1")))).toBe(true);
    const fresh = {
      state: "queued",
      generation: 2,
      resumes: 0,
      crashes: 0,
      endedAt: null,
      reason: null,
      settledAt: null,
      delivery: "none",
    };
    expect(runs.get("r1")).toMatchObject(fresh);
  });

  it("[RU1][SP10] a waiting run is unfinished, wakes once, and the time it waited moves its deadline", async () => {
    const { clock, stores } = rig();
    const { runs, db } = stores;
    write((tx) => runs.insert(tx, newRun("r1", { timeoutMs: 60_000 })));
    const waits = [{ for: "runs" as const, ids: ["r2"], mode: "all" as const, since: clock.now(), until: clock.now() + 5_000 }];
    const wait = (): boolean => db.transaction([], (tx) => runs.wait(tx, "r1", waits, "waiting for 1 sub-agent"), RELAXED);
    expect(wait()).toBe(false);
    runs.start("r1");
    const deadlineAt = runs.get("r1")?.deadlineAt ?? 0;
    expect([wait(), wait()]).toEqual([true, false]);
    expect(runs.get("r1")).toMatchObject({ state: "waiting", waits, doing: "waiting for 1 sub-agent" });
    expect([runs.countUnfinished("agent:main:web:dm:main"), runs.listUnfinished().length]).toEqual([1, 1]);
    expect(runs.listWakeDue(clock.now())).toEqual({ due: [], nextAt: clock.now() + 5_000 });
    await clock.advance(7_000);
    expect(runs.listWakeDue(clock.now())).toMatchObject({ due: [{ id: "r1" }], nextAt: null });
    expect([runs.wake("r1"), runs.wake("r1")]).toEqual([true, false]);
    expect(runs.get("r1")).toMatchObject({ state: "running", waits: [], doing: null, deadlineAt: deadlineAt + 7_000 });
    expect(runs.listWakeDue(clock.now())).toEqual({ due: [], nextAt: null });
  });

  it("[RU2] one that waits can be stopped or given up, and nothing of its wait is left", () => {
    const { runs, db } = rig().stores;
    write((tx) => runs.insert(tx, newRun("r1")));
    runs.start("r1");
    db.transaction([], (tx) => runs.wait(tx, "r1", [{ for: "children" }], "waiting for 2 sub-agents"), RELAXED);
    expect(write((tx) => runs.end(tx, "r1", { ...END, as: "done" }))).toBe(false);
    expect(write((tx) => runs.end(tx, "r1", { ...END, as: "stopped", delivery: "none" }))).toBe(true);
    expect(runs.get("r1")).toMatchObject({ state: "stopped", waits: [], doing: null });
    expect(runs.wake("r1")).toBe(false);
  });

  it("[SP6] unfinished runs are counted per requester, and finished ones no more", () => {
    const { runs } = rig().stores;
    for (const id of ["a", "b", "c"]) write((tx) => runs.insert(tx, newRun(id)));
    write((tx) => runs.insert(tx, newRun("d", { requesterKey: "another" })));
    runs.start("a");
    write((tx) => runs.end(tx, "a", { ...END, as: "done" }));
    expect(runs.countUnfinished(CHAT_KEY)).toBe(2);
    expect(
      runs
        .listUnfinished()
        .map((run) => run.id)
        .sort(),
    ).toEqual(["b", "c", "d"]);
    runs.start("b");
    expect(runs.countUnfinishedByState()).toEqual({ queued: 2, running: 1, waiting: 0 });
  });

  it("[TL4] below means below, at any depth, and never sideways or up", async () => {
    const { runs } = rig().stores;
    write((tx) => runs.insert(tx, newRun("child")));
    write((tx) => runs.insert(tx, newRun("grandchild", { requesterKey: "child-child", requesterRunId: "child", rootKey: CHAT_KEY })));
    write((tx) => runs.insert(tx, newRun("stranger", { requesterKey: "another" })));
    expect(runs.isBelow("child-grandchild", CHAT_KEY)).toBe(true);
    expect(runs.isBelow("child-stranger", CHAT_KEY)).toBe(false);
    expect(runs.isBelow("child-child", "child-grandchild")).toBe(false);
    expect(runs.unfinishedBelow(CHAT_KEY).map((run) => run.id)).toEqual(["child", "grandchild"]);
    expect(runs.unfinishedBelow("child-child").map((run) => run.id)).toEqual(["grandchild"]);
    expect(runs.unfinishedBelow("child-grandchild")).toEqual([]);
    expect([CHAT_KEY, "child-child", "another"].map((key) => runs.countUnfinished(key))).toEqual([1, 1, 1]);
    write((tx) => runs.insert(tx, newRun("in a thread", { requesterKey: `${CHAT_KEY}:thread:1` })));
    write((tx) =>
      runs.insert(
        tx,
        newRun("below it", { requesterKey: "child-in a thread", requesterRunId: "in a thread", rootKey: `${CHAT_KEY}:thread:1` }),
      ),
    );
    write((tx) => runs.insert(tx, newRun("another chat", { requesterKey: `${CHAT_KEY}2` })));
    expect(runs.rootsAtWork(`${CHAT_KEY}:`, 10)).toEqual([`${CHAT_KEY}:thread:1`]);
    expect(runs.rootsAtWork("", 2)).toHaveLength(2);
    expect(runs.childrenOf("child").map((run) => run.id)).toEqual(["grandchild"]);
    write((tx) => runs.end(tx, "child", { ...END, as: "stopped" }));
    expect(runs.unfinishedBelow(CHAT_KEY).map((run) => run.id)).toEqual(["grandchild"]);
  });

  it("[AR1] due for archiving: settled long enough ago, or to be deleted; once archived no more", async () => {
    const { runs } = rig().stores;
    for (const [id, cleanup] of [
      ["keep", "keep"],
      ["delete", "delete"],
      ["running", "delete"],
    ] as const) {
      write((tx) => runs.insert(tx, newRun(id, { cleanup })));
      runs.start(id);
    }
    for (const id of ["keep", "delete"]) write((tx) => runs.end(tx, id, { ...END, as: "done" }));
    for (const id of ["keep", "delete", "running"]) write((tx) => runs.markSettled(tx, id));
    const settledAt = rig().clock.now();
    const due = (before: number | null): string[] =>
      runs
        .listArchiveDue(before, 10)
        .map((run) => run.id)
        .sort();
    expect(due(null)).toEqual(["delete"]);
    expect(due(settledAt - 1)).toEqual(["delete"]);
    expect(due(settledAt)).toEqual(["delete", "keep"]);
    runs.setArchiveName("delete", "x.deleted");
    write((tx) => runs.setArchived(tx, "delete"));
    expect(due(settledAt)).toEqual(["keep"]);
  });

  it("[AR1] an announcement that is sent again is not settled until it arrives; an archived run stays archived", () => {
    const { runs } = rig().stores;
    for (const id of ["waits", "archived"]) {
      write((tx) => runs.insert(tx, newRun(id)));
      runs.start(id);
      write((tx) => runs.end(tx, id, { ...END, as: "done" }));
      write((tx) => runs.setDelivery(tx, id, "blocked", "kicked"));
      write((tx) => runs.markSettled(tx, id));
    }
    runs.setArchiveName("archived", "x.deleted");
    for (const id of ["waits", "archived"]) write((tx) => runs.setDelivery(tx, id, "pending"));
    const now = rig().clock.now();
    expect(runs.listArchiveDue(now, 10).map((run) => run.id)).toEqual(["archived"]);
    write((tx) => runs.setDelivery(tx, "waits", "delivered"));
    write((tx) => runs.markSettled(tx, "waits"));
    expect(runs.listArchiveDue(now, 10)).toHaveLength(2);
  });

  it("[CM2] a requester's runs are listed newest first", async () => {
    const { runs } = rig().stores;
    for (const id of ["a", "b", "c"]) {
      write((tx) => runs.insert(tx, newRun(id)));
      await rig().clock.advance(1);
    }
    expect(runs.listOf(CHAT_KEY, 2).map((run) => run.id)).toEqual(["c", "b"]);
    expect(runs.listRecent(1).map((run) => run.id)).toEqual(["c"]);
  });

  it("[MO3] a run's cost is left out as soon as one call had no price", () => {
    const { runs } = rig().stores;
    const usage = { input: 5, output: 1, cacheRead: 0, cacheWrite: 0 };
    write((tx) => runs.insert(tx, newRun("r1")));
    write((tx) => runs.addSpend(tx, "r1", { usage, costUsd: 0.5 }));
    write((tx) => runs.addSpend(tx, "r1", { usage: null, costUsd: null }));
    expect(runs.get("r1")?.spend).toEqual({ usage, costUsd: 0.5 });
    write((tx) => runs.addSpend(tx, "r1", { usage, costUsd: null }));
    write((tx) => runs.addSpend(tx, "r1", { usage, costUsd: 0.5 }));
    expect(runs.get("r1")?.spend).toMatchObject({ usage: { input: 15 }, costUsd: null });
  });
}

function transactionContract(rig: () => StoreRig): void {
  const write = writer(rig);
  it("[AN4] a transaction over several stores is all or nothing, and silent when it rolls back", () => {
    const { db, runs, outbox } = rig().stores;
    write((tx) => runs.insert(tx, newRun("r1")));
    runs.start("r1");
    rig().events.length = 0;
    expect(() =>
      db.transaction([], (tx) => {
        runs.end(tx, "r1", { as: "done", reason: null, incomplete: false, delivery: "pending" });
        outbox.add(tx, { delivery: "announce:1", address: ADDRESS, parts: [{ text: "x" }] });
        throw new Error("the power went");
      }),
    ).toThrow("the power went");
    expect(runs.get("r1")?.state).toBe("running");
    expect(outbox.countAllOpen()).toBe(0);
    expect(rig().events).toEqual([]);
    // And the next one works.
    write((tx) => runs.end(tx, "r1", { as: "done", reason: null, incomplete: false, delivery: "pending" }));
    expect(rig().events.map((event) => event.type)).toContain("run.ended");
  });

  it("[AN4] bells ring after the commit, so whoever hears one finds the row, and the store's own statements are part of it", () => {
    const { db, outbox } = rig().stores;
    const seen: unknown[] = [];
    rig().bus.on(() => seen.push(outbox.countAllOpen()));
    db.transaction([], (tx) => {
      outbox.add(tx, { delivery: "reply:1", address: ADDRESS, parts: [{ text: "x" }] });
      expect(rig().events).toEqual([]);
    });
    expect(seen).toEqual([1]);
    expect(rig().events).toEqual([{ type: "outbox.added", addressKey: "web/local/main/-" }]);
  });
}

function smallStoreContract(rig: () => StoreRig): void {
  const write = writer(rig);
  const person = (senderId: string) => ({ channel: "telegram", account: "bot", senderId, senderName: "Ann", address: ADDRESS });

  it("[SC1] a pairing code is 8 characters, given once per person, at most 3 at a time, for an hour", async () => {
    const { pairing } = rig().stores;
    const code = write((tx) => pairing.request(tx, person("1")));
    expect(code).toMatch(/^[A-Z2-9]{8}$/);
    expect(write((tx) => pairing.request(tx, person("1")))).toBeNull();
    for (const id of ["2", "3"]) expect(write((tx) => pairing.request(tx, person(id)))).not.toBeNull();
    expect(write((tx) => pairing.request(tx, person("4")))).toBeNull();
    expect(
      pairing
        .listPending()
        .map((one) => one.senderId)
        .sort(),
    ).toEqual(["1", "2", "3"]);
    await rig().clock.advance(3_600_000);
    expect(pairing.listPending()).toEqual([]);
    expect(pairing.approve(code ?? "")).toBeNull();
    expect(write((tx) => pairing.request(tx, person("4")))).not.toBeNull();
  });

  it("[SC1] an approved code lets exactly that person in, on that account, for good, and works once", () => {
    const { pairing } = rig().stores;
    const code = write((tx) => pairing.request(tx, person("1"))) ?? "";
    expect(pairing.approve("ABCDEFGH")).toBeNull();
    expect(pairing.approve(` ${code.toLowerCase()} `)).toMatchObject({ senderId: "1" });
    expect(pairing.approve(code)).toBeNull();
    const again = rig().reopen().pairing;
    expect(again.isPaired("telegram", "bot", "1")).toBe(true);
    expect(again.isPaired("telegram", "other-bot", "1")).toBe(false);
    expect(again.isPaired("slack", "bot", "1")).toBe(false);
    expect(again.isPaired("telegram", "bot", "11")).toBe(false);
  });

  it("[SC1] three strangers keep nobody out for long: a code that had its ten minutes makes room, one for each who asks", async () => {
    const { pairing } = rig().stores;
    const asks = (id: string): string | null => {
      const isGiven = pairing.wouldGive(person(id));
      const code = write((tx) => pairing.request(tx, person(id)));
      expect(code !== null).toBe(isGiven);
      return code;
    };
    const waiting = (): string[] => pairing.listPending().map((one) => one.senderId);
    asks("1");
    await rig().clock.advance(60_000);
    const second = asks("2") ?? "";
    asks("3");
    await rig().clock.advance(9 * 60_000 - 1);
    expect(asks("4")).toBeNull();
    await rig().clock.advance(1);
    expect(asks("4")).not.toBeNull();
    expect(asks("5")).toBeNull();
    expect(waiting()).toEqual(["2", "3", "4"]);
    // Who lost the place waits for one that is free; a newcomer doesn't.
    await rig().clock.advance(60_000);
    expect([asks("4"), asks("1")]).toEqual([null, null]);
    expect(asks("5")).not.toBeNull();
    expect([waiting(), pairing.approve(second)]).toEqual([["3", "4", "5"], null]);
    await rig().clock.advance(50 * 60_000);
    expect(asks("1")).not.toBeNull();
  });

  it("[SC1] accounts that keep asking in turns hold no place against a newcomer, and take none from one", async () => {
    const { pairing } = rig().stores;
    const ask = (id: string): boolean => write((tx) => pairing.request(tx, person(id))) !== null;
    const flood = Array.from({ length: 6 }, (_, n) => `flood${n}`);
    for (let minute = 0; minute < 180; minute++) {
      for (const id of flood) ask(id);
      await rig().clock.advance(60_000);
    }
    expect(pairing.listPending()).toHaveLength(3);
    expect(ask("ann")).toBe(true);
    // For the whole hour: nobody else is new.
    for (let minute = 0; minute < 59; minute++) {
      for (const id of flood) ask(id);
      await rig().clock.advance(60_000);
    }
    expect(pairing.listPending().map((one) => one.senderId)).toContain("ann");
    await rig().clock.advance(25 * 3_600_000);
    expect(ask("bob")).toBe(true);
    expect(rig().stores.db.all("SELECT 1 FROM pairing_codes")).toHaveLength(1);
  });

  it("[SC1] a channel's one place is not taken by another's newcomers, whoever holds it", async () => {
    const { pairing } = rig().stores;
    const colleague = { ...person("A"), channel: "slack", account: "team" };
    for (const id of ["1", "2"]) write((tx) => pairing.request(tx, person(id)));
    write((tx) => pairing.request(tx, colleague));
    await rig().clock.advance(10 * 60_000);
    expect(write((tx) => pairing.request(tx, person("3")))).not.toBeNull();
    expect(write((tx) => pairing.request(tx, person("4")))).not.toBeNull();
    expect(write((tx) => pairing.request(tx, person("5")))).toBeNull();
    expect(pairing.listPending().map((one) => one.senderId)).toEqual(["A", "3", "4"]);
  });

  it("[SC1] strangers on one channel take no place from somebody on another", () => {
    const { pairing } = rig().stores;
    const colleague = (id: string) => ({ ...person(id), channel: "slack", account: "team" });
    for (const id of ["1", "2", "3"]) write((tx) => pairing.request(tx, person(id)));
    expect(write((tx) => pairing.request(tx, person("4")))).toBeNull();
    expect(write((tx) => pairing.request(tx, colleague("A")))).not.toBeNull();
    expect(write((tx) => pairing.request(tx, colleague("B")))).toBeNull();
    expect(write((tx) => pairing.request(tx, person("4")))).toBeNull();
    expect(pairing.listPending().map((one) => one.senderId)).toEqual(expect.arrayContaining(["2", "3", "A"]));
  });

  it("[SC1] a thousand strangers an hour are given some twenty codes", async () => {
    const { pairing } = rig().stores;
    let given = 0;
    for (let n = 0; n < 1_000; n++) {
      if (write((tx) => pairing.request(tx, person(`s${n}`))) !== null) given++;
      if (n % 10 === 0) await rig().clock.advance(36_000);
    }
    expect(given).toBeLessThan(25);
    expect(pairing.listPending()).toHaveLength(3);
    expect(rig().stores.db.all("SELECT 1 FROM pairing_codes")).toHaveLength(given);
  });

  it("[SC1] a refused person gets no other code until that is revoked; who was let in and is revoked is a stranger at once", () => {
    const { pairing } = rig().stores;
    const ask = (id: string): string => write((tx) => pairing.request(tx, person(id))) ?? "";
    expect(pairing.refuse("ABCDEFGH")).toBeNull();
    expect(pairing.refuse(ask("1"))).toMatchObject({ senderId: "1" });
    pairing.approve(ask("2"));
    expect([pairing.isPaired("telegram", "bot", "1"), pairing.wouldGive(person("1")), ask("1")]).toEqual([false, false, ""]);
    expect(pairing.listPeople().map(({ senderId, state }) => `${senderId} ${state}`)).toEqual(["1 refused", "2 paired"]);
    const untold = (): string[] => pairing.listUntold().map(({ senderId }) => senderId);
    expect(untold()).toEqual(["1", "2"]);
    write((tx) => pairing.markTold(tx, person("2")));
    expect(untold()).toEqual(["1"]);
    for (const id of ["1", "2"]) expect(pairing.revoke(person(id))).toBe(true);
    expect(pairing.revoke(person("2"))).toBe(false);
    expect([pairing.isPaired("telegram", "bot", "2"), ask("1") !== "", ask("2") !== ""]).toEqual([false, true, true]);
  });

  it("[CM7] mail is read in order, stays until it is taken and keeps its entry id over a restart", () => {
    write((tx) => rig().stores.mail.sendToRun(tx, "run", "Ann", "first"));
    write((tx) => rig().stores.mail.sendToRun(tx, "run", "Ann", "second"));
    write((tx) => rig().stores.mail.sendToRun(tx, "another", "Ann", "not yours"));
    const before = rig().stores.mail.listForRun("run");
    const { mail } = rig().reopen();
    expect(mail.listForRun("run")).toEqual(before);
    expect(before.map((one) => [one.text, one.from])).toEqual([
      ["first", "Ann"],
      ["second", "Ann"],
    ]);
    write((tx) => mail.takeForRun(tx, [before[0]!.id]));
    expect(mail.listForRun("run").map((one) => one.text)).toEqual(["second"]);
    expect(mail.listForRun("another")).toHaveLength(1);
  });

  it("[AN5] a note about one fact is told once, also when it is added again", () => {
    const { mail } = rig().stores;
    write((tx) => mail.addNote(tx, "session", "run:1", "done"));
    write((tx) => mail.addNote(tx, "session", "run:1", "done again"));
    const [note] = mail.listNotes("session");
    expect(note).toMatchObject({ text: "done", from: "run:1" });
    write((tx) => mail.takeNotes(tx, [note!.id]));
    write((tx) => mail.addNote(tx, "session", "run:1", "done once more"));
    expect(mail.listNotes("session")).toEqual([]);
  });

  it("[AN5] purge forgets mail that was taken before, and notes of conversations that were over by then", async () => {
    const { mail, sessions } = rig().stores;
    for (const id of ["old", "live"]) write((tx) => sessions.insert(tx, { id, key: id, agentId: "main", address: null, parentKey: null }));
    write((tx) => mail.sendToRun(tx, "run", "Ann", "read"));
    write((tx) => mail.addNote(tx, "live", "run:1", "read"));
    write((tx) => mail.addNote(tx, "old", "run:2", "never read"));
    write((tx) =>
      mail.takeForRun(
        tx,
        mail.listForRun("run").map((one) => one.id),
      ),
    );
    write((tx) =>
      mail.takeNotes(
        tx,
        mail.listNotes("live").map((one) => one.id),
      ),
    );
    write((tx) => sessions.end(tx, "old"));
    await rig().clock.advance(1_000);
    write((tx) => mail.sendToRun(tx, "run", "Ann", "unread"));
    write((tx) => mail.addNote(tx, "live", "run:3", "unread"));
    const left = () =>
      ["run_messages", "notes"].map((table) =>
        rig()
          .stores.db.all<{ text: string }>(`SELECT text FROM ${table}`)
          .map((row) => row.text),
      );
    mail.purge(rig().clock.now() - 1_000);
    expect(left()).toEqual([
      ["read", "unread"],
      ["read", "never read", "unread"],
    ]);
    mail.purge(rig().clock.now());
    expect(left()).toEqual([["unread"], ["unread"]]);
  });

  it("[CM2] numbers mean the same runs until the next list, also after a restart", () => {
    write((tx) => rig().stores.listings.save(tx, CHAT_KEY, ["c", "b", "a"]));
    expect(rig().reopen().listings.find(CHAT_KEY)).toEqual(["c", "b", "a"]);
    write((tx) => rig().stores.listings.save(tx, CHAT_KEY, ["d"]));
    expect(rig().stores.listings.find(CHAT_KEY)).toEqual(["d"]);
    expect(rig().stores.listings.find("another")).toEqual([]);
  });

  it("[NV2] a scratchpad is durable and per session", () => {
    rig().stores.scratchpad.write(CHAT_KEY, "plan", "one");
    rig().stores.scratchpad.append(CHAT_KEY, "plan", "two");
    const { scratchpad } = rig().reopen();
    expect(scratchpad.read(CHAT_KEY, "plan")).toBe("one\ntwo");
    expect(scratchpad.read("another", "plan")).toBeNull();
  });
}
