// Two Telegram bots and two Slack workspaces through one real process (CH1): the same person, the same chats and threads, the same numbers of
// updates and messages at both of a kind. Nothing that is said to one is answered, asked, edited, stopped or announced by the other.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Address } from "../../src/core/address.ts";
import { chatKey, newId, subagentKey } from "../../src/core/ids.ts";
import { calls, child, plan, spawns, whoAsks } from "../support/brain.ts";
import { BROWSER_NOTE, hasBrowser, useBrowser } from "../support/browser.ts";
import { createDoor, newestWords, obey } from "../support/channel-scene.ts";
import { createFakeOpenAi } from "../support/fake-openai.ts";
import { createFakeSlack, type FakeSlack } from "../support/fake-slack.ts";
import { createFakeTelegram, type FakeTelegram } from "../support/fake-telegram.ts";
import type { Harness } from "../support/harness.ts";
import { createHerald, isShared } from "../support/nodes.ts";
import { reload } from "../support/reload.ts";
import { cliOf } from "../support/run-cli.ts";
import { scriptedConfig } from "../support/scripted-model.ts";
import { waitFor } from "../support/wait.ts";

const PERSON = 42;
const STRANGER = 77;
const GROUP = -1001;
const TOPIC = 7;
const ROOM = "C0ROOM";
const variable = (name: string) => `\${${name}}`;
const CLIENT_TOKENS = { CLIENT_BOT_TOKEN: "", CLIENT_APP_TOKEN: "" };

let herald: Harness;
let first: FakeTelegram;
let work: FakeTelegram;
let home: FakeSlack;
let client: FakeSlack;
let settings: Record<string, unknown>;
let closeModel: () => Promise<void>;
const door = createDoor();

beforeAll(async () => {
  const model = await createFakeOpenAi({
    respond: async (request, call) => {
      if (whoAsks(request) === "child" && newestWords(request).includes("slowly")) await door.opened;
      return obey(request, call);
    },
  });
  closeModel = () => model.close();
  [first, work, home, client] = await Promise.all([
    createFakeTelegram(),
    createFakeTelegram({ token: "7000002:fake-token-of-work-0123456789", username: "work_test_bot" }),
    createFakeSlack({ ackTimeoutMs: 300 }),
    createFakeSlack({ ackTimeoutMs: 300, team: "CLIENT" }),
  ]);
  const people = { allowFrom: [String(PERSON)], groups: { [GROUP]: { requireMention: false } } };
  const rooms = { allowFrom: ["U0PERSON"], channels: { [ROOM]: { requireMention: false } } };
  const channels = {
    telegram: {
      ...{ botToken: first.token, apiRoot: first.apiRoot, ...people },
      accounts: { work: { botToken: work.token, apiRoot: work.apiRoot, ...people } },
    },
    slack: {
      ...{ botToken: home.botToken, appToken: home.appToken, apiUrl: home.apiUrl, ...rooms },
      // Tokens of a named account come from variables that its settings name.
      accounts: {
        client: { botToken: variable("CLIENT_BOT_TOKEN"), appToken: variable("CLIENT_APP_TOKEN"), apiUrl: client.apiUrl, ...rooms },
      },
    },
  };
  Object.assign(CLIENT_TOKENS, { CLIENT_BOT_TOKEN: client.botToken, CLIENT_APP_TOKEN: client.appToken });
  settings = scriptedConfig(model.url, {}, { gateway: { drainSeconds: 0 }, channels });
  herald = await createHerald({ config: settings, env: CLIENT_TOKENS });
  for (const bot of [first, work]) await bot.until(() => bot.calls.some(({ method }) => method === "getUpdates"), "a first poll");
  for (const team of [home, client]) await team.until(() => team.sockets.open() > 0, "a socket");
});
afterAll(async () => {
  try {
    await herald[Symbol.asyncDispose]();
  } finally {
    await Promise.all([closeModel(), first.close(), work.close(), home.close(), client.close()]);
  }
});

const UNSENT = `(SELECT count(*) FROM outbox WHERE state IN ('queued','sending','unknown'))
  + (SELECT count(*) FROM live_messages WHERE state IN ('new','posted'))`;
const delivered = () => waitFor("nothing left to send", () => herald.rows<{ n: number }>(`SELECT ${UNSENT} AS n`)[0]?.n === 0, 40_000);
const one = (label: string) => plan([spawns(child(label, [{ text: `the ${label} result` }], { briefing: "slowly" }))]);
const announced = (messages: readonly { text: string }[]): string[] =>
  messages.map(({ text }) => text).filter((text) => text.includes("Stats: runtime"));
