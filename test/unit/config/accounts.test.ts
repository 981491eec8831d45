// Several accounts of one platform in the settings: what is accepted, what comes of it, and what is refused and in which words.
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createAgents } from "../../../src/app/agents.ts";
import { accountsOf, findAccount } from "../../../src/config/accounts.ts";
import { loadConfig } from "../../../src/config/config.ts";
import { AppError } from "../../../src/core/errors.ts";

let cwd: string;
let file: string;
beforeEach(() => {
  cwd = realpathSync(mkdtempSync(join(tmpdir(), "herald-accounts-")));
  mkdirSync(join(cwd, "config"));
  file = join(cwd, "config", "herald.json5");
});
afterEach(() => rmSync(cwd, { recursive: true, force: true }));

const [ONE, TWO, RENEWED] = ["111111:first-token-0123", "222222:second-token-0123", "111111:renewed-token-01"];
const slackTokens = (name: string) => ({ botToken: `xoxb-1-${name}`, appToken: `xapp-1-${name}` });
const variable = (name: string) => `\${${name}}`;

function load(channels: unknown, env: Record<string, string> = {}, rest: Record<string, unknown> = {}) {
  writeFileSync(file, JSON.stringify({ channels, ...rest }), { mode: 0o600 });
  return loadConfig({ cwd, env: { HOME: join(cwd, "home"), ...env } });
}

function problems(channels: unknown, env?: Record<string, string>, rest?: Record<string, unknown>): string[] {
  try {
    load(channels, env, rest);
  } catch (error) {
    expect(error).toBeInstanceOf(AppError);
    return (error as AppError).message.split("\n").map((line) => line.replace(`${file}: `, ""));
  }
  throw new Error("the settings were accepted");
}

const shown = (channels: unknown, env?: Record<string, string>) =>
  accountsOf(load(channels, env).config.channels).map(({ channel, settings }) => [channel, settings.enabled ? "on" : settings.off]);

