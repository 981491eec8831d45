// One attempt to send, and what its outcome means: limits, lost answers, places that are closed; answers to commands; drafts.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { draftBegun, type SendResult } from "../../../src/core/message.ts";
import { createDiscordRig, type DiscordRig } from "../../support/discord-rig.ts";
import { DIRECT, PERSON, ROOM } from "../../support/fake-discord.ts";

let rig: DiscordRig;
beforeAll(async () => {
  rig = await createDiscordRig();
});
afterAll(async () => rig[Symbol.asyncDispose]());

let count = 0;
const send = (text: string, more: object = {}, address = rig.room): Promise<SendResult> =>
  rig.channel.send({ ...rig.request({ markdown: text }, address, `reply:${++count}#0`), ...more });
const refuse = (code: number, status = 403, message = "no"): void => rig.fake.faults.add("createMessage", { status, code, message });

describe("sending", () => {
  it("[DL4] the same key is the same nonce of at most 25 characters, enforced; nobody is called; no previews", async () => {
    await send("hello @everyone <@42>", { key: "announce:v1:a-very-long-key#0" });
    await send("hello @everyone <@42>", { key: "announce:v1:a-very-long-key#0" });
    expect(rig.fake.messages(ROOM)).toHaveLength(1);
    const body = rig.fake.calls.findLast(({ method }) => method === "createMessage")?.body ?? {};
    expect(body).toMatchObject({ enforce_nonce: true, flags: 4, allowed_mentions: { parse: [], replied_user: false } });
    expect(String(body.nonce).length).toBeLessThanOrEqual(25);
    expect(rig.fake.messages(ROOM)[0]?.pinged).toBe(false);
  });

  it("[DL4] begun anew within minutes, an installation counts its answers from one again: none is taken for one of before", async () => {
    const before = rig.fake.messages(ROOM).length;
    for (const replyTo of ["901", "902", "902"])
      await rig.channel.send({ ...rig.request({ markdown: "the same words", replyTo }, rig.room, "reply:1#0") });
    expect(rig.fake.messages(ROOM)).toHaveLength(before + 2);
  });

  it("[DL3] a limit says when, a server error leaves it open, a refusal is final, a wrong token waits for the operator", async () => {
    rig.fake.faults.add("createMessage", "429", { retryAfter: 2 });
    expect(await send("a")).toMatchObject({ status: "retry", afterMs: expect.closeTo(2_050, -2) });
    await rig.fake.until(() => true);
    for (const [code, status] of [
      [50_001, 403],
      [50_013, 403],
      [50_007, 403],
    ] as const) {
      refuse(code, status);
      expect(await send("b", {}, { ...rig.room, chat: DIRECT }), String(code)).toMatchObject({
        status: "failed",
        reason: expect.stringContaining(String(code)),
      });
    }
    rig.fake.faults.add("createMessage", "500");
    expect(await send("c", {}, rig.direct)).toMatchObject({ status: "unknown" });
    rig.fake.faults.add("createMessage", { status: 401, code: 0, message: "401: Unauthorized" });
    expect(await send("d", {}, rig.direct)).toMatchObject({
      status: "retry",
      afterMs: 60_000,
      reason: expect.stringContaining("channels.discord.botToken"),
    });
    expect(await send("e", {}, rig.direct), "the token is still there").toMatchObject({ status: "sent" });
  });

  it("[DL6] one that hangs holds up nobody else in its channel", async () => {
    await using own = await createDiscordRig();
    const post = (text: string) => own.channel.send(own.request({ markdown: text }, own.room, `${text}#0`));
    own.fake.faults.add("createMessage", "hang");
    const hanging = post("an announcement");
    await own.fake.until(() => own.fake.calls.some(({ method }) => method === "createMessage"), "the announcement");
    expect(await Promise.race([hanging, post("the answer to /stop")])).toMatchObject({ status: "sent" });
    own.channel.hangUp?.();
    expect(await hanging).toMatchObject({ status: "unknown" });
  });

  it("[CH2] a large file has the time its bytes need on a slow line, a message has not", async () => {
    await using own = await createDiscordRig({ timeoutMs: 200, readFile: async () => Buffer.alloc(100_000) });
    const file = { id: "f1", name: "a.bin", type: "application/octet-stream", size: 100_000 };
    own.fake.faults.add("createMessage", "slow", { delayMs: 600, times: 2 });
    expect(await own.channel.send(own.request({ markdown: "look", file }, own.room, "file:1#0"))).toMatchObject({ status: "sent" });
    expect(await own.channel.send(own.request({ markdown: "look" }, own.room, "reply:1#0"))).toMatchObject({ status: "unknown" });
  });

  it("[AN3] a thread that is gone: into its channel, saying so; a closed one too", async () => {
    const thread = { ...rig.room, thread: "777" };
    const result = await send("for the thread", {}, thread);
    expect(result).toMatchObject({ status: "retarget", address: rig.room });
    const { part } = rig.request({ markdown: "for the thread" }, thread);
    await rig.channel.send({ address: rig.room, part, key: "moved#0", repeated: false });
    expect(rig.fake.messages(ROOM).at(-1)?.content).toBe("(the thread this belongs to is gone)\n\nfor the thread");
    refuse(160_005);
    expect(await send("x", {}, { ...rig.room, thread: DIRECT })).toMatchObject({ status: "retarget" });
  });

  it("[AP1] a person's id stands for the direct chat with them, which is opened", async () => {
    expect(await send("hello", {}, { ...rig.direct, chat: PERSON })).toMatchObject({
      status: "retarget",
      address: { chat: DIRECT, kind: "dm" },
    });
    expect(await send("hello", {}, { ...rig.direct, chat: "123" })).toMatchObject({
      status: "failed",
      reason: expect.stringContaining("Unknown Channel"),
    });
  });

  it("[DL2] what is refused in a message goes, the words stay", async () => {
    const { part } = rig.request({ markdown: "hi", replyTo: "900", buttons: [{ label: "x", command: "/stop" }] }, rig.direct);
    const once = (): Promise<SendResult> => rig.channel.send({ address: rig.direct, part, key: `plain:${++count}#0`, repeated: false });
    refuse(160_002);
    expect(await once()).toMatchObject({ status: "rerender", part: { content: "hi", components: expect.anything() } });
    refuse(50_035, 400, "Invalid Form Body\ncomponents[0]: wrong");
    const plain = await once();
    expect(plain.status === "rerender" && plain.part.components).toBeUndefined();
    // As Discord says it, and as whoever stands in front of it does.
    for (const code of [40_005, undefined as never]) {
      refuse(code, 413, "Request entity too large");
      const file = { content: "", file: { name: "a.md", content: "x" } };
      expect(await rig.channel.send({ address: rig.direct, part: file, key: "f#0", repeated: false })).toMatchObject({
        status: "rerender",
        part: { content: expect.stringContaining("could not be sent as a file") },
      });
    }
  });

  it("[LV3] an edit: shown, gone with its message, waiting at a limit", async () => {
    const sent = await send("first", {}, rig.direct);
    const ref = sent.status === "sent" ? sent.ref : "";
    const edit = () => rig.channel.edit?.({ address: rig.direct, ref, part: { content: "second @here" } });
    expect(await edit()).toEqual({ status: "shown" });
    expect(rig.fake.messages(DIRECT).at(-1)).toMatchObject({ content: "second @here", pinged: false });
    rig.fake.faults.add("editMessage", "drop_after");
    expect(await edit()).toMatchObject({ status: "retry" });
    rig.fake.deleteMessage(DIRECT, ref);
    expect(await edit()).toMatchObject({ status: "gone" });
  });
});

