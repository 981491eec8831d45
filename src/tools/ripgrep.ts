// One search with ripgrep: a task → matching lines, or why there are none. It runs inside the sandbox where there is one:
// it opens files by path, and a folder swapped for a link during the walk must lead nowhere. search.ts → here.
import { lstat } from "node:fs/promises";
import { join } from "node:path";
import { findOnPath } from "./find-on-path.ts";
import type { Names } from "./mount-points.ts";
import { type ProcessRequest, runProcess } from "./process.ts";
import type { PromptFiles } from "./prompt-files.ts";
import { SANDBOX_PATH, SANDBOX_PROGRAM, type Sandbox, sandboxCommand } from "./sandbox.ts";
import { isBelow } from "./workspace-path.ts";

const MAX_MEMORY_BYTES = 1024 ** 3;
const LIMITS = { processes: 64, outputBytes: 4 * 1024 * 1024 };

export interface SearchTask {
  /** Real path of the workspace, and the names below it to search in. */
  readonly root: string;
  readonly parts: Names;
  /** Folders that are left out. */
  readonly closed: readonly Names[];
  readonly pattern: string;
  readonly glob?: string | undefined;
  readonly ignoreCase: boolean;
  /** One more than will be shown, so that "there are more" is known; so too with the characters of a line. */
  readonly limit: number;
  readonly lineChars: number;
}

interface Match {
  /** Relative to the workspace. */
  readonly path: string;
  readonly line: number;
  readonly text: string;
}

export interface SearchOutcome {
  readonly matches: readonly Match[];
  /** In plain words: why the search could not be done, or was not finished. */
  readonly problem: string | null;
}

export interface RipgrepOptions {
  readonly sandbox: Sandbox;
  readonly promptFiles: PromptFiles;
  /** Its path. */
  readonly ripgrep: string;
  readonly timeoutMs: number;
}

/** Path of the ripgrep that was installed with Herald, else of the machine's own, else null. */
export async function findRipgrep(): Promise<string | null> {
  try {
    return (await import("@vscode/ripgrep")).rgPath;
  } catch {
    // The published package, which brings no programs along; no binary for this machine; or optional packages were left out.
    return findOnPath("rg", process.env.PATH ?? "");
  }
}

export async function runRipgrep(options: RipgrepOptions, task: SearchTask, signal: AbortSignal): Promise<SearchOutcome> {
  const chunks = { stdout: [] as Buffer[], stderr: [] as Buffer[] };
  const result = await runProcess({
    ...ripgrepCommand(options, task),
    timeoutMs: options.timeoutMs,
    limits: LIMITS,
    signal,
    watch: ({ memoryBytes }) => ((memoryBytes ?? 0) > MAX_MEMORY_BYTES ? "it used too much memory" : null),
    onOutput: (chunk, from) => chunks[from].push(chunk),
  });
  const lines = Buffer.concat(chunks.stdout).toString("utf8").split("\n").slice(0, -1);
  const open = lines.flatMap(parseLine).filter((match) => !isBelow(match.path.split("/"), task.closed));
  const matches = await dropLinked(task.root, open.slice(0, task.limit));
  if (result.end === "timeout") return { matches, problem: tooSlow(options.timeoutMs) };
  if (result.end === "watch") return { matches, problem: `the search was ended because ${result.reason}; use a simpler pattern or a glob` };
  if (result.end === "failed") return { matches, problem: `ripgrep could not be started: ${result.reason}` };
  if (result.end === "exit" && result.code === 2 && matches.length === 0) {
    return {
      matches,
      problem: `the pattern or glob was not accepted: ${Buffer.concat(chunks.stderr).toString("utf8").trim().slice(0, 500)}`,
    };
  }
  return { matches, problem: null };
}

type Invocation = Pick<ProcessRequest, "command" | "args" | "env" | "cwd" | "inputs" | "tellsFirst">;

function ripgrepCommand({ sandbox, ripgrep, promptFiles }: RipgrepOptions, task: SearchTask): Invocation {
  const args = [
    ...["--no-config", "--no-heading", "--with-filename", "--line-number", "--null", "--color=never", "--sort=path", "--no-messages"],
    // Only .gitignore files of the workspace count: not those above it, not the operator's own.
    ...["--hidden", "--glob=!.git/", "--no-require-git", "--no-ignore-global", "--no-ignore-parent"],
    ...(task.parts.length > 0 ? ["--ignore-file=.gitignore"] : []),
    ...[`--max-columns=${task.lineChars}`, "--max-columns-preview", "--max-filesize=10M", `--max-count=${task.limit}`],
    ...(task.ignoreCase ? ["--ignore-case"] : []),
    ...(task.glob === undefined ? [] : [`--glob=${task.glob}`]),
    // After the model's own glob: the last one that fits counts.
    ...task.closed.map((names) => `--iglob=!/${names.map((name) => name.replace(/[\\*?[\]{}!]/g, "\\$&")).join("/")}`),
    ...[`--regexp=${task.pattern}`, "--", `./${task.parts.join("/")}`],
  ];
  if (!sandbox.available) return { command: ripgrep, args, env: {}, cwd: task.root };
  const limits = { cpuSeconds: 120, fileBytes: 0, tasks: 256 };
  const request = {
    argv: [SANDBOX_PROGRAM, ...args],
    program: ripgrep,
    workspace: task.root,
    readOnly: true,
    // The glob alone decides by name, and a command that runs meanwhile can swap an open folder for a link to a closed one.
    covers: { folders: task.closed.length === 0 ? [] : promptFiles.foldersIn(task.root) },
    cwd: "",
    scratch: null,
    env: { PATH: SANDBOX_PATH },
    limits,
  };
  return { ...sandboxCommand(sandbox, request), cwd: "/" };
}

function parseLine(line: string): Match[] {
  const parts = /^(?:\.\/)?([^\0]+)\0(\d+):(.*)$/s.exec(line);
  return parts === null ? [] : [{ path: parts[1] ?? "", line: Number(parts[2]), text: parts[3] ?? "" }];
}

/** read refuses files with a second name, so search does not show them either. */
async function dropLinked(root: string, matches: readonly Match[]): Promise<Match[]> {
  const paths = [...new Set(matches.map((match) => match.path))];
  const stats = await Promise.all(paths.map((path) => lstat(join(root, path)).catch(() => null)));
  const single = new Set(paths.filter((_, n) => stats[n]?.isFile() && stats[n].nlink === 1));
  return matches.filter((match) => single.has(match.path));
}

const tooSlow = (ms: number): string => `the search was ended after ${ms / 1000} s; use a simpler pattern, a glob or a smaller folder`;
