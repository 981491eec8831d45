// Telegram and Slack at once, through one real process: everything comes back to where it was asked for, whatever
// happens in other places meanwhile, and long answers arrive whole.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { child, plan, spawns, whoAsks } from "../support/brain.ts";
import { type ChannelScene, createChannelScene, createDoor, newestWords, obey } from "../support/channel-scene.ts";
import { longText } from "../support/long-text.ts";

const PERSON = 42;
const GROUP = -1001;
const TOPIC = 77;
const ROOM = "C0ROOM";
const LABELS = ["alpha", "beta", "gamma"];
const LONG = longText(30_000);

let scene: ChannelScene;
const door = createDoor();
beforeAll(async () => {
  scene = await createChannelScene({
    telegram: { allowFrom: [String(PERSON)], groups: { [GROUP]: { requireMention: false } } },
    slack: { allowFrom: ["U0PERSON"], channels: { [ROOM]: { requireMention: false } } },
    respond: async (request, call) => {
      if (newestWords(request).endsWith("tell me everything")) return { text: LONG.markdown };
      if (whoAsks(request) === "child") await door.opened;
      return obey(request, call);
    },
  });
  await scene.connected();
});
afterAll(async () => scene[Symbol.asyncDispose]());

const three = plan([spawns(...LABELS.map((label) => child(label, `the ${label} result`)))]);
const isAnnouncement = (text: string): boolean => text.includes("Stats: runtime");
/** Announcements that waited for their turn come in one message: each by itself. */
const apart = <M extends { text: string }>(messages: readonly M[]): M[] =>
  messages
    .flatMap((message) => message.text.split(/(?=^\**Sub-agent: )/m).map((text) => ({ ...message, text })))
    .filter(({ text }) => isAnnouncement(text));
const labelOf = (text: string): string | undefined => LABELS.find((label) => text.includes(`the ${label} result`));

describe("a topic and a thread", () => {
  it("[AN3][SP7][SE1] three children of each announce there and nowhere else, across other chats and kill -9", {
    timeout: 90_000,
  }, async () => {
    const { herald, telegram, slack } = scene;
    const root = slack.say({ channel: ROOM, text: "a thread begins" });
    telegram.say({ chat: GROUP, thread: TOPIC, from: PERSON, text: three });
    slack.say({ channel: ROOM, thread: root, text: three });
    await telegram.until(() => telegram.messages(GROUP, TOPIC).length === 2, "one status message and a reply in the topic");
    await slack.until(() => slack.messages(ROOM, root).length === 3, "one status message, a reply and the answer before in the thread");

    const otherRoot = slack.say({ channel: ROOM, text: "another thread" });
    telegram.say({ chat: GROUP, thread: 78, from: PERSON, text: "another topic" });
    telegram.say({ chat: GROUP, from: PERSON, text: "the general topic" });
    telegram.say({ chat: PERSON, text: "a private word" });
    slack.say({ channel: "D0PERSON", text: "a direct word" });
    await herald.say("the page");
    await herald.reply(/^heard: the page$/);
    await scene.telegram.until(() => telegram.messages(PERSON).length === 1 && telegram.messages(GROUP, null).length === 1, "the answers");
    await slack.until(() => slack.messages("D0PERSON").length === 1 && slack.messages(ROOM, otherRoot).length === 1, "the answers");

    await scene.delivered();
    await herald.crash();
    telegram.say({ chat: GROUP, thread: 78, from: PERSON, text: "while it was down" });
    slack.say({ channel: ROOM, thread: otherRoot, text: "while it was down" });
    await herald.restart();
    door.open();
    await telegram.until(() => apart(telegram.messages(GROUP, TOPIC)).length >= 3, "Telegram", 30_000);
    await slack.until(() => apart(slack.messages(ROOM, root)).length >= 3, "Slack", 30_000);
    await scene.settled();

    const announced = {
      telegram: apart(telegram.allMessages()),
      slack: apart(slack.allMessages()),
    };
    expect(announced.telegram.map(({ chat, thread }) => [chat, thread])).toEqual(LABELS.map(() => [GROUP, TOPIC]));
    expect(announced.slack.map(({ channel, thread }) => [channel, thread])).toEqual(LABELS.map(() => [ROOM, root]));
    for (const all of Object.values(announced)) expect(all.map(({ text }) => labelOf(text)).sort()).toEqual(LABELS);
    expect(telegram.messages(GROUP, 78).map(({ text }) => text)).toEqual(["heard: another topic", "heard: while it was down"]);
    expect(telegram.messages(GROUP, null).map(({ text }) => text)).toEqual(["heard: the general topic"]);
    expect(slack.messages(ROOM, otherRoot).map(({ text }) => text)).toEqual(["heard: another thread", "heard: while it was down"]);
    expect(slack.messages(ROOM, null)).toEqual([]);
    expect((await herald.announcements()).length).toBe(0);
    const keys = herald.rows<{ key: string }>("SELECT key FROM sessions WHERE key NOT LIKE '%subagent%'").map(({ key }) => key);
    const places = [
      `telegram:group:${GROUP}:topic:${TOPIC}`,
      `telegram:group:${GROUP}:topic:78`,
      `telegram:group:${GROUP}`,
      `telegram:dm:${PERSON}`,
    ];
    const rooms = [`slack:channel:c0room:thread:${root}`, `slack:channel:c0room:thread:${otherRoot}`, "slack:dm:d0person", "web:dm:main"];
    expect(keys.sort()).toEqual([...places, ...rooms].map((place) => `agent:main:${place}`).sort());
  });
});

