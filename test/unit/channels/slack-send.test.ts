import { fromMarkdown } from "mdast-util-from-markdown";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createSlackChannel } from "../../../src/channels/slack/channel.ts";
import type { Address } from "../../../src/core/address.ts";
import { type Clock, systemClock } from "../../../src/core/clock.ts";
import { silentLogger } from "../../../src/core/logger.ts";
import type { Channel, Part, SendResult } from "../../../src/core/message.ts";
import { createFakeSlack, type FakeSlack, type Fault } from "../../support/fake-slack.ts";
import { elementsOf } from "../../support/fake-slack-rules.ts";
import { createMemoryAccounts } from "../../support/memory-accounts.ts";
import { createMemoryInbox } from "../../support/memory-inbox.ts";

const CHANNEL = "C0GENERAL";
let fake: FakeSlack;
let channel: Channel;
let address: Address;
/** Moved by hand; only stamps are read from it here. */
let shiftMs: number;
const clock: Clock = { now: () => Date.now() + shiftMs, sleep: systemClock.sleep };

const makeChannel = (apiUrl: string): Promise<Channel> =>
  createSlackChannel({
    accounts: createMemoryAccounts(),
    botToken: fake.botToken,
    appToken: fake.appToken,
    apiUrl,
    mode: "socket",
    clock,
    log: silentLogger,
    timeoutMs: 3_000,
    settleMs: 12_000,
  });

beforeEach(async () => {
  shiftMs = 0;
  fake = await createFakeSlack();
  channel = await makeChannel(fake.apiUrl);
  const root = fake.say({ channel: CHANNEL, text: "root" });
  address = { channel: "slack", account: channel.account, chat: CHANNEL, kind: "channel", thread: root };
});
afterEach(() => fake.close());

const send = (part: Part, key = "d#0", to = address): Promise<SendResult> => channel.send({ address: to, part, key, repeated: false });
const render = (markdown: string): Part => channel.render({ markdown }, address)[0] as Part;
const fault = (kind: Fault, options = {}) => fake.faults.add("chat.postMessage", kind, options);

