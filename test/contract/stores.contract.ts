// What every store must do, whatever database stands behind it: compare-and-set with one winner, all or nothing,
// idempotent by key, and the same answers after a restart. stores.test.ts runs it over SQLite.
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Stores } from "../../src/app/store-parts.ts";
import type { Address } from "../../src/core/address.ts";
import type { AppEvent, Bus } from "../../src/core/events.ts";
import { isUnfinished, RUN_STATES } from "../../src/core/run.ts";
import { RELAXED, type Tx } from "../../src/stores/database.ts";
import type { ManualClock } from "../support/manual-clock.ts";
import { ADDRESS, CHAT_KEY, newRun } from "../support/runs.ts";

export interface StoreRig extends AsyncDisposable {
  readonly clock: ManualClock;
  readonly events: AppEvent[];
  readonly bus: Bus;
  readonly stores: Stores;
  /** Closes and opens again on the same data. */
  reopen(): Promise<Stores>;
}

const OTHER: Address = { ...ADDRESS, chat: "other" };

export function storeContract(name: string, makeRig: () => Promise<StoreRig>): void {
  describe(`stores (${name})`, () => {
    let rig: StoreRig;
    beforeEach(async () => {
      rig = await makeRig();
    });
    afterEach(() => rig[Symbol.asyncDispose]());
    inboxContract(() => rig);
    outboxContract(() => rig);
    sessionContract(() => rig);
    runContract(() => rig);
    transactionContract(() => rig);
    smallStoreContract(() => rig);
    digestContract(() => rig);
  });
}

/** One statement or a few, in a transaction of their own. */
const writer =
  (rig: () => StoreRig) =>
  <T>(work: (tx: Tx) => Promise<T>): Promise<T> =>
    rig().stores.db.transaction([], work);

function inboxContract(rig: () => StoreRig): void {
  const write = writer(rig);
  const put = (...ids: string[]): Promise<void> =>
    rig()
      .stores.inbox.sink("web", "local")
      .put(ids.map((externalId) => ({ externalId, raw: { text: externalId } })));

  it("[RC3] a replayed id is dropped, also after it was answered and after a restart", async () => {
    await put("a", "b");
    await put("b", "c", "a");
    const rows = await rig().stores.inbox.listNew(0, 10);
    expect(rows.map((row) => row.raw)).toEqual([{ text: "a" }, { text: "b" }, { text: "c" }]);
    for (const row of rows) expect(await write((tx) => rig().stores.inbox.finish(tx, row.id))).toBe(true);
    const { inbox } = await rig().reopen();
    await inbox.sink("web", "local").put([{ externalId: "a", raw: { text: "again" } }]);
    expect(await inbox.listNew(0, 10)).toEqual([]);
  });

  it("[RC3] the same id of another channel or account is another message", async () => {
    const { inbox } = rig().stores;
    for (const [channel, account] of [
      ["web", "local"],
      ["telegram", "bot1"],
      ["telegram", "bot2"],
    ] as const)
      await inbox.sink(channel, account).put([{ externalId: "1", raw: channel }]);
    expect(await inbox.listNew(0, 10)).toHaveLength(3);
  });

  it("[RC3] updates and cursor are stored together and the bell rings once they are", async () => {
    const sink = rig().stores.inbox.sink("telegram", "bot");
    expect(await sink.cursor()).toBeNull();
    await sink.put([{ externalId: "7", raw: {} }], "8");
    expect((await sink.cursor())?.value).toBe("8");
    expect((await (await rig().reopen()).inbox.sink("telegram", "bot").cursor())?.value).toBe("8");
    expect(rig().events).toContainEqual({ type: "inbox.added", channel: "telegram" });
  });

  it("[RC3] one update that can't be stored stores none of its batch, nor the cursor", async () => {
    const sink = rig().stores.inbox.sink("telegram", "bot");
    const circular: Record<string, unknown> = {};
    circular.self = circular;
    await expect(() =>
      sink.put(
        [
          { externalId: "1", raw: {} },
          { externalId: "2", raw: circular },
        ],
        "3",
      ),
    ).rejects.toThrow();
    expect(await rig().stores.inbox.listNew(0, 10)).toEqual([]);
    expect(await sink.cursor()).toBeNull();
    expect(rig().events).toEqual([]);
  });

  it("[AG1] a session's messages are claimed oldest first; attempts count, releases don't", async () => {
    await put("a", "b", "c");
    const { inbox } = rig().stores;
    const [a, b, c] = (await inbox.listNew(0, 10)).map((row) => row.id);
    for (const id of [a, b]) expect(await inbox.route(id!, CHAT_KEY)).toBe(true);
    expect(await inbox.route(c!, "another")).toBe(true);
    expect(await inbox.route(a!, CHAT_KEY)).toBe(false);
    expect(await inbox.claim(CHAT_KEY)).toMatchObject({ id: a, attempts: 1, sessionKey: CHAT_KEY });
    expect(await inbox.claim(CHAT_KEY)).toMatchObject({ id: a, attempts: 2 });
    await inbox.release(a!);
    expect(await inbox.claim(CHAT_KEY)).toMatchObject({ id: a, attempts: 2 });
    await write((tx) => inbox.finish(tx, a!));
    expect(await inbox.claim(CHAT_KEY)).toMatchObject({ id: b, attempts: 1 });
    expect(await inbox.countWaiting(CHAT_KEY)).toBe(1);
    expect((await inbox.waitingSessions()).sort()).toEqual([CHAT_KEY, "another"].sort());
  });

  it.each(["its process is gone", "it was released"])(
    "[AG1][RC1] what was begun is taken up first, also before what came in before it and is routed later: %s",
    async (how) => {
      await put("a", "b", "c");
      const { inbox } = rig().stores;
      const [a, b, c] = (await inbox.listNew(0, 10)).map((row) => row.id);
      for (const id of [b, c]) await inbox.route(id!, CHAT_KEY);
      expect(await inbox.claim(CHAT_KEY)).toMatchObject({ id: b, attempts: 1 });
      if (how === "it was released") await inbox.release(b!);
      const again = (await rig().reopen()).inbox;
      await again.route(a!, CHAT_KEY);
      expect((await again.claim(CHAT_KEY))?.id).toBe(b);
      await write((tx) => again.finish(tx, b!));
      expect((await again.claim(CHAT_KEY))?.id).toBe(a);
      await write((tx) => again.finish(tx, a!));
      expect((await again.claim(CHAT_KEY))?.id).toBe(c);
    },
  );

  it("[RC1] a message that is being answered has an owner; without one alive it is found, and only then", async () => {
    await rig().stores.nodes.enter();
    await put("a", "b");
    const { inbox } = rig().stores;
    const [a, b] = (await inbox.listNew(0, 10)).map((row) => row.id);
    await inbox.route(a!, CHAT_KEY);
    await inbox.route(b!, "another");
    await inbox.claim(CHAT_KEY);
    expect(await inbox.orphanedSessions()).toEqual([]);
    const again = await rig().reopen();
    await again.nodes.enter();
    // Nobody had begun the other one: it waits, and is no orphan.
    expect(await again.inbox.orphanedSessions()).toEqual([CHAT_KEY]);
    await again.inbox.release(a!);
    expect(await again.inbox.orphanedSessions()).toEqual([]);
  });

  it("[RC1] what is put back is new and uncounted, and comes before what arrived after it", async () => {
    await put("a", "b");
    const { inbox } = rig().stores;
    const [a, b] = (await inbox.listNew(0, 10)).map((row) => row.id);
    for (const id of [a, b]) await inbox.route(id!, CHAT_KEY);
    await inbox.claim(CHAT_KEY);
    await inbox.putBack(a!);
    expect(await inbox.listNew(0, 10)).toMatchObject([{ id: a, attempts: 0, sessionKey: null, raw: { text: "a" } }]);
    await inbox.route(a!, CHAT_KEY);
    expect((await inbox.claim(CHAT_KEY))?.id).toBe(a);
    await write((tx) => inbox.finish(tx, a!));
    await inbox.putBack(a!);
    expect(await inbox.listNew(0, 10)).toEqual([]);
  });

  it("[ST1] finish has one winner, and drop settles all that wait in a session", async () => {
    await put("a", "b", "c");
    const { inbox } = rig().stores;
    const ids = (await inbox.listNew(0, 10)).map((row) => row.id);
    for (const id of ids) await inbox.route(id, CHAT_KEY);
    expect(await write((tx) => inbox.finish(tx, ids[0]!))).toBe(true);
    expect(await write((tx) => inbox.finish(tx, ids[0]!))).toBe(false);
    expect(await write((tx) => inbox.drop(tx, CHAT_KEY))).toEqual(ids.slice(1));
    expect(await write((tx) => inbox.drop(tx, CHAT_KEY))).toEqual([]);
    expect(await write((tx) => inbox.finish(tx, ids[1]!))).toBe(false);
    expect(await inbox.claim(CHAT_KEY)).toBeNull();
  });

  it("[RC3] purge forgets only what was settled before", async () => {
    await put("old", "new", "open");
    const { inbox } = rig().stores;
    const [old, fresh] = (await inbox.listNew(0, 10)).map((row) => row.id);
    await write((tx) => inbox.finish(tx, old!));
    await rig().clock.advance(1_000);
    await write((tx) => inbox.finish(tx, fresh!));
    expect(await inbox.purge(rig().clock.now())).toBe(1);
    expect((await inbox.listNew(0, 10)).map((row) => row.raw)).toEqual([{ text: "open" }]);
  });
}

