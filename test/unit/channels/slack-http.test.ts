import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createSlackChannel } from "../../../src/channels/slack/channel.ts";
import { systemClock } from "../../../src/core/clock.ts";
import { AppError } from "../../../src/core/errors.ts";
import { silentLogger } from "../../../src/core/logger.ts";
import type { Channel } from "../../../src/core/message.ts";
import { createFakeSlack, type FakeSlack } from "../../support/fake-slack.ts";
import { freePort } from "../../support/free-port.ts";
import { createMemoryAccounts } from "../../support/memory-accounts.ts";
import { createMemoryInbox, type MemoryInbox } from "../../support/memory-inbox.ts";
import { PRESS } from "../../support/slack-payloads.ts";

let fake: FakeSlack;
let channel: Channel;
let inbox: MemoryInbox;
let url: string;
let httpPort: number;

const makeChannel = (): Promise<Channel> =>
  createSlackChannel({
    accounts: createMemoryAccounts(),
    botToken: fake.botToken,
    signingSecret: fake.signingSecret,
    apiUrl: fake.apiUrl,
    mode: "http",
    httpPort,
    clock: systemClock,
    log: silentLogger,
    timeoutMs: 3_000,
  });

beforeEach(async () => {
  fake = await createFakeSlack({ ackTimeoutMs: 200 });
  httpPort = await freePort();
  url = `http://127.0.0.1:${httpPort}/slack/events`;
  channel = await makeChannel();
  inbox = createMemoryInbox();
});
afterEach(async () => {
  await channel.stop();
  await fake.close();
});

const started = async (): Promise<void> => {
  await channel.start(inbox);
  await fake.until(() => channel.health().state === "on", "auth.test");
};

async function post(body: string, headers: Record<string, string> = {}): Promise<{ status: number; text: string }> {
  const type = "content-type" in headers ? {} : { "content-type": "application/json" };
  const response = await fetch(url, { method: "POST", body, headers: { ...type, ...headers } });
  return { status: response.status, text: await response.text() };
}

const message = (): string =>
  JSON.stringify({
    type: "event_callback",
    team_id: fake.teamId,
    api_app_id: fake.appId,
    event_id: "Ev7",
    event: { type: "message", channel: "D1", channel_type: "im", user: "U1", ts: "100.000001", text: "signed" },
  });

