import { describe } from "vitest";
import { createSlackChannel } from "../../src/channels/slack/channel.ts";
import type { Address } from "../../src/core/address.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { createFakeSlack } from "../support/fake-slack.ts";
import { createImpatientClock } from "../support/fast-clock.ts";
import { freePort } from "../support/free-port.ts";
import { createMemoryAccounts } from "../support/memory-accounts.ts";
import { type ChannelRig, channelContract } from "./channel.contract.ts";

const CHANNEL = "C0GENERAL";
const DIRECT = "D0PERSON";

async function makeRig(mode: "socket" | "http"): Promise<ChannelRig> {
  const fake = await createFakeSlack({ ackTimeoutMs: 300 });
  const httpPort = mode === "http" ? await freePort() : undefined;
  if (mode === "http") fake.sendTo(`http://127.0.0.1:${httpPort}/slack/events`);
  const { botToken, appToken, signingSecret, apiUrl } = fake;
  const channel = await createSlackChannel({
    accounts: createMemoryAccounts(fake.teamId),
    botToken,
    appToken,
    signingSecret,
    apiUrl,
    mode,
    httpPort,
    clock: createImpatientClock(50),
    log: silentLogger,
    timeoutMs: 1_000,
  });
  fake.channels.add(DIRECT);
  const root = fake.say({ channel: CHANNEL, text: "the root", extra: { subtype: "channel_topic" } });
  const base = { channel: "slack", account: channel.account };
  let last: Record<string, unknown> = {};
  return {
    channel,
    address: { ...base, chat: DIRECT, kind: "dm" },
    threadAddress: { ...base, chat: CHANNEL, thread: root, kind: "channel" },
    say({ chat, thread }: Address, text) {
      fake.say({ channel: chat, text, ...(thread === undefined ? {} : { thread }) });
      last = fake.pending().at(-1) ?? {};
    },
    replay: async () => void (await fake.redeliver(last)),
    unconfirmed: () => fake.pending().length,
    seen: ({ chat, thread }) => fake.messages(chat, thread ?? null).map((message) => message.text),
    fault: (kind, skip) => fake.faults.add("chat.postMessage", kind, { skip, retryAfter: 0 }),
    maxLength: 10_000,
    close: () => fake.close(),
  };
}

describe("Slack", () => {
  channelContract("socket mode", () => makeRig("socket"));
  channelContract("http mode", () => makeRig("http"));
});
