// The whole program as a real process on a state folder of its own, driven through the page's HTTP API. crash() is
// SIGKILL. Disposing stops it gracefully and fails the test when it left an unhandled error or an unsent message.
import { type ChildProcess, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { waitFor } from "./wait.ts";

export interface PageMessage {
  readonly seq: number;
  readonly id: string;
  readonly author: "user" | "agent";
  readonly kind: string;
  /** The words as they were sent. */
  readonly text: string;
}

export interface HarnessOptions {
  /** herald.json5 as an object; the page's port is chosen freely. */
  readonly config?: Record<string, unknown>;
  readonly env?: Record<string, string>;
  /** Another program than that of this checkout: path of its herald.js. */
  readonly program?: string;
  readonly failpoint?: string;
  /** The test leaves messages undelivered on purpose. */
  readonly leavesUnsent?: boolean;
  /** The test provokes logged errors on purpose. */
  readonly expectsErrors?: boolean;
  /** One of several: what they have in common. */
  readonly shared?: { readonly url: string; readonly node: string; readonly args?: readonly string[]; readonly rows: Harness["rows"] };
}

export interface Harness extends AsyncDisposable {
  /** The processes it is made of: itself, or several. */
  readonly members: readonly Harness[];
  readonly stateDir: string;
  readonly dir: string;
  readonly origin: () => string;
  readonly pid: () => number;
  /** Posts a message; resolves with its id when it is durably accepted. Repeats the post when the process dies meanwhile. */
  say(text: string, options?: { chat?: string; id?: string; kind?: "message" | "button" }): Promise<string>;
  /** Everything the chat shows, oldest first. */
  messages(chat?: string): Promise<PageMessage[]>;
  /** What the agent said, oldest first. */
  replies(chat?: string): Promise<PageMessage[]>;
  announcements(chat?: string): Promise<PageMessage[]>;
  /** Waits until the chat holds an agent's message that fits. */
  reply(fits: RegExp, chat?: string, timeoutMs?: number): Promise<PageMessage>;
  /** SIGKILL. */
  crash(): Promise<void>;
  /** Starts it again on the same folder, by default without a failpoint. */
  restart(options?: { failpoint?: string; env?: Record<string, string> }): Promise<void>;
  /** SIGTERM; resolves with the exit code. */
  stop(): Promise<number | null>;
  isRunning(): boolean;
  /** Waits for the process to end by itself (a failpoint). */
  exited(timeoutMs?: number): Promise<void>;
  /** A read-only look at the tables. */
  rows<T>(sql: string, ...params: (string | number)[]): T[];
  output(): string;
  request(path: string, init?: RequestInit): Promise<Response>;
}

const ROOT = new URL("../../", import.meta.url).pathname;
export const NODE = join(ROOT, "node_modules/.bin/node");
export const START = join(ROOT, "src/herald.js");

/** A start takes a second; a machine that does much else is given time. */
const START_MS = 60_000;

interface State {
  readonly dir: string;
  readonly stateDir: string;
  readonly options: HarnessOptions;
  child: ChildProcess | null;
  origin: string;
  output: string;
}

export async function createHarness(options: HarnessOptions = {}): Promise<Harness> {
  const dir = mkdtempSync(join(tmpdir(), "herald-"));
  const state: State = { dir, stateDir: join(dir, "state"), options, child: null, origin: "", output: "" };
  mkdirSync(join(dir, "config"));
  writeConfig(state, options.config ?? {});
  try {
    await launch(state, options.failpoint);
  } catch (error) {
    state.child?.kill("SIGKILL");
    rmSync(dir, { recursive: true, force: true });
    throw error;
  }
  return toHarness(state);
}

export function writeConfig(state: { dir: string }, config: Record<string, unknown>): void {
  const web = { port: 0, ...(config.web as object | undefined) };
  const models = { probeLocal: false, ...(config.models as object | undefined) };
  writeFileSync(join(state.dir, "config/herald.json5"), JSON.stringify({ ...config, web, models }), { mode: 0o600 });
}

async function launch(state: State, failpoint: string | undefined, more: Record<string, string> = {}): Promise<void> {
  state.origin = "";
  const { shared } = state.options;
  const env = {
    PATH: process.env.PATH,
    HOME: state.dir,
    HERALD_STATE_DIR: state.stateDir,
    ...(shared === undefined ? {} : { DATABASE_URL: shared.url, HERALD_NODE: shared.node }),
    ...state.options.env,
    ...more,
    ...(failpoint ? { HERALD_FAILPOINT: failpoint } : {}),
  };
  const child = spawn(NODE, [state.options.program ?? START, "start", ...(shared?.args ?? [])], {
    cwd: state.dir,
    env,
    stdio: ["ignore", "pipe", "pipe"],
  });
  state.child = child;
  let said = "";
  const read = (chunk: Buffer): void => {
    state.output += chunk.toString();
    // Late words of a process that was killed are not those of the next one.
    if (state.child !== child) return;
    said += chunk.toString();
    // Past its lease the same process begins once more, with another address.
    const anew = said.lastIndexOf("it begins anew");
    if (anew >= 0) [said, state.origin] = [said.slice(anew + 1), ""];
    if (state.origin !== "") return;
    // A worker has no page.
    state.origin = /^Page: +(http:\S+|off)[\s\S]*^exec: /m.exec(said)?.[1] ?? "";
  };
  child.stdout?.on("data", read);
  child.stderr?.on("data", read);
  const closed = once(child, "close");
  const hasEnded = (): boolean => child.exitCode !== null || child.signalCode !== null;
  // The start lines are printed when everything is ready; exec stands on the last.
  await waitFor("the gateway to be ready", () => state.origin !== "" || hasEnded(), START_MS);
  // A failpoint may lie before readiness; otherwise this is a failed start.
  if (state.origin !== "" || (failpoint !== undefined && child.signalCode === "SIGKILL")) return;
  await closed;
  throw new Error(`it ended with ${child.exitCode ?? child.signalCode}:\n${state.output}`);
}

/** Several have one token, that of the first. */
const tokenOf = ({ stateDir, options: { shared } }: State): string =>
  shared?.rows<{ value: string }>("SELECT value FROM kept WHERE name = 'web-token'")[0]?.value ??
  readFileSync(join(stateDir, "web-token"), "utf8").trim();

async function request(state: State, path: string, init: RequestInit = {}): Promise<Response> {
  const token = tokenOf(state);
  return fetch(`${state.origin}${path}`, {
    ...init,
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json", ...(init.headers as object) },
  });
}

async function say(state: State, text: string, options: { chat?: string; id?: string; kind?: string } = {}): Promise<string> {
  const id = options.id ?? randomUUID();
  const body = JSON.stringify({ id, text, kind: options.kind ?? "message" });
  await waitFor(`the post of "${text.slice(0, 60)}" to be accepted`, async () => {
    const response = await request(state, `/api/chats/${options.chat ?? "main"}/messages`, { method: "POST", body });
    if (response.status === 429 || response.status === 503) return false;
    if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
    return true;
  });
  return id;
}

function toHarness(state: State): Harness {
  const inFile = <T>(sql: string, ...params: (string | number)[]): T[] => {
    const db = new DatabaseSync(join(state.stateDir, "herald.db"), { readOnly: true });
    try {
      return db.prepare(sql).all(...params) as T[];
    } finally {
      db.close();
    }
  };
  const rows = state.options.shared?.rows ?? inFile;
  const messages = async (chat = "main"): Promise<PageMessage[]> =>
    rows<{ seq: number; key: string; author: "user" | "agent"; text: string; extra: string | null }>(
      "SELECT * FROM web_messages WHERE chat = ? ORDER BY seq",
      chat,
    ).map((row) => ({
      seq: row.seq,
      id: row.key,
      author: row.author,
      kind: row.key.startsWith("announce:")
        ? "announcement"
        : row.key.startsWith("answer:")
          ? "answer"
          : row.key.startsWith("live:")
            ? "live"
            : row.author === "user"
              ? "user"
              : "reply",
      text: row.text,
    }));
  const harness: Harness = {
    get members() {
      return [harness];
    },
    stateDir: state.stateDir,
    dir: state.dir,
    origin: () => state.origin,
    pid: () => state.child?.pid ?? 0,
    say: (text, options) => say(state, text, options),
    messages,
    replies: async (chat) => (await messages(chat)).filter((message) => message.author === "agent"),
    announcements: async (chat) => (await messages(chat)).filter((message) => message.kind === "announcement"),
    reply: (fits, chat, timeoutMs) =>
      waitFor(
        `a reply like ${fits}`,
        async () => (await messages(chat)).find((message) => message.author === "agent" && fits.test(message.text)),
        timeoutMs,
      ),
    async crash() {
      state.child?.kill("SIGKILL");
      await harness.exited();
    },
    restart: (options) => launch(state, options?.failpoint, options?.env),
    async stop() {
      state.child?.kill("SIGTERM");
      await harness.exited(40_000);
      return state.child?.exitCode ?? null;
    },
    isRunning: () => state.child !== null && state.child.exitCode === null && state.child.signalCode === null,
    async exited(timeoutMs = 60_000) {
      const child = state.child;
      if (child === null || child.exitCode !== null || child.signalCode !== null) return;
      await Promise.race([
        once(child, "exit"),
        new Promise((_, reject) =>
          setTimeout(() => reject(new Error(`it did not end within ${timeoutMs} ms\n${state.output.slice(-3000)}`)), timeoutMs).unref(),
        ),
      ]);
    },
    rows,
    output: () => state.output,
    request: (path, init) => request(state, path, init),
    [Symbol.asyncDispose]: () => dispose(state, harness),
  };
  return harness;
}

async function dispose(state: State, harness: Harness): Promise<void> {
  const running = state.child !== null && state.child.exitCode === null && state.child.signalCode === null;
  try {
    if (running) {
      if (state.options.leavesUnsent !== true) {
        await waitFor(
          "every message to be sent",
          () => harness.rows<{ n: number }>("SELECT count(*) AS n FROM outbox WHERE state IN ('queued','sending','unknown')")[0]?.n === 0,
        );
      }
      const code = await harness.stop();
      if (code !== 0) throw new Error(`it ended with code ${code}:\n${state.output.slice(-4000)}`);
    }
    if (state.options.expectsErrors !== true && /nobody listened|"uncaught"|a listener failed|a job of a lane failed/.test(state.output)) {
      throw new Error(`it left an unhandled error:\n${state.output.slice(-4000)}`);
    }
  } finally {
    state.child?.kill("SIGKILL");
    rmSync(state.dir, { recursive: true, force: true });
  }
}
