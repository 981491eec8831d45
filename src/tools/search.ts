// The tool search: lines that match a pattern in the files of the workspace (TL1, TL7).
// ripgrep where it is installed, inside the sandbox where there is one (it opens files by path, and a folder swapped
// for a link during the walk must lead nowhere); else our own walk in a worker that can be ended at any time.
import { lstat } from "node:fs/promises";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { z } from "zod";
import { defineTool, type Tool, type ToolResult, toolError, toolQuote } from "../core/tool.ts";
import { spellUnseen } from "../core/visible-text.ts";
import { createAtMost } from "./at-most.ts";
import { findOnPath } from "./find-on-path.ts";
import { capLines, escapeName } from "./output.ts";
import { type ProcessRequest, runProcess } from "./process.ts";
import { createPromptFiles, type PromptFiles } from "./prompt-files.ts";
import { SANDBOX_PATH, type Sandbox, sandboxCommand } from "./sandbox.ts";
import type { Match, SearchOutcome, SearchTask } from "./search-task.ts";
import { answerFileErrors } from "./workspace-files.ts";
import { isBelow, resolveFor } from "./workspace-path.ts";

const TIMEOUT_MS = 20_000;
const DEFAULT_LIMIT = 100;
const MAX_OUTPUT_BYTES = 4 * 1024 * 1024;
const MAX_MEMORY_BYTES = 1024 ** 3;
const LIMITS = { processes: 64, outputBytes: MAX_OUTPUT_BYTES };
/** ripgrep uses all cores for one search; a model may ask for a hundred at once. */
const MAX_CONCURRENT = 4;
const TOO_SLOW = `the search was ended after ${TIMEOUT_MS / 1000} s; use a simpler pattern, a glob or a smaller folder`;

export interface SearchOptions {
  readonly sandbox: Sandbox;
  /** What sub-agents are kept from; default that of the session's own workspace. */
  readonly promptFiles?: PromptFiles;
  /** Where to look for ripgrep; default the PATH of this process. */
  readonly path?: string;
  /** Deadline of one search. */
  readonly timeoutMs?: number;
}

type EngineOptions = SearchOptions & { readonly promptFiles: PromptFiles };
type Engine = (task: SearchTask, signal: AbortSignal) => Promise<SearchOutcome>;

export function createSearchTool(options: SearchOptions): Tool {
  const promptFiles = options.promptFiles ?? createPromptFiles();
  const engine = chooseEngine({ ...options, promptFiles });
  const atMost = createAtMost(MAX_CONCURRENT);
  return defineTool({
    name: "search",
    description:
      "Searches the text files of the workspace for a regular expression and returns matching lines as path:line: text. Files " +
      "that .gitignore excludes are left out, as are binary files and links. A glob such as *.ts narrows it to some files.",
    schema: z.strictObject({
      pattern: z
        .string()
        .min(1)
        .max(1000)
        .describe("Regular expression, matched line by line; escape special characters to search for plain text"),
      path: z.string().min(1).optional().describe('Folder or file inside the workspace; default ".", all of it'),
      glob: z.string().min(1).max(200).optional().describe('Only files that match, for example "*.ts" or "src/**/*.md"'),
      ignoreCase: z.boolean().optional().describe("Upper and lower case are the same; default false"),
      limit: z.int().min(1).max(1000).optional().describe(`How many matching lines at most; default ${DEFAULT_LIMIT}`),
    }),
    capability: "read",
    repeatable: true,
    run: (args, context) =>
      answerFileErrors(args.path ?? ".", async () => {
        const place = await resolveFor(promptFiles, context, args.path ?? ".");
        await lstat(join(place.root, ...place.parts)); // A missing path is an error, not "no match".
        const limit = args.limit ?? DEFAULT_LIMIT;
        const { pattern, glob, ignoreCase = false } = args;
        const { root, parts, closed } = place;
        const task = { root, parts, closed, pattern, glob, ignoreCase, limit: limit + 1 };
        const found = await atMost(context, () => engine(task, context.signal));
        if (context.signal.aborted) return toolError("Stopped before the search was finished.");
        if (found.matches.length === 0 && found.problem !== null) return toolError(`Nothing found: ${found.problem}.`);
        if (found.matches.length === 0) return { text: `No line in "${place.shown}" matches.` };
        return showMatches(found, limit);
      }),
  });
}

