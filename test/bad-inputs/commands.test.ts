// Slash commands that try to slip past the parser, the gate or the caller's own session, typed by real senders.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createTelegramChannel } from "../../src/channels/telegram/channel.ts";
import { systemClock } from "../../src/core/clock.ts";
import { newId } from "../../src/core/ids.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { logText, MAX_LOG } from "../../src/subagents/transcript-view.ts";
import { child, plan, repeated, spawns } from "../support/brain.ts";
import { obey } from "../support/channel-scene.ts";
import { createLocalApp, type LocalApp } from "../support/local-app.ts";
import { createStage, okReply } from "../support/stage.ts";
import { isStatusMessage } from "../support/status-message.ts";
import { waitFor } from "../support/wait.ts";

const ANN = 42;
const BOB = 43;
const EVA = 44;
const STRANGER = 99;
const ROOM = "C0ROOM";
const GROUP = -1001;
const STOPPED_NONE = "⚙️ Agent was aborted. Stopped 0 sub-agents.";

let app: LocalApp;
beforeAll(async () => {
  app = await createLocalApp({
    telegram: { allowFrom: [ANN, BOB, EVA], groups: { [GROUP]: {} } },
    slack: { allowFrom: ["U0PERSON"], channels: { [ROOM]: {} } },
  });
  await app.connected();
});
afterAll(async () => app[Symbol.asyncDispose]());

interface RunRow {
  readonly id: string;
  readonly label: string;
  readonly state: string;
  readonly task: string;
}
const runs = (): RunRow[] => app.rows<RunRow>("SELECT id, label, state, task FROM runs ORDER BY created_at");
const run = (label: string): RunRow => {
  const found = runs().find((one) => one.label === label);
  if (found === undefined) throw new Error(`there is no run ${label}`);
  return found;
};

/** Spawns a run that hangs in its model call; resolves when it does. */
async function working(label: string, where: { chat: number; from?: number }): Promise<void> {
  const mention = where.chat < 0 ? `@${app.telegram.username} ` : "";
  app.telegram.say({ ...where, text: mention + plan([spawns(child(label, [{ hang: true }])), { text: `sent ${label}` }]) });
  await waitFor(`${label} to work`, () => runs().some((one) => one.label === label && one.state === "running"));
  await waitFor("the turn to end", () => app.telegram.messages(where.chat).some(({ text }) => text === `sent ${label}`));
}

describe("what is a command", () => {
  it("[CM1] CMD-006 invisible characters neither hide a command nor reach a log line", async () => {
    const asked = app.model.calls.length;
    for (const text of ["/stop\u200b", "/\u200dstop", "\u202e/stop"]) expect(await app.ask({ chat: ANN, text })).toBe(STOPPED_NONE);
    // What is written about them shows them escaped or not at all.
    expect(await app.ask({ chat: ANN, text: "/model x/\u202ey" })).toContain("is no model name");
    expect(app.model.calls).toHaveLength(asked);
    for (const char of ["\u200b", "\u200d", "\u202e"]) expect(app.logged.join("")).not.toContain(char);
  });

  it("[CM1] CMD-008 /stop@ourbot is /stop, and a command for another bot is none", async () => {
    const before = app.telegram.messages(GROUP).length;
    app.telegram.say({ chat: GROUP, from: ANN, text: "/stop@some_other_bot" });
    expect(await app.ask({ chat: GROUP, from: ANN, text: `/stop@${app.telegram.username.toUpperCase()}` })).toBe(STOPPED_NONE);
    await app.taken();
    expect(app.telegram.messages(GROUP)).toHaveLength(before + 1);
  });

  it("[CM1] CMD-020 a sentence with /stop in the middle is for the model", async () => {
    await working("goes on", { chat: BOB });
    const text = "please do not /stop now";
    expect(await app.ask({ chat: BOB, text })).toBe(`heard: ${text}`);
    expect(run("goes on").state).toBe("running");
  });
});

