// The announce policy through a real process, with Telegram and Slack around it: results go where the settings say, and where a
// platform refuses that, nowhere else.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { child, plan, repeated, spawns } from "../support/brain.ts";
import { type ChannelScene, createChannelScene } from "../support/channel-scene.ts";
import { isShared } from "../support/nodes.ts";
import { waitFor } from "../support/wait.ts";

const PERSON = 42;
const GROUP = -1001;
const TOPIC = 77;
const ROOM = "C0ROOM";
const DIRECT = "D0PERSON";
const LOUNGE = -2002;

const people = {
  telegram: { allowFrom: [String(PERSON)], groups: { [GROUP]: { requireMention: false } } },
  slack: { allowFrom: ["U0PERSON"], channels: { [ROOM]: { requireMention: false } } },
};
const agents = (announce: unknown): Record<string, unknown> => ({ agents: { list: [{ id: "main", subagents: { announce } }] } });
const sends = (label: string, result: string): string => plan([spawns(child(label, result)), { text: `sent ${label}` }]);
const isAnnouncement = ({ text }: { text: string }): boolean => /Status: \w+/.test(text);

interface Row {
  readonly id: string;
  readonly delivery: string;
  readonly delivery_reason: string | null;
}
const runOf = (scene: ChannelScene, label: string): Row | undefined =>
  scene.herald.rows<Row>("SELECT id, delivery, delivery_reason FROM runs WHERE label = ?", label)[0];
const reached = (scene: ChannelScene, label: string, delivery: string): Promise<Row> =>
  waitFor(`${label} to be ${delivery}`, () => {
    const run = runOf(scene, label);
    return run?.delivery === delivery ? run : null;
  });
const boardLine = async (scene: ChannelScene, id: string): Promise<{ delivery: string; facts: { deliveryReason: string | null } }> => {
  const { run, facts } = (await (await scene.herald.request(`/api/runs/${id}`)).json()) as {
    run: { delivery: string };
    facts: { deliveryReason: string | null };
  };
  return { delivery: run.delivery, facts };
};

