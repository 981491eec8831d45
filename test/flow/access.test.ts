// Who gets in: pairing, listed groups, mentions; and every way in, tried by somebody who may not, on the real process.
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { glob } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { load } from "js-yaml";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ALLOWED_UPDATES } from "../../src/channels/telegram/receive.ts";
import { child, plan, spawns, whoAsks } from "../support/brain.ts";
import { type ChannelScene, createChannelScene, createDoor, obey } from "../support/channel-scene.ts";
import { NODE } from "../support/harness.ts";
import { waitFor } from "../support/wait.ts";
import { startWeb } from "../support/web-server.ts";

const ROOT = new URL("../../", import.meta.url).pathname;
const PERSON = 42;
const MEMBER = 43;
const STRANGER = 666;
const GROUP = -1001;
const TEAM = -1002;
const ROOM = "C0ROOM";

let scene: ChannelScene;
const door = createDoor();
beforeAll(async () => {
  scene = await createChannelScene({
    telegram: { allowFrom: [String(PERSON)], groups: { [GROUP]: {}, [TEAM]: { requireMention: false, allowFrom: [MEMBER] } } },
    slack: { allowFrom: ["U0PERSON"], channels: { [ROOM]: {}, C0TEAM: { requireMention: false, allowFrom: ["U0MEMBER"] } } },
    respond: async (request, call) => {
      if (whoAsks(request) === "child") await door.opened;
      return obey(request, call);
    },
  });
  await scene.connected();
});
afterAll(async () => scene[Symbol.asyncDispose]());

const heard = (text: string): boolean =>
  [...scene.telegram.allMessages(), ...scene.slack.allMessages()].some((message) => message.text === `heard: ${text}`);

/** `npm run pair -- …`: exit code and what it says. */
async function pair(...words: string[]): Promise<string> {
  const env = { PATH: process.env.PATH, HOME: scene.herald.dir, HERALD_STATE_DIR: scene.herald.stateDir };
  const { stdout } = await promisify(execFile)(NODE, [join(ROOT, "src/pair.ts"), ...words], { cwd: scene.herald.dir, env });
  return stdout.trim();
}

/** Somebody allowed says a word on both channels; all that came before has been looked at when it is answered. */
async function roundTrip(): Promise<void> {
  const { telegram, slack } = scene;
  const before = [telegram.messages(PERSON).length, slack.messages("D0PERSON").length];
  telegram.say({ chat: PERSON, text: "/help" });
  slack.say({ channel: "D0PERSON", text: "/help" });
  await telegram.until(() => telegram.messages(PERSON).length > (before[0] ?? 0), "the answer on Telegram");
  await slack.until(() => slack.messages("D0PERSON").length > (before[1] ?? 0), "the answer on Slack");
  await waitFor("a quiet outbox", () => count("outbox WHERE state <> 'sent'") === 0);
}

const count = (what: string): number => scene.herald.rows<{ n: number }>(`SELECT count(*) AS n FROM ${what}`)[0]?.n ?? -1;

