// The gateway as a process: settings → app → start-up lines; signals and exit codes. Everything else is in app/.
import { hostname } from "node:os";
import { type App, createApp } from "./app/app.ts";
import type { StartReport } from "./app/life.ts";
import { type LoadedConfig, loadConfig } from "./config/config.ts";
import { watchConfig } from "./config/watch.ts";
import { systemClock } from "./core/clock.ts";
import { AppError, errorText, isStorageError } from "./core/errors.ts";
import { createFailpoints } from "./core/failpoints.ts";
import { createLogger, type Logger } from "./core/logger.ts";
import type { NodeRole } from "./core/node-role.ts";
import { createSecrets } from "./core/secrets.ts";

const say = (line: string): void => void process.stdout.write(`${line}\n`);

/** Errors of one connection that a library left unhandled; the gateway's own state is in the stores, so it goes on. */
const PASSING = new Set(["ECONNRESET", "EPIPE", "ETIMEDOUT", "ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EMFILE", "ENFILE"]);

/** What a reload doesn't reach; config/herald.json5 and .env.example tell it, too. */
const AT_START =
  "channels but for who may write, the page but for its token and public address, MCP servers, exec, web_fetch, logging and a model that no setting names";

export interface StartOptions {
  readonly version: string;
  /** What it does of the work of several; undefined: all. */
  readonly role: NodeRole | undefined;
}

async function start({ version, role }: StartOptions): Promise<void> {
  // Whoever read our output may be gone; that is no reason to stop.
  for (const stream of [process.stdout, process.stderr]) stream.on("error", () => {});
  const load = () => loadConfig({ env: process.env, cwd: process.cwd() });
  const loaded = load();
  const secrets = createSecrets();
  for (const { name, value } of loaded.secrets) secrets.add(name, value);
  const { level, pretty = process.stderr.isTTY } = loaded.config.logging;
  const log = await createLogger({ level, pretty, secrets, write: (line) => void process.stderr.write(line) });
  for (const warning of loaded.warnings) log.warn({}, warning);

  const failpoint = createFailpoints(process.env.HERALD_FAILPOINT, () => process.kill(process.pid, "SIGKILL"));
  if (role !== undefined && loaded.config.store.url === undefined)
    throw new AppError("config", "--role is for several processes on one PostgreSQL: set store.url (or DATABASE_URL) first");
  // For tests alone: a run with many deaths would wait ten seconds for each.
  const leaseMs = Number(process.env.HERALD_TEST_LEASE_MS ?? 0);
  const told: Told = { isStopping: false, isLost: false };
  const goAgain = (error: unknown): Promise<never> => startAgain(error, log, { isShared: loaded.config.store.url !== undefined, told });
  const app = await createApp({
    ...{ loaded, version, clock: systemClock, log, secrets, failpoint },
    ...(role === undefined ? {} : { role }),
    ...(leaseMs > 0 ? { leaseMs } : {}),
    settings: {
      ...{ env: process.env, cwd: process.cwd(), reload: () => watch.reload() },
      restart: canBecomeAnew ? () => setImmediate(() => restart(app, log, { told, closeWatch: () => watch.close() })) : null,
    },
    onLost: () => beginAnew(log, told),
  }).catch(goAgain);
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
  handleSignals(app, log, { told, closeWatch: () => watch.close() });
  const report = await app.start().catch(goAgain);
  for (const line of startLines(report, loaded, role)) say(line);
  if (process.getuid?.() === 0)
    log.warn({}, "Herald runs as root; give it a user of its own, so that no mistake reaches further than its folder");
}

/**
 * Frozen, or cut off from PostgreSQL, for longer than its lease: others have its work by now, and nothing of what is under way here may
 * go on for another moment. The same program takes the process over, which drops all of it at once, waits for PostgreSQL and joins as a
 * new one; so an outage of the database needs nobody who starts everything again afterwards.
 * Not at once: told to end while it was frozen (systemd sends SIGTERM and then SIGCONT), it hears of it in this turn of the loop, and
 * the program that takes over would never have been told. Nobody speaks meanwhile: whoever would looks at the lease first.
 */
function beginAnew(log: Logger, told: Told): void {
  if (told.isLost) return;
  told.isLost = true;
  setImmediate(() => (told.isStopping ? process.exit(1) : takeOver(log)));
}

/**
 * PostgreSQL was there when the start began, or it would have been waited for, and went away before its end. What is half begun here is
 * dropped as after a lost lease, so that an outage needs nobody who starts everything again. What will not pass by itself is thrown on.
 */
