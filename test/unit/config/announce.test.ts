// The setting subagents.announce: what is accepted, what becomes of it, and what is refused at start and in which words.
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { createAgents } from "../../../src/app/agents.ts";
import { loadConfig } from "../../../src/config/config.ts";
import { AppError } from "../../../src/core/errors.ts";

let cwd: string;
let file: string;
beforeEach(() => {
  cwd = realpathSync(mkdtempSync(join(tmpdir(), "herald-announce-")));
  mkdirSync(join(cwd, "config"));
  file = join(cwd, "config", "herald.json5");
});
afterEach(() => rmSync(cwd, { recursive: true, force: true }));

const BOT = "123456:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
const CHANNELS = {
  telegram: { botToken: BOT },
  slack: { botToken: "xoxb-1-fake", appToken: "xapp-1-fake" },
  matrix: { homeserver: "https://home.test", accessToken: "syt_fake" },
};

function load(announce: unknown, rest: Record<string, unknown> = { channels: CHANNELS }) {
  writeFileSync(file, JSON.stringify({ agents: { list: [{ id: "main", subagents: { announce } }] }, ...rest }), { mode: 0o600 });
  return loadConfig({ cwd, env: { HOME: join(cwd, "home") } }).config;
}

/** The lines of the refusal, without the file and the path they all begin with. */
function problems(announce: unknown, rest?: Record<string, unknown>): string[] {
  try {
    load(announce, rest);
  } catch (error) {
    expect(error).toBeInstanceOf(AppError);
    return (error as AppError).message.split("\n").map((line) => line.replace(`${file}: agents.list[0].subagents.announce`, ""));
  }
  throw new Error("the settings were accepted");
}

const settingsOf = (announce: unknown) => {
  const config = load(announce);
  const agent = createAgents({ config: () => config, stateDir: cwd, defaultModel: () => "offline/rules" }).find("main");
  return { announce: agent?.subagents.announce, ...agent?.subagents.announcing };
};

it.each([
  ["post", { announce: "post", when: "always", everyMinutes: null, to: "thread" }],
  ["silent", { announce: "silent", when: "always", everyMinutes: null, to: "thread" }],
  [{}, { announce: "post", when: "always", everyMinutes: null, to: "thread" }],
  [
    { when: "failures", to: "dm" },
    { announce: "post", when: "failures", everyMinutes: null, to: "dm" },
  ],
  [
    { when: "digest", everyMinutes: 10080, to: { channel: "telegram", account: "123456", chat: "-1001", thread: "5" } },
    { when: "digest", everyMinutes: 10080, to: { channel: "telegram", account: "123456", chat: "-1001", thread: "5", kind: "group" } },
  ],
  [{ to: { channel: "telegram", chat: "42" } }, { to: { channel: "telegram", chat: "42", kind: "dm" } }],
  [{ to: { channel: "slack", chat: "C0ROOM" } }, { to: { channel: "slack", chat: "C0ROOM", kind: "channel" } }],
  [{ to: { channel: "slack", chat: "U0PERSON" } }, { to: { channel: "slack", chat: "U0PERSON", kind: "dm" } }],
  [{ to: { channel: "matrix", chat: "!A:b.test", thread: "$x" } }, { to: { channel: "matrix", chat: "!A:b.test", kind: "channel" } }],
  [{ to: { channel: "matrix", chat: "@ann:b.test" } }, { to: { channel: "matrix", chat: "@ann:b.test", kind: "dm" } }],
  [{ to: { channel: "web", chat: "main" } }, { to: { channel: "web", chat: "main", kind: "dm" } }],
])("[AP1][CF1] %j is accepted", (announce, expected) => {
  expect(settingsOf(announce)).toMatchObject(expected);
});

const MINUTES = "a whole number from 1 to 10080";

it.each([0, -5, 0.01, 1e9, "60", null, 10_081])("[AP1] POLI-004 everyMinutes %j is refused at start, with its bounds", (everyMinutes) => {
  expect(problems({ when: "digest", everyMinutes })).toEqual([`.everyMinutes: has a wrong value; accepted: ${MINUTES}`]);
});

it("[AP1] POLI-004 a digest without everyMinutes, another when and other words are refused at start, with what is accepted", () => {
  expect(problems({ when: "digest" })).toEqual([`.everyMinutes: is missing: when "digest" needs it; accepted: ${MINUTES}`]);
  expect(problems({ when: "sometimes" })).toEqual(['.when: has a wrong value; accepted: "always" | "failures" | "digest"']);
  expect(problems({ often: 1 })).toEqual([".often: unknown key. Accepted here: when, everyMinutes, to"]);
  for (const wrong of ["loud", 7, true])
    expect(problems(wrong)).toEqual([': has a wrong value; accepted: a block {when, everyMinutes, to} | "post" | "silent"']);
  expect(problems({ to: "everybody" })).toEqual([
    '.to: has a wrong value; accepted: a block {channel, account, chat, thread} | "thread" | "dm"',
  ]);
  expect(problems({ to: { channel: "irc", chat: "1" } })).toEqual([
    '.to.channel: has a wrong value; accepted: "telegram" | "slack" | "matrix" | "discord" | "web"',
  ]);
  expect(problems({ to: { channel: "web" } })).toEqual([".to.chat: is missing; accepted: text of at most 255 characters"]);
});

it("[AP1] an address this gateway doesn't serve is refused at start, in words", () => {
  const telegram = { channel: "telegram", chat: "-1001" };
  expect(problems({ to: telegram }, {})).toEqual([
    ".to.channel: telegram is off, so nothing can be posted there: set channels.telegram.botToken or TELEGRAM_BOT_TOKEN",
  ]);
  expect(problems({ to: { channel: "slack", chat: "C0ROOM" } }, { channels: { slack: { ...CHANNELS.slack, enabled: false } } })).toEqual([
    ".to.channel: slack is off, so nothing can be posted there: set channels.slack.enabled to true",
  ]);
  expect(problems({ to: { channel: "web", chat: "main" } }, { web: { enabled: false } })).toEqual([
    ".to.channel: web is off, so nothing can be posted there: set web.enabled to true",
  ]);
  expect(problems({ to: { ...telegram, account: "77" } })).toEqual([
    '.to.account: this gateway has no such account of telegram; accepted: "123456", or leave it out: it is the only one',
  ]);
  expect(problems({ to: { channel: "telegram", chat: "@group", thread: "news" } })).toEqual([
    ".to.chat: must be a numeric Telegram chat id in quotes",
    ".to.thread: must be the number of a Telegram topic in quotes",
  ]);
  expect(problems({ to: { channel: "slack", chat: "#general", thread: "1" } })).toEqual([
    '.to.chat: must be a Slack channel id like "C012AB3CD", or a member id for their direct chat (not a name)',
    '.to.thread: must be the ts of a Slack thread like "1700000000.000100"',
  ]);
  expect(problems({ to: { channel: "matrix", chat: "#general:b.test", thread: "1" } })).toEqual([
    '.to.chat: must be a Matrix room id like "!abc:example.org", or a user id for their direct room (not an alias)',
    '.to.thread: must be the id of a thread\'s first event like "$abc"',
  ]);
  expect(problems({ to: { channel: "web", chat: "my chat", thread: "1" } })).toEqual([
    '.to.chat: must be a chat of the page: "main", or the id in its address',
    ".to.thread: the page has no threads; leave it out",
  ]);
});
