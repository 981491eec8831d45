// Slack through the whole process: commands in channels and threads, buttons, the sign of work, channels that are closed
// to the bot, events that come again, and sockets that don't hold.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { child, plan, spawns } from "../support/brain.ts";
import { type ChannelScene, createChannelScene, createDoor, obeyBehind } from "../support/channel-scene.ts";
import type { SeenMessage } from "../support/fake-slack-state.ts";

const ROOM = "C0ROOM";
const DIRECT = "D0PERSON";

let scene: ChannelScene;
let door = createDoor();
beforeAll(async () => {
  scene = await createChannelScene({
    telegram: null,
    slack: { allowFrom: ["U0PERSON"], channels: { [ROOM]: {} } },
    respond: obeyBehind(() => door.opened),
  });
  await scene.connected();
});
afterAll(async () => scene[Symbol.asyncDispose]());

/** The next message of the bot there that fits. */
async function next(channel: string, thread: string | null, said: () => unknown, fits: (message: SeenMessage) => boolean = () => true) {
  const before = scene.slack.messages(channel, thread).length;
  said();
  return scene.slack.until(() => scene.slack.messages(channel, thread).slice(before).find(fits), "an answer");
}

/** A thread in which a sub-agent works until the door opens; its root and the line that says it started. */
async function start(label: string): Promise<{ root: string; line: SeenMessage }> {
  door = createDoor();
  const { slack } = scene;
  const root = slack.mention({ channel: ROOM, text: plan([spawns(child(label, "slowly done", { briefing: "slowly" }))]) });
  const line = await slack.until(() => slack.messages(ROOM, root).find(({ buttons }) => buttons.length > 0), "the started line");
  await slack.until(() => slack.messages(ROOM, root).some(({ text }) => text.startsWith("results:")), "the reply");
  return { root, line };
}

describe("commands", () => {
  it("[CM1] /subagents as a slash command; !subagents and @bot /subagents in a thread, about that thread", async () => {
    const { slack } = scene;
    const { root } = await start("in a thread");
    void slack.slash({ channel: ROOM, command: "/subagents" });
    const answer = await slack.until(() => slack.whispers(ROOM)[0], "an answer to the slash command");
    expect(answer.text).toMatch(/🧭 Subagents \(current session\)\s+Active: 0 · Done: 0/);
    for (const text of ["!subagents", " /subagents list", `<@${slack.botUser}> /subagents`, `<@${slack.botUser}> !subagents list`]) {
      const { text: told } = await next(ROOM, root, () => slack.say({ channel: ROOM, thread: root, text }));
      expect(told, text).toMatch(/Active: 1 · Done: 0[\s\S]*in a thread/);
    }
    const { text: unknown } = await next(ROOM, root, () => slack.say({ channel: ROOM, thread: root, text: "!subagents dance" }));
    expect(unknown).toContain("/subagents stop <id|#|group|all>");
    const { text: stopped } = await next(ROOM, root, () => slack.say({ channel: ROOM, thread: root, text: "!stop" }));
    expect(stopped).toContain("Stopped 1 sub-agent.");
    door.open();
    // Whoever reads along saw no slash command, and sees no answer to one.
    expect(slack.messages(ROOM, null)).toEqual([]);
    slack.channels.add(DIRECT);
    const { text: inPrivate } = await next(DIRECT, null, () => slack.slash({ channel: DIRECT, command: "/subagents" }));
    expect(inPrivate).toContain("🧭 Subagents");
  });

  it("[CM1] an exclamation that is no command stays a message", async () => {
    const { text } = await next(DIRECT, null, () => scene.slack.say({ channel: DIRECT, text: "!nice work" }));
    expect(text).toBe("heard: !nice work");
  });
});

