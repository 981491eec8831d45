import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createTelegramChannel, type TelegramOptions } from "../../../src/channels/telegram/channel.ts";
import type { Address } from "../../../src/core/address.ts";
import { systemClock } from "../../../src/core/clock.ts";
import { silentLogger } from "../../../src/core/logger.ts";
import type { OutMessage, SendRequest } from "../../../src/core/message.ts";
import { deliver } from "../../contract/channel.contract.ts";
import { createFakeTelegram, type FakeTelegram } from "../../support/fake-telegram.ts";

const GROUP = -1001234567890;
let fake: FakeTelegram;
beforeEach(async () => {
  fake = await createFakeTelegram();
  fake.chats.add(77);
  fake.chats.add(GROUP, { forum: true });
  fake.chats.addTopic(GROUP, 42);
});
afterEach(() => fake.close());

const channelWith = (options: Partial<TelegramOptions> = {}) =>
  createTelegramChannel({
    botToken: fake.token,
    apiRoot: fake.apiRoot,
    mode: "polling",
    clock: systemClock,
    log: silentLogger,
    timeoutMs: 3_000,
    ...options,
  });
const dm: Address = { channel: "telegram", account: "7000001", chat: "77", kind: "dm" };
const topic: Address = { channel: "telegram", account: "7000001", chat: String(GROUP), kind: "group", thread: "42" };

function send(message: OutMessage, address: Address, request: Partial<SendRequest> = {}, channel = channelWith()) {
  const [part] = channel.render(message, address);
  return channel.send({ address, part: part!, key: "reply:1#0", repeated: false, ...request });
}

