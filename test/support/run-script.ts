// One of the scripts beside the gateway as a real process: what it printed and how it ended.
import { spawn } from "node:child_process";
import { text } from "node:stream/consumers";
import { NODE } from "./harness.ts";

export interface ScriptEnd {
  /** Exit code, or the signal that ended it. */
  readonly ended: number | string | null;
  /** Both streams. */
  readonly said: string;
}

const SRC = new URL("../../src/", import.meta.url).pathname;

export async function runScript(name: string, args: readonly string[], cwd: string, env: Record<string, string>): Promise<ScriptEnd> {
  const child = spawn(NODE, [`${SRC}${name}`, ...args], {
    cwd,
    env: { PATH: process.env.PATH, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const closed = new Promise<void>((resolve) => child.once("close", () => resolve()));
  const said = (await Promise.all([text(child.stdout), text(child.stderr)])).join("");
  await closed;
  return { ended: child.exitCode ?? child.signalCode, said };
}
