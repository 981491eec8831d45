import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createSlackChannel } from "../../../src/channels/slack/channel.ts";
import { delayFor } from "../../../src/channels/slack/receive.ts";
import { type Clock, systemClock } from "../../../src/core/clock.ts";
import { type Logger, silentLogger } from "../../../src/core/logger.ts";
import type { Channel } from "../../../src/core/message.ts";
import { createFakeSlack, type FakeSlack } from "../../support/fake-slack.ts";
import { createMemoryAccounts } from "../../support/memory-accounts.ts";
import { createMemoryInbox, type MemoryInbox } from "../../support/memory-inbox.ts";
import { forbidUnhandledRejections } from "../../support/rejections.ts";

const DIRECT = "D0PERSON";
let fake: FakeSlack;
let channel: Channel;
let inbox: MemoryInbox;
/** Waits the channel asked for; all but the longest are cut short. */
let waits: number[];

const clock: Clock = {
  now: systemClock.now,
  sleep(ms, signal) {
    waits.push(ms);
    return systemClock.sleep(Math.min(ms, 20), signal);
  },
};

const makeChannel = (sockets = 2, log: Logger = silentLogger): Promise<Channel> =>
  createSlackChannel({
    accounts: createMemoryAccounts(),
    botToken: fake.botToken,
    appToken: fake.appToken,
    apiUrl: fake.apiUrl,
    mode: "socket",
    clock,
    log,
    timeoutMs: 3_000,
    sockets,
  });

const texts = (): string[] => [...inbox.rows.values()].map((raw) => channel.decode(raw)?.text ?? "?");
const connected = (count: number) => fake.until(() => fake.sockets.open() === count && channel.health().state === "on", `${count} sockets`);

forbidUnhandledRejections();
beforeEach(async () => {
  waits = [];
  fake = await createFakeSlack({ ackTimeoutMs: 150 });
  channel = await makeChannel();
  inbox = createMemoryInbox();
});
afterEach(async () => {
  await channel.stop();
  await fake.close();
});