function outboxContract(rig: () => StoreRig): void {
  const write = writer(rig);
  const add = (delivery: string, parts: string[], more: { address?: Address; runId?: string; isAnswer?: boolean } = {}): Promise<boolean> =>
    write((tx) => rig().stores.outbox.add(tx, { delivery, address: ADDRESS, parts: parts.map((text) => ({ text })), ...more }));
  const key = "web/local/main/-";

  it("[DL1] a delivery is added once: the first text wins, whatever is added later", async () => {
    expect(await add("reply:1", ["one", "two"])).toBe(true);
    expect(await add("reply:1", ["another"])).toBe(false);
    expect(await rig().stores.outbox.countAllOpen()).toBe(2);
    expect(await rig().stores.outbox.head(key)).toMatchObject({
      delivery: "reply:1",
      n: 0,
      parts: 2,
      part: { text: "one" },
      state: "queued",
    });
    expect(rig().events.filter((event) => event.type === "outbox.added")).toHaveLength(1);
  });

  it("[DL5] the head is the oldest unsettled part of its address", async () => {
    await add("reply:1", ["one", "two"]);
    await add("reply:2", ["three"]);
    await add("reply:3", ["elsewhere"], { address: OTHER });
    const { outbox } = rig().stores;
    const texts: unknown[] = [];
    for (let row = await outbox.head(key); row !== null; row = await outbox.head(key)) {
      texts.push(row.part.text);
      await write((tx) => outbox.markSending(tx, row.id));
      expect((await outbox.head(key))?.id).toBe(row.id);
      await write((tx) => outbox.markSent(tx, row.id, `ref-${row.n}`));
    }
    expect(texts).toEqual(["one", "two", "three"]);
    expect(await outbox.openAddresses()).toEqual(["web/local/other/-"]);
  });

  it("[DL4] what was being sent when the process died is unknown after the restart, the rest is as it was", async () => {
    await add("reply:1", ["one", "two", "three"]);
    const first = (await rig().stores.outbox.head(key))!;
    await write((tx) => rig().stores.outbox.markSending(tx, first.id));
    await write((tx) => rig().stores.outbox.markSent(tx, first.id, "ref"));
    await write(async (tx) => rig().stores.outbox.markSending(tx, (await rig().stores.outbox.head(key))!.id));
    const { outbox } = await rig().reopen();
    await outbox.recover();
    expect(await outbox.head(key)).toMatchObject({ n: 1, state: "unknown", sendingAt: rig().clock.now() });
    expect(await outbox.countAllOpen()).toBe(2);
  });

  it("[DL4] what this process is sending itself is not taken for what another one left", async () => {
    await rig().stores.nodes.enter();
    await add("reply:1", ["one"]);
    const { outbox } = rig().stores;
    await write(async (tx) => outbox.markSending(tx, (await outbox.head(key))!.id));
    expect(await outbox.recover()).toEqual([]);
    expect(await outbox.head(key)).toMatchObject({ state: "sending" });
    const again = await rig().reopen();
    await again.nodes.enter();
    expect(await again.outbox.recover()).toEqual([key]);
    expect(await again.outbox.head(key)).toMatchObject({ state: "unknown" });
  });

  it("[DL3] blocking gives up the delivery's unsent parts only; requeue brings a run's back", async () => {
    await add("announce:1", ["one", "two", "three"], { runId: "run" });
    await add("reply:2", ["later"]);
    const { outbox } = rig().stores;
    await write(async (tx) => outbox.markSent(tx, (await outbox.head(key))!.id, "ref"));
    await write((tx) => outbox.markBlocked(tx, "announce:1", "kicked", "queued"));
    expect(await outbox.head(key)).toMatchObject({ delivery: "reply:2" });
    expect(await write((tx) => outbox.requeue(tx, "run"))).toBe(2);
    expect(await outbox.head(key)).toMatchObject({
      delivery: "announce:1",
      n: 1,
      state: "queued",
      attempts: 0,
      firstAt: null,
      reason: null,
    });
    expect(await write((tx) => outbox.requeue(tx, "nobody"))).toBe(0);
  });

  it("[DL3] each try that failed counts, sent or not", async () => {
    await add("reply:1", ["one"]);
    const { outbox } = rig().stores;
    const { id } = (await outbox.head(key))!;
    const firstAt = rig().clock.now();
    for (let tries = 1; tries <= 3; tries++) {
      await write((tx) =>
        outbox.retryAt(tx, id, { notBefore: firstAt + 1_000, firstAt, reason: "the channel is off", as: "queued", stepsAside: false }),
      );
      expect(await outbox.head(key)).toMatchObject({ attempts: tries, firstAt, state: "queued", reason: "the channel is off" });
    }
    await write((tx) => outbox.markSending(tx, id));
    await write((tx) => outbox.retryAt(tx, id, { notBefore: 0, firstAt, reason: "lost", as: "unknown", stepsAside: true }));
    expect(await outbox.get(id)).toMatchObject({ attempts: 4, firstAt, state: "unknown", isAside: true });
  });

  it("[DL6] answers to commands stand before the rest; what stepped aside stands in a line of its own, due first, parts in order", async () => {
    await add("announce:1", ["one", "two"], { runId: "run" });
    await add("reply:2", ["three"]);
    await add("announce:3", ["four", "five"]);
    await add("answer:4", ["six"], { isAnswer: true });
    const { outbox } = rig().stores;
    const now = rig().clock.now();
    const line = async (): Promise<unknown[]> => (await outbox.listAside(key, 10)).map((row) => row.part.text);
    expect((await outbox.head(key))?.part.text).toBe("six");
    await write(async (tx) => outbox.markSent(tx, (await outbox.head(key))!.id, "ref"));
    const failing = (await outbox.head(key))!;
    await write((tx) => outbox.markSending(tx, failing.id));
    await write((tx) =>
      outbox.retryAt(tx, failing.id, { notBefore: now + 2_000, firstAt: now, reason: "503", as: "queued", stepsAside: true }),
    );
    expect((await outbox.head(key))?.part.text).toBe("three");
    await write(async (tx) => outbox.markSent(tx, (await outbox.head(key))!.id, "ref"));
    await write(async (tx) =>
      outbox.retryAt(tx, (await outbox.head(key))!.id, {
        notBefore: now + 1_000,
        firstAt: now,
        reason: "503",
        as: "queued",
        stepsAside: true,
      }),
    );
    expect(await outbox.head(key)).toBeNull();
    expect(await line()).toEqual(["four", "five", "one", "two"]);
    expect(await outbox.listAside(key, 1)).toHaveLength(1);
    await write(async (tx) => outbox.markSent(tx, (await outbox.listAside(key, 1))[0]!.id, "ref"));
    await write(async (tx) =>
      outbox.retryAt(tx, (await outbox.listAside(key, 1))[0]!.id, {
        notBefore: now + 3_000,
        firstAt: now,
        reason: "503",
        as: "queued",
        stepsAside: true,
      }),
    );
    expect(await line()).toEqual(["one", "two", "five"]);
    await write((tx) => outbox.markBlocked(tx, "announce:1", "kicked", "queued"));
    await write((tx) => outbox.requeue(tx, "run"));
    expect(await outbox.head(key)).toMatchObject({ part: { text: "one" }, isAside: false });
  });

  it("[DL7] joined: one lead is in line for all, they are sent and given up together, and stand as before when they are set apart", async () => {
    for (const n of [1, 2, 3, 4]) await add(`announce:${n}`, [`text ${n}`], { runId: `run-${n}` });
    const { outbox } = rig().stores;
    const [first, ...rest] = await Promise.all([1, 2, 3, 4].map(async (id) => (await outbox.get(id))!));
    expect((await outbox.listBehind(first!, 2)).map((row) => row.id)).toEqual([2, 3]);
    let lead = await write((tx) => outbox.join(tx, first!, rest.slice(0, 2), { text: "together" }));
    await write((tx) => outbox.markSending(tx, lead.id));
    expect(lead).toMatchObject({ isLead: true, part: { text: "together" }, joinedAs: "announce:1#0+2+3" });
    expect(await Promise.all([2, 3].map(async (id) => (await outbox.get(id))?.state))).toEqual(["joined", "joined"]);
    expect((await outbox.listBehind(first!, 5)).map((row) => row.id)).toEqual([4]);
    lead = (await (await rig().reopen()).outbox.get(1))!;
    const { outbox: again } = rig().stores;
    await again.recover();
    expect(await again.head(key)).toMatchObject({
      id: 1,
      state: "unknown",
      part: { text: "together" },
      joinedAs: "announce:1#0+2+3",
      isLead: true,
    });
    expect((await again.listJoined(lead)).map((row) => row.id)).toEqual([2, 3]);
    // It may have arrived: then each is asked for under the key they shared.
    await write((tx) => again.dissolve(tx, lead, "unknown"));
    expect(await Promise.all([1, 2, 3].map((id) => again.get(id)))).toMatchObject(
      [1, 2, 3].map((n) => ({ state: "unknown", joinedAs: "announce:1#0+2+3", part: { text: `text ${n}` }, isAlone: true, isLead: false })),
    );
    await write((tx) => again.markSending(tx, 2));
    expect(await again.get(2)).toMatchObject({ joinedAs: null, state: "sending" });
  });

  it("[DL7][ST2] one run's announcement is taken out of a message that surely has not arrived, and of no other", async () => {
    for (const n of [1, 2, 3]) await add(`announce:${n}`, [`text ${n}`], { runId: `run-${n}` });
    const { outbox } = rig().stores;
    const rows = await Promise.all([1, 2, 3].map(async (id) => (await outbox.get(id))!));
    const join = async (): Promise<void> => {
      await write((tx) => outbox.join(tx, rows[0]!, rows.slice(1), { text: "together" }));
      await write((tx) => outbox.markSending(tx, 1));
    };
    await join();
    expect(await write((tx) => outbox.withdraw(tx, "announce:2"))).toBe(false);
    await write((tx) => outbox.retryAt(tx, 1, { notBefore: 5, firstAt: 1, reason: "429", as: "queued", stepsAside: false }));
    expect(await write((tx) => outbox.withdraw(tx, "announce:2"))).toBe(true);
    expect(await Promise.all([1, 2, 3].map(async (id) => (await outbox.get(id))?.state))).toEqual(["queued", "withdrawn", "queued"]);
    expect(await outbox.get(1)).toMatchObject({ isLead: false, isAlone: false, joinedAs: null, part: { text: "text 1" } });
  });

  it("[DL7] those that go together move together, and are given up together", async () => {
    for (const n of [1, 2]) await add(`announce:${n}`, [`text ${n}`], { runId: `run-${n}` });
    const { outbox } = rig().stores;
    await write(async (tx) => outbox.join(tx, (await outbox.get(1))!, [(await outbox.get(2))!], { text: "together" }));
    await write((tx) => outbox.markSending(tx, 1));
    await write((tx) => outbox.retarget(tx, 1, ADDRESS, OTHER, "unknown"));
    await write((tx) => outbox.setPart(tx, 1, { text: "plainer" }, "unknown"));
    expect([await outbox.get(1), await outbox.get(2)]).toMatchObject([
      { address: OTHER, part: { text: "plainer" }, state: "unknown" },
      { address: OTHER, part: { text: "text 2" }, state: "joined" },
    ]);
    for (const n of [1, 2]) expect(await write((tx) => outbox.markBlocked(tx, `announce:${n}`, "kicked", "unknown"))).toBe(true);
    expect(await write((tx) => outbox.requeue(tx, "run-2"))).toBe(1);
    expect(await outbox.get(2)).toMatchObject({ state: "unknown", joinedAs: "announce:1#0+2", isLead: false });
    expect(await write((tx) => outbox.requeue(tx, "run-1"))).toBe(1);
    expect(await outbox.get(1)).toMatchObject({ state: "unknown", isLead: false, part: { text: "text 1" } });
  });

  it("[DL7] what went out lately, or may have, is told once for each message", async () => {
    for (const n of [1, 2, 3, 4]) await add(`announce:${n}`, [`text ${n}`], { runId: `run-${n}` });
    const { outbox } = rig().stores;
    const since = rig().clock.now() - 1;
    await write(async (tx) => outbox.join(tx, (await outbox.get(1))!, [(await outbox.get(2))!], { text: "together" }));
    await write((tx) => outbox.markSending(tx, 1));
    for (const id of [1, 2]) await write((tx) => outbox.markSent(tx, id, "ref"));
    await rig().clock.advance(10);
    await write((tx) => outbox.markSending(tx, 3));
    expect(await outbox.listSentSince(since)).toEqual([
      { address: ADDRESS, at: since + 1 },
      { address: ADDRESS, at: since + 11 },
    ]);
    expect(await outbox.listSentSince(since + 11)).toEqual([]);
  });

  it("[ST2] withdrawn: it is not said any more, however an attempt under way fails; one that arrives has arrived", async () => {
    await add("started:1", ["one"]);
    await add("started:2", ["two"]);
    await add("reply:3", ["three"]);
    const { outbox } = rig().stores;
    expect(await Promise.all(["started:1", "started:2", "nobody"].map((delivery) => write((tx) => outbox.withdraw(tx, delivery))))).toEqual(
      [true, true, false],
    );
    expect(await outbox.head(key)).toMatchObject({ delivery: "reply:3" });
    expect(await write((tx) => outbox.markBlocked(tx, "started:1", "kicked", "queued"))).toBe(false);
    await write((tx) => outbox.retryAt(tx, 1, { notBefore: 0, firstAt: 0, reason: "503", as: "queued", stepsAside: true }));
    expect(await outbox.get(1)).toMatchObject({ state: "withdrawn", attempts: 0 });
    await write((tx) => outbox.markSent(tx, 2, "ref"));
    expect(await write((tx) => outbox.withdraw(tx, "started:2"))).toBe(false);
    expect(await outbox.get(2)).toMatchObject({ state: "sent" });
  });

  it("[ST2] what has begun to arrive is not withdrawn; what was, and began all the same, is finished", async () => {
    await add("announce:1", ["one", "two"], { runId: "begun" });
    await add("announce:2", ["three", "four"], { runId: "waits" });
    const { outbox } = rig().stores;
    await write((tx) => outbox.markSent(tx, 1, "ref"));
    expect([await write((tx) => outbox.withdraw(tx, "announce:1")), await write((tx) => outbox.withdraw(tx, "announce:2"))]).toEqual([
      false,
      true,
    ]);
    expect(await outbox.get(2)).toMatchObject({ state: "queued" });
    await write((tx) => outbox.markSent(tx, 3, "ref"));
    await write((tx) => outbox.reopen(tx, "announce:2"));
    expect(await outbox.get(4)).toMatchObject({ state: "queued", reason: null });
  });

  it("[DL4] when the last attempt began is kept as long as it may have arrived, also while it is blocked", async () => {
    await add("announce:1", ["one"], { runId: "run" });
    const { outbox } = rig().stores;
    const { id } = (await outbox.head(key))!;
    const now = rig().clock.now();
    const next = { notBefore: 0, firstAt: now, reason: "x", stepsAside: false };
    const sends: [() => Promise<unknown>, number | null][] = [
      [() => write((tx) => outbox.retryAt(tx, id, { ...next, as: "unknown" })), now],
      [() => write((tx) => outbox.retryAt(tx, id, { ...next, as: "queued" })), null],
      [() => write((tx) => outbox.setPart(tx, id, {}, "unknown")), now],
      [() => write((tx) => outbox.setPart(tx, id, {}, "queued")), null],
      [() => write((tx) => outbox.retarget(tx, id, ADDRESS, ADDRESS, "unknown")), now],
      [() => write((tx) => outbox.retarget(tx, id, ADDRESS, ADDRESS, "queued")), null],
      [() => write((tx) => outbox.reserve(tx, id, "place")), null],
    ];
    for (const [settle, sendingAt] of sends) {
      await write((tx) => outbox.markSending(tx, id));
      await settle();
      expect(await outbox.get(id)).toMatchObject({ sendingAt, state: sendingAt === null ? "queued" : "unknown" });
    }
    for (const as of ["queued", "unknown"] as const) {
      await write((tx) => outbox.markSending(tx, id));
      await write((tx) => outbox.markBlocked(tx, "announce:1", "kicked", as));
      await write((tx) => outbox.requeue(tx, "run"));
      expect((await outbox.get(id))?.state).toBe(as);
    }
  });

  it("[DL4] a lost attempt of a clock that was set back since began now at the latest", async () => {
    await add("reply:1", ["one"]);
    const { outbox } = rig().stores;
    const { id } = (await outbox.head(key))!;
    await write((tx) => outbox.markSending(tx, id));
    const now = rig().clock.now() - 7_200_000;
    rig().clock.set(now);
    await write((tx) => outbox.retryAt(tx, id, { notBefore: now, firstAt: now, reason: "lost", as: "unknown", stepsAside: false }));
    expect((await outbox.get(id))?.sendingAt).toBe(now);
  });

  it("[DL3] a chat that moved takes everything open along, and a part can be replaced", async () => {
    await add("reply:1", ["one", "two"]);
    await add("reply:2", ["three"]);
    const { outbox } = rig().stores;
    await write((tx) => outbox.markSending(tx, 3));
    await write((tx) => outbox.markSending(tx, 1));
    await write((tx) => outbox.retarget(tx, 1, ADDRESS, OTHER, "queued"));
    expect(await outbox.head(key)).toBeNull();
    // How the other attempt under way ends nobody knows yet.
    expect(await outbox.get(3)).toMatchObject({ state: "sending", address: OTHER });
    const moved = (await outbox.head("web/local/other/-"))!;
    expect(moved).toMatchObject({ state: "queued", address: OTHER, part: { text: "one" } });
    await write((tx) => outbox.setPart(tx, moved.id, { text: "plain" }, "queued"));
    expect((await outbox.get(moved.id))?.part).toEqual({ text: "plain" });
    expect(await outbox.countAllOpen()).toBe(3);
  });

  it("[DL3] purge keeps what is open and what /subagents retry may still want", async () => {
    await add("reply:1", ["sent"]);
    await add("reply:2", ["open"], { address: OTHER });
    await add("announce:3", ["blocked"], { runId: "run" });
    const { outbox } = rig().stores;
    await write(async (tx) => outbox.markSent(tx, (await outbox.head(key))!.id, "ref"));
    await write((tx) => outbox.markBlocked(tx, "announce:3", "kicked", "queued"));
    await rig().clock.advance(10);
    expect(await outbox.purge(rig().clock.now())).toBe(1);
    expect(await write((tx) => outbox.requeue(tx, "run"))).toBe(1);
    expect(await outbox.countAllOpen()).toBe(2);
  });

  it("[DL3] a message whose beginning was sent and is forgotten is still known: nothing of it is said again but what was refused", async () => {
    const message = ["sent long ago", "refused"];
    await add("announce:1", message, { runId: "run" });
    const { outbox } = rig().stores;
    await write(async (tx) => outbox.markSent(tx, (await outbox.head(key))!.id, "ref"));
    await write((tx) => outbox.markBlocked(tx, "announce:1", "kicked", "queued"));
    await rig().clock.advance(10);
    expect(await outbox.purge(rig().clock.now())).toBe(1);
    expect(await add("announce:1", message, { runId: "run" })).toBe(false);
    expect(await write((tx) => outbox.requeue(tx, "run"))).toBe(1);
    expect((await outbox.head(key))?.part).toEqual({ text: "refused" });
    expect(await outbox.countAllOpen()).toBe(1);
  });
}

