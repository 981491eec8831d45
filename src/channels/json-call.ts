// One request over node:http that is answered in JSON, for who asks all day long while nothing happens (Telegram's long polls). Node's
// fetch would do, but its first call brings a client of its own with a parser in WebAssembly: several megabytes of a process at rest.
// Follows no redirect and asks for no compression.
import { Agent, type IncomingMessage, request } from "node:http";
import type { Socket } from "node:net";
import { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { pipeline } from "node:stream/promises";

export interface JsonRequest {
  readonly method: string;
  readonly headers: Record<string, string>;
  readonly body: string | AsyncIterable<Uint8Array>;
  readonly signal: AbortSignal;
}

/** Rejects with what node:http says, or the reason of the abort; connecting.ts knows what either means. */
export type JsonCall = (url: string, request: JsonRequest) => Promise<{ json(): Promise<unknown> }>;

/** Shorter than servers keep a connection: sent into one that is just being closed, nobody knows what became of a request. */
const KEPT_MS = 4_000;
const CONNECT_MS = 10_000;

interface Client {
  readonly agent: Agent;
  readonly request: typeof request;
}

export function createJsonCall(connectMs = CONNECT_MS): JsonCall {
  const plain: Client = { agent: new Agent({ keepAlive: true, timeout: KEPT_MS }), request };
  let secure: Promise<Client> | null = null;
  return async (url, wanted) => {
    const target = new URL(url);
    if (target.protocol === "https:") secure ??= loadSecure();
    const client = target.protocol === "https:" && secure !== null ? await secure : plain;
    wanted.signal.throwIfAborted();
    const answer = await send(client, target, wanted, connectMs);
    return { json: () => read(answer, wanted.signal) };
  };
}

/** With the first address that needs it. */
async function loadSecure(): Promise<Client> {
  const https = await import("node:https");
  return { agent: new https.Agent({ keepAlive: true, timeout: KEPT_MS }), request: https.request };
}

const send = (client: Client, url: URL, { method, headers, body, signal }: JsonRequest, connectMs: number): Promise<IncomingMessage> =>
  new Promise((resolve, reject) => {
    const length = typeof body === "string" ? { "content-length": Buffer.byteLength(body) } : {};
    const sent = client.request(url, { method, headers: { ...headers, ...length }, agent: client.agent });
    const stop = (): void => void sent.destroy(new Error("aborted"));
    signal.addEventListener("abort", stop, { once: true });
    sent.on("close", () => signal.removeEventListener("abort", stop));
    sent.on("error", (error) => reject(signal.aborted ? signal.reason : error));
    sent.on("socket", (socket) => watchConnecting(socket, url.protocol === "https:", connectMs));
    sent.on("response", (answer) => {
      const { statusCode = 0 } = answer;
      // The token may stand in the address: it goes nowhere else.
      if (statusCode < 300 || statusCode >= 400) return resolve(answer);
      reject(new Error("it was led elsewhere"));
      sent.destroy();
    });
    if (typeof body === "string") sent.end(body);
    // What becomes of it is said by the request itself, unless the body breaks.
    else pipeline(Readable.from(body), sent).catch((error: unknown) => reject(error));
  });

/** A network that swallows everything: told apart from an answer that is missing, because here surely nothing was sent. */
function watchConnecting(socket: Socket, isSecure: boolean, connectMs: number): void {
  if (!socket.connecting) return;
  const late = Object.assign(new Error("connecting took too long"), { code: "ETIMEDOUT", syscall: "connect" });
  const timer = setTimeout(() => socket.destroy(late), connectMs);
  const clear = (): void => clearTimeout(timer);
  socket.once(isSecure ? "secureConnect" : "connect", clear).once("close", clear);
}

/** Whole or not at all: one that is cut rejects. */
async function read(answer: IncomingMessage, signal: AbortSignal): Promise<unknown> {
  try {
    return JSON.parse(await text(answer));
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  }
}
