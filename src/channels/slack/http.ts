// HTTP mode: Slack calls our listener, with events, slash commands and presses alike. Signature and timestamp are checked
// before the body is parsed, 200 is answered only when the payload is durable; anything else makes Slack send an event again.
// The signature check is Bolt's. Its HTTPReceiver is not used: it parses before it verifies, takes timestamps from the
// future, and an unexpected body ends in an unhandled rejection.
import { createHash } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { isValidSlackRequest } from "@slack/bolt";
import { type Answer, openListener, readBody } from "../listener.ts";
import type { Me, PayloadKind } from "./payload.ts";
import { learnMe, type Receiver, takePayload } from "./receive.ts";

export interface HttpOptions {
  readonly signingSecret: string;
  readonly port: number;
  readonly host: string;
}

interface Listener {
  readonly receiver: Receiver;
  readonly options: HttpOptions;
  readonly isValid: typeof isValidSlackRequest;
  me: Me | null;
}

const PATH = "/slack/events";
const MAX_AGE_MS = 5 * 60_000;

/** Resolves once the port is open; `done` settles when the listener is closed. Throws AppError("port") when the port is taken. */
export async function listen(receiver: Receiver, options: HttpOptions): Promise<{ readonly done: Promise<void> }> {
  // Loaded here only: Bolt costs a third of a second at start, and socket mode doesn't need it.
  const { isValidSlackRequest: isValid } = await import("@slack/bolt");
  const listener: Listener = { receiver, options, isValid, me: null };
  const { log, signal } = receiver;
  const { closed } = await openListener({
    ...{ log, signal, host: options.host, port: options.port },
    setting: "channels.slack.port",
    answer: (request) => answer(listener, request),
  });
  const learnt = learnMe(receiver).then((me) => {
    listener.me = me;
    if (me !== null) receiver.show("on");
  });
  return { done: Promise.all([closed, learnt]).then(() => undefined) };
}

async function answer(listener: Listener, request: IncomingMessage): Promise<Answer> {
  const { receiver, me } = listener;
  if (request.method !== "POST" || request.url?.split("?")[0] !== PATH) return { status: 404 };
  if (!isFresh(request, receiver.clock.now())) return { status: 401 };
  const body = await readBody(request);
  if (body === null) return { status: 413 };
  if (!isSigned(listener, request, body)) return { status: 401 };
  const read = parsePayload(body);
  if (read === null) return { status: 400 };
  const { type, challenge } = read.payload;
  if (read.kind === "event" && type === "url_verification") {
    return { status: 200, body: JSON.stringify({ challenge: String(challenge) }) };
  }
  // Who the bot is must be stored with each payload; Slack will call again.
  if (me === null || receiver.signal.aborted) return { status: 503 };
  await takePayload(receiver, me, { ...read, fallbackId: `body:${createHash("sha256").update(body).digest("hex")}` });
  return { status: 200 };
}

/** Five minutes both ways; Bolt's check looks back only. */
function isFresh(request: IncomingMessage, now: number): boolean {
  const stamp = request.headers["x-slack-request-timestamp"];
  return typeof stamp === "string" && /^\d{1,12}$/.test(stamp) && Math.abs(now - Number(stamp) * 1000) <= MAX_AGE_MS;
}

function isSigned({ isValid, options, receiver }: Listener, { headers }: IncomingMessage, body: string): boolean {
  const signature = headers["x-slack-signature"];
  if (typeof signature !== "string") return false;
  const stamp = Number(headers["x-slack-request-timestamp"]);
  return isValid({
    signingSecret: options.signingSecret,
    body,
    headers: { "x-slack-signature": signature, "x-slack-request-timestamp": stamp },
    nowMilliseconds: receiver.clock.now(),
  });
}

interface Read {
  readonly kind: PayloadKind;
  readonly payload: Readonly<Record<string, unknown>>;
}

/**
 * Events come as JSON, commands as a form, presses as JSON in a form's only field. Which of them it is tells the body alone:
 * the content type is not signed, and a person's words inside a signed event, read as a form, could spell out a command in
 * somebody else's name. No form of Slack's begins with a brace, no JSON object with anything else.
 */
function parsePayload(body: string): Read | null {
  if (body.startsWith("{")) return asObject("event", body);
  if (!/^\w+=/.test(body)) return null;
  const fields = [...new URLSearchParams(body)];
  const form = Object.fromEntries(fields);
  // Of a repeated field two readers may take two values: Slack repeats none.
  if (Object.keys(form).length !== fields.length) return null;
  if (form.payload === undefined) return { kind: "command", payload: form };
  return fields.length === 1 ? asObject("press", form.payload) : null;
}

function asObject(kind: PayloadKind, json: string): Read | null {
  try {
    const value: unknown = JSON.parse(json);
    return typeof value === "object" && value !== null ? { kind, payload: value as Record<string, unknown> } : null;
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}
