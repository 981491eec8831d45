import { readFileSync } from "node:fs";
import { load } from "js-yaml";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createSlackChannel, type SlackOptions } from "../../../src/channels/slack/channel.ts";
import { type Clock, systemClock } from "../../../src/core/clock.ts";
import { AppError } from "../../../src/core/errors.ts";
import { silentLogger } from "../../../src/core/logger.ts";
import { createFakeSlack, type FakeSlack } from "../../support/fake-slack.ts";
import { createMemoryInbox } from "../../support/memory-inbox.ts";

const base: SlackOptions = { botToken: "xoxb-1-x", appToken: "xapp-1-A0HERALD-2-x", mode: "socket", clock: systemClock, log: silentLogger };

describe("createSlackChannel", () => {
  it("[SE1] the account is the app's id, known without the network and the same at each start", () => {
    expect(createSlackChannel(base)).toMatchObject({ name: "slack", account: "A0HERALD" });
    const http: SlackOptions = { ...base, appToken: undefined, mode: "http", signingSecret: "s", httpPort: 0 };
    expect(createSlackChannel(http).account).toBe("slack");
    expect(createSlackChannel(base).health()).toEqual({ state: "off" });
  });

  it.each<[string, Partial<SlackOptions>]>([
    ["botToken", { botToken: "xapp-1-A1-2-x" }],
    ["appToken", { appToken: undefined }],
    ["appToken", { appToken: "xoxb-1-x" }],
    ["signingSecret", { mode: "http", httpPort: 0 }],
    ["port", { mode: "http", signingSecret: "s" }],
  ])("[SC5] a wrong %s is refused by name", (setting, wrong) => {
    expect(() => createSlackChannel({ ...base, ...wrong })).toThrow(AppError);
    expect(() => createSlackChannel({ ...base, ...wrong })).toThrow(`channels.slack.${setting}`);
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
    const channel = makeChannel();
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
    const channel = makeChannel();
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
    const channel = makeChannel();
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
