// One MCP server as a child process: JSON-RPC, a line each, over its stdin and stdout. mcp-server.ts starts it and
// hears when it ends. The library's own stdio transport keeps a line of any length, loses stderr and leaves
// grandchildren; this one bounds the line, keeps the last words and ends the whole tree.
import { type ChildProcessByStdio, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import type { Readable, Writable } from "node:stream";
import type { MCPTransport } from "@ai-sdk/mcp";
import { errorText } from "../core/errors.ts";
import { visibleLine } from "../core/visible-text.ts";
import type { McpLink } from "./mcp-server.ts";
import { settledWithin } from "./process.ts";
import { killMarked, killTree } from "./process-tree.ts";

export interface StdioServer {
  readonly command: string;
  readonly args?: readonly string[];
  /** All the server gets beside the allow-list below. */
  readonly env?: Readonly<Record<string, string>>;
}

const INHERITED = ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ", "TMPDIR", "TERM"];
const MARK = "HERALD_MCP";
/** Images come as base64 inside a line. */
const MAX_LINE_BYTES = 8 * 1024 * 1024;
const MAX_GARBAGE_LINES = 1_000;
const STDERR_CHARS = 2_000;
const STDERR_LINES = 5;
const TERM_MS = 1_000;
const PIPES_MS = 500;

type Child = ChildProcessByStdio<Writable, Readable, Readable>;

interface Process {
  child: Child | null;
  /** In the environment of everything it starts, so that all of it can be found and ended. */
  readonly id: string;
  stderr: string;
  garbage: number;
  readonly transport: MCPTransport;
  readonly onToolsChanged: () => void;
  /** Set once somebody asked for the end; what it still prints is not read any more. */
  ending: Promise<void> | null;
  settle(reason: string): void;
}

/** A link that starts the process when the client starts the transport. `environment` is where the allow-list is taken from. */
export function createStdioLink(server: StdioServer, environment: NodeJS.ProcessEnv, onToolsChanged: () => void): McpLink {
  const { promise: closed, resolve: settle } = Promise.withResolvers<string>();
  const transport: MCPTransport = {
    supportsProtocolVersionDiscovery: true,
    start: () => launch(state, server, environment),
    send: (message) => write(state, `${JSON.stringify(message)}\n`),
    close: () => end(state),
  };
  const state: Process = { child: null, id: randomUUID(), stderr: "", garbage: 0, transport, onToolsChanged, ending: null, settle };
  return { transport, closed, fail: settle, lastWords: () => lastLines(state.stderr), end: () => end(state) };
}

async function launch(state: Process, server: StdioServer, environment: NodeJS.ProcessEnv): Promise<void> {
  const child = spawn(server.command, server.args ?? [], {
    env: { ...inherit(environment), ...server.env, [MARK]: state.id },
    stdio: ["pipe", "pipe", "pipe"],
    // A process group of its own: a Ctrl-C meant for the gateway must not end it before the drain.
    detached: true,
  });
  state.child = child;
  child.on("error", (error) => finish(state, `could not be started: ${errorText(error)}`));
  child.on("exit", (code, signal) => void settleExit(state, child, `ended with ${signal ?? `exit code ${code}`}`));
  child.stdin.on("error", (error) => state.transport.onerror?.(error));
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    state.stderr = (state.stderr + text).slice(-STDERR_CHARS);
  });
  readLines(child.stdout, {
    onLine: (line) => receive(state, line),
    onTooLong: () => stopFor(state, `sent a line of more than ${MAX_LINE_BYTES / 1024 / 1024} MB`),
  });
  await once(child, "spawn");
}

const inherit = (environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv =>
  Object.fromEntries(INHERITED.filter((name) => environment[name] !== undefined).map((name) => [name, environment[name]]));

function readLines(stdout: Readable, on: { onLine(line: string): void; onTooLong(): void }): void {
  let parts: Buffer[] = [];
  let size = 0;
  stdout.on("data", (chunk: Buffer) => {
    let from = 0;
    for (let at = chunk.indexOf(10); at !== -1; at = chunk.indexOf(10, from)) {
      on.onLine(Buffer.concat([...parts, chunk.subarray(from, at)]).toString("utf8"));
      parts = [];
      size = 0;
      from = at + 1;
    }
    parts.push(chunk.subarray(from));
    size += chunk.length - from;
    if (size <= MAX_LINE_BYTES) return;
    parts = [];
    size = 0;
    stdout.destroy();
    on.onTooLong();
  });
}

function receive(state: Process, line: string): void {
  if (state.ending !== null || line.trim() === "") return;
  const message = parseMessage(line);
  if (message === null) {
    state.garbage++;
    if (state.garbage > MAX_GARBAGE_LINES) stopFor(state, "prints something other than MCP messages");
    return;
  }
  state.garbage = 0;
  if ("method" in message && message.method === "notifications/tools/list_changed") return state.onToolsChanged();
  try {
    state.transport.onmessage?.(message);
  } catch (error) {
    // The client throws on an answer nobody waits for any more, such as one after a timeout.
    state.transport.onerror?.(error as Error);
  }
}

type Message = Parameters<NonNullable<MCPTransport["onmessage"]>>[0];

/** The client checks the shape of what it uses; here it only has to be a JSON-RPC object. */
function parseMessage(line: string): Message | null {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === "object" && value !== null && "jsonrpc" in value && value.jsonrpc === "2.0" ? (value as Message) : null;
  } catch {
    return null;
  }
}

async function write(state: Process, line: string): Promise<void> {
  const stdin = state.child?.stdin;
  if (stdin === undefined || !stdin.writable) throw new Error("the server is not running");
  // Not awaited: a server that stops reading must not hold the caller, whose own deadline counts.
  stdin.write(line);
}

function stopFor(state: Process, reason: string): void {
  state.settle(reason);
  void end(state);
}

/** Waits a moment for the pipes: the last words on stderr are why it ended. */
async function settleExit(state: Process, child: Child, reason: string): Promise<void> {
  killMarked(`${MARK}=${state.id}`);
  await settledWithin(PIPES_MS, once(child, "close"));
  for (const stream of [child.stdin, child.stdout, child.stderr]) stream.destroy();
  finish(state, reason);
}

function finish(state: Process, reason: string): void {
  state.settle(reason);
  state.transport.onclose?.();
}

/** Never rejects; resolves when the process and what it started are gone. */
function end(state: Process): Promise<void> {
  state.ending ??= endTree(state);
  return state.ending;
}

async function endTree(state: Process): Promise<void> {
  const child = state.child;
  if (child?.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, "exit");
  child.stdin.end();
  child.kill("SIGTERM");
  await settledWithin(TERM_MS, exited);
  if (child.exitCode !== null || child.signalCode !== null) return;
  killTree(child.pid, `${MARK}=${state.id}`);
  await settledWithin(TERM_MS, exited);
}

const lastLines = (stderr: string): string =>
  stderr
    .trim()
    .split("\n")
    .slice(-STDERR_LINES)
    .map((line) => visibleLine(line, 300))
    .filter((line) => line !== "")
    .join(" / ");