describe("people", () => {
  it.each([
    { channel: "telegram", id: String(STRANGER) },
    { channel: "slack", id: "U0STRANGER" },
  ])("[SC1] $channel: a stranger gets one code and then silence; npm run pair lets them in, and takes it back", async ({ channel, id }) => {
    const { telegram, slack } = scene;
    const say = (text: string): void =>
      void (channel === "telegram" ? telegram.say({ chat: STRANGER, text }) : slack.say({ channel: "D0STRANGER", user: id, text }));
    const said = (): string[] =>
      (channel === "telegram" ? telegram.messages(STRANGER) : slack.messages("D0STRANGER")).map(({ text }) => text);
    say("let me in");
    const text = await waitFor("the code", () => said()[0]);
    const code = /pairing code is \W*([A-Z2-9]{8})\b/.exec(text)?.[1] ?? "";
    expect(code).toHaveLength(8);
    for (const again of ["hello?", "/status", "/stop", "stop"]) say(again);
    await roundTrip();
    expect(said()).toHaveLength(1);
    expect(await pair()).toContain(`Waiting:\n  ${code}  `);
    await expect(pair("NOTACODE")).rejects.toMatchObject({ code: 1, stderr: expect.stringContaining("There is no pairing code") });
    expect(await pair(code.toLowerCase())).toContain(`(${channel} ${id}) may now talk to Herald and will be told so.`);
    await expect(pair(code)).rejects.toMatchObject({ code: 1 });
    // Decided in another process, while this one runs.
    await waitFor("the welcome", () => said()[1]?.startsWith("Welcome!"));
    say(`thank you from ${id}`);
    await waitFor("the first answer", () => heard(`thank you from ${id}`));
    expect(said()).toHaveLength(3);
    expect(await pair("list")).toMatch(new RegExp(`Paired:\\n.*\\(${channel} ${id}\\)`));
    expect(await pair("revoke", channel, id)).toContain("may no longer talk to Herald.");
    say("am I still here?");
    const another = await waitFor("another code", () => /pairing code is \W*([A-Z2-9]{8})\b/.exec(said()[3] ?? "")?.[1]);
    expect(await pair("refuse", another)).toContain("is not let in and will be told so once.");
    await waitFor("the refusal", () => said()[4]?.includes("has decided not to let you in"));
    for (const again of ["please", "/status"]) say(again);
    await roundTrip();
    expect(said()).toHaveLength(5);
    expect(heard("am I still here?")).toBe(false);
    expect(await pair("list")).toMatch(new RegExp(`Refused:\\n.*\\(${channel} ${id}\\)`));
    await expect(pair("revoke", channel, "nobody")).rejects.toMatchObject({ code: 1, stderr: expect.stringContaining("Nobody is paired") });
  });

  it("[SC1] no more than three codes wait at a time", async () => {
    const { telegram } = scene;
    const strangers = [701, 702, 703, 704];
    for (const chat of strangers) telegram.say({ chat, text: "let me in" });
    await roundTrip();
    expect(strangers.map((chat) => telegram.messages(chat).length)).toEqual([1, 1, 1, 0]);
    expect(scene.model.calls.some(({ messages }) => messages.some(({ text }) => text === "let me in"))).toBe(false);
  });
});

describe("bots", () => {
  it("[SC5] TG-011 SL-009 the bot hears neither itself nor other bots nor anonymous senders, whatever lists they are on", async () => {
    const { telegram, slack, model } = scene;
    const asked = model.calls.length;
    const base = { message_id: 1, date: 1, chat: { id: TEAM, type: "supergroup" } };
    const bot = { id: PERSON, is_bot: true, first_name: "Bot" };
    telegram.inject({ message: { ...base, from: bot, text: "/subagents spawn work" } });
    telegram.inject({ message: { ...base, from: { ...bot, id: telegram.botId }, text: "hello me" } });
    telegram.inject({ message: { ...base, from: { ...bot, is_bot: false }, sender_chat: { id: TEAM }, text: "hello from nobody" } });
    slack.say({ channel: "C0TEAM", text: "hello from a bot", extra: { bot_id: "B0OTHER" } });
    slack.say({ channel: "C0TEAM", text: "!subagents spawn work", extra: { subtype: "bot_message", bot_id: "B0OTHER" } });
    slack.say({ channel: "C0TEAM", user: slack.botUser, text: "hello me" });
    await slack.until(() => slack.pending().length === 0, "all acknowledgements");
    await roundTrip();
    expect(model.calls).toHaveLength(asked);
    expect(telegram.messages(TEAM).length + slack.messages("C0TEAM").length).toBe(0);
    expect(count("runs")).toBe(0);
  });
});

