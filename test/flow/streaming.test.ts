// Answers that are read while they are written, through the whole process: drafts in Telegram's private chats, streams in Slack's threads.
// Whatever comes in between, what is left is the answer, whole and once.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { plan, type Step } from "../support/brain.ts";
import { type ChannelScene, createChannelScene, obey } from "../support/channel-scene.ts";
import type { SeenMessage } from "../support/fake-slack-state.ts";
import { asks, inStep, readAlong } from "../support/read-along.ts";
import { SCRIPTED_KEY } from "../support/scripted-model.ts";
import { waitFor } from "../support/wait.ts";

const PERSON = 42;
const GROUP = -1001;
const ROOM = "C0ROOM";

const WORDS = "One answer that is long enough to be read while it is written, with **bold** words, and `code` in it.";
const PLAIN = WORDS.replaceAll("**", "").replaceAll("`", "");

/** For what nobody gets to read along: half a second for each few words. */
const slowly = (text: string): Step => ({ pieces: text.match(/[\s\S]{1,12}/g) ?? [], pieceMs: 500 });

let scene: ChannelScene;
beforeAll(async () => {
  scene = await createChannelScene({
    telegram: { allowFrom: [String(PERSON)], groups: { [GROUP]: { requireMention: false } } },
    slack: { allowFrom: ["U0PERSON"], channels: { [ROOM]: { requireMention: false } } },
    respond: inStep(obey, () => scene),
  });
  scene.slack.channels.add(ROOM);
  await scene.connected();
});
afterAll(async () => scene[Symbol.asyncDispose]());

/** Says it as the first message of a new thread; resolves with the thread. */
const openThread = (text: string): string => scene.slack.say({ channel: ROOM, text });
const inThread = (root: string): SeenMessage[] => scene.slack.messages(ROOM, root);
/** Whole, and on record as such. */
const isAnswer = (message: SeenMessage): boolean => message.metadata?.event_type === "herald_part" && message.streaming !== "in_progress";
/** What stands in the thread when all is said: so many messages, each of them whole. */
async function said(root: string, count = 1): Promise<SeenMessage[]> {
  const { slack } = scene;
  await slack.until(() => inThread(root).length >= count && inThread(root).every(isAnswer), "the whole answer", 30_000);
  await scene.settled();
  expect(inThread(root).map(({ text }) => text)).toHaveLength(count);
  expect(inThread(root).every(isAnswer)).toBe(true);
  return inThread(root);
}
const streaming = (root: string, versions = 2) =>
  scene.slack.until(() => inThread(root).find((message) => message.versions.length >= versions), "words that are being written");
const callsOf = (method: string) => scene.slack.calls.filter((call) => call.method === method);

describe("Telegram", () => {
  it("[LV6] in a private chat the answer grows as a draft, and ends as one message", async () => {
    const { telegram } = scene;
    telegram.say({ chat: PERSON, text: asks(WORDS) });
    const message = await telegram.until(() => telegram.messages(PERSON)[0], "the answer", 30_000);
    const drafts = telegram.drafts.filter(({ chat }) => chat === PERSON);
    expect(drafts.length).toBeGreaterThan(1);
    for (const [n, draft] of drafts.entries()) {
      expect(draft.id, "one draft that grows").toBe(drafts[0]?.id);
      expect(draft.text.length).toBeGreaterThan(drafts[n - 1]?.text.length ?? 0);
      expect(draft.at - (drafts[n - 1]?.at ?? 0), "at most once a second").toBeGreaterThanOrEqual(1_000);
    }
    expect(message.text).toBe(PLAIN);
    await scene.settled();
    expect(telegram.messages(PERSON)).toHaveLength(1);
    expect(telegram.draft(PERSON)).toBeNull();
  });

  it("[LV6] not in a group or a topic, where the typing sign says as much; and the page has its own way", async () => {
    const { telegram, herald } = scene;
    telegram.say({ chat: GROUP, from: PERSON, thread: 7, text: plan([slowly(WORDS)]) });
    await telegram.until(() => telegram.messages(GROUP, 7)[0], "the answer", 30_000);
    expect(telegram.calls.filter(({ method, payload }) => method === "sendMessageDraft" && payload.chat_id === GROUP)).toEqual([]);
    expect(telegram.actions).toContainEqual({ chat: GROUP, thread: 7 });
    expect(herald.rows("SELECT id FROM inbox WHERE channel = 'telegram' AND draft IS NOT NULL")).toEqual([]);
  });

  it("[ST3] Telegram's own Stop ends the answer it stands under: what there was stays, once, and a press too late ends nothing", async () => {
    const { telegram } = scene;
    const before = telegram.messages(PERSON).length;
    const written = (): SeenMessageText[] => telegram.messages(PERSON).slice(before);
    telegram.say({ chat: PERSON, text: plan([slowly(WORDS.repeat(20))]) });
    const draft = await telegram.until(() => telegram.draft(PERSON), "a draft");
    telegram.stopDraft(PERSON);
    const stopped = await telegram.until(() => written()[0], "what there was");
    expect(stopped.text).toMatch(/^One answer[\s\S]*\n\nStopped here\.$/);
    expect(stopped.text.startsWith(draft.text)).toBe(true);
    await scene.settled();
    // Telegram delivers a press as often as it is made.
    const press = { chat: { id: PERSON, type: "private", first_name: "Ada" }, draft_id: draft.id };
    telegram.say({ chat: PERSON, text: asks(WORDS) });
    await telegram.until(() => telegram.draft(PERSON), "the next draft");
    telegram.inject({ stopped_message_generation: press });
    await telegram.until(() => written().length === 2, "the next answer", 30_000);
    expect(written()[1]?.text).toBe(PLAIN);
    await scene.settled();
    expect(written()).toHaveLength(2);
  });

  it("[LV2] told to wait, drafts wait; the answer doesn't", async () => {
    const { telegram } = scene;
    const before = telegram.messages(PERSON).length;
    const drafts = () => telegram.calls.filter(({ method }) => method === "sendMessageDraft").length;
    const asked = drafts();
    telegram.faults.add("sendMessageDraft", "429", { retryAfter: 60 });
    telegram.say({ chat: PERSON, text: plan([slowly(WORDS)]) });
    await telegram.until(() => telegram.messages(PERSON)[before], "the answer");
    expect(drafts()).toBe(asked + 1);
  });
});

