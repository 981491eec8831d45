// The tool exec: runs a command in the sandbox, or without one where the operator chose so (TL5, RO2).
// command → sandboxCommand → runProcess, output streamed as progress → head and tail of the output and how it ended.
import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { availableParallelism, constants, totalmem } from "node:os";
import { join } from "node:path";
import { stripVTControlCharacters } from "node:util";
import { z } from "zod";
import { isUuid } from "../core/ids.ts";
import { defineTool, type Tool, type ToolContext, type ToolResult, toolError, toolQuote } from "../core/tool.ts";
import { spellUnseen } from "../core/visible-text.ts";
import { createOutputWindow, escapeName, formatBytes, MAX_TEXT_BYTES } from "./output.ts";
import { type ProcessLimits, type ProcessRequest, type ProcessResult, runProcess } from "./process.ts";
import { createPromptFiles, type Hold, type PromptFiles } from "./prompt-files.ts";
import { type AvailableSandbox, type Covers, SANDBOX_PATH, type Sandbox, type SandboxCommand, sandboxCommand } from "./sandbox.ts";
import { answerFileErrors, openFolder } from "./workspace-files.ts";
import { type Place, resolveFor } from "./workspace-path.ts";

const MAX_TIMEOUT_SECONDS = 1800;
const PROGRESS_EVERY_MS = 500;
/** The kernel counts threads too, so this backs up the limit on processes rather than repeat it. */
const TASKS = 1024;
const FILE_BYTES = 256 * 1024 * 1024;
const GIGABYTE = 1024 ** 3;
const LIMITS: ProcessLimits = {
  processes: 512,
  memoryBytes: Math.min(4 * GIGABYTE, totalmem() / 2),
  outputBytes: 10 * 1024 * 1024,
};

export interface ExecOptions {
  readonly sandbox: Sandbox;
  /** What sub-agents are kept from; default that of the session's own workspace. */
  readonly promptFiles?: PromptFiles;
  /** Operator's explicit choice: run commands on the host itself when there is no sandbox. */
  readonly unsandboxed: boolean;
  /** Names of environment variables that commands may see. */
  readonly envAllow: readonly string[];
  /** Default limit of one command; the model may ask for more, up to 30 minutes or this, whichever is more. */
  readonly timeoutSeconds: number;
  /** Where a session with a read-only workspace keeps its /scratch between commands; without it each command gets an empty one. */
  readonly scratchRoot?: string;
  /** Where allowed variables come from; default the environment of this process. */
  readonly env?: Readonly<Record<string, string | undefined>>;
}

/** The tool, or null when there is no sandbox and the operator did not choose to go without. */
export function createExecTool(given: ExecOptions): Tool | null {
  const options = { ...given, promptFiles: given.promptFiles ?? createPromptFiles() };
  if (!options.sandbox.available && !options.unsandboxed) return null;
  const defaultSeconds = options.timeoutSeconds;
  const maxSeconds = Math.max(defaultSeconds, MAX_TIMEOUT_SECONDS);
  return defineTool({
    name: "exec",
    description: `${options.sandbox.available ? SANDBOXED : UNSANDBOXED} A string is run by the shell, a list of strings as program and arguments. Nothing can be typed into it, and whatever it starts in the background ends with it. Answers with the output (the middle is left out when it is long) and the exit code.`,
    schema: z.strictObject({
      command: z
        .union([z.string().min(1).max(100_000), z.array(z.string()).min(1).max(1000)])
        .describe('Shell text, for example "ls | wc -l", or a program with its arguments, for example ["wc", "-l", "a.txt"]'),
      timeoutSeconds: z
        .number()
        .positive()
        .max(maxSeconds)
        .optional()
        .describe(`Ends the command after this time; default ${defaultSeconds}`),
      cwd: z.string().min(1).optional().describe("Folder inside the workspace to run in; default the workspace itself"),
    }),
    capability: "exec",
    run: (args, context) =>
      answerFileErrors(args.cwd ?? ".", async () => {
        if (JSON.stringify(args.command).includes("\\u0000"))
          return toolError("The command holds a NUL character, which no program can take.");
        const place = await resolveFor(options.promptFiles, context, args.cwd ?? ".");
        await using _ = await openFolder(place.root, place.parts);
        return await runCommand(options, { argv: toArgv(args.command), place, seconds: args.timeoutSeconds ?? defaultSeconds }, context);
      }),
  });
}

