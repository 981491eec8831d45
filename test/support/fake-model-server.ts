// A model provider on loopback: real HTTP, an official wire format, answers written by the test. One Script shape for
// all formats, so the same table of cases runs over each of them. fake-openai.ts, fake-anthropic.ts, … give the format.
import { once } from "node:events";
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { json } from "node:stream/consumers";

interface ScriptUsage {
  /** All input tokens, cached ones included (what each format reports is derived from it). */
  input: number;
  output: number;
  cacheRead?: number;
  cacheWrite?: number;
}

/** What the server does with one request. Nothing set: an empty answer that ends well. */
export interface Script {
  text?: string;
  /** Exactly these pieces instead of `text` cut into a few. */
  pieces?: string[];
  /** Rest after each piece: a model that thinks while it speaks. */
  pieceMs?: number;
  /** Before the nth piece: a model that waits for whoever reads along. */
  pause?(n: number): Promise<unknown>;
  reasoning?: string;
  /** Arguments: an object, or a string that is sent as it is. */
  toolCalls?: { name: string; args: unknown; id?: string }[];
  /** Null: the provider says nothing about usage. */
  usage?: ScriptUsage | null;
  /** `none`: the stream ends well-formed but without a reason. */
  finish?: "stop" | "length" | "filter" | "none";
  /** Before the head. */
  delayMs?: number;
  /** An error answer; `message` goes into the format's error body. */
  status?: number;
  headers?: Record<string, string>;
  message?: string;
  /** Silence until the client goes away. `true` is after the head. */
  hang?: boolean | "before-head" | "after-text";
  /** The socket is destroyed: after the head, or after half of the text. */
  cut?: "after-head" | "after-text";
  /** A line that is no JSON before the text. */
  junk?: boolean;
  /** An error event after half of the text. */
  errorEvent?: "overloaded" | "invalid";
  /** Text without end, until the client goes away. */
  endless?: boolean;
}

export interface FakeMessage {
  role: "user" | "assistant" | "tool";
  text: string;
  toolCalls: { id: string; name: string; args: unknown }[];
  callId?: string;
}

export interface FakeRequest {
  model: string;
  system: string;
  messages: FakeMessage[];
  tools: string[];
  /** The format's own thinking setting, whatever it looks like. */
  thinking: unknown;
}

interface FakeCall extends FakeRequest {
  path: string;
  headers: IncomingHttpHeaders;
  // biome-ignore lint/suspicious/noExplicitAny: a test looks into any body
  body: any;
  startedAt: number;
  /** When the response ended or its connection closed, whichever came first; null while it is open. */
  endedAt: number | null;
  /** The client closed the connection before the answer was complete. */
  clientClosed: boolean;
}

export interface FakeModelServer {
  /** The base URL a config would name. */
  readonly url: string;
  readonly calls: FakeCall[];
  /** Requests being answered right now. */
  readonly open: number;
  close(): Promise<void>;
}

export type Respond = (request: FakeRequest, call: FakeCall) => Script | Promise<Script>;

export interface WireFormat {
  readonly basePath: string;
  readonly contentType: string;
  // biome-ignore lint/suspicious/noExplicitAny: the format knows its own body
  parse(body: any, path: string): FakeRequest;
  /** Everything before the text, reasoning included. */
  start(script: Script, request: FakeRequest): string[];
  piece(delta: string): string;
  /** Tool calls, finish, usage. */
  end(script: Script, request: FakeRequest): string[];
  readonly junk: string;
  errorEvent(kind: "overloaded" | "invalid"): string;
  errorBody(status: number, message: string): unknown;
}

/** Answers in this order; the last one again and again. */
export function inOrder(...scripts: Script[]): Respond {
  let next = 0;
  return () => {
    const script = scripts[Math.min(next++, scripts.length - 1)];
    if (script === undefined) throw new Error("inOrder needs a script");
    return script;
  };
}

