// The whole app inside the test's own process: real channels, page and provider library against fakes on loopback, and
// every line it logged. For inputs that enter at a chat; what concerns the process itself uses harness.ts.
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { createApp } from "../../src/app/app.ts";
import { loadConfig } from "../../src/config/config.ts";
import { systemClock } from "../../src/core/clock.ts";
import { noFailpoints } from "../../src/core/failpoints.ts";
import { createLogger } from "../../src/core/logger.ts";
import { createSecrets } from "../../src/core/secrets.ts";
import { createPeers, type PeerOptions } from "./channel-scene.ts";
import type { FakeModelServer } from "./fake-model-server.ts";
import type { FakeSlack } from "./fake-slack.ts";
import type { FakeTelegram, SayOptions } from "./fake-telegram.ts";
import { createCompanion } from "./nodes.ts";
import { scriptedConfig } from "./scripted-model.ts";
import { makeStateDir } from "./stage.ts";
import type { LogLine } from "./state-folder.ts";
import { isStatusMessage } from "./status-message.ts";
import { waitFor } from "./wait.ts";

export interface LocalApp extends AsyncDisposable {
  readonly telegram: FakeTelegram;
  readonly slack: FakeSlack;
  readonly model: FakeModelServer;
  readonly stateDir: string;
  /** The page's origin; another one after a restart. */
  readonly origin: string;
  /** As written, one JSON object each. */
  readonly logged: string[];
  lines(): LogLine[];
  /** A read-only look at the tables. */
  rows<T>(sql: string, ...params: (string | number)[]): T[];
  /** Resolves when the channels receive. */
  connected(): Promise<void>;
  /** Somebody writes on Telegram; resolves with the bot's next message in that chat. */
  ask(message: SayOptions): Promise<string>;
  /** Resolves when every Telegram update that was sent has been looked at. */
  taken(): Promise<void>;
  /** Resolves when all that was recorded is handled and sent; runs may go on. */
  settled(): Promise<void>;
  /** Ends it in good order and starts it again on the same state. */
  restart(): Promise<void>;
}

/** Slack is off unless it has settings. */
interface LocalAppOptions extends PeerOptions {
  readonly config?: Record<string, unknown>;
  /** False: it knows no secrets of the settings, and its log none at all, so that nothing is hidden from a test that looks for them. */
  readonly redacts?: boolean;
}

/** Thirty answers and more in one chat leave at a message a second (DL7). */
const SETTLED_MS = 90_000;
const UNHANDLED = `(SELECT count(*) FROM inbox WHERE state <> 'done') + (SELECT count(*) FROM outbox WHERE state IN ('queued','sending','unknown'))
  + (SELECT count(*) FROM live_messages WHERE state IN ('new','posted'))`;

export async function createLocalApp(options: LocalAppOptions = {}): Promise<LocalApp> {
  const { channels, close, ...peers } = await createPeers({ slack: null, ...options });
  const { model, telegram } = peers;
  const dir = makeStateDir();
  const stateDir = join(dir, "state");
  const rest = { gateway: { drainSeconds: 0 }, web: { port: 0 }, channels, logging: { level: "debug" }, ...options.config };
  mkdirSync(join(dir, "config"));
  writeFileSync(join(dir, "config/herald.json5"), JSON.stringify(scriptedConfig(model.url, {}, rest)), { mode: 0o600 });
  const logged: string[] = [];
  const companion = await createCompanion();
  const start = () => startApp(dir, { HERALD_STATE_DIR: stateDir, HOME: dir, ...companion?.env }, options.redacts ?? true, logged);
  let running = await start();
  await companion?.start(scriptedConfig(model.url, {}, rest));
  const inFile = <T>(sql: string, ...params: (string | number)[]): T[] => {
    using db = new DatabaseSync(join(stateDir, "herald.db"), { readOnly: true });
    return db.prepare(sql).all(...params) as T[];
  };
  const rows = companion?.rows ?? inFile;
  const none = (what: string): boolean => rows<{ n: number }>(`SELECT ${what} AS n`)[0]?.n === 0;
  return {
    ...{ ...peers, stateDir, logged, rows },
    get origin() {
      return running.origin;
    },
    lines: () => logged.map((line) => JSON.parse(line) as LogLine),
    async ask(message) {
      const before = telegram.messages(message.chat).length;
      telegram.say(message);
      const answer = () =>
        telegram
          .messages(message.chat)
          .slice(before)
          .find(({ text }) => !isStatusMessage(text));
      return (await telegram.until(answer, `an answer to ${message.text?.slice(0, 60)}`)).text;
    },
    async taken() {
      await telegram.until(() => telegram.pending().length === 0, "all updates to be taken");
      await waitFor("all rows to be looked at", () => none("(SELECT count(*) FROM inbox WHERE state = 'new')"));
    },
    settled: async () => void (await waitFor("nothing left to do", () => none(UNHANDLED), SETTLED_MS)),
    async restart() {
      await running.stop();
      running = await start();
    },
    async [Symbol.asyncDispose]() {
      await running.stop();
      await companion?.[Symbol.asyncDispose]();
      await close();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

async function startApp(dir: string, env: Record<string, string>, redacts: boolean, logged: string[]) {
  const loaded = loadConfig({ env, cwd: dir });
  const write = (line: string): void => void logged.push(line);
  const secrets = createSecrets();
  if (redacts) for (const { name, value } of loaded.secrets) secrets.add(name, value);
  const log = await createLogger({ level: "debug", pretty: false, secrets: redacts ? secrets : createSecrets(), write });
  const app = await createApp({ loaded, version: "0.0.0", clock: systemClock, log, secrets, failpoint: noFailpoints });
  const report = await app.start();
  return { origin: report.page?.origin ?? "", stop: () => app.stop() };
}
