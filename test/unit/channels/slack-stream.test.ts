// What Slack shows of an answer that is being written, and how that becomes the answer: the real client against the fake.
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createSlackChannel } from "../../../src/channels/slack/channel.ts";
import type { Address } from "../../../src/core/address.ts";
import { type Clock, systemClock } from "../../../src/core/clock.ts";
import { silentLogger } from "../../../src/core/logger.ts";
import { type Channel, type DraftResult, draftBegun, type OutMessage, type SendResult } from "../../../src/core/message.ts";
import { createFakeSlack, type FakeSlack, type Fault } from "../../support/fake-slack.ts";
import type { SeenMessage } from "../../support/fake-slack-state.ts";
import { createMemoryAccounts } from "../../support/memory-accounts.ts";

const ROOM = "C0GENERAL";
const KEY = "reply:5#0";
let fake: FakeSlack;
let channel: Channel;
let address: Address;
/** Moved by hand; only stamps are read from it here. */
let shiftMs: number;
const clock: Clock = { now: () => Date.now() + shiftMs, sleep: systemClock.sleep };

async function makeChannel(account = fake.teamId): Promise<Channel> {
  const accounts = createMemoryAccounts();
  await accounts.adopt(account, []);
  const { botToken, appToken, apiUrl } = fake;
  return createSlackChannel({
    accounts,
    botToken,
    appToken,
    apiUrl,
    mode: "socket",
    clock,
    log: silentLogger,
    timeoutMs: 3_000,
    settleMs: 12_000,
  });
}

beforeEach(async () => {
  shiftMs = 0;
  fake = await createFakeSlack();
  channel = await makeChannel();
  const root = fake.say({ channel: ROOM, text: "root" });
  address = { channel: "slack", account: channel.account, chat: ROOM, kind: "channel", thread: root };
});
afterEach(() => fake.close());

let ref: string | null = null;
beforeEach(() => {
  ref = null;
});
/** As the gateway does: it knows where the draft stands once it was told. */
async function show(markdown: string, more: { key?: string; reader?: string | null; to?: Address } = {}): Promise<DraftResult> {
  const { key = KEY, reader = "U0PERSON", to = address } = more;
  const drafts = channel.drafts;
  if (drafts === undefined) throw new Error("Slack streams");
  const result = await drafts.show({ address: to, id: 5, key, markdown, reader, ref });
  if (result.status === "shown") ref = result.ref ?? null;
  return result;
}
const send = (message: OutMessage, place = ref): Promise<SendResult> =>
  channel.send({
    address,
    part: channel.render(message, address)[0] ?? {},
    key: KEY,
    repeated: false,
    ...(place === null ? {} : { ref: place }),
  });
const inThread = (): SeenMessage[] => fake.messages(ROOM, address.thread);
const calls = (method: string) => fake.calls.filter((call) => call.method === method);
const whole = { event_type: "herald_part", event_payload: { key: KEY } };

