import { describe } from "vitest";
import { createTelegramChannel } from "../../src/channels/telegram/channel.ts";
import type { Address } from "../../src/core/address.ts";
import { systemClock } from "../../src/core/clock.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { createFakeTelegram } from "../support/fake-telegram.ts";
import { freePort } from "../support/free-port.ts";
import { type ChannelRig, channelContract } from "./channel.contract.ts";

const GROUP = -1001234567890;
const TOPIC = 42;
const PERSON = 77;

/** Waits of the poll loop are cut short, so that a refused write is tried again within the test. */
const quickClock = {
  now: systemClock.now,
  sleep: (ms: number, signal?: AbortSignal) => systemClock.sleep(Math.min(ms, ms > 60_000 ? ms : 50), signal),
};

async function makeRig(mode: "polling" | "webhook"): Promise<ChannelRig> {
  const fake = await createFakeTelegram();
  const port = mode === "webhook" ? await freePort() : 0;
  const channel = createTelegramChannel({
    botToken: fake.token,
    apiRoot: fake.apiRoot,
    mode,
    webhook: { url: `http://127.0.0.1:${port}/hook`, port, secret: "a-secret-of-some-length" },
    clock: quickClock,
    log: silentLogger,
    timeoutMs: 2_000,
  });
  fake.chats.add(GROUP, { forum: true });
  fake.chats.addTopic(GROUP, TOPIC);
  const base = { channel: "telegram", account: channel.account };
  let last: Record<string, unknown> = {};
  const threadOf = (address: Address) => (address.thread === undefined ? null : Number(address.thread));
  return {
    channel,
    address: { ...base, chat: String(PERSON), kind: "dm" },
    threadAddress: { ...base, chat: String(GROUP), thread: String(TOPIC), kind: "group" },
    say(address, text) {
      const thread = threadOf(address);
      fake.say({ chat: Number(address.chat), text, from: PERSON, ...(thread === null ? {} : { thread }) });
      last = fake.pending().at(-1) ?? {};
    },
    replay: () => fake.replay(last),
    unconfirmed: () => fake.pending().length,
    seen: (address) => fake.messages(Number(address.chat), threadOf(address)).map((message) => message.text),
    fault: (kind, skip) => fake.faults.add("sendMessage", kind, { skip, retryAfter: 0 }),
    maxLength: 4096,
    close: () => fake.close(),
  };
}

describe("Telegram", () => {
  channelContract("polling", () => makeRig("polling"));
  channelContract("webhook", () => makeRig("webhook"));
});