const SANDBOXED =
  "Runs a command in a sandbox: the workspace is /workspace, there is no network and nothing else of the machine to see, /tmp is empty each time. In a read-only workspace write to /scratch.";
const UNSANDBOXED = "Runs a command on the machine itself, starting in the workspace.";

const SHELL = existsSync("/bin/bash") ? "/bin/bash" : "/bin/sh";

const toArgv = (command: string | readonly string[]): readonly string[] => (typeof command === "string" ? [SHELL, "-c", command] : command);

interface Command {
  readonly argv: readonly string[];
  readonly place: Place;
  readonly seconds: number;
}

type Options = ExecOptions & { readonly promptFiles: PromptFiles };

async function runCommand(options: Options, command: Command, context: ToolContext): Promise<ToolResult> {
  if (options.sandbox.available) return await runInSandbox(options, options.sandbox, command, context);
  if (context.readOnly)
    return toolError("This role may only read the workspace, and without a sandbox a command can't be held to that, so it was not run.");
  const mark = `HERALD_EXEC=${randomUUID()}`;
  const cwd = join(command.place.root, ...command.place.parts);
  return await runWrapped({ ...onHost(options, command, mark), mark, cwd }, command, context);
}

async function runInSandbox(options: Options, sandbox: AvailableSandbox, command: Command, context: ToolContext): Promise<ToolResult> {
  const covers = coversFor(options.promptFiles, command.place.root, context);
  if ("problem" in covers)
    return toolError(`The command was not run, because a sub-agent must not change what is read into prompts: ${covers.problem}.`);
  try {
    const wrapped = await wrapCommand(options, sandbox, { ...command, covers }, context);
    return await runWrapped({ ...wrapped, cwd: "/", watch: () => explainLoss(covers.lost()) }, command, context);
  } finally {
    covers.release();
  }
}

const explainLoss = (name: string | null): string | null =>
  name === null ? null : `${name}, which is read into prompts, was replaced while it ran; run it again`;

type CommandCovers = Covers & Pick<Hold, "lost" | "release">;

/** A main session has none: the files are its own. */
function coversFor(promptFiles: PromptFiles, root: string, { runId, readOnly }: ToolContext): CommandCovers | { problem: string } {
  const nothingToLose = { lost: () => null, release() {} };
  if (runId === null) return nothingToLose;
  return readOnly ? { ...nothingToLose, folders: promptFiles.foldersIn(root) } : promptFiles.hold(root);
}

type Wrapped = Pick<ProcessRequest, "command" | "args" | "env" | "cwd" | "inputs" | "mark" | "watch">;

async function runWrapped(wrapped: Wrapped, command: Command, context: ToolContext): Promise<ToolResult> {
  const output = createOutputWindow(MAX_TEXT_BYTES);
  const progress = createProgress(context);
  const result = await runProcess({
    ...wrapped,
    timeoutMs: command.seconds * 1000,
    limits: LIMITS,
    signal: context.signal,
    onOutput(chunk) {
      output.push(chunk);
      progress(output.lastLine);
    },
  });
  const text = spellUnseen(stripVTControlCharacters(output.text()).replace(/\r(?!\n)/g, "\n")).trimEnd();
  const ended = result.end === "exit" && result.code === 0;
  const remark = `[${describeEnd(result, command.seconds)}]`;
  const answer = text === "" ? { text: `(no output)\n\n${remark}` } : toolQuote("command output", text, remark);
  return ended ? answer : { ...answer, isError: true };
}

