// What a message looks like on Telegram: parts within its limits, as its strict server takes them.
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createTelegramChannel } from "../../../src/channels/telegram/channel.ts";
import type { Address } from "../../../src/core/address.ts";
import { systemClock } from "../../../src/core/clock.ts";
import { silentLogger } from "../../../src/core/logger.ts";
import { type Channel, type OutMessage, type Part, statsLine } from "../../../src/core/message.ts";
import { createFakeTelegram, type FakeTelegram } from "../../support/fake-telegram.ts";
import type { SeenMessage } from "../../support/fake-telegram-state.ts";
import { longText } from "../../support/long-text.ts";

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

  it("[AN9] after words up to the limit they come whole, as a message of their own", async () => {
    const seen = await post({ markdown: "x".repeat(3_990), stats: STATS });
    expect(seen.map((message) => quoteOf(message).length)).toEqual([0, 1]);
    expect(seen[1]?.text).toBe(quoteOf(seen[1]!)[0]);
  });

  it("[AN9] stand apart from code that ends in blank lines", async () => {
    const [seen] = await post({ markdown: "```\na\n\n\n\n   \n```", stats: STATS });
    expect(quoteOf(seen!)[0]).toMatch(/^Stats: runtime 5m12s/);
  });

  it("[AN9] however many ranges a message has, there is one left for them", async () => {
    for (let count = 90; count <= 101; count++) {
      const seen = await post({ markdown: "`a` ".repeat(count), stats: STATS });
      expect(seen.flatMap(quoteOf)).toHaveLength(1);
    }
  });
});

describe("a result that is longer than four messages", () => {
  const result = (characters: number): OutMessage => ({
    markdown: longText(characters).markdown,
    stats: STATS,
    kind: "announcement",
    fileName: "report.md",
  });

  it("[AN10] comes as its beginning with the stats, and whole as a Markdown file", async () => {
    for (const characters of [20_000, 150_000]) {
      const message = result(characters);
      const [beginning, whole, ...more] = await post(message);
      expect(more).toEqual([]);
      expect(beginning?.text.startsWith("Heading00000")).toBe(true);
      expect(beginning?.text).toContain(`… (${message.markdown.length} characters in all: the whole text is in the file below)`);
      expect(quoteOf(beginning!)).toHaveLength(1);
      expect(whole).toMatchObject({ text: "The whole text", quiet: false });
      expect(whole?.file).toEqual({ name: "report.md", content: `${message.markdown}\n\n${statsLine(STATS)}\n` });
    }
  });

  it("[AN10] four messages are still messages, and so is any text that is no result", async () => {
    const four = await post({ ...result(0), markdown: "x".repeat(15_500) });
    expect(four.map(({ file }) => file)).toEqual([null, null, null, null]);
    const { fileName: _none, ...answer } = result(20_000);
    expect((await post(answer)).every(({ file }) => file === null)).toBe(true);
  });

  it.each(["```\nlet a;\n", "- a\n\n  ```\n  b\n", "| a | b |\n|-|-|\n| c | d |\n", "> x\n\n"])(
    "[AN10] of %j without end the beginning is one message, with nothing open at the cut",
    async (one) => {
      const markdown = one.repeat(Math.ceil(25_000 / one.length));
      const [beginning, whole, ...more] = await post({ ...result(0), markdown });
      expect(more).toEqual([]);
      expect(beginning?.text).toContain("the whole text is in the file below");
      expect(whole?.file?.content.startsWith(markdown)).toBe(true);
    },
  );
});

