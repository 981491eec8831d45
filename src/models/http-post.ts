// A POST whose answer is read as it comes, called like `fetch`, which is what the providers' packages call. On node:http,
// because Node's fetch gives a server five minutes for its first byte whatever `models.idleTimeoutSeconds` allows, and a
// model on somebody's own machine may read a long prompt for longer; and because it costs half as much again.
// Follows no redirect and asks for no compression. attempt.ts → here.
import { transcode } from "node:buffer";
import { Agent, type IncomingMessage, type OutgoingHttpHeaders, request } from "node:http";

export interface PostOptions {
  /** Told of every piece of the answer, its head included; what it throws ends the answer. */
  onBytes(count: number): void;
}

/** Held in memory before the reader has to ask for more. */
const READ_AHEAD_BYTES = 64 * 1024;
/** Answers that have no body by definition. */
const EMPTY: ReadonlySet<number> = new Set([204, 205, 304]);

/** What is read of an answer. A `Response` around it costs as much as sending the request. */
export interface Answer extends Pick<Response, "ok" | "status" | "statusText" | "body"> {
  readonly headers: Iterable<[string, string]> & { get(name: string): string | null };
}

export type HttpPost = (input: Parameters<typeof fetch>[0], init: RequestInit | undefined, options: PostOptions) => Promise<Answer>;

/** Connections are kept for the next call. Rejects as `fetch` does: with a TypeError "fetch failed" that has the cause, or with the reason of the abort. */
export function createHttpPost(): HttpPost {
  const plain: Client = { agent: new Agent({ keepAlive: true }), request };
  let secure: Promise<Client> | null = null;
  const clientFor = (url: URL): Client | Promise<Client> => {
    if (url.protocol !== "https:") return plain;
    secure ??= loadSecure();
    return secure;
  };
  return async (input, init, options) => {
    const { body, signal } = init ?? {};
    if (typeof body !== "string" || input instanceof Request) throw new TypeError("only a text can be posted");
    signal?.throwIfAborted();
    const url = new URL(input);
    const given = init?.headers ?? {};
    const named = Symbol.iterator in given ? Object.fromEntries(new Headers(given)) : given;
    const bytes = toUtf8(body);
    const headers = { ...named, "content-length": bytes.byteLength };
    const answer = await send(await clientFor(url), url, { method: "POST", headers, signal: signal ?? null, body: bytes }).catch(
      (cause: unknown) => {
        signal?.throwIfAborted();
        throw new TypeError("fetch failed", { cause });
      },
    );
    const { statusCode: status = 0, statusMessage: statusText = "" } = answer;
    options.onBytes(0);
    if (EMPTY.has(status)) answer.resume();
    const content = EMPTY.has(status) ? null : toStream(answer, options);
    return { ok: status >= 200 && status < 300, status, statusText, headers: toHeaders(answer), body: content };
  };
}

interface Client {
  readonly agent: Agent;
  readonly request: typeof request;
}

/** With the first address that needs it: TLS is a good part of what a start loads. */
async function loadSecure(): Promise<Client> {
  const https = await import("node:https");
  return { agent: new https.Agent({ keepAlive: true }), request: https.request };
}

/**
 * In two steps that cost a third of one: a single character beyond Latin-1, which our own prompts and tools have none of and a
 * conversation has sooner or later, makes a text of two-byte units, and those `Buffer.from` turns into UTF-8 one by one. It is JSON, where
 * no half of a character is left.
 */
const toUtf8 = (json: string): Buffer => transcode(Buffer.from(json, "utf16le"), "utf16le", "utf8");

interface Outgoing {
  readonly method: "POST";
  readonly headers: OutgoingHttpHeaders;
  readonly signal: AbortSignal | null;
  readonly body: Buffer;
}

const send = ({ request, agent }: Client, url: URL, { method, headers, signal, body }: Outgoing): Promise<IncomingMessage> =>
  new Promise((resolve, reject) => {
    const sent = request(url, { method, headers, agent });
    // Ours rather than the option `signal`, which watches the request and its answer with a dozen listeners for when to let go.
    const stop = (): void => void sent.destroy(new Error("aborted"));
    signal?.addEventListener("abort", stop, { once: true });
    sent.on("close", () => signal?.removeEventListener("abort", stop));
    sent.on("error", reject);
    // Aborted while the client was loaded.
    if (signal?.aborted === true) stop();
    sent.on("response", (answer) => {
      // A whole answer leaves the connection for the next call: who aborts a moment later means this one.
      answer.on("end", () => signal?.removeEventListener("abort", stop));
      resolve(answer);
    });
    sent.end(body);
  });

function toHeaders({ headers }: IncomingMessage): Answer["headers"] {
  const told = new Map(Object.entries(headers).map(([name, value]) => [name, String(value)]));
  return { get: (name) => told.get(name.toLowerCase()) ?? null, [Symbol.iterator]: () => told.entries() };
}

/**
 * What one read of the connection brought is handed on as one piece: a quick server's answer comes as many small chunks at once,
 * and each piece passes half a dozen streams of the provider's package.
 */
function toStream(answer: IncomingMessage, { onBytes }: PostOptions): ReadableStream<Uint8Array> {
  const start = (controller: ReadableStreamDefaultController<Uint8Array>): void => {
    let isOver = false;
    let pieces: Buffer[] = [];
    const flush = (): void => {
      if (pieces.length === 0 || isOver) return;
      controller.enqueue(pieces.length === 1 && pieces[0] !== undefined ? pieces[0] : Buffer.concat(pieces));
      pieces = [];
      if ((controller.desiredSize ?? 0) <= 0) answer.pause();
    };
    const fail = (error: unknown): void => {
      if (isOver) return;
      isOver = true;
      controller.error(error);
    };
    answer.pause();
    answer.on("data", (chunk: Buffer) => {
      if (isOver) return;
      try {
        onBytes(chunk.byteLength);
      } catch (error) {
        fail(error);
        answer.destroy();
        return;
      }
      if (pieces.push(chunk) === 1) queueMicrotask(flush);
    });
    answer.on("end", () => {
      flush();
      if (isOver) return;
      isOver = true;
      controller.close();
    });
    answer.on("error", fail);
    // Without an end the connection broke off. Every answer closes: an error made and not used would cost each of them its stack.
    answer.on("close", () => isOver || fail(new TypeError("terminated")));
  };
  return new ReadableStream(
    {
      start,
      pull: () => void answer.resume(),
      cancel: () => void answer.destroy(),
    },
    { highWaterMark: READ_AHEAD_BYTES, size: (chunk) => chunk.byteLength },
  );
}
