// One small HTTP listener for platforms that call us (Telegram's webhook, Slack over HTTP), behind the operator's TLS proxy.
// What a call means, and whether its sender is who it says, is the platform's own to check, before the body is parsed. 200
// is answered only for what is durable; anything else makes the platform call again.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { AppError, errorText } from "../core/errors.ts";
import type { Logger } from "../core/logger.ts";
import { readBytes } from "../core/read-bytes.ts";

export interface ListenerOptions {
  readonly host: string;
  readonly port: number;
  /** The setting that names the port. */
  readonly setting: string;
  /** Closes it. */
  readonly signal: AbortSignal;
  readonly log: Logger;
  /** One call. When it throws, the answer is 500. */
  answer(request: IncomingMessage): Promise<Answer>;
}

export interface Answer {
  readonly status: number;
  /** JSON. */
  readonly body?: string;
}

const MAX_BODY_BYTES = 1024 * 1024;
const MAX_CONNECTIONS = 200;
const CLOSE_MS = 1_000;

/** Resolves once the port is open; `closed` settles when the listener is. Throws AppError("port") when it can't be opened. */
export async function openListener(options: ListenerOptions): Promise<{ readonly closed: Promise<void> }> {
  const { log, signal } = options;
  const server = createServer({ headersTimeout: 10_000, requestTimeout: 15_000 }, (request, response) => {
    options
      .answer(request)
      .catch((error: unknown): Answer => {
        log.error({ err: error }, "a call from the platform failed; it is not confirmed");
        return { status: 500 };
      })
      .then((answer) => end(request, response, answer))
      .catch((error: unknown) => log.error({ err: error }, "a call from the platform could not be answered"));
  });
  server.maxConnections = MAX_CONNECTIONS;
  await open(server, options);
  server.on("error", (error) => log.error({ err: error }, "the listener failed"));
  const closed = new Promise<void>((resolve) => server.once("close", () => resolve()));
  // A stop may have come while the port was being opened.
  if (signal.aborted) shutDown(server);
  else signal.addEventListener("abort", () => shutDown(server), { once: true });
  return { closed };
}

/** Null when it is too long, by its announced length or by its real one. */
export async function readBody(request: IncomingMessage): Promise<string | null> {
  if (Number(request.headers["content-length"] ?? 0) > MAX_BODY_BYTES) return null;
  return (await readBytes(request as AsyncIterable<Buffer>, MAX_BODY_BYTES))?.toString("utf8") ?? null;
}

function open(server: Server, { port, host, setting }: ListenerOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", (error) =>
      reject(new AppError("port", `${setting}: can't listen on ${host}:${port}: ${errorText(error)}`, { cause: error })),
    );
    server.listen(port, host, () => resolve());
  });
}

/** What is being answered gets its chance; nothing is waited for longer than a stop may take. */
function shutDown(server: Server): void {
  server.close();
  server.closeIdleConnections();
  setTimeout(() => server.closeAllConnections(), CLOSE_MS).unref();
}

function end(request: IncomingMessage, response: ServerResponse, { status, body = "" }: Answer): void {
  const type = body === "" ? {} : { "content-type": "application/json" };
  // A refused sender's body is not read to its end: the connection goes with the answer.
  const last = status === 200 ? {} : { connection: "close" };
  response.writeHead(status, { ...type, ...last, "content-length": Buffer.byteLength(body) });
  response.end(body, () => {
    if (status !== 200) request.destroy();
  });
}