describe("groups and channels", () => {
  it("[SC1] must be listed, the bot mentioned, and the sender on the group's list or the channel's", async () => {
    const { telegram, slack } = scene;
    const named = (text: string): string => `@${telegram.username} ${text}`;
    telegram.say({ chat: -1009, from: PERSON, text: named("t-unlisted") });
    telegram.say({ chat: GROUP, from: PERSON, text: "t-unmentioned" });
    telegram.say({ chat: GROUP, from: MEMBER, text: named("t-not-on-this-list") });
    telegram.say({ chat: TEAM, from: 99, text: named("t-nobody") });
    slack.mention({ channel: "C0OTHER", text: "s-unlisted" });
    slack.say({ channel: ROOM, text: "s-unmentioned" });
    slack.mention({ channel: ROOM, user: "U0MEMBER", text: "s-not-on-this-list" });
    slack.mention({ channel: "C0TEAM", user: "U0NOBODY", text: "s-nobody" });
    telegram.say({ chat: GROUP, from: PERSON, text: named("t-mentioned") });
    telegram.say({ chat: TEAM, from: MEMBER, text: "t-member" });
    telegram.say({ chat: TEAM, from: PERSON, text: "t-person" });
    slack.mention({ channel: ROOM, text: "s-mentioned" });
    slack.say({ channel: "C0TEAM", user: "U0MEMBER", text: "s-member" });
    slack.say({ channel: "C0TEAM", text: "s-person" });
    const welcome = ["t-mentioned", "t-member", "t-person", "s-mentioned", "s-member", "s-person"];
    await waitFor("all answers", () => welcome.every(heard));
    await roundTrip();
    const words = scene.model.calls.flatMap(({ messages }) => messages.map(({ text }) => text)).join("\n");
    expect(words.match(/[ts]-(?:un|no)[a-z-]+/g)).toBeNull();
    expect(telegram.messages(-1009).length + slack.messages("C0OTHER").length).toBe(0);
  });
});

