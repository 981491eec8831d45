// Webhook mode: a small listener behind the operator's TLS proxy. The secret is checked before a byte of the body is
// read, an update is confirmed with 200 only when it is durable; anything else makes Telegram send it again.
import { createHash, timingSafeEqual } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { Update } from "grammy/types";
import { AppError, errorText } from "../../core/errors.ts";
import { readBody } from "../read-body.ts";
import { createAlbums } from "./albums.ts";
import { asGrammySignal, explainFailure } from "./api.ts";
import { ALLOWED_UPDATES, createBackoff, isUpdate, learnMe, type Receiver } from "./receive.ts";

export interface WebhookOptions {
  /** The public https address Telegram calls; its path is the only one that answers. */
  readonly url: string;
  readonly port: number;
  /** Default: loopback only. */
  readonly host?: string;
  readonly secret: string;
}

export interface Webhook {
  /** Settles when the listener is closed and registering has ended. */
  readonly done: Promise<void>;
}

/** Null until it is known who the bot is: that is stored with each update. */
interface Intake {
  take: ((update: Update) => void) | null;
}

const MAX_BODY_BYTES = 1024 * 1024;

/** Resolves once the port is open; registering with Telegram goes on by itself. Throws AppError("port") when it can't be opened. */
export async function listen(receiver: Receiver, options: WebhookOptions): Promise<Webhook> {
  const intake: Intake = { take: null };
  const server = createServer({ headersTimeout: 10_000, requestTimeout: 15_000 }, (request, response) => {
    answer(receiver, options, intake, request)
      .catch((error: unknown) => {
        receiver.log.error({ err: error }, "a webhook call failed");
        return 500;
      })
      .then((status) => end(request, response, status))
      .catch((error: unknown) => receiver.log.error({ err: error }, "a webhook call could not be answered"));
  });
  server.maxConnections = 200;
  await open(server, options).catch((error: unknown) => {
    receiver.show("failed", errorText(error));
    throw error;
  });
  server.on("error", (error) => receiver.log.error({ err: error }, "the webhook listener failed"));
  const closed = new Promise<void>((resolve) => server.once("close", () => resolve()));
  receiver.signal.addEventListener("abort", () => {
    server.close();
    server.closeAllConnections();
  });
  const registered = register(receiver, options, intake);
  return { done: Promise.all([closed, registered]).then(() => undefined) };
}

function open(server: Server, { port, host = "127.0.0.1" }: WebhookOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", (error) =>
      reject(
        new AppError("port", `channels.telegram.webhook.port: can't listen on ${host}:${port}: ${errorText(error)}`, { cause: error }),
      ),
    );
    server.listen(port, host, () => resolve());
  });
}

async function register(receiver: Receiver, options: WebhookOptions, intake: Intake): Promise<void> {
  const me = await learnMe(receiver);
  if (me === null) return;
  const backoff = createBackoff(receiver);
  while (!receiver.signal.aborted) {
    try {
      intake.take ??= createAlbums(receiver, me).take;
      const settings = { secret_token: options.secret, allowed_updates: ALLOWED_UPDATES };
      await receiver.api.setWebhook(options.url, settings, asGrammySignal(receiver.signal));
      return receiver.show("on");
    } catch (error) {
      if (!receiver.signal.aborted) await backoff.wait(explainFailure(error));
    }
  }
}

async function answer(receiver: Receiver, options: WebhookOptions, intake: Intake, request: IncomingMessage): Promise<number> {
  if (!sameSecret(request.headers["x-telegram-bot-api-secret-token"], options.secret)) return 401;
  const { pathname, search } = new URL(options.url);
  if (request.method !== "POST" || request.url !== pathname + search) return 404;
  // Telegram will call again.
  if (intake.take === null || receiver.signal.aborted) return 503;
  const body = await readBody(request, MAX_BODY_BYTES);
  if (body === null) return 413;
  const update = parseUpdate(body);
  if (update === null) return 400;
  intake.take(update);
  return 200;
}

function end(request: IncomingMessage, response: ServerResponse, status: number): void {
  // A refused sender's body is never read: the connection goes with the answer.
  if (status === 200) response.writeHead(200, { "content-length": 0 });
  else response.writeHead(status, { "content-length": 0, connection: "close" });
  response.end(() => {
    if (status !== 200) request.destroy();
  });
}

/** Digests have one length, so the comparison tells nothing about the secret's. */
function sameSecret(given: string | string[] | undefined, secret: string): boolean {
  if (typeof given !== "string" || given === "") return false;
  return timingSafeEqual(digest(given), digest(secret));
}

const digest = (text: string): Buffer => createHash("sha256").update(text).digest();

function parseUpdate(body: string): Update | null {
  try {
    const value: unknown = JSON.parse(body);
    return isUpdate(value) ? value : null;
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}
