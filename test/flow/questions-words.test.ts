// Which words of people are the answer to which question: a number that looks like our own mark, an id that is over by now, what is
// forwarded, and a thread where nobody can reply to one message.
import { afterAll, beforeAll, expect, it } from "vitest";
import { calls, child, plan, spawns } from "../support/brain.ts";
import { type ChannelScene, createChannelScene } from "../support/channel-scene.ts";
import type { SeenMessage } from "../support/fake-telegram.ts";
import { waitFor } from "../support/wait.ts";

const [ADA, BOB] = [42, 43];
const GROUP = -1021;
const ROOM = "C0ROOM";

let scene: ChannelScene;
beforeAll(async () => {
  scene = await createChannelScene({
    telegram: { allowFrom: [String(ADA), String(BOB)], groups: { [GROUP]: { requireMention: false } } },
    slack: { allowFrom: ["U0PERSON"], channels: { [ROOM]: { requireMention: false } } },
  });
  await scene.connected();
});
afterAll(async () => scene[Symbol.asyncDispose]());

interface Row {
  readonly id: string;
  readonly state: string;
  readonly answer: string | null;
}

const asks = (question: string, options?: readonly string[]) => calls(["ask", { question, ...(options === undefined ? {} : { options }) }]);
const rowOf = (text: string, state = "open"): Promise<Row> =>
  waitFor(`the question "${text}" to be ${state}`, () =>
    scene.herald.rows<Row>("SELECT id, state, answer FROM questions WHERE text = ? AND state = ?", text, state).at(0),
  );
const told = (chat: number, fits: RegExp): Promise<SeenMessage> =>
  scene.telegram.until(() => scene.telegram.messages(chat).find(({ text }) => fits.test(text)), String(fits));

it("[QA1] a number with our own sign is what somebody wrote, unless it is one of the options", async () => {
  scene.telegram.say({ chat: ADA, text: plan([asks("Which issue?"), asks("Which of these?", ["#41", "#42"])]) });
  await rowOf("Which issue?");
  await told(ADA, /Which issue\?/);
  scene.telegram.say({ chat: ADA, text: "#12" });
  expect(await rowOf("Which issue?", "answered")).toMatchObject({ answer: "#12" });
  await told(ADA, /Which of these\?/);
  scene.telegram.say({ chat: ADA, text: "#42" });
  expect(await rowOf("Which of these?", "answered")).toMatchObject({ answer: "#42" });
  await told(ADA, /^results:/);
});

it("[QA3] the short id of a question that is over names that one still: its answer is not given to the only other one", async () => {
  const { telegram } = scene;
  const labelled = (label: string, question: string) => child(label, [asks(question)]);
  telegram.say({ chat: BOB, text: plan([spawns(labelled("first", "How many?"), labelled("second", "How long?"))]) });
  const [first] = await Promise.all([rowOf("How many?"), rowOf("How long?")]);
  const short = first.id.slice(0, 6);
  telegram.say({ chat: BOB, text: `/subagents answer ${short} three` });
  await told(BOB, /first goes on with: three/);
  telegram.say({ chat: BOB, text: `/subagents answer ${short} no, four` });
  await told(BOB, /^Already answered by User 43: three/);
  expect(await rowOf("How long?")).toMatchObject({ answer: null });
  // Without a target nobody is guessed at, also where only one asks.
  telegram.say({ chat: BOB, text: "/subagents answer a week" });
  await told(BOB, /^Which question\? /);
  expect(await rowOf("How long?")).toMatchObject({ answer: null });
  telegram.say({ chat: BOB, text: "/subagents answer second a week" });
  expect(await rowOf("How long?", "answered")).toMatchObject({ answer: "a week" });
});

