// One child process from start to a certain end: its own process group, a deadline, an output cap, a watch over
// processes and memory. exec and search run their commands through here.
// spawn → exit | timeout | abort | a limit passed → everything it started is killed → result, within 2 s of a stop (ST2).
import { type ChildProcess, type StdioOptions, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync, readdirSync, readFileSync } from "node:fs";
import type { Duplex, Readable, Writable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { errorText } from "../core/errors.ts";
import { isFirstAlive, killMarked, killTree, listDescendants, residentBytes } from "./process-tree.ts";

const WATCH_EVERY_MS = 100;
/** Memory costs a read per process and grows slower than their number can. */
const MEMORY_EVERY_LOOKS = 3;
/** How long a killed process may take to go, and its pipes to close, before we stop waiting. */
const SETTLE_MS = 1500;
const O_CLOEXEC = 0o2000000;
const SWEEPS = 3;
const SWEEP_EVERY_MS = 40;
const GONE_EVERY_MS = 2;

export interface ProcessLimits {
  readonly processes: number;
  readonly outputBytes: number;
}

export interface ProcessRequest {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  /** What the child can read from file descriptors 3, 4, … */
  readonly inputs?: readonly (string | Buffer)[];
  /** It is bubblewrap, which tells on the descriptor behind the inputs what the first process of its namespace is. */
  readonly tellsFirst?: boolean;
  /** A value in `env` that nothing else has: lets us find children that left the process tree. */
  readonly mark?: string;
  readonly timeoutMs: number;
  readonly limits: ProcessLimits;
  readonly signal: AbortSignal;
  /** Asked ten times a second: why it has to end, in a clause, or null. */
  watch?(seen: Seen): string | null;
  onOutput(chunk: Buffer, from: "stdout" | "stderr"): void;
}

/** What a look at a running command finds. */
export interface Seen {
  /** The process we started and all below it. */
  readonly pids: readonly number[];
  /** Memory they hold; null when this look did not count it. */
  readonly memoryBytes: number | null;
}

/** Why we ended it. */
type Cut = "timeout" | "aborted" | "output" | "processes";

export type ProcessResult =
  | { readonly end: "exit"; readonly code: number | null; readonly signal: NodeJS.Signals | null; readonly ms: number }
  | { readonly end: Cut; readonly ms: number }
  | { readonly end: "watch"; readonly reason: string; readonly ms: number }
  | { readonly end: "failed"; readonly reason: string; readonly ms: number };

// What started the gateway may have left it open files above those Node closes; a folder among them would lead a
// command out of the sandbox. Everything Node opens itself is close-on-exec, so looking once is enough.
const INHERITED_FDS = listInheritedFds();

function listInheritedFds(): number[] {
  try {
    return readdirSync("/proc/self/fd").map(Number).filter(isInherited);
  } catch {
    return []; // No /proc, no sandbox either.
  }
}

function isInherited(fd: number): boolean {
  try {
    const flags = /^flags:\s+(\d+)/m.exec(readFileSync(`/proc/self/fdinfo/${fd}`, "latin1"))?.[1] ?? "0";
    return (Number.parseInt(flags, 8) & O_CLOEXEC) === 0;
  } catch {
    return false; // The descriptor of the listing itself, closed by now.
  }
}

type Exit = { end: "exit"; code: number | null; signal: NodeJS.Signals | null } | { end: "failed"; reason: string };

/** Never throws. When it resolves, all that the process started is gone (for sure only inside the sandbox). */
export async function runProcess(request: ProcessRequest): Promise<ProcessResult> {
  const startedAt = performance.now();
  const ms = () => Math.round(performance.now() - startedAt);
  if (request.signal.aborted) return { end: "aborted", ms: 0 };
  const child = startChild(request);
  if ("reason" in child) return { ...child, ms: ms() };
  const first = request.tellsFirst === true ? readInfo(child, request.inputs?.length ?? 0) : () => "";
  const closed = once(child, "close").catch(() => undefined);
  const cut = watchLimits(child, request);
  try {
    const ended = await Promise.race([exitOf(child), cut.reason]);
    if (ended.end !== "exit" && ended.end !== "failed") {
      if (isAlive(child)) killTree(child.pid, request.mark);
      await Promise.all([sweep(request.mark), settledWithin(SETTLE_MS, closed)]);
    } else {
      await sweep(request.mark);
      // The last output may still be in the pipe; only something that escaped and holds it open makes this wait in vain.
      await Promise.race([settledWithin(SETTLE_MS, closed), cut.reason]);
    }
    await namespaceGone(first());
    return { ...ended, ms: ms() };
  } finally {
    cut.end();
    child.stdout?.destroy();
    child.stderr?.destroy();
  }
}

function startChild(request: ProcessRequest): ChildProcess | { end: "failed"; reason: string } {
  try {
    const child = spawnChild(request);
    for (const [n, input] of (request.inputs ?? []).entries()) {
      // Without a free descriptor Node makes no pipes, and reports it as an error event.
      const pipe = child.stdio?.[n + 3] as Writable | undefined;
      // A child that dies before reading gives EPIPE here; its exit tells the story.
      pipe?.on("error", () => undefined);
      pipe?.end(input);
    }
    return child;
  } catch (error) {
    return { end: "failed", reason: errorText(error) };
  }
}

/** What the child writes to the descriptor behind its inputs, as far as it has. */
function readInfo(child: ChildProcess, inputs: number): () => string {
  let text = "";
  const pipe = child.stdio?.[inputs + 3] as Duplex | undefined;
  pipe?.on("data", (chunk: Buffer) => {
    text += chunk.toString("latin1");
  });
  pipe?.on("error", () => undefined);
  return () => text;
}

/**
 * bubblewrap ends when its command does, a little before what that left in the background: for some milliseconds this can
 * still write, also what was just put in order behind it. The namespace is empty when its first process is gone, a
 * zombie at most: the kernel ends it last.
 */
async function namespaceGone(info: string): Promise<void> {
  const pid = /"child-pid": (\d+)/.exec(info)?.[1];
  const giveUpAt = performance.now() + SETTLE_MS;
  while (pid !== undefined && isFirstAlive(pid) && performance.now() < giveUpAt) await delay(GONE_EVERY_MS);
}

function spawnChild({ command, args, cwd, env, inputs = [], tellsFirst = false }: ProcessRequest): ChildProcess {
  const nothing = openSync("/dev/null", "r");
  try {
    const stdio: StdioOptions = ["ignore", "pipe", "pipe", ...inputs.map(() => "pipe" as const)];
    if (tellsFirst) stdio.push("pipe");
    // Node leaves "ignore" above 2 as it is, so an inherited descriptor has to be covered with something.
    for (const fd of INHERITED_FDS) if (fd >= stdio.length) stdio[fd] = nothing;
    return spawn(command, args, { cwd, env: { ...env }, detached: true, stdio: Array.from(stdio, (entry) => entry ?? "ignore") });
  } finally {
    closeSync(nothing);
  }
}

const exitOf = (child: ChildProcess): Promise<Exit> =>
  new Promise((resolve) => {
    child.once("exit", (code, signal) => resolve({ end: "exit", code, signal }));
    child.on("error", (error) => resolve({ end: "failed", reason: errorText(error) }));
  });

type Ended = { end: Cut } | { end: "watch"; reason: string };

/** `reason` resolves with the first limit passed; `end` takes all timers and listeners away. */
function watchLimits(child: ChildProcess, request: ProcessRequest): { reason: Promise<Ended>; end(): void } {
  const { promise, resolve } = Promise.withResolvers<Ended>();
  const stop = () => resolve({ end: "aborted" });
  request.signal.addEventListener("abort", stop, { once: true });
  const deadline = setTimeout(() => resolve({ end: "timeout" }), request.timeoutMs);
  let looks = 0;
  const watch = setInterval(() => {
    looks += 1;
    const passed = passedLimit(child, request, looks % MEMORY_EVERY_LOOKS === 0);
    if (passed !== null) resolve(passed);
  }, WATCH_EVERY_MS);
  let bytes = 0;
  const listen = (stream: Readable | null, from: "stdout" | "stderr") =>
    stream?.on("data", (chunk: Buffer) => {
      bytes += chunk.length;
      request.onOutput(chunk, from);
      if (bytes <= request.limits.outputBytes) return;
      resolve({ end: "output" });
      // A flood must not keep the loop busy until the kill has worked.
      stream.destroy();
    });
  listen(child.stdout, "stdout");
  listen(child.stderr, "stderr");
  return {
    reason: promise,
    end() {
      request.signal.removeEventListener("abort", stop);
      clearTimeout(deadline);
      clearInterval(watch);
    },
  };
}

// The kernel's process limit does not bind root, and no rlimit bounds the memory of a whole tree: so we look ourselves.
function passedLimit(child: ChildProcess, { limits, watch }: ProcessRequest, withMemory: boolean): Ended | null {
  if (!isAlive(child)) return null;
  const pids = [child.pid, ...listDescendants(child.pid, limits.processes + 1)];
  if (pids.length > limits.processes + 1) return { end: "processes" };
  const reason = watch?.({ pids, memoryBytes: withMemory ? residentBytes(pids) : null }) ?? null;
  return reason === null ? null : { end: "watch", reason };
}

// A process in the middle of execve shows no environment for a moment, so one look could miss it.
async function sweep(mark: string | undefined): Promise<void> {
  if (mark === undefined) return;
  for (let round = 0; round < SWEEPS; round += 1) {
    killMarked(mark);
    await delay(SWEEP_EVERY_MS);
  }
}

/** Not yet reaped: its pid is still its own, and may be signalled. */
const isAlive = (child: ChildProcess): child is ChildProcess & { pid: number } =>
  child.pid !== undefined && child.exitCode === null && child.signalCode === null;

/** Waits for the work, whatever becomes of it, but no longer than this. Never rejects. */
export async function settledWithin(ms: number, work: Promise<unknown>): Promise<void> {
  const { promise: late, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, ms);
  await Promise.race([late, work.catch(() => undefined)]);
  clearTimeout(timer);
}
