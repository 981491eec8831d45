// A gateway in this process with a fake Telegram, a fake Slack and a scripted model around it: for what many parts decide
// together and no kill is needed for. restart() ends it in good order and starts it again on the same state.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { type App, createApp } from "../../src/app/app.ts";
import { loadConfig } from "../../src/config/config.ts";
import { systemClock } from "../../src/core/clock.ts";
import { noFailpoints } from "../../src/core/failpoints.ts";
import { createLogger } from "../../src/core/logger.ts";
import { createSecrets } from "../../src/core/secrets.ts";
import { obey } from "./channel-scene.ts";
import type { FakeModelServer, Respond } from "./fake-model-server.ts";
import { createFakeOpenAi } from "./fake-openai.ts";
import { createFakeSlack, type FakeSlack } from "./fake-slack.ts";
import { createFakeTelegram, type FakeTelegram } from "./fake-telegram.ts";
import { scriptedConfig } from "./scripted-model.ts";
import { waitFor } from "./wait.ts";

export interface ChannelApp extends AsyncDisposable {
  readonly model: FakeModelServer;
  readonly telegram: FakeTelegram;
  readonly slack: FakeSlack;
  /** Everything that was logged, from debug on. */
  log(): string;
  rows<T>(sql: string): T[];
  /** Resolves when all that was recorded is handled and sent; runs may go on. */
  settled(): Promise<void>;
  restart(): Promise<void>;
}

export interface ChannelAppOptions {
  /** Settings besides token and address. */
  readonly telegram: Record<string, unknown>;
  readonly slack: Record<string, unknown>;
  readonly respond?: Respond;
}

const UNHANDLED =
  "(SELECT count(*) FROM inbox WHERE state <> 'done') + (SELECT count(*) FROM outbox WHERE state NOT IN ('sent','blocked'))";

export async function createChannelApp(options: ChannelAppOptions): Promise<ChannelApp> {
  const [model, telegram, slack] = await Promise.all([
    createFakeOpenAi({ respond: options.respond ?? obey }),
    createFakeTelegram(),
    createFakeSlack({ ackTimeoutMs: 300 }),
  ]);
  const dir = mkdtempSync(join(tmpdir(), "herald-app-"));
  const channels = {
    telegram: { botToken: telegram.token, apiRoot: telegram.apiRoot, ...options.telegram },
    slack: { botToken: slack.botToken, appToken: slack.appToken, apiUrl: slack.apiUrl, ...options.slack },
  };
  writeConfig(dir, scriptedConfig(model.url, {}, { web: { enabled: false }, gateway: { drainSeconds: 0 }, channels }));
  const lines: string[] = [];
  const start = () => startApp(dir, (line) => void lines.push(line));
  let app = await start();
  const rows = <T>(sql: string): T[] => query(join(dir, "state/herald.db"), sql) as T[];
  return {
    ...{ model, telegram, slack, rows },
    log: () => lines.join(""),
    settled: async () => void (await waitFor("nothing left to do", () => rows<{ n: number }>(`SELECT ${UNHANDLED} AS n`)[0]?.n === 0)),
    async restart() {
      await app.stop();
      app = await start();
    },
    async [Symbol.asyncDispose]() {
      await app.stop();
      await Promise.all([model.close(), telegram.close(), slack.close()]);
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

function writeConfig(dir: string, config: unknown): void {
  mkdirSync(join(dir, "config"));
  writeFileSync(join(dir, "config/herald.json5"), JSON.stringify(config), { mode: 0o600 });
}

async function startApp(dir: string, write: (line: string) => void): Promise<App> {
  const loaded = loadConfig({ env: { HERALD_STATE_DIR: join(dir, "state"), HOME: dir }, cwd: dir });
  // Knows no secrets, so that nothing is hidden from a test that looks for them.
  const log = await createLogger({ level: "debug", pretty: false, secrets: createSecrets(), write });
  const options = { loaded, version: "0.0.0", clock: systemClock, log, secrets: createSecrets(), failpoint: noFailpoints };
  const app = await createApp(options);
  await app.start();
  return app;
}

function query(path: string, sql: string): unknown[] {
  const db = new DatabaseSync(path, { readOnly: true });
  try {
    return db.prepare(sql).all();
  } finally {
    db.close();
  }
}