describe("sending", () => {
  it("[CH2] a large file has the time its bytes need on a slow line, a message has not", async () => {
    const channel = channelWith({ timeoutMs: 200, readFile: async () => Buffer.alloc(100_000) });
    const file = { id: "f1", name: "a.bin", type: "application/octet-stream", size: 100_000 };
    fake.faults.add("sendDocument", "slow", { delayMs: 600 });
    expect(await send({ markdown: "look", file }, dm, {}, channel)).toMatchObject({ status: "sent" });
    fake.faults.add("sendMessage", "slow", { delayMs: 600 });
    expect(await send({ markdown: "look" }, dm, {}, channel)).toMatchObject({ status: "unknown" });
  });

  it("[AN3] posts into the topic, with formatting, reply mark, silence and buttons in place", async () => {
    const question = fake.say({ chat: GROUP, thread: 42, text: "q" });
    const buttons = [
      { label: "Stop", command: "/subagents stop 0f0f0f0f-aaaa-bbbb-cccc-121212121212", danger: true },
      { label: "Too long", command: `/subagents send ${"x".repeat(64)}` },
    ];
    const result = await send({ markdown: "**started**", buttons, quiet: true, replyTo: String(question) }, topic);
    const [seen] = fake.messages(GROUP, 42);
    expect(result).toEqual({ status: "sent", ref: String(seen?.id) });
    expect(seen).toMatchObject({ text: "started", quiet: true, replyTo: question, entities: [{ type: "bold", offset: 0, length: 7 }] });
    expect(seen?.buttons).toEqual([{ text: "Stop", data: buttons[0]?.command }]);
    expect(fake.messages(GROUP, null)).toEqual([]);
  });

  it("[DL2] of several parts the first carries the reply mark and the last the buttons", () => {
    const markdown = ["a", "b", "c"].map((letter) => letter.repeat(3_000)).join("\n\n");
    const parts = channelWith().render({ markdown, replyTo: "5", buttons: [{ label: "Log", command: "/subagents log 1" }] }, topic);
    expect(parts.map((part) => Object.keys(part).sort())).toEqual([
      ["reply_parameters", "text", "topic"],
      ["text", "topic"],
      ["reply_markup", "text", "topic"],
    ]);
    expect(JSON.parse(JSON.stringify(parts))).toEqual(parts);
  });

  it("[DL3] an answer to a deleted question still arrives", async () => {
    expect(await send({ markdown: "x", replyTo: "999999" }, dm)).toMatchObject({ status: "sent" });
  });

  it("[DL4] says in front when it may be a repetition, with the formatting still in place", async () => {
    await send({ markdown: "a `b`" }, dm, { repeated: true });
    const [seen] = fake.messages(77);
    expect(seen?.text).toBe("(may be repeated)\n\na b");
    expect(seen?.text.slice(seen.entities[0]?.offset)).toBe("b");
  });

  it("[DL3] permanent refusals fail at once with the reason", async () => {
    fake.chats.block(77);
    expect(await send({ markdown: "x" }, dm)).toEqual({ status: "failed", reason: "403 Forbidden: bot was blocked by the user" });
    fake.chats.block(GROUP, "kicked");
    expect(await send({ markdown: "x" }, topic)).toMatchObject({ status: "failed" });
    expect(await send({ markdown: "x" }, { ...dm, chat: "31337" })).toEqual({
      status: "failed",
      reason: "400 Bad Request: chat not found",
    });
  });

  it("[DL3] a flood wait is a retry after exactly that time", async () => {
    fake.faults.add("sendMessage", "429", { retryAfter: 7 });
    expect(await send({ markdown: "x" }, dm)).toMatchObject({ status: "retry", afterMs: 7_000 });
  });

  it("[DL4] only what surely was not executed is a plain retry", async () => {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    await new Promise((resolve) => server.close(resolve));
    expect(await send({ markdown: "x" }, dm, {}, channelWith({ apiRoot: `http://127.0.0.1:${port}` }))).toMatchObject({ status: "retry" });
    expect(await send({ markdown: "x" }, dm, {}, channelWith({ apiRoot: "http://no-such-host.invalid" }))).toMatchObject({
      status: "retry",
    });
    for (const fault of ["500", "html", "drop", "500_after", "drop_after", "truncate_after"] as const) {
      fake.faults.add("sendMessage", fault);
      expect(await send({ markdown: fault }, dm)).toMatchObject({ status: "unknown" });
    }
    fake.faults.add("sendMessage", "hang_after");
    expect(await send({ markdown: "x" }, dm, {}, channelWith({ timeoutMs: 150 }))).toEqual({
      status: "unknown",
      reason: "no answer in time",
    });
  });

  it("[DL3] TG-014 a group that became a supergroup is followed", async () => {
    fake.chats.migrate(-55, -10055);
    const old: Address = { ...dm, chat: "-55", kind: "group" };
    const result = await send({ markdown: "x" }, old);
    expect(result).toMatchObject({ status: "retarget", address: { ...old, chat: "-10055" } });
  });

  it("[AN3] a deleted topic: the chat gets the text only with a line that says so", async () => {
    const channel = channelWith();
    const [part] = channel.render({ markdown: "result" }, topic);
    fake.chats.deleteTopic(GROUP, 42);
    const result = await channel.send({ address: topic, part: part!, key: "k#0", repeated: false });
    const { thread: _gone, ...chat } = topic;
    expect(result).toMatchObject({ status: "retarget", address: chat });
    await channel.send({ address: chat, part: part!, key: "k#0", repeated: false });
    expect(fake.messages(GROUP, null).map((seen) => seen.text)).toEqual(["(the topic this belongs to is gone)\n\nresult"]);
    fake.chats.addTopic(GROUP, 43);
    fake.chats.closeTopic(GROUP, 43);
    expect(await send({ markdown: "x" }, { ...topic, thread: "43" })).toMatchObject({ status: "failed" });
  });

  it("[DL2] formatting or buttons that are refused are left out in a plainer part", async () => {
    fake.faults.add("sendMessage", { code: 400, description: "Bad Request: can't parse entities: whatever" });
    const plain = await send({ markdown: "**x**", buttons: [{ label: "a", command: "/stop" }] }, dm);
    expect(plain).toMatchObject({ status: "rerender", part: { text: "x", reply_markup: expect.anything() } });
    expect(plain.status === "rerender" && plain.part).not.toHaveProperty("entities");
    fake.faults.add("sendMessage", { code: 400, description: "Bad Request: BUTTON_DATA_INVALID" });
    expect(await send({ markdown: "**x**", buttons: [{ label: "a", command: "/stop" }] }, dm)).toMatchObject({
      status: "rerender",
      part: { entities: expect.anything() },
    });
  });

  it("[SC4] a revoked token is a retry whose reason names the setting and never the token", async () => {
    fake.revoke();
    const result = await send({ markdown: "x" }, dm);
    expect(result).toMatchObject({ status: "retry", reason: "auth failed: check channels.telegram.botToken" });
    expect(JSON.stringify(result)).not.toContain(fake.token);
  });

  it("[CF1] TG-001 refuses a token or webhook settings that can't work, without printing the token", () => {
    expect(() => channelWith({ botToken: "not a token" })).toThrow(/channels\.telegram\.botToken/);
    expect(() => channelWith({ botToken: "not a token" })).not.toThrow(/not a token \w/);
    expect(() => channelWith({ mode: "webhook" })).toThrow(/webhook\.url/);
    expect(() => channelWith({ mode: "webhook", webhook: { url: "https://a.example/", port: 1 } })).toThrow(/webhook\.secret/);
    expect(() => channelWith({ mode: "webhook", webhook: { url: "https://a.example/", port: 1, secret: "" } })).toThrow(/webhook\.secret/);
  });
});

