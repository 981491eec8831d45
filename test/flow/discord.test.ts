// Discord through the whole process: answers and announcements where they belong, slash commands, buttons, questions, answers that grow,
// strangers, files; and a gateway connection that doesn't hold.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { calls, child, plan, spawns } from "../support/brain.ts";
import { type ChannelScene, createChannelScene, createDoor, obeyBehind } from "../support/channel-scene.ts";
import { DIRECT, PERSON, ROOM } from "../support/fake-discord.ts";
import type { SeenMessage, Whisper } from "../support/fake-discord-state.ts";
import { asks, inStep } from "../support/read-along.ts";

const STRANGER = "4300000000000000043";
const STRANGERS_CHAT = "6100000000000000061";
const OTHER_ROOM = "5100000000000000051";

let scene: ChannelScene;
let door = createDoor();
beforeAll(async () => {
  scene = await createChannelScene({
    telegram: null,
    slack: null,
    discord: { allowFrom: [PERSON], channels: { [ROOM]: {} } },
    config: { tools: { approve: ["write"] } },
    respond: inStep(
      obeyBehind(() => door.opened),
      () => scene,
    ),
  });
  const { channels } = scene.discord;
  channels.add({ id: STRANGERS_CHAT, type: 1, recipient: STRANGER });
  channels.add({ id: OTHER_ROOM, type: 0 });
  await scene.connected();
});
afterAll(async () => scene[Symbol.asyncDispose]());

/** The next message of the bot there that fits. */
async function next(channel: string, said: () => unknown, fits: (message: SeenMessage) => boolean = () => true): Promise<SeenMessage> {
  const before = scene.discord.messages(channel).length;
  said();
  return scene.discord.until(() => scene.discord.messages(channel).slice(before).find(fits), "an answer");
}

/** The next thing only they see there. */
async function whispered(channel: string, done: () => Promise<boolean>): Promise<Whisper> {
  const known = scene.discord.whispers(channel).length;
  expect(await done(), "acknowledged in time").toBe(true);
  return scene.discord.until(() => scene.discord.whispers(channel)[known], "an answer only they see");
}

/** A thread in which a sub-agent works until the door opens, and its status message. */
async function start(label: string): Promise<{ thread: string; status: SeenMessage }> {
  door = createDoor();
  const { discord } = scene;
  const thread = discord.channels.thread(ROOM);
  discord.mention({ channel: thread, text: plan([spawns(child(label, "slowly done", { briefing: "slowly" }))]) });
  const status = await discord.until(() => discord.messages(thread).find(({ buttons }) => buttons.length > 0), "the status message");
  await discord.until(() => discord.messages(thread).some(({ content }) => content.startsWith("results:")), "the reply");
  return { thread, status };
}

const answers = (text: string): SeenMessage[] => scene.discord.allMessages().filter(({ content }) => content === `heard: ${text}`);

