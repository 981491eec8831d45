// The real program on one state folder, started and killed again and again. Unlike the harness of the flow tests it may be
// killed before it is ready, and it keeps no output but the last lines.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { appendFileSync, cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { NODE } from "../support/harness.ts";
import { createSecretWatch, type Secrets } from "./secrets.ts";

export interface GatewayProcess {
  readonly stateDir: string;
  /** Starts it; resolves at once. */
  start(failpoint: string | null): void;
  /** Resolves with whether it became ready within this time and before it ended. */
  ready(withinMs: number): Promise<boolean>;
  /** Resolves with whether it ended within this time. */
  ended(withinMs: number): Promise<boolean>;
  isRunning(): boolean;
  /** This life said that it is ready. */
  wasReady(): boolean;
  /** How often it has begun anew by itself, in all its lives, because its lease was over. */
  anews(): number;
  /** Another number: it was started again. */
  life(): number | null;
  kill(signal: "SIGKILL" | "SIGTERM" | "SIGSTOP" | "SIGCONT"): void;
  exit(): { readonly code: number | null; readonly signal: NodeJS.Signals | null };
  /** Asks the page as its owner; rejects when nobody listens. */
  request(path: string, options?: RequestInit): Promise<Response>;
  /** The last lines this life wrote. */
  output(): string;
  /** Runs whose transcripts it left under their own names because renaming them had ended it again and again. */
  leftUnnamed(): ReadonlySet<string>;
  /** Names of the secrets in all it ever wrote. */
  leaked(): ReadonlySet<string>;
}

interface State {
  readonly dir: string;
  readonly stateDir: string;
  child: ChildProcess | null;
  origin: string | null;
  output: string;
  anews: number;
  readonly leftUnnamed: Set<string>;
  token: string | null;
  readonly logPath: string | null;
  readonly variables: Readonly<Record<string, string>>;
  readonly watch: ReturnType<typeof createSecretWatch>;
}

const KEPT_OUTPUT = 20_000;
/** src/main.ts */
const BEGINS_ANEW = "and it begins anew";
/** src/subagents/archive.ts */
const LEFT = /"runId":"([0-9a-f-]{36})"[^\n]*archiving this transcript ends the gateway/g;
const ROOT = new URL("../../", import.meta.url).pathname;

/** `logPath`: where all it ever writes is kept. */
export function createGatewayProcess(
  dir: string,
  config: Record<string, unknown>,
  secrets: Secrets,
  logPath: string | null = null,
): GatewayProcess {
  const { variables, planted, envFile } = secrets;
  const state: State = {
    ...{ dir, stateDir: join(dir, "state"), child: null, origin: null, output: "", anews: 0, token: null, variables, logPath },
    leftUnnamed: new Set(),
    watch: createSecretWatch(planted),
  };
  writeFileSync(join(dir, ".env"), envFile, { mode: 0o600 });
  mkdirSync(join(dir, "config"), { recursive: true });
  writeFileSync(join(dir, "config/herald.json5"), JSON.stringify(config), { mode: 0o600 });
  copyProgram(dir);
  const isRunning = (): boolean => state.child !== null && state.child.exitCode === null && state.child.signalCode === null;
  return {
    stateDir: state.stateDir,
    start: (failpoint) => launch(state, failpoint),
    ready: (withinMs) => until(() => state.origin !== null || !isRunning(), withinMs).then(() => state.origin !== null && isRunning()),
    async ended(withinMs) {
      const { child } = state;
      if (child === null || !isRunning()) return true;
      const over = new AbortController();
      await Promise.race([once(child, "exit", { signal: over.signal }), delay(withinMs, over.signal)]);
      over.abort();
      return !isRunning();
    },
    isRunning,
    wasReady: () => state.origin !== null,
    anews: () => state.anews,
    life: () => state.child?.pid ?? null,
    kill: (signal) => void state.child?.kill(signal),
    exit: () => ({ code: state.child?.exitCode ?? null, signal: state.child?.signalCode ?? null }),
    request: (path, options = {}) => request(state, path, options),
    output: () => state.output,
    leftUnnamed: () => state.leftUnnamed,
    leaked: () => state.watch.found(),
  };
}

/** The program as it is now: somebody may edit it during a long run, and all lives must be lives of the same one. */
function copyProgram(dir: string): void {
  for (const name of ["src", "config/workspace", "package.json"]) cpSync(join(ROOT, name), join(dir, name), { recursive: true });
  symlinkSync(join(ROOT, "node_modules"), join(dir, "node_modules"));
}

function launch(state: State, failpoint: string | null): void {
  state.origin = null;
  state.output = "";
  const env = {
    PATH: process.env.PATH,
    HOME: state.dir,
    HERALD_STATE_DIR: state.stateDir,
    ...state.variables,
    ...(failpoint === null ? {} : { HERALD_FAILPOINT: failpoint }),
  };
  const child = spawn(NODE, [join(state.dir, "src/herald.js"), "start"], { cwd: state.dir, env, stdio: ["ignore", "pipe", "pipe"] });
  state.child = child;
  let head = "";
  const read = (chunk: Buffer): void => {
    const text = chunk.toString();
    state.output = (state.output + text).slice(-KEPT_OUTPUT);
    state.watch.look(text);
    for (const [, runId = ""] of state.output.matchAll(LEFT)) state.leftUnnamed.add(runId);
    if (state.logPath !== null) appendFileSync(state.logPath, text);
    if (state.child !== child) return;
    // What it says of it is lost where nobody reads as fast as it writes: then its first words say it once more.
    if (text.includes(BEGINS_ANEW) || (state.origin !== null && /^Page: /m.test(text))) {
      state.anews++;
      state.origin = null;
      head = "";
    }
    if (state.origin !== null) return;
    head += text;
    state.origin = /^Page: +(http:\/\/\S+)/m.exec(head)?.[1] ?? null;
  };
  child.stdout.on("data", read);
  child.stderr.on("data", read);
}

async function request(state: State, path: string, options: RequestInit): Promise<Response> {
  if (state.origin === null) throw new Error("the page is not there");
  // Of several processes only one made the token; its link is with all of them.
  state.token ??= /#token=(\S+)/.exec(readFileSync(join(state.stateDir, "sign-in-link"), "utf8"))?.[1] ?? null;
  const headers = { ...(options.headers as object), authorization: `Bearer ${state.token}`, "content-type": "application/json" };
  return fetch(`${state.origin}${path}`, { signal: AbortSignal.timeout(5_000), ...options, headers });
}

export const delay = (ms: number, signal?: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });

/** Resolves when it is true or the time is over. */
export async function until(isTrue: () => boolean, withinMs: number, everyMs = 5): Promise<boolean> {
  const deadline = performance.now() + withinMs;
  while (!isTrue()) {
    if (performance.now() > deadline) return false;
    await delay(everyMs);
  }
  return true;
}
