// What went wrong with one HTTP call: which kind of error, whether trying again can help and when, and what the chat and
// whoever runs the gateway are told. attempt.ts → toFailure, silence; ai-sdk.ts → explain. Reads every shape the library throws.
import { errorText } from "../core/errors.ts";
import { commandWords } from "../core/own-files.ts";
import { shortText } from "../core/visible-text.ts";
import type { Answer } from "./http-post.ts";
import type { ModelTarget } from "./language-model.ts";
import type { ModelErrorKind, ModelProblem } from "./model.ts";
import { BUILT_IN_PROVIDERS } from "./provider.ts";

export interface Failure {
  readonly kind: ModelErrorKind;
  readonly status: number | null;
  /** Another attempt, or another model, may succeed (MO4). */
  readonly isPassing: boolean;
  /** What the provider asked us to wait. Null: it didn't say. Infinity: don't ask this model again now. */
  readonly afterMs: number | null;
  /** The provider's own words or the cause, short, without secrets. */
  readonly detail: string;
}

const CONTEXT_WORDS =
  /context.?(length|window|size)|maximum (prompt|input|context)|(prompt|input|request) (is |was )?too (long|large)|too many (input )?tokens|token count.{0,40}exceed|exceed.{0,40}(context|token limit)|request_too_large/i;
const QUOTA_WORDS = /insufficient_quota|exceeded your current quota|credit balance|billing/i;
const MAX_DETAIL = 240;

const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);
const MAX_HOST = 100;

/**
 * The provider answered with another address. Followed, `x-api-key` and `x-goog-api-key` and the whole conversation would
 * go there: fetch takes only `authorization` off on the way to another host.
 */
class RedirectRefused extends Error {
  /** Where it pointed; the rest of the address may hold anything. */
  readonly host: string;
  constructor(host: string) {
    super(`redirected to ${host}`);
    this.name = "RedirectRefused";
    this.host = host;
  }
}

/** Throws RedirectRefused for an answer that sends the caller elsewhere, be it on the same host. */
export function refuseRedirect(response: Answer, askedUrl: string): void {
  if (!REDIRECTS.has(response.status)) return;
  const location = response.headers.get("location");
  const url = location === null ? null : URL.parse(location, askedUrl);
  throw new RedirectRefused(url === null || url.host === "" ? "an address that can't be read" : url.host.slice(0, MAX_HOST));
}

/** Any error the library throws or streams. `now` is the time that a retry-after date is measured against. */
export function toFailure(error: unknown, now: number): Failure {
  // Trying again would ask for the same, and a fallback would hide that the key was asked for elsewhere.
  if (error instanceof RedirectRefused) return { kind: "redirect", status: null, isPassing: false, afterMs: null, detail: error.host };
  const facts = readFacts(error);
  const words = `${facts.message} ${facts.body}`;
  const detail = shortDetail(facts);
  const status = facts.status;
  const base = { status, detail, afterMs: retryAfter(facts.headers, facts.body, now) };
  if (status !== 429 && (status === null || status < 500) && CONTEXT_WORDS.test(words))
    return { ...base, kind: "context", isPassing: false };
  if (status === 401 || status === 403) return { ...base, kind: "auth", isPassing: false };
  if (status === 402 || (status === 429 && QUOTA_WORDS.test(words))) {
    return { ...base, kind: "rate", isPassing: true, afterMs: Number.POSITIVE_INFINITY };
  }
  if (status === 429) return { ...base, kind: "rate", isPassing: true };
  if (status !== null && status >= 500) return { ...base, kind: "overload", isPassing: true };
  if (status === 408 || status === 409) return { ...base, kind: "network", isPassing: true };
  if (status !== null && status >= 400) return { ...base, kind: status === 413 ? "context" : "bad-request", isPassing: false };
  // Refused, reset, cut in the middle, or an answer that is no answer: all the same to whoever waits.
  return { ...base, kind: "network", isPassing: true };
}