describe("whose runs", () => {
  it("[CM9] CMD-009 /stop of a group member nobody listed stops nothing and leaves one line with the id", async () => {
    await working("of the group", { chat: GROUP, from: ANN });
    const [said, denied] = [app.telegram.messages(GROUP).length, () => app.lines().filter((line) => line.sender === String(STRANGER))];
    app.telegram.say({ chat: GROUP, from: STRANGER, text: `/stop@${app.telegram.username}` });
    await app.taken();
    await waitFor("the audit line", () => denied().length > 0);
    expect(denied()).toEqual([expect.objectContaining({ audit: "denied", channel: "telegram", chat: String(GROUP) })]);
    expect(app.telegram.messages(GROUP)).toHaveLength(said);
    expect(run("of the group").state).toBe("running");
  });

  it("[ST1] CMD-010 /stop touches the runs of its own chat only", async () => {
    await working("of ann", { chat: ANN });
    expect(await app.ask({ chat: ANN, text: "/stop" })).toBe("⚙️ Agent was aborted. Stopped 1 sub-agent.");
    expect([run("of ann"), run("of the group"), run("goes on")].map(({ state }) => state)).toEqual(["stopped", "running", "running"]);
  });

  it("[CM3] CMD-026 another person's run is answered exactly like one that does not exist", async () => {
    const [foreign, absent] = [run("goes on").id, newId()];
    for (const line of ["send ID do this instead", "stop ID", "log ID", "info ID", "brief ID"]) {
      const [one, other] = [
        await app.ask({ chat: ANN, text: `/subagents ${line.replace("ID", foreign)}` }),
        await app.ask({ chat: ANN, text: `/subagents ${line.replace("ID", absent)}` }),
      ];
      expect(one).toBe(other.replace(absent, foreign));
      expect(one).toContain("There is no sub-agent");
    }
    expect(run("goes on").state).toBe("running");
    expect(app.rows("SELECT * FROM run_messages")).toEqual([]);
  });
});

describe("Slack's own commands, which don't say in which thread they were typed", () => {
  const said = (thread: string): string[] => app.slack.messages(ROOM, thread).map(({ text }) => text);
  const told = (): string[] => app.slack.whispers(ROOM).map(({ text }) => text);

  it("[ST1] /stop and /subagents name the threads that are at work instead of saying that nothing is", async () => {
    const root = app.slack.mention({ channel: ROOM, text: plan([{ hang: true }]) });
    await waitFor("the turn", () => app.rows("SELECT 1 FROM inbox WHERE state = 'waiting'").length === 1);
    const before = told().length;
    for (const command of ["/stop", "/subagents"]) {
      const seen = told().length;
      void app.slack.slash({ channel: ROOM, user: "U0PERSON", command, text: "" });
      await app.slack.until(() => told().length > seen, `an answer to ${command}`);
    }
    const [stop, list] = told().slice(before);
    expect(stop).toBe(
      "Nothing was stopped: nothing is at work in this chat itself. At work in threads of this chat: 1 conversation. Write `!stop` there.",
    );
    expect(list).toMatch(/Active: 0 · Done: 0[\s\S]*At work in threads of this chat: 1 conversation\. Write `!subagents` there\.$/);
    app.slack.say({ channel: ROOM, thread: root, user: "U0PERSON", text: "!stop" });
    await app.slack.until(() => said(root).includes(STOPPED_NONE), "the stop in the thread");
    void app.slack.slash({ channel: ROOM, user: "U0PERSON", command: "/stop", text: "" });
    await app.slack.until(() => told().at(-1) === STOPPED_NONE, "an ordinary answer");
  });
});

