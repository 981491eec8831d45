// Twenty announcements for one chat at once, through the real delivery and Telegram channel, against a fake that counts as
// Telegram does: how long it takes beside what the limits allow for the messages they became, and how often it had to say 429.
import { join } from "node:path";
import { createTelegramChannel } from "../../src/channels/telegram/channel.ts";
import type { Address } from "../../src/core/address.ts";
import { systemClock } from "../../src/core/clock.ts";
import { createBus } from "../../src/core/events.ts";
import { noFailpoints } from "../../src/core/failpoints.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { createDelivery } from "../../src/gateway/delivery.ts";
import { openDatabase } from "../../src/stores/database.ts";
import { createOutbox } from "../../src/stores/outbox.ts";
import { createFakeTelegram } from "../support/fake-telegram.ts";
import { createFloodLimits } from "../support/flood-limits.ts";
import { waitFor } from "../support/wait.ts";
import { type Row, type Topic, withFolder } from "./measure.ts";

const ANNOUNCEMENTS = 20;
const PERSON = 42;
/** Two of these fit into a message. */
const RESULT = "a finding of some length, as they are. ".repeat(40);
const BURST = 3;
const GOAL = 1.3;
const PATIENCE_MS = 60_000;

export const pace: Topic = {
  name: "pace",
  run: () => withFolder(async (folder) => [await announceAll(folder)]),
};

async function announceAll(folder: string): Promise<Row> {
  const limits = createFloodLimits(() => performance.now());
  const telegram = await createFakeTelegram({ limits });
  const clock = systemClock;
  const bus = createBus((error) => {
    throw error;
  });
  const db = openDatabase({ path: join(folder, "herald.db"), onEvent: bus.emit });
  const outbox = createOutbox({ db, clock, bootId: "boot" });
  const channel = createTelegramChannel({
    ...{ botToken: telegram.token, apiRoot: telegram.apiRoot, mode: "polling", clock, log: silentLogger },
  });
  const delivery = createDelivery({
    ...{ db, outbox, clock, bus, log: silentLogger, failpoint: noFailpoints, channel: () => channel },
    recordDelivery: async () => undefined,
  });
  const address: Address = { channel: "telegram", account: String(telegram.botId), chat: String(PERSON), kind: "dm" };
  telegram.chats.add(PERSON);
  await delivery.start();
  const startedAt = performance.now();
  for (let n = 1; n <= ANNOUNCEMENTS; n++) {
    const markdown = `**Sub-agent: job ${n}**\n\nStatus: success\n\nResult:\n${RESULT}`;
    const parts = channel.render({ markdown, kind: "announcement" }, address);
    await db.transaction([], (tx) => outbox.add(tx, { delivery: `announce:${n}`, address, parts, runId: `run-${n}` }));
  }
  await waitFor("all to be said", async () => (await outbox.countAllOpen()) === 0, PATIENCE_MS);
  const tookMs = performance.now() - startedAt;
  const messages = telegram.messages(PERSON).length;
  await delivery.stop();
  db.close();
  await telegram.close();
  return rowOf({ messages, tookMs, refused: limits.refused() });
}

function rowOf({ messages, tookMs, refused }: { messages: number; tookMs: number; refused: number }): Row {
  const allowedMs = (messages - BURST) * 1_000;
  const ratio = tookMs / allowedMs;
  return {
    measure: `${ANNOUNCEMENTS} announcements for one chat under Telegram's limits, beside what those allow`,
    value: `${ratio.toFixed(2)}×, ${refused} × 429`,
    goal: `≤ ${GOAL}×, 0 × 429`,
    met: ratio <= GOAL && refused === 0,
    detail: `${(tookMs / 1_000).toFixed(1)} s in ${messages} messages, ${(allowedMs / 1_000).toFixed(1)} s allowed for so many`,
  };
}
