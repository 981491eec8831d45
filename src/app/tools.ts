// Settings → the tools every agent may be given; policies narrow them per turn. MCP servers come and go, so the list
// is asked for anew each time.
import { totalmem } from "node:os";
import { dirname, join } from "node:path";
import type { Agents } from "../agents/agent.ts";
import type { Confirmed } from "../agents/memory.ts";
import type { LoadedConfig } from "../config/config.ts";
import type { Judge, RunCheck } from "../core/check.ts";
import { agentIdOf } from "../core/ids.ts";
import { ownFolder } from "../core/own-files.ts";
import type { Tool, ToolContext } from "../core/tool.ts";
import type { Runs } from "../stores/runs.ts";
import type { Scratchpad } from "../stores/scratchpad.ts";
import { createRunCheck } from "../tools/checks.ts";
import { createExecTool, createRunCommand } from "../tools/exec.ts";
import { createFileTools } from "../tools/files.ts";
import { createJudge } from "../tools/judge.ts";
import type { McpTools } from "../tools/mcp.ts";
import type { Elicit } from "../tools/mcp-elicitation.ts";
import { createPromptFiles } from "../tools/prompt-files.ts";
import { createRemember } from "../tools/remember.ts";
import type { Sandbox } from "../tools/sandbox.ts";
import { createScratchpadTool } from "../tools/scratchpad.ts";
import { createSearchTool } from "../tools/search.ts";
import { createSendFileTool, type FileOutlet } from "../tools/send-file.ts";
import type { UsageLimits } from "../tools/usage.ts";
import { createWebFetch } from "../tools/web-fetch.ts";
import type { Base } from "./base.ts";

export interface ToolParts {
  list(): readonly Tool[];
  readonly mcp: McpTools;
  readonly confirmed: Confirmed;
  readonly judge: Judge;
  readonly runCheck: RunCheck;
}

export interface ToolDeps extends Pick<Base, "config" | "clock" | "log" | "secrets" | "crewPath"> {
  /** As at start: the tools themselves keep these settings. */
  readonly loaded: LoadedConfig;
  readonly sandbox: Sandbox;
  readonly agents: Agents;
  readonly runs: Runs;
  readonly scratchpad: Scratchpad;
  readonly outlet: FileOutlet;
  /** How an MCP server that asks back reaches a person; left out: it is declined. */
  readonly elicit?: Elicit;
}

/** Where settings, keys, state and the program itself lie: nothing for commands to see. */
export const privateFolders = ({ path, stateDir }: LoadedConfig): string[] => [process.cwd(), dirname(path), stateDir, ownFolder];

export async function createTools(deps: ToolDeps): Promise<ToolParts> {
  const { config, stateDir, env } = deps.loaded;
  const { sandbox, clock, log, secrets } = deps;
  const promptFiles = createPromptFiles({ workspaces: () => deps.agents.list().map((agent) => agent.workspace), crewPath: deps.crewPath });
  promptFiles.tidy();
  const commands = {
    sandbox,
    promptFiles,
    ...config.tools.exec,
    limits: limitsOf(config.tools.exec),
    scratchRoot: join(stateDir, "scratch"),
    env,
  };
  // One for both: a few at a time and limits in sum mean nothing when checks have their own.
  const runCommand = createRunCommand(commands);
  const exec = createExecTool(commands, runCommand);
  const judge = createJudge();
  const webFetch = createWebFetch({ maxBytes: config.tools.webFetch.maxBytes, timeoutMs: config.tools.webFetch.timeoutSeconds * 1000 });
  const remember = createRemember({ clock, redact: secrets.redact, workspaceOf: (context) => memoryWorkspace(deps, context) });
  const mcp = await createMcp(deps);
  const fixed: Tool[] = [
    ...createFileTools(promptFiles, secrets),
    createSearchTool({ sandbox, promptFiles }),
    ...(exec === null ? [] : [exec]),
    webFetch,
    createScratchpadTool(deps.scratchpad),
    createSendFileTool({ outlet: deps.outlet, promptFiles }),
  ];
  return {
    list: () => [...fixed, ...(deps.config().memory.enabled ? [remember] : []), ...mcp.tools()],
    mcp,
    confirmed: promptFiles.confirmed,
    judge,
    runCheck: createRunCheck({ promptFiles, judge, secrets, log, runCommand: exec === null ? null : runCommand }),
  };
}

const NO_MCP: McpTools = { start() {}, tools: () => [], status: () => [], stop: async () => {} };

/** Without a server there is nothing to load. */
async function createMcp({ loaded, log, clock, elicit }: ToolDeps): Promise<McpTools> {
  const servers = Object.entries(loaded.config.mcp.servers).flatMap(([name, server]) => (server.enabled ? [[name, server] as const] : []));
  if (servers.length === 0) return NO_MCP;
  const { createMcpTools } = await import("../tools/mcp.ts");
  return createMcpTools({ servers: Object.fromEntries(servers), log, clock, ...(elicit === undefined ? {} : { elicit }) });
}

const MEGABYTE = 1024 * 1024;

const limitsOf = ({
  memoryMegabytes,
  diskMegabytes,
  maxFiles,
  freeDiskMegabytes,
}: LoadedConfig["config"]["tools"]["exec"]): UsageLimits => ({
  memoryBytes: memoryMegabytes === undefined ? totalmem() / 2 : memoryMegabytes * MEGABYTE,
  freeMemoryBytes: Math.min(512 * MEGABYTE, totalmem() / 20),
  diskBytes: diskMegabytes * MEGABYTE,
  files: maxFiles,
  freeDiskBytes: freeDiskMegabytes * MEGABYTE,
});

/** A child adds to its requester's memory, whatever agent it runs under (ME1). */
async function memoryWorkspace(deps: ToolDeps, context: ToolContext): Promise<string> {
  const requesterKey = context.runId === null ? null : ((await deps.runs.get(context.runId))?.requesterKey ?? null);
  const requester = requesterKey === null ? null : deps.agents.find(agentIdOf(requesterKey));
  return requester?.workspace ?? context.workspace;
}
