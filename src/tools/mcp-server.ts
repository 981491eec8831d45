// One MCP server kept alive: connect → list tools → ready → (it ends) → wait longer each time → connect again.
// Nothing here blocks the gateway's start, and nothing the server does reaches beyond its own tools and status.
// mcp.ts → here → mcp-stdio.ts | mcp-http.ts (the link) and mcp-tool.ts (the tools).
import type { MCPClient, MCPClientConfig } from "@ai-sdk/mcp";
import type { Clock } from "../core/clock.ts";
import { errorText } from "../core/errors.ts";
import type { Logger } from "../core/logger.ts";
import { type Tool, type ToolContext, type ToolResult, toolError } from "../core/tool.ts";
import { matchesTool } from "../core/tool-names.ts";
import { visibleLine } from "../core/visible-text.ts";
import { createOpenCalls, type Elicit, type OpenCalls } from "./mcp-elicitation.ts";
import { createMcpTool, definitionHash, type McpArguments, type McpDefinition, quoteAnswer, toToolResult } from "./mcp-tool.ts";

/** The connection below a client. `end` never rejects and resolves when everything it started is gone. */
export interface McpLink {
  readonly transport: MCPClientConfig["transport"];
  /** Resolves once, with why, when the server is gone or `fail` gave it up. */
  readonly closed: Promise<string>;
  fail(reason: string): void;
  /** The last lines it wrote to stderr. */
  lastWords(): string;
  end(): Promise<void>;
}

type McpState = "connecting" | "ready" | "failed" | "stopped";

export interface McpStatus {
  readonly name: string;
  readonly state: McpState;
  /** One line: how many tools, why it failed, which tools are withheld. */
  readonly detail: string;
}

export interface McpServerOptions {
  readonly name: string;
  /** Its tools that change nothing, as the operator says. */
  readonly readOnly: readonly string[];
  /** A new link for each connection. */
  createLink(onToolsChanged: () => void): McpLink;
  readonly log: Logger;
  readonly clock: Clock;
  readonly elicit?: Elicit;
  readonly initializeTimeoutMs: number;
  readonly callTimeoutMs: number;
}

export interface McpServer {
  start(): void;
  /** Those of the last good connection; while the server is down they answer with an error. */
  tools(): readonly Tool[];
  status(): McpStatus;
  /** Resolves when the process is gone. */
  stop(): Promise<void>;
}

const FIRST_WAIT_MS = 1_000;
const LONGEST_WAIT_MS = 60_000;
/** A connection that held this long was no failed start. */
const STABLE_MS = 60_000;
const RELIST_WAIT_MS = 1_000;
const MAX_PAGES = 20;
const MAX_TOOLS = 200;
const MAX_PINS = 1_000;

interface Server {
  readonly options: McpServerOptions;
  readonly stopping: AbortController;
  /** Hash of each tool as first seen. A server may drop and re-offer a tool, but not change it unnoticed (SR-33). */
  readonly pins: Map<string, string>;
  readonly calls: OpenCalls;
  tools: readonly Tool[];
  withheld: readonly string[];
  status: McpStatus;
  connection: { readonly client: MCPClient; readonly link: McpLink } | null;
  relisting: boolean;
  loop: Promise<void>;
}

export function createMcpServer(options: McpServerOptions): McpServer {
  const server: Server = {
    options,
    stopping: new AbortController(),
    pins: new Map(),
    calls: createOpenCalls(options.elicit),
    tools: [],
    withheld: [],
    status: { name: options.name, state: "connecting", detail: "not started" },
    connection: null,
    relisting: false,
    loop: Promise.resolve(),
  };
  return {
    start() {
      server.loop = supervise(server);
    },
    tools: () => server.tools,
    status: () => server.status,
    async stop() {
      server.stopping.abort();
      await server.loop;
      server.tools = [];
      setStatus(server, "stopped", "");
    },
  };
}

async function supervise(server: Server): Promise<void> {
  const { clock, log } = server.options;
  const { signal } = server.stopping;
  let failures = 0;
  while (!signal.aborted) {
    const startedAt = clock.now();
    const reason = await connectOnce(server);
    if (signal.aborted) return;
    failures = clock.now() - startedAt >= STABLE_MS ? 1 : failures + 1;
    const waitMs = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** Math.min(failures - 1, 10));
    if (server.status.detail !== reason) log.warn({ server: server.options.name, reason, waitMs }, "MCP server failed");
    setStatus(server, "failed", reason);
    await clock.sleep(waitMs, signal);
  }
}

/** One connection from start to end. Resolves to why it ended; never rejects. */
async function connectOnce(server: Server): Promise<string> {
  const { options, stopping } = server;
  const link = options.createLink(() => void relist(server));
  let client: MCPClient | null = null;
  try {
    // Loaded on first use: a gateway without MCP servers never pays for it.
    const { createMCPClient, ElicitationRequestSchema } = await import("@ai-sdk/mcp");
    client = await createMCPClient({
      transport: link.transport,
      clientName: "herald",
      ...(options.elicit === undefined ? {} : { capabilities: { elicitation: {} } }),
      initializationOptions: { timeout: options.initializeTimeoutMs, signal: stopping.signal },
      onUncaughtError: (error) => options.log.debug({ server: options.name, err: error }, "MCP protocol error"),
    });
    client.onElicitationRequest(ElicitationRequestSchema, ({ params }) => server.calls.answer(options.name, params));
    adopt(server, await listTools(client, options.initializeTimeoutMs, stopping.signal));
    server.connection = { client, link };
    setReady(server);
    return explain(await Promise.race([link.closed, aborted(stopping.signal)]), link);
  } catch (error) {
    // A process that ended says more than the request it left open.
    return explain(await Promise.race([link.closed, Promise.resolve(errorText(error))]), link);
  } finally {
    server.connection = null;
    await client?.close().catch((error: unknown) => options.log.debug({ server: options.name, err: error }, "MCP client close"));
    await link.end();
  }
}