describe("socket mode", () => {
  it("[RC3] two sockets share the traffic; every event is recorded once and acknowledged", async () => {
    await channel.start(inbox);
    await connected(2);
    for (let n = 0; n < 40; n++) fake.say({ channel: DIRECT, text: `m${n}` });
    await fake.until(() => fake.pending().length === 0, "all acknowledgements");
    expect(texts().sort()).toEqual(Array.from({ length: 40 }, (_, n) => `m${n}`).sort());
    // On a busy machine an acknowledgement may come late, and then the event once more.
    expect(fake.acks.length).toBeGreaterThanOrEqual(40);
  });

  it("[RC3] SL-011: a mention, told as two events, is one row", async () => {
    await channel.start(inbox);
    await connected(2);
    fake.mention({ channel: "C1", text: "count" });
    await fake.until(() => fake.pending().length === 0, "both acknowledgements");
    expect(fake.acks.length).toBeGreaterThanOrEqual(2);
    expect(texts()).toEqual(["count"]);
  });

  it("[RC3] a disk that refuses: no acknowledgement, Slack repeats it with the same id, one row in the end", async () => {
    inbox.broken = true;
    await channel.start(inbox);
    await connected(2);
    fake.say({ channel: DIRECT, text: "keep me" });
    await fake.until(() => inbox.refused >= 2, "a repeated delivery");
    expect(fake.acks).toEqual([]);
    inbox.broken = false;
    await fake.until(() => fake.pending().length === 0, "the acknowledgement");
    expect(texts()).toEqual(["keep me"]);
  });

  it("[RC4] hundreds of events that can't be recorded are some lines of the log, and how many there were", async () => {
    const told: { unlogged: number }[] = [];
    const log: Logger = { ...silentLogger, error: (fields) => void told.push(fields as { unlogged: number }), child: () => log };
    channel = await makeChannel(2, log);
    inbox.broken = true;
    await channel.start(inbox);
    await connected(2);
    for (let n = 0; n < 200; n++) fake.say({ channel: DIRECT, text: `m${n}` });
    await fake.until(() => inbox.refused >= 200, "all of them refused");
    expect(told.length).toBeGreaterThan(0);
    expect(told.length).toBeLessThan(50);
    inbox.broken = false;
    await fake.until(() => fake.pending().length === 0, "the acknowledgements");
    expect(texts()).toHaveLength(200);
  });

  it("[CM1] slash commands, presses and the native Stop arrive and are acknowledged at once", async () => {
    await channel.start(inbox);
    await connected(2);
    const root = fake.say({ channel: "C1", text: "root", extra: { subtype: "channel_topic" } });
    const address = { channel: "slack", account: channel.account, chat: "C1", kind: "channel" as const, thread: root };
    const [part] = channel.render({ markdown: "started", buttons: [{ label: "Stop", command: "/subagents stop 1" }] }, address);
    const sent = await channel.send({ address, part: part ?? {}, key: "d#0", repeated: false });
    expect(await fake.slash({ channel: "C1", command: "/subagents", text: "list" })).toBe(true);
    expect(await fake.press({ channel: "C1", message: sent.status === "sent" ? sent.ref : "", label: "Stop" })).toBe(true);
    expect(await fake.inject({ type: "agent_session_stopped", channel: "C1", thread_ts: root, user: "U0PERSON" })).toBe(true);
    const all = [...inbox.rows.values()].map((raw) => channel.decode(raw));
    expect(all.map((one) => [one?.kind, one?.text, one?.address.thread])).toEqual([
      ["command", "/subagents list", undefined],
      ["button", "/subagents stop 1", root],
      ["button", "/stop answer", root],
    ]);
  });

  it("[RC3] what is nobody's message is acknowledged and not kept", async () => {
    await channel.start(inbox);
    await connected(2);
    const ts = fake.say({ channel: DIRECT, text: "once" });
    fake.edit({ channel: DIRECT, ts, text: "changed" });
    await fake.inject({ type: "app_home_opened", user: "U0PERSON", channel: DIRECT });
    await fake.inject(
      { type: "message", channel: DIRECT, user: "U0PERSON", ts: "1.1", text: "from elsewhere" },
      { team_id: "T9", authorizations: [] },
    );
    await fake.until(() => fake.pending().length === 0, "the acknowledgements");
    expect(texts()).toEqual(["once"]);
  });

  it("[RC3] a storm of refreshes, hang-ups and refused connections loses nothing and doubles nothing", async () => {
    await channel.start(inbox);
    await connected(2);
    const sent: string[] = [];
    for (let round = 0; round < 12; round++) {
      for (let n = 0; n < 5; n++) {
        sent.push(`r${round}-${n}`);
        fake.say({ channel: DIRECT, text: `r${round}-${n}` });
      }
      if (round % 3 === 0) fake.sockets.refresh();
      if (round % 3 === 1) fake.sockets.drop();
      if (round % 4 === 2) fake.faults.add("apps.connections.open", round % 8 === 2 ? "500" : "drop", { times: 3 });
      await fake.until(() => fake.sockets.open() > 0, "a connection");
    }
    await fake.until(() => fake.pending().length === 0, "all acknowledgements");
    expect(texts().sort()).toEqual(sent.sort());
    await connected(2);
  });

  it("[RC3] while one socket is refreshed the other one hears", async () => {
    await channel.start(inbox);
    await connected(2);
    fake.faults.add("apps.connections.open", "hang");
    fake.sockets.drop(1);
    await fake.until(() => fake.sockets.open() === 1, "one socket");
    for (let n = 0; n < 5; n++) expect(await fake.slash({ channel: "C1", command: "/stop" })).toBe(true);
    expect(channel.health().state).toBe("on");
  });

  it("[RC3] invalid_auth on reconnect: shown as failed, tried again slowly, and the process lives", async () => {
    await channel.start(inbox);
    await connected(2);
    fake.faults.add("apps.connections.open", { error: "invalid_auth" }, { times: Number.POSITIVE_INFINITY });
    waits.length = 0;
    fake.sockets.drop();
    await fake.until(() => channel.health().state === "failed", "the failure to show");
    expect(channel.health().detail).toBe("auth failed (invalid_auth): check channels.slack.appToken");
    expect(waits).toContain(60_000);
    fake.say({ channel: DIRECT, text: "after all" });
    fake.faults.clear();
    await connected(2);
    await fake.until(() => texts().includes("after all"), "the event that waited");
  });

  it("[RC3] a wrong bot token at the start is shown and tried again", async () => {
    fake.faults.add("auth.test", { error: "account_inactive" }, { times: 3 });
    await channel.start(inbox);
    await fake.until(() => channel.health().state === "failed", "the failure to show");
    await connected(2);
  });

  it("[RC3] unreadable frames end nothing", async () => {
    await channel.start(inbox);
    await connected(2);
    for (const frame of [
      "null",
      "{",
      "[]",
      '"x"',
      "{}",
      '{"type":"events_api"}',
      '{"type":"events_api","payload":{}}',
      '{"type":"slash_commands"}',
    ]) {
      fake.sockets.frame(frame);
    }
    fake.say({ channel: DIRECT, text: "still here" });
    await fake.until(() => texts().includes("still here"), "the event after them");
    expect(fake.sockets.made()).toBe(2);
  });

  it("[RN4] stop() in each state ends soon, also when Slack says nothing any more", async () => {
    const stopSoon = async (): Promise<void> => {
      const startedAt = Date.now();
      await channel.stop();
      // A loaded machine gets more; one that waited for Slack would wait for ever.
      expect(Date.now() - startedAt).toBeLessThan(10_000);
      expect(channel.health()).toEqual({ state: "off" });
    };
    await channel.start(inbox);
    await connected(2);
    fake.sockets.mute();
    await stopSoon();
    fake.faults.add("auth.test", "hang");
    await channel.start(inbox);
    await stopSoon();
    fake.faults.clear();
    fake.faults.add("apps.connections.open", "hang", { times: 2 });
    await channel.start(inbox);
    await fake.until(() => fake.calls.filter((call) => call.method === "apps.connections.open").length >= 4, "both to connect");
    await stopSoon();
    fake.faults.clear();
    await channel.start(inbox);
    await fake.until(() => fake.sockets.open() > 0, "a socket");
    await stopSoon();
    await fake.until(() => fake.sockets.open() === 0, "no socket left");
  });

  it("[RC3] waits grow to 30 s and no further; a limit by Slack is heeded", () => {
    const lost = { kind: "lost", reason: "" } as const;
    for (let failures = 1; failures < 200; failures++) expect(delayFor(lost, failures)).toBeLessThanOrEqual(30_000);
    expect(delayFor(lost, 1)).toBeLessThanOrEqual(500);
    expect(delayFor(lost, 50)).toBeGreaterThanOrEqual(15_000);
    expect(delayFor({ kind: "limited", afterMs: 45_000, reason: "" }, 1)).toBe(45_000);
  });
});
