import { readFileSync } from "node:fs";
import { load } from "js-yaml";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createSlackChannel, type SlackOptions } from "../../../src/channels/slack/channel.ts";
import { type Clock, systemClock } from "../../../src/core/clock.ts";
import { AppError } from "../../../src/core/errors.ts";
import { silentLogger } from "../../../src/core/logger.ts";
import { createFakeSlack, type FakeSlack } from "../../support/fake-slack.ts";
import { freePort } from "../../support/free-port.ts";
import { createMemoryAccounts } from "../../support/memory-accounts.ts";
import { createMemoryInbox } from "../../support/memory-inbox.ts";
import { createSlackRig } from "../../support/slack-rig.ts";

const base: SlackOptions = {
  ...{ botToken: "xoxb-1-x", appToken: "xapp-1-A0HERALD-2-x", mode: "socket", clock: systemClock, log: silentLogger },
  accounts: createMemoryAccounts(),
};

describe("createSlackChannel", () => {
  const http: SlackOptions = { ...base, appToken: undefined, mode: "http", signingSecret: "s", httpPort: 0 };

  it("[SE1] the account is what it was last, known without the network; before Slack was ever asked, what earlier versions called it", async () => {
    for (const mode of [base, http]) {
      const channel = await createSlackChannel({ ...mode, accounts: createMemoryAccounts("T0HOME") });
      expect(channel).toMatchObject({ name: "slack", account: "T0HOME" });
      expect(channel.health()).toEqual({ state: "off" });
    }
    expect(await createSlackChannel(base)).toMatchObject({ account: "A0HERALD", formerly: ["A0HERALD", "slack"] });
    expect(await createSlackChannel(http)).toMatchObject({ account: "slack", formerly: ["slack"] });
  });

  it.each([
    ["socket", {}],
    ["http", { appToken: undefined, signingSecret: "s" }],
  ] as const)(
    "[SE1] in %s mode it is the workspace, from Slack's first answer on, and the app's id was a former name",
    async (mode, more) => {
      await using rig = await createSlackRig({ mode, httpPort: await freePort(), accounts: createMemoryAccounts("T0GONE"), ...more });
      const { channel, fake, inbox } = rig;
      await channel.start(inbox);
      await fake.until(() => channel.health().state === "on", "the connection");
      expect(channel).toMatchObject({ account: "T0HOME", formerly: ["A0HERALD", "slack"] });
    },
  );

  it("[SE1] an app of a whole organisation is the organisation's", async () => {
    await using rig = await createSlackRig();
    const { channel, fake, inbox } = rig;
    fake.answerWith("auth.test", { is_enterprise_install: true, enterprise_id: "E0ORG" });
    await channel.start(inbox);
    await fake.until(() => channel.health().state === "on", "the connection");
    expect(channel.account).toBe("E0ORG");
  });

  it("[RC4] nothing is taken while it can't be recorded whose it is", async () => {
    const accounts = createMemoryAccounts();
    let refusals = 0;
    const adopt = async (account: string, former: readonly string[]): Promise<void> => {
      if (refusals++ < 2) throw new Error("database or disk is full");
      await accounts.adopt(account, former);
    };
    await using rig = await createSlackRig({ accounts: { last: async () => null, adopt } });
    const { channel, fake, inbox } = rig;
    fake.say({ channel: "D1", text: "early" });
    await channel.start(inbox);
    await fake.until(() => inbox.rows.size > 0, "the event");
    expect(refusals).toBe(3);
    expect([...inbox.rows.values()].map((raw) => channel.decode(raw)?.address.account)).toEqual(["T0HOME"]);
  });

  it.each<[string, Partial<SlackOptions>]>([
    ["botToken", { botToken: "xapp-1-A1-2-x" }],
    ["appToken", { appToken: undefined }],
    ["appToken", { appToken: "xoxb-1-x" }],
    ["signingSecret", { mode: "http", httpPort: 0 }],
    ["port", { mode: "http", signingSecret: "s" }],
  ])("[SC5] a wrong %s is refused by name", async (setting, wrong) => {
    await expect(() => createSlackChannel({ ...base, ...wrong })).rejects.toThrow(AppError);
    await expect(() => createSlackChannel({ ...base, ...wrong })).rejects.toThrow(`channels.slack.${setting}`);
  });
});