export async function createFakeModelServer(formatFor: (path: string) => WireFormat, respond: Respond): Promise<FakeModelServer> {
  const calls: FakeCall[] = [];
  const server = createServer((request, response) => {
    void answer({ formatFor, respond, calls }, request, response).catch((error: unknown) => response.destroy(error as Error));
  });
  // Tests hold streams open on purpose.
  server.requestTimeout = 0;
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}${formatFor("").basePath}`,
    calls,
    get open() {
      return calls.filter((call) => call.endedAt === null).length;
    },
    close: async () => {
      const closed = once(server, "close");
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

interface Deps {
  formatFor(path: string): WireFormat;
  respond: Respond;
  calls: FakeCall[];
}

async function answer(deps: Deps, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const path = request.url ?? "";
  const format = deps.formatFor(path);
  const body: unknown = await json(request);
  const parsed = format.parse(body, path);
  const call: FakeCall = { ...parsed, path, headers: request.headers, body, startedAt: Date.now(), endedAt: null, clientClosed: false };
  deps.calls.push(call);
  const gone = new Promise<void>((resolve) => {
    response.once("close", () => {
      call.endedAt ??= Date.now();
      call.clientClosed = !response.writableFinished;
      resolve();
    });
  });
  const script = await deps.respond(parsed, call);
  if (script.delayMs !== undefined) await Promise.race([gone, new Promise((resolve) => setTimeout(resolve, script.delayMs))]);
  if (script.hang === "before-head") return;
  if (script.status !== undefined) return sendError(format, script, response);
  response.writeHead(200, { "content-type": format.contentType, ...script.headers });
  response.flushHeaders();
  await stream(format, script, parsed, response, gone);
}

function sendError(format: WireFormat, script: Script, response: ServerResponse): void {
  const status = script.status ?? 500;
  response.writeHead(status, { "content-type": "application/json", ...script.headers });
  response.end(JSON.stringify(format.errorBody(status, script.message ?? `status ${status}`)));
}

async function stream(
  format: WireFormat,
  script: Script,
  request: FakeRequest,
  response: ServerResponse,
  gone: Promise<void>,
): Promise<void> {
  const send = async (frame: string): Promise<void> => {
    if (response.destroyed) return;
    if (!response.write(frame)) await Promise.race([gone, once(response, "drain")]);
  };
  if (script.hang === true) return;
  if (script.cut === "after-head") return void response.destroy();
  for (const frame of format.start(script, request)) await send(frame);
  if (script.junk === true) await send(format.junk);
  const pieces = script.pieces ?? cutInPieces(script.text ?? "");
  const breaks = script.cut !== undefined || script.errorEvent !== undefined || script.hang !== undefined;
  for (const [n, piece] of (breaks ? pieces.slice(0, Math.ceil(pieces.length / 2)) : pieces).entries()) {
    await script.pause?.(n);
    await send(format.piece(piece));
    if (script.pieceMs !== undefined && !response.destroyed) await new Promise((resolve) => setTimeout(resolve, script.pieceMs));
  }
  while (script.endless === true && !response.destroyed) {
    await send(format.piece("and on ".repeat(1000)));
    await new Promise((resolve) => setImmediate(resolve));
  }
  if (script.hang !== undefined) return;
  // A moment, so that what was written leaves before the socket goes.
  if (script.cut !== undefined) return void setTimeout(() => response.destroy(), 20);
  if (script.errorEvent !== undefined) {
    await send(format.errorEvent(script.errorEvent));
    return void response.end();
  }
  for (const frame of format.end(script, request)) await send(frame);
  response.end();
}

function cutInPieces(text: string): string[] {
  const size = Math.max(4, Math.ceil(text.length / 200));
  const pieces: string[] = [];
  for (let at = 0; at < text.length; at += size) pieces.push(text.slice(at, at + size));
  return pieces;
}

export const sse = (value: unknown, event?: string): string =>
  `${event === undefined ? "" : `event: ${event}\n`}data: ${typeof value === "string" ? value : JSON.stringify(value)}\n\n`;

export const argsText = (args: unknown): string => (typeof args === "string" ? args : JSON.stringify(args));

/** Text of a message whose content is a string or a list of parts. */
export function plainText(content: unknown): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return content.map((part: { text?: string }) => part.text ?? "").join("");
}

/** The most of these that were open at the same moment. */
export function mostAtOnce(calls: readonly Pick<FakeCall, "startedAt" | "endedAt">[]): number {
  const moments = calls
    .flatMap((call) => [
      { at: call.startedAt, change: 1 },
      { at: call.endedAt ?? Number.POSITIVE_INFINITY, change: -1 },
    ])
    // One that ends in the millisecond another starts made room for it.
    .sort((a, b) => a.at - b.at || a.change - b.change);
  let open = 0;
  return Math.max(0, ...moments.map(({ change }) => (open += change)));
}
