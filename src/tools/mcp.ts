// The tools of all configured MCP servers, `<server>__<tool>` (TL1). app → start (connects in the background) → tools()
// is asked again before each turn, since servers come and go. One server's trouble is never another's.
import type { Clock } from "../core/clock.ts";
import type { Logger } from "../core/logger.ts";
import type { Tool } from "../core/tool.ts";
import type { Elicit } from "./mcp-elicitation.ts";
import { createHttpLink, type HttpServer } from "./mcp-http.ts";
import { createMcpServer, type McpStatus } from "./mcp-server.ts";
import { createStdioLink, type StdioServer } from "./mcp-stdio.ts";

export interface McpOptions {
  readonly servers: Readonly<Record<string, (StdioServer | HttpServer) & { readonly readOnly?: readonly string[] }>>;
  readonly log: Logger;
  readonly clock: Clock;
  /** Asks a person what a server wants to know; left out: servers are not told that they may ask. */
  readonly elicit?: Elicit;
  /** Where stdio servers take their few inherited variables from. */
  readonly environment?: NodeJS.ProcessEnv;
  readonly initializeTimeoutMs?: number;
  readonly callTimeoutMs?: number;
}

export interface McpTools {
  /** Returns at once; a dead server delays nothing. */
  start(): void;
  /** All tools known now; of two with the same name the first configured server's. */
  tools(): Tool[];
  status(): McpStatus[];
  /** Resolves when all processes are gone. */
  stop(): Promise<void>;
}

const INITIALIZE_MS = 20_000;
const CALL_MS = 120_000;

export function createMcpTools(options: McpOptions): McpTools {
  const servers = Object.entries(options.servers).map(([name, config]) =>
    createMcpServer({
      name,
      readOnly: config.readOnly ?? [],
      createLink: (onToolsChanged) =>
        "command" in config ? createStdioLink(config, options.environment ?? process.env, onToolsChanged) : createHttpLink(config),
      log: options.log,
      clock: options.clock,
      ...(options.elicit === undefined ? {} : { elicit: options.elicit }),
      initializeTimeoutMs: options.initializeTimeoutMs ?? INITIALIZE_MS,
      callTimeoutMs: options.callTimeoutMs ?? CALL_MS,
    }),
  );
  return {
    start() {
      for (const server of servers) server.start();
    },
    tools() {
      const byName = new Map<string, Tool>();
      for (const tool of servers.flatMap((server) => server.tools())) if (!byName.has(tool.name)) byName.set(tool.name, tool);
      return [...byName.values()];
    },
    status: () => servers.map((server) => server.status()),
    async stop() {
      await Promise.all(servers.map((server) => server.stop()));
    },
  };
}