/** A call that was given up because nothing came any more. */
export const silence = (idleMs: number): Failure => ({
  kind: "timeout",
  status: null,
  isPassing: true,
  afterMs: null,
  detail: `sent nothing for ${Math.round(idleMs / 1000)} seconds`,
});

interface Facts {
  readonly message: string;
  readonly body: string;
  readonly status: number | null;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly cause: string;
}

const asRecord = (value: unknown): Record<string, unknown> =>
  typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
/** Not `Number(value)`: that throws on an object which can't be made a primitive. */
const asNumber = (value: unknown): number => (typeof value === "number" || typeof value === "string" ? Number(value) : Number.NaN);
const asText = (value: unknown): string => (typeof value === "string" ? value : "");

/** APICallError, a provider's error event, or anything else: by its fields, so the library needn't be loaded here. */
function readFacts(error: unknown): Facts {
  const outer = asRecord(error);
  const inner = outer.error === undefined ? outer : asRecord(outer.error);
  const cause = asRecord(outer.cause);
  const words = [inner.type, inner.code, inner.message, typeof error === "string" ? error : ""].map(asText).filter(Boolean);
  // A 200 that couldn't be read is a broken answer, not a status.
  const status =
    [outer.statusCode, inner.status, inner.code].map(asNumber).find((code) => code >= 400 && code < 600) ??
    statusOfType(asText(inner.type));
  return {
    message: words.join(" "),
    body: asText(outer.responseBody).slice(0, 20_000),
    status,
    headers: asRecord(outer.responseHeaders),
    cause: (asText(cause.code) || asText(asRecord(cause.cause).code)).replace(/\W/g, ""),
  };
}

/** Error events in a stream that began with 200 say by name what a status would have said. */
function statusOfType(type: string): number | null {
  if (/overloaded/.test(type)) return 529;
  if (/rate_limit/.test(type)) return 429;
  if (/api_error|server_error/.test(type)) return 500;
  if (/authentication|permission/.test(type)) return 401;
  return /invalid_request/.test(type) ? 400 : null;
}

/** `retry-after-ms`, `retry-after` in seconds or as a date, or Google's `retryDelay`. */
function retryAfter(headers: Readonly<Record<string, unknown>>, body: string, now: number): number | null {
  if (asText(headers["x-should-retry"]) === "false") return Number.POSITIVE_INFINITY;
  const ms = Number.parseFloat(asText(headers["retry-after-ms"]));
  if (ms >= 0) return ms;
  const after = asText(headers["retry-after"]);
  if (/^\d+(\.\d+)?$/.test(after)) return Number(after) * 1000;
  const at = after === "" ? Number.NaN : Date.parse(after);
  if (!Number.isNaN(at)) return Math.max(0, at - now);
  const delay = /"retryDelay":\s*"(\d+(?:\.\d+)?)s"/.exec(body)?.[1];
  return delay === undefined ? null : Number(delay) * 1000;
}

function shortDetail({ message, body, cause }: Facts): string {
  const text = (bodyMessage(body) || message || cause).replace(/https?:\/\/\S+/g, "(address)");
  const line = text
    .replace(/[\s\p{Cc}]+/gu, " ")
    .toWellFormed()
    .trim()
    .replace(/\.$/, "");
  const withCause = cause === "" || line.includes(cause) ? line : `${line} (${cause})`;
  return shortText(withCause, MAX_DETAIL);
}

/** Providers wrap their sentence as {error: {message}}, {error: "…"} or {message}. */
function bodyMessage(body: string): string {
  try {
    const value = asRecord(JSON.parse(body));
    return asText(asRecord(value.error).message) || asText(value.error) || asText(value.message);
  } catch (error) {
    if (error instanceof SyntaxError) return "";
    throw error;
  }
}

const NOT_YOURS = "Only whoever runs this gateway can change that.";

