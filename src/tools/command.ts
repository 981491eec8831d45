// Makes one command of exec ready to run, in the sandbox or on the host: what it may see, write and use, and who watches
// over it (TL5, TL9, TL10). Loaded with the first one. exec.ts → here → sandbox.ts, prompt-files.ts, usage.ts; process.ts then runs it.
import { randomUUID } from "node:crypto";
import { mkdir } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { isUuid } from "../core/ids.ts";
import type { ToolContext } from "../core/tool.ts";
import type { ProcessRequest } from "./process.ts";
import type { Hold, PromptFiles } from "./prompt-files.ts";
import { putBack } from "./put-back.ts";
import { type AvailableSandbox, type Covers, SANDBOX_PATH, type Sandbox, sandboxCommand } from "./sandbox.ts";
import { createUsage, type UsageLimits } from "./usage.ts";
import type { Place } from "./workspace-path.ts";

/** The kernel counts threads too, so this backs up the limit on processes rather than repeat it. */
const TASKS = 1024;

export interface CommandOptions {
  readonly sandbox: Sandbox;
  readonly promptFiles: PromptFiles;
  /** What all commands have between them. */
  readonly limits: UsageLimits;
  /** The largest single file one of them may write. */
  readonly fileBytes: number;
  /** Names of environment variables that commands may see. */
  readonly envAllow: readonly string[];
  /** Where a session with a read-only workspace keeps its /scratch between commands; without it each command gets an empty one. */
  readonly scratchRoot?: string;
  /** Where allowed variables come from; default the environment of this process. */
  readonly env?: Readonly<Record<string, string | undefined>>;
}

export interface Command {
  readonly argv: readonly string[];
  readonly place: Place;
  readonly seconds: number;
}

export interface ReadyCommand {
  readonly process: Pick<ProcessRequest, "command" | "args" | "env" | "cwd" | "inputs" | "tellsFirst" | "mark" | "watch">;
  /** When it has ended. What has to be said about it, in a clause each. */
  release(): Promise<readonly string[]>;
}

/** Ready to run now, or a sentence that says why not. */
export type Prepare = (command: Command, context: ToolContext) => Promise<ReadyCommand | { readonly refused: string }>;

export function createPrepare(options: CommandOptions): Prepare {
  const usage = createUsage(options.limits);
  const { sandbox, promptFiles } = options;
  return async (command, context) => {
    const { root } = command.place;
    if (!sandbox.available && context.readOnly)
      return {
        refused: "This role may only read the workspace, and without a sandbox a command can't be held to that, so it was not run.",
      };
    const scratch = context.readOnly ? await scratchOf(options, context) : null;
    const own = await usage.begin({ folder: context.readOnly ? scratch : root, isSandboxed: sandbox.available });
    if ("refused" in own) return { refused: `The command was not run: ${own.refused}.` };
    const covers = sandbox.available ? coversFor(promptFiles, root, context) : NO_COVERS;
    if ("problem" in covers) {
      own.end();
      return { refused: `The command was not run, because a sub-agent must not change what is read into prompts: ${covers.problem}.` };
    }
    const wrapped = sandbox.available
      ? inSandbox(options, sandbox, { ...command, covers, scratch, readOnly: context.readOnly })
      : onHost(options, command);
    return {
      process: { ...wrapped, watch: (seen) => explainLoss(covers.lost()) ?? own.look(seen) },
      async release() {
        own.end();
        const replaced = await putBack(root, covers.uncovered()).finally(covers.release);
        if (replaced.length > 0) context.log.warn({ workspace: root, replaced }, "what is read into prompts was replaced during a command");
        return replaced;
      },
    };
  };
}

type CommandCovers = Covers & Pick<Hold, "lost" | "uncovered" | "release">;

const NO_COVERS: CommandCovers = { lost: () => null, uncovered: () => [], release() {} };

/** The files are a main session's own; but replaced by it they would lose the cover a sub-agent's command has on them. */
function coversFor(promptFiles: PromptFiles, root: string, { runId, readOnly }: ToolContext): CommandCovers | { problem: string } {
  if (runId === null) return readOnly ? NO_COVERS : { ...NO_COVERS, pinned: promptFiles.pins(root) };
  return readOnly ? { ...NO_COVERS, folders: promptFiles.foldersIn(root) } : promptFiles.hold(root);
}

const explainLoss = (name: string | null): string | null =>
  name === null ? null : `${name}, which is read into prompts, was replaced while it ran; run it again`;

type SandboxedCommand = Command & { readonly covers: Covers; readonly scratch: string | null; readonly readOnly: boolean };

function inSandbox(options: CommandOptions, sandbox: AvailableSandbox, command: SandboxedCommand): ReadyCommand["process"] {
  const { argv, place, seconds, covers, scratch, readOnly } = command;
  const wrapped = sandboxCommand(sandbox, {
    argv,
    workspace: place.root,
    readOnly,
    covers,
    cwd: place.parts.join("/"),
    scratch,
    env: { ...baseEnv(SANDBOX_PATH, "/tmp"), ...allowedEnv(options) },
    // Wall time is what ends a command; this only stops what could outlive a stopped clock, so all cores may be used.
    limits: { cpuSeconds: Math.ceil(seconds) * availableParallelism(), fileBytes: options.fileBytes, tasks: TASKS },
  });
  return { ...wrapped, cwd: "/" };
}

function onHost(options: CommandOptions, { argv, place }: Command): ReadyCommand["process"] {
  const [name, value] = ["HERALD_EXEC", randomUUID()];
  const source = options.env ?? process.env;
  const env = { ...baseEnv(source.PATH ?? SANDBOX_PATH, source.HOME ?? "/"), ...allowedEnv(options), [name]: value };
  return { command: argv[0] ?? "", args: argv.slice(1), env, mark: `${name}=${value}`, cwd: join(place.root, ...place.parts) };
}

const baseEnv = (path: string, home: string): Record<string, string> => ({ PATH: path, HOME: home, LANG: "C.UTF-8", TERM: "dumb" });

function allowedEnv(options: CommandOptions): Record<string, string> {
  const source = options.env ?? process.env;
  return Object.fromEntries(options.envAllow.flatMap((name) => (source[name] === undefined ? [] : [[name, source[name]]])));
}

async function scratchOf({ scratchRoot }: CommandOptions, context: ToolContext): Promise<string | null> {
  if (scratchRoot === undefined || !isUuid(context.sessionId)) return null;
  const folder = join(scratchRoot, context.sessionId);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  return folder;
}
