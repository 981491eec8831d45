// Every account of a platform as a channel of its own (CH1): under which name its updates are read, what it says of itself, and that its
// listeners don't meet another's.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { progressOf, rulesOf } from "../../../src/app/accounts.ts";
import { createChannels } from "../../../src/app/channels.ts";
import { channelLines } from "../../../src/app/status.ts";
import { configSchema } from "../../../src/config/schema.ts";
import type { Address } from "../../../src/core/address.ts";
import { systemClock } from "../../../src/core/clock.ts";
import { silentLogger } from "../../../src/core/logger.ts";
import type { Channel } from "../../../src/core/message.ts";
import { createSecrets } from "../../../src/core/secrets.ts";
import { createFakeDiscord, ROOM } from "../../support/fake-discord.ts";
import { createFakeMatrix, PERSON } from "../../support/fake-matrix.ts";
import { createFakeSlack, type FakeSlack } from "../../support/fake-slack.ts";
import { createFakeTelegram, type FakeTelegram } from "../../support/fake-telegram.ts";
import { freePort } from "../../support/free-port.ts";
import { createMemoryInbox } from "../../support/memory-inbox.ts";
import { createStateFolder } from "../../support/state-folder.ts";
import { waitFor } from "../../support/wait.ts";

let folder: Awaited<ReturnType<typeof createStateFolder>>;
let bots: FakeTelegram[];
let teams: FakeSlack[];
beforeAll(async () => {
  folder = await createStateFolder();
  bots = await Promise.all(
    ["7000001:fake-token-for-tests-0123456789", "7000002:fake-token-of-work-0123456789"].map((token) => createFakeTelegram({ token })),
  );
  teams = await Promise.all([createFakeSlack({ ackTimeoutMs: 300 }), createFakeSlack({ ackTimeoutMs: 300, team: "CLIENT" })]);
});
afterAll(async () => {
  await Promise.all([...bots, ...teams].map((fake) => fake.close()));
  await folder[Symbol.asyncDispose]();
});

async function open(channels: Record<string, unknown>, reloaded = channels) {
  const config = configSchema.parse({ channels });
  const current = configSchema.parse({ channels: reloaded });
  const { stores, bus } = folder;
  return {
    config,
    channels: await createChannels({
      config,
      current: () => current,
      stores,
      clock: systemClock,
      bus,
      log: silentLogger,
      secrets: createSecrets(),
    }),
  };
}
const [first, work] = [() => bots[0] as FakeTelegram, () => bots[1] as FakeTelegram];
const telegramOf = (bot: FakeTelegram, more: object = {}) => ({ botToken: bot.token, apiRoot: bot.apiRoot, ...more });
const at = (channel: Channel, chat: string): Address => ({ channel: channel.name, account: channel.account, chat, kind: "dm" });