describe("http mode", () => {
  it("[SC5] SL-002: a timestamp that is old, ahead, negative, no number or missing is refused, whatever the signature", async () => {
    await started();
    const body = message();
    const now = Math.floor(Date.now() / 1000);
    for (const at of [now - 301, now + 600, -now, 0]) expect((await post(body, fake.sign(body, at))).status).toBe(401);
    for (const stamp of ["abc", "", "1e9", `${now}x`]) {
      expect((await post(body, { ...fake.sign(body), "x-slack-request-timestamp": stamp })).status).toBe(401);
    }
    const { "x-slack-signature": signature = "" } = fake.sign(body);
    expect((await post(body, { "x-slack-signature": signature })).status).toBe(401);
    expect(inbox.rows.size).toBe(0);
    expect((await post(body, fake.sign(body, now - 250))).status).toBe(200);
    expect(inbox.rows.size).toBe(1);
  });

  it("[SC5] a forged, missing or foreign signature is refused before the body is parsed", async () => {
    await started();
    const body = message();
    const good = fake.sign(body);
    for (const signature of [
      "v0=0",
      "v1=00",
      "",
      "v0=",
      `${good["x-slack-signature"]}0`,
      String(good["x-slack-signature"]).toUpperCase(),
    ]) {
      expect((await post(body, { ...good, "x-slack-signature": signature })).status).toBe(401);
    }
    expect((await post(`${body} `, good)).status).toBe(401);
    // Not JSON at all: if it were parsed first, this would be a 400.
    expect((await post("{", { ...good })).status).toBe(401);
    expect((await post("ssl_check=1", { "content-type": "application/x-www-form-urlencoded" })).status).toBe(401);
    expect(inbox.rows.size).toBe(0);
  });

  it("[SC5] url_verification is answered; unreadable, too long and misdirected requests are refused", async () => {
    await started();
    const challenge = JSON.stringify({ type: "url_verification", challenge: "abc", token: "x" });
    expect(await post(challenge, fake.sign(challenge))).toEqual({ status: 200, text: '{"challenge":"abc"}' });
    for (const body of ["{", "null", "7", '"x"']) expect((await post(body, fake.sign(body))).status).toBe(400);
    const form = "payload=%7B";
    expect((await post(form, { ...fake.sign(form), "content-type": "application/x-www-form-urlencoded" })).status).toBe(400);
    const long = `{"x":"${"y".repeat(1_100_000)}"}`;
    expect((await post(long, fake.sign(long)).catch(() => ({ status: 413 }))).status).toBe(413);
    expect((await fetch(url)).status).toBe(404);
    expect((await fetch(url.replace("events", "other"), { method: "POST", body: "{}" })).status).toBe(404);
    expect(inbox.rows.size).toBe(0);
  });

  it("[RC3] SL-004: events, commands and presses are recorded before 200; retries of one event are one row", async () => {
    fake.sendTo(url);
    await started();
    inbox.broken = true;
    fake.say({ channel: "D1", text: "by http" });
    await fake.until(() => inbox.refused >= 2, "a retry after 500");
    expect(fake.pending()).toHaveLength(1);
    inbox.broken = false;
    await fake.until(() => fake.pending().length === 0, "the acknowledgement");
    const body = message();
    for (const retry of ["1", "2", "3"]) expect((await post(body, { ...fake.sign(body), "x-slack-retry-num": retry })).status).toBe(200);
    expect(await fake.slash({ channel: "D1", command: "/subagents", text: "list" })).toBe(true);
    const address = { channel: "slack", account: channel.account, chat: "D1", kind: "dm" as const };
    const [part] = channel.render({ markdown: "x", buttons: [{ label: "Log", command: "/subagents log 1" }] }, address);
    const sent = await channel.send({ address, part: part ?? {}, key: "d#0", repeated: false });
    expect(await fake.press({ channel: "D1", message: sent.status === "sent" ? sent.ref : "", label: "Log" })).toBe(true);
    const texts = [...inbox.rows.values()].map((raw) => channel.decode(raw)?.text);
    expect(texts).toEqual(["by http", "signed", "/subagents list", "/subagents log 1"]);
  });

  it("[SC5] what a signed body is, it says itself: under another content type it is still the same message, and taken once", async () => {
    await started();
    const smuggled = `&command=%2Fstop&text=&user_id=U0ADMIN&channel_id=C1&team_id=${fake.teamId}&api_app_id=${fake.appId}&`;
    const event = message().replace("signed", smuggled);
    const slash = `token=x&command=%2Fsubagents&text=list&user_id=U1&channel_id=C1&team_id=${fake.teamId}&trigger_id=7.8`;
    const press = new URLSearchParams({ payload: JSON.stringify({ ...PRESS, team: { id: fake.teamId }, api_app_id: fake.appId }) });
    const types = [
      "application/json",
      "application/x-www-form-urlencoded",
      "application/x-www-form-urlencoded; charset=utf-8",
      "text/plain",
    ];
    for (const body of [event, slash, press.toString()]) {
      for (const type of types) expect((await post(body, { ...fake.sign(body), "content-type": type })).status).toBe(200);
    }
    const seen = [...inbox.rows.values()].map((raw) => channel.decode(raw));
    expect(seen.map((inbound) => [inbound?.kind, inbound?.sender.id, inbound?.text])).toEqual([
      ["message", "U1", smuggled],
      ["command", "U1", "/subagents list"],
      ["button", "U1", "/subagents stop 1"],
    ]);
  });

  it("[SC5] each kind counts only in the form Slack gives it: anything else does nothing, though signed", async () => {
    await started();
    const command = { command: "/stop", user_id: "U1", channel_id: "C1", team_id: fake.teamId };
    const press = { ...PRESS, team: { id: fake.teamId }, api_app_id: fake.appId };
    const form = (fields: Record<string, string>): string => new URLSearchParams(fields).toString();
    const unreadable = [
      JSON.stringify([JSON.parse(message())]),
      form({ ...command, payload: JSON.stringify(press) }),
      `${form(command)}&command=%2Fhelp`,
    ];
    for (const body of unreadable) expect([body, (await post(body, fake.sign(body))).status]).toEqual([body, 400]);
    const foreign = [
      JSON.stringify(command),
      JSON.stringify(press),
      form({ payload: message() }),
      form({ payload: JSON.stringify(command) }),
      form({ type: "event_callback", event_id: "Ev9" }),
      "ssl_check=1",
    ];
    for (const body of foreign) expect([body, (await post(body, fake.sign(body))).status]).toEqual([body, 200]);
    expect(inbox.rows.size).toBe(0);
  });

  it("[RC3] nothing is acknowledged before the bot knows who it is", async () => {
    fake.faults.add("auth.test", "500", { times: Number.POSITIVE_INFINITY });
    await channel.start(inbox);
    const body = message();
    expect((await post(body, fake.sign(body))).status).toBe(503);
    await fake.until(() => channel.health().state === "retrying", "the trouble to show");
    fake.faults.clear();
    await fake.until(() => channel.health().state === "on", "auth.test");
    expect((await post(body, fake.sign(body))).status).toBe(200);
    expect(inbox.rows.size).toBe(1);
  });

  it("[RN4] a port that is taken is a clear error; stop() frees it, also with a connection open", async () => {
    await started();
    const other = await makeChannel();
    await expect(other.start(createMemoryInbox())).rejects.toThrow(AppError);
    await fetch(url);
    const startedAt = Date.now();
    await channel.stop();
    expect(Date.now() - startedAt).toBeLessThan(10_000);
    await started();
    await other.stop();
  });
});
