// The process: arguments → settings → app → start-up lines; signals and exit codes. Everything else is in app/.
import { readFileSync } from "node:fs";
import { hostname } from "node:os";
import { parseArgs } from "node:util";
import { type App, createApp } from "./app/app.ts";
import type { StartReport } from "./app/life.ts";
import { type LoadedConfig, loadConfig } from "./config/config.ts";
import { watchConfig } from "./config/watch.ts";
import { systemClock } from "./core/clock.ts";
import { AppError, errorText, isStorageError } from "./core/errors.ts";
import { createFailpoints } from "./core/failpoints.ts";
import { createLogger, type Logger } from "./core/logger.ts";
import { NODE_ROLES, type NodeRole } from "./core/node-role.ts";
import { createSecrets } from "./core/secrets.ts";

const say = (line: string): void => void process.stdout.write(`${line}\n`);

/** Errors of one connection that a library left unhandled; the gateway's own state is in the stores, so it goes on. */
const PASSING = new Set(["ECONNRESET", "EPIPE", "ETIMEDOUT", "ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EMFILE", "ENFILE"]);

/** What a reload doesn't reach; config/herald.json5 and .env.example tell it, too. */
const AT_START =
  "channels but for who may write, the page but for its token and public address, MCP servers, exec, web_fetch, logging and a model that no setting names";

const HELP = `Herald, a chat gateway whose agents send out sub-agents that announce their results back into the chat.

Usage: npm start [-- start]    serve the page and the channels that are set up
       npm start -- --role R   with store.url, what this process does: gateway (page and channels), worker (turns and
                               sub-agents) or all, which it is without a word
       npm start -- --help     print this and exit
       npm start -- --version  print the version and exit

Settings   config/herald.json5, or the file that HERALD_CONFIG names
Secrets    .env beside it, or the environment
State      ~/.herald, or the folder that HERALD_STATE_DIR names

npm run auth keeps model keys, npm run pair lets people in, npm run move brings everything into PostgreSQL or back; each prints its usage when called alone or wrongly.`;

const version = (): string =>
  (JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")) as { version: string }).version;

const OPTIONS = { help: { type: "boolean", short: "h" }, version: { type: "boolean" }, role: { type: "string" } } as const;

/** What was asked for on the command line; starting is what happens without a word. Null: nothing we know, and that was said. */
function readArguments(args: readonly string[]): { readonly role: NodeRole | undefined } | "help" | "version" | null {
  try {
    const { values, positionals } = parseArgs({ args: [...args], options: OPTIONS, allowPositionals: true });
    if (values.help === true) return "help";
    if (values.version === true) return "version";
    const role = values.role === undefined ? undefined : NODE_ROLES.find((one) => one === values.role);
    if (role === undefined && values.role !== undefined) throw new Error(`--role is one of ${NODE_ROLES.join(", ")}`);
    const [command = "start", ...more] = positionals;
    if (command === "start" && more.length === 0) return { role };
    process.stderr.write(`There is no command "${positionals.join(" ")}".\n\n${HELP}\n`);
  } catch (error) {
    // Node's second sentence explains Node.
    process.stderr.write(`${errorText(error).split(". ")[0]}.\n\n${HELP}\n`);
  }
  return null;
}

async function main(role: NodeRole | undefined): Promise<void> {
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
  const app = await createApp({
    ...{ loaded, version: version(), clock: systemClock, log, secrets, failpoint },
    ...(role === undefined ? {} : { role }),
    ...(leaseMs > 0 ? { leaseMs } : {}),
    onLost: () => beginAnew(log),
  });
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
  for (const line of startLines(await app.start(), loaded, role)) say(line);
  if (process.getuid?.() === 0)
    log.warn({}, "Herald runs as root; give it a user of its own, so that no mistake reaches further than its folder");
}

/**
 * Frozen, or cut off from PostgreSQL, for longer than its lease: others have its work by now, and nothing of what is under way here may
 * go on for another moment. The same program takes the process over, which drops all of it at once, waits for PostgreSQL and joins as a
 * new one; so an outage of the database needs nobody who starts everything again afterwards.
 */
function beginAnew(log: Logger): never {
  log.error({}, "this process was frozen, or cut off from PostgreSQL, for too long: others go on with its work, and it begins anew");
  // Node says of every use that this call is new.
  process.removeAllListeners("warning");
  const { execPath, execArgv, argv } = process;
  if (process.execve !== undefined && process.platform !== "win32") process.execve(execPath, [execPath, ...execArgv, ...argv.slice(1)]);
  process.exit(1);
}

function startLines(report: StartReport, { config, path, found }: LoadedConfig, role: NodeRole = "all"): string[] {
  const { url, node = hostname() } = config.store;
  return [
    `Page:     ${pageLine(report, config.web.publicUrl)}`,
    `Model:    ${report.model} (${report.why})`,
    `State:    ${report.stateDir}${url === undefined ? "" : `, and PostgreSQL (this machine is ${node}${role === "all" ? "" : `, a ${role}`})`}`,
    `Settings: ${found ? path : `defaults (create ${path} to change them)`}`,
    ...report.channels.map((line) => `Channel:  ${line}`),
    `exec:     ${report.exec}`,
  ];
}

/** The link carries the token: only for the person at the terminal. What is printed elsewhere ends up in a log. */
function pageLine({ page, isProbed }: StartReport, publicUrl: string | undefined): string {
  if (page === null) return "off (set web.enabled)";
  if (isProbed) return `off (a worker; /healthz, /readyz and /metrics on ${page.origin})`;
  const listening = publicUrl === undefined ? "" : `, listening on ${page.origin}`;
  if (process.stdout.isTTY) return `${page.signInUrl}${listening === "" ? "" : ` (${listening.slice(2)})`}`;
  return `${publicUrl ?? page.origin} (to sign in, open the link in ${page.linkPath}${listening})`;
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
  if (isStorageError(error)) return `${text}. Nothing is lost; start it again when the disk can be written.`;
  const isDatabase = (error as NodeJS.ErrnoException).code === "ERR_SQLITE_ERROR";
  return isDatabase ? `${text}. The database is damaged; restore it from a backup.` : `${text}\n${(error as Error).stack}`;
}

const asked = readArguments(process.argv.slice(2));
try {
  if (asked !== null && typeof asked === "object") await main(asked.role);
  else if (asked === "version") say(version());
  else if (asked === "help") say(HELP);
  else process.exitCode = 2;
} catch (error) {
  process.stderr.write(`${failureText(error)}\n`);
  process.exit(1);
}