function sessionContract(rig: () => StoreRig): void {
  const write = writer(rig);
  const open = async (key = CHAT_KEY): Promise<string> => {
    const id = rig().stores.sessions.newSessionId();
    await write((tx) => rig().stores.sessions.insert(tx, { id, key, agentId: "main", address: ADDRESS, parentKey: null }));
    return id;
  };

  it("[SE5] a key has one open session; ended ones stay readable, newest first", async () => {
    const old = await open();
    await expect(() => open()).rejects.toThrow();
    await write((tx) => rig().stores.sessions.setModel(tx, old, "x/y"));
    await write((tx) => rig().stores.sessions.end(tx, old));
    expect(await rig().stores.sessions.find(CHAT_KEY)).toBeNull();
    await rig().clock.advance(5);
    const fresh = await open();
    const { sessions } = await rig().reopen();
    expect(await sessions.find(CHAT_KEY)).toMatchObject({ id: fresh, model: null, address: ADDRESS });
    expect(await sessions.get(old)).toMatchObject({ model: "x/y", endedAt: rig().clock.now() - 5 });
    expect((await sessions.get(old))?.endedAt).not.toBeNull();
  });

  it("[MO3] spend is summed per session and day; one call without a price leaves the cost out", async () => {
    const usage = { input: 10, output: 2, cacheRead: 1, cacheWrite: 0 };
    const [a, b] = [await open("agent:main:web:dm:a"), await open("agent:main:web:dm:b")];
    const { sessions } = rig().stores;
    const spender = (id: string) => ({ id, agentId: "main", address: ADDRESS });
    const today = rig().clock.now();
    expect(await sessions.spendOf([a])).toEqual({ usage: null, costUsd: null });
    await write((tx) => sessions.addSpend(tx, spender(a), "p/m", { usage, costUsd: 0.5 }, null));
    await write((tx) => sessions.addSpend(tx, spender(a), "p/m", { usage, costUsd: 0.25 }, null));
    await write((tx) => sessions.addSpend(tx, spender(a), "p/m", { usage: null, costUsd: null }, null));
    await rig().clock.advance(24 * 3_600_000);
    await write((tx) => sessions.addSpend(tx, spender(b), "p/free", { usage, costUsd: null }, null));
    expect(await sessions.spendOf([a])).toEqual({ usage: { input: 20, output: 4, cacheRead: 2, cacheWrite: 0 }, costUsd: 0.75 });
    expect((await sessions.spendOf([a, b])).costUsd).toBeNull();
    expect((await sessions.spendOf([a, b])).usage?.input).toBe(30);
    expect((await sessions.spendOfDay(today)).costUsd).toBe(0.75);
    expect(await sessions.spendOfDay(rig().clock.now())).toEqual({ usage, costUsd: null });
  });
}