describe("an account's channel", () => {
  it("[CF4][DC1] a channel of Discord's that came into the list while the gateway ran is read after an outage, too", async () => {
    await using fake = { it: await createFakeDiscord(), [Symbol.asyncDispose]: () => fake.it.close() };
    const { botToken, apiUrl, botId } = fake.it;
    const { channels } = await open({ discord: { botToken, apiUrl } }, { discord: { botToken, apiUrl, channels: { [ROOM]: {} } } });
    const channel = channels.find("discord", botId) as Channel;
    fake.it.say({ channel: ROOM, text: "while nobody listened", isUntold: true });
    const inbox = createMemoryInbox();
    await channel.start(inbox);
    await fake.it.until(() => inbox.rows.size === 1, "what was said");
    await channel.stop();
  });

  it("[CH1] is found by its own name only, reads and moves what is its own under it, and names its own settings", async () => {
    const telegram = { ...telegramOf(first()), accounts: { work: telegramOf(work()) } };
    const { channels } = await open({ telegram });
    expect(channels.list().map(({ name, account }) => [name, account])).toEqual([
      ["web", "local"],
      ["telegram", "7000001"],
      ["telegram@work", "7000002"],
    ]);
    expect([
      channels.find("telegram", "7000002"),
      channels.find("telegram@work", "7000001"),
      channels.find("telegram@home", "7000002"),
    ]).toEqual([null, null, null]);
    const channel = channels.find("telegram@work", "7000002") as Channel;
    const raw = {
      me: { id: 7000002, username: "a_bot" },
      update: {
        update_id: 1,
        message: {
          message_id: 5,
          date: 1,
          chat: { id: 42, type: "private" },
          from: { id: 42, is_bot: false, first_name: "A" },
          text: "hi",
        },
      },
    };
    expect([channels.find("telegram", "7000001")?.decode(raw)?.address, channel.decode(raw)?.address]).toEqual([
      expect.objectContaining({ channel: "telegram", account: "7000001", chat: "42" }),
      expect.objectContaining({ channel: "telegram@work", account: "7000002", chat: "42" }),
    ]);
    work().chats.migrate(-5, -1005);
    const [part] = channel.render({ markdown: "hello" }, at(channel, "-5"));
    const moved = await channel.send({ address: at(channel, "-5"), part: part ?? {}, key: "k#0", repeated: false });
    expect(moved).toMatchObject({ status: "retarget", address: { channel: "telegram@work", chat: "-1005" } });
    work().revoke();
    const refused = await channel.send({ address: at(channel, "42"), part: part ?? {}, key: "l#0", repeated: false });
    work().revoke(false);
    expect(refused).toMatchObject({ reason: "auth failed: check channels.telegram.accounts.work.botToken" });
  });

  it("[CH1] can't start with a token that is none, and the sentence says whose", async () => {
    await expect(open({ telegram: { ...telegramOf(first()), accounts: { work: { botToken: "not-a-token" } } } })).rejects.toThrow(
      /^channels\.telegram\.accounts\.work\.botToken is not a bot token/,
    );
  });

  it("[CH1][SC1][LV5] has rules and a way of showing runs of its own; who is in no settings may nothing", async () => {
    const accounts = { work: telegramOf(work(), { allowFrom: ["43"], groups: { "-1": {} }, progress: "lines" }) };
    const { config, channels } = await open({ telegram: { ...telegramOf(first(), { allowFrom: ["42"] }), accounts } });
    expect(rulesOf(config, "telegram")).toEqual({ allowFrom: ["42"], groups: {} });
    expect(rulesOf(config, "telegram@work")).toMatchObject({ allowFrom: ["43"], groups: { "-1": { requireMention: true } } });
    expect(["telegram@home", "whatsapp", "telegram@", ""].map((name) => rulesOf(config, name))).toEqual([null, null, null, null]);
    expect(["telegram", "telegram@work", "telegram@home", "web"].map((name) => progressOf(config, name))).toEqual([
      "live",
      "lines",
      "off",
      "off",
    ]);
    expect(channelLines({ config, channels: channels.list() })[1]).toBe("telegram@work: off");
  });
});

describe("whose token it is", () => {
  it("[CH1][MX1] two sign-ins of one user are not two accounts: the second one takes nothing, and says why", async () => {
    const fake = await createFakeMatrix();
    fake.signIn("another-token");
    const [homeserver, allowFrom] = [fake.homeserver, [PERSON]];
    const matrix = {
      homeserver,
      accessToken: fake.token,
      allowFrom,
      accounts: { work: { homeserver, accessToken: "another-token", allowFrom } },
    };
    const { channels } = await open({ matrix });
    const [one, two] = ["matrix", "matrix@work"].map((name) => channels.list().find((channel) => channel.name === name) as Channel);
    const [heard, heardTwice] = [createMemoryInbox(), createMemoryInbox()];
    try {
      await one?.start(heard);
      await waitFor("the first one", () => one?.health().state === "on");
      await two?.start(heardTwice);
      await waitFor("the second one", () => two?.health().state === "failed");
      expect(two?.health().detail).toBe(
        "channels.matrix.accounts.work.accessToken is a token of @herald:home.test, as is that of matrix; each account needs its own",
      );
      fake.room("!direct:home.test");
      fake.say({ room: "!direct:home.test", text: "hello" });
      await waitFor("the message", () => heard.rows.size === 1);
      expect([two?.account, heardTwice.rows.size]).toEqual(["matrix", 0]);
    } finally {
      await Promise.all([one?.stop(), two?.stop()]);
      await fake.close();
    }
  });

  it("[CH1][AP1] what was addressed before a server was ever asked is still found", async () => {
    const fake = await createFakeMatrix();
    const { channels } = await open({ matrix: { accounts: { new: { homeserver: fake.homeserver, accessToken: fake.token } } } });
    const channel = channels.list().find(({ name }) => name === "matrix@new") as Channel;
    const { account } = channel;
    try {
      await channel.start(createMemoryInbox());
      await waitFor("its name", () => channel.account === "@herald:home.test");
      expect(channels.find("matrix@new", account)).toBe(channel);
    } finally {
      await channel.stop();
      await fake.close();
    }
  });
});

