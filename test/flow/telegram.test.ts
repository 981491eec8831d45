// Telegram through the whole process: commands and buttons, the typing sign, blocked chats, and updates that come twice.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { child, plan, spawns } from "../support/brain.ts";
import { type ChannelScene, createChannelScene, createDoor, obeyBehind } from "../support/channel-scene.ts";
import type { SeenMessage } from "../support/fake-telegram.ts";

const PERSON = 42;
const GROUP = -1001;
const OLD_GROUP = -2002;

let scene: ChannelScene;
let door = createDoor();
beforeAll(async () => {
  scene = await createChannelScene({
    telegram: { allowFrom: [String(PERSON)], groups: { [GROUP]: {}, [OLD_GROUP]: { requireMention: false } } },
    slack: null,
    respond: obeyBehind(() => door.opened),
  });
  await scene.connected();
});
afterAll(async () => scene[Symbol.asyncDispose]());

/** The next message of the bot there that fits. */
async function next(chat: number, thread: number | null, said: () => void, fits: (message: SeenMessage) => boolean = () => true) {
  const before = scene.telegram.messages(chat, thread).length;
  said();
  return scene.telegram.until(() => scene.telegram.messages(chat, thread).slice(before).find(fits), "an answer");
}

const ask = (text: string, chat = PERSON): Promise<SeenMessage> =>
  next(
    chat,
    null,
    () => void scene.telegram.say({ chat, from: PERSON, text }),
    (message) => message.buttons.length === 0,
  );

/** A sub-agent that works until the door opens, and the line that says it started. */
async function start(label: string): Promise<SeenMessage> {
  door = createDoor();
  const work = plan([spawns(child(label, "slowly done", { briefing: "slowly" }))]);
  const line = await next(
    PERSON,
    null,
    () => void scene.telegram.say({ chat: PERSON, text: work }),
    ({ buttons }) => buttons.length > 0,
  );
  await scene.telegram.until(() => scene.telegram.messages(PERSON).find(({ text }) => text.startsWith("results:") && text.includes(label)));
  return line;
}

/** What whoever pressed was shown. */
const toastOf = async (press: string): Promise<string> =>
  (await scene.telegram.until(() => scene.telegram.toasts().get(press), `a toast for press ${press}`)) ?? "";

describe("commands", () => {
  it("[CM1] /subagents works in a private chat, with the bot's name in a group, and not when it names another bot", async () => {
    const { telegram } = scene;
    expect((await ask("/subagents")).text).toMatch(/^🧭 Subagents \(current session\)\nActive: 0 · Done: 0/);
    expect((await ask("/subagents dance")).text).toContain("/subagents stop <id|#|group|all>");
    const inGroup = await next(
      GROUP,
      5,
      () => void telegram.say({ chat: GROUP, thread: 5, from: PERSON, text: "/subagents@herald_test_bot list" }),
    );
    expect(inGroup.text).toContain("🧭 Subagents (current session)");
    telegram.say({ chat: GROUP, thread: 5, from: PERSON, text: "/subagents@other_bot list" });
    const after = await next(GROUP, 5, () => void telegram.say({ chat: GROUP, thread: 5, from: PERSON, text: "/help" }));
    expect(after.text).toContain("Commands");
    expect(telegram.messages(GROUP, 5)).toHaveLength(2);
  });

  it("[CM1] the bot's commands are made known to Telegram", async () => {
    await scene.telegram.until(() => scene.telegram.commands().length > 0, "setMyCommands");
    const names = scene.telegram.commands().map((command) => (command as { command: string }).command);
    expect(names).toEqual(expect.arrayContaining(["subagents", "stop", "new", "status", "help"]));
  });
});

describe("the status message of a sub-agent", () => {
  it("[CM4][LV1][LV4] TG-022 Stop acts on that sub-agent once, List answers; a later press is answered politely and changes nothing", async () => {
    const { telegram, herald } = scene;
    const line = await start("one to press");
    expect(line).toMatchObject({ quiet: true, buttons: [{ text: "Stop" }, { text: "List" }] });
    const [stop] = line.buttons;
    const press = (data: string | undefined): Promise<string> =>
      toastOf(telegram.press({ chat: PERSON, message: line.id, data: data ?? "" }));
    // Too long for a toast: a message, and the button has stopped spinning all the same.
    const listed = await next(PERSON, null, () => void telegram.press({ chat: PERSON, message: line.id, label: "List" }));
    expect(listed.text).toMatch(/Active: 1 · Done: \d+[\s\S]*one to press/);
    const before = telegram.messages(PERSON).length;
    expect(await press(stop?.data)).toBe('⚙️ Stopped 1 sub-agent: "one to press".');
    expect(await press(stop?.data)).toBe("That run has ended.");
    const old = telegram.press({ chat: PERSON, message: line.id, data: stop?.data ?? "", old: true });
    expect(await toastOf(old)).toBe("This button is too old.");
    // Nothing of it litters the chat; the message itself shows the end, without buttons.
    await telegram.until(() =>
      telegram.messages(PERSON).some(({ id, text, buttons }) => id === line.id && text.startsWith("⏹ 1") && buttons.length === 0),
    );
    expect(telegram.messages(PERSON)).toHaveLength(before);
    expect(telegram.toasts().size).toBe(4);
    expect(herald.rows("SELECT 1 FROM runs WHERE label = 'one to press' AND state = 'stopped'")).toHaveLength(1);
    door.open();
  });

  it("[CM3][LV4] a press for a sub-agent of another chat finds nothing there", async () => {
    const { telegram } = scene;
    const line = await start("one of my own");
    const data = line.buttons.find(({ text }) => text === "Stop")?.data ?? "";
    const there = await next(GROUP, null, () => void telegram.say({ chat: GROUP, from: PERSON, text: `@${telegram.username} hello` }));
    expect(await toastOf(telegram.press({ chat: GROUP, message: there.id, from: PERSON, data }))).toBe("That button does nothing here.");
    expect((await ask("/subagents stop all")).text).toBe("⚙️ Stopped 1 sub-agent.");
    door.open();
  });
});