function runContract(rig: () => StoreRig): void {
  const write = writer(rig);
  const END = { reason: null, incomplete: false, delivery: "pending" } as const;

  it("[RU1] a run survives a restart as it was", async () => {
    const { runs } = rig().stores;
    await write((tx) =>
      runs.insert(tx, newRun("r1", { params: { role: "explore", allowedTools: ["read"] }, address: { ...ADDRESS, thread: "42" } })),
    );
    await runs.start("r1");
    await runs.setDoing("r1", "reading");
    await write((tx) => runs.addSpend(tx, "r1", { usage: { input: 5, output: 1, cacheRead: 0, cacheWrite: 0 }, costUsd: 0.1 }));
    const before = await runs.get("r1");
    expect(await (await rig().reopen()).runs.get("r1")).toEqual(before);
    expect(before).toMatchObject({ state: "running", doing: "reading", address: { thread: "42" }, spend: { costUsd: 0.1 } });
  });

  it("[SP2] the requester's turn and call name one run", async () => {
    const { runs } = rig().stores;
    await write((tx) => runs.insert(tx, newRun("r1")));
    await expect(() => write((tx) => runs.insert(tx, newRun("r2", { spawnKey: "spawn-r1" })))).rejects.toThrow();
    expect((await runs.findBySpawnKey("spawn-r1"))?.id).toBe("r1");
    expect((await runs.findByChildKey("child-r1"))?.id).toBe("r1");
    expect([await runs.findBySpawnKey("x"), await runs.findByChildKey("x"), await runs.get("x")]).toEqual([null, null, null]);
  });

  it("[RU2] a run starts once and ends once, whatever comes second", async () => {
    const { runs } = rig().stores;
    await write((tx) => runs.insert(tx, newRun("r1")));
    expect(await write((tx) => runs.end(tx, "r1", { ...END, as: "done" }))).toBe(false);
    expect([await runs.start("r1"), await runs.start("r1")]).toEqual([true, false]);
    expect(await write((tx) => runs.end(tx, "r1", { ...END, as: "stopped", delivery: "none" }))).toBe(true);
    for (const as of RUN_STATES.filter((state) => !isUnfinished(state))) {
      expect(await write((tx) => runs.end(tx, "r1", { ...END, as, reason: "too late" }))).toBe(false);
    }
    expect(await runs.get("r1")).toMatchObject({ state: "stopped", reason: null, delivery: "none" });
    expect(rig().events.filter((event) => event.type === "run.ended")).toEqual([{ type: "run.ended", runId: "r1", state: "stopped" }]);
  });

  it("[CM7] a finished run goes on as the next generation, an unfinished one doesn't", async () => {
    const { runs } = rig().stores;
    await write((tx) => runs.insert(tx, newRun("r1")));
    expect(await write((tx) => runs.reopen(tx, newRun("r1")))).toBe(false);
    await runs.start("r1");
    expect(await write((tx) => runs.reopen(tx, newRun("r1")))).toBe(false);
    await write((tx) => runs.putAside(tx, "r1", true));
    await write((tx) => runs.countResume(tx, "r1"));
    expect(await runs.get("r1")).toMatchObject({ resumes: 1, crashes: 1 });
    await write((tx) => runs.end(tx, "r1", { ...END, as: "error", reason: "broke" }));
    await write((tx) => runs.markSettled(tx, "r1"));
    expect(await write((tx) => runs.reopen(tx, newRun("r1")))).toBe(true);
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
    expect(await runs.get("r1")).toMatchObject(fresh);
  });

  it("[EV2][TR1] a round is counted once, the first data counts, a step is one try; all of it begins anew with the next generation", async () => {
    const { runs } = rig().stores;
    const found = [{ name: "exists a", passed: false, why: "there is no such file", output: "" }];
    await write((tx) => runs.insert(tx, newRun("r1")));
    const fresh = { id: "r1", generation: 1, checkRounds: 0 };
    expect(await write((tx) => runs.countRound(tx, fresh, found))).toBe(false);
    expect(await write((tx) => runs.setData(tx, "r1", "1"))).toBe(false);
    await runs.start("r1");
    expect([await write((tx) => runs.setData(tx, "r1", '{"a":1}')), await write((tx) => runs.setData(tx, "r1", "2"))]).toEqual([
      true,
      false,
    ]);
    const tries = [1, 1, 2].map((step) => () => write((tx) => runs.addMisfit(tx, "r1", { step, why: `of ${step}` })));
    const counts: number[] = [];
    for (const one of tries) counts.push(await one());
    expect(counts).toEqual([1, 1, 2]);
    expect(await runs.get("r1")).toMatchObject({ data: '{"a":1}', checks: null, checkRounds: 0 });
    const told = await Promise.all([1, 2].map(() => write((tx) => runs.countRound(tx, fresh, found))));
    expect(told.toSorted()).toEqual([false, true]);
    expect(await runs.get("r1")).toMatchObject({
      data: null,
      checks: found,
      checkRounds: 1,
      misfits: [{ step: 1, why: "of 1" }, { step: 2 }],
    });
    await write((tx) => runs.end(tx, "r1", { ...END, as: "done", checks: [] }));
    expect(await runs.get("r1")).toMatchObject({ checks: [], checkRounds: 1 });
    await write((tx) => runs.reopen(tx, newRun("r1")));
    expect(await runs.get("r1")).toMatchObject({ data: null, checks: null, checkRounds: 0, misfits: [] });
  });

  it("[RU1][SP10] a waiting run is unfinished, wakes once, and the time it waited moves its deadline", async () => {
    const { clock, stores } = rig();
    const { runs, db } = stores;
    await write((tx) => runs.insert(tx, newRun("r1", { timeoutMs: 60_000 })));
    const waits = [{ for: "runs" as const, ids: ["r2"], mode: "all" as const, since: clock.now(), until: clock.now() + 5_000 }];
    const wait = (): Promise<boolean> => db.transaction([], (tx) => runs.wait(tx, "r1", waits, "waiting for 1 sub-agent"), RELAXED);
    expect(await wait()).toBe(false);
    await runs.start("r1");
    const deadlineAt = (await runs.get("r1"))?.deadlineAt ?? 0;
    expect([await wait(), await wait()]).toEqual([true, false]);
    expect(await runs.get("r1")).toMatchObject({ state: "waiting", waits, doing: "waiting for 1 sub-agent" });
    expect([await runs.countUnfinished("agent:main:web:dm:main"), (await runs.listUnfinished()).length]).toEqual([1, 1]);
    expect(await runs.listWakeDue(clock.now())).toEqual({ due: [], nextAt: clock.now() + 5_000 });
    await clock.advance(7_000);
    expect(await runs.listWakeDue(clock.now())).toMatchObject({ due: [{ id: "r1" }], nextAt: null });
    expect([await runs.wake("r1"), await runs.wake("r1")]).toEqual([true, false]);
    expect(await runs.get("r1")).toMatchObject({ state: "running", waits: [], doing: null, deadlineAt: deadlineAt + 7_000 });
    expect(await runs.listWakeDue(clock.now())).toEqual({ due: [], nextAt: null });
  });

  it("[RC2] a run that runs has an owner; one whose owner is not alive is taken over once", async () => {
    await rig().stores.nodes.enter();
    for (const id of ["r1", "r2", "r3"]) await write((tx) => rig().stores.runs.insert(tx, newRun(id)));
    for (const id of ["r1", "r2"]) await rig().stores.runs.start(id);
    await write((tx) => rig().stores.runs.wait(tx, "r2", [{ for: "children" }], "waiting"));
    expect(await rig().stores.runs.listOrphaned()).toEqual([]);
    expect(await write((tx) => rig().stores.runs.putAside(tx, "r1", true))).toBe(false);
    const { runs, nodes } = await rig().reopen();
    await nodes.enter();
    expect((await runs.listOrphaned()).map((run) => run.id)).toEqual(["r1"]);
    const takeOver = () => write((tx) => runs.putAside(tx, "r1", true));
    expect((await Promise.all(Array.from({ length: 6 }, takeOver))).filter(Boolean)).toEqual([true]);
    expect(await runs.listOrphaned()).toEqual([]);
    expect(await runs.get("r1")).toMatchObject({ state: "running", crashes: 1 });
  });

  it("[RU2] one that waits can be stopped or given up, and nothing of its wait is left", async () => {
    const { runs, db } = rig().stores;
    await write((tx) => runs.insert(tx, newRun("r1")));
    await runs.start("r1");
    await db.transaction([], (tx) => runs.wait(tx, "r1", [{ for: "children" }], "waiting for 2 sub-agents"), RELAXED);
    expect(await write((tx) => runs.end(tx, "r1", { ...END, as: "done" }))).toBe(false);
    expect(await write((tx) => runs.end(tx, "r1", { ...END, as: "stopped", delivery: "none" }))).toBe(true);
    expect(await runs.get("r1")).toMatchObject({ state: "stopped", waits: [], doing: null });
    expect(await runs.wake("r1")).toBe(false);
  });

  it("[SP6] unfinished runs are counted per requester, and finished ones no more", async () => {
    const { runs } = rig().stores;
    for (const id of ["a", "b", "c"]) await write((tx) => runs.insert(tx, newRun(id)));
    await write((tx) => runs.insert(tx, newRun("d", { requesterKey: "another" })));
    await runs.start("a");
    await write((tx) => runs.end(tx, "a", { ...END, as: "done" }));
    expect(await runs.countUnfinished(CHAT_KEY)).toBe(2);
    expect((await runs.listUnfinished()).map((run) => run.id).sort()).toEqual(["b", "c", "d"]);
    await runs.start("b");
    expect(await runs.countUnfinishedByState()).toEqual({ queued: 2, running: 1, waiting: 0 });
  });

  it("[TL4] below means below, at any depth, and never sideways or up", async () => {
    const { runs } = rig().stores;
    await write((tx) => runs.insert(tx, newRun("child")));
    await write((tx) => runs.insert(tx, newRun("grandchild", { requesterKey: "child-child", requesterRunId: "child", rootKey: CHAT_KEY })));
    await write((tx) => runs.insert(tx, newRun("stranger", { requesterKey: "another" })));
    expect(await runs.isBelow("child-grandchild", CHAT_KEY)).toBe(true);
    expect(await runs.isBelow("child-stranger", CHAT_KEY)).toBe(false);
    expect(await runs.isBelow("child-child", "child-grandchild")).toBe(false);
    expect((await runs.unfinishedBelow(CHAT_KEY)).map((run) => run.id)).toEqual(["child", "grandchild"]);
    expect((await runs.unfinishedBelow("child-child")).map((run) => run.id)).toEqual(["grandchild"]);
    expect(await runs.unfinishedBelow("child-grandchild")).toEqual([]);
    expect(await Promise.all([CHAT_KEY, "child-child", "another"].map((key) => runs.countUnfinished(key)))).toEqual([1, 1, 1]);
    await write((tx) => runs.insert(tx, newRun("in a thread", { requesterKey: `${CHAT_KEY}:thread:1` })));
    await write((tx) =>
      runs.insert(
        tx,
        newRun("below it", { requesterKey: "child-in a thread", requesterRunId: "in a thread", rootKey: `${CHAT_KEY}:thread:1` }),
      ),
    );
    await write((tx) => runs.insert(tx, newRun("another chat", { requesterKey: `${CHAT_KEY}2` })));
    expect(await runs.rootsAtWork(`${CHAT_KEY}:`, 10)).toEqual([`${CHAT_KEY}:thread:1`]);
    expect(await runs.rootsAtWork("", 2)).toHaveLength(2);
    expect((await runs.childrenOf("child")).map((run) => run.id)).toEqual(["grandchild"]);
    await write((tx) => runs.end(tx, "child", { ...END, as: "stopped" }));
    expect((await runs.unfinishedBelow(CHAT_KEY)).map((run) => run.id)).toEqual(["grandchild"]);
  });

  it("[AR1] due for archiving: settled long enough ago, or to be deleted; once archived no more", async () => {
    const { runs } = rig().stores;
    for (const [id, cleanup] of [
      ["keep", "keep"],
      ["delete", "delete"],
      ["running", "delete"],
    ] as const) {
      await write((tx) => runs.insert(tx, newRun(id, { cleanup })));
      await runs.start(id);
    }
    for (const id of ["keep", "delete"]) await write((tx) => runs.end(tx, id, { ...END, as: "done" }));
    for (const id of ["keep", "delete", "running"]) await write((tx) => runs.markSettled(tx, id));
    const settledAt = rig().clock.now();
    const due = async (before: number | null): Promise<string[]> => (await runs.listArchiveDue(before, 10)).map((run) => run.id).sort();
    expect(await due(null)).toEqual(["delete"]);
    expect(await due(settledAt - 1)).toEqual(["delete"]);
    expect(await due(settledAt)).toEqual(["delete", "keep"]);
    await write((tx) => runs.setArchiveName(tx, "delete", "x.deleted"));
    await write((tx) => runs.setArchived(tx, "delete"));
    expect(await due(settledAt)).toEqual(["keep"]);
  });

  it("[AR1] an announcement that is sent again is not settled until it arrives; an archived run stays archived", async () => {
    const { runs } = rig().stores;
    for (const id of ["waits", "archived"]) {
      await write((tx) => runs.insert(tx, newRun(id)));
      await runs.start(id);
      await write((tx) => runs.end(tx, id, { ...END, as: "done" }));
      await write((tx) => runs.setDelivery(tx, id, "blocked", "kicked"));
      await write((tx) => runs.markSettled(tx, id));
    }
    await write((tx) => runs.setArchiveName(tx, "archived", "x.deleted"));
    for (const id of ["waits", "archived"]) await write((tx) => runs.setDelivery(tx, id, "pending"));
    const now = rig().clock.now();
    expect((await runs.listArchiveDue(now, 10)).map((run) => run.id)).toEqual(["archived"]);
    await write((tx) => runs.setDelivery(tx, "waits", "delivered"));
    await write((tx) => runs.markSettled(tx, "waits"));
    expect(await runs.listArchiveDue(now, 10)).toHaveLength(2);
  });

  it("[CM2] a requester's runs are listed newest first", async () => {
    const { runs } = rig().stores;
    for (const id of ["a", "b", "c"]) {
      await write((tx) => runs.insert(tx, newRun(id)));
      await rig().clock.advance(1);
    }
    expect((await runs.listOf(CHAT_KEY, 2)).map((run) => run.id)).toEqual(["c", "b"]);
    expect((await runs.listRecent(1)).map((run) => run.id)).toEqual(["c"]);
  });

  it("[MO3] a run's cost is left out as soon as one call had no price", async () => {
    const { runs } = rig().stores;
    const usage = { input: 5, output: 1, cacheRead: 0, cacheWrite: 0 };
    await write((tx) => runs.insert(tx, newRun("r1")));
    await write((tx) => runs.addSpend(tx, "r1", { usage, costUsd: 0.5 }));
    await write((tx) => runs.addSpend(tx, "r1", { usage: null, costUsd: null }));
    expect((await runs.get("r1"))?.spend).toEqual({ usage, costUsd: 0.5 });
    await write((tx) => runs.addSpend(tx, "r1", { usage, costUsd: null }));
    await write((tx) => runs.addSpend(tx, "r1", { usage, costUsd: 0.5 }));
    expect((await runs.get("r1"))?.spend).toMatchObject({ usage: { input: 15 }, costUsd: null });
  });
}