describe("signs in the chat", () => {
  let fake: FakeSlack;
  let shiftMs: number;
  const clock: Clock = { now: () => Date.now() + shiftMs, sleep: systemClock.sleep };
  beforeEach(async () => {
    shiftMs = 0;
    fake = await createFakeSlack();
    fake.channels.add("C1");
  });
  afterEach(() => fake.close());

  const makeChannel = () =>
    createSlackChannel({ ...base, botToken: fake.botToken, appToken: fake.appToken, apiUrl: fake.apiUrl, clock, timeoutMs: 1_000 });
  const thread = "100.000001";
  const called = (method: string): number => fake.calls.filter((call) => call.method === method).length;

  it("[AG4] an agent app shows its session's status, said once in a while, and moves it on at the end", async () => {
    fake.missing.clear();
    const channel = await makeChannel();
    const address = { channel: "slack", account: channel.account, chat: "C1", kind: "channel" as const, thread };
    for (let n = 0; n < 5; n++) await channel.status?.(address, "working");
    await fake.until(() => fake.statuses.length === 1, "the status");
    shiftMs = 60_000;
    await channel.status?.(address, "working");
    await fake.until(() => fake.statuses.length === 2, "the status again");
    await channel.status?.(address, "idle");
    await channel.status?.(address, "idle");
    await fake.until(() => fake.statuses.length === 3, "the end");
    await channel.stop();
    expect(fake.statuses.map(({ status, way }) => [status, way])).toEqual([
      ["processing", "agent"],
      ["processing", "agent"],
      ["active", "agent"],
    ]);
  });

  it("[AG4] an app without agent sessions uses the status line; one without either stops asking", async () => {
    const channel = await makeChannel();
    const at = (n: number) => ({
      channel: "slack",
      account: channel.account,
      chat: "C1",
      kind: "channel" as const,
      thread: `10${n}.000001`,
    });
    await channel.status?.(at(1), "working");
    await fake.until(() => fake.statuses.length === 1, "the status line");
    expect(fake.statuses[0]).toMatchObject({ way: "assistant", status: "is working…" });
    await channel.status?.(at(2), "working");
    await fake.until(() => fake.statuses.length === 2, "the second status line");
    expect(called("agents.sessions.setStatus")).toBe(1);
    fake.missing.add("assistant.threads.setStatus");
    await channel.status?.(at(3), "working");
    await fake.until(() => called("assistant.threads.setStatus") === 3, "the refusal");
    await channel.stop();
    await channel.start(createMemoryInbox());
    for (let n = 4; n < 9; n++) await channel.status?.(at(n), "working");
    await channel.stop();
    expect(called("assistant.threads.setStatus")).toBe(3);
  });

  it("[AG4] signs never throw and never wait, whatever Slack answers; without a thread there is none", async () => {
    const channel = await makeChannel();
    const address = { channel: "slack", account: channel.account, chat: "C1", kind: "channel" as const };
    await channel.status?.(address, "working");
    expect(fake.calls).toEqual([]);
    fake.faults.add("assistant.threads.setStatus", "hang");
    fake.faults.add("reactions.add", "drop");
    await channel.status?.({ ...address, thread }, "working");
    await channel.receipt?.(address, "1.1");
    const ts = fake.say({ channel: "C1", text: "hi" });
    await channel.receipt?.(address, ts);
    await channel.receipt?.(address, ts);
    await fake.until(() => fake.history("C1").some((message) => message.reactions.includes("eyes")), "the receipt");
    await channel.stop();
  });
});

describe("config/slack-manifest.yaml", () => {
  it("[CM1] holds the events, commands and scopes the channel uses", () => {
    const file = new URL("../../../config/slack-manifest.yaml", import.meta.url);
    const manifest = load(readFileSync(file, "utf8")) as {
      features: { slash_commands: { command: string; description: string }[]; agent_view: { agent_description: string } };
      oauth_config: { scopes: { bot: string[] } };
      settings: { socket_mode_enabled: boolean; interactivity: { is_enabled: boolean }; event_subscriptions: { bot_events: string[] } };
      display_information: { name: string; description: string };
    };
    expect(manifest.features.slash_commands.map((one) => one.command)).toEqual(["/subagents", "/stop"]);
    expect(manifest.settings.socket_mode_enabled).toBe(true);
    expect(manifest.settings.interactivity.is_enabled).toBe(true);
    expect(manifest.settings.event_subscriptions.bot_events).toEqual(
      expect.arrayContaining(["app_mention", "message.channels", "message.groups", "message.im", "message.mpim", "agent_session_stopped"]),
    );
    expect(manifest.oauth_config.scopes.bot).toEqual(
      expect.arrayContaining([
        "app_mentions:read",
        "chat:write",
        "commands",
        "channels:history",
        "groups:history",
        "im:history",
        "mpim:history",
        "reactions:write",
        "assistant:write",
      ]),
    );
    expect(manifest.display_information.description.length).toBeLessThanOrEqual(140);
    for (const { description } of manifest.features.slash_commands) expect(description.length).toBeLessThanOrEqual(100);
  });
});