describe("words that Telegram would make live", () => {
  const shown = async (markdown: string): Promise<SeenMessage[]> => {
    const seen = await post({ markdown, stats: STATS });
    expect(seen.flatMap(({ live }) => live)).toEqual([]);
    return seen;
  };
  /** `**b**`: what stands in which type. */
  const typed = ({ text, entities }: SeenMessage, type: string): string[] =>
    entities.filter((entity) => entity.type === type).map(({ offset, length }) => text.slice(offset, offset + length));

  it.each([
    ["ask @admin to /stop it", ["@admin", "/stop"]],
    ["/stop", ["/stop"]],
    ["(@admin) \u00e9@admin /new@herald_test_bot, /a.", ["@admin", "@admin", "/new@herald_test_bot", "/a"]],
    ["see #release-notes and $BTC, #\u0443\u0440\u0430 #1 $1", ["#release", "$BTC", "#\u0443\u0440\u0430"]],
    ["open tg://resolve?domain=bot&start=1 now", ["tg://resolve?domain=bot&start=1"]],
    ["[call](tg://user?id=777)", ["tg://user?id=777)"]],
    ["npm i @types/node, and/or /usr/bin/env mail a@b.org 1/2 </b> C#", ["@types"]],
  ])("[IN4] %s: they are shown as code, and every character stays", async (markdown, words) => {
    const [seen] = await shown(markdown);
    expect(typed(seen!, "code")).toEqual(words);
    expect(seen?.text.split("\n")[0]).toBe(markdown.replace("[call](", "call ("));
  });

  it("[IN4] inside other formatting, quotes, lists, tables and links they are as dead, and the formatting goes on around them", async () => {
    const [seen] = await shown(
      "**ask @admin now** _and #this_\n\n> a quote with /stop in it\n\n- [@admin](https://example.org/@x)\n\n`/new` @na`me`",
    );
    expect(typed(seen!, "bold")).toEqual(["ask ", " now"]);
    expect(typed(seen!, "blockquote")).toEqual(["a quote with /stop in it"]);
    expect(typed(seen!, "text_link")).toEqual(["@admin"]);
    await shown("| who | what |\n|-|-|\n| @admin | /stop |");
    await shown("<b>@admin</b> ~~/stop~~ ***#tag***");
  });

  it("[IN4] a cut brings none to life", async () => {
    for (const length of [3_990, 3_995, 3_999, 4_000, 4_001]) {
      await shown(`${"x".repeat(length)}/stop ${"y".repeat(4_000)}@admin`);
      await shown(`${"x".repeat(length - 2)}é#tag${"z".repeat(300)}`);
    }
  });

  it("[IN4] a text of nothing but names needs no more messages than its length", async () => {
    expect(await shown("@ab ".repeat(4_000))).toHaveLength(5);
    expect(await shown("@ab\n\n".repeat(2_000))).toHaveLength(3);
    expect((await shown("> @ab /stop\n\n**#x** `y`\n\n".repeat(300))).length).toBeLessThan(14);
  });

  it("[IN4] whatever a model writes, nothing is live and no range is refused", async () => {
    const piece = fc.constantFrom(
      "@",
      "/",
      "#",
      "$",
      "stop",
      "admin",
      "AB",
      " ",
      "\n",
      "**",
      "_",
      "`",
      "> ",
      "- ",
      "tg://",
      "é",
      "😀",
      "[a](",
      ")",
      "x.org",
    );
    await fc.assert(
      fc.asyncProperty(fc.array(piece, { maxLength: 40 }), async (pieces) => void (await shown(pieces.join("")))),
      { numRuns: 300 },
    );
  });

  it("[IN4] formatting that is refused takes nothing of it away: first only code is left, then the sign stands apart", async () => {
    const refuse = () => fake.faults.add("sendMessage", { code: 400, description: "Bad Request: can't parse entities: whatever" });
    const [part] = channel.render({ markdown: "**ask** @admin to /stop" }, address);
    refuse();
    const first = await channel.send({ address, part: part!, key: "k#0", repeated: false });
    expect(first).toMatchObject({ status: "rerender", part: { entities: [{ type: "code" }, { type: "code" }] } });
    refuse();
    const plain = first.status === "rerender" ? first.part : {};
    const second = await channel.send({ address, part: plain, key: "k#0", repeated: false });
    const bare = second.status === "rerender" ? second.part : {};
    expect(bare).not.toHaveProperty("entities");
    await channel.send({ address, part: bare, key: "k#0", repeated: false });
    expect(fake.messages(77).at(-1)).toMatchObject({ text: "ask @\u2060admin to /\u2060stop", live: [] });
  });
});

describe("several announcements in one message", () => {
  const announcement = (n: number, size = 20): OutMessage => ({
    ...{
      kind: "announcement",
      markdown: `**Sub-agent: job ${n}**\n\nStatus: success\n\nResult:\n${`word${n} `.repeat(size)}\n\n- a\n- b`,
      stats: STATS,
    },
  });
  const part = (message: OutMessage): Part => channel.render(message, address)[0] ?? {};

  it("[DL7] each stands there whole, in order, and the platform takes it", async () => {
    const parts = [1, 2, 3].map((n) => part(announcement(n)));
    const joined = channel.join?.(parts) ?? null;
    expect(joined).not.toBeNull();
    expect(await channel.send({ address, part: joined ?? {}, key: "joined#0+2+3", repeated: false })).toMatchObject({ status: "sent" });
    const text = fake.messages(77).at(-1)?.text ?? "";
    const places = [1, 2, 3].map((n) => text.search(new RegExp(`Sub-agent: job ${n}\\**\\n\\nStatus: success[^]*?(?:word${n} ?){20}`)));
    expect(
      places.every((at, n) => at >= 0 && at > (places[n - 1] ?? -1)),
      text,
    ).toBe(true);
  });

  it("[DL7] what doesn't fit, and what has buttons, goes by itself", () => {
    const many = Array.from({ length: 30 }, (_, n) => part(announcement(n, 100)));
    expect(channel.join?.(many)).toBeNull();
    const buttons = [{ label: "Stop", command: "/stop" }];
    expect(channel.join?.([part(announcement(1)), part({ ...announcement(2), buttons })])).toBeNull();
  });
});