const runs = () =>
  herald.rows<{ label: string; state: string; root_key: string }>("SELECT label, state, root_key FROM runs ORDER BY label");

describe("the same chat at two accounts", () => {
  it("[CH1][AN3][SP7] is two sessions; a stop at one leaves the other; after kill -9 each bot announces its own in its own thread", {
    timeout: 120_000,
  }, async () => {
    const roots = [home, client].map((team) => team.say({ channel: ROOM, text: "a thread begins" }));
    for (const [n, team] of [home, client].entries()) await team.until(() => team.messages(ROOM, roots[n]).length === 1, "its answer");
    first.say({ chat: GROUP, thread: TOPIC, from: PERSON, text: one("first") });
    work.say({ chat: GROUP, thread: TOPIC, from: PERSON, text: one("work") });
    home.say({ channel: ROOM, thread: roots[0] as string, text: one("home") });
    client.say({ channel: ROOM, thread: roots[1] as string, text: one("client") });
    for (const bot of [first, work]) bot.say({ chat: PERSON, text: `a private word to ${bot.username}` });
    await waitFor("four runs", () => runs().length === 4, 40_000);
    for (const bot of [first, work])
      await bot.until(() => bot.messages(PERSON).length === 1 && bot.messages(GROUP, TOPIC).length === 2, "its answers");
    for (const [n, team] of [home, client].entries()) await team.until(() => team.messages(ROOM, roots[n]).length === 3, "its answers");
    expect(runs().map(({ label, root_key }) => [label, root_key])).toEqual([
      ["client", `agent:main:slack@client:channel:c0room:thread:${roots[1]}`],
      ["first", `agent:main:telegram:group:${GROUP}:topic:${TOPIC}`],
      ["home", `agent:main:slack:channel:c0room:thread:${roots[0]}`],
      ["work", `agent:main:telegram@work:group:${GROUP}:topic:${TOPIC}`],
    ]);
    for (const bot of [first, work]) expect(bot.messages(PERSON)[0]?.text).toBe(`heard: a private word to ${bot.username}`);

    work.say({ chat: GROUP, thread: TOPIC, from: PERSON, text: "/stop" });
    await work.until(() => work.messages(GROUP, TOPIC).some(({ text }) => text.includes("Stopped 1 sub-agent.")), "the stop");
    await delivered();
    await herald.crash();
    await herald.restart();
    door.open();
    await first.until(() => announced(first.messages(GROUP, TOPIC)).length > 0, "the first bot's announcement", 40_000);
    for (const [n, team] of [home, client].entries())
      await team.until(() => announced(team.messages(ROOM, roots[n])).length > 0, "the workspace's announcement", 40_000);
    await delivered();
    expect(runs().map(({ label, state }) => [label, state])).toEqual([
      ["client", "done"],
      ["first", "done"],
      ["home", "done"],
      ["work", "stopped"],
    ]);
    const said = [first, work, home, client].map((one) => announced(one.allMessages()));
    expect(said.map((texts) => texts.map((text) => /the (\w+) result/.exec(text)?.[1]))).toEqual([["first"], [], ["home"], ["client"]]);
    expect(announced(first.messages(GROUP, TOPIC))).toHaveLength(1);
    const texts = [first, work].map((bot) =>
      bot
        .messages(GROUP, TOPIC)
        .map(({ text }) => text)
        .join("\n"),
    );
    expect([texts[0]?.includes("aborted"), texts[1]?.includes("aborted")]).toEqual([false, true]);
  });

  it("[CH1][QA1][QA3] a question of one is answered there: not by a press, a reply or a command at the other", async () => {
    const asks = plan([calls(["ask", { question: "Which way?", options: ["left", "right"] }])]);
    work.say({ chat: PERSON, text: asks });
    const question = await work.until(() => work.messages(PERSON).find(({ text }) => text.includes("Which way?")), "the question");
    const [button] = question.buttons.flat();
    // The other bot shows a message under the same number, and somebody has the press of the first one's button ready.
    first.say({ chat: PERSON, text: "a word" });
    const own = await first.until(() => first.messages(PERSON).find(({ text }) => text === "heard: a word"), "an answer");
    first.press({ chat: PERSON, message: own.id, data: button?.data ?? "" });
    first.say({ chat: PERSON, text: "left", replyTo: own.id });
    await first.until(() => first.messages(PERSON).some(({ text }) => text === "heard: left"), "plain words are plain words there");
    const open = () => herald.rows<{ state: string }>("SELECT state FROM questions")[0]?.state;
    expect(open()).toBe("open");
    work.press({ chat: PERSON, message: question.id, label: "left" });
    await work.until(
      () => work.messages(PERSON).some(({ text }) => text.includes("results:") && text.includes("left")),
      "the answer is read",
    );
    expect(open()).toBe("answered");
    await delivered();
    expect(first.allMessages().some(({ text }) => text.includes("Which way?"))).toBe(false);
  });

  it("[CH1][SC1] a stranger is let in at one and stays one at the other; who is told by whom is seen by the operator", async () => {
    for (const bot of [first, work]) bot.say({ chat: STRANGER, text: "let me in" });
    const codeOf = async (bot: FakeTelegram) =>
      /[A-Z2-9]{8}/.exec((await bot.until(() => bot.messages(STRANGER)[0], "a pairing code")).text)?.[0] ?? "";
    const [mine, theirs] = [await codeOf(first), await codeOf(work)];
    expect(mine).not.toBe(theirs);
    const people = async () =>
      (await (await herald.request("/api/pairing")).json()) as {
        waiting: { channel: string; code: string }[];
        people: { channel: string }[];
      };
    expect((await people()).waiting.map(({ channel, code }) => [channel, code]).sort()).toEqual([
      ["telegram", mine],
      ["telegram@work", theirs],
    ]);
    expect((await herald.request("/api/pairing", { method: "POST", body: JSON.stringify({ code: theirs }) })).status).toBe(200);
    await work.until(() => work.messages(STRANGER).length === 2, "the welcome");
    for (const bot of [first, work]) bot.say({ chat: STRANGER, text: "hello" });
    await work.until(() => work.messages(STRANGER).some(({ text }) => text === "heard: hello"), "an answer");
    await first.until(() => first.pending().length === 0, "the other to be taken");
    await delivered();
    expect(first.messages(STRANGER)).toHaveLength(1);
    expect((await people()).people.map(({ channel }) => channel)).toEqual(["telegram@work"]);
  });

  it("[CH1][CF4] who may write at one account is changed by a reload, and at that one only", async () => {
    const NEW = 99;
    const changed = JSON.parse(JSON.stringify(settings)) as { channels: { telegram: { accounts: { work: { allowFrom: string[] } } } } };
    changed.channels.telegram.accounts.work.allowFrom.push(String(NEW));
    await reload(herald, changed);
    for (const bot of [first, work]) bot.say({ chat: NEW, text: "hello" });
    expect((await work.until(() => work.messages(NEW)[0], "an answer")).text).toBe("heard: hello");
    expect((await first.until(() => first.messages(NEW)[0], "a code")).text).toContain("pairing code");
    await delivered();
  });
});