describe("sending to Slack", () => {
  it("[CH2] a large file has the time its bytes need on a slow line", async () => {
    const file = { name: "whole.md", content: "x".repeat(100_000) };
    fake.faults.add("upload_url", "slow", { delayMs: 1_200 });
    expect(await send({ ...render("look"), file })).toMatchObject({ status: "reserved" });
  });

  it("[AN3] FM-026 a part is posted into its thread, with its key, and no link is unfolded", async () => {
    const result = await send(render("hello **you**"));
    const [message] = fake.messages(CHANNEL, address.thread);
    expect(result).toEqual({ status: "sent", ref: message?.ts });
    expect(message).toMatchObject({ text: "hello **you**", metadata: { event_type: "herald_part", event_payload: { key: "d#0" } } });
    expect(fake.messages(CHANNEL, null)).toEqual([]);
    expect(fake.calls.find((call) => call.method === "chat.postMessage")?.args).toMatchObject({
      unfurl_links: "false",
      unfurl_media: "false",
    });
  });

  it.each<[string, Fault, object, object]>([
    ["429", "429", { retryAfter: 7 }, { status: "retry", afterMs: 7_000 }],
    ["429 without a time", "429_bare", {}, { status: "retry", afterMs: 30_000 }],
    ["a 500", "500", {}, { status: "unknown" }],
    ["an HTML page", "html", {}, { status: "unknown" }],
    ["an HTML page with status 200", "html_200", {}, { status: "unknown" }],
    ["a dropped connection", "drop", {}, { status: "unknown" }],
    ["a cut answer", "truncate_after", {}, { status: "unknown" }],
    ["half an answer", "cut_json_after", {}, { status: "unknown" }],
    ["no answer", "hang", {}, { status: "unknown", reason: "no answer in time" }],
    ["internal_error", { error: "internal_error" }, {}, { status: "unknown" }],
    ["fatal_error", { error: "fatal_error" }, {}, { status: "unknown" }],
    ["a body that is no answer", { error: "" }, {}, { status: "unknown" }],
    ["invalid_auth", { error: "invalid_auth" }, {}, { status: "retry", afterMs: 60_000 }],
    ["missing_scope", { error: "missing_scope", needed: "chat:write" }, {}, { status: "retry", afterMs: 60_000 }],
    ["channel_not_found", { error: "channel_not_found" }, {}, { status: "failed", reason: "channel_not_found" }],
    ["not_in_channel", { error: "not_in_channel" }, {}, { status: "failed" }],
    ["is_archived", { error: "is_archived" }, {}, { status: "failed" }],
    ["a refusal nobody knows", { error: "restricted_action" }, {}, { status: "failed" }],
  ])("[DL3] SL-023 %s is understood, in one attempt", async (_name, kind, options, expected) => {
    fault(kind, options);
    expect(await send(render("x"))).toMatchObject(expected);
    expect(fake.calls.filter((call) => call.method === "chat.postMessage")).toHaveLength(1);
  });

  it("[DL3] no connection at all is surely not executed", async () => {
    const gone = await createFakeSlack();
    await gone.close();
    const nowhere = await makeChannel(gone.apiUrl);
    const result = await nowhere.send({ address, part: render("x"), key: "d#0", repeated: false });
    expect(result).toMatchObject({ status: "retry" });
    expect(result).not.toHaveProperty("afterMs");
  });

  it("[SC4] no outcome names the token", async () => {
    for (const kind of ["500", "drop", "html", { error: "invalid_auth" }] as const) {
      fault(kind);
      expect(JSON.stringify(await send(render("x")))).not.toContain(fake.botToken.slice(5));
    }
  });

  it("[DL3] a refused token shows in the channel's health until a call succeeds again", async () => {
    await channel.start({ async put() {}, cursor: async () => null });
    await fake.until(() => channel.health().state === "on", "the connection");
    fault({ error: "missing_scope", needed: "chat:write" });
    await send(render("x"));
    expect(channel.health()).toEqual({ state: "failed", detail: "auth failed (missing_scope chat:write): check channels.slack.botToken" });
    await send(render("x"));
    expect(channel.health().state).toBe("on");
    await channel.stop();
  });

  it.each(["msg_too_long", "msg_blocks_too_long", "invalid_blocks"])(
    "[DL2] %s: the same words come without formatting, once",
    async (error) => {
      const words = `start ${"long words ".repeat(800)}end`;
      fault({ error });
      const refused = await send(render(words));
      expect(refused.status).toBe("rerender");
      const { part } = refused as Extract<SendResult, { status: "rerender" }>;
      expect((await send(part)).status).toBe("sent");
      expect(fake.messages(CHANNEL, address.thread)[0]?.text.replaceAll("\n", "")).toBe(words);
      fault({ error });
      expect((await send(part)).status).toBe("failed");
    },
  );

  it("[AN3] a thread that is gone: the channel gets the text, and it says so", async () => {
    fake.deleteMessage(CHANNEL, String(address.thread));
    const part = render("the result");
    const refused = await send(part);
    expect(refused).toMatchObject({ status: "retarget", reason: "thread_not_found", address: { chat: CHANNEL } });
    const { address: to } = refused as Extract<SendResult, { status: "retarget" }>;
    expect(to).not.toHaveProperty("thread");
    expect((await send(part, "d#0", to)).status).toBe("sent");
    expect(fake.messages(CHANNEL, null)[0]?.text).toContain("(the thread this belongs to is gone)");
    expect(fake.messages(CHANNEL, null)[0]?.text).toContain("the result");
  });
});