function showMatches(found: SearchOutcome, limit: number): ToolResult {
  const matches = found.matches.slice(0, limit);
  const lines = matches.map((match) => `${escapeName(match.path)}:${match.line}: ${spellUnseen(match.text.trimEnd())}`);
  const more = found.matches.length > limit ? `There are more than ${limit} matches: narrow the pattern, the path or the glob.` : null;
  const shown = capLines(lines, "narrow the pattern, the path or the glob");
  const notes = [found.problem, more].flatMap((note) => (note === null ? [] : [`[${note}]`]));
  return toolQuote("lines of files", shown.text, [shown.note, ...notes].filter(Boolean).join("\n"));
}

function chooseEngine(options: EngineOptions): Engine {
  const timeoutMs = options.timeoutMs ?? TIMEOUT_MS;
  const ripgrep = findOnPath("rg", options.path ?? process.env.PATH ?? "");
  // A ripgrep from a home folder is not visible inside the sandbox.
  const usable = ripgrep !== null && (!options.sandbox.available || /^\/(usr|bin)\//.test(ripgrep));
  return usable
    ? (task, signal) => runRipgrep({ ripgrep, ...options, timeoutMs }, task, signal)
    : (task, signal) => runWorker(task, signal, timeoutMs);
}

async function runRipgrep(
  options: EngineOptions & { ripgrep: string; timeoutMs: number },
  task: SearchTask,
  signal: AbortSignal,
): Promise<SearchOutcome> {
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
  if (result.end === "timeout") return { matches, problem: TOO_SLOW };
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

type Invocation = Pick<ProcessRequest, "command" | "args" | "env" | "cwd" | "inputs">;

function ripgrepCommand({ sandbox, ripgrep, promptFiles }: EngineOptions & { ripgrep: string }, task: SearchTask): Invocation {
  const args = [
    ...["--no-config", "--no-heading", "--with-filename", "--line-number", "--null", "--color=never", "--sort=path", "--no-messages"],
    // Only .gitignore files of the workspace count: not those above it, not the operator's own.
    ...["--hidden", "--glob=!.git/", "--no-require-git", "--no-ignore-global", "--no-ignore-parent"],
    ...(task.parts.length > 0 ? ["--ignore-file=.gitignore"] : []),
    ...["--max-columns=300", "--max-columns-preview", "--max-filesize=10M", `--max-count=${task.limit}`],
    ...(task.ignoreCase ? ["--ignore-case"] : []),
    ...(task.glob === undefined ? [] : [`--glob=${task.glob}`]),
    // After the model's own glob: the last one that fits counts.
    ...task.closed.map((names) => `--iglob=!/${names.map((name) => name.replace(/[\\*?[\]{}!]/g, "\\$&")).join("/")}`),
    ...[`--regexp=${task.pattern}`, "--", `./${task.parts.join("/")}`],
  ];
  if (!sandbox.available) return { command: ripgrep, args, env: {}, cwd: task.root };
  const limits = { cpuSeconds: 120, fileBytes: 0, tasks: 256 };
  const request = {
    argv: [ripgrep, ...args],
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

/** Ends the worker at the deadline or on abort; what it had found by then is kept. */
async function runWorker(task: SearchTask, signal: AbortSignal, timeoutMs: number): Promise<SearchOutcome> {
  if (signal.aborted) return { matches: [], problem: null };
  const matches: Match[] = [];
  const { promise, resolve } = Promise.withResolvers<string | null>();
  const worker = new Worker(new URL("./search-worker.ts", import.meta.url), {
    workerData: task,
    env: {},
    resourceLimits: { maxOldGenerationSizeMb: 512 },
  });
  worker.on("message", (message: readonly Match[] | "done") => (message === "done" ? resolve(null) : matches.push(...message)));
  worker.on("error", (error) =>
    resolve(error instanceof SyntaxError ? `the pattern was not accepted: ${error.message}` : `the search failed: ${error.message}`),
  );
  worker.on("exit", () => resolve("the search ended early"));
  const deadline = setTimeout(() => resolve(TOO_SLOW), timeoutMs);
  const stop = () => resolve(null);
  signal.addEventListener("abort", stop, { once: true });
  const problem = await promise;
  clearTimeout(deadline);
  signal.removeEventListener("abort", stop);
  await worker.terminate();
  return { matches, problem };
}