describe('[AP1] to: "dm"', () => {
  let scene: ChannelScene;
  beforeAll(async () => {
    scene = await createChannelScene({ ...people, config: agents({ to: "dm" }), expectsErrors: true });
    await scene.connected();
  });
  afterAll(async () => scene[Symbol.asyncDispose]());

  it("[AP1][NV3] asked for in a Telegram topic, it is announced to the person alone, says where it was asked for, and the model knows", async () => {
    const { telegram, model } = scene;
    telegram.chats.add(PERSON);
    telegram.say({ chat: GROUP, thread: TOPIC, from: PERSON, text: sends("alpha", "the alpha result") });
    const seen = await telegram.until(() => telegram.messages(PERSON).find(isAnnouncement), "the announcement");
    expect(seen.text).toMatch(/^Sub-agent: alpha \(asked for by User 42 in the Telegram group -1001, topic 77\)\n\nStatus: success\n/);
    expect(seen.text).toContain("the alpha result");
    await reached(scene, "alpha", "delivered");
    expect(telegram.messages(GROUP).filter(isAnnouncement)).toEqual([]);
    telegram.say({ chat: GROUP, thread: TOPIC, from: PERSON, text: "and now?" });
    await telegram.until(() => telegram.messages(GROUP).some(({ text }) => text === "heard: and now?"), "the answer");
    expect(
      model.calls
        .at(-1)
        ?.messages.map(({ text }) => text)
        .join("\n"),
    ).toContain("Its announcement was posted, not in this chat but to the person who asked, in their direct chat: they have seen it.");
  });

  it("[AP1][AN10] asked for in a Slack thread, the direct chat is opened and gets all of it, the file too", async () => {
    const { slack } = scene;
    const root = slack.say({ channel: ROOM, text: "a thread begins" });
    slack.say({ channel: ROOM, thread: root, text: sends("beta", "the beta result") });
    await slack.until(() => slack.messages(DIRECT).some(({ text }) => text.includes("the beta result")), "the announcement");
    expect(slack.messages(DIRECT).find(isAnnouncement)?.text).toContain(
      `(asked for by U0PERSON in the Slack channel ${ROOM}, thread ${root})`,
    );
    slack.say({ channel: ROOM, thread: root, text: sends("gamma", `${repeated(12_000, "words ")}the very end`) });
    await slack.until(
      () => slack.messages(DIRECT).some(({ files }) => files.some(({ content }) => content.includes("the very end"))),
      "the file",
    );
    await reached(scene, "gamma", "delivered");
    expect(slack.messages(ROOM).filter(isAnnouncement)).toEqual([]);
  });

  it("[AP1] what is asked for in a direct chat or on the page is announced there", async () => {
    const { telegram, herald } = scene;
    telegram.say({ chat: PERSON, text: sends("delta", "the delta result") });
    await telegram.until(() => telegram.messages(PERSON).some(({ text }) => text.startsWith("Sub-agent: delta\n")), "the announcement");
    await herald.say(sends("epsilon", "the epsilon result"));
    await waitFor("the page's", async () => (await herald.announcements()).some(({ text }) => text.startsWith("**Sub-agent: epsilon**\n")));
  });

  it("[AP1] POLI-006 Telegram: never opened is blocked with that reason, on list and board, not posted in the group, and retry works later", async () => {
    const { telegram, herald } = scene;
    telegram.chats.block(PERSON, "unopened");
    telegram.say({ chat: GROUP, thread: TOPIC, from: PERSON, text: sends("zeta", "the zeta result") });
    const { id, delivery_reason: reason } = await reached(scene, "zeta", "blocked");
    expect(reason).toContain("bot can't initiate conversation with a user");
    telegram.say({ chat: GROUP, thread: TOPIC, from: PERSON, text: "/subagents list" });
    await telegram.until(
      () => telegram.messages(GROUP, TOPIC).some(({ text }) => /zeta.*not delivered: .*can't initiate conversation/.test(text)),
      "the list",
    );
    expect(await boardLine(scene, id)).toMatchObject({ delivery: "blocked", facts: { deliveryReason: reason } });
    telegram.chats.block(PERSON, null);
    telegram.say({ chat: GROUP, thread: TOPIC, from: PERSON, text: "/subagents retry zeta" });
    await telegram.until(() => telegram.messages(PERSON).some(({ text }) => text.includes("the zeta result")), "the announcement");
    await reached(scene, "zeta", "delivered");
    expect(telegram.messages(GROUP).filter(({ text }) => text.includes("the zeta result"))).toEqual([]);
    expect(herald.rows("SELECT 1 FROM outbox WHERE run_id = ? AND address LIKE ?", id, `%${GROUP}%`)).toEqual([]);
  });

  it.each(["cannot_dm_bot", "user_disabled"] as const)(
    "[AP1] POLI-006 Slack: %s is blocked with that reason, and retry works later",
    async (code) => {
      const { slack } = scene;
      slack.closedTo.set("U0PERSON", code);
      const root = slack.say({ channel: ROOM, text: "another thread" });
      slack.say({ channel: ROOM, thread: root, text: sends(code, `the result of ${code}`) });
      const { id, delivery_reason: reason } = await reached(scene, code, "blocked");
      expect(reason).toBe(code);
      slack.say({ channel: ROOM, thread: root, text: "!subagents list" });
      await slack.until(() => slack.messages(ROOM, root).some(({ text }) => text.includes(`not delivered: ${code}`)), "the list");
      expect(await boardLine(scene, id)).toMatchObject({ delivery: "blocked", facts: { deliveryReason: code } });
      slack.closedTo.delete("U0PERSON");
      slack.say({ channel: ROOM, thread: root, text: `!subagents retry ${code}` });
      await slack.until(() => slack.messages(DIRECT).some(({ text }) => text.includes(`the result of ${code}`)), "the announcement");
      expect(slack.messages(ROOM).filter(({ text }) => text.includes(`the result of ${code}`))).toEqual([]);
    },
  );

  it.each([
    { announce: "silent" },
    { to: "dm" },
    { to: { channel: "telegram", chat: "7" } },
    { deliverTo: "7" },
    { group: { announce: { to: "dm" } } },
  ])("[SP1][AP1] POLI-002 %j in sessions_spawn is refused with the accepted parameters, and there is no run", async (more) => {
    const { herald } = scene;
    const before = herald.rows<{ n: number }>("SELECT count(*) AS n FROM runs")[0]?.n;
    const chat = crypto.randomUUID();
    await herald.say(plan([spawns(child("stray", "a result", more))]), { chat });
    const { text } = await herald.reply(/^results: /, chat);
    expect(text).toContain(Object.keys(more)[0]);
    expect(text).toMatch(/task.*label.*agentId.*role/s);
    expect(herald.rows<{ n: number }>("SELECT count(*) AS n FROM runs")[0]?.n).toBe(before);
  });
});

/** A minute takes three seconds. For one process: among several a lease is counted in time as it is. */
const FAST = { NODE_OPTIONS: `--import=${new URL("../support/fast-time.ts", import.meta.url).href}`, FAST_TIME_FACTOR: "20" };

describe.skipIf(isShared)("[AP1] a digest to another address", () => {
  it("[AP1] gathers what was asked for on Telegram, on Slack and on the page, says of each where, and drops what is stopped before it is sent", {
    timeout: 150_000,
  }, async () => {
    const to = { channel: "telegram", chat: String(LOUNGE), thread: "5" };
    await using scene = await createChannelScene({
      ...people,
      env: FAST,
      // Long enough for all three to end before it is due.
      config: agents({ when: "digest", everyMinutes: 4, to }),
      expectsErrors: true,
    });
    const { telegram, slack, herald } = scene;
    telegram.chats.add(LOUNGE, { forum: true });
    telegram.chats.addTopic(LOUNGE, 5);
    await scene.connected();
    // The lounge takes nothing for a while: the digest waits in the outbox, and nobody has begun to read it.
    let isShut = true;
    const flood = { code: 429, description: "Too Many Requests: retry after 100", parameters: { retry_after: 100 } };
    telegram.faults.choose((method, payload) => (method === "sendMessage" && payload.chat_id === LOUNGE && isShut ? flood : null));
    telegram.say({ chat: GROUP, thread: TOPIC, from: PERSON, text: sends("alpha", "the alpha result") });
    const root = slack.say({ channel: ROOM, text: sends("beta", "the beta result") });
    await herald.say(sends("gamma", "the gamma result"));
    const waits = "SELECT 1 FROM outbox WHERE delivery LIKE '%:digest' AND state = 'queued' AND attempts > 0";
    await waitFor("the digest to be gathered and put off", () => herald.rows(waits).length > 0, 60_000);
    expect(herald.rows("SELECT 1 FROM digest_items WHERE delivery IS NOT NULL")).toHaveLength(3);
    await herald.say("/subagents stop gamma");
    await herald.reply(/its announcement had not been sent yet and is left out/);
    isShut = false;
    await telegram.until(() => telegram.messages(LOUNGE).some(({ text }) => text.includes("the beta result")), "the digest", 30_000);
    await reached(scene, "alpha", "delivered");
    await reached(scene, "beta", "delivered");
    const lounge = telegram.messages(LOUNGE, 5);
    expect(lounge.filter(({ text }) => text.startsWith("Digest: 2 sub-agents finished\n"))).toHaveLength(1);
    const all = lounge.map(({ text }) => text).join("\n");
    expect(all).toContain("Sub-agent: alpha (asked for by User 42 in the Telegram group -1001, topic 77)");
    expect(all).toContain(`Sub-agent: beta (asked for by U0PERSON in the Slack channel ${ROOM}, thread ${root})`);
    expect(all).not.toContain("gamma");
    expect(runOf(scene, "gamma")).toMatchObject({ delivery: "skipped" });
    expect(herald.rows("SELECT 1 FROM digest_items")).toEqual([]);
    expect([...telegram.messages(GROUP), ...slack.messages(ROOM)].filter(isAnnouncement)).toEqual([]);
    expect(await herald.announcements()).toEqual([]);
  });

  it("[AP1] POLI-006 a digest that is refused is blocked for everybody in it; one retry sends it to all", { timeout: 90_000 }, async () => {
    await using scene = await createChannelScene({
      ...people,
      env: FAST,
      config: agents({ when: "digest", everyMinutes: 2, to: "dm" }),
      expectsErrors: true,
    });
    const { telegram } = scene;
    telegram.chats.block(PERSON, "unopened");
    await scene.connected();
    telegram.say({
      chat: GROUP,
      thread: TOPIC,
      from: PERSON,
      text: plan([spawns(child("one", "first"), child("two", "second")), { text: "sent" }]),
    });
    for (const label of ["one", "two"])
      expect((await reached(scene, label, "blocked")).delivery_reason).toContain("can't initiate conversation");
    telegram.chats.block(PERSON, null);
    telegram.say({ chat: GROUP, thread: TOPIC, from: PERSON, text: "/subagents retry two" });
    for (const label of ["one", "two"]) await reached(scene, label, "delivered");
    expect(telegram.messages(PERSON).filter(({ text }) => text.startsWith("Digest: 2 sub-agents finished\n"))).toHaveLength(1);
    expect(telegram.messages(GROUP).filter(isAnnouncement)).toEqual([]);
  });
});