describe("conversations", () => {
  it("[DC1] direct messages are answered, in servers a mention or a reply to us; what is not listed or not said to us is not", async () => {
    const { discord } = scene;
    const { content, id, replyTo } = await next(DIRECT, () => discord.say({ channel: DIRECT, text: "hello" }));
    expect(content).toBe("heard: hello");
    expect(discord.history(DIRECT).find((one) => one.id === replyTo)?.content).toBe("hello");
    discord.say({ channel: ROOM, text: "among ourselves" });
    discord.mention({ channel: OTHER_ROOM, text: "not listed" });
    discord.say({ channel: ROOM, text: "I am a machine", extra: { webhook_id: "1" } });
    const room = await next(ROOM, () => discord.mention({ channel: ROOM, text: "in the room" }));
    expect(room.content).toBe("heard: in the room");
    const again = await next(ROOM, () => discord.say({ channel: ROOM, text: "and again", replyTo: room.id }));
    expect(again.content).toBe("heard: and again");
    await scene.settled();
    expect(discord.messages(ROOM)).toHaveLength(2);
    expect(discord.messages(OTHER_ROOM)).toEqual([]);
    expect(discord.messages(DIRECT).map((one) => one.id)).toEqual([id]);
  });

  it("[DC1][AN3][LV1] a sub-agent asked for in a thread announces there and nowhere else; its status message is edited and loses its buttons", async () => {
    const { discord } = scene;
    const { thread, status } = await start("in a thread");
    const root = discord.messages(ROOM).length;
    expect(status.buttons.map(({ label }) => label)).toEqual(["Stop", "List"]);
    door.open();
    const announced = await discord.until(
      () => discord.messages(thread).find(({ content }) => content.includes("-# Stats: runtime")),
      "the announcement",
    );
    expect(announced.content).toContain("Status: success");
    expect(announced.content).toMatch(/-# \|\|`sessionKey agent:main:subagent:[^|]*`\|\|$/);
    await discord.until(
      () => discord.messages(thread).find(({ id, edits, buttons }) => id === status.id && edits > 0 && buttons.length === 0),
      "the last edit",
    );
    await scene.settled();
    expect(discord.messages(ROOM)).toHaveLength(root);
    expect(discord.messages(thread).filter(({ content }) => content.includes("Stats: runtime"))).toHaveLength(1);
  });

  it("[AG4] a receipt and the typing sign while it works", async () => {
    const { discord } = scene;
    door = createDoor();
    const asked = discord.say({ channel: DIRECT, text: "wait for it" });
    await discord.until(() => discord.typing.includes(DIRECT), "the typing sign");
    await discord.until(
      () =>
        discord
          .history(DIRECT)
          .find(({ id }) => id === asked)
          ?.reactions.includes("👀"),
      "the receipt",
    );
    expect((await next(DIRECT, () => door.open())).content).toBe("heard: wait for it");
  });
});

describe("commands and buttons", () => {
  it("[CM1] slash commands are registered once, answered to whoever typed them, and know their thread", async () => {
    const { discord } = scene;
    await discord.until(() => discord.commands.list().length > 0, "the commands");
    expect(discord.commands.list().map((one) => one.name)).toEqual(expect.arrayContaining(["subagents", "stop", "help"]));
    const { thread } = await start("to be listed");
    const before = discord.messages(thread).length;
    const listed = await whispered(thread, () => discord.slash({ channel: thread, name: "subagents", words: "list" }));
    expect(listed.content).toMatch(/Active: 1 · Done: 0[\s\S]*to be listed/);
    expect(listed.isOriginal).toBe(true);
    const above = await whispered(ROOM, () => discord.slash({ channel: ROOM, name: "subagents" }));
    expect(above.content).toMatch(/Active: 0[\s\S]*At work in threads of this chat: 1 conversation\. Write `\/subagents` there\./);
    const typed = await next(thread, () => discord.say({ channel: thread, text: "/subagents list" }));
    expect(typed.content).toContain("to be listed");
    const stopped = await whispered(thread, () => discord.slash({ channel: thread, name: "stop" }));
    expect(stopped.content).toContain("Stopped 1 sub-agent.");
    door.open();
    expect(discord.messages(thread)).toHaveLength(before + 1);
    const inPrivate = await whispered(DIRECT, () => discord.slash({ channel: DIRECT, name: "status" }));
    expect(inPrivate.content).toContain("discord: on");
    expect(discord.thinking()).toBe(0);
  });

  it("[LV4] Stop acts on that sub-agent once; a later press is answered politely and changes nothing", async () => {
    const { discord, herald } = scene;
    const { thread, status } = await start("one to press");
    const ids = new Map(status.buttons.map(({ label, customId }) => [label, customId]));
    /** As a client does that has not seen the last edit. */
    const press = async (label: string): Promise<string> => {
      const customId = ids.get(label) ?? "";
      return (await whispered(thread, () => discord.press({ channel: thread, message: status.id, customId }))).content;
    };
    expect(await press("List")).toMatch(/Active: 1 · Done: 0[\s\S]*one to press/);
    expect(await press("Stop")).toBe('⚙️ Stopped 1 sub-agent: "one to press".');
    expect(await press("Stop")).toBe("That run has ended.");
    expect(herald.rows("SELECT 1 FROM runs WHERE label = 'one to press' AND state = 'stopped'")).toHaveLength(1);
    door.open();
  });

  it("[CM9] a stranger's command and press are taken and not answered, and nothing thinks for ever", { timeout: 40_000 }, async () => {
    const { discord } = scene;
    const known = discord.whispers(ROOM, STRANGER).length;
    expect(await discord.slash({ channel: ROOM, name: "status", user: STRANGER })).toBe(true);
    const { id: message } = discord.messages(ROOM)[0] ?? { id: "" };
    expect(await discord.press({ channel: ROOM, message, customId: "/stop", user: STRANGER })).toBe(true);
    await discord.until(() => discord.thinking() === 0, "the end of thinking");
    expect(discord.whispers(ROOM, STRANGER)).toHaveLength(known);
  });
});

describe("people in the loop", () => {
  it("[QA1][QA3] a question is answered by its button, and by a reply", async () => {
    const { discord, herald } = scene;
    const ask = (label: string, args: object): string => plan([spawns(child(label, [calls(["ask", args])]))]);
    const thread = discord.channels.thread(ROOM);
    discord.mention({ channel: thread, text: ask("painter", { question: "Which colour?", options: ["Red", "Blue"] }) });
    const question = await discord.until(
      () => discord.messages(thread).find(({ content }) => /painter.* asks:/.test(content)),
      "the question",
    );
    const thanks = await whispered(thread, () => discord.press({ channel: thread, message: question.id, label: "Blue" }));
    expect(thanks.content).toContain("painter goes on with: Blue");
    await discord.until(
      () =>
        discord.messages(thread).find(({ id, content, buttons }) => id === question.id && content.includes("✅") && buttons.length === 0),
      "the edit",
    );
    discord.say({ channel: DIRECT, text: ask("writer", { question: "Which title?" }) });
    const second = await discord.until(
      () => discord.messages(DIRECT).find(({ content }) => /writer.* asks:/.test(content)),
      "the question",
    );
    // Nobody replies before we know what we have posted.
    await discord.until(() => herald.rows("SELECT 1 FROM outbox WHERE ref = ?", second.id).length > 0, "its record");
    discord.say({ channel: DIRECT, text: "The Long Way Round", replyTo: second.id });
    await discord.until(
      () => discord.messages(DIRECT).some(({ content }) => content.includes("writer goes on with: The Long Way Round")),
      "the thanks",
    );
    await scene.settled();
  });

  it("[QA4] a call that needs a yes gets it by a button, and is made then", async () => {
    const { discord } = scene;
    discord.say({ channel: DIRECT, text: plan([calls(["write", { path: "approved.txt", content: "by hand" }])]) });
    const asked = await discord.until(
      () => discord.messages(DIRECT).find(({ buttons }) => buttons.some(({ label }) => label === "Yes")),
      "the question",
    );
    expect(asked.content).toContain("approved.txt");
    expect(await discord.press({ channel: DIRECT, message: asked.id, label: "Yes" })).toBe(true);
    await discord.until(() => discord.messages(DIRECT).some(({ content }) => content.startsWith("results:")), "the answer");
    await scene.settled();
  });

  it("[SC1] an unknown person gets a code, once", async () => {
    const { discord, herald } = scene;
    const told = await next(STRANGERS_CHAT, () => discord.say({ channel: STRANGERS_CHAT, user: STRANGER, text: "let me in" }));
    const [code = ""] = /[A-Z0-9]{8}/.exec(told.content) ?? [];
    expect(herald.rows<{ n: number }>("SELECT count(*) AS n FROM pairing_codes WHERE channel = 'discord'")).toMatchObject([{ n: 1 }]);
    expect(code).toHaveLength(8);
    discord.say({ channel: STRANGERS_CHAT, user: STRANGER, text: "hello?" });
    await next(DIRECT, () => discord.say({ channel: DIRECT, text: "all looked at" }));
    expect(discord.messages(STRANGERS_CHAT)).toHaveLength(1);
  });
});

describe("answers", () => {
  it("[LV6] grow by edits in one message, which ends whole", { timeout: 40_000 }, async () => {
    const { discord } = scene;
    const words = "One answer that is long enough to be read while it is written, with **bold** words, and `code` in it.";
    const before = discord.messages(DIRECT).length;
    discord.say({ channel: DIRECT, text: asks(words) });
    const shown = () => discord.messages(DIRECT).slice(before);
    await discord.until(() => shown()[0]?.content === words, "the whole answer", 30_000);
    await scene.settled();
    const [message, ...others] = shown();
    expect(others).toEqual([]);
    expect(message?.versions.length).toBeGreaterThan(2);
    for (const version of message?.versions.slice(0, -1) ?? []) expect(version).toMatch(/^One answer[\s\S]*\n-# ✍️ writing…$/);
  });

  it("[CH2][DL4] files come and go: fetched afresh from Discord's hosts, sent once although the answer got lost", async () => {
    const { discord, model, herald } = scene;
    discord.faults.add("download", "500");
    discord.say({
      channel: DIRECT,
      text: "read it",
      files: [{ name: "plan.md", type: "text/markdown", bytes: Buffer.from("the word is crane") }],
    });
    const request = await discord.until(
      () => model.calls.findLast((call) => call.messages.at(-1)?.text.endsWith("read it") === true),
      "a request",
    );
    expect(JSON.stringify(request.body)).toContain("the word is crane");
    await scene.settled();
    writeFileSync(join(herald.stateDir, "workspace", "s.csv"), "c,d\n");
    discord.faults.add("createMessage", "drop_after");
    discord.say({ channel: DIRECT, text: plan([calls(["send_file", { path: "s.csv", caption: "Figures" }])]) });
    await discord.until(() => discord.messages(DIRECT).some(({ attachments }) => attachments.length > 0), "the file");
    await scene.settled();
    const sent = discord.messages(DIRECT).filter(({ attachments }) => attachments.length > 0);
    expect(sent.map(({ content, attachments }) => [content, attachments[0]?.filename, attachments[0]?.bytes.toString()])).toEqual([
      ["Figures", "s.csv", "c,d\n"],
    ]);
  });
});

describe("a connection that doesn't hold", () => {
  it("[DC1][RC3] cut again and again while people write: resumed, no loss, no double", { timeout: 60_000 }, async () => {
    const { discord } = scene;
    const [identifies, resumes] = [discord.gateway.identifies(), discord.gateway.resumes()];
    const said = Array.from({ length: 4 }, (_, n) => `storm ${n}`);
    for (const text of said) {
      discord.say({ channel: DIRECT, text });
      discord.gateway.drop();
      await discord.until(() => discord.gateway.isUp(), "a connection", 30_000);
    }
    await discord.until(() => said.every((text) => answers(text).length > 0), "all answers", 30_000);
    await scene.settled();
    for (const text of said) expect(answers(text), text).toHaveLength(1);
    expect(discord.gateway.identifies()).toBe(identifies);
    expect(discord.gateway.resumes()).toBeGreaterThan(resumes);
  });

  it("[DC1] a restart resumes the session and hears what was said meanwhile", { timeout: 60_000 }, async () => {
    const { discord, herald } = scene;
    const identifies = discord.gateway.identifies();
    expect(await herald.stop()).toBe(0);
    discord.say({ channel: DIRECT, text: "are you there?" });
    await herald.restart();
    await discord.until(() => answers("are you there?").length > 0, "the answer", 30_000);
    await scene.settled();
    expect(answers("are you there?")).toHaveLength(1);
    expect(discord.gateway.identifies()).toBe(identifies);
    expect(discord.commands.writes(), "commands are written when they change").toBe(1);
  });

  it("[DC1] after an outage that no session spans, known chats are read on from their last message, and threads begun meanwhile too", {
    timeout: 60_000,
  }, async () => {
    const { discord, herald } = scene;
    await herald.crash();
    discord.gateway.forget();
    const thread = discord.channels.thread(ROOM, true);
    discord.say({ channel: DIRECT, text: "missed one", isUntold: true });
    discord.say({ channel: DIRECT, text: "missed two", isUntold: true });
    discord.mention({ channel: ROOM, text: "missed three", isUntold: true });
    discord.mention({ channel: thread, text: "missed four", isUntold: true });
    const said = ["missed one", "missed two", "missed three", "missed four"];
    await herald.restart();
    await discord.until(() => said.every((text) => answers(text).length > 0), "all answers", 30_000);
    await scene.settled();
    for (const text of said) expect(answers(text), text).toHaveLength(1);
    expect(answers("missed four")[0]?.channel).toBe(thread);
    const [one, two] = [answers("missed one"), answers("missed two")].map(([message]) => BigInt(message?.id ?? 0));
    expect(one).toBeLessThan(two ?? 0n);
  });
});
