// "Telegram in two minutes", "Slack in five minutes", "Matrix in three minutes" and "Discord in five minutes" of docs/channels.md, step by
// step: a token in .env, a start, a first message, the pairing code, and a sub-agent's result in the chat. No settings but where the fakes
// are, and no key.
import { execFile } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createFakeDiscord, DIRECT, type FakeDiscord } from "../support/fake-discord.ts";
import { createFakeMatrix, type FakeMatrix, PERSON } from "../support/fake-matrix.ts";
import { createFakeSlack, type FakeSlack } from "../support/fake-slack.ts";
import { createFakeTelegram, type FakeTelegram } from "../support/fake-telegram.ts";
import { createHarness, type Harness, NODE } from "../support/harness.ts";
import { waitFor } from "../support/wait.ts";

const PAIR = new URL("../../src/pair.ts", import.meta.url).pathname;

let telegram: FakeTelegram;
let slack: FakeSlack;
let matrix: FakeMatrix;
let discord: FakeDiscord;
let herald: Harness;
beforeAll(async () => {
  [telegram, slack, matrix, discord] = await Promise.all([
    createFakeTelegram(),
    createFakeSlack(),
    createFakeMatrix(),
    createFakeDiscord(),
  ]);
  const channels = {
    telegram: { apiRoot: telegram.apiRoot },
    slack: { apiUrl: slack.apiUrl },
    matrix: { allowFrom: [PERSON] },
    discord: { apiUrl: discord.apiUrl },
  };
  herald = await createHarness({ config: { channels } });
});
afterAll(async () => {
  await herald[Symbol.asyncDispose]();
  await Promise.all([telegram.close(), slack.close(), matrix.close(), discord.close()]);
});

interface Talk {
  say(text: string): void;
  texts(): string[];
}

async function walkThrough(talk: Talk): Promise<void> {
  const { say, texts } = talk;
  // What opening a bot on Telegram sends.
  say("/start");
  const greeting = await waitFor("the pairing code", () => texts()[0]);
  const code = /npm run pair -- ([A-Z0-9]{8})/.exec(greeting)?.[1] ?? "";
  const env = { PATH: process.env.PATH, HOME: herald.dir, HERALD_STATE_DIR: herald.stateDir };
  await promisify(execFile)(NODE, [PAIR, code], { cwd: herald.dir, env });
  expect(await waitFor("the welcome", () => texts()[1])).toMatch(/^Welcome!.*!help/);
  say("!help");
  expect(await waitFor("what it can do", () => texts()[2])).toContain("/subagents");
  await firstWork(talk, 3);
}

async function firstWork({ say, texts }: Talk, known: number): Promise<void> {
  say("hello");
  expect(await waitFor("an answer", () => texts()[known])).toMatch(/offline model/i);
  say("in the background, list the files here");
  const isAnnouncement = (text: string): boolean => text.includes("Status: success") && text.includes("Stats: runtime");
  await waitFor("the announcement", () => texts().some(isAnnouncement));
  await waitFor("the status message", () => texts().some((text) => /^\**✓ 1\**\s+✓ /.test(text)));
  say("/subagents");
  expect(await waitFor("the list", () => texts().find((text) => text.includes("🧭 Subagents (current session)")))).toContain("Done: 1");
}

describe("first steps", () => {
  it("[RN2] without a token the channels are off, and the start says which setting would turn each on", () => {
    expect(herald.output()).toMatch(/telegram: off \(.*TELEGRAM_BOT_TOKEN/);
    expect(herald.output()).toMatch(/slack: off \(.*SLACK_BOT_TOKEN.*SLACK_APP_TOKEN/);
    expect(herald.output()).toMatch(/matrix: off \(.*MATRIX_HOMESERVER and MATRIX_ACCESS_TOKEN/);
    expect(herald.output()).toMatch(/discord: off \(.*DISCORD_BOT_TOKEN/);
  });

  it("[CF1] a token that is none is refused at start, by the setting's name", async () => {
    const started = createHarness({ config: { channels: { telegram: { botToken: "not-a-token" } } } });
    await expect(started).rejects.toThrow(/it ended with 1:[\s\S]*channels\.telegram\.botToken/);
  });

  it("[SC1] npm run pair before the first start says so and makes no folder", async () => {
    const stateDir = join(herald.dir, "never-started");
    const env = { PATH: process.env.PATH, HOME: herald.dir, HERALD_STATE_DIR: stateDir };
    const pairing = promisify(execFile)(NODE, [PAIR, "ABCDEFGH"], { cwd: herald.dir, env });
    await expect(pairing).rejects.toMatchObject({
      code: 1,
      stderr: `Herald has not been started with this state folder yet: ${stateDir}\n`,
    });
    expect(existsSync(stateDir)).toBe(false);
  });

  it("[RN2][SC1] Telegram in two minutes", { timeout: 60_000 }, async () => {
    await herald.stop();
    writeFileSync(join(herald.dir, ".env"), `TELEGRAM_BOT_TOKEN=${telegram.token}\n`, { mode: 0o600 });
    await herald.restart();
    await walkThrough({
      say: (text) => void telegram.say({ chat: 42, text }),
      texts: () => telegram.messages(42).map((message) => message.text),
    });
  });

  it("[RN2][SC1] Slack in five minutes", { timeout: 60_000 }, async () => {
    await herald.stop();
    writeFileSync(join(herald.dir, ".env"), `SLACK_BOT_TOKEN=${slack.botToken}\nSLACK_APP_TOKEN=${slack.appToken}\n`, { mode: 0o600 });
    await herald.restart();
    await walkThrough({
      say: (text) => void slack.say({ channel: "D0PERSON", text }),
      texts: () => slack.messages("D0PERSON").map((message) => message.text),
    });
  });

  it("[RN2][MX1] Matrix in three minutes", { timeout: 60_000 }, async () => {
    await herald.stop();
    writeFileSync(join(herald.dir, ".env"), `MATRIX_HOMESERVER=${matrix.homeserver}\nMATRIX_ACCESS_TOKEN=${matrix.token}\n`, {
      mode: 0o600,
    });
    await herald.restart();
    await matrix.connected();
    const room = "!mine:home.test";
    matrix.invite(room);
    await matrix.until(() => matrix.isIn(room), "the bot");
    const talk = { say: (text: string) => void matrix.say({ room, text }), texts: () => matrix.messages(room).map(({ text }) => text) };
    await firstWork(talk, 0);
  });

  it("[RN2][SC1] Discord in five minutes", { timeout: 60_000 }, async () => {
    await herald.stop();
    writeFileSync(join(herald.dir, ".env"), `DISCORD_BOT_TOKEN=${discord.botToken}\n`, { mode: 0o600 });
    await herald.restart();
    await discord.until(() => discord.gateway.isUp(), "the connection");
    await walkThrough({
      say: (text) => void discord.say({ channel: DIRECT, text }),
      texts: () => discord.messages(DIRECT).map((message) => message.content),
    });
  });
});
