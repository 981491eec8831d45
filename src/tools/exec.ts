// The tool exec: runs a command in the sandbox, or without one where the operator chose so (TL5, RO2).
// command → a place among those that run (at-most.ts) → command.ts makes it ready → runProcess, output streamed as
// progress → head and tail of the output and how it ended.
import { existsSync } from "node:fs";
import { constants } from "node:os";
import { stripVTControlCharacters } from "node:util";
import { z } from "zod";
import { codeBlock } from "../core/code-block.ts";
import { onFirstUse } from "../core/first-use.ts";
import { defineTool, type Tool, type ToolContext, toolError, toolQuote } from "../core/tool.ts";
import { spellUnseen } from "../core/visible-text.ts";
import { createAtMost } from "./at-most.ts";
import type { Command, CommandOptions, ReadyCommand } from "./command.ts";
import { createOutputWindow, escapeName, formatBytes, MAX_TEXT_BYTES } from "./output.ts";
import { type ProcessResult, runProcess } from "./process.ts";
import { createPromptFiles, type PromptFiles } from "./prompt-files.ts";
import { fileErrorText, openFolder } from "./workspace-files.ts";
import { resolveFor } from "./workspace-path.ts";

const MAX_TIMEOUT_SECONDS = 1800;
const PROGRESS_EVERY_MS = 500;
const PROCESSES = 512;
const OUTPUT_BYTES = 10 * 1024 * 1024;
const FILE_BYTES = 256 * 1024 * 1024;

export interface ExecOptions extends Omit<CommandOptions, "promptFiles" | "fileBytes"> {
  /** What sub-agents are kept from; default that of the session's own workspace. */
  readonly promptFiles?: PromptFiles;
  /** Operator's explicit choice: run commands on the host itself when there is no sandbox. */
  readonly unsandboxed: boolean;
  /** Default limit of one command; the model may ask for more, up to 30 minutes or this, whichever is more. */
  readonly timeoutSeconds: number;
  /** This many commands at a time, the rest wait. */
  readonly maxConcurrent: number;
}

export interface WantedCommand {
  readonly command: string | readonly string[];
  readonly timeoutSeconds?: number | undefined;
  readonly cwd?: string | undefined;
}

/** A command that was run; `text` is what it printed, `remark` how it ended. */
export interface Ran {
  readonly result: ProcessResult;
  readonly text: string;
  readonly remark: string;
}

/** One at a place, under the limits that all commands share: of exec and of checks. */
export type RunCommand = (wanted: WantedCommand, context: ToolContext) => Promise<Ran | { readonly refused: string }>;

export function createRunCommand(options: ExecOptions): RunCommand {
  const promptFiles = options.promptFiles ?? createPromptFiles();
  // One for all of them: it counts what they use between them.
  const preparing = onFirstUse(async () =>
    (await import("./command.ts")).createPrepare({ ...options, promptFiles, fileBytes: FILE_BYTES }),
  );
  const takePlace = createPlaces(options.maxConcurrent);
  return async ({ command, timeoutSeconds, cwd = "." }, context) => {
    if (JSON.stringify(command).includes("\\u0000")) return { refused: "The command holds a NUL character, which no program can take." };
    return await takePlace(context, async () => {
      try {
        const place = await resolveFor(promptFiles, context, cwd);
        await using _ = await openFolder(place.root, place.parts);
        const wanted = { argv: toArgv(command), place, seconds: timeoutSeconds ?? options.timeoutSeconds };
        const prepare = await preparing();
        const ready = await prepare(wanted, context);
        return "refused" in ready ? ready : await run(ready, wanted, context);
      } catch (error) {
        const sentence = fileErrorText(cwd, error);
        if (sentence === null) throw error;
        return { refused: sentence };
      }
    });
  };
}