describe("an answer to a slash command", () => {
  const USER = "U0PERSON";
  const place = (): Address => ({ channel: "slack", account: channel.account, chat: CHANNEL, kind: "channel" });
  /** As the gateway hands it back: what the command came with as it came. */
  async function answerTo(markdown: string): Promise<Part[]> {
    const inbox = createMemoryInbox();
    await channel.start(inbox);
    await fake.until(() => channel.health().state === "on", "the connection");
    await fake.slash({ channel: CHANNEL, command: "/subagents", user: USER });
    await channel.stop();
    const inbound = [...inbox.rows.values()].map((raw) => channel.decode(raw)).find((one) => one?.kind === "command");
    expect(inbound?.onlyTo?.user).toBe(USER);
    return channel.render({ markdown, onlyTo: inbound!.onlyTo! }, place());
  }
  const whisper = (part: Part, repeated = false) => channel.send({ address: place(), part, key: "answer:1#0", repeated });
  const texts = (): string[] => fake.whispers(CHANNEL, USER).map(({ text }) => text);

  it("[CM1] is seen by whoever asked, and by nobody else", async () => {
    const [part] = await answerTo("**one** sub-agent");
    expect(await whisper(part!)).toMatchObject({ status: "sent" });
    expect(texts()).toEqual(["**one** sub-agent"]);
    expect(fake.messages(CHANNEL)).toEqual([]);
    expect(fake.whispers(CHANNEL, "U0OTHER")).toEqual([]);
  });

  it("[CM1] reaches them by the command's own address where the bot is no member, as often as Slack lets it", async () => {
    const parts = await answerTo(Array.from({ length: 6 }, (_, n) => `${n} ${"x".repeat(9_000)}`).join("\n\n"));
    fake.channels.break(CHANNEL, "not_in_channel");
    const results = [];
    for (const part of parts) results.push(await whisper(part));
    expect(fake.whispers(CHANNEL, USER).map(({ byUrl }) => byUrl)).toEqual([true, true, true, true, true]);
    expect(results.map(({ status }) => status)).toEqual([...Array.from({ length: 5 }, () => "sent"), "failed"]);
  });

  it("[CM1] long after the command it still comes, by the token; without membership it fails with the reason", async () => {
    const [part] = await answerTo("late");
    const onlyTo = { user: USER, url: `http://127.0.0.1:${fake.port}/commands/long-gone` };
    expect(await whisper({ ...part, onlyTo })).toMatchObject({ status: "sent" });
    fake.channels.break(CHANNEL, "not_in_channel");
    expect(await whisper({ ...part, onlyTo })).toEqual({ status: "failed", reason: "Slack answered with status 404" });
    expect(texts()).toEqual(["late"]);
  });

  it("[SC5] goes to no address but Slack's, whatever the payload says", async () => {
    const [part] = await answerTo("secret");
    const other = await createFakeSlack();
    fake.channels.break(CHANNEL, "channel_not_found");
    for (const url of [`http://127.0.0.1:${other.port}/commands/x`, "https://hooks.slack.com.example.org/x", "file:///etc/passwd", "x"]) {
      expect(await whisper({ ...part, onlyTo: { user: USER, url } })).toMatchObject({ status: "failed" });
    }
    expect(other.calls).toEqual([]);
    await other.close();
  });

  it.each([
    ["chat.postEphemeral", null],
    ["response_url", "not_in_channel"],
  ] as const)("[DL4] %s: nobody can be asked whether it arrived, so a second one says what it is", async (method, trouble) => {
    const [part] = await answerTo("twice");
    if (trouble !== null) fake.channels.break(CHANNEL, trouble);
    for (const kind of ["500_after", "drop_after", "hang_after"] as const) {
      fake.faults.add(method, kind);
      expect(await whisper(part!)).toMatchObject({ status: "unknown" });
    }
    fake.faults.add(method, "429", { retryAfter: 7 });
    expect(await whisper(part!)).toMatchObject({ status: "retry", afterMs: 7_000 });
    expect(await channel.reconcile?.({ address: place(), part: part!, key: "answer:1#0", since: 0 })).toEqual({ status: "untold" });
    await whisper(part!, true);
    expect(texts().at(-1)).toBe("_(may be repeated)_\ntwice");
  });
});

describe("asking Slack whether a part arrived", () => {
  const ask = (since: number, to = address) => channel.reconcile?.({ address: to, part: {}, key: "d#0", since });

  it("[DL4] SL-019: found by its key in a thread and in a channel, at any time, also behind many messages", async () => {
    fault("drop_after");
    const since = clock.now();
    expect((await send(render("x"))).status).toBe("unknown");
    for (let n = 0; n < 450; n++)
      fake.say({ channel: CHANNEL, text: `noise ${n}`, ...(address.thread === undefined ? {} : { thread: address.thread }) });
    expect(await ask(since)).toEqual({ status: "found", ref: fake.messages(CHANNEL, address.thread)[0]?.ts });
    const { thread: _thread, ...root } = address;
    expect((await ask(since, root))?.status).toBe("unknown");
    await send(render("x"), "d#0", root);
    expect(await ask(since, root)).toEqual({ status: "found", ref: fake.messages(CHANNEL, null)[0]?.ts });
  });

  it("[DL4] absent only counts once no request can be under way any more", async () => {
    const since = clock.now();
    expect(await ask(since)).toEqual({ status: "unknown", reason: "not there yet" });
    shiftMs = 11_000;
    expect((await ask(since))?.status).toBe("unknown");
    shiftMs = 13_000;
    expect(await ask(since)).toEqual({ status: "absent" });
  });

  it("[DL4] a request that is executed late is found, not repeated", async () => {
    fault("slow", { delayMs: 6_000 });
    const since = clock.now();
    expect((await send(render("late"))).status).toBe("unknown");
    expect((await ask(since))?.status).toBe("unknown");
    await fake.until(() => fake.messages(CHANNEL, address.thread).length === 1, "the late message");
    shiftMs = 60_000;
    expect((await ask(since))?.status).toBe("found");
  });

  it("[DL4] trouble while asking concludes nothing; a place that is gone holds no message", async () => {
    shiftMs = 60_000;
    const since = clock.now() - 60_000;
    for (const kind of ["429", "500", "drop", "html_200", { error: "missing_scope" }, { error: "unknown_method" }] as Fault[]) {
      fake.faults.add("conversations.replies", kind);
      expect((await ask(since))?.status).toBe("unknown");
    }
    fake.channels.break(CHANNEL, "not_in_channel");
    expect((await ask(since))?.status).toBe("absent");
  });
});

