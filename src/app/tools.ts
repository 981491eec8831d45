// Settings → the tools every agent may be given; policies narrow them per turn. MCP servers come and go, so the list
// is asked for anew each time.
import { join } from "node:path";
import type { Agents } from "../agents/agent.ts";
import type { LoadedConfig } from "../config/config.ts";
import type { Clock } from "../core/clock.ts";
import type { Logger } from "../core/logger.ts";
import type { Tool, ToolContext } from "../core/tool.ts";
import type { Runs } from "../stores/runs.ts";
import type { Scratchpad } from "../stores/scratchpad.ts";
import { createExecTool } from "../tools/exec.ts";
import { createFileTools } from "../tools/files.ts";
import { createMcpTools, type McpTools } from "../tools/mcp.ts";
import { createRemember } from "../tools/remember.ts";
import type { Sandbox } from "../tools/sandbox.ts";
import { createScratchpadTool } from "../tools/scratchpad.ts";
import { createSearchTool } from "../tools/search.ts";
import { createWebFetch } from "../tools/web-fetch.ts";

export interface ToolParts {
  list(): readonly Tool[];
  readonly mcp: McpTools;
}

export interface ToolDeps {
  readonly loaded: LoadedConfig;
  readonly sandbox: Sandbox;
  readonly agents: Agents;
  readonly runs: Runs;
  readonly scratchpad: Scratchpad;
  readonly clock: Clock;
  readonly log: Logger;
}

export function createTools(deps: ToolDeps): ToolParts {
  const { config, stateDir, env } = deps.loaded;
  const { sandbox, clock, log } = deps;
  const exec = createExecTool({ sandbox, ...config.tools.exec, scratchRoot: join(stateDir, "scratch"), env });
  const webFetch = createWebFetch({ maxBytes: config.tools.webFetch.maxBytes, timeoutMs: config.tools.webFetch.timeoutSeconds * 1000 });
  const remember = createRemember({ clock, workspaceOf: (context) => memoryWorkspace(deps, context) });
  const servers = Object.entries(config.mcp.servers).flatMap(([name, server]) => (server.enabled ? [[name, server] as const] : []));
  const mcp = createMcpTools({ servers: Object.fromEntries(servers), log, clock });
  const fixed: Tool[] = [
    ...createFileTools(),
    createSearchTool({ sandbox }),
    ...(exec === null ? [] : [exec]),
    webFetch,
    ...(config.memory.enabled ? [remember] : []),
    createScratchpadTool(deps.scratchpad),
  ];
  return { list: () => [...fixed, ...mcp.tools()], mcp };
}

/** A child adds to its requester's memory, whatever agent it runs under (ME1). */
function memoryWorkspace(deps: ToolDeps, context: ToolContext): string {
  const requesterKey = context.runId === null ? null : (deps.runs.get(context.runId)?.requesterKey ?? null);
  const requester = requesterKey === null ? null : deps.agents.find(requesterKey.split(":")[1] ?? "");
  return requester?.workspace ?? context.workspace;
}