async function wrapCommand(
  options: ExecOptions,
  sandbox: AvailableSandbox,
  command: Command & { readonly covers: Covers },
  context: ToolContext,
): Promise<SandboxCommand> {
  return sandboxCommand(sandbox, {
    argv: command.argv,
    workspace: command.place.root,
    readOnly: context.readOnly,
    covers: command.covers,
    cwd: command.place.parts.join("/"),
    scratch: context.readOnly ? await scratchOf(options, context) : null,
    env: { ...baseEnv(SANDBOX_PATH, "/tmp"), ...allowedEnv(options) },
    // Wall time is what ends a command; this only stops what could outlive a stopped clock, so all cores may be used.
    limits: { cpuSeconds: Math.ceil(command.seconds) * availableParallelism(), fileBytes: FILE_BYTES, tasks: TASKS },
  });
}

function onHost(options: ExecOptions, { argv }: Command, mark: string): Omit<SandboxCommand, "inputs"> {
  const [name, value] = mark.split("=") as [string, string];
  const source = options.env ?? process.env;
  const env = { ...baseEnv(source.PATH ?? SANDBOX_PATH, source.HOME ?? "/"), ...allowedEnv(options), [name]: value };
  return { command: argv[0] ?? "", args: argv.slice(1), env };
}

const baseEnv = (path: string, home: string): Record<string, string> => ({ PATH: path, HOME: home, LANG: "C.UTF-8", TERM: "dumb" });

function allowedEnv(options: ExecOptions): Record<string, string> {
  const source = options.env ?? process.env;
  return Object.fromEntries(options.envAllow.flatMap((name) => (source[name] === undefined ? [] : [[name, source[name]]])));
}

async function scratchOf({ scratchRoot }: ExecOptions, context: ToolContext): Promise<string | null> {
  if (scratchRoot === undefined || !isUuid(context.sessionId)) return null;
  const folder = join(scratchRoot, context.sessionId);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  return folder;
}

/** Passes the last line on, at most twice a second; `lastLine` is only asked when it is time. */
function createProgress(context: ToolContext): (lastLine: () => string) => void {
  let nextAt = 0;
  return (lastLine) => {
    const now = performance.now();
    if (now < nextAt) return;
    nextAt = now + PROGRESS_EVERY_MS;
    const line = escapeName(stripVTControlCharacters(lastLine()).trim()).slice(0, 200);
    if (line !== "") context.progress(line);
  };
}

function describeEnd(result: ProcessResult, seconds: number): string {
  const after = `after ${(result.ms / 1000).toFixed(1)} s`;
  switch (result.end) {
    case "exit":
      return result.signal === null
        ? `exit code ${result.code}${signalOf(result.code ?? 0)} ${after}`
        : `ended by signal ${result.signal} ${after}`;
    case "failed":
      return `the command could not be started: ${result.reason}`;
    case "timeout":
      return `ended because it ran longer than ${seconds} s; ask for a longer timeoutSeconds if it needs more`;
    case "aborted":
      return `stopped ${after}`;
    case "output":
      return `ended because it printed more than ${formatBytes(LIMITS.outputBytes)}; send the output to a file and read a part of it`;
    case "watch":
      return `ended because ${result.reason}`;
    case "processes":
      return `ended because it started more than ${LIMITS.processes} processes`;
    case "memory":
      return `ended because it used more than ${formatBytes(LIMITS.memoryBytes)} of memory`;
  }
}

const SIGNAL_HINTS: Readonly<Record<string, string>> = {
  SIGXCPU: ", the CPU limit",
  SIGXFSZ: `, files may have at most ${formatBytes(FILE_BYTES)}`,
};

/** Shells and bwrap report a signal n as exit code 128 + n. */
function signalOf(code: number): string {
  const name = Object.entries(constants.signals).find(([, n]) => n === code - 128)?.[0];
  return name === undefined ? "" : ` (signal ${name}${SIGNAL_HINTS[name] ?? ""})`;
}
