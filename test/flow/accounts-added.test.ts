// From one bot to two and back (CH1), on a state folder of before there were accounts: what was the first bot's stays so, byte for byte, and
// what is the second one's waits while it is gone. The whole app in this process: it is restarted with other settings five times.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { child, plan, spawns, whoAsks } from "../support/brain.ts";
import { createDoor, newestWords, obey } from "../support/channel-scene.ts";
import { createFakeTelegram, type FakeTelegram } from "../support/fake-telegram.ts";
import { createLocalApp, type LocalApp } from "../support/local-app.ts";
import { isShared } from "../support/nodes.ts";
import { waitFor } from "../support/wait.ts";

const PERSON = 42;
const PAIRED = 43;
const GROUP = -1001;

// Rows are written as an earlier version left them, into the file of one process.
describe.skipIf(isShared)("a second bot comes and goes", () => {
  let app: LocalApp;
  let work: FakeTelegram;
  const door = createDoor();
  beforeAll(async () => {
    work = await createFakeTelegram({ token: "7000002:fake-token-of-work-0123456789", username: "work_test_bot" });
    app = await createLocalApp({
      telegram: { allowFrom: [PERSON], groups: { [GROUP]: { requireMention: false } } },
      async respond(request, call) {
        if (whoAsks(request) === "child" && newestWords(request).includes("slowly")) await door.opened;
        return obey(request, call);
      },
    });
    await app.connected();
  });
  afterAll(async () => {
    await app[Symbol.asyncDispose]();
    await work.close();
  });

  const settings = { allowFrom: [PERSON], groups: { [GROUP]: { requireMention: false } } };
  /** Restarts with these accounts beside the first. */
  async function restartWith(accounts: Record<string, unknown>, agents: Record<string, unknown> = {}): Promise<void> {
    const path = join(app.stateDir, "../config/herald.json5");
    const config = JSON.parse(readFileSync(path, "utf8")) as { agents: object; channels: { telegram: { accounts?: unknown } } };
    config.channels.telegram.accounts = accounts;
    config.agents = { ...config.agents, ...agents };
    writeFileSync(path, JSON.stringify(config));
    await app.restart();
  }
  const withWork = (agents = {}) => restartWith({ work: { botToken: work.token, apiRoot: work.apiRoot, ...settings } }, agents);
  const askWork = async (text: string, chat = PERSON): Promise<string> => {
    const before = work.messages(chat).length;
    work.say({ chat, text });
    return (await work.until(() => work.messages(chat)[before], `an answer to ${text}`)).text;
  };
  const change = (sql: string): void => {
    using db = new DatabaseSync(join(app.stateDir, "herald.db"));
    db.exec(sql);
  };
  const sessions = () =>
    app.rows("SELECT key, id FROM sessions WHERE parent_key IS NULL AND key LIKE 'agent:main:telegram:%' ORDER BY created_at");
  const people = () => app.rows("SELECT * FROM people WHERE channel = 'telegram'");
  const run = (label: string) =>
    app.rows<{ state: string; delivery: string; delivery_reason: string | null }>("SELECT * FROM runs WHERE label = ?", label)[0];
  const announced = (bot: FakeTelegram, label: string) =>
    bot.allMessages().filter(({ text }) => text.includes("Stats: runtime") && text.includes(`the ${label} result`));
  const slowly = (label: string) => plan([spawns(child(label, [{ text: `the ${label} result` }], { briefing: "slowly" }))]);

  it("[CH1][SO8] ACC-002 keys, pairing, waiting messages and runs of the first stay as they were; the second is a stranger to them", {
    timeout: 90_000,
  }, async () => {
    // As a version without accounts left it: a person who was let in, and a message that could not leave yet.
    await app.ask({ chat: PERSON, text: "remember me" });
    await app.ask({ chat: GROUP, from: PERSON, text: slowly("first") });
    await waitFor("its run", () => run("first")?.state === "running");
    const bot = app.telegram.botId;
    change(`INSERT INTO people VALUES ('telegram', '${bot}', '${PAIRED}', 'Ann', NULL, 'paired', 1, 1);
      INSERT INTO outbox (delivery, n, parts, address, address_key, part, state, rank, created_at)
        SELECT 'left:over', 0, 1, '{"channel":"telegram","account":"${bot}","chat":"${PERSON}","kind":"dm"}', 'telegram/${bot}/${PERSON}/-',
          replace(part, 'heard: remember me', 'left over from before'), 'queued', 1, 1
        FROM outbox WHERE part LIKE '%heard: remember me%'`);
    const before = { sessions: sessions(), people: people() };
    await withWork();
    await app.telegram.until(
      () => app.telegram.messages(PERSON).some(({ text }) => text === "left over from before"),
      "what was left over",
    );
    expect(await app.ask({ chat: PERSON, text: "and now?" })).toBe("heard: and now?");
    expect(app.model.calls.at(-1)?.messages.map(({ text }) => text)).toContain("remember me");
    expect(await app.ask({ chat: PAIRED, text: "still in?" })).toBe("heard: still in?");
    expect(await askWork("hello there")).toBe("heard: hello there");
    expect(app.model.calls.at(-1)?.messages.some(({ text }) => text.includes("remember me"))).toBe(false);
    expect(await askWork("me too?", PAIRED)).toContain("pairing code");
    expect(sessions()).toEqual([...before.sessions, expect.objectContaining({ key: `agent:main:telegram:dm:${PAIRED}` })]);
    expect(people()).toEqual(before.people);
    expect(app.rows("SELECT key FROM sessions WHERE key LIKE 'agent:main:telegram@%'")).toEqual([
      { key: `agent:main:telegram@work:dm:${PERSON}` },
    ]);
    expect(work.allMessages().some(({ text }) => text.includes("left over"))).toBe(false);
  });

  it("[CH1][DL3][RC1] ACC-002 removed, what waits for it is kept under its name and no other bot says it; it follows when it is back", {
    timeout: 90_000,
  }, async () => {
    work.say({ chat: GROUP, from: PERSON, text: slowly("work") });
    await waitFor("its run", () => run("work")?.state === "running");
    await app.settled();
    // A message that is on its way while the account goes.
    work.faults.add("sendMessage", "500", { times: Number.POSITIVE_INFINITY });
    work.say({ chat: PERSON, text: "are you there?" });
    const open = () =>
      app.rows<{ state: string; address_key: string; reason: string | null }>("SELECT * FROM outbox WHERE state NOT IN ('sent','blocked')");
    await waitFor("its answer to wait", () => open().some(({ address_key }) => address_key.startsWith("telegram@work/")));
    await restartWith({});
    work.faults.clear();
    door.open();
    await app.telegram.until(() => announced(app.telegram, "first").length > 0, "the first bot's announcement", 30_000);
    await waitFor("the other's run to end, unsaid", () => run("work")?.state === "done" && run("work")?.delivery === "blocked");
    expect(run("work")).toMatchObject({
      delivery_reason: expect.stringMatching(
        /^the account telegram@work is off or not in the settings; once it is on again, `\/subagents retry/,
      ),
    });
    const waiting = () => open().map(({ address_key }) => address_key);
    await waitFor("the first to have nothing left to send", () => waiting().every((key) => key.startsWith("telegram@work/")));
    expect(waiting()).toEqual([`telegram@work/${work.botId}/${PERSON}/-`]);
    expect(app.telegram.allMessages().some(({ text }) => text.includes("the work result") || text.includes("are you there"))).toBe(false);
    const seen = work.allMessages().length;

    await withWork();
    await work.until(() => work.messages(PERSON).some(({ text }) => text.includes("heard: are you there?")), "what waited for it", 60_000);
    work.say({ chat: GROUP, from: PERSON, text: "/subagents retry last" });
    await work.until(() => announced(work, "work").length > 0, "its announcement");
    await app.settled();
    expect([announced(work, "work"), announced(app.telegram, "first")].map((all) => all.length)).toEqual([1, 1]);
    expect(work.allMessages().length).toBeGreaterThan(seen);
    expect(app.telegram.allMessages().some(({ text }) => text.includes("the work result"))).toBe(false);
    expect(app.rows("SELECT key FROM sessions WHERE key LIKE 'agent:main:telegram@%' ORDER BY key")).toEqual([
      { key: `agent:main:telegram@work:dm:${PERSON}` },
      { key: `agent:main:telegram@work:group:${GROUP}` },
    ]);
  });

  it("[CH1][AP1] results that are to go to an account are posted by that one, whoever asked", { timeout: 60_000 }, async () => {
    await withWork({
      list: [{ id: "main", subagents: { announce: { to: { channel: "telegram", account: "work", chat: String(GROUP) } } } }],
    });
    await app.ask({ chat: PERSON, text: plan([spawns(child("elsewhere", "the elsewhere result"))]) });
    const [posted] = await work.until(
      () => (announced(work, "elsewhere").length > 0 ? announced(work, "elsewhere") : null),
      "the announcement",
    );
    expect([posted?.chat, posted?.text]).toEqual([GROUP, expect.stringContaining("in a direct chat on Telegram")]);
    await askWork(plan([spawns(child("and back", "the and back result"))]), PERSON);
    const [other] = await work.until(() => (announced(work, "and back").length > 0 ? announced(work, "and back") : null), "the other one");
    expect([other?.chat, other?.text]).toEqual([GROUP, expect.stringContaining("in a direct chat on Telegram (work)")]);
    await app.settled();
    expect(announced(app.telegram, "elsewhere")).toEqual([]);
  });
});