function transactionContract(rig: () => StoreRig): void {
  const write = writer(rig);
  it("[AN4] a transaction over several stores is all or nothing, and silent when it rolls back", async () => {
    const { db, runs, outbox } = rig().stores;
    await write((tx) => runs.insert(tx, newRun("r1")));
    await runs.start("r1");
    rig().events.length = 0;
    await expect(() =>
      db.transaction([], async (tx) => {
        await runs.end(tx, "r1", { as: "done", reason: null, incomplete: false, delivery: "pending" });
        await outbox.add(tx, { delivery: "announce:1", address: ADDRESS, parts: [{ text: "x" }] });
        throw new Error("the power went");
      }),
    ).rejects.toThrow("the power went");
    expect((await runs.get("r1"))?.state).toBe("running");
    expect(await outbox.countAllOpen()).toBe(0);
    expect(rig().events).toEqual([]);
    // And the next one works.
    await write((tx) => runs.end(tx, "r1", { as: "done", reason: null, incomplete: false, delivery: "pending" }));
    expect(rig().events.map((event) => event.type)).toContain("run.ended");
  });

  it("[AN4] bells ring after the commit, so whoever hears one finds the row, and the store's own statements are part of it", async () => {
    const { db, outbox } = rig().stores;
    const seen: Promise<number>[] = [];
    rig().bus.on(() => seen.push(outbox.countAllOpen()));
    await db.transaction([], async (tx) => {
      await outbox.add(tx, { delivery: "reply:1", address: ADDRESS, parts: [{ text: "x" }] });
      expect(rig().events).toEqual([]);
    });
    expect(await Promise.all(seen)).toEqual([1]);
    const message = { delivery: "reply:1", address: ADDRESS };
    expect(rig().events).toEqual([{ type: "outbox.added", addressKey: "web/local/main/-", message }]);
  });
}