describe("the status message of a sub-agent", () => {
  it("[CM4][LV1][LV4] Stop acts on that sub-agent once, List answers; a later press is answered politely and changes nothing", async () => {
    const { slack, herald } = scene;
    const { root, line } = await start("one to press");
    expect(line.buttons).toMatchObject([{ label: "Stop", style: "danger" }, { label: "List" }]);
    const values = new Map(line.buttons.map(({ label, value, actionId }) => [label, { type: "button", action_id: actionId, value }]));
    const before = slack.messages(ROOM, root).length;
    /** As a client does that has not seen the last edit. */
    const press = async (label: string): Promise<string> => {
      const known = slack.whispers(ROOM).length;
      const extra = { actions: [values.get(label)], trigger_id: `1.2.${label}${known}` };
      expect(await slack.press({ channel: ROOM, message: line.ts, label: null, extra })).toBe(true);
      const answer = await slack.until(() => slack.whispers(ROOM)[known], "an answer only they see");
      expect(answer.thread).toBe(root);
      return answer.text;
    };
    expect(await press("List")).toMatch(/Active: 1 · Done: 0[\s\S]*one to press/);
    expect(await press("Stop")).toBe('⚙️ Stopped 1 sub-agent: "one to press".');
    expect(await press("Stop")).toBe("That run has ended.");
    await slack.until(() =>
      slack.messages(ROOM, root).some(({ ts, text, buttons }) => ts === line.ts && text.includes("⏹ 1") && buttons.length === 0),
    );
    expect(slack.messages(ROOM, root)).toHaveLength(before);
    expect(herald.rows("SELECT 1 FROM runs WHERE label = 'one to press' AND state = 'stopped'")).toHaveLength(1);
    door.open();
  });
});

describe("a turn at work", () => {
  it("[AG4] shows its status in its own thread, a receipt on the question, and clears the status at the end", async () => {
    const { slack } = scene;
    door = createDoor();
    const root = slack.mention({ channel: ROOM, text: "wait for it" });
    const status = () => slack.statuses.filter(({ thread }) => thread === root).map((one) => one.status);
    await slack.until(() => status().length === 1, "the status");
    await slack.until(
      () =>
        slack
          .history(ROOM)
          .find(({ ts }) => ts === root)
          ?.reactions.includes("eyes"),
      "the receipt",
    );
    const { text } = await next(ROOM, root, () => door.open());
    expect(text).toBe("heard: wait for it");
    await slack.until(() => status().length === 2, "the end of the status");
    expect(status()).toEqual(["is working…", ""]);
  });

  it("[ST3] Slack's own Stop ends the answer being written and nothing else; the button under it, or !stop, ends the sub-agents", async () => {
    const { slack, herald } = scene;
    const { root } = await start("goes on");
    const stateOf = (): string | undefined => herald.rows<{ state: string }>("SELECT state FROM runs WHERE label = 'goes on'")[0]?.state;
    const pressStop = () => slack.inject({ type: "agent_session_stopped", channel: ROOM, thread_ts: root, user: "U0PERSON" });
    // Too late for the answer before it: nothing is at work but the sub-agent.
    await pressStop();
    const before = slack.statuses.length;
    slack.say({ channel: ROOM, thread: root, text: `<@${slack.botUser}> wait for it` });
    await slack.until(() => slack.statuses.length > before, "the turn");
    const stopped = await next(ROOM, root, pressStop);
    expect(stopped.text).toMatch(/Stopped here\. 1 sub-agent goes on\./);
    expect(stateOf()).toBe("running");
    await slack.until(() => slack.statuses.at(-1)?.status === "", "the end of the status");
    const known = slack.whispers(ROOM).length;
    void slack.press({ channel: ROOM, message: stopped.ts, label: "Stop sub-agents too" });
    const answer = await slack.until(() => slack.whispers(ROOM)[known], "an answer only they see");
    expect(answer.text).toBe("⚙️ Agent was aborted. Stopped 1 sub-agent.");
    expect(stateOf()).toBe("stopped");
    door.open();
  });
});