describe("a block and its accounts", () => {
  it("[CH1][CF3] the block is the first account, under the platform's name; named ones follow with settings of their own", () => {
    const telegram = { botToken: ONE, allowFrom: [42], accounts: { work: { botToken: TWO, groups: { "-1001": {} } } } };
    const { config } = load({ telegram });
    expect(shown({ telegram })).toEqual([
      ["telegram", "on"],
      ["telegram@work", "on"],
      ["slack", "set channels.slack.botToken and appToken, or SLACK_BOT_TOKEN and SLACK_APP_TOKEN"],
      ["matrix", "set channels.matrix.homeserver and accessToken, or MATRIX_HOMESERVER and MATRIX_ACCESS_TOKEN"],
      ["discord", "set channels.discord.botToken or DISCORD_BOT_TOKEN"],
    ]);
    expect(findAccount(config.channels, "telegram@work")?.settings).toMatchObject({
      allowFrom: [],
      groups: { "-1001": { requireMention: true } },
    });
    expect(findAccount(config.channels, "telegram")?.settings).toMatchObject({ allowFrom: ["42"], groups: {} });
    expect(["telegram@home", "telegram@", "telegram@constructor", "web"].map((name) => findAccount(config.channels, name))).toEqual([
      null,
      null,
      null,
      null,
    ]);
  });

  it("[CH1][CF2] only the first takes the usual variable, others name theirs; each token is a secret", () => {
    const telegram = { accounts: { work: { botToken: variable("WORK") } } };
    const env = { TELEGRAM_BOT_TOKEN: ONE, WORK: TWO };
    const { secrets } = load({ telegram }, env);
    expect(shown({ telegram }, env).slice(0, 2)).toEqual([
      ["telegram", "on"],
      ["telegram@work", "on"],
    ]);
    expect(secrets.map(({ value }) => value)).toEqual(expect.arrayContaining([ONE, TWO]));
    expect(problems({ telegram })).toEqual(["channels.telegram.accounts.work.botToken: the environment variable WORK is not set"]);
    // Alone, the named ones are all there is: a first one that nobody set up is not spoken of.
    expect(shown({ telegram }, { WORK: TWO })[0]).toEqual(["telegram@work", "on"]);
  });

  it("[CH1][CF2] a block that is off is off with all its accounts, and one account by itself", () => {
    const work = { botToken: variable("WORK") };
    expect(shown({ telegram: { enabled: false, accounts: { work } } }).slice(0, 2)).toEqual([
      ["telegram", "set channels.telegram.enabled to true"],
      ["telegram@work", "set channels.telegram.enabled to true"],
    ]);
    const accounts = { work: { enabled: false, ...work }, home: {} };
    expect(shown({ telegram: { botToken: ONE, accounts } }).slice(0, 3)).toEqual([
      ["telegram", "on"],
      ["telegram@work", "set channels.telegram.accounts.work.enabled to true"],
      ["telegram@home", "set channels.telegram.accounts.home.botToken"],
    ]);
    expect(shown({ slack: { accounts: { a: { mode: "http" } } } })[1]).toEqual([
      "slack@a",
      "set channels.slack.accounts.a.botToken and signingSecret",
    ]);
  });

  it("[CH1][CF1] names are short and small, and default is none: the first account's settings stand beside the others", () => {
    for (const name of ["Work", "w@rk", "a:b", "-a", "_a", "", "ä", "a b", "x".repeat(33)])
      expect(problems({ telegram: { accounts: { [name]: { botToken: TWO } } } }).join()).toMatch(/must be 1 to 32 of a-z, 0-9, _ and -/);
    expect(problems({ telegram: { accounts: { default: { botToken: TWO } } } }).join()).toMatch(
      /is no name: the first account's settings stand beside/,
    );
    expect(problems({ telegram: { accounts: { work: { accounts: {} } } } }).join()).toMatch(/accounts\.work\.accounts: unknown key/);
    const { config } = load({ telegram: { accounts: { "0-work_2": { botToken: TWO }, valueof: { botToken: ONE } } } });
    expect(accountsOf(config.channels).map(({ channel }) => channel)).toEqual([
      "telegram@0-work_2",
      "telegram@valueof",
      "slack",
      "matrix",
      "discord",
    ]);
  });

  it("[CH1][CF1] what is missing is named where it is missing", () => {
    expect(problems({ telegram: { accounts: { work: { enabled: true } } }, slack: { accounts: { a: { botToken: "xoxb-1" } } } })).toEqual([
      "channels.telegram.accounts.work.botToken: is missing: set it, or enabled: false",
      'channels.slack.accounts.a.appToken: is missing: mode "socket" needs it',
    ]);
  });
});