describe("what people read of accounts", () => {
  it("[CH1][RN2][CM8] start lines, /status, the log, figures, the board and its filters name them", async () => {
    expect(herald.output()).toMatch(/^Channel: +telegram: \w+$/m);
    expect(herald.output()).toMatch(/^Channel: +telegram@work: \w+$/m);
    expect(herald.output()).toMatch(/^Channel: +slack@client: \w+$/m);
    await herald.say("/status");
    const { text } = await herald.reply(/- telegram@work: on/);
    for (const name of ["telegram", "slack", "slack@client"]) expect(text).toContain(`- ${name}: on`);
    // Each process counts what it sent itself.
    const metrics = await Promise.all(herald.members.map(async (member) => (await member.request("/metrics")).text()));
    expect(metrics.join("\n")).toMatch(/channel="telegram@work"/);
    const lines = async (query: string) =>
      ((await (await herald.request(`/api/board?${query}`)).json()) as { rows: { label: string; origin: string }[] }).rows.map(
        ({ label, origin }) => [label, origin],
      );
    expect(await lines("channel=telegram%40work")).toEqual([["work", `telegram@work ${GROUP}, thread ${TOPIC}`]]);
    expect(await lines("channel=telegram")).toEqual([["first", `telegram ${GROUP}, thread ${TOPIC}`]]);
    const { sessions } = (await (await herald.request("/api/sessions")).json()) as { sessions: { key: string; channel: string }[] };
    const dms = sessions.filter(({ key }) => key.endsWith(`:dm:${PERSON}`)).map(({ channel }) => channel);
    expect(dms.sort()).toEqual(["telegram", "telegram@work"]);
  });

  it.skipIf(isShared)("[CH1][SC4][CL1] no token of an account is in the log; herald pair and doctor know which bot it is", async () => {
    for (const token of [first.token, work.token, client.botToken, client.appToken]) expect(herald.output()).not.toContain(token);
    const run = cliOf(herald);
    const env = CLIENT_TOKENS;
    const doctor = await run(["doctor", "--online"], { env });
    for (const name of ["telegram", "telegram@work", "slack", "slack@client"])
      expect(doctor.out).toMatch(new RegExp(`${name}\\b.*its token is taken`));
    const listed = await run(["pair", "list"], { env });
    expect(listed.out).toContain(`(telegram@work ${STRANGER})`);
    expect((await run(["pair", "revoke", "telegram@work", String(STRANGER)], { env })).out).toContain("may no longer talk");
    work.say({ chat: STRANGER, text: "and now?" });
    await work.until(() => work.messages(STRANGER).at(-1)?.text.includes("pairing code"), "a stranger again");
    await delivered();
  });
});

