// What a message looks like in Slack: parts within its limits, as its strict server takes them.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createSlackChannel } from "../../../src/channels/slack/channel.ts";
import type { Address } from "../../../src/core/address.ts";
import { systemClock } from "../../../src/core/clock.ts";
import { silentLogger } from "../../../src/core/logger.ts";
import type { Channel, OutMessage } from "../../../src/core/message.ts";
import { createFakeSlack, type FakeSlack } from "../../support/fake-slack.ts";
import type { SeenMessage } from "../../support/fake-slack-state.ts";
import { createMemoryAccounts } from "../../support/memory-accounts.ts";

const CHANNEL = "C0GENERAL";
let fake: FakeSlack;
let channel: Channel;
let address: Address;
beforeAll(async () => {
  fake = await createFakeSlack();
  const { botToken, appToken, apiUrl } = fake;
  channel = createSlackChannel({
    accounts: createMemoryAccounts(),
    botToken,
    appToken,
    apiUrl,
    mode: "socket",
    clock: systemClock,
    log: silentLogger,
  });
  const thread = fake.say({ channel: CHANNEL, text: "root" });
  address = { channel: "slack", account: channel.account, chat: CHANNEL, kind: "channel", thread };
});
afterAll(() => fake.close());

/** What the thread shows of it: every part was taken. */
async function post(message: OutMessage): Promise<SeenMessage[]> {
  const before = fake.messages(CHANNEL).length;
  for (const part of channel.render(message, address)) {
    expect(await channel.send({ address, part, key: "k#0", repeated: false })).toMatchObject({ status: "sent" });
  }
  return fake.messages(CHANNEL).slice(before);
}

describe("the stats of an announcement", () => {
  const stats = {
    figures: ["runtime 5m12s", "tokens 11.2k (in 10.7k / out 516)", "est $0.12"],
    names: ["sessionKey agent:main:subagent:1", "sessionId 2", "transcript /state/:smile:.jsonl"],
  };

  it("[AN9] the figures end the words, what names the run stands small below them", async () => {
    const [seen] = await post({ markdown: "Status: success", stats, buttons: [{ label: "Log", command: "/subagents log 1" }] });
    expect(seen?.blocks.map((block) => block.type)).toEqual(["markdown", "context", "actions"]);
    expect(seen?.blocks[0]?.text).toBe("Status: success\n\nStats: runtime 5m12s • tokens 11.2k (in 10.7k / out 516) • est $0.12");
    expect(seen?.blocks[1]?.elements).toEqual([
      { type: "plain_text", text: "sessionKey agent:main:subagent:1 • sessionId 2 • transcript /state/:smile:.jsonl", emoji: false },
    ]);
  });

  it("[AN9] of several parts the last one has them, and a plainer part keeps them", async () => {
    const parts = channel.render({ markdown: "long words ".repeat(2_000), stats }, address);
    expect(parts.map((part) => JSON.stringify(part).includes("sessionKey"))).toEqual([false, false, true]);
    fake.faults.add("chat.postMessage", { error: "invalid_blocks" });
    const refused = await channel.send({ address, part: parts[2]!, key: "k#2", repeated: false });
    expect(refused).toMatchObject({ status: "rerender" });
    expect(JSON.stringify(refused)).toContain("transcript /state/:smile:.jsonl");
  });
});

describe("the plain text beside the blocks", () => {
  it("[DL2] SL-013 is escaped once, calls nobody, and stays within its limit", async () => {
    const [seen] = await post({ markdown: "<!channel> & `a<b>` <@U1> &lt;!here&gt; A&B" });
    expect(seen?.fallback).toBe("&lt;!channel&gt; &amp; `a&lt;b&gt;` &lt;@U1&gt; &lt;!here&gt; A&amp;B");
    expect(seen?.calls).toBe(false);
    const [long] = await post({ markdown: "<&>".repeat(2_000) });
    expect(long?.fallback.length).toBeLessThanOrEqual(4_000);
  });
});