describe("no two accounts are one", () => {
  const own = "each account needs its own";

  it("[CH1] the same bot twice is refused without a word of its token, also by a token that was made anew", () => {
    const said = [`channels.telegram.accounts.work.botToken: is a token of the same bot as that of channels.telegram; ${own}`];
    expect(problems({ telegram: { botToken: ONE, accounts: { work: { botToken: ONE } } } })).toEqual(said);
    expect(problems({ telegram: { botToken: ONE, accounts: { work: { botToken: RENEWED } } } })).toEqual(said);
    expect(
      problems({ telegram: { accounts: { work: { botToken: variable("TELEGRAM_BOT_TOKEN") } } } }, { TELEGRAM_BOT_TOKEN: ONE }),
    ).toEqual(said);
    // One that is off disturbs nobody.
    expect(shown({ telegram: { botToken: ONE, accounts: { work: { enabled: false, botToken: ONE } } } })[1]?.[1]).toMatch(/^set /);
  });

  it("[CH1] nor the same tokens, ports, addresses or webhook secrets", () => {
    const webhook = (token: string, more: object) => ({
      ...{ botToken: token, mode: "webhook", webhook: { url: "https://x.example/a", secret: "s".repeat(16), ...more } },
    });
    const hooks = { ...webhook(ONE, {}), accounts: { work: webhook(TWO, {}) } };
    expect(problems({ telegram: hooks })).toEqual([
      `channels.telegram.accounts.work.webhook.url: is the same address as that of channels.telegram; ${own}`,
      `channels.telegram.accounts.work.webhook.port: is the same port as that of channels.telegram; ${own}`,
      `channels.telegram.accounts.work.webhook.secret: is the same secret as that of channels.telegram; ${own}`,
    ]);
    const apart = webhook(TWO, { url: "https://x.example/b", port: 9443, secret: "t".repeat(16) });
    expect(shown({ telegram: { ...webhook(ONE, {}), accounts: { work: apart } } })[1]).toEqual(["telegram@work", "on"]);
    const slack = { accounts: { a: slackTokens("one"), b: { ...slackTokens("two"), appToken: slackTokens("one").appToken } } };
    expect(problems({ slack })).toEqual([
      `channels.slack.accounts.b.appToken: is the same token as that of channels.slack.accounts.a; ${own}`,
    ]);
    const http = (name: string) => ({ mode: "http", botToken: `xoxb-${name}`, signingSecret: name, port: 3000 });
    expect(problems({ slack: { accounts: { a: http("one"), b: http("two") } } })).toEqual([
      `channels.slack.accounts.b.port: is the same port as that of channels.slack.accounts.a; ${own}`,
    ]);
  });
});

describe("where results go", () => {
  const channels = {
    telegram: { botToken: ONE, accounts: { work: { botToken: TWO }, away: { enabled: false } } },
    slack: { accounts: { client: slackTokens("client") } },
  };
  const agents = (to: unknown) => ({ agents: { list: [{ id: "main", subagents: { announce: { to } } }] } });
  const placeOf = (to: unknown) => {
    const { config } = load(channels, {}, agents(to));
    return createAgents({ config: () => config, stateDir: cwd, defaultModel: () => "offline/rules" }).find("main")?.subagents.announcing.to;
  };
  const refused = (to: unknown) =>
    problems(channels, {}, agents(to)).map((line) => line.replace("agents.list[0].subagents.announce.to.", ""));

  it("[CH1][AP1] an account is named by the operator's name, the first by none or by what its platform calls it", () => {
    const chat = { chat: "-1001", kind: "group" };
    expect(placeOf({ channel: "telegram", account: "work", chat: "-1001" })).toEqual({ channel: "telegram@work", ...chat });
    expect(placeOf({ channel: "telegram", chat: "-1001" })).toEqual({ channel: "telegram", ...chat });
    expect(placeOf({ channel: "telegram", account: "111111", chat: "-1001" })).toEqual({ channel: "telegram", account: "111111", ...chat });
    expect(placeOf({ channel: "slack", account: "client", chat: "C0ROOM" })).toEqual({
      channel: "slack@client",
      chat: "C0ROOM",
      kind: "channel",
    });
  });

  it("[CH1][AP1] one that is off, unknown or left open is refused at start, with those there are", () => {
    expect(refused({ channel: "telegram", account: "222222", chat: "-1001" })).toEqual([
      'account: this gateway has no such account of telegram; accepted: "work", "away", "111111", or leave it out: the first one',
    ]);
    expect(refused({ channel: "telegram", account: "away", chat: "-1001" })).toEqual([
      "account: telegram@away is off, so nothing can be posted there: set channels.telegram.accounts.away.enabled to true",
    ]);
    expect(refused({ channel: "slack", chat: "C0ROOM" })).toEqual([
      'account: slack is off, so nothing can be posted there: name one of its accounts: "client"',
    ]);
    expect(refused({ channel: "slack", account: "clint", chat: "C0ROOM" }).join()).toMatch(/^account: /);
  });
});