describe("a turn at work", () => {
  it("[AG4] shows the typing sign in its own topic until it ends", async () => {
    const { telegram } = scene;
    door = createDoor();
    const shown = telegram.actions.length;
    const id = telegram.say({ chat: GROUP, thread: 6, from: PERSON, text: `@${telegram.username} wait for it` });
    await telegram.until(() => telegram.actions.length > shown, "the typing sign");
    expect(telegram.actions.slice(shown)).toEqual([{ chat: GROUP, thread: 6 }]);
    await telegram.until(
      () =>
        telegram
          .history(GROUP)
          .find((message) => message.id === id)
          ?.reactions.includes("👀"),
      "the receipt",
    );
    const reply = await next(GROUP, 6, () => door.open());
    expect(reply).toMatchObject({ text: "heard: wait for it", replyTo: id });
  });
});

describe("a person who blocked the bot", () => {
  it("[DL3] TG-015 the run's announcement is blocked with the reason, info shows it, retry sends it", async () => {
    const { telegram, herald } = scene;
    await start("to be blocked");
    telegram.chats.block(PERSON);
    door.open();
    const blocked = () =>
      herald.rows<{ delivery: string }>("SELECT delivery FROM runs WHERE label = 'to be blocked'")[0]?.delivery === "blocked";
    await telegram.until(blocked, "the run to be blocked");
    const tries = telegram.calls.filter(({ method }) => method === "sendMessage").length;
    telegram.chats.block(PERSON, null);
    expect((await ask("/subagents info last")).text).toMatch(/blocked.*bot was blocked by the user/);
    expect(telegram.calls.filter(({ method }) => method === "sendMessage")).toHaveLength(tries + 1);
    const isAnnouncement = ({ text }: SeenMessage): boolean => text.includes("Stats: runtime") && text.includes("to be blocked");
    telegram.say({ chat: PERSON, text: "/subagents retry last" });
    await telegram.until(() => telegram.messages(PERSON).some(isAnnouncement), "the announcement");
    await scene.settled();
    expect(telegram.messages(PERSON).filter(isAnnouncement)).toHaveLength(1);
    expect((await ask("/subagents info last")).text).toContain("delivered");
  });

  it("[DL3] [WB1] the page sends it again, too, though the chat is not one of its own", async () => {
    const { telegram, herald } = scene;
    await start("blocked again");
    telegram.chats.block(PERSON);
    door.open();
    const row = () => herald.rows<{ id: string; delivery: string }>("SELECT id, delivery FROM runs WHERE label = 'blocked again'")[0];
    await telegram.until(() => row()?.delivery === "blocked", "the run to be blocked");
    telegram.chats.block(PERSON, null);
    const retry = async () => {
      const answer = await herald.request(`/api/runs/${row()?.id}/retry`, { method: "POST", body: "{}" });
      return [answer.status, await answer.json()];
    };
    expect(await retry()).toEqual([200, { text: "Its announcement is on its way again." }]);
    await telegram.until(() => row()?.delivery === "delivered", "the announcement");
    expect(await retry()).toEqual([409, { error: "Its announcement is not blocked (delivered)." }]);
    expect(telegram.messages(PERSON).filter(({ text }) => text.includes("Stats: runtime") && text.includes("blocked again"))).toHaveLength(
      1,
    );
  });
});

