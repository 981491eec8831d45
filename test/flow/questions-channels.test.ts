// Questions on Telegram and Slack, with their real clients: replies, presses and those of strangers, a chat that moved, a topic that is
// gone, and what the message shows in the end.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { calls, child, plan, spawns } from "../support/brain.ts";
import { type ChannelScene, createChannelScene } from "../support/channel-scene.ts";
import type { SeenMessage } from "../support/fake-telegram.ts";
import { waitFor } from "../support/wait.ts";

const [ADA, BOB, STRANGER] = [42, 43, 666];
/** One for each test: Telegram takes twenty messages a minute in a group. */
const [PAINTERS, CHOOSERS, STOPPED, RUDE] = [-1011, -1012, -1013, -1014];
const OLD_GROUP = -2002;
const NEW_GROUP = -1003;
const DIRECT = "D0PERSON";
const SECRET = "sk-planted-0123456789abcdef";

let scene: ChannelScene;
beforeAll(async () => {
  const group = { requireMention: false };
  scene = await createChannelScene({
    telegram: {
      allowFrom: [String(ADA), String(BOB)],
      groups: { [PAINTERS]: group, [CHOOSERS]: group, [STOPPED]: group, [RUDE]: group, [OLD_GROUP]: group, [NEW_GROUP]: group },
    },
    slack: { allowFrom: ["U0PERSON"] },
    env: { PLANTED_API_KEY: SECRET },
  });
  await scene.connected();
});
afterAll(async () => scene[Symbol.asyncDispose]());

const question = (label: string, args: object): string => plan([spawns(child(label, [calls(["ask", args])]))]);
const isQuestion = (label: string) => (message: { readonly text: string }) => message.text.startsWith(`❓ ${label} asks:`);
const onTelegram = (chat: number, label: string): Promise<SeenMessage> =>
  scene.telegram.until(() => scene.telegram.messages(chat).find(isQuestion(label)), `the question of ${label}`);
const told = (chat: number, fits: RegExp): Promise<SeenMessage> =>
  scene.telegram.until(() => scene.telegram.messages(chat).find(({ text }) => fits.test(text)), String(fits));
/** Who presses reads it alone. */
const toast = (press: string, words: string): Promise<boolean> =>
  scene.telegram.until(() => scene.telegram.toasts().get(press) === words, `the toast "${words}"`);
const stateOf = (label: string): string | undefined =>
  scene.herald.rows<{ state: string }>("SELECT state FROM questions WHERE asker = ?", label)[0]?.state;
const announced = (label: string): Promise<string> =>
  waitFor(`the announcement of ${label}`, () => {
    const sql = "SELECT part FROM outbox WHERE delivery LIKE 'announce:%' AND state = 'sent' AND part LIKE ?";
    return scene.herald.rows<{ part: string }>(sql, `%Sub-agent: ${label}%`)[0]?.part;
  });

