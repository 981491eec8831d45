// The real Slack channel in front of a fake workspace, recording into memory; its waits are cut short.
import { createSlackChannel, type SlackOptions } from "../../src/channels/slack/channel.ts";
import { silentLogger } from "../../src/core/logger.ts";
import type { Channel } from "../../src/core/message.ts";
import { createFakeSlack, type FakeSlack } from "./fake-slack.ts";
import { createImpatientClock } from "./fast-clock.ts";
import { createMemoryAccounts } from "./memory-accounts.ts";
import { createMemoryInbox, type MemoryInbox } from "./memory-inbox.ts";

export interface SlackRig extends AsyncDisposable {
  readonly fake: FakeSlack;
  /** Not started yet. */
  readonly channel: Channel;
  readonly inbox: MemoryInbox;
}

export async function createSlackRig(options: Partial<SlackOptions> = {}): Promise<SlackRig> {
  const fake = await createFakeSlack({ ackTimeoutMs: 200 });
  const { botToken, appToken, signingSecret, apiUrl } = fake;
  const channel = await createSlackChannel({
    accounts: createMemoryAccounts(),
    ...{ botToken, appToken, signingSecret, apiUrl, mode: "socket", timeoutMs: 3_000 },
    ...{ clock: createImpatientClock(20), log: silentLogger, ...options },
  });
  return {
    ...{ fake, channel, inbox: createMemoryInbox() },
    async [Symbol.asyncDispose]() {
      await channel.stop();
      await fake.close();
    },
  };
}
