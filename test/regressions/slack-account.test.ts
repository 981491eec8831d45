// Slack's account was the app's id over sockets and a fixed word over HTTP: changing the mode forgot everybody who was
// paired, and what waited for the other name found no channel. It is the workspace in both modes now.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterAll, beforeAll, expect, it } from "vitest";
import { freePort } from "../support/free-port.ts";
import { createLocalApp, type LocalApp } from "../support/local-app.ts";

let app: LocalApp;
beforeAll(async () => {
  app = await createLocalApp({ telegram: null, slack: { allowFrom: ["U0PERSON"] } });
  await app.connected();
});
afterAll(async () => app[Symbol.asyncDispose]());

function change(sql: string): void {
  using db = new DatabaseSync(join(app.stateDir, "herald.db"));
  db.exec(sql);
}

async function useHttp(): Promise<void> {
  const path = join(app.stateDir, "../config/herald.json5");
  const port = await freePort();
  const config = JSON.parse(readFileSync(path, "utf8")) as { channels: { slack: Record<string, unknown> } };
  const { appToken: _socketOnly, ...slack } = config.channels.slack;
  config.channels.slack = { ...slack, mode: "http", signingSecret: app.slack.signingSecret, port };
  writeFileSync(path, JSON.stringify(config));
  app.slack.sendTo(`http://127.0.0.1:${port}/slack/events`);
}

/** What this person is told when they write. */
async function answerTo(user: string, text: string): Promise<string> {
  const chat = user.replace(/^U/, "D");
  const before = app.slack.messages(chat).length;
  app.slack.say({ channel: chat, user, text });
  return (await app.slack.until(() => app.slack.messages(chat)[before], `an answer to ${text}`)).text;
}

it("[SC1][SE1] who was paired stays so: by an earlier version, over sockets, and when the mode changes", async () => {
  const paired = (account: string, user: string) =>
    `INSERT INTO people VALUES ('slack', '${account}', '${user}', '', NULL, 'paired', 1, 1);`;
  await answerTo("U0PERSON", "warm up");
  // As an earlier version left it, which knew the workspace by the app's id, or by no name at all.
  change(`DELETE FROM channel_account; ${paired(app.slack.appId, "U0OLD")} ${paired("slack", "U0OLDER")} ${paired("A0OTHER", "U0ALIEN")}`);
  await app.restart();
  expect(await answerTo("U0OLD", "over sockets")).toBe("heard: over sockets");
  expect(await answerTo("U0OLDER", "over sockets")).toBe("heard: over sockets");
  // Another app's people are not ours.
  expect(await answerTo("U0ALIEN", "over sockets")).toContain("pairing code");
  await useHttp();
  await app.restart();
  for (const user of ["U0OLD", "U0OLDER"]) expect(await answerTo(user, "over http")).toBe("heard: over http");
  const accounts = app.rows<{ account: string }>("SELECT DISTINCT account FROM inbox UNION SELECT account FROM people ORDER BY 1");
  expect(accounts.map(({ account }) => account)).toEqual(["A0OTHER", app.slack.teamId]);
});