describe("on Telegram", () => {
  it("[QA1][QA3] a reply answers a sub-agent in a topic; strangers who reply or press get no word, and it stays open; so does a sticker's", async () => {
    const { telegram } = scene;
    telegram.say({
      chat: PAINTERS,
      thread: 7,
      from: ADA,
      text: question("painter", { question: "Which colour?", options: ["Red", "Blue"] }),
    });
    const message = await onTelegram(PAINTERS, "painter");
    // The agent's own answer, which the question may overtake.
    await told(PAINTERS, /^results/);
    const before = telegram.messages(PAINTERS).length;
    telegram.say({ chat: PAINTERS, thread: 7, from: STRANGER, text: "green!", replyTo: message.id });
    telegram.press({ chat: PAINTERS, message: message.id, label: "Red", from: STRANGER });
    telegram.say({
      chat: PAINTERS,
      thread: 7,
      from: ADA,
      replyTo: message.id,
      extra: {
        sticker: {
          file_id: "s",
          emoji: "👍",
          width: 1,
          height: 1,
          type: "regular",
          is_animated: false,
          is_video: false,
          file_unique_id: "u",
        },
      },
    });
    await told(PAINTERS, /^An answer needs words: the question stays open\.$/);
    expect(stateOf("painter")).toBe("open");
    telegram.say({ chat: PAINTERS, thread: 7, from: BOB, text: "green, please", replyTo: message.id });
    await told(PAINTERS, /^📨 painter goes on with: green, please$/);
    expect(await announced("painter")).toContain("green, please");
    const after = telegram
      .messages(PAINTERS)
      .slice(before)
      // The batch's own message may come before or after the question.
      .filter(({ text }) => !text.startsWith("Sub-agent: painter") && !/^\S+ \d+\n/.test(text));
    expect(after.map(({ text }) => text.split(":")[0])).toEqual(["An answer needs words", "📨 painter goes on with"]);
  });

  it("[QA3] ASK-003 two people press at once: one counts, the other reads whose did, and the message shows the winner without buttons", async () => {
    const { telegram } = scene;
    telegram.say({
      chat: CHOOSERS,
      thread: 8,
      from: ADA,
      text: question("chooser", { question: "Left or right?", options: ["Left", "Right"] }),
    });
    const { id } = await onTelegram(CHOOSERS, "chooser");
    const first = telegram.press({ chat: CHOOSERS, message: id, label: "Left", from: ADA });
    const second = telegram.press({ chat: CHOOSERS, message: id, label: "Right", from: BOB });
    await toast(first, "📨 chooser goes on with: Left");
    await toast(second, "Already answered by User 42: Left");
    const shown = await telegram.until(
      () => telegram.messages(CHOOSERS).find((one) => one.id === id && one.buttons.length === 0),
      "the edit",
    );
    expect(shown.text).toContain("✅ User 42: Left");
    expect(shown.text).not.toContain("User 43");
    expect(telegram.messages(CHOOSERS).filter(isQuestion("chooser"))).toHaveLength(1);
  });

  it("[ST2][QA3] after /stop its message says that it is closed, and a press on what a client still shows changes nothing", async () => {
    const { telegram } = scene;
    telegram.say({ chat: STOPPED, thread: 9, from: ADA, text: question("stopped", { question: "Go?", options: ["Go"] }) });
    const { id, buttons } = await onTelegram(STOPPED, "stopped");
    const data = buttons[0]?.data ?? "";
    telegram.say({ chat: STOPPED, thread: 9, from: ADA, text: "/stop" });
    await telegram.until(
      () => telegram.messages(STOPPED).find((one) => one.id === id && one.text.includes("This question is closed")),
      "the edit",
    );
    const late = telegram.press({ chat: STOPPED, message: id, data, from: BOB });
    await toast(late, "This question is closed: what asked it has ended.");
    expect(stateOf("stopped")).toBe("void");
  });

  it("[QA1][DL4] in a group that moved it is answered where it stands now, by press and by reply", async () => {
    const { telegram } = scene;
    telegram.chats.add(OLD_GROUP);
    telegram.say({ chat: OLD_GROUP, from: ADA, text: plan([{ text: "here I am" }]) });
    await told(OLD_GROUP, /here I am/);
    for (const label of ["mover", "follower"]) {
      telegram.say({
        chat: OLD_GROUP,
        from: ADA,
        text: question(label, { question: `Where is ${label}?`, options: [`${label} is here`] }),
      });
      telegram.chats.migrate(OLD_GROUP, NEW_GROUP);
      await onTelegram(NEW_GROUP, label);
    }
    const mover = await onTelegram(NEW_GROUP, "mover");
    const pressed = telegram.press({ chat: NEW_GROUP, message: mover.id, label: "mover is here", from: ADA });
    await toast(pressed, "📨 mover goes on with: mover is here");
    telegram.say({ chat: NEW_GROUP, from: ADA, text: "over there", replyTo: (await onTelegram(NEW_GROUP, "follower")).id });
    await told(NEW_GROUP, /^📨 follower goes on with: over there$/);
  });

  it("[QA1][SC4] hostile words: no mention is live, no secret stands in it, and a long one keeps all of its text", async () => {
    const { telegram } = scene;
    const hostile = `@everyone [click](tg://user?id=1) \`\`\` <b>x</b> ${SECRET}\n**Status: done**\n${"word ".repeat(700)}END`;
    telegram.say({ chat: RUDE, thread: 10, from: ADA, text: question("rude", { question: hostile, options: ["OK"] }) });
    await onTelegram(RUDE, "rude");
    const shown = await telegram.until(() => {
      const all = telegram.messages(RUDE, 10).filter(({ text }) => !text.startsWith("results"));
      return all.some(({ buttons }) => buttons.some(({ text }) => text === "OK")) ? all : null;
    }, "its buttons");
    const text = shown.map((one) => one.text).join("\n");
    expect(text).toContain("END");
    expect(text).not.toContain(SECRET);
    expect(shown.flatMap((one) => one.entities ?? []).filter(({ type }) => /mention|text_link|url/.test(type))).toEqual([]);
    expect(scene.herald.rows("SELECT text FROM questions WHERE asker = 'rude' AND text LIKE ?", `%${SECRET}%`)).toEqual([]);
  });
});

describe("on Slack", () => {
  it("[QA1] in a direct chat the thread below the question is where it is answered", async () => {
    const { slack } = scene;
    slack.channels.add(DIRECT);
    slack.say({ channel: DIRECT, text: question("writer", { question: "Which title?" }) });
    const message = await slack.until(() => slack.messages(DIRECT).find(({ text }) => /writer.* asks:/.test(text)), "the question");
    slack.say({ channel: DIRECT, thread: message.ts, text: "The Long Way Round" });
    await slack.until(
      () => slack.messages(DIRECT, message.ts).find(({ text }) => text.includes("goes on with: The Long Way Round")),
      "the thanks",
    );
    expect(await announced("writer")).toContain("The Long Way Round");
    await slack.until(() => slack.messages(DIRECT).find(({ ts, text }) => ts === message.ts && text.includes("✅")), "the edit");
  });

  it("[QA3] a stranger's press is nobody's, and the question stays open for those who may answer", async () => {
    const { slack } = scene;
    slack.channels.add(DIRECT);
    slack.say({ channel: DIRECT, text: question("guarded", { question: "Sure?", options: ["Sure"] }) });
    const message = await slack.until(
      () => slack.messages(DIRECT).find(({ text, buttons }) => /guarded.* asks:/.test(text) && buttons.length > 0),
      "the question",
    );
    await slack.press({ channel: DIRECT, message: message.ts, label: "Sure", user: "U0STRANGER" });
    await slack.press({ channel: DIRECT, message: message.ts, label: "Sure" });
    await announced("guarded");
    expect(scene.herald.rows("SELECT answered_by FROM questions WHERE asker = 'guarded'")).toEqual([
      { answered_by: expect.stringContaining("U0PERSON") },
    ]);
  });
});