type SeenMessageText = ReturnType<ChannelScene["telegram"]["messages"]>[number];

describe("both", () => {
  it("[SC4] a secret is never shown while it is only half there", async () => {
    const { telegram, slack } = scene;
    const pieces = ["The key is ", SCRIPTED_KEY.slice(0, 12), SCRIPTED_KEY.slice(12), " and no other."];
    const before = { drafts: telegram.drafts.length, messages: telegram.messages(PERSON).length };
    telegram.say({ chat: PERSON, text: plan([{ ...readAlong("in pieces"), pieces }]) });
    const message = await telegram.until(() => telegram.messages(PERSON)[before.messages], "the answer", 30_000);
    const drafts = telegram.drafts.slice(before.drafts).map(({ text }) => text);
    expect(drafts.slice(0, 2)).toEqual(["The key is", "The key is"]);
    expect(message.text).toMatch(/^The key is \[[^\]]+\] and no other\.$/);
    const root = openThread(plan([{ ...slowly(""), pieces: pieces.flatMap((piece) => piece.match(/[\s\S]{1,6}/g) ?? []) }]));
    const [streamed] = await said(root);
    for (const text of [...drafts, message.text, ...(streamed?.versions ?? [])]) expect(text).not.toMatch(/scripted-key/);
    expect(slack.calls.some(({ args }) => JSON.stringify(args).includes(SCRIPTED_KEY.slice(0, 12)))).toBe(false);
  });
});