describe("announcing into a reserved place", () => {
  const request = { key: "k#0" };
  const announcement = (markdown: string): OutMessage => ({ markdown, kind: "announcement" });

  it("[DL4] posts a status line, then edits the result into it; a lost edit is made again and shows once", async () => {
    const channel = channelWith({ announce: "reserved" });
    const reserved = await send(announcement("**result**"), topic, request, channel);
    const [line] = fake.messages(GROUP, 42);
    expect(reserved).toEqual({ status: "reserved", ref: `${GROUP}#${line?.id}` });
    const ref = `${GROUP}#${line?.id}`;
    expect(line?.text).not.toContain("result\n");
    fake.faults.add("editMessageText", "drop_after");
    const lost = await send(announcement("**result**"), topic, { ...request, ref }, channel);
    expect(lost).toMatchObject({ status: "retry" });
    const sent = await send(announcement("**result**"), topic, { ...request, ref, repeated: true }, channel);
    expect(sent).toEqual({ status: "sent", ref: String(line?.id) });
    expect(fake.messages(GROUP).map((seen) => seen.text)).toEqual(["result"]);
  });

  it("[DL4] killed while reserving: at worst a status line stands alone", async () => {
    const channel = channelWith({ announce: "reserved" });
    fake.faults.add("sendMessage", "drop_after");
    expect(await send(announcement("result"), dm, request, channel)).toMatchObject({ status: "unknown" });
    const again = await send(announcement("result"), dm, { ...request, repeated: true }, channel);
    expect(again.status).toBe("reserved");
    if (again.status === "reserved") await send(announcement("result"), dm, { ...request, ref: again.ref, repeated: true }, channel);
    expect(fake.messages(77).filter((seen) => seen.text === "result")).toHaveLength(1);
    expect(fake.messages(77)).toHaveLength(2);
  });

  it("[DL4] a place in a group that moved is not looked for in the new one, where its id is another message", async () => {
    const channel = channelWith({ announce: "reserved" });
    const old: Address = { ...dm, chat: "-55", kind: "group" };
    fake.chats.add(-55);
    const reserved = await send(announcement("result"), old, request, channel);
    fake.chats.migrate(-55, -10055);
    const ref = reserved.status === "reserved" ? reserved.ref : "";
    const moved = await send(announcement("result"), old, { ...request, ref }, channel);
    expect(moved).toMatchObject({ status: "retarget", address: { chat: "-10055" } });
    const again = await send(announcement("result"), { ...old, chat: "-10055" }, { ...request, ref }, channel);
    expect(again).toMatchObject({ status: "reserved" });
  });

  it("[DL4] a part stored before parts said what they are still fills the place made for it, and is posted where there is none", async () => {
    const channel = channelWith({ announce: "reserved" });
    const reserved = await send(announcement("result"), dm, request, channel);
    if (reserved.status !== "reserved") throw new Error("not reserved");
    for (const ref of [{ ref: reserved.ref }, {}]) {
      expect(await send({ markdown: "result" }, dm, { ...request, ...ref }, channel)).toMatchObject({ status: "sent" });
    }
    expect(fake.messages(77).map((seen) => seen.text)).toEqual(["result", "result"]);
  });

  it("[DL4] a status line that was deleted is replaced by the result; replies are never reserved", async () => {
    const channel = channelWith({ announce: "reserved" });
    const reserved = await send(announcement("result"), dm, request, channel);
    if (reserved.status !== "reserved") throw new Error("not reserved");
    fake.chats.deleteMessage(77, Number(reserved.ref.split("#")[1]));
    expect(await send(announcement("result"), dm, { ...request, ref: reserved.ref }, channel)).toMatchObject({ status: "sent" });
    expect(await send({ markdown: "reply" }, dm, {}, channel)).toMatchObject({ status: "sent" });
    expect(fake.messages(77).map((seen) => seen.text)).toEqual(["result", "reply"]);
  });
});

