// What a message looks like in Slack: parts within its limits, as its strict server takes them.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createSlackChannel } from "../../../src/channels/slack/channel.ts";
import type { Address } from "../../../src/core/address.ts";
import { systemClock } from "../../../src/core/clock.ts";
import { silentLogger } from "../../../src/core/logger.ts";
import { type Channel, type OutMessage, type Part, statsLine } from "../../../src/core/message.ts";
import { deliver } from "../../contract/channel.contract.ts";
import { createFakeSlack, type FakeSlack } from "../../support/fake-slack.ts";
import type { SeenMessage } from "../../support/fake-slack-state.ts";
import { longText } from "../../support/long-text.ts";
import { createMemoryAccounts } from "../../support/memory-accounts.ts";

const CHANNEL = "C0GENERAL";
let fake: FakeSlack;
let channel: Channel;
let address: Address;
beforeAll(async () => {
  fake = await createFakeSlack();
  const { botToken, appToken, apiUrl } = fake;
  channel = await createSlackChannel({
    accounts: createMemoryAccounts(),
    botToken,
    appToken,
    apiUrl,
    mode: "socket",
    clock: systemClock,
    log: silentLogger,
    timeoutMs: 3_000,
    settleMs: 0,
  });
  const thread = fake.say({ channel: CHANNEL, text: "root" });
  address = { channel: "slack", account: channel.account, chat: CHANNEL, kind: "channel", thread };
});
afterAll(() => fake.close());

/** What the thread shows of it: every part was taken. */
async function post(message: OutMessage): Promise<SeenMessage[]> {
  const before = fake.messages(CHANNEL).length;
  await deliver(channel, message, address, "k");
  return fake.messages(CHANNEL).slice(before);
}

const stats = {
  figures: ["runtime 5m12s", "tokens 11.2k (in 10.7k / out 516)", "est $0.12"],
  names: ["sessionKey agent:main:subagent:1", "sessionId 2", "transcript /state/:smile:.jsonl"],
};

describe("the stats of an announcement", () => {
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

describe("a result that is longer than four messages", () => {
  const result = (characters: number): OutMessage => ({
    markdown: longText(characters).markdown,
    stats,
    kind: "announcement",
    fileName: "report.md",
  });
  const files = (seen: readonly SeenMessage[]) => seen.flatMap((message) => message.files);

  it("[AN10] comes as its beginning with the stats, and whole as a Markdown file in the same thread", async () => {
    for (const characters of [45_000, 150_000]) {
      const message = result(characters);
      const [beginning, whole, ...more] = await post(message);
      expect(more).toEqual([]);
      expect(beginning?.text).toMatch(/^## Heading00000/);
      expect(beginning?.text).toContain(`… (${message.markdown.length} characters in all: the whole text is in the file below)`);
      expect(beginning?.blocks.map(({ type }) => type)).toEqual(["markdown", "context"]);
      expect(whole).toMatchObject({ text: "The whole text", thread: address.thread });
      expect(whole?.files).toMatchObject([
        { name: "report.md", title: "report.md", content: `${message.markdown}\n\n${statsLine(stats)}\n` },
      ]);
    }
    expect(files(await post(result(12_000)))).toEqual([]);
  });

  it.each([
    ["files.getUploadURLExternal", "500_after"],
    ["files.getUploadURLExternal", "429"],
    ["upload_url", "drop"],
    ["upload_url", "500_after"],
    ["files.completeUploadExternal", "500"],
    ["files.completeUploadExternal", "drop"],
    ["files.completeUploadExternal", "429"],
  ] as const)("[AN10][DL4] %s, %s: the file is there once in the end", async (method, fault) => {
    fake.faults.add(method, fault);
    expect(files(await post(result(45_000)))).toHaveLength(1);
  });

  it.each(["500_after", "drop_after", "truncate_after"] as const)(
    "[AN10][DL4] shared, but the answer is lost (%s): the thread tells, and it is not shared again",
    async (fault) => {
      fake.faults.add("files.completeUploadExternal", fault);
      expect(files(await post(result(45_000)))).toHaveLength(1);
      expect(fake.calls.at(-1)?.method).toBe("conversations.replies");
    },
  );

  it("[AN10] a file that is gone before it was shared is uploaded anew", async () => {
    fake.faults.add("files.completeUploadExternal", { error: "file_not_found" });
    expect(files(await post(result(45_000)))).toHaveLength(1);
    expect(fake.calls.slice(-4).map(({ method }) => method)).toEqual([
      "files.completeUploadExternal",
      "files.getUploadURLExternal",
      "upload_url",
      "files.completeUploadExternal",
    ]);
  });

  it("[AN10][DL3] FILE-005 without the scope, or when the file is refused for good, the reader is told so in its place", async () => {
    const part = channel.render(result(45_000), address).at(-1)!;
    fake.faults.add("files.getUploadURLExternal", { error: "missing_scope", needed: "files:write" });
    expect(await channel.send({ address, part, key: "k#1", repeated: false })).toMatchObject({
      status: "rerender",
      part: { text: expect.stringContaining("could not be sent as a file (the Slack app lacks a scope)") },
      reason: "auth failed (missing_scope files:write): check channels.slack.botToken",
    });
    fake.faults.add("files.getUploadURLExternal", { error: "file_upload_size_restricted" });
    const refused = await channel.send({ address, part, key: "k#1", repeated: false });
    expect(refused).toMatchObject({ status: "rerender", part: { text: expect.stringContaining("file_upload_size_restricted") } });
    const told = refused.status === "rerender" ? refused.part : {};
    expect(await channel.send({ address, part: told, key: "k#1", repeated: false })).toMatchObject({ status: "sent" });
  });
});

describe("several announcements in one message", () => {
  const announcement = (n: number, size = 20): OutMessage => ({
    ...{
      kind: "announcement",
      markdown: `**Sub-agent: job ${n}**\n\nStatus: success\n\nResult:\n${`word${n} `.repeat(size)}\n\n- a\n- b`,
      stats,
    },
  });
  const part = (message: OutMessage): Part => channel.render(message, address)[0] ?? {};

  it("[DL7] each stands there whole, in order, and the platform takes it", async () => {
    const parts = [1, 2, 3].map((n) => part(announcement(n)));
    const joined = channel.join?.(parts) ?? null;
    expect(joined).not.toBeNull();
    expect(await channel.send({ address, part: joined ?? {}, key: "joined#0+2+3", repeated: false })).toMatchObject({ status: "sent" });
    const text = fake.messages(CHANNEL).at(-1)?.text ?? "";
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
