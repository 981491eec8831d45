// What Telegram shows of an answer that is being written: the real client against the fake.
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createTelegramChannel } from "../../../src/channels/telegram/channel.ts";
import type { Address } from "../../../src/core/address.ts";
import { systemClock } from "../../../src/core/clock.ts";
import { silentLogger } from "../../../src/core/logger.ts";
import type { Channel, DraftResult } from "../../../src/core/message.ts";
import { createFakeTelegram, type FakeTelegram, type Fault } from "../../support/fake-telegram.ts";

let fake: FakeTelegram;
let channel: Channel;
beforeEach(async () => {
  fake = await createFakeTelegram();
  for (const chat of [77, 78, -1001]) fake.chats.add(chat);
  const { token: botToken, apiRoot } = fake;
  channel = createTelegramChannel({ botToken, apiRoot, mode: "polling", clock: systemClock, log: silentLogger, timeoutMs: 3_000 });
});
afterEach(() => fake.close());

const dm: Address = { channel: "telegram", account: "7000001", chat: "77", kind: "dm" };
const show = (markdown: string, address = dm, id = 5): Promise<DraftResult | undefined> =>
  Promise.resolve(channel.drafts?.show({ address, id, key: `reply:${id}#0`, markdown, reader: null, ref: null }));
const say = (markdown: string, address = dm) =>
  channel.send({ address, part: channel.render({ markdown }, address)[0] ?? {}, key: "reply:5#0", repeated: false });

describe("a draft", () => {
  it("[LV6] grows under one id, formatted, with Telegram's own Stop, and leaves no place behind it", async () => {
    expect(await show("Some **bold")).toEqual({ status: "shown", againMs: 1_050 });
    await show("Some **bold** words, <@U1> and /stop");
    expect(fake.drafts.map(({ id, text, canStop }) => ({ id, text, canStop }))).toEqual([
      { id: 5, text: "Some **bold", canStop: true },
      { id: 5, text: "Some bold words, <@U1> and /stop", canStop: true },
    ]);
    const [, second] = fake.calls.filter(({ method }) => method === "sendMessageDraft");
    expect(second?.payload.entities).toContainEqual({ type: "bold", offset: 5, length: 4 });
    expect(channel.drafts?.stands).toBeUndefined();
    await say("Some **bold** words.");
    expect(fake.draft(77)).toBeNull();
  });

  it("[LV6] only in private chats, their topics among them", async () => {
    expect(channel.drafts?.fits(dm)).toBe(true);
    expect(channel.drafts?.fits({ ...dm, thread: "9" })).toBe(true);
    const group: Address = { ...dm, chat: "-1001", kind: "group" };
    expect(channel.drafts?.fits(group)).toBe(false);
    expect(await show("text", group)).toEqual({ status: "refused", reason: expect.stringContaining("TEXTDRAFT_PEER_INVALID") });
    fake.chats.addTopic(77, 9);
    await show("text", { ...dm, thread: "9" });
    expect(fake.drafts.at(-1)?.thread).toBe(9);
  });

  it("[LV6] of an answer longer than a message its end, which is what is being written", async () => {
    const paragraph = (n: number): string => `Paragraph ${n}: ${"some words ".repeat(40)}`;
    for (const count of [12, 400]) {
      await show(Array.from({ length: count }, (_, n) => paragraph(n)).join("\n\n"));
      expect(fake.drafts.at(-1)?.text).toContain(`Paragraph ${count - 1}:`);
      expect(fake.drafts.at(-1)?.text.length).toBeLessThanOrEqual(4_096);
    }
  });

  it.each<[string, Fault, object, object]>([
    ["429", "429", { retryAfter: 40 }, { status: "retry", afterMs: 40_000 }],
    ["a server error", "500", {}, { status: "retry", afterMs: 5_000 }],
    ["a lost answer", "drop_after", {}, { status: "retry", afterMs: 5_000 }],
    ["a refusal", { code: 400, description: "Bad Request: DRAFTS_OFF" }, {}, { status: "refused" }],
    ["a wrong token", "401", {}, { status: "refused" }],
  ])("[LV2] %s is no reason to wait for anybody but the next draft", async (_name, fault, options, expected) => {
    fake.faults.add("sendMessageDraft", fault, options);
    expect(await show("text")).toMatchObject(expected);
    expect(await say("the answer")).toMatchObject({ status: "sent" });
  });

  it("[LV6] the message comes behind a draft that is on its way, not before it; one that hangs holds it up for a moment only", async () => {
    fake.faults.add("sendMessageDraft", "slow", { delayMs: 200 });
    const shown = show("half of");
    await fake.until(() => fake.calls.some(({ method }) => method === "sendMessageDraft"), "the draft's call");
    await say("half of it, and the rest");
    await shown;
    expect(fake.draft(77)).toBeNull();
    fake.faults.add("sendMessageDraft", "hang");
    const hanging = show("half of");
    // Other chats' are not held up at all: the quickest of some, on a machine that may be busy.
    const took: number[] = [];
    for (const chat of ["78", "79", "80", "81"]) {
      const startedAt = performance.now();
      await say("another chat's", { ...dm, chat });
      took.push(performance.now() - startedAt);
    }
    expect(Math.min(...took)).toBeLessThan(500);
    await hanging;
    fake.faults.add("sendMessageDraft", "hang");
    let isOver = false;
    const again = show("half of").then(() => {
      isOver = true;
    });
    await fake.until(() => fake.calls.filter(({ method }) => method === "sendMessageDraft").length === 3, "the next draft's call");
    expect(await say("whole")).toMatchObject({ status: "sent" });
    expect(isOver).toBe(false);
    await again;
  });

  it("[LV2] thirty chats at a time take no more than ten drafts a second of Telegram's thirty calls", async () => {
    for (let chat = 100; chat < 130; chat++) fake.chats.add(chat);
    const results: (DraftResult | undefined)[] = [];
    for (let chat = 100; chat < 130; chat++) results.push(await show("text", { ...dm, chat: String(chat) }));
    expect(results.at(0)).toEqual({ status: "shown", againMs: 1_050 });
    expect(results.at(-1)).toEqual({ status: "shown", againMs: 3_000 });
  });
});