function digestContract(rig: () => StoreRig): void {
  const write = writer(rig);
  const hold = (runId: string, more: { generation?: number; dueAt?: number; address?: Address } = {}): Promise<void> =>
    write((tx) =>
      rig().stores.digests.hold(tx, {
        ...{ runId, generation: 1, address: ADDRESS, dueAt: rig().clock.now() + 60_000, message: { markdown: `about ${runId}` } },
        ...more,
      }),
    );
  const heldAt = async (address: Address): Promise<string[]> =>
    (await rig().stores.digests.listHeld(address, 10)).map(({ runId }) => runId);

  it("[AP1] what is held is due at its address when the first of it is, oldest first, also after a restart", async () => {
    await hold("a");
    await rig().clock.advance(1_000);
    await hold("b");
    await hold("c", { address: OTHER, dueAt: rig().clock.now() + 1_000_000 });
    expect(await rig().stores.digests.listDue()).toEqual([]);
    await rig().clock.advance(59_000);
    const { digests } = await rig().reopen();
    expect(await digests.listDue()).toEqual([ADDRESS]);
    expect(await heldAt(ADDRESS)).toEqual(["a", "b"]);
    const now = rig().clock.now();
    expect(await digests.dueTimes(["a", "b", "c", "unknown"])).toEqual(
      new Map([
        ["a", now],
        ["b", now],
        ["c", now + 941_000],
      ]),
    );
    expect((await digests.listHeld(ADDRESS, 1))[0]).toMatchObject({
      runId: "a",
      generation: 1,
      address: ADDRESS,
      message: { markdown: "about a" },
    });
  });

  it("[AP1] a clock that was set back makes due what it can't judge any more", async () => {
    await hold("a");
    rig().clock.set(rig().clock.now() - 86_400_000);
    expect(await rig().stores.digests.listDue()).toEqual([ADDRESS]);
  });

  it("[AP1] an item goes out with one digest, or is dropped, or is replaced by a later generation; never two of them", async () => {
    const { digests } = rig().stores;
    const item = (runId: string, generation = 1) => ({ runId, generation });
    for (const id of ["a", "b", "c"]) await hold(id);
    await hold("c", { generation: 2 });
    expect(await digests.find(item("c"))).toBeNull();
    expect(await write((tx) => digests.drop(tx, item("b")))).toBe(true);
    expect(await write((tx) => digests.take(tx, item("b"), "digest 1"))).toBe(false);
    expect(await write((tx) => digests.take(tx, item("a"), "digest 1"))).toBe(true);
    expect(await write((tx) => digests.take(tx, item("a"), "digest 2"))).toBe(false);
    expect(await write((tx) => digests.drop(tx, item("a")))).toBe(false);
    expect(await write((tx) => digests.take(tx, item("c", 2), "digest 1"))).toBe(true);
    expect(await heldAt(ADDRESS)).toEqual([]);
    // What has gone out stays as it is; the next generation is held beside it.
    await hold("c", { generation: 3 });
    expect((await digests.listOfRun("c")).map(({ generation, delivery }) => [generation, delivery])).toEqual([
      [2, "digest 1"],
      [3, null],
    ]);
    expect((await digests.listOf("digest 1")).map(({ runId }) => runId)).toEqual(["a", "c"]);
    await write((tx) => digests.release(tx, "digest 1"));
    expect(await digests.listDue()).toEqual([ADDRESS]);
    expect(await heldAt(ADDRESS)).toEqual(["a", "c", "c"]);
    await write((tx) => digests.take(tx, item("a"), "digest 2"));
    await write((tx) => digests.remove(tx, "digest 2"));
    await write((tx) => digests.removeOf(tx, "c"));
    expect(await heldAt(ADDRESS)).toEqual([]);
  });

  it("[RC4] a damaged item goes out as what it is, and holds up no other address", async () => {
    const { digests, db } = rig().stores;
    await hold("a", { dueAt: 0 });
    await hold("b", { dueAt: 0, address: OTHER });
    await db.transaction([], (tx) => tx.run("UPDATE digest_items SET message = '{' WHERE run_id = 'a'"));
    expect((await digests.listHeld(ADDRESS, 10))[0]?.message.markdown).toContain("can't be read any more");
    await db.transaction([], (tx) => tx.run("UPDATE digest_items SET address = '{' WHERE run_id = 'a'"));
    expect(await digests.listDue()).toEqual([OTHER]);
  });

  it("[ST2][DL1] a message is taken back, and may be added anew, only as long as no attempt was begun with it", async () => {
    const { outbox } = rig().stores;
    const add = (delivery: string): Promise<boolean> =>
      write((tx) => outbox.add(tx, { delivery, address: ADDRESS, parts: [{ text: "1" }, { text: "2" }], runId: "r" }));
    await add("untried");
    await add("begun");
    expect(await write((tx) => outbox.takeBack(tx, "untried"))).toBe(true);
    expect(await write((tx) => outbox.takeBack(tx, "untried"))).toBe(false);
    const begun = (await outbox.head("web/local/main/-"))?.id ?? 0;
    expect(await write((tx) => outbox.markSending(tx, begun))).toBe(true);
    expect(await write((tx) => outbox.takeBack(tx, "begun"))).toBe(false);
    expect(await add("begun")).toBe(false);
    expect(await add("untried")).toBe(true);
    await write((tx) => outbox.markBlocked(tx, "begun", "kicked", "queued"));
    expect(await write((tx) => outbox.requeueDelivery(tx, "untried"))).toBe(0);
    expect(await write((tx) => outbox.requeueDelivery(tx, "begun"))).toBe(2);
  });

  it("[CM7][AP1] how an announcement stands is said of the generation it is about, and of no later one", async () => {
    const { runs } = rig().stores;
    await write((tx) => runs.insert(tx, newRun("r")));
    await write((tx) => runs.setDelivery(tx, "r", "delivered", undefined, 2));
    expect((await runs.get("r"))?.delivery).toBe("none");
    await write((tx) => runs.setDelivery(tx, "r", "delivered", undefined, 1));
    expect((await runs.get("r"))?.delivery).toBe("delivered");
  });
}