describe("arguments", () => {
  it("[CM3] CMD-014 a path is no run: nothing is read", async () => {
    for (const target of ["../../../etc/passwd", "/etc/passwd", "..", "%2e%2e", "agent:main:subagent:../x"]) {
      const answer = await app.ask({ chat: ANN, text: `/subagents log ${target}` });
      expect(answer).toBe(`There is no sub-agent "${target}" in this session. /subagents list shows them.`);
      expect(answer).not.toContain("root:");
    }
  });

  it("[CM8] CMD-016 an open quotation mark is part of the task, never an empty task", async () => {
    const tasks = ['"unterminated quote text', '"', '""'];
    for (const task of tasks) app.telegram.say({ chat: ANN, text: `/subagents spawn ${task}` });
    const settled = (): string[] => app.rows<RunRow>("SELECT task FROM runs WHERE settled_at IS NOT NULL").map(({ task }) => task);
    await waitFor("their announcements", () => tasks.every((task) => settled().includes(task)));
    const before = runs().length;
    expect(await app.ask({ chat: ANN, text: "/subagents spawn   " })).toContain("What should it do?");
    expect(runs()).toHaveLength(before);
  });

  it("[CM8] CMD-019 a model that is a path, a shell expression or endless is refused and changes nothing", async () => {
    const names = [
      "../../x",
      "$(id)",
      "`id`/x",
      "scripted/../../x",
      "x".repeat(4_000),
      "http://127.0.0.1/x",
      "__proto__/x",
      "scripted/a b",
    ];
    for (const name of names) {
      const answer = await app.ask({ chat: ANN, text: `/model ${name}` });
      expect(answer, name.slice(0, 30)).toMatch(/Nothing was changed\.$/);
      expect(answer.length).toBeLessThan(400);
    }
    expect(await app.ask({ chat: ANN, text: "/model" })).toBe("Model of this chat: scripted/model-1 (the default)");
  });

  it("[CM5] CMD-015 an absurd limit gives at most 200 messages, in parts the platform takes", async () => {
    await using stage = await createStage({ clock: systemClock, call: async () => okReply("done"), idle: true });
    const spawned = await stage.spawn();
    const ref = { agentId: spawned.agentId, sessionId: spawned.sessionId };
    const words = "w".repeat(2_000);
    const entries = Array.from({ length: 1_000 }, (_, n) => ({
      type: "message" as const,
      role: "user" as const,
      text: `${n} ${words}`,
      from: "x",
    }));
    await stage.stores.transcripts.append(ref, entries);
    const before = process.memoryUsage().heapUsed;
    const text = await logText(stage.stores.transcripts, spawned, { limit: Number("100000000"), tools: false });
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(100e6);
    expect(text.split("\n\n")).toHaveLength(MAX_LOG);
    expect(text).toContain("999 w");
    const telegram = createTelegramChannel({
      ...{ botToken: app.telegram.token, apiRoot: app.telegram.apiRoot, mode: "polling", announce: "plain" },
      ...{ clock: systemClock, log: silentLogger, timeoutMs: 1_000 },
    });
    const parts = telegram.render({ markdown: text }, { channel: "telegram", account: "1", chat: "1", kind: "dm" });
    for (const part of parts) expect(String(part.text).length).toBeLessThanOrEqual(4_096);
  });
});