describe("a file", () => {
  const result: OutMessage = { markdown: "all of it\n".repeat(5_000), kind: "announcement", fileName: "report.md" };
  const files = () => fake.messages(GROUP, 42).flatMap(({ file, text }) => (file === null ? [] : [text]));

  it.each(["429", "500", "html", "drop"] as const)("[AN10][DL4] %s before it is taken: it comes once", async (fault) => {
    fake.faults.add("sendDocument", fault);
    await deliver(channelWith(), result, topic, "announce:1");
    // Nobody can tell a lost request from a lost answer.
    expect(files()).toEqual([fault === "429" ? "The whole text" : "(may be repeated)\n\nThe whole text"]);
  });

  it.each(["500_after", "drop_after", "truncate_after"] as const)("[AN10][DL4] %s: the second one says what it is", async (fault) => {
    fake.faults.add("sendDocument", fault);
    await deliver(channelWith(), result, topic, "announce:1");
    expect(files()).toEqual(["The whole text", "(may be repeated)\n\nThe whole text"]);
  });

  it.each(["500_after", "drop_after"] as const)("[AN10][DL4] in a reserved place it appears once, also after %s", async (fault) => {
    fake.faults.add("editMessageMedia", fault);
    await deliver(channelWith({ announce: "reserved" }), result, topic, "announce:1");
    expect(files()).toEqual(["The whole text"]);
    expect(fake.messages(GROUP, 42)).toHaveLength(2);
  });

  it("[AN10][AN3] a file whose topic is gone says so, too", async () => {
    const channel = channelWith();
    const parts = channel.render(result, topic);
    const { thread: _gone, ...chat } = topic;
    await channel.send({ address: chat, part: parts.at(-1)!, key: "k#1", repeated: false });
    expect(fake.messages(GROUP, null).at(-1)).toMatchObject({
      text: "(the topic this belongs to is gone)\n\nThe whole text",
      file: { name: "report.md", content: `${result.markdown}\n` },
    });
  });

  it("[RN4] an upload that hangs is given up when the gateway ends", async () => {
    const channel = channelWith();
    fake.faults.add("sendDocument", "hang");
    const sending = channel.send({ address: topic, part: channel.render(result, topic).at(-1)!, key: "k#1", repeated: false });
    await fake.until(() => fake.calls.some(({ method }) => method === "sendDocument"), "the upload");
    channel.hangUp?.();
    expect(await sending).toMatchObject({ status: "unknown" });
  });
});