describe("a stream", () => {
  it("[LV6] begins for who asked, takes only what is new, and its end makes it the answer, buttons and all", async () => {
    expect(await show("Some **bold")).toEqual({ status: "shown", ref: inThread()[0]?.ts, againMs: 1_000 });
    await show("Some **bold** words");
    await show("Some **bold** words");
    expect(calls("chat.startStream")[0]?.args).toMatchObject({ recipient_user_id: "U0PERSON", recipient_team_id: fake.teamId });
    expect(calls("chat.appendStream").map(({ args }) => args.markdown_text)).toEqual(["** words"]);
    const buttons = [{ label: "Stop sub-agents too", command: "/stop", danger: true }];
    expect(await send({ markdown: "Some **bold** words, and the rest.", buttons })).toEqual({ status: "sent", ref: inThread()[0]?.ts });
    expect(inThread()).toMatchObject([
      { text: "Some **bold** words, and the rest.", streaming: "completed", edits: 0, metadata: whole, buttons: [{ value: "/stop" }] },
    ]);
    expect(calls("chat.postMessage")).toEqual([]);
  });

  it("[LV6] nothing comes alive in it: no mention, no line that turns into a table behind it", async () => {
    for (const text of ["Call <", "Call <@U0BOSS> and `<", "Call <@U0BOSS> and `<!here>`", "Call <@U0BOSS> and `<!here>`\n\n| a | b |\n"])
      await show(text);
    const table = "Call <@U0BOSS> and `<!here>`\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nDone.";
    await show(table);
    expect(await send({ markdown: table })).toMatchObject({ status: "sent" });
    const [message] = inThread();
    expect(message).toMatchObject({ calls: false, metadata: whole, streaming: "completed" });
    expect(message?.text).toContain("&lt;@U0BOSS> and `<!here>`\n\n```\n");
    expect(message?.text).toMatch(/```\n\nDone\.$/);
  });

  it("[LV6] when the answer begins anew the stream is ended and the same message edited, at the pace of edits", async () => {
    await show("Let me look.");
    expect(await show("It is")).toMatchObject({ status: "shown", againMs: 3_000 });
    await show("It is there");
    expect(await send({ markdown: "It is there." })).toMatchObject({ status: "sent" });
    expect(inThread()).toMatchObject([
      { text: "It is there.", metadata: whole, versions: ["Let me look.", "It is", "It is there", "It is there."] },
    ]);
    expect(calls("chat.appendStream")).toEqual([]);
  });

  it("[LV6] before Slack ends it for its age, it is ended; and one that Slack has ended is edited on", async () => {
    await show("One");
    shiftMs = 4 * 60_000 + 1;
    await show("One, two");
    expect(inThread()).toMatchObject([{ streaming: "completed", text: "One, two", edits: 1 }]);
    shiftMs = 0;
    ref = null;
    await show("Other", { key: "reply:6#0" });
    fake.expireStreams();
    expect(await show("Other words", { key: "reply:6#0" })).toMatchObject({ status: "retry" });
    await show("Other words", { key: "reply:6#0" });
    expect(inThread()[1]).toMatchObject({ text: "Other words", streaming: "errored" });
  });

  it("[LV6] after a piece whose fate nobody knows, the whole is written: nothing missing, nothing twice", async () => {
    for (const fault of ["drop", "drop_after", "500_after"] as const) {
      fake.faults.add("chat.appendStream", fault);
      const key = `reply:${fault}#0`;
      ref = null;
      await show("One", { key });
      expect(await show("One, two", { key })).toMatchObject({ status: "retry" });
      const part = channel.render({ markdown: "One, two, three." }, address)[0] ?? {};
      expect(await channel.send({ address, part, key, repeated: false, ref: ref ?? "" })).toMatchObject({ status: "sent" });
      expect(inThread().at(-1)?.text).toBe("One, two, three.");
    }
    expect(inThread()).toHaveLength(3);
  });

  it("[LV6] only in threads; outside direct chats only for a person of a workspace that is known", async () => {
    const { thread: _thread, ...top } = address;
    expect(channel.drafts?.fits(address)).toBe(true);
    expect(channel.drafts?.fits(top)).toBe(false);
    expect(await show("text", { reader: null })).toMatchObject({ status: "refused" });
    const orgs = await makeChannel("E0ORG");
    expect(orgs.drafts?.fits(address)).toBe(false);
    expect(orgs.drafts?.fits({ ...address, chat: "D0PERSON", kind: "dm" })).toBe(true);
    expect(calls("chat.startStream")).toEqual([]);
  });

  it.each<[string, Fault, object, boolean]>([
    ["429", "429", { status: "retry", afterMs: 9_000 }, true],
    ["a refusal of this place", { error: "channel_type_not_supported" }, { status: "refused" }, false],
    ["a refusal of this app", { error: "feature_not_enabled" }, { status: "refused" }, false],
    ["a wrong token", { error: "invalid_auth" }, { status: "refused" }, true],
    ["a lost answer", "drop", { status: "unknown" }, true],
  ])("[LV6] %s: nothing stands there, and the answer is posted", async (_name, fault, expected, fits) => {
    fake.faults.add("chat.startStream", fault, { retryAfter: 9 });
    const begun = draftBegun(clock.now());
    expect(await show("text")).toMatchObject(expected);
    expect(channel.drafts?.fits(address)).toBe(fits);
    if ("status" in expected && expected.status === "unknown") {
      expect(await send({ markdown: "text" }, begun)).toMatchObject({ status: "retry" });
      shiftMs = 13_000;
    }
    expect(await send({ markdown: "text" }, begun)).toMatchObject({ status: "sent" });
    expect(inThread()).toMatchObject([{ text: "text", streaming: null, metadata: whole }]);
  });

  it("[LV2] no more starts than Slack takes, and a slower pace the more threads there are", async () => {
    const results: DraftResult[] = [];
    for (let n = 0; n < 16; n++) {
      ref = null;
      results.push(await show("text", { key: `reply:${n}#0` }));
    }
    expect(results[0]).toMatchObject({ status: "shown", againMs: 1_000 });
    expect(results[14]).toMatchObject({ status: "shown", againMs: 15 * 700 });
    expect(results[15]).toMatchObject({ status: "retry", afterMs: expect.any(Number) });
    expect(calls("chat.startStream")).toHaveLength(15);
  });

  it("[LV6] taken away when its turn waits, and begun anew after it", async () => {
    await show("Let me ask.");
    expect(await channel.drafts?.remove?.({ address, key: KEY, ref: ref ?? "" })).toBe(true);
    expect(inThread()).toEqual([]);
    expect(await channel.drafts?.remove?.({ address, key: KEY, ref: ref ?? "" }), "gone already").toBe(true);
    ref = null;
    await show("The answer");
    await send({ markdown: "The answer." });
    expect(inThread()).toMatchObject([{ text: "The answer.", streaming: "completed" }]);
  });
});