/** What to tell the chat, and what whoever runs the gateway: a person on Telegram can neither set a key nor read a file here. */
export function explain(failure: Failure, target: ModelTarget, agentId: string): ModelProblem {
  const { provider, id } = target;
  const code = failure.status === null ? "" : ` (${failure.status})`;
  const said = failure.detail === "" ? "" : `: ${redactKey(failure.detail, target)}`;
  switch (failure.kind) {
    case "auth":
      return {
        message: `The provider ${provider} refused the key of agent ${agentId}${code}. ${NOT_YOURS}`,
        remedy: keyRemedy(provider, agentId),
      };
    case "rate":
      return {
        message: `The provider ${provider} allows no more calls to ${id} for now${code}${said}. ${rateAdvice(failure)}`,
        remedy: `Look at the quota and the billing of the account behind ${provider}.`,
      };
    case "overload":
      return {
        message: `The provider ${provider} failed to answer for ${id}${code}${said}. Try again in a few minutes.`,
        remedy: "Another model in model.fallbacks would step in.",
      };
    case "network":
      return {
        message: `The connection to the provider ${provider} failed${said}. Try again in a few minutes.`,
        remedy: `Check the network and models.providers.${provider}.baseUrl.`,
      };
    case "redirect":
      return {
        message: `The provider ${provider} pointed the request to another address (${failure.detail}). It was not followed, because the key and the conversation would have gone along. ${NOT_YOURS}`,
        remedy: `If the provider has moved, set models.providers.${provider}.baseUrl.`,
      };
    case "context":
      // What to do about it depends on whose conversation it is: a person's, or a sub-agent's.
      return { message: `The conversation no longer fits into the context window of ${id}.` };
    case "timeout":
      return {
        message: `The model ${provider}/${id} ${failure.detail}. Try again in a few minutes.`,
        remedy: "If it is just slow, raise models.idleTimeoutSeconds.",
      };
    case "bad-request":
      return failure.status === 404
        ? { message: `The provider ${provider} knows no model ${id}${code}${said}. /model chooses another one.` }
        : {
            message: `The provider ${provider} refused the request to ${id}${code}${said}. ${NOT_YOURS}`,
            remedy: "Check the model's name and its settings.",
          };
    default:
      return { message: `The model ${provider}/${id} failed${said}.` };
  }
}

export const missingKey = (provider: string, agentId: string): ModelProblem => ({
  message: `Agent ${agentId} has no key for the provider ${provider}. ${NOT_YOURS}`,
  remedy: keyRemedy(provider, agentId),
});

/** The error names the file. */
export const unreadableKeys = (agentId: string, error: unknown): ModelProblem => ({
  message: `The keys of agent ${agentId} can't be read. ${NOT_YOURS}`,
  remedy: errorText(error),
});

function keyRemedy(provider: string, agentId: string): string {
  const variable = Object.hasOwn(BUILT_IN_PROVIDERS, provider) ? BUILT_IN_PROVIDERS[provider]?.envKeys[0] : undefined;
  const shared = variable ?? `models.providers.${provider}.apiKey`;
  return `Run \`${commandWords("auth", `set ${agentId} ${provider}`)}\`, or set ${shared} for all agents that share keys.`;
}

/** The whole of it for whoever runs the gateway, their part left out for everybody else. */
export const messageFor = ({ message, remedy }: ModelProblem, isOperator: boolean): string =>
  isOperator && remedy !== undefined ? `${message} ${remedy}` : message;

function rateAdvice({ afterMs }: Failure): string {
  if (afterMs === null) return "Try again in a few minutes.";
  if (afterMs === Number.POSITIVE_INFINITY) return NOT_YOURS;
  const minutes = Math.ceil(afterMs / 60_000);
  return afterMs <= 90_000 ? `Try again in ${Math.ceil(afterMs / 1000)} seconds.` : `Try again in ${minutes} minutes.`;
}

const redactKey = (text: string, { endpoint }: ModelTarget): string =>
  endpoint.apiKey === undefined || endpoint.apiKey.length < 4 ? text : text.replaceAll(endpoint.apiKey, "(key)");