describe("30 000 characters with fences, tables, emoji, right-to-left text and HTML", () => {
  /** The pieces found, each looked for behind the one before it. */
  const found = (texts: string[]): string[] => {
    const all = texts.join("\n").replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");
    let at = 0;
    return LONG.pieces.filter((piece) => {
      const here = all.indexOf(piece, at);
      if (here >= 0) at = here;
      return here >= 0;
    });
  };

  it("[DL2][AN10] as a reply and as an announcement in a Telegram topic: all accepted at once, in order, nothing lost", async () => {
    const { telegram } = scene;
    // A private chat has topics too, and no limit by the minute.
    const told = async (text: string) => {
      const before = telegram.messages(PERSON, 90).length;
      const calls = telegram.calls.length;
      telegram.say({ chat: PERSON, thread: 90, text });
      await telegram.until(() => telegram.messages(PERSON, 90).length > before, "an answer");
      await scene.settled();
      expect(telegram.calls.slice(calls).every(({ method, executed }) => executed || !method.startsWith("send"))).toBe(true);
      return telegram.messages(PERSON, 90).slice(before);
    };
    const reply = await told("tell me everything");
    expect(reply.length).toBeGreaterThan(6);
    expect(found(reply.map((message) => message.text))).toEqual(LONG.pieces);
    const announced = await told("/subagents spawn tell me everything");
    expect(announced).toHaveLength(4);
    expect(found(announced.map(({ file }) => file?.content ?? ""))).toEqual(LONG.pieces);
  });

  it("[DL2] as a reply and as an announcement in a Slack thread: all parts accepted at once, in order, nothing lost", async () => {
    const { slack } = scene;
    const root = slack.say({ channel: ROOM, text: "a thread for much text" });
    await slack.until(() => slack.messages(ROOM, root).length === 1, "its first answer");
    for (const text of ["tell me everything", "!subagents spawn tell me everything"]) {
      const before = slack.messages(ROOM, root).length;
      const calls = slack.calls.length;
      slack.say({ channel: ROOM, thread: root, text });
      await slack.until(() => slack.messages(ROOM, root).length > before, "an answer");
      await scene.settled();
      const sent = slack.calls.slice(calls).filter(({ method }) => method === "chat.postMessage");
      expect(sent.length).toBeGreaterThan(2);
      expect(sent.every(({ executed }) => executed)).toBe(true);
      const messages = slack.messages(ROOM, root).slice(before);
      expect(found(messages.map((message) => message.text))).toEqual(LONG.pieces);
      expect(messages.some((message) => message.calls)).toBe(false);
    }
  });
});
