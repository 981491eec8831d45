// The whole app inside the test's own process: real Telegram channel, page and provider library against fakes on
// loopback, and every line it logged. For inputs that enter at a chat; what concerns the process itself uses harness.ts.
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { createApp } from "../../src/app/app.ts";
import { loadConfig } from "../../src/config/config.ts";
import { systemClock } from "../../src/core/clock.ts";
import { noFailpoints } from "../../src/core/failpoints.ts";
import { createLogger } from "../../src/core/logger.ts";
import { createSecrets } from "../../src/core/secrets.ts";
import { obey } from "./channel-scene.ts";
import type { FakeModelServer, Respond } from "./fake-model-server.ts";
import { createFakeOpenAi } from "./fake-openai.ts";
import { createFakeTelegram, type FakeTelegram, type SayOptions } from "./fake-telegram.ts";
import { scriptedConfig } from "./scripted-model.ts";
import { makeStateDir } from "./stage.ts";
import type { LogLine } from "./state-folder.ts";
import { waitFor } from "./wait.ts";

export interface LocalApp extends AsyncDisposable {
  readonly telegram: FakeTelegram;
  readonly model: FakeModelServer;
  readonly stateDir: string;
  /** The page's origin. */
  readonly origin: string;
  /** As written, one JSON object each. */
  readonly logged: string[];
  lines(): LogLine[];
  /** A read-only look at the tables. */
  rows<T>(sql: string, ...params: (string | number)[]): T[];
  /** Somebody writes on Telegram; resolves with the bot's next message in that chat. */
  ask(message: SayOptions): Promise<string>;
  /** Resolves when every update that was sent has been looked at. */
  taken(): Promise<void>;
}

interface LocalAppOptions {
  /** channels.telegram, besides token and address. */
  readonly telegram?: Record<string, unknown>;
  /** agents.defaults.subagents */
  readonly subagents?: Record<string, unknown>;
  readonly config?: Record<string, unknown>;
  readonly respond?: Respond;
}

export async function createLocalApp(options: LocalAppOptions = {}): Promise<LocalApp> {
  const [model, telegram] = await Promise.all([createFakeOpenAi({ respond: options.respond ?? obey }), createFakeTelegram()]);
  const dir = makeStateDir();
  const stateDir = join(dir, "state");
  const channels = { telegram: { botToken: telegram.token, apiRoot: telegram.apiRoot, ...options.telegram } };
  const rest = { gateway: { drainSeconds: 0 }, web: { port: 0 }, channels, logging: { level: "debug" }, ...options.config };
  const config = scriptedConfig(model.url, { subagents: options.subagents ?? {} }, rest);
  mkdirSync(join(dir, "config"));
  writeFileSync(join(dir, "config/herald.json5"), JSON.stringify(config), { mode: 0o600 });
  const loaded = loadConfig({ env: { HERALD_STATE_DIR: stateDir, HOME: dir }, cwd: dir });
  const secrets = createSecrets();
  for (const { name, value } of loaded.secrets) secrets.add(name, value);
  const logged: string[] = [];
  const log = await createLogger({ level: "debug", pretty: false, secrets, write: (line) => void logged.push(line) });
  const app = await createApp({ loaded, version: "0.0.0", clock: systemClock, log, secrets, failpoint: noFailpoints });
  const report = await app.start();
  const rows = <T>(sql: string, ...params: (string | number)[]): T[] => {
    using db = new DatabaseSync(join(stateDir, "herald.db"), { readOnly: true });
    return db.prepare(sql).all(...params) as T[];
  };
  return {
    ...{ telegram, model, stateDir, logged, rows, origin: report.page?.origin ?? "" },
    lines: () => logged.map((line) => JSON.parse(line) as LogLine),
    async ask(message) {
      const before = telegram.messages(message.chat).length;
      telegram.say(message);
      return (await telegram.until(() => telegram.messages(message.chat)[before], `an answer to ${message.text?.slice(0, 60)}`)).text;
    },
    async taken() {
      await telegram.until(() => telegram.pending().length === 0, "all updates to be taken");
      await waitFor(
        "all rows to be looked at",
        () => rows<{ n: number }>("SELECT count(*) AS n FROM inbox WHERE state = 'new'")[0]?.n === 0,
      );
    },
    async [Symbol.asyncDispose]() {
      await app.stop();
      await Promise.all([model.close(), telegram.close()]);
      rmSync(dir, { recursive: true, force: true });
    },
  };
}