describe("updates that come twice, and trouble with polling", () => {
  it("[RC3] a replayed update is handled once", async () => {
    const { telegram } = scene;
    const update = telegram.inject({
      message: {
        message_id: 9001,
        date: 1,
        chat: { id: 77, type: "private" },
        from: { id: PERSON, is_bot: false, first_name: "P" },
        text: "once only",
      },
    });
    telegram.chats.add(77);
    await telegram.until(() => telegram.messages(77).length === 1, "the answer");
    telegram.replay(update);
    await telegram.until(() => telegram.pending().length === 0, "the replay to be taken");
    await scene.settled();
    expect(telegram.messages(77).map(({ text }) => text)).toEqual(["heard: once only"]);
  });

  it("[RC3][SC4] 409, 429, 500, html, cut and dropped polls: every message is answered once and the process lives", {
    timeout: 180_000,
  }, async () => {
    const { telegram, herald } = scene;
    const pid = herald.pid();
    const faults = ["409", "429", "500", "html", "drop", "truncate_after"] as const;
    // Of this try: a second one after a deadline would find what the first has said.
    const from = telegram.messages(PERSON).length;
    const answers = (fault: string) => telegram.messages(PERSON).filter(({ text }) => text === `heard: in spite of ${fault}, ${from}`);
    for (const fault of faults) {
      telegram.faults.add("getUpdates", fault);
      telegram.say({ chat: PERSON, text: `in spite of ${fault}, ${from}` });
      await telegram.until(() => answers(fault).length > 0, `an answer in spite of ${fault}`, 60_000);
    }
    await scene.settled();
    for (const fault of faults) expect(answers(fault)).toHaveLength(1);
    expect(herald.pid()).toBe(pid);
    // [SC4] The token is part of every address an error could quote.
    expect(herald.output()).toContain("receiving from Telegram is interrupted");
    expect(herald.output()).not.toContain(telegram.token.split(":")[1]);
  });

  it("[RC3] CMD-023 an edited message runs nothing, not even a command", async () => {
    const { telegram, model } = scene;
    const id = telegram.say({ chat: PERSON, text: "first wording" });
    await telegram.until(() => telegram.messages(PERSON).some(({ text }) => text === "heard: first wording"), "the answer");
    const asked = model.calls.length;
    const said = telegram.messages(PERSON).length;
    telegram.edit({ chat: PERSON, id, text: "second wording" });
    telegram.edit({ chat: PERSON, id, text: "/stop" });
    await ask("/status");
    expect(telegram.messages(PERSON)).toHaveLength(said + 1);
    expect(model.calls).toHaveLength(asked);
  });
});

describe("places", () => {
  it("[DL5] a chat that can't be written to holds up no other", async () => {
    const { telegram } = scene;
    telegram.faults.choose((method, payload) => (method === "sendMessage" && payload.message_thread_id === 8 ? "500" : null));
    telegram.say({ chat: GROUP, thread: 8, from: PERSON, text: `@${telegram.username} a stuck topic` });
    await telegram.until(
      () => telegram.calls.some(({ payload }) => payload.message_thread_id === 8 && payload.text !== undefined),
      "a try",
    );
    expect((await ask("meanwhile elsewhere")).text).toBe("heard: meanwhile elsewhere");
    expect(telegram.messages(GROUP, 8)).toEqual([]);
    telegram.faults.choose(null);
    await telegram.until(() => telegram.messages(GROUP, 8).length === 1, "the answer in the end");
    await scene.settled();
    expect(telegram.messages(GROUP, 8)).toHaveLength(1);
  });

  it("[AN3] TG-014 a group that becomes a supergroup meanwhile gets its announcement there", async () => {
    const { telegram } = scene;
    door = createDoor();
    telegram.say({ chat: OLD_GROUP, from: PERSON, text: plan([spawns(child("moving", "slowly done", { briefing: "slowly" }))]) });
    await telegram.until(() => telegram.messages(OLD_GROUP).length === 2, "the started line and the reply");
    telegram.chats.migrate(OLD_GROUP, -100_2002);
    door.open();
    const announced = () => telegram.allMessages().filter(({ text }) => text.includes("Stats: runtime") && text.includes("moving"));
    await telegram.until(() => announced().length > 0, "the announcement");
    await scene.settled();
    expect(announced().map(({ chat }) => chat)).toEqual([-100_2002]);
  });
});

describe("a Telegram that does not answer a send", () => {
  const MARK = "(may be repeated)";
  const sends = () => scene.telegram.calls.filter((call) => call.method === "sendMessage");
  const isUnderWay = (before: number) => scene.telegram.until(() => sends().length > before, "the send");

  it("[RN4] holds SIGTERM no longer than the drain time; the text comes after the next start, marked", async () => {
    const { telegram, herald } = scene;
    telegram.faults.add("sendMessage", "hang");
    const before = sends().length;
    telegram.say({ chat: PERSON, text: "never answered" });
    await isUnderWay(before);
    const startedAt = Date.now();
    expect(await herald.stop()).toBe(0);
    expect(Date.now() - startedAt).toBeLessThan(20_000);
    await herald.restart();
    const { text } = await telegram.until(() => telegram.messages(PERSON).find((seen) => seen.text.includes("never answered")));
    expect(text).toBe(`${MARK}\n\nheard: never answered`);
  });

  it("[RN4] but one that is only slow is waited for, and said once", async () => {
    const { telegram, herald } = scene;
    telegram.faults.add("sendMessage", "slow", { delayMs: 1_000 });
    const before = sends().length;
    telegram.say({ chat: PERSON, text: "slowly taken" });
    await isUnderWay(before);
    expect(await herald.stop()).toBe(0);
    await herald.restart();
    await scene.delivered();
    const seen = telegram.messages(PERSON).filter(({ text }) => text.includes("slowly taken"));
    expect(seen.map(({ text }) => text)).toEqual(["heard: slowly taken"]);
  });
});
