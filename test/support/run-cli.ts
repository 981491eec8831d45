// `herald …` as a real process: what it printed on either stream, and how it ended.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { NODE, START } from "./harness.ts";

export interface CliEnd {
  /** Exit code, or the signal that ended it. */
  readonly code: number | string | null;
  readonly out: string;
  readonly err: string;
}

export interface CliOptions {
  readonly cwd?: string;
  readonly env?: Record<string, string | undefined>;
  /** What it reads on stdin; nothing: that is closed. */
  readonly input?: string;
  /** Somebody could still write to stdin, and never does. */
  readonly isInputOpen?: boolean;
  /** As somebody else, which only root can. */
  readonly uid?: number;
}

export async function runCli(args: readonly string[], { cwd, env, input, isInputOpen = false, uid }: CliOptions = {}): Promise<CliEnd> {
  const child = spawn(NODE, [START, ...args], {
    cwd,
    env: { PATH: process.env.PATH, HOME: "/nowhere", ...env },
    ...(uid === undefined ? {} : { uid, gid: uid }),
    stdio: [input === undefined && !isInputOpen ? "ignore" : "pipe", "pipe", "pipe"],
  });
  const closed = new Promise<void>((resolve) => child.once("close", () => resolve()));
  if (!isInputOpen) child.stdin?.end(input);
  const [out, err] = await Promise.all([text(child.stdout as NodeJS.ReadableStream), text(child.stderr as NodeJS.ReadableStream)]);
  await closed;
  child.stdin?.destroy();
  return { code: child.exitCode ?? child.signalCode, out, err };
}

/** The same on the installation of a gateway that a test runs. */
export const cliOf =
  ({ dir, stateDir }: { readonly dir: string; readonly stateDir: string }) =>
  (args: readonly string[], options: CliOptions = {}): Promise<CliEnd> =>
    runCli(args, { cwd: dir, ...options, env: { HOME: dir, HERALD_STATE_DIR: stateDir, ...options.env } });

export interface RunningCli {
  out(): string;
  err(): string;
  /** Nobody reads what it prints any more. */
  hangUp(): void;
  kill(signal: NodeJS.Signals): void;
  /** As on a keyboard, where `script` gives it a terminal. */
  type(keys: string): void;
  ended(): Promise<number | string | null>;
}

/** One that goes on for a while. `shell`: a command line around it that has its own words as "$@". */
export function startCli(
  { dir, stateDir }: { readonly dir: string; readonly stateDir: string },
  args: readonly string[],
  { env = {}, shell, isTyped = false }: { readonly env?: Record<string, string>; readonly shell?: string; readonly isTyped?: boolean } = {},
): RunningCli {
  const words = shell === undefined ? [NODE, START, ...args] : ["/bin/sh", "-c", shell, "sh", NODE, START, ...args];
  const child = spawn(words[0] ?? "", words.slice(1), {
    cwd: dir,
    env: { PATH: process.env.PATH, HOME: dir, HERALD_STATE_DIR: stateDir, ...env },
    stdio: [isTyped ? "pipe" : "ignore", "pipe", "pipe"],
  });
  const closed = once(child, "close");
  child.stdin?.on("error", () => {});
  const said = { out: "", err: "" };
  child.stdout?.on("data", (chunk: Buffer) => (said.out += chunk.toString()));
  child.stderr?.on("data", (chunk: Buffer) => (said.err += chunk.toString()));
  return {
    out: () => said.out,
    err: () => said.err,
    hangUp: () => child.stdout?.destroy(),
    kill: (signal) => void child.kill(signal),
    type: (keys) => void child.stdin?.write(keys),
    async ended() {
      await closed;
      return child.exitCode ?? child.signalCode;
    },
  };
}