describe("every way in", () => {
  /** What a stranger must not change. */
  const effects = () => ({
    ...{ runs: count("runs"), running: count("runs WHERE state = 'running'"), sessions: count("sessions"), mail: count("run_messages") },
    ...{ waiting: count("inbox WHERE state <> 'done'"), answers: count("outbox"), codes: count("pairing_codes"), people: count("people") },
    model: scene.model.calls.length,
    signs: scene.telegram.actions.length + scene.slack.statuses.length,
    seen: scene.telegram.allMessages().length + scene.slack.allMessages().length,
    reactions: [...scene.telegram.history(GROUP), ...scene.slack.history(ROOM)].flatMap(({ reactions }) => reactions).length,
  });
  /** The two words of roundTrip and their answers. */
  const ownEffects = { answers: 2, seen: 2 };

  let line = { telegram: 0, slack: "", root: "", runId: "", stop: "" };
  beforeAll(async () => {
    const { telegram, slack } = scene;
    const task = plan([spawns(child("keeps working", "done"))]);
    telegram.say({ chat: GROUP, from: PERSON, text: `@${telegram.username} ${task}` });
    const root = slack.mention({ channel: ROOM, text: task });
    const started = await telegram.until(() => telegram.messages(GROUP).find(({ buttons }) => buttons.length > 0), "the status message");
    const other = await slack.until(() => slack.messages(ROOM, root).find(({ buttons }) => buttons.length > 0), "the status message");
    await waitFor("both to run", () => count("runs WHERE state = 'running'") === 2);
    const runId = scene.herald.rows<{ id: string }>("SELECT id FROM runs WHERE requester_key LIKE '%:telegram:%'")[0]?.id ?? "";
    line = { telegram: started.id, slack: other.ts, root, runId, stop: started.buttons[0]?.data ?? "" };
    // All signs of the two turns are over, so that whatever changes from here on is a stranger's doing.
    const own = () => [...telegram.history(GROUP), ...slack.history(ROOM)].filter(({ text }) => text.includes("keeps working"));
    await waitFor("the receipts", () => own().filter(({ fromBot, reactions }) => !fromBot && reactions.length > 0).length === 2);
    await waitFor("the replies", () => count("inbox WHERE state <> 'done'") + count("outbox WHERE state <> 'sent'") === 0);
    await slack.until(() => slack.statuses.findLast(({ thread }) => thread === root)?.status === "", "the end of the status");
  });

  /** By the kind of update; every kind that is asked for stands here. */
  const TELEGRAM: Record<string, (from: number, chat: number) => void> = {
    message(from, chat) {
      for (const text of [
        "hello",
        "/stop",
        "stop",
        "/subagents stop all",
        "/subagents spawn work for me",
        "/new",
        "/model offline/rules",
      ]) {
        scene.telegram.say({ chat, from, text: chat > 0 ? text : `@${scene.telegram.username} ${text}` });
        if (chat < 0) scene.telegram.say({ chat, from, text: text.replace(/^\/(\w+)/, `/$1@${scene.telegram.username}`) });
      }
    },
    callback_query(from, chat) {
      scene.telegram.press({ chat, from, message: line.telegram, data: `/subagents stop ${line.runId}` });
      scene.telegram.press({ chat, from, message: line.telegram, data: "/stop" });
      scene.telegram.press({ chat, from, message: line.telegram, data: `approve:${line.runId}` });
    },
    // Only in private chats; in any other it is made up.
    stopped_message_generation(from, chat) {
      for (const [id, type] of [
        [from, "private"],
        [chat, "supergroup"],
      ] as const) {
        scene.telegram.inject({ stopped_message_generation: { chat: { id, type, first_name: "X" }, draft_id: 1 } });
      }
    },
  };
  const SLACK: Record<string, (user: string) => void> = {
    "message.channels": (user) =>
      ["!stop", "!subagents stop all", "hello"].forEach((text) => void scene.slack.say({ channel: ROOM, thread: line.root, user, text })),
    "message.groups": (user) => void scene.slack.say({ channel: "G0PRIVATE", user, text: "!stop" }),
    "message.im": (user) =>
      ["/stop", "hello", "!subagents spawn work"].forEach((text) => void scene.slack.say({ channel: `D0${user}`, user, text })),
    "message.mpim": (user) => void scene.slack.say({ channel: "G0MANY", user, text: "!stop", extra: { channel_type: "mpim" } }),
    app_mention: (user) => ["/stop", "hello"].forEach((text) => void scene.slack.mention({ channel: ROOM, thread: line.root, user, text })),
    agent_session_stopped: (user) => void scene.slack.inject({ type: "agent_session_stopped", channel: ROOM, thread_ts: line.root, user }),
    app_home_opened: (user) => void scene.slack.inject({ type: "app_home_opened", channel: `D0${user}`, user, tab: "home" }),
    slash_commands: (user) => {
      for (const [command, text] of [
        ["/stop", ""],
        ["/subagents", "stop all"],
        ["/subagents", "spawn work"],
      ] as const) {
        for (const channel of [ROOM, `D0${user}`]) void scene.slack.slash({ channel, user, command, text });
      }
    },
    interactivity: (user) => void scene.slack.press({ channel: ROOM, message: line.slack, label: "Stop", user }),
  };

  it("[SC2] this list is complete: Telegram's kinds of update, the manifest's events, commands and buttons", () => {
    expect(Object.keys(TELEGRAM).sort()).toEqual([...ALLOWED_UPDATES].sort());
    const manifest = load(readFileSync(join(ROOT, "config/slack-manifest.yaml"), "utf8")) as {
      features: { slash_commands: { command: string }[] };
      settings: { event_subscriptions: { bot_events: string[] } };
    };
    expect(Object.keys(SLACK).sort()).toEqual(
      [...manifest.settings.event_subscriptions.bot_events, "slash_commands", "interactivity"].sort(),
    );
    expect(manifest.features.slash_commands.map(({ command }) => command).sort()).toEqual(["/stop", "/subagents"]);
  });

  it("[SC2] what a channel records is read in one place, and the gate is asked there", async () => {
    const filesWith = async (call: RegExp): Promise<string[]> => {
      const found: string[] = [];
      for await (const file of glob("src/**/*.ts", { cwd: ROOT })) if (call.test(readFileSync(join(ROOT, file), "utf8"))) found.push(file);
      return found;
    };
    const [rows, gate] = [join("src", "gateway", "gateway.ts"), join("src", "gateway", "accepting.ts")];
    expect(await filesWith(/\.listNew\(/)).toEqual([rows]);
    expect(await filesWith(/\.authorize\(/)).toEqual([gate]);
    // What looks at the rows does nothing with them but hand them to the gate.
    const looking = readFileSync(join(ROOT, rows), "utf8");
    expect(looking.match(/accepting\.accept\(/g)).toHaveLength(1);
    expect(looking).not.toMatch(/\.(?:decode|route|answer|carryOut)\(|\.commands\b|lane\.ring\(row/);
  });

  it.each(Object.keys(TELEGRAM))("[SC2][CM9] TG-021 Telegram %s of a stranger: no reaction, no effect", async (kind) => {
    const before = effects();
    TELEGRAM[kind]?.(701, GROUP);
    if (kind === "message") TELEGRAM[kind]?.(701, 701);
    await roundTrip();
    await scene.telegram.until(() => scene.telegram.pending().length === 0, "all updates to be taken");
    expect(effects()).toEqual({ ...before, answers: before.answers + ownEffects.answers, seen: before.seen + ownEffects.seen });
  });

  it("[SC1] strangers on Telegram hold all places: one on Slack gets a code all the same, and nothing else", async () => {
    scene.slack.say({ channel: "D0U0INTRUDER", user: "U0INTRUDER", text: "let me in" });
    await scene.slack.until(() => scene.slack.messages("D0U0INTRUDER").length === 1, "the code");
    await roundTrip();
    expect(count(`pairing_codes WHERE expires_at > ${Date.now()}`)).toBe(3);
  });

  it.each(Object.keys(SLACK))("[SC2][CM9] SL-017 Slack %s of a stranger: no reaction, no effect", async (kind) => {
    const before = effects();
    SLACK[kind]?.("U0INTRUDER");
    await scene.slack.until(() => scene.slack.pending().length === 0, "all payloads to be acknowledged");
    await roundTrip();
    expect(effects()).toEqual({ ...before, answers: before.answers + ownEffects.answers, seen: before.seen + ownEffects.seen });
  });

  it("[ST1][SC1] a bare stop among people is not for the bot where it must be mentioned; said to it, it is", async () => {
    const running = (): number => count("runs WHERE state = 'running' AND requester_key LIKE '%:telegram:%'");
    for (const text of ["stop", "abort", "esc"]) scene.telegram.say({ chat: GROUP, from: PERSON, text });
    const before = scene.telegram.messages(GROUP).length;
    await roundTrip();
    expect([running(), scene.telegram.messages(GROUP).length]).toEqual([1, before]);
    scene.telegram.say({ chat: GROUP, from: PERSON, text: `@${scene.telegram.username} stop` });
    await scene.telegram.until(() => scene.telegram.messages(GROUP).length > before, "the answer");
    expect(running()).toBe(0);
  });

  it("[SC2][SC3] every route of the page but health, sign-in and the page itself wants the token", async () => {
    const web = await startWeb();
    const routes = [...(await web.server.routes()), { method: "GET", path: "/metrics", access: "token" as const }];
    await web.close();
    const before = effects();
    for (const { method, path, access } of routes) {
      const url = `${scene.herald.origin()}${path.replace(/:\w+/g, "main")}`;
      const headers = { "content-type": "application/json", origin: scene.herald.origin() };
      const { status } = await fetch(url, { method, headers, ...(method === "POST" ? { body: '{"id":"x","text":"/stop"}' } : {}) });
      if (access === "token") expect(status, `${method} ${path}`).toBe(401);
    }
    expect(effects()).toEqual(before);
  });

  it("[SC2] the same press by somebody allowed does stop it", async () => {
    const { telegram, slack } = scene;
    // Its message may have lost the button: that run was stopped above.
    telegram.press({ chat: GROUP, from: PERSON, message: line.telegram, data: line.stop });
    void slack.press({ channel: ROOM, message: line.slack, label: "Stop" });
    await waitFor("both to be stopped", () => count("runs WHERE state = 'stopped'") === 2);
    door.open();
  });
});