describe("answers that grow", () => {
  const draft = (key: string, markdown: string, ref: string | null = null) =>
    rig.channel.drafts?.show({ address: rig.direct, id: 1, key, markdown, reader: null, ref }) ?? Promise.reject(new Error("no drafts"));
  const texts = () => rig.fake.messages(DIRECT).map(({ content }) => content);

  it("[LV6] the answer takes the place of its draft, also after one that died before it could say where that stands", async () => {
    const shown = await draft("reply:a#0", "half an");
    expect(shown).toMatchObject({ status: "shown", ref: expect.any(String) });
    expect(texts().at(-1)).toBe("half an\n-# ✍️ writing…");
    // Another process: all it has is when it was begun.
    const other = rig.again();
    const request = { ...rig.request({ markdown: "half an answer, whole" }, rig.direct, "reply:a#0"), ref: draftBegun(Date.now()) };
    const before = texts().length;
    expect(await other.send(request)).toMatchObject({ status: "sent" });
    expect(texts()).toHaveLength(before);
    expect(texts().at(-1)).toBe("half an answer, whole");
    // And a third one, which does not know whether that was done: the channel does.
    const third = rig.again();
    expect(await third.reconcile?.({ ...request, since: Date.now() })).toMatchObject({ status: "found" });
  });

  it("[LV6][AN3] in a thread that was put away meanwhile the answer is written there, and nowhere else", async () => {
    const thread = { ...rig.room, thread: rig.fake.channels.thread(ROOM) };
    const inRoom = rig.fake.messages(ROOM).length;
    const shown = await rig.channel.drafts?.show({ address: thread, id: 2, key: "reply:t#0", markdown: "half", reader: null, ref: null });
    const ref = shown?.status === "shown" ? (shown.ref ?? "") : "";
    rig.fake.channels.archive(thread.thread);
    const whole = { ...rig.request({ markdown: "half and the rest" }, thread, "reply:t#0"), ref };
    expect(await rig.channel.send(whole)).toMatchObject({ status: "retry" });
    expect(await rig.channel.send(whole)).toMatchObject({ status: "sent", ref });
    rig.fake.channels.archive(thread.thread, true);
    expect(await rig.channel.send(whole), "locked, nobody opens it again").toMatchObject({ status: "retarget", address: rig.room });
    expect(rig.fake.messages(thread.thread).map(({ content }) => content)).toEqual(["half and the rest"]);
    expect(rig.fake.messages(ROOM)).toHaveLength(inRoom);
  });

  it("[LV6] a draft that somebody removed is a message after all; one nobody goes on with can be taken away", async () => {
    const shown = await draft("reply:b#0", "to be removed");
    const ref = shown.status === "shown" ? (shown.ref ?? "") : "";
    rig.fake.deleteMessage(DIRECT, ref);
    expect(await rig.channel.send({ ...rig.request({ markdown: "whole" }, rig.direct, "reply:b#0"), ref })).toMatchObject({
      status: "sent",
    });
    expect(texts().at(-1)).toBe("whole");
    const second = await draft("reply:c#0", "to be taken away");
    const place = second.status === "shown" ? (second.ref ?? "") : "";
    expect(await rig.channel.drafts?.remove?.({ address: rig.direct, key: "reply:c#0", ref: place })).toBe(true);
    expect(texts()).not.toContain("to be taken away\n-# ✍️ writing…");
  });
});