const aborted = (signal: AbortSignal): Promise<string> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve("stopped");
    else signal.addEventListener("abort", () => resolve("stopped"), { once: true });
  });

const explain = (reason: string, link: McpLink): string => {
  const words = link.lastWords();
  return visibleLine(words === "" ? reason : `${reason}; stderr: ${words}`, 1_000);
};

async function listTools(client: MCPClient, timeout: number, signal: AbortSignal): Promise<McpDefinition[]> {
  const definitions: McpDefinition[] = [];
  let cursor: string | undefined;
  for (let page = 0; page < MAX_PAGES && definitions.length < MAX_TOOLS; page++) {
    const result = await client.listTools({ ...(cursor !== undefined && { params: { cursor } }), options: { timeout, signal } });
    definitions.push(...result.tools);
    cursor = result.nextCursor;
    if (cursor === undefined) break;
  }
  return definitions.slice(0, MAX_TOOLS);
}

function adopt(server: Server, definitions: readonly McpDefinition[]): void {
  const { name, readOnly, log } = server.options;
  const tools = new Map<string, Tool>();
  const withheld: string[] = [];
  for (const definition of definitions) {
    const shown = visibleLine(definition.name, 100);
    if (!matchesPin(server.pins, definition)) {
      withheld.push(shown);
      log.warn({ server: name, tool: shown }, "MCP tool changed its definition and is withheld until the gateway restarts");
      continue;
    }
    const isReadOnly = readOnly.some((entry) => matchesTool(entry, definition.name));
    const tool = createMcpTool(name, definition, isReadOnly, (toolName, args, context) => call(server, toolName, args, context));
    if (tool === null || tools.has(tool.name)) log.warn({ server: name, tool: shown }, "MCP tool can't be offered");
    else tools.set(tool.name, tool);
  }
  server.tools = [...tools.values()];
  server.withheld = withheld;
}

function matchesPin(pins: Map<string, string>, definition: McpDefinition): boolean {
  const hash = definitionHash(definition);
  const pinned = pins.get(definition.name);
  if (pinned === undefined && pins.size < MAX_PINS) pins.set(definition.name, hash);
  return (pins.get(definition.name) ?? null) === hash;
}

/** The server said its tools changed. A flood of such messages costs one listing per second. */
async function relist(server: Server): Promise<void> {
  const { clock, log, initializeTimeoutMs } = server.options;
  if (server.relisting) return;
  server.relisting = true;
  await clock.sleep(RELIST_WAIT_MS, server.stopping.signal);
  server.relisting = false;
  const { connection } = server;
  if (connection === null) return;
  try {
    const definitions = await listTools(connection.client, initializeTimeoutMs, server.stopping.signal);
    if (server.connection !== connection) return;
    adopt(server, definitions);
    setReady(server);
  } catch (error) {
    log.warn({ server: server.options.name, err: error }, "MCP tools could not be listed again");
  }
}

async function call(server: Server, tool: string, args: McpArguments, context: ToolContext): Promise<ToolResult> {
  const { name, callTimeoutMs } = server.options;
  const { connection } = server;
  if (connection === null) return toolError(`The MCP server "${name}" is not running at the moment; it is being restarted.`);
  const source = { server: name, tool, secrets: context.secrets };
  context.progress(`calling ${visibleLine(tool, 60)} of ${name}`);
  try {
    const { client } = connection;
    return toToolResult(
      source,
      await server.calls.run(context, callTimeoutMs, (signal) => client.callTool({ name: tool, arguments: args, options: { signal } })),
    );
  } catch (error) {
    if (context.signal.aborted) return toolError("The call was stopped.");
    void probe(server, connection);
    return quoteAnswer(source, errorText(error), { isError: true, remark: "The call failed." });
  }
}

/** After a failed call: a server that doesn't answer a plain question either is given up and started again. */
async function probe(server: Server, connection: NonNullable<Server["connection"]>): Promise<void> {
  try {
    await connection.client.listTools({ options: { timeout: server.options.initializeTimeoutMs, signal: server.stopping.signal } });
  } catch (error) {
    connection.link.fail(`does not answer any more: ${errorText(error)}`);
  }
}

function setReady(server: Server): void {
  const { length } = server.tools;
  const held = server.withheld.length === 0 ? "" : `; withheld, because their definition changed: ${server.withheld.join(", ")}`;
  setStatus(server, "ready", visibleLine(`${length} ${length === 1 ? "tool" : "tools"}${held}`, 1_000));
}

function setStatus(server: Server, state: McpState, detail: string): void {
  server.status = { name: server.options.name, state, detail };
}
