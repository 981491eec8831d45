// Bursts that a platform would answer with 429: the real Telegram channel and delivery against a fake that counts as Telegram
// does, on a clock that runs twenty times as fast for both.
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { createTelegramChannel } from "../../src/channels/telegram/channel.ts";
import type { Address } from "../../src/core/address.ts";
import { createBus } from "../../src/core/events.ts";
import { noFailpoints } from "../../src/core/failpoints.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { createDelivery } from "../../src/gateway/delivery.ts";
import { openDatabase } from "../../src/stores/database.ts";
import { createOutbox } from "../../src/stores/outbox.ts";
import { createTries } from "../../src/stores/tries.ts";
import { createFakeTelegram, type FakeTelegram } from "../support/fake-telegram.ts";
import { createFastClock } from "../support/fast-clock.ts";
import { createFloodLimits, type FloodLimits } from "../support/flood-limits.ts";
import { makeStateDir } from "../support/stage.ts";
import { waitFor } from "../support/wait.ts";

const GROUP = -1009;
const clock = createFastClock(20);
const bus = createBus((error) => {
  throw error;
});

let telegram: FakeTelegram;
let limits: FloodLimits;
beforeEach(async () => {
  limits = createFloodLimits(clock.now);
  telegram = await createFakeTelegram({ limits });
  telegram.chats.add(GROUP, { forum: true });
  for (const thread of [1_001, 1_002]) telegram.chats.addTopic(GROUP, thread);
});
afterEach(() => telegram.close());

const topic = (thread: number): Address => ({
  ...{ channel: "telegram", account: String(telegram.botId), chat: String(GROUP), thread: String(thread), kind: "group" },
});

/** One life of a gateway's delivery on this folder. */
function live(dir: string) {
  const db = openDatabase({ path: join(dir, "herald.db") });
  const outbox = createOutbox({ db, clock, bootId: "boot" });
  const channel = createTelegramChannel({
    ...{ botToken: telegram.token, apiRoot: telegram.apiRoot, mode: "polling", clock, log: silentLogger },
  });
  const delivered: string[] = [];
  const delivery = createDelivery({
    ...{ db, outbox, clock, bus, log: silentLogger, failpoint: noFailpoints, tries: createTries({ db, clock }), channel: () => channel },
    recordDelivery: async (_tx, row, state) => void (state === "delivered" && delivered.push(row.runId ?? "")),
  });
  return { db, outbox, channel, delivery, delivered };
}

const words = (n: number): string => `**Sub-agent: job ${n}**\n\nStatus: success\n\nResult:\n${`result ${n} `.repeat(40)}end of ${n}`;

it("[DL7] PACE-002 thirty announcements for a group, two of them for another topic, one stopped, and a kill halfway", async () => {
  const dir = makeStateDir();
  const first = live(dir);
  const add = async (n: number, thread: number): Promise<void> => {
    const parts = first.channel.render({ markdown: words(n), kind: "announcement" }, topic(thread));
    await first.db.transaction([], (tx) =>
      first.outbox.add(tx, { delivery: `announce:${n}`, address: topic(thread), parts, runId: `run-${n}` }),
    );
  };
  for (let n = 1; n <= 30; n++) await add(n, n > 28 ? 1_002 : 1_001);
  await first.db.transaction([], (tx) => first.outbox.withdraw(tx, "announce:20"));
  // The third message is taken and its answer never comes: that is where the process ends.
  telegram.faults.add("sendMessage", "hang_after", { skip: 2 });
  await first.delivery.start();
  await waitFor("three messages", () => telegram.allMessages().length >= 3);
  void first.delivery.stop();
  const second = live(dir);
  await second.delivery.start();
  await waitFor("all to be said", async () => (await second.outbox.countAllOpen()) === 0);

  const said = telegram.allMessages().map((message) => ({ thread: message.thread, text: message.text }));
  for (let n = 1; n <= 30; n++) {
    const seen = said.filter(({ text }) =>
      new RegExp(`Sub-agent: job ${n}\\n\\nStatus: success\\n\\nResult:\\n(?:result ${n} ){40}end of ${n}(?!\\d)`).test(text),
    );
    const unmarked = seen.filter(({ text }) => !text.startsWith("(may be repeated)"));
    expect(unmarked.length, `job ${n}`).toBe(n === 20 ? 0 : 1);
    expect(
      seen.every(({ thread }) => thread === (n > 28 ? 1_002 : 1_001)),
      `job ${n}`,
    ).toBe(true);
  }
  // What was under way when it ended, in either topic.
  const repeats = said.filter(({ text }) => text.startsWith("(may be repeated)")).length;
  expect([1, 2]).toContain(repeats);
  expect(said.length).toBeLessThan(12);
  expect(limits.refused()).toBe(0);
  expect(new Set([...first.delivered, ...second.delivered]).size).toBe(29);
  telegram.faults.clear();
  await second.delivery.stop();
  second.db.close();
});
