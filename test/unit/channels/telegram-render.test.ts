// What a message looks like on Telegram: parts within its limits, as its strict server takes them.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createTelegramChannel } from "../../../src/channels/telegram/channel.ts";
import type { Address } from "../../../src/core/address.ts";
import { systemClock } from "../../../src/core/clock.ts";
import { silentLogger } from "../../../src/core/logger.ts";
import type { Channel, OutMessage } from "../../../src/core/message.ts";
import { createFakeTelegram, type FakeTelegram } from "../../support/fake-telegram.ts";
import type { SeenMessage } from "../../support/fake-telegram-state.ts";

const address: Address = { channel: "telegram", account: "7000001", chat: "77", kind: "dm" };
let fake: FakeTelegram;
let channel: Channel;
beforeAll(async () => {
  fake = await createFakeTelegram();
  fake.chats.add(77);
  channel = createTelegramChannel({
    ...{ botToken: fake.token, apiRoot: fake.apiRoot, mode: "polling", clock: systemClock, log: silentLogger, timeoutMs: 3_000 },
  });
});
afterAll(() => fake.close());

/** What the person's chat shows of it: every part was taken. */
async function post(message: OutMessage): Promise<SeenMessage[]> {
  const before = fake.messages(77).length;
  for (const part of channel.render(message, address)) {
    expect(await channel.send({ address, part, key: "k#0", repeated: false })).toMatchObject({ status: "sent" });
  }
  return fake.messages(77).slice(before);
}

const STATS = {
  figures: ["runtime 5m12s", "tokens 11.2k (in 10.7k / out 516)", "est $0.12"],
  names: ["sessionKey agent:main:subagent:1", "sessionId 2", "transcript /state/2.jsonl"],
};
const quoteOf = ({ text, entities }: SeenMessage): string[] =>
  entities.filter(({ type }) => type === "expandable_blockquote").map(({ offset, length }) => text.slice(offset, offset + length));

describe("the stats of an announcement", () => {
  it("[AN9] are a closed quote below the words: its first three lines are the figures, the rest is folded", async () => {
    const [seen] = await post({ markdown: "**Sub-agent: x**\n\nStatus: success", stats: STATS });
    expect(seen?.text.split("\n").slice(0, 4)).toEqual(["Sub-agent: x", "", "Status: success", ""]);
    const [quote = ""] = quoteOf(seen!);
    expect(seen?.text.endsWith(quote)).toBe(true);
    expect(quote.split("\n").slice(0, 3)).toEqual(["Stats: runtime 5m12s", "• tokens 11.2k (in 10.7k / out 516)", "• est $0.12"]);
    expect(quote.replaceAll("\n", " ")).toBe(
      "Stats: runtime 5m12s • tokens 11.2k (in 10.7k / out 516) • est $0.12 • sessionKey agent:main:subagent:1 • sessionId 2 • transcript /state/2.jsonl",
    );
  });

  it("[AN9] without a price the names still stand below the third line", async () => {
    const [seen] = await post({ markdown: "x", stats: { ...STATS, figures: ["runtime 1s", "tokens n/a"] } });
    expect(quoteOf(seen!)[0]?.split("\n").slice(0, 4)).toEqual([
      "Stats: runtime 1s",
      "• tokens n/a",
      "",
      "• sessionKey agent:main:subagent:1",
    ]);
  });

  it.each([
    ["words up to the limit", "x".repeat(3_990)],
    ["as many ranges as a message takes", "`a` ".repeat(100)],
  ])("[AN9] after %s they come whole, as a message of their own", async (_name, markdown) => {
    const seen = await post({ markdown, stats: STATS });
    expect(seen.map((message) => quoteOf(message).length)).toEqual([0, 1]);
    expect(seen[1]?.text).toBe(quoteOf(seen[1]!)[0]);
  });
});
