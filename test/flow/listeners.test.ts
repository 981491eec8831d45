// Webhook mode (Telegram) and http mode (Slack) through the whole process: what a platform posts is taken, what anybody
// else posts is refused before it is read.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type ChannelScene, createChannelScene } from "../support/channel-scene.ts";
import { freePort } from "../support/free-port.ts";

const PERSON = 42;
const SECRET = "a-webhook-secret-0123456789";

let scene: ChannelScene;
let hookUrl: string;
let slackUrl: string;
beforeAll(async () => {
  const [hookPort, slackPort] = await Promise.all([freePort(), freePort()]);
  hookUrl = `http://127.0.0.1:${hookPort}/telegram`;
  slackUrl = `http://127.0.0.1:${slackPort}/slack/events`;
  scene = await createChannelScene({
    telegram: { mode: "webhook", webhook: { url: hookUrl, port: hookPort, secret: SECRET }, allowFrom: [String(PERSON)] },
    slack: { mode: "http", port: slackPort, signingSecret: "fake-signing-secret-0123456789", allowFrom: ["U0PERSON"] },
  });
  await scene.telegram.until(() => scene.telegram.webhook() !== null, "the webhook to be set");
  scene.slack.sendTo(slackUrl);
});
afterAll(async () => scene[Symbol.asyncDispose]());

const inboxRows = (): number => scene.herald.rows<{ n: number }>("SELECT count(*) AS n FROM inbox")[0]?.n ?? -1;

describe("messages that are posted to us", () => {
  it("[SC5][RC3] are answered once, also when the gateway was killed before it could confirm them", { timeout: 60_000 }, async () => {
    const { telegram, slack, herald } = scene;
    telegram.say({ chat: PERSON, text: "by webhook" });
    slack.say({ channel: "D0PERSON", text: "by http" });
    await telegram.until(() => telegram.messages(PERSON).length === 1, "the answer");
    await slack.until(() => slack.messages("D0PERSON").length === 1, "the answer");
    await scene.settled();
    await herald.crash();
    telegram.say({ chat: PERSON, text: "while it was down" });
    slack.say({ channel: "D0PERSON", text: "while it was down" });
    await herald.restart({ failpoint: "inbox.put" });
    await herald.exited();
    await herald.restart();
    await telegram.until(() => telegram.messages(PERSON).length === 2, "the answer");
    await slack.until(() => slack.messages("D0PERSON").length === 2, "the answer");
    await telegram.until(() => telegram.pending().length === 0, "Telegram's confirmation");
    await slack.until(() => slack.pending().length === 0, "Slack's confirmation");
    await scene.settled();
    expect(telegram.messages(PERSON).map(({ text }) => text)).toEqual(["heard: by webhook", "heard: while it was down"]);
    expect(slack.messages("D0PERSON").map(({ text }) => text)).toEqual(["heard: by http", "heard: while it was down"]);
  });

  it("[SC5] without Telegram's secret are refused and recorded nowhere", async () => {
    const before = inboxRows();
    const from = { id: PERSON, is_bot: false, first_name: "P" };
    const body = JSON.stringify({
      update_id: 1,
      message: { message_id: 1, date: 1, chat: { id: PERSON, type: "private" }, from, text: "/stop" },
    });
    for (const secret of [undefined, "", "wrong", `${SECRET}x`, SECRET.slice(1)]) {
      const headers = {
        "content-type": "application/json",
        ...(secret === undefined ? {} : { "x-telegram-bot-api-secret-token": secret }),
      };
      expect((await fetch(hookUrl, { method: "POST", headers, body })).status).toBe(401);
    }
    expect(inboxRows()).toBe(before);
  });

  it("[SC5] without Slack's signature, or with an old one, are refused and recorded nowhere", async () => {
    const { slack } = scene;
    const before = inboxRows();
    const event = { type: "message", channel: "D0PERSON", channel_type: "im", user: "U0PERSON", text: "/stop", ts: "1.2" };
    const body = JSON.stringify({ type: "event_callback", team_id: slack.teamId, api_app_id: slack.appId, event_id: "Ev0FORGED", event });
    const now = Math.floor(Date.now() / 1000);
    const signed = slack.sign(body);
    const attempts = [
      {},
      slack.sign("another body"),
      slack.sign(body, now - 600),
      slack.sign(body, now + 600),
      { ...signed, "x-slack-signature": "v0=00" },
    ];
    for (const headers of attempts) {
      const { status } = await fetch(slackUrl, { method: "POST", headers: { "content-type": "application/json", ...headers }, body });
      expect(status).toBe(401);
    }
    expect(inboxRows()).toBe(before);
    expect((await fetch(slackUrl, { method: "POST", headers: { "content-type": "application/json", ...signed }, body })).status).toBe(200);
    await slack.until(() => inboxRows() === before + 1, "the signed one");
  });
});