// Side by side, each in a chat of its own: their answers leave at a message a second (DL7).
describe.concurrent("floods and other doors", () => {
  it("[SC3] CMD-024 /new over HTTP needs the one token there is; without it the session stays as it is", async () => {
    const token = readFileSync(join(app.stateDir, "web-token"), "utf8").trim();
    const post = (headers: Record<string, string>, more = {}) =>
      fetch(`${app.origin}/api/chats/main/messages`, {
        method: "POST",
        headers: { "content-type": "application/json", origin: app.origin, ...headers },
        body: JSON.stringify({ id: newId(), text: "/new", kind: "message", ...more }),
      });
    const sessions = () => app.rows<{ id: string; ended_at: number | null }>("SELECT id, ended_at FROM sessions WHERE key LIKE '%:web:%'");
    expect((await post({ authorization: `Bearer ${token}` })).status).toBe(202);
    await waitFor("the first session", () => sessions().length === 1);
    const before = sessions();
    for (const headers of [{}, { authorization: `Bearer ${"x".repeat(43)}` }, { cookie: "herald=write" }] as Record<string, string>[]) {
      expect((await post(headers, { scopes: ["admin"], role: "owner" })).status).toBe(401);
    }
    expect(sessions()).toEqual(before);
    expect((await post({ authorization: `Bearer ${token}` })).status).toBe(202);
    await waitFor("the second session", () => sessions().length === 2);
  });

  it("[CM9] CMD-025 a thousand /stop in a second: one takes effect, and a few answers are given", async () => {
    await working("to be stopped", { chat: BOB });
    const before = app.telegram.messages(BOB).length;
    for (let n = 0; n < 1_000; n++) app.telegram.say({ chat: BOB, text: "/stop" });
    await app.taken();
    await app.settled();
    expect(app.rows("SELECT 1 FROM outbox WHERE state <> 'sent'")).toEqual([]);
    const [first, ...others] = app.telegram
      .messages(BOB)
      .slice(before)
      .map(({ text }) => text)
      .filter((text) => !isStatusMessage(text));
    expect(first).toBe("⚙️ Agent was aborted. Stopped 2 sub-agents.");
    // One for each batch of updates at most: those in it are answered together.
    expect(others.length).toBeLessThanOrEqual(15);
    expect(new Set(others)).toEqual(new Set([STOPPED_NONE]));
    expect(app.rows("SELECT 1 FROM inbox WHERE state <> 'done'")).toEqual([]);
  }, 120_000);

  it("[ST1] somebody whose commands are too many is told so once, and can still stop", async () => {
    const before = app.telegram.messages(EVA).length;
    app.telegram.say({ chat: EVA, text: plan([{ hang: true }]) });
    await waitFor("the turn", () => app.rows("SELECT 1 FROM inbox WHERE state = 'waiting'").length === 1);
    for (let n = 0; n < 200; n++) app.telegram.say({ chat: EVA, text: "/subagents list" });
    app.telegram.say({ chat: EVA, text: "/stop" });
    await app.settled();
    const answers = app.telegram
      .messages(EVA)
      .slice(before)
      .map(({ text }) => text);
    expect(answers.at(-1)).toBe(STOPPED_NONE);
    expect(answers.filter((text) => text.startsWith("Too many commands at once"))).toHaveLength(1);
  }, 120_000);

  it("[CM9] KEY-010 guesses of run ids are slowed down like every command, and find nothing", async () => {
    const startedAt = performance.now();
    const before = app.telegram.messages(ANN).length;
    for (let n = 0; n < 500; n++) app.telegram.say({ chat: ANN, text: `/subagents info ${n % 2 === 0 ? newId() : n}` });
    await app.taken();
    await app.settled();
    expect(app.rows("SELECT 1 FROM outbox WHERE state <> 'sent'")).toEqual([]);
    const answers = app.telegram
      .messages(ANN)
      .slice(before)
      .filter(({ text }) => !isStatusMessage(text));
    expect(answers.length).toBeGreaterThan(0);
    expect(answers.length).toBeLessThan(80 + (performance.now() - startedAt) / 100);
    for (const { text } of answers) expect(text).toMatch(/^There is no (?:sub-agent|number)|^The numbers come from|^Too many commands/);
  }, 120_000);
});

it("[RN4] a /compact under way holds up a graceful stop no longer than a turn does, and is answered once", async () => {
  await using own = await createLocalApp({
    telegram: { allowFrom: [ANN] },
    respond: (request, call) => (request.system.startsWith("[COMPACTION]") ? { hang: true } : obey(request, call)),
  });
  own.telegram.say({ chat: ANN, text: plan([{ text: repeated(25_000, "word ") }]) });
  await waitFor("a long answer", () => own.rows("SELECT 1 FROM outbox").length > 0);
  await own.settled();
  const before = own.telegram.messages(ANN).length;
  own.telegram.say({ chat: ANN, text: "/compact" });
  await waitFor("the model at work", () => own.model.open === 1);
  await own.restart();
  await own.settled();
  const answers = own.telegram.messages(ANN).slice(before);
  expect(answers.map(({ text }) => text)).toEqual(["Summing up was stopped; nothing was changed."]);
  await waitFor("the model to hear of it", () => own.model.calls.at(-1)?.clientClosed === true);
}, 120_000);
