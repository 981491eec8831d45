import { describe } from "vitest";
import { createDiscordChannel } from "../../src/channels/discord/channel.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { createFakeDiscord, DIRECT, PERSON, ROOM } from "../support/fake-discord.ts";
import { createImpatientClock } from "../support/fast-clock.ts";
import { type ChannelRig, channelContract } from "./channel.contract.ts";

async function makeRig(): Promise<ChannelRig> {
  const fake = await createFakeDiscord({ heartbeatMs: 50 });
  const thread = fake.channels.thread(ROOM);
  const channel = createDiscordChannel({
    ...{ botToken: fake.botToken, apiUrl: fake.apiUrl },
    listed: () => [ROOM],
    // A connection that is cut before it is greeted tells nothing of what was said to it: on a loaded machine that happens here.
    people: () => [PERSON],
    clock: createImpatientClock(50),
    log: silentLogger,
    timeoutMs: 1_000,
  });
  const base = { channel: "discord", account: channel.account };
  let last: [string, string] | null = null;
  return {
    channel,
    address: { ...base, chat: DIRECT, kind: "dm" },
    threadAddress: { ...base, chat: ROOM, thread, kind: "channel" },
    async say({ chat, thread: inThread }, text) {
      await fake.until(() => fake.gateway.isUp(), "a session");
      const place = inThread ?? chat;
      last = [place, fake.say({ channel: place, text })];
    },
    replay: () => (last === null ? undefined : fake.replay(...last)),
    unconfirmed: () => fake.unconfirmed(),
    seen: ({ chat, thread: inThread }) => fake.messages(inThread ?? chat).map((message) => message.content),
    fault: (kind, skip) => fake.faults.add("createMessage", kind, { skip, retryAfter: 0 }),
    maxLength: 1_900,
    close: () => fake.close(),
  };
}

describe("Discord", () => {
  channelContract("gateway", makeRig);
});