describe("answers to commands", () => {
  it("[CM9] an answer that comes while its place is being taken away is not taken along", async () => {
    await using own = await createDiscordRig();
    await own.connect();
    own.fake.faults.add("deleteReply", "slow", { delayMs: 300 });
    expect(await own.fake.slash({ channel: ROOM, name: "status" })).toBe(true);
    await own.fake.until(() => own.fake.calls.some(({ method }) => method === "deleteReply"), "the end of patience");
    const request = own.request({ markdown: "fine after all", onlyTo: own.decoded()[0]?.onlyTo ?? {} }, own.room);
    expect(await own.channel.send(request)).toMatchObject({ status: "sent" });
    await own.fake.until(() => own.fake.calls.every(({ method, executed }) => method !== "deleteReply" || executed), "the taking away");
    expect(own.fake.whispers(ROOM).map(({ content }) => content)).toEqual(["fine after all"]);
  });

  it("[CM1] too late for its token, the answer is a message; written twice, it shows once", async () => {
    await using own = await createDiscordRig();
    await own.connect();
    expect(await own.fake.slash({ channel: ROOM, name: "status" })).toBe(true);
    const [inbound] = own.decoded();
    const request = own.request({ markdown: "fine", onlyTo: inbound?.onlyTo ?? {} }, own.room);
    own.fake.faults.add("editReply", "drop_after");
    expect(await own.channel.send(request)).toMatchObject({ status: "retry" });
    expect(await own.channel.send(request)).toMatchObject({ status: "sent" });
    expect(own.fake.whispers(ROOM).map(({ content }) => content)).toEqual(["fine"]);
    const late = own.request({ markdown: "late", onlyTo: { ...inbound?.onlyTo, token: "forgotten" } }, own.room);
    const result = await own.channel.send(late);
    expect(result).toMatchObject({ status: "rerender", part: { content: "late" } });
    expect(result.status === "rerender" && result.part.onlyTo).toBeUndefined();
  });
});