describe("another process, which has only the row", () => {
  it("[LV6] LIVE-009 ends the stream that stands there and writes the answer into it", async () => {
    await show("Half of");
    channel = await makeChannel();
    expect(await send({ markdown: "Half of it, and the rest." })).toMatchObject({ status: "sent" });
    expect(inThread()).toMatchObject([{ text: "Half of it, and the rest.", streaming: "completed", metadata: whole }]);
  });

  it("[LV6] LIVE-009 finds a stream nobody recorded: its own, and no other app's, and none that became an answer", async () => {
    const at = clock.now();
    await show("An answer");
    await send({ markdown: "An answer that is whole." });
    ref = null;
    await show("Half of", { key: "reply:6#0" });
    const [answer, half] = inThread();
    // First in the thread, so that whoever looks meets it first.
    fake.history(ROOM).splice(1, 0, { ...(half as SeenMessage), ts: "9999999999.000001", user: "U0OTHER", fromBot: false });
    channel = await makeChannel();
    expect(await send({ markdown: "Half of it, and the rest." }, draftBegun(at))).toEqual({ status: "sent", ref: half?.ts });
    expect(inThread()).toMatchObject([
      { ts: answer?.ts, text: "An answer that is whole." },
      { ts: half?.ts, text: "Half of it, and the rest." },
    ]);
  });

  it("[LV6] LIVE-009 waits as long as a start may be on its way, then posts the answer", async () => {
    const begun = draftBegun(clock.now());
    expect(await send({ markdown: "text" }, begun)).toMatchObject({ status: "retry" });
    expect(inThread()).toEqual([]);
    shiftMs = 13_000;
    expect(await send({ markdown: "text" }, begun)).toMatchObject({ status: "sent" });
    expect(inThread()).toMatchObject([{ text: "text", metadata: whole }]);
  });

  it("[LV6] what is gone, or can't be edited any more, leaves no half one beside the answer", async () => {
    await show("Half of");
    fake.deleteMessage(ROOM, ref ?? "");
    channel = await makeChannel();
    await send({ markdown: "Whole." });
    expect(inThread()).toMatchObject([{ text: "Whole.", streaming: null }]);
    ref = null;
    await show("Half of", { key: "reply:6#0" });
    channel = await makeChannel();
    fake.faults.add("chat.update", { error: "edit_window_closed" });
    await send({ markdown: "Whole, too." });
    expect(inThread()).toMatchObject([{ text: "Whole." }, { text: "Whole, too.", streaming: null }]);
  });

  it("[ST1] says in the place of a draft that it was stopped, and nothing where there is none", async () => {
    await show("Half of");
    channel = await makeChannel();
    const stopped: OutMessage = { markdown: "Half of\n\n_Stopped._", onlyDrafted: true };
    expect(await send(stopped)).toMatchObject({ status: "sent" });
    expect(inThread()).toMatchObject([{ text: "Half of\n\n_Stopped._" }]);
    shiftMs = 13_000;
    expect(await send(stopped, draftBegun(Date.now()))).toMatchObject({ status: "sent" });
    expect(inThread()).toHaveLength(1);
  });

  it.each<[string, Fault, object]>([
    ["429", "429", { status: "retry", afterMs: 9_000 }],
    ["a lost answer", "drop_after", { status: "retry" }],
    ["an answer too late", "hang_after", { status: "retry" }],
  ])("[DL3] %s to the edit: it is done again, and shows once", async (_name, fault, expected) => {
    await show("Half of");
    channel = await makeChannel();
    fake.faults.add("chat.update", fault, { retryAfter: 9 });
    expect(await send({ markdown: "Whole." })).toMatchObject(expected);
    expect(await send({ markdown: "Whole." })).toMatchObject({ status: "sent" });
    expect(inThread()).toMatchObject([{ text: "Whole.", metadata: whole }]);
  });
});