function smallStoreContract(rig: () => StoreRig): void {
  const write = writer(rig);
  const person = (senderId: string) => ({ channel: "telegram", account: "bot", senderId, senderName: "Ann", address: ADDRESS });

  it("[SC1] a pairing code is 8 characters, given once per person, at most 3 at a time, for an hour", async () => {
    const { pairing } = rig().stores;
    const code = await write((tx) => pairing.request(tx, person("1")));
    expect(code).toMatch(/^[A-Z2-9]{8}$/);
    expect(await write((tx) => pairing.request(tx, person("1")))).toBeNull();
    for (const id of ["2", "3"]) expect(await write((tx) => pairing.request(tx, person(id)))).not.toBeNull();
    expect(await write((tx) => pairing.request(tx, person("4")))).toBeNull();
    expect((await pairing.listPending()).map((one) => one.senderId).sort()).toEqual(["1", "2", "3"]);
    await rig().clock.advance(3_600_000);
    expect(await pairing.listPending()).toEqual([]);
    expect(await pairing.approve(code ?? "")).toBeNull();
    expect(await write((tx) => pairing.request(tx, person("4")))).not.toBeNull();
  });

  it("[SC1] an approved code lets exactly that person in, on that account, for good, and works once", async () => {
    const { pairing } = rig().stores;
    const code = (await write((tx) => pairing.request(tx, person("1")))) ?? "";
    expect(await pairing.approve("ABCDEFGH")).toBeNull();
    expect(await pairing.approve(` ${code.toLowerCase()} `)).toMatchObject({ senderId: "1" });
    expect(await pairing.approve(code)).toBeNull();
    const again = (await rig().reopen()).pairing;
    expect(await again.isPaired("telegram", "bot", "1")).toBe(true);
    expect(await again.isPaired("telegram", "other-bot", "1")).toBe(false);
    expect(await again.isPaired("slack", "bot", "1")).toBe(false);
    expect(await again.isPaired("telegram", "bot", "11")).toBe(false);
  });

  it("[SC1] three strangers keep nobody out for long: a code that had its ten minutes makes room, one for each who asks", async () => {
    const { pairing } = rig().stores;
    const asks = async (id: string): Promise<string | null> => {
      const isGiven = await pairing.wouldGive(person(id));
      const code = await write((tx) => pairing.request(tx, person(id)));
      expect(code !== null).toBe(isGiven);
      return code;
    };
    const waiting = async (): Promise<string[]> => (await pairing.listPending()).map((one) => one.senderId);
    await asks("1");
    await rig().clock.advance(60_000);
    const second = (await asks("2")) ?? "";
    await asks("3");
    await rig().clock.advance(9 * 60_000 - 1);
    expect(await asks("4")).toBeNull();
    await rig().clock.advance(1);
    expect(await asks("4")).not.toBeNull();
    expect(await asks("5")).toBeNull();
    expect(await waiting()).toEqual(["2", "3", "4"]);
    // Who lost the place waits for one that is free; a newcomer doesn't.
    await rig().clock.advance(60_000);
    expect([await asks("4"), await asks("1")]).toEqual([null, null]);
    expect(await asks("5")).not.toBeNull();
    expect([await waiting(), await pairing.approve(second)]).toEqual([["3", "4", "5"], null]);
    await rig().clock.advance(50 * 60_000);
    expect(await asks("1")).not.toBeNull();
  });

  it("[SC1] accounts that keep asking in turns hold no place against a newcomer, and take none from one", async () => {
    const { pairing } = rig().stores;
    const ask = async (id: string): Promise<boolean> => (await write((tx) => pairing.request(tx, person(id)))) !== null;
    const flood = Array.from({ length: 6 }, (_, n) => `flood${n}`);
    for (let minute = 0; minute < 180; minute++) {
      for (const id of flood) await ask(id);
      await rig().clock.advance(60_000);
    }
    expect(await pairing.listPending()).toHaveLength(3);
    expect(await ask("ann")).toBe(true);
    // For the whole hour: nobody else is new.
    for (let minute = 0; minute < 59; minute++) {
      for (const id of flood) await ask(id);
      await rig().clock.advance(60_000);
    }
    expect((await pairing.listPending()).map((one) => one.senderId)).toContain("ann");
    await rig().clock.advance(25 * 3_600_000);
    expect(await ask("bob")).toBe(true);
    expect(await rig().stores.db.all("SELECT 1 FROM pairing_codes")).toHaveLength(1);
  });

  it("[SC1] a channel's one place is not taken by another's newcomers, whoever holds it", async () => {
    const { pairing } = rig().stores;
    const colleague = { ...person("A"), channel: "slack", account: "team" };
    for (const id of ["1", "2"]) await write((tx) => pairing.request(tx, person(id)));
    await write((tx) => pairing.request(tx, colleague));
    await rig().clock.advance(10 * 60_000);
    expect(await write((tx) => pairing.request(tx, person("3")))).not.toBeNull();
    expect(await write((tx) => pairing.request(tx, person("4")))).not.toBeNull();
    expect(await write((tx) => pairing.request(tx, person("5")))).toBeNull();
    expect((await pairing.listPending()).map((one) => one.senderId)).toEqual(["A", "3", "4"]);
  });

  it("[SC1] strangers on one channel take no place from somebody on another", async () => {
    const { pairing } = rig().stores;
    const colleague = (id: string) => ({ ...person(id), channel: "slack", account: "team" });
    for (const id of ["1", "2", "3"]) await write((tx) => pairing.request(tx, person(id)));
    expect(await write((tx) => pairing.request(tx, person("4")))).toBeNull();
    expect(await write((tx) => pairing.request(tx, colleague("A")))).not.toBeNull();
    expect(await write((tx) => pairing.request(tx, colleague("B")))).toBeNull();
    expect(await write((tx) => pairing.request(tx, person("4")))).toBeNull();
    expect((await pairing.listPending()).map((one) => one.senderId)).toEqual(expect.arrayContaining(["2", "3", "A"]));
  });

  it("[SC1] a thousand strangers an hour are given some twenty codes", async () => {
    const { pairing } = rig().stores;
    let given = 0;
    for (let n = 0; n < 1_000; n++) {
      if ((await write((tx) => pairing.request(tx, person(`s${n}`)))) !== null) given++;
      if (n % 10 === 0) await rig().clock.advance(36_000);
    }
    expect(given).toBeLessThan(25);
    expect(await pairing.listPending()).toHaveLength(3);
    expect(await rig().stores.db.all("SELECT 1 FROM pairing_codes")).toHaveLength(given);
  });

  it("[SC1] a refused person gets no other code until that is revoked; who was let in and is revoked is a stranger at once", async () => {
    const { pairing } = rig().stores;
    const ask = async (id: string): Promise<string> => (await write((tx) => pairing.request(tx, person(id)))) ?? "";
    expect(await pairing.refuse("ABCDEFGH")).toBeNull();
    expect(await pairing.refuse(await ask("1"))).toMatchObject({ senderId: "1" });
    await pairing.approve(await ask("2"));
    expect([await pairing.isPaired("telegram", "bot", "1"), await pairing.wouldGive(person("1")), await ask("1")]).toEqual([
      false,
      false,
      "",
    ]);
    expect((await pairing.listPeople()).map(({ senderId, state }) => `${senderId} ${state}`)).toEqual(["1 refused", "2 paired"]);
    const untold = async (): Promise<string[]> => (await pairing.listUntold()).map(({ senderId }) => senderId);
    expect(await untold()).toEqual(["1", "2"]);
    const [, second] = await pairing.listUntold();
    const tell = () => write((tx) => pairing.markTold(tx, second!));
    // Whoever comes first.
    expect((await Promise.all([tell(), tell()])).sort()).toEqual([false, true]);
    expect(await untold()).toEqual(["1"]);
    for (const id of ["1", "2"]) expect(await pairing.revoke(person(id))).toBe(true);
    expect(await pairing.revoke(person("2"))).toBe(false);
    expect([await pairing.isPaired("telegram", "bot", "2"), (await ask("1")) !== "", (await ask("2")) !== ""]).toEqual([false, true, true]);
  });

  it("[CM7] mail is read in order, stays until it is taken and keeps its entry id over a restart", async () => {
    await write((tx) => rig().stores.mail.sendToRun(tx, "run", "Ann", "first"));
    await write((tx) => rig().stores.mail.sendToRun(tx, "run", "Ann", "second"));
    await write((tx) => rig().stores.mail.sendToRun(tx, "another", "Ann", "not yours"));
    const before = await rig().stores.mail.listForRun("run");
    const { mail } = await rig().reopen();
    expect(await mail.listForRun("run")).toEqual(before);
    expect(before.map((one) => [one.text, one.from])).toEqual([
      ["first", "Ann"],
      ["second", "Ann"],
    ]);
    await write((tx) => mail.takeForRun(tx, [before[0]!.id]));
    expect((await mail.listForRun("run")).map((one) => one.text)).toEqual(["second"]);
    expect(await mail.listForRun("another")).toHaveLength(1);
  });

  it("[AN5] a note about one fact is told once, also when it is added again", async () => {
    const { mail } = rig().stores;
    await write((tx) => mail.addNote(tx, "session", "run:1", "done"));
    await write((tx) => mail.addNote(tx, "session", "run:1", "done again"));
    const [note] = await mail.listNotes("session");
    expect(note).toMatchObject({ text: "done", from: "run:1" });
    await write((tx) => mail.takeNotes(tx, [note!.id]));
    await write((tx) => mail.addNote(tx, "session", "run:1", "done once more"));
    expect(await mail.listNotes("session")).toEqual([]);
  });

  it("[AN5] purge forgets mail that was taken before, and notes of conversations that were over by then", async () => {
    const { mail, sessions } = rig().stores;
    for (const id of ["old", "live"])
      await write((tx) => sessions.insert(tx, { id, key: id, agentId: "main", address: null, parentKey: null }));
    await write((tx) => mail.sendToRun(tx, "run", "Ann", "read"));
    await write((tx) => mail.addNote(tx, "live", "run:1", "read"));
    await write((tx) => mail.addNote(tx, "old", "run:2", "never read"));
    await write(async (tx) =>
      mail.takeForRun(
        tx,
        (await mail.listForRun("run")).map((one) => one.id),
      ),
    );
    await write(async (tx) =>
      mail.takeNotes(
        tx,
        (await mail.listNotes("live")).map((one) => one.id),
      ),
    );
    await write((tx) => sessions.end(tx, "old"));
    await rig().clock.advance(1_000);
    await write((tx) => mail.sendToRun(tx, "run", "Ann", "unread"));
    await write((tx) => mail.addNote(tx, "live", "run:3", "unread"));
    const left = () =>
      Promise.all(
        ["run_messages", "notes"].map(async (table) =>
          (await rig().stores.db.all<{ text: string }>(`SELECT text FROM ${table} ORDER BY id`)).map((row) => row.text),
        ),
      );
    await mail.purge(rig().clock.now() - 1_000);
    expect(await left()).toEqual([
      ["read", "unread"],
      ["read", "never read", "unread"],
    ]);
    await mail.purge(rig().clock.now());
    expect(await left()).toEqual([["unread"], ["unread"]]);
  });

  it("[CM2] numbers mean the same runs until the next list, also after a restart", async () => {
    await write((tx) => rig().stores.listings.save(tx, CHAT_KEY, ["c", "b", "a"]));
    expect(await (await rig().reopen()).listings.find(CHAT_KEY)).toEqual(["c", "b", "a"]);
    await write((tx) => rig().stores.listings.save(tx, CHAT_KEY, ["d"]));
    expect(await rig().stores.listings.find(CHAT_KEY)).toEqual(["d"]);
    expect(await rig().stores.listings.find("another")).toEqual([]);
  });

  it("[NV2] a scratchpad is durable and per session", async () => {
    await rig().stores.scratchpad.write(CHAT_KEY, "plan", "one");
    await rig().stores.scratchpad.append(CHAT_KEY, "plan", "two");
    const { scratchpad } = await rig().reopen();
    expect(await scratchpad.read(CHAT_KEY, "plan")).toBe("one\ntwo");
    expect(await scratchpad.read("another", "plan")).toBeNull();
  });
}
