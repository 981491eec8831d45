// Webhook mode: Telegram calls our listener. The secret is checked before a byte of the body is read, an update is confirmed
// with 200 only when it is durable; anything else makes Telegram send it again.
import { createHash, timingSafeEqual } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { Update } from "grammy/types";
import { errorText } from "../../core/errors.ts";
import { openListener, readBody } from "../listener.ts";
import { createAlbums, heldUpdates } from "./albums.ts";
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
  take: ((update: Update) => Promise<void>) | null;
}

/** Resolves once the port is open; registering with Telegram goes on by itself. Throws AppError("port") when it can't be opened. */
export async function listen(receiver: Receiver, options: WebhookOptions): Promise<Webhook> {
  const intake: Intake = { take: null };
  const { host = "127.0.0.1", port } = options;
  const { log, signal } = receiver;
  const answer = async (request: IncomingMessage) => ({ status: await take(receiver, options, intake, request) });
  const setting = "channels.telegram.webhook.port";
  const { closed } = await openListener({ log, signal, host, port, setting, answer }).catch((error: unknown) => {
    receiver.show("failed", errorText(error));
    throw error;
  });
  const registered = register(receiver, options, intake);
  return { done: Promise.all([closed, registered]).then(() => undefined) };
}

async function register(receiver: Receiver, options: WebhookOptions, intake: Intake): Promise<void> {
  const me = await learnMe(receiver);
  if (me === null) return;
  const backoff = createBackoff(receiver);
  while (!receiver.signal.aborted) {
    try {
      intake.take ??= createAlbums(receiver, me, await heldUpdates(receiver)).take;
      const settings = { secret_token: options.secret, allowed_updates: ALLOWED_UPDATES };
      await receiver.api.setWebhook(options.url, settings, asGrammySignal(receiver.signal));
      return receiver.show("on");
    } catch (error) {
      if (!receiver.signal.aborted) await backoff.wait(explainFailure(error));
    }
  }
}

/** The status of the answer. */
async function take(receiver: Receiver, options: WebhookOptions, intake: Intake, request: IncomingMessage): Promise<number> {
  if (!sameSecret(request.headers["x-telegram-bot-api-secret-token"], options.secret)) return 401;
  const { pathname, search } = new URL(options.url);
  if (request.method !== "POST" || request.url !== pathname + search) return 404;
  // Telegram will call again.
  if (intake.take === null || receiver.signal.aborted) return 503;
  const body = await readBody(request);
  if (body === null) return 413;
  const update = parseUpdate(body);
  if (update === null) return 400;
  await intake.take(update);
  return 200;
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
