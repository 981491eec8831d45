// A temp workspace with a place beside it that must stay out of reach, and a way to call tools in it.
import { readdirSync, readFileSync } from "node:fs";
import { mkdtemp, realpath, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Tool, ToolContext, ToolResult } from "../../src/core/tool.ts";
import { callTool } from "./tool-context.ts";

/** What exec takes beside the sandbox in tests that are not about it. */
export const EXEC_DEFAULTS = {
  unsandboxed: false,
  timeoutSeconds: 60,
  envAllow: [],
  maxConcurrent: 8,
  limits: { memoryBytes: 4 * 1024 ** 3, diskBytes: 1024 ** 3, files: 50_000, freeDiskBytes: 0, freeMemoryBytes: 0 },
};

export interface ToolBench {
  /** Holds the workspace and what must stay out of reach. */
  readonly outer: string;
  readonly workspace: string;
  call(tool: Tool | null | undefined, args: unknown, over?: Partial<ToolContext>): Promise<ToolResult>;
  remove(): Promise<void>;
}

export async function createToolBench(): Promise<ToolBench> {
  const outer = await realpath(await mkdtemp(join(tmpdir(), "herald-tools-")));
  const workspace = await mkdtemp(join(outer, "workspace-"));
  return {
    outer,
    workspace,
    async call(tool, args, over = {}) {
      if (tool === null || tool === undefined) throw new Error("the tool is absent");
      return await callTool(tool, args, { workspace, sessionId: "0b8f7a52-6d0f-4a0e-9a3c-3a1f6f3f5f10", ...over });
    },
    remove: () => rm(outer, { recursive: true, force: true }),
  };
}

/** Pids on this machine whose command line holds the text. */
export function findProcesses(text: string): number[] {
  const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  return pids.filter((pid) => readCommandLine(pid).includes(text)).map(Number);
}

function readCommandLine(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ");
  } catch {
    return ""; // It ended meanwhile.
  }
}

/** A `sleep` no other test uses, so that its processes can be found. */
export const uniqueSleep = (): string => `sleep ${600 + Math.floor(Math.random() * 300)}.${Math.floor(Math.random() * 1e9)}`;
