// POST /mcp: other programs as clients (PR1). One message per request, bounded and strict before the SDK sees it; whatever the SDK
// answers is read back as data and leaves through outgoing.ts like every other answer, event by event where it is a stream, so that
// its transport can't write past the redactor.
import type { IncomingHttpHeaders } from "node:http";
import { onFirstUse } from "../core/first-use.ts";
import type { Program } from "../core/program.ts";
import { json, type Route, type WebRequest } from "./http.ts";
import type { McpServing, McpServingOptions } from "./mcp-server.ts";
import { BEAT, type Outlet, type Reply, SECURITY_HEADERS } from "./outgoing.ts";
import type { ProgramDesk } from "./program-desk.ts";

export interface McpRouteOptions extends Omit<McpServingOptions, "version" | "desk"> {
  version(): string;
  /** Asked for with the first request. */
  desk(): Promise<ProgramDesk>;
}

/** What a client says of the protocol; nothing else of its headers is handed on. */
const HEADERS = ["accept", "content-type", "mcp-protocol-version", "mcp-method", "mcp-name"] as const;

const failure = (status: number, code: number, message: string): Reply =>
  json(status, { jsonrpc: "2.0", id: null, error: { code, message } });

const PARSE_ERROR = -32700;
const INVALID_REQUEST = -32600;

export function createMcpRoute(options: McpRouteOptions): Route {
  const calls: Calls = new Map();
  const serving = onFirstUse(async (): Promise<McpServing> => {
    const { createMcpServing } = await import("./mcp-server.ts");
    return createMcpServing({ ...options, desk: await options.desk(), version: options.version() });
  });
  return {
    method: "POST",
    path: "/mcp",
    access: "program",
    async handle({ program, headers, json: read, response, event }) {
      if (program === null) throw new Error("a program's request came without its token");
      const body = await read();
      const refusal = whyUnfit(body, headers);
      if (refusal !== null || typeof body !== "object" || body === null) return refusal;
      const gone = new AbortController();
      response.on("close", () => gone.abort("the client is gone"));
      cancelled(calls, program, body);
      const close = openCall(calls, program, { body, gone });
      try {
        const answer = await (await serving()).serve({ program, headers: known(headers), body, signal: gone.signal });
        return await passOn(answer, response, event);
      } catch (error) {
        // Whatever it broke off with, nobody is left to answer.
        if (gone.signal.aborted) return null;
        throw error;
      } finally {
        close();
      }
    },
  };
}

/** What can be taken back: requests under way, by token and request id. */
type Calls = Map<string, Set<AbortController>>;

const callKey = ({ id }: Program, requestId: unknown): string => JSON.stringify([id, requestId]);

function openCall(calls: Calls, program: Program, { body, gone }: { body: object; gone: AbortController }): () => void {
  const key = callKey(program, (body as { id?: unknown }).id);
  const open = calls.get(key) ?? new Set();
  calls.set(key, open.add(gone));
  return () => {
    open.delete(gone);
    if (open.size === 0) calls.delete(key);
  };
}

/**
 * A client of 2025 takes a call back in a request of its own, which the SDK serves by a server that knows nothing of the call. Two
 * clients of one token may have used the same id: nobody knows then which is meant, and both go on to their end.
 */
function cancelled(calls: Calls, program: Program, body: object): void {
  const { method, params } = body as { method?: unknown; params?: { requestId?: unknown } };
  if (method !== "notifications/cancelled" || params?.requestId === undefined) return;
  const meant = calls.get(callKey(program, params.requestId));
  if (meant?.size === 1) for (const call of meant) call.abort("taken back");
}

const known = (headers: IncomingHttpHeaders): Record<string, string> =>
  Object.fromEntries(HEADERS.flatMap((name) => (typeof headers[name] === "string" ? [[name, headers[name]]] : [])));

/** A proxy that decides by the headers must not be told something else than we are (MCPS-006). */
function whyUnfit(body: unknown, headers: IncomingHttpHeaders): Reply | null {
  if (Array.isArray(body)) return failure(400, INVALID_REQUEST, "Send one message per request: batches are not taken.");
  if (typeof body !== "object" || body === null)
    return failure(400, PARSE_ERROR, "The body is no JSON object as strict as it is asked for: UTF-8, no name twice, not nested deeply.");
  const { method, params } = body as { method?: unknown; params?: { name?: unknown } | null };
  // In other methods the second one names something else than a tool.
  const named = { "mcp-method": method, ...(method === "tools/call" ? { "mcp-name": params?.name } : {}) };
  for (const [header, value] of Object.entries(named))
    if (headers[header] !== undefined && headers[header] !== value)
      return failure(400, INVALID_REQUEST, `The header ${header} says something else than the body.`);
  return null;
}

async function passOn(answer: Response, response: Outlet, event: WebRequest["event"]): Promise<Reply | null> {
  const type = answer.headers.get("content-type") ?? "";
  if (!type.startsWith("text/event-stream") || answer.body === null) {
    const text = await answer.text();
    return text === "" ? { status: answer.status, body: "" } : json(answer.status, JSON.parse(text));
  }
  response.writeHead(answer.status, { ...SECURITY_HEADERS, "content-type": "text/event-stream; charset=utf-8", "x-accel-buffering": "no" });
  let rest = "";
  for await (const chunk of answer.body.pipeThrough(new TextDecoderStream())) {
    const frames = (rest + chunk).split("\n\n");
    rest = frames.pop() ?? "";
    for (const frame of frames) {
      if (response.destroyed) return null;
      const data = dataOf(frame);
      response.write(data === "" ? BEAT : event("message", JSON.parse(data)));
    }
  }
  response.end();
  return null;
}

/** The SDK writes each message on one line. */
const dataOf = (frame: string): string => /^data: ?(.+)$/m.exec(frame)?.[1] ?? "";