describe("a channel the bot was removed from", () => {
  it("[DL3] the run's announcement is blocked with the reason, info shows it, retry sends it", async () => {
    const { slack, herald } = scene;
    const { root } = await start("to be blocked");
    slack.channels.break(ROOM, "not_in_channel");
    door.open();
    const delivery = () => herald.rows<{ delivery: string }>("SELECT delivery FROM runs WHERE label = 'to be blocked'")[0]?.delivery;
    await slack.until(() => delivery() === "blocked", "the run to be blocked");
    slack.channels.break(ROOM, null);
    const info = () => next(ROOM, root, () => slack.say({ channel: ROOM, thread: root, text: "!subagents info last" }));
    expect((await info()).text).toMatch(/blocked.*not_in_channel/);
    const isAnnouncement = ({ text }: SeenMessage): boolean => text.includes("Stats: runtime");
    slack.say({ channel: ROOM, thread: root, text: "!subagents retry last" });
    await slack.until(() => slack.messages(ROOM, root).some(isAnnouncement), "the announcement");
    await scene.settled();
    expect(slack.messages(ROOM, root).filter(isAnnouncement)).toHaveLength(1);
    expect((await info()).text).toContain("delivered");
  });
});

describe("events that come again, and sockets that don't hold", () => {
  const answers = (text: string): SeenMessage[] => scene.slack.allMessages().filter((message) => message.text === `heard: ${text}`);

  it("[RC3] a mention, told as two events, and an event delivered again are handled once", async () => {
    const { slack } = scene;
    slack.mention({ channel: ROOM, text: "only once" });
    const payload = slack.pending()[0] ?? {};
    await slack.until(() => answers("only once").length > 0, "the answer");
    expect(await slack.redeliver(payload)).toBe(true);
    await slack.until(() => slack.pending().length === 0, "all acknowledgements");
    await scene.settled();
    expect(answers("only once")).toHaveLength(1);
  });

  it("[RC3] two sockets, moved and cut again and again while people write: no loss, no double", { timeout: 60_000 }, async () => {
    const { slack, herald } = scene;
    const pid = herald.pid();
    await slack.until(() => slack.sockets.open() === 2, "two sockets");
    const made = slack.sockets.made();
    const said = Array.from({ length: 6 }, (_, n) => `storm ${n}`);
    for (const [n, text] of said.entries()) {
      slack.say({ channel: DIRECT, text });
      if (n % 3 === 0) slack.sockets.refresh();
      if (n % 3 === 1) slack.sockets.drop();
      if (n % 3 === 2) slack.sockets.drop(1);
      await slack.until(() => slack.sockets.open() > 0, "a socket", 30_000);
    }
    await slack.until(() => said.every((text) => answers(text).length > 0), "all answers", 40_000);
    await slack.until(() => slack.pending().length === 0, "all acknowledgements");
    await scene.settled();
    for (const text of said) expect(answers(text), text).toHaveLength(1);
    expect(slack.sockets.made()).toBeGreaterThan(made);
    expect(herald.pid()).toBe(pid);
  });

  it("[RC3][SC4] invalid_auth on reconnect: the process lives, says which setting to check, and a restart finds what was said meanwhile", {
    timeout: 60_000,
  }, async () => {
    const { slack, herald } = scene;
    const pid = herald.pid();
    slack.faults.add("apps.connections.open", { error: "invalid_auth" }, { times: 2 });
    slack.sockets.drop();
    const refused = () => herald.output().split("check channels.slack.appToken").length > 2;
    await slack.until(refused, "both sockets to be refused", 30_000);
    await herald.say("/status");
    expect((await herald.reply(/- slack: failed/)).text).toContain("channels.slack.appToken");
    for (const token of [slack.botToken, slack.appToken]) expect(herald.output()).not.toContain(token);
    slack.say({ channel: DIRECT, text: "are you back?" });
    expect(herald.pid()).toBe(pid);
    expect(await herald.stop()).toBe(0);
    await herald.restart();
    await slack.until(() => answers("are you back?").length > 0, "the answer");
    await scene.settled();
    expect(answers("are you back?")).toHaveLength(1);
  });
});
