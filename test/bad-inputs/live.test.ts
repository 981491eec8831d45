// Messages that change, at the platform's limits and against its refusals: real stores, delivery, painter and Telegram channel against
// a fake that counts as Telegram does, on a clock that runs twenty times as fast for all of them.
import { rmSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { createSketches } from "../../src/app/sketches.ts";
import { openStores } from "../../src/app/stores.ts";
import { createTelegramChannel } from "../../src/channels/telegram/channel.ts";
import type { Address } from "../../src/core/address.ts";
import { type AppEvent, createBus } from "../../src/core/events.ts";
import { noFailpoints } from "../../src/core/failpoints.ts";
import { newId } from "../../src/core/ids.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { createSecrets } from "../../src/core/secrets.ts";
import { createDelivery, pacerOf } from "../../src/gateway/delivery.ts";
import { createPainter } from "../../src/gateway/painter.ts";
import { lock } from "../../src/stores/lock-keys.ts";
import { recordDelivery } from "../../src/subagents/posting.ts";
import { statusId } from "../../src/subagents/status-message.ts";
import { createFakeTelegram, type FakeTelegram, type SeenMessage } from "../support/fake-telegram.ts";
import { createFastClock } from "../support/fast-clock.ts";
import { createFloodLimits, type FloodLimits } from "../support/flood-limits.ts";
import { newRun } from "../support/runs.ts";
import { makeStateDir } from "../support/stage.ts";
import { waitFor } from "../support/wait.ts";

const GROUP = -1009;
const MOVED = -1008;
const TOPIC = 1_001;
const clock = createFastClock(20);

let telegram: FakeTelegram;
let limits: FloodLimits;
let dir: string;
let painting: Awaited<ReturnType<typeof begin>>;
beforeEach(async () => {
  limits = createFloodLimits(clock.now);
  telegram = await createFakeTelegram({ limits });
  telegram.chats.add(GROUP, { forum: true });
  telegram.chats.addTopic(GROUP, TOPIC);
  telegram.chats.add(MOVED);
  dir = makeStateDir();
  painting = await begin();
});
afterEach(async () => {
  await painting.stop();
  await telegram.close();
  rmSync(dir, { recursive: true, force: true });
});

const topic = (): Address => ({
  ...{ channel: "telegram", account: String(telegram.botId), chat: String(GROUP), thread: String(TOPIC), kind: "group" },
});

/** One life of what paints and delivers on this folder. */
async function begin() {
  let isDeaf = false;
  const failures: unknown[] = [];
  const bus = createBus((error) => failures.push(error));
  const heard: typeof bus = { ...bus, emit: (event) => (isDeaf ? undefined : bus.emit(event)) };
  const base = { clock, bus: heard, log: silentLogger, failpoint: noFailpoints, bootId: newId() };
  const stores = await openStores({ ...base, stateDir: join(dir, "state"), secrets: createSecrets() });
  await stores.nodes.enter();
  const channel = createTelegramChannel({
    ...{ botToken: telegram.token, apiRoot: telegram.apiRoot, mode: "polling", clock, log: silentLogger },
  });
  const find = () => channel;
  const outward = { ...base, ...stores, channel: find, pacer: pacerOf({ clock, channel: find }) };
  const delivery = createDelivery({ ...outward, recordDelivery: (...moved) => recordDelivery(stores, ...moved) });
  const painter = createPainter({ ...outward, ...createSketches(stores, clock) });
  await delivery.start();
  await painter.start();
  return {
    stores,
    channel,
    /** Events are lost meanwhile. */
    deaf: (value: boolean) => {
      isDeaf = value;
    },
    emit: (event: AppEvent) => bus.emit(event),
    async stop() {
      channel.hangUp?.();
      await Promise.all([delivery.stop(), painter.stop()]);
      await stores.close();
      expect(failures).toEqual([]);
    },
  };
}

/** A batch with one run that waits for its place; resolves when its message stands. */
async function batch(id: string, address = topic()): Promise<SeenMessage> {
  const { db, runs, live } = painting.stores;
  await db.transaction([], async (tx) => {
    await runs.insert(tx, newRun(id, { batch: id, address, requesterKey: "agent:main:telegram:group:x" }));
    await live.open(tx, statusId(id), address);
  });
  await runs.start(id);
  return telegram.until(() => message(id), `the status of ${id}`);
}

const message = (id: string): SeenMessage | undefined =>
  telegram.allMessages().find(({ text }) => text.includes(`▶ ${id}`) || text.includes(`✓ ${id}`));
const change = (id: string, doing: string): Promise<void> => painting.stores.runs.setDoing(id, doing);
const stateOf = async (id: string): Promise<string | undefined> => (await painting.stores.live.get(statusId(id)))?.state;
const shows = (id: string, doing: string): Promise<unknown> =>
  telegram.until(() => message(id)?.text.includes(doing), `${id} to show "${doing}"`, 60_000);
const end = (id: string): Promise<unknown> =>
  painting.stores.db.transaction([], (tx) =>
    painting.stores.runs.end(tx, id, { as: "done", reason: null, incomplete: false, delivery: "none" }),
  );
const say = (delivery: string, text: string, more: { isAnswer?: true; runId?: string } = {}): Promise<unknown> =>
  painting.stores.db.transaction([lock.chat(topic())], (tx) =>
    painting.stores.outbox.add(tx, { delivery, address: topic(), parts: painting.channel.render({ markdown: text }, topic()), ...more }),
  );
const edits = () => telegram.calls.filter(({ method }) => method === "editMessageText");
/** In the clock's time, and what a loaded machine needs besides. */
const within = (ms: number, what: string, check: () => unknown): Promise<unknown> => waitFor(what, check, ms / 20 + 20_000);

it("[LV2] LIVE-007 four batches that change every second, an answer and an announcement: those go first, 20 a minute, no 429", async () => {
  const ids = ["one", "two", "three", "four"];
  for (const id of ids) await batch(id);
  const over = new AbortController();
  let round = 0;
  const changing = (async () => {
    for (; !over.signal.aborted; round++) {
      for (const id of ids) await change(id, `round ${round}`);
      await clock.sleep(1_000, over.signal);
    }
  })();
  for (const due of [40, 80, 120]) {
    await waitFor(`round ${due}`, () => round >= due);
    const before = telegram.calls.length;
    await Promise.all([
      say(`announce:${due}`, `result ${due}`, { runId: "one" }),
      say(`answer:${due}`, `answer ${due}`, { isAnswer: true }),
    ]);
    const said = () => telegram.allMessages().filter(({ text }) => text.endsWith(` ${due}`) && !text.includes("round"));
    await within(10_000, "both to be said", () => said().length === 2);
    expect(said().map(({ text }) => text)).toEqual([`answer ${due}`, `result ${due}`]);
    // The one edit that may have been under way.
    const counted = telegram.calls.slice(before).filter(({ method }) => /^(?:sendMessage|editMessageText)$/.test(method));
    const lastSend = counted.findLastIndex(({ method }) => method === "sendMessage");
    expect(counted.slice(0, lastSend).filter(({ method }) => method === "editMessageText").length).toBeLessThanOrEqual(1);
  }
  over.abort();
  await changing;
  for (const id of ids) await shows(id, `round ${round - 1}`);
  expect(limits.refused()).toBe(0);
  // Round robin: nobody's message stood still for long.
  const painted = ids.map((id) => edits().filter(({ payload }) => payload.message_id === message(id)?.id).length);
  expect(Math.max(...painted) - Math.min(...painted)).toBeLessThanOrEqual(3);
  expect(telegram.allMessages()).toHaveLength(4 + 6);
}, 60_000);

it("[LV2] 429 on edits with a long retry_after: no edit meanwhile, answers and announcements at once, then the status catches up", async () => {
  await batch("slow");
  await batch("other");
  telegram.faults.add("editMessageText", "429", { retryAfter: 400 });
  await change("slow", "first");
  await waitFor("the refusal", () => edits().length === 1);
  const refusedAt = clock.now();
  await Promise.all([change("slow", "second"), change("other", "third")]);
  for (const n of [1, 2, 3, 4]) {
    await Promise.all([say(`announce:${n}`, `result ${n}`, { runId: "slow" }), say(`answer:${n}`, `answer ${n}`, { isAnswer: true })]);
    const saidAt = clock.now();
    await within(5_000, "both", () => telegram.allMessages().filter(({ text }) => text.endsWith(` ${n}`)).length === 2);
    // Nobody waited for what the edits have to wait for.
    expect(clock.now() - saidAt).toBeLessThan(200_000);
  }
  expect(edits()).toHaveLength(1);
  await shows("slow", "second");
  await shows("other", "third");
  expect(clock.now() - refusedAt).toBeGreaterThanOrEqual(400_000);
  expect(limits.refused()).toBe(0);
}, 120_000);

it('[LV2] LIVE-001 "message is not modified" counts as shown: no further request until something changes', async () => {
  const { id } = await batch("same");
  telegram.faults.add("editMessageText", { code: 400, description: "Bad Request: message is not modified: specified new message content" });
  const posted = (await painting.stores.live.get(statusId("same")))?.shown;
  await change("same", "as it was");
  await waitFor("the edit", () => edits().length === 1);
  const shown = async (): Promise<string | null | undefined> => (await painting.stores.live.get(statusId("same")))?.shown;
  await waitFor("its record", async () => (await shown()) !== posted);
  const wanted = await shown();
  // Looked at again and again, with nothing to do.
  for (let n = 0; n < 20; n++) painting.emit({ type: "live.changed", id: statusId("same") });
  const other = await batch("afterwards");
  await change("afterwards", "painted later");
  await shows("afterwards", "painted later");
  const ofSame = () => edits().filter(({ payload }) => payload.message_id === id);
  const texts = ofSame().map(({ payload }) => String(payload.text));
  expect(texts[0]).toContain("as it was");
  // Nothing but its clock may have moved it since: what was refused as "not modified" was not sent once more.
  expect(texts).toEqual([...new Set(texts)]);
  await change("same", "another thing");
  await shows("same", "another thing");
  await waitFor("its record", async () => (await shown()) !== wanted);
  expect(telegram.allMessages().map((one) => one.id)).toEqual([id, other.id]);
}, 30_000);

it("[LV3] removed by a person: it is not made again, whatever happens to its runs", async () => {
  const { id } = await batch("removed");
  telegram.chats.deleteMessage(GROUP, id);
  await change("removed", "unseen");
  await waitFor("the row to say so", async () => (await stateOf("removed")) === "gone");
  await change("removed", "still unseen");
  await end("removed");
  // A later generation opens its batch's message: this one stays away.
  const { db, live } = painting.stores;
  await db.transaction([], (tx) => live.open(tx, statusId("removed"), topic()));
  await batch("barrier");
  await change("barrier", "painted");
  await shows("barrier", "painted");
  expect(telegram.allMessages().map(({ text }) => text.includes("removed"))).toEqual([false]);
  expect(await stateOf("removed")).toBe("gone");
  expect(edits().filter(({ payload }) => payload.message_id === id)).toHaveLength(1);
}, 30_000);

it("[LV3] a group that became a supergroup: a message on its way is edited where it arrived, one that stood in the old one is let go", async () => {
  const { chat, thread: _thread, ...rest } = topic();
  const old: Address = { ...rest, chat: "-1007" };
  telegram.chats.add(-1007);
  await batch("left behind", old);
  telegram.chats.migrate(-1007, MOVED);
  await change("left behind", "unseen");
  await waitFor("the row to say so", async () => (await stateOf("left behind")) === "gone");
  const arrived = await batch("moved along", old);
  expect(arrived.chat).toBe(MOVED);
  await change("moved along", "seen there");
  await shows("moved along", "seen there");
  expect((await painting.stores.live.get(statusId("moved along")))?.address).toMatchObject({ chat: String(MOVED) });
  expect(chat).toBe(String(GROUP));
}, 30_000);

it("[LV3] killed while it paints: the next process edits the same message on, and keeps to what the platform still counts", async () => {
  const { id } = await batch("lasting");
  for (let life = 0; life < 4; life++) {
    for (let n = 0; n < 4; n++) {
      await change("lasting", `life ${life}, ${n}`);
      await shows("lasting", `life ${life}, ${n}`);
    }
    await painting.stop();
    painting = await begin();
  }
  await end("lasting");
  await waitFor("its last state", async () => (await stateOf("lasting")) === "closed", 30_000);
  const [seen, ...others] = telegram.allMessages();
  expect(others).toEqual([]);
  expect(seen).toMatchObject({ id, buttons: [] });
  expect(seen?.text).toMatch(/^✓ 1\n✓ lasting/);
  expect(limits.refused()).toBe(0);
}, 60_000);

it("[LV3] a run that goes on after its end opens its batch's message again, also when that falls into the closing of it", async () => {
  const { id } = await batch("again");
  const { db, runs, live } = painting.stores;
  for (let generation = 2; generation < 5; generation++) {
    await end("again");
    if (generation % 2 === 0) await waitFor("the end", async () => (await stateOf("again")) === "closed", 30_000);
    await db.transaction([], async (tx) => {
      await runs.reopen(tx, { id: "again", requesterKey: "agent:main:telegram:group:x" });
      await live.open(tx, statusId("again"), topic());
    });
    await runs.start("again");
    await change("again", `generation ${generation}`);
    await shows("again", `generation ${generation}`);
    expect(telegram.allMessages()).toHaveLength(1);
    expect(message("again")?.buttons[0]?.data).toBe(`/subagents stop again@${generation}`);
  }
  expect(message("again")?.id).toBe(id);
}, 60_000);

it("[SO3] doorbells that were lost: what nobody rang for is found at the next look, one query for all that rest", async () => {
  painting.deaf(true);
  const { db, runs, live } = painting.stores;
  await db.transaction([], async (tx) => {
    await runs.insert(tx, newRun("unheard", { batch: "unheard", address: topic() }));
    await live.open(tx, statusId("unheard"), topic());
  });
  painting.deaf(false);
  painting.emit({ type: "bells.missed" });
  await telegram.until(() => telegram.allMessages().some(({ text }) => text.includes("⏳ unheard")), "its message");
}, 30_000);

it("[LV1][LV3] a batch that was stopped whole before it was shown, and grows: what comes is shown", async () => {
  const { db, runs, live } = painting.stores;
  const insert = (id: string): Promise<void> =>
    db.transaction([], async (tx) => {
      await runs.insert(tx, newRun(id, { batch: "grows", address: topic(), requesterKey: "agent:main:telegram:group:x" }));
      await live.open(tx, statusId("grows"), topic());
    });
  await insert("first");
  await db.transaction([], (tx) => runs.end(tx, "first", { as: "stopped", reason: null, incomplete: false, delivery: "none" }));
  await waitFor("its end without a message", async () => (await stateOf("grows")) === "closed");
  // The same turn sends out another one.
  await insert("second");
  await runs.start("second");
  expect((await telegram.until(() => message("second"), "its status", 60_000)).text).toContain("⏹ first");
});