it("[QA1] a long question is answered by a reply to any of its messages", async () => {
  const { telegram } = scene;
  const long = `Which of them? ${"a word ".repeat(560)}`;
  telegram.say({ chat: BOB, text: plan([spawns(child("talker", [asks(long)]))]) });
  await told(BOB, /talker asks:.*all of it stands above/);
  const first = await told(BOB, /^❓ talker asks:\s+Which of them\?/);
  telegram.say({ chat: BOB, text: "the last one", replyTo: first.id });
  await told(BOB, /talker goes on with: the last one/);
});

it("[QA1] what is forwarded is nobody's answer: it is read after it", async () => {
  const { telegram } = scene;
  telegram.say({ chat: ADA, text: plan([asks("Tea or coffee?")]) });
  await told(ADA, /Tea or coffee\?/);
  const origin = { type: "hidden_user", sender_user_name: "Eve", date: 1 };
  telegram.say({ chat: ADA, text: "the minutes of Monday", extra: { forward_origin: origin } });
  await told(ADA, /I am waiting for an answer to the question above/);
  expect((await rowOf("Tea or coffee?")).answer).toBeNull();
  telegram.say({ chat: ADA, text: "tea" });
  expect(await rowOf("Tea or coffee?", "answered")).toMatchObject({ answer: "tea" });
  await waitFor("the forwarded message to be read", () =>
    scene.model.calls.some(({ messages }) => messages.at(-1)?.text.includes("the minutes of Monday")),
  );
});

it("[QA1] in a thread of Slack's, where nobody can reply to one message, what calls the agent by its name answers; other talk doesn't", async () => {
  const { slack } = scene;
  slack.channels.add(ROOM);
  const thread = slack.mention({ channel: ROOM, text: plan([asks("Which branch?")]) });
  const asked = await slack.until(() => slack.messages(ROOM, thread).find(({ text }) => text.includes("Which branch?")), "the question");
  expect(asked.text).toMatch(/To answer, mention me with the answer, or write `!subagents answer [\w-]{6} …`/);
  slack.say({ channel: ROOM, thread, text: "does anybody know?" });
  await slack.until(() => slack.messages(ROOM, thread).find(({ text }) => text.includes("I am waiting for an answer")), "the notice");
  expect((await rowOf("Which branch?")).answer).toBeNull();
  slack.mention({ channel: ROOM, thread, text: "beta" });
  expect(await rowOf("Which branch?", "answered")).toMatchObject({ answer: "beta" });
});

it("[QA1] what a sub-agent asks in a thread of Slack's says how it can be answered there, and that works", async () => {
  const { slack } = scene;
  const thread = slack.mention({ channel: ROOM, text: plan([spawns(child("releaser", [asks("Which tag?")]))]) });
  const asked = await slack.until(() => slack.messages(ROOM, thread).find(({ text }) => text.includes("Which tag?")), "the question");
  const [, line = ""] = /To answer, write `(!subagents answer [\w-]{6}) …`/.exec(asked.text) ?? [];
  slack.say({ channel: ROOM, thread, text: `${line} v2` });
  expect(await rowOf("Which tag?", "answered")).toMatchObject({ answer: "v2" });
});

it("[QA1] in a Telegram group the same; a reply to another message of the agent is none", async () => {
  const { telegram } = scene;
  telegram.say({ chat: GROUP, from: ADA, text: "hello" });
  const hello = await telegram.until(() => telegram.messages(GROUP).find(({ text }) => text.includes("heard")), "a first answer");
  telegram.say({ chat: GROUP, from: ADA, text: plan([asks("Which room?")]) });
  await told(GROUP, /Which room\?/);
  telegram.say({ chat: GROUP, from: BOB, text: "about that one", replyTo: hello.id });
  await told(GROUP, /I am waiting for an answer to the question above/);
  expect((await rowOf("Which room?")).answer).toBeNull();
  telegram.say({ chat: GROUP, from: BOB, text: `@${telegram.username} the red one` });
  expect(await rowOf("Which room?", "answered")).toMatchObject({ answer: "the red one" });
});