describe("rendering for Slack", () => {
  const deliver = async (markdown: string): Promise<string[]> => {
    for (const [n, part] of channel.render({ markdown }, address).entries()) expect((await send(part, `d#${n}`)).status).toBe("sent");
    return fake.messages(CHANNEL, address.thread).map((message) => message.text);
  };

  it("[DL2] 30,000 characters with fences, tables, emoji, RTL, HTML are accepted, in order, and nothing is lost", async () => {
    const section = (n: number): string =>
      [
        `## Part ${n} 👩‍👩‍👧‍👦 שלום עולם مرحبا`,
        `word-${n}-a ${"lorem ipsum 😀 ".repeat(20)} <b>html-${n}</b> <script>x</script> & &amp;`,
        `| col-${n} | b |\n|---|---|\n| cell-${n} | 2 |`,
        `\`\`\`ts\nconst fenced${n} = "<!channel>";\n${"// line of code\n".repeat(15)}\`\`\``,
        `- item-${n}-1\n- item-${n}-2\n\n> quoted-${n}`,
      ].join("\n\n");
    const markdown = Array.from({ length: 40 }, (_, n) => section(n)).join("\n\n");
    expect(markdown.length).toBeGreaterThan(30_000);
    const texts = await deliver(markdown);
    const all = texts.join("\n");
    for (let n = 0; n < 40; n++) {
      for (const mark of [`Part ${n} `, `word-${n}-a`, `html-${n}<`, `cell-${n} `, `fenced${n} `, `item-${n}-2`, `quoted-${n}`])
        expect(all).toContain(mark);
    }
    expect([...all.matchAll(/## Part (\d+)/g)].map((match) => Number(match[1]))).toEqual(Array.from({ length: 40 }, (_, n) => n));
    expect(all.match(/lorem ipsum 😀/gu)).toHaveLength(800);
    expect(all.match(/line of code/g)).toHaveLength(600);
    for (const text of texts) {
      expect(text.isWellFormed()).toBe(true);
      expect(text.match(/^```/gm)?.length ?? 0).toSatisfy((fences: number) => fences % 2 === 0);
      expect(elementsOf(text)).not.toContain("table");
    }
  });

  it("[DL2] many short paragraphs are cut by their number, one endless line by its length", async () => {
    const many = Array.from({ length: 130 }, (_, n) => `p${n}`).join("\n\n");
    expect(channel.render({ markdown: many }, address).length).toBeGreaterThanOrEqual(4);
    const texts = await deliver(`${many}\n\n${"x".repeat(25_000)}`);
    expect(texts.join("").match(/x/g)).toHaveLength(25_000);
  });

  it("[SC5] SL-013: what the model writes calls nobody", async () => {
    await deliver(
      "<!channel> <!here> hi <@U123|admin> and <#C1|x>, [link](https://x.test) <https://x.test|y> `<!channel>`\n\n```\n<!everyone>\n```",
    );
    const [message] = fake.messages(CHANNEL, address.thread);
    expect(message?.calls).toBe(false);
    expect(message?.fallback).not.toMatch(/<[!@#]/);
  });

  it.each([
    ["a back-tick is open where the text is parsed in pieces", `${"x ".repeat(3_990)}\`open ${"y ".repeat(20)}close\` <!channel> \`end`],
    ["code is cut between two parts", `${"<@a> ".repeat(1_000)}${"y ".repeat(950)}\`code ${"z ".repeat(100)}<!channel> <@U1>\``],
    ["a quote too deep to parse", `${">".repeat(60)} \`<!channel>\` & <#C1>`],
  ])("[SC5] SL-013: what the model writes calls nobody where %s", (_where, markdown) => {
    const texts = channel.render({ markdown }, address).map((part) => (part as { blocks: { text: string }[] }).blocks[0]?.text ?? "");
    expect(texts.join("")).toContain("!channel");
    for (const text of texts) {
      const code: string[] = [];
      const visit = (node: { type: string; value?: string; children?: object[] }): void => {
        if (node.type === "code" || node.type === "inlineCode") code.push(node.value ?? "");
        for (const child of node.children ?? []) visit(child as typeof node);
      };
      visit(fromMarkdown(text));
      const mentions = (some: string) => some.match(/<[!@#]/g)?.length ?? 0;
      expect(mentions(text)).toBe(mentions(code.join("\n")));
    }
  });

  it("[CM1] buttons stand under the last part and come back as commands; what Slack can't carry is left out", async () => {
    const buttons = [
      { label: "Stop", command: "/subagents stop 1", danger: true },
      { label: "L".repeat(100), command: "/subagents log 1" },
      { label: "Huge", command: `/x ${"y".repeat(3_000)}` },
    ];
    const parts = channel.render({ markdown: `${"a ".repeat(8_000)}`, buttons }, address);
    for (const [n, part] of parts.entries()) expect((await send(part, `d#${n}`)).status).toBe("sent");
    const seen = fake.messages(CHANNEL, address.thread);
    expect(seen.length).toBeGreaterThan(1);
    expect(seen.slice(0, -1).flatMap((message) => message.buttons)).toEqual([]);
    expect(seen.at(-1)?.buttons).toMatchObject([
      { label: "Stop", value: "/subagents stop 1", style: "danger" },
      { value: "/subagents log 1" },
    ]);
  });

  it("[DL2] the plain text beside the blocks stays within 4,000, however much there is to escape", () => {
    for (const markdown of ["&".repeat(9_000), "<".repeat(3_999), "😀".repeat(4_500)]) {
      const [part] = channel.render({ markdown }, address);
      expect((part as { text: string }).text.length).toBeLessThanOrEqual(4_000);
      expect((part as { text: string }).text.isWellFormed()).toBe(true);
    }
  });
});

describe("a person's id as the address", () => {
  const to = (): Address => ({ channel: "slack", account: channel.account, chat: "U0PERSON", kind: "dm" });
  const opened = (): number => fake.calls.filter(({ method }) => method === "conversations.open").length;

  it("[AP1] opens the direct chat and says where the message belongs; nothing is posted before that", async () => {
    const part = channel.render({ markdown: "for you" }, to())[0] as Part;
    const result = await send(part, "d#0", to());
    expect(result).toMatchObject({ status: "retarget", address: { ...to(), chat: "D0PERSON" } });
    expect([opened(), fake.messages("D0PERSON")]).toEqual([1, []]);
    expect(await send(part, "d#0", result.status === "retarget" ? result.address : to())).toMatchObject({ status: "sent" });
    expect(fake.messages("D0PERSON").map(({ text }) => text)).toEqual(["for you"]);
  });

  it.each<[Fault, object]>([
    ["drop", { status: "retry" }],
    ["drop_after", { status: "retry" }],
    ["500", { status: "retry" }],
    ["429", { status: "retry", afterMs: 1_000 }],
    [
      { error: "missing_scope", needed: "im:write" },
      { status: "retry", afterMs: 60_000, reason: expect.stringContaining("im:write") },
    ],
    [{ error: "cannot_dm_bot" }, { status: "failed", reason: "cannot_dm_bot" }],
    [{ error: "user_disabled" }, { status: "failed", reason: "user_disabled" }],
  ])("[AP1] POLI-006 it can't be opened, %j: nothing is in doubt, and what is final is said", async (kind, expected) => {
    fake.faults.add("conversations.open", kind);
    expect(await send(render("for you"), "d#0", to())).toMatchObject(expected);
    expect(fake.allMessages()).toEqual([]);
  });
});