describe.skipIf(!hasBrowser || isShared)(`rooms of any name on the page${BROWSER_NOTE}`, () => {
  const visit = useBrowser(1400);
  const ROOMS = [
    "!AbC:server.org",
    "!abc:server.org",
    "!a:b",
    "!a%3Ab",
    "!a/../b:x",
    "!<img src=x onerror=document.title=1>:x",
    "!🚪 two  words:x",
    "!\u202egnp:x",
    "é".repeat(127),
  ];

  /** A conversation and a run of it in each, copied from one of Telegram's: no channel is needed to look at them. */
  function putRooms(): string[] {
    using db = new DatabaseSync(join(herald.stateDir, "herald.db"));
    const copy = (table: string, change: Record<string, string>): void => {
      const row = {
        ...db
          .prepare(`SELECT * FROM ${table} WHERE ${table === "runs" ? "label = 'first'" : `key = 'agent:main:telegram:dm:${PERSON}'`}`)
          .get(),
        ...change,
      };
      const names = Object.keys(row).filter((name) => name !== "seq");
      db.prepare(`INSERT INTO ${table} (${names.join(", ")}) VALUES (${names.map(() => "?").join(", ")})`).run(
        ...names.map((name) => row[name as keyof typeof row] as string),
      );
    };
    return ROOMS.map((chat, n) => {
      const address: Address = { channel: "matrix", account: "@bot:x", chat, kind: "group" };
      const key = chatKey("main", address);
      const id = newId();
      copy("sessions", { id, key, address: JSON.stringify(address) });
      copy("runs", {
        id: newId(),
        spawn_key: `room ${n}`,
        child_key: subagentKey("main", newId()),
        session_id: newId(),
        label: `room ${n}`,
        requester_key: key,
        root_key: key,
        address: JSON.stringify(address),
      });
      return key;
    });
  }

  it("[CH1][WB4] each has lines and an address of its own, however it is called, and none is more than text", async () => {
    const keys = putRooms();
    const token = readFileSync(join(herald.stateDir, "sign-in-link"), "utf8").trim().split("#token=")[1] ?? "";
    const page = await visit.open(herald.origin(), token);
    const shown = async (query: Record<string, string>, wanted: readonly string[]): Promise<void> => {
      await page.goto(`${herald.origin()}/#/runs?${new URLSearchParams(query)}`);
      const labels = page.locator(".runs-row .runs-label");
      await waitFor(
        `the lines of ${JSON.stringify(query).slice(0, 80)}`,
        async () => (await labels.allInnerTexts()).sort().join() === wanted.join(),
      );
    };
    await shown(
      { channel: "matrix" },
      ROOMS.map((_, n) => `room ${n}`),
    );
    for (const [n, key] of keys.entries()) await shown({ chat: key }, [`room ${n}`]);
    const { sessions } = (await (await herald.request("/api/sessions")).json()) as { sessions: { key: string }[] };
    expect(sessions.filter(({ key }) => keys.includes(key))).toHaveLength(ROOMS.length);
    await page.goto(`${herald.origin()}/#/`);
    await page.locator("#other-chats summary").click();
    await page.locator("#other-chats-list", { hasText: "!<img src=x" }).waitFor();
    expect(await page.locator("img[src='x']").count()).toBe(0);
    expect(await page.title()).not.toBe("1");
  });
});
