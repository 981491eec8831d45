// Herald as a bare process, for starts that are meant to fail or that want no settings at all: a folder of its own,
// everything it printed, and its exit code.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { NODE, START } from "./harness.ts";
import { waitFor } from "./wait.ts";

export interface BareOptions {
  /** config/herald.json5 as text; none is written without it. */
  readonly config?: string;
  /** .env as text. */
  readonly dotenv?: string;
  readonly env?: Record<string, string | undefined>;
  readonly node?: string;
  /** Another program than that of this checkout: path of its herald.js. */
  readonly program?: string;
  /** Run as this user (only root can). */
  readonly uid?: number;
  /** Called with the folder before the start. */
  prepare?(dir: string): void;
}

export interface BareHerald extends AsyncDisposable {
  readonly dir: string;
  readonly stateDir: string;
  readonly pid: number;
  stdout(): string;
  stderr(): string;
  /** The page's origin, once it is printed. */
  ready(): Promise<string>;
  /** Exit code, or the signal that ended it. */
  ended(): Promise<number | string | null>;
  kill(signal: NodeJS.Signals): void;
  /** Nobody reads what it prints any more: its next write fails. */
  closeOutput(): void;
}

export function runHerald(options: BareOptions = {}): BareHerald {
  const dir = mkdtempSync(join(tmpdir(), "herald-bare-"));
  mkdirSync(join(dir, "config"));
  if (options.config !== undefined) writeFileSync(join(dir, "config/herald.json5"), options.config);
  if (options.dotenv !== undefined) writeFileSync(join(dir, ".env"), options.dotenv, { mode: 0o600 });
  options.prepare?.(dir);
  const stateDir = join(dir, "state");
  const env = { PATH: process.env.PATH, HOME: dir, HERALD_STATE_DIR: stateDir, ...options.env };
  const user = options.uid === undefined ? {} : { uid: options.uid, gid: options.uid };
  const child = spawn(options.node ?? NODE, [options.program ?? START, "start"], {
    cwd: dir,
    env,
    stdio: ["ignore", "pipe", "pipe"],
    ...user,
  });
  const exited = once(child, "exit");
  const out = { stdout: "", stderr: "" };
  child.stdout.on("data", (chunk: Buffer) => {
    out.stdout += chunk.toString();
  });
  child.stderr.on("data", (chunk: Buffer) => {
    out.stderr += chunk.toString();
  });
  const hasEnded = (): boolean => child.exitCode !== null || child.signalCode !== null;
  return {
    dir,
    stateDir,
    pid: child.pid ?? 0,
    stdout: () => out.stdout,
    stderr: () => out.stderr,
    async ready() {
      await waitFor("the start-up lines", () => hasEnded() || /^exec: /m.test(out.stdout));
      const origin = /^Page: +(http:\/\/[^\s/]+)/m.exec(out.stdout)?.[1];
      if (origin === undefined) throw new Error(`it did not come up: ${out.stderr}`);
      return origin;
    },
    async ended() {
      await waitFor("the process to end", hasEnded);
      await exited;
      return child.exitCode ?? child.signalCode;
    },
    kill: (signal) => void child.kill(signal),
    closeOutput() {
      child.stdout.destroy();
      child.stderr.destroy();
    },
    async [Symbol.asyncDispose]() {
      if (!hasEnded()) child.kill("SIGKILL");
      await exited;
      rmSync(dir, { recursive: true, force: true });
    },
  };
}