async function startAgain(error: unknown, log: Logger, { isShared, told }: { isShared: boolean; told: Told }): Promise<never> {
  const { wentAway } = isShared && canBecomeAnew ? await import("./app/shared-stores.ts") : { wentAway: () => false };
  if (!wentAway(error)) throw error;
  log.warn({ reason: errorText(error) }, "PostgreSQL went away while Herald started; it begins anew");
  await new Promise((resolve) => setTimeout(resolve, START_AGAIN_MS));
  // The stop ends the process, when what was at work already is put aside (RN4).
  return told.isStopping ? new Promise<never>(() => {}) : becomeAnew();
}

const START_AGAIN_MS = 1_000;

function takeOver(log: Logger): never {
  log.error({}, "this process was frozen, or cut off from PostgreSQL, for too long: others go on with its work, and it begins anew");
  return becomeAnew();
}

const canBecomeAnew = process.execve !== undefined && process.platform !== "win32";

function becomeAnew(): never {
  // Node says of every use that this call is new.
  process.removeAllListeners("warning");
  const { execPath, execArgv, argv } = process;
  if (canBecomeAnew) process.execve?.(execPath, [execPath, ...execArgv, ...argv.slice(1)]);
  process.exit(1);
}

/** Asked for on the page: stops as a signal would stop it, and begins anew in the same process, so whoever watches over it sees no end. */
function restart(app: App, log: Logger, { told, closeWatch }: { told: Told; closeWatch: () => void }): void {
  if (told.isStopping) return;
  told.isStopping = true;
  log.info({}, "stopping, to begin anew");
  closeWatch();
  app.stop().then(becomeAnew, (error: unknown) => {
    log.error({ err: error }, "stopping failed");
    process.exit(1);
  });
}

/** What this process was told, and when it must end. */
interface Told {
  isStopping: boolean;
  isLost: boolean;
}

function startLines(report: StartReport, { config, path, found }: LoadedConfig, role: NodeRole = "all"): string[] {
  const { url, node = hostname() } = config.store;
  return [
    `Page:     ${pageLine(report, config.web.publicUrl)}`,
    `Model:    ${report.model} (${report.why})`,
    ...(isUnconnected(report) ? ["Set-up:   no model is connected yet: open Set-up on the page, or run herald setup"] : []),
    `State:    ${report.stateDir}${url === undefined ? "" : `, and PostgreSQL (this machine is ${node}${role === "all" ? "" : `, a ${role}`})`}`,
    `Settings: ${found ? path : `defaults (create ${path} to change them)`}`,
    ...report.channels.map((line) => `Channel:  ${line}`),
    `exec:     ${report.exec}`,
  ];
}

/** The page leads to set-up while nothing but the offline model answers. */
const isUnconnected = ({ model, page, isProbed }: StartReport): boolean => model.startsWith("offline/") && page !== null && !isProbed;

/** The link carries the token: only for the person at the terminal. What is printed elsewhere ends up in a log. */
function pageLine({ page, isProbed }: StartReport, publicUrl: string | undefined): string {
  if (page === null) return "off (set web.enabled)";
  if (isProbed) return `off (a worker; /healthz, /readyz and /metrics on ${page.origin})`;
  const listening = publicUrl === undefined ? "" : `, listening on ${page.origin}`;
  if (process.stdout.isTTY) return `${page.signInUrl}${listening === "" ? "" : ` (${listening.slice(2)})`}`;
  return `${publicUrl ?? page.origin} (to sign in, open the link in ${page.linkPath}${listening})`;
}

function handleSignals(app: App, log: Logger, { told, closeWatch }: { told: Told; closeWatch: () => void }): void {
  const stop = (signal: string): void => {
    if (told.isStopping) process.exit(1);
    told.isStopping = true;
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
  if (isStorageError(error)) return `${text}. Nothing is lost; start it again when the disk can be written.`;
  const isDatabase = (error as NodeJS.ErrnoException).code === "ERR_SQLITE_ERROR";
  return isDatabase ? `${text}. The database is damaged; restore it from a backup.` : `${text}\n${(error as Error).stack}`;
}

/** Resolves once it serves; ends the process when it can't. */
export async function startGateway(options: StartOptions): Promise<void> {
  try {
    await start(options);
  } catch (error) {
    process.stderr.write(`${failureText(error)}\n`);
    process.exit(1);
  }
}
