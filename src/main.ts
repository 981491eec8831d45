// The process: settings → app → start-up lines; signals and exit codes. Everything else is in app/.
import { readFileSync } from "node:fs";
import { type App, createApp } from "./app/app.ts";
import type { StartReport } from "./app/life.ts";
import { type LoadedConfig, loadConfig } from "./config/config.ts";
import { watchConfig } from "./config/watch.ts";
import { systemClock } from "./core/clock.ts";
import { AppError, errorText, isStorageError } from "./core/errors.ts";
import { createFailpoints } from "./core/failpoints.ts";
import { createLogger, type Logger } from "./core/logger.ts";
import { createSecrets } from "./core/secrets.ts";

const say = (line: string): void => void process.stdout.write(`${line}\n`);

/** Errors of one connection that a library left unhandled; the gateway's own state is in the stores, so it goes on. */
const PASSING = new Set(["ECONNRESET", "EPIPE", "ETIMEDOUT", "ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EMFILE", "ENFILE"]);

/** What a reload doesn't reach; config/herald.json5 and .env.example tell it, too. */
const AT_START = "channels but for who may write, the page, MCP servers, exec, web_fetch, logging and a model that no setting names";

async function main(): Promise<void> {
  // Whoever read our output may be gone; that is no reason to stop.
  for (const stream of [process.stdout, process.stderr]) stream.on("error", () => {});
  const load = () => loadConfig({ env: process.env, cwd: process.cwd() });
  const loaded = load();
  const secrets = createSecrets();
  for (const { name, value } of loaded.secrets) secrets.add(name, value);
  const { level, pretty = process.stderr.isTTY } = loaded.config.logging;
  const log = await createLogger({ level, pretty, secrets, write: (line) => void process.stderr.write(line) });
  for (const warning of loaded.warnings) log.warn({}, warning);

  const version = (JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")) as { version: string }).version;
  const failpoint = createFailpoints(process.env.HERALD_FAILPOINT, () => process.kill(process.pid, "SIGKILL"));
  const app = await createApp({ loaded, version, clock: systemClock, log, secrets, failpoint });
  const watch = watchConfig({
    current: loaded,
    load,
    onChange(next) {
      app.reconfigure(next);
      for (const warning of next.warnings) log.warn({}, warning);
      log.info({ path: next.path }, `settings reloaded; ${AT_START} wait for the next start`);
    },
    onError: (error) => log.error({}, `The changed settings were not taken, the old ones stay. ${error.message}`),
  });
  process.on("SIGHUP", () => watch.reload());
  handleSignals(app, log, () => watch.close());
  for (const line of startLines(await app.start(), loaded)) say(line);
  if (process.getuid?.() === 0)
    log.warn({}, "Herald runs as root; give it a user of its own, so that no mistake reaches further than its folder");
}

function startLines(report: StartReport, { config, path, found }: LoadedConfig): string[] {
  const token = config.web.token === undefined ? `${report.stateDir}/web-token` : "web.token in the settings";
  // The link carries the token: only for the person at the terminal, never for a log file.
  const page =
    report.page === null
      ? "off (set web.enabled)"
      : process.stdout.isTTY
        ? report.page.signInUrl
        : `${report.page.origin} (token: ${token})`;
  return [
    `Page:     ${page}`,
    `Model:    ${report.model} (${report.why})`,
    `State:    ${report.stateDir}`,
    `Settings: ${found ? path : `defaults (create ${path} to change them)`}`,
    ...report.channels.map((line) => `Channel:  ${line}`),
    `exec:     ${report.exec}`,
  ];
}

function handleSignals(app: App, log: Logger, closeWatch: () => void): void {
  let stopping = false;
  const stop = (signal: string): void => {
    if (stopping) process.exit(1);
    stopping = true;
    log.info({ signal }, "stopping; a second signal ends at once");
    closeWatch();
    app.stop().then(
      () => process.exit(0),
      (error: unknown) => {
        log.error({ err: error }, "stopping failed");
        process.exit(1);
      },
    );
  };
  process.on("SIGTERM", stop);
  process.on("SIGINT", stop);
  process.on("unhandledRejection", (error) => log.error({ err: error }, "something was rejected and nobody listened"));
  process.on("uncaughtException", (error: NodeJS.ErrnoException) => {
    log.error({ err: error }, "uncaught");
    if (!PASSING.has(error.code ?? "")) process.exit(1);
  });
}

function failureText(error: unknown): string {
  if (error instanceof AppError) return error.message;
  const text = `Herald could not start: ${errorText(error)}`;
  return isStorageError(error)
    ? `${text}. Nothing is lost; start it again when the disk can be written.`
    : `${text}\n${(error as Error).stack}`;
}

try {
  await main();
} catch (error) {
  process.stderr.write(`${failureText(error)}\n`);
  process.exit(1);
}