describe("Slack", () => {
  it("[LV6] in a thread the answer grows as a stream, which becomes the answer itself, unedited", async () => {
    const root = openThread(asks(WORDS));
    const [message] = await said(root);
    expect(message?.text).toBe(WORDS);
    expect(message?.versions.length).toBeGreaterThan(2);
    for (const version of message?.versions ?? []) expect(WORDS.startsWith(version), version).toBe(true);
    expect(message).toMatchObject({ edits: 0, streaming: "completed" });
    const started = callsOf("chat.startStream").find(({ args }) => args.thread_ts === root);
    expect(started?.args).toMatchObject({ recipient_user_id: "U0PERSON", recipient_team_id: scene.slack.teamId });
  });

  it("[LV6] a short answer is simply posted", async () => {
    const root = openThread("hello");
    const [message] = await said(root);
    expect(message).toMatchObject({ text: "heard: hello", streaming: null, versions: ["heard: hello"] });
  });

  it("[LV6] words before a tool are replaced by those after it, in the same message", async () => {
    const root = openThread(plan([readAlong("I will have a look at the folder first.", ["list", { path: "." }]), readAlong(WORDS)]));
    const [message] = await said(root);
    expect(message?.text).toBe(WORDS);
    expect(message?.versions[0]).toMatch(/^I will/);
    expect(message?.versions.length).toBeGreaterThan(3);
  });

  it("[LV6] an answer of several messages: the first grows, the others follow it", async () => {
    const long = Array.from({ length: 60 }, (_, n) => `Paragraph ${n}: ${"words and words ".repeat(30)}`.trim()).join("\n\n");
    const pieces = long.match(/[\s\S]{1,2000}/g) ?? [];
    const root = openThread(plan([{ pieces, pieceMs: 500 }]));
    await scene.settled();
    await streaming(root, 1);
    await waitFor("all of it", () => inThread(root).length > 2, 30_000);
    await scene.settled();
    const texts = inThread(root).map(({ text }) => text);
    expect(texts.length).toBeGreaterThan(2);
    expect(texts.join("\n\n").replace(/\s+/g, " ")).toBe(long.replace(/\s+/g, " "));
    expect(inThread(root).every(isAnswer)).toBe(true);
    expect(inThread(root)[0]?.versions.length).toBeGreaterThan(1);
  });

  it("[LV6] an error ends what was being written: it says so in its place", async () => {
    const root = openThread(plan([{ ...slowly(WORDS), errorEvent: "invalid" }]));
    await streaming(root, 1);
    const [message] = await said(root);
    expect(message?.text).toMatch(/^⚠️ /);
  });

  it("[LV6] LIVE-009 Slack ends the stream by itself: the same message is edited on, and the answer stands there whole", async () => {
    const text = WORDS.repeat(2);
    const root = openThread(plan([slowly(text)]));
    await streaming(root);
    scene.slack.expireStreams();
    const [message] = await said(root);
    expect(message).toMatchObject({ text, streaming: "errored" });
    expect(message?.edits).toBeGreaterThan(1);
  });

  it("[LV6][QA1] what was said before a question goes when it is asked; the answer comes below it", async () => {
    const { slack } = scene;
    const asks = ["ask", { question: "Which one?", options: ["A", "B"] }] as const;
    const root = openThread(plan([readAlong("Let me ask which one of them you mean.", asks), readAlong(WORDS)]));
    await streaming(root, 1);
    const question = await slack.until(() => inThread(root).find(({ buttons }) => buttons.length > 0), "the question");
    await slack.until(() => inThread(root).length === 1, "the words before it to go");
    void slack.press({ channel: ROOM, message: question.ts, label: "B" });
    await slack.until(() => inThread(root).length >= 2 && inThread(root).some(({ text }) => text === WORDS), "the answer", 30_000);
    await scene.settled();
    const after = inThread(root).filter(({ ts }) => Number(ts) > Number(question.ts));
    expect(after.at(-1)?.text).toBe(WORDS);
    expect(inThread(root).filter(({ text }) => text.startsWith("Let me ask"))).toEqual([]);
  });

  it("[ST1] /stop marks what was half written as stopped, in its place, and says its own answer once", async () => {
    const { slack } = scene;
    const root = openThread(plan([slowly(WORDS.repeat(20))]));
    await streaming(root);
    slack.say({ channel: ROOM, thread: root, text: "!stop" });
    const [half, answer] = await said(root, 2);
    expect(half?.text).toMatch(/^One answer[\s\S]*\n\n_Stopped\._$/);
    expect(answer?.text).toBe("⚙️ Agent was aborted. Stopped 0 sub-agents.");
  });

  it("[ST3] Slack's own Stop ends the answer: what there was stays, marked, in its place", async () => {
    const { slack } = scene;
    const root = openThread(plan([slowly(WORDS.repeat(20))]));
    await streaming(root);
    void slack.inject({ type: "agent_session_stopped", channel: ROOM, thread_ts: root, user: "U0PERSON" });
    const [half] = await said(root);
    expect(half?.text).toMatch(/^One answer[\s\S]*\n\n_Stopped here\._$/);
  });

  it("[LV6] one answer after the other: each its own message", async () => {
    const root = openThread(asks(WORDS));
    await streaming(root);
    scene.slack.say({ channel: ROOM, thread: root, text: asks(`And ${WORDS}`) });
    await waitFor("both", () => inThread(root).filter(isAnswer).length === 2, 30_000);
    expect((await said(root, 2)).map(({ text }) => text)).toEqual([WORDS, `And ${WORDS}`]);
  });

  it("[LV2] told to wait, the stream waits; the answer doesn't", async () => {
    const { slack } = scene;
    slack.faults.add("chat.appendStream", "429", { retryAfter: 60 });
    const asked = callsOf("chat.appendStream").length;
    const root = openThread(plan([slowly(WORDS)]));
    const [message] = await said(root);
    expect(message?.text).toBe(WORDS);
    expect(callsOf("chat.appendStream")).toHaveLength(asked + 1);
  });

  it("[LV6] LIVE-009 the answer to the start is lost: the stream is found in its thread and becomes the answer", {
    timeout: 60_000,
  }, async () => {
    scene.slack.faults.add("chat.startStream", "drop_after");
    const root = openThread(plan([slowly(WORDS)]));
    const [message] = await said(root);
    expect(message).toMatchObject({ text: WORDS, streaming: "completed" });
  });

  it("[LV6] a person removes it while it grows: the whole answer is posted", async () => {
    const root = openThread(plan([slowly(WORDS)]));
    const half = await streaming(root);
    scene.slack.deleteMessage(ROOM, half.ts);
    const [message] = await said(root);
    expect(message).toMatchObject({ text: WORDS, streaming: null });
  });

  it("[LV6] where Slack doesn't stream for this app, answers are posted, and it isn't asked again", async () => {
    const { slack } = scene;
    slack.missing.add("chat.startStream");
    const asked = callsOf("chat.startStream").length;
    for (const _ of [1, 2]) {
      const [message] = await said(openThread(plan([slowly(WORDS)])));
      expect(message).toMatchObject({ text: WORDS, streaming: null, edits: 0 });
    }
    expect(callsOf("chat.startStream")).toHaveLength(asked + 1);
  });
});