/** The tool, or null when there is no sandbox and the operator did not choose to go without. */
export function createExecTool(options: ExecOptions, runCommand = createRunCommand(options)): Tool | null {
  if (!options.sandbox.available && !options.unsandboxed) return null;
  const promptFiles = options.promptFiles ?? createPromptFiles();
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
    async preview({ command, cwd, timeoutSeconds }, context) {
      const { shown } = await resolveFor(promptFiles, context, cwd ?? ".");
      const { available } = options.sandbox;
      const where = available ? (context.readOnly ? IN_READ_ONLY : IN_SANDBOX) : ON_HOST;
      return {
        markdown: `${codeBlock(typeof command === "string" ? command : shellWords(command), "sh")}\n\n${where}; folder \`${shown.replaceAll("`", "'")}\`; at most ${timeoutSeconds ?? defaultSeconds} s.`,
        // A sandbox that is gone since would make it another deed.
        basis: where,
      };
    },
    async run(args, context) {
      const ran = await runCommand(args, context);
      if ("refused" in ran) return toolError(ran.refused);
      const { result, text, remark } = ran;
      const answer = text === "" ? { text: `(no output)\n\n${remark}` } : toolQuote("command output", text, remark);
      return result.end === "exit" && result.code === 0 ? answer : { ...answer, isError: true };
    },
  });
}

/** One place is kept for people's own sessions: sub-agents' builds may take half an hour each. */
function createPlaces(count: number): <T>(context: ToolContext, work: () => Promise<T>) => Promise<T> {
  const all = createAtMost(count);
  const children = createAtMost(Math.max(1, count - 1));
  return (context, work) => {
    const waiting = { signal: context.signal, onWait: () => context.progress(`waiting until one of ${count} running commands has ended`) };
    return context.runId === null ? all(waiting, work) : children(waiting, () => all(waiting, work));
  };
}

const SANDBOXED =
  "Runs a command in a sandbox: the workspace is /workspace, there is no network and nothing else of the machine to see, /tmp is empty each time. In a read-only workspace write to /scratch.";
const UNSANDBOXED = "Runs a command on the machine itself, starting in the workspace.";

const IN_SANDBOX = "In the sandbox, without network";
const IN_READ_ONLY = "In the sandbox, without network, the workspace only to be read";
const ON_HOST = "**On the machine itself, with network and all rights of the gateway's user**";

/** A program and its arguments as one would type them: which blanks belong to an argument must be seen. */
const shellWords = (argv: readonly string[]): string =>
  argv.map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`)).join(" ");

const SHELL = existsSync("/bin/bash") ? "/bin/bash" : "/bin/sh";

const toArgv = (command: string | readonly string[]): readonly string[] => (typeof command === "string" ? [SHELL, "-c", command] : command);

async function run(ready: ReadyCommand, command: Command, context: ToolContext): Promise<Ran> {
  const output = createOutputWindow(MAX_TEXT_BYTES, context.secrets);
  const progress = createProgress(context);
  let replaced: readonly string[] = [];
  let result: ProcessResult;
  try {
    result = await runProcess({
      ...ready.process,
      timeoutMs: command.seconds * 1000,
      limits: { processes: PROCESSES, outputBytes: OUTPUT_BYTES },
      signal: context.signal,
      onOutput(chunk, from) {
        output.push(chunk, from);
        progress(output.lastLine);
      },
    });
  } finally {
    replaced = await ready.release();
  }
  const text = spellUnseen(stripVTControlCharacters(output.text(result.end !== "exit")).replace(/\r(?!\n)/g, "\n")).trimEnd();
  const remark = `[${[describeEnd(result, command.seconds), ...replaced].join("; ")}]`;
  return { result, text, remark };
}

/** Passes the last line on, at most twice a second; `lastLine` is only asked when it is time. */
function createProgress(context: ToolContext): (lastLine: () => string) => void {
  let nextAt = 0;
  return (lastLine) => {
    const now = performance.now();
    if (now < nextAt) return;
    nextAt = now + PROGRESS_EVERY_MS;
    // Once more: without its colours a line may show a secret they stood in.
    const line = escapeName(context.secrets.redact(stripVTControlCharacters(lastLine()).trim())).slice(0, 200);
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
      return `ended because it printed more than ${formatBytes(OUTPUT_BYTES)}; send the output to a file and read a part of it`;
    case "processes":
      return `ended because it started more than ${PROCESSES} processes`;
    case "watch":
      return `ended because ${result.reason}`;
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