describe("accounts that are called", () => {
  it("[CH1][SC5] have ports of their own: a call of one bot or workspace at the other's is refused, not taken for its", async () => {
    const [a, b, c, d] = [await freePort(), await freePort(), await freePort(), await freePort()];
    const hook = (bot: FakeTelegram, port: number) =>
      telegramOf(bot, { mode: "webhook", webhook: { url: `http://127.0.0.1:${port}/hook`, port, secret: `secret-of-${bot.botId}-0123` } });
    const http = (team: FakeSlack, port: number) => ({
      mode: "http",
      botToken: team.botToken,
      signingSecret: team.signingSecret,
      apiUrl: team.apiUrl,
      port,
    });
    const [home, client] = teams as [FakeSlack, FakeSlack];
    const { channels } = await open({
      telegram: { ...hook(first(), a), accounts: { work: hook(work(), b) } },
      slack: { ...http(home, c), accounts: { client: http(client, d) } },
    });
    const platforms = channels.list().filter(({ name }) => name !== "web");
    const inboxes = new Map(platforms.map(({ name }) => [name, createMemoryInbox()]));
    await Promise.all(platforms.map((channel) => channel.start(inboxes.get(channel.name) as ReturnType<typeof createMemoryInbox>)));
    try {
      await waitFor("all to be on", () => platforms.every((channel) => channel.health().state === "on"));
      for (const bot of bots) bot.say({ chat: 42, text: `to ${bot.botId}` });
      for (const [n, team] of teams.entries()) {
        team.sendTo(`http://127.0.0.1:${[c, d][n]}/slack/events`);
        team.say({ channel: "D0PERSON", text: `to ${team.teamId}` });
      }
      const taken = (channel: Channel) =>
        inboxes
          .get(channel.name)
          ?.rows.values()
          .map((raw) => channel.decode(raw))
          .toArray() ?? [];
      await waitFor("each to have its own", () => platforms.every((channel) => taken(channel).length === 1));
      expect(platforms.map((channel) => taken(channel).map((inbound) => [inbound?.address.channel, inbound?.text]))).toEqual([
        [["telegram", "to 7000001"]],
        [["telegram@work", "to 7000002"]],
        [["slack", "to T0HOME"]],
        [["slack@client", "to T0CLIENT"]],
      ]);
      // A proxy that mixes them up: neither secret opens the other's door.
      const strange = await fetch(`http://127.0.0.1:${a}/hook`, {
        method: "POST",
        headers: { "x-telegram-bot-api-secret-token": `secret-of-${work().botId}-0123` },
        body: "{}",
      });
      const body = JSON.stringify({ type: "event_callback" });
      const mixed = await fetch(`http://127.0.0.1:${c}/slack/events`, { method: "POST", headers: client.sign(body), body });
      expect([strange.status, mixed.status]).toEqual([401, 401]);
    } finally {
      for (const team of teams) team.sendTo(null);
      await Promise.all(platforms.map((channel) => channel.stop()));
    }
  });
});
