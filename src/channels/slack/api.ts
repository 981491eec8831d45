// The Web API client, and one place that says what a failed call means. The client never retries by itself: with its
// defaults it posts an announcement twice when an answer gets lost. Whether a call may be made again is decided by the
// caller (receive.ts, send.ts). Each client gets an options object of its own: Slack's classes write into what they are given.
import {
  type Logger as SlackLogger,
  WebAPIHTTPError,
  WebAPIPlatformError,
  WebAPIRateLimitedError,
  WebAPIRequestError,
  WebClient,
  type WebClientOptions,
} from "@slack/web-api";
import type { Logger } from "../../core/logger.ts";
import { askedWaitMs } from "../connecting.ts";
import { type CallFailure, explainSilence } from "../failure.ts";

export interface ApiOptions {
  readonly apiUrl: string;
  /** After this a call is given up. */
  readonly timeoutMs: number;
  readonly log: Logger;
  /** Ends calls under way. */
  readonly signal: AbortSignal;
}

export type ApiFailure = CallFailure<{ readonly code: string }>;

export const createClient = (token: string, options: ApiOptions): WebClient => new WebClient(token, clientOptions(options));

/** A fresh object at each call. */
export function clientOptions({ apiUrl, timeoutMs, log, signal }: ApiOptions): WebClientOptions {
  return {
    slackApiUrl: apiUrl,
    retryConfig: { retries: 0 },
    rejectRateLimitedCalls: true,
    allowAbsoluteUrls: false,
    timeout: timeoutMs,
    logger: toSlackLogger(log),
    fetch: (url, init) => {
      const own = init?.signal;
      return fetch(url, { ...init, signal: own === undefined || own === null ? signal : AbortSignal.any([own, signal]) });
    },
  };
}

type Level = ReturnType<SlackLogger["getLevel"]>;

/** Slack's own log lines are for debugging only: what an operator must know is said by us. Their debug lines hold messages and are dropped. */
export function toSlackLogger(log: Logger): SlackLogger {
  const write = (...words: unknown[]): void => log.debug({ library: "slack" }, words.map(String).join(" "));
  return { debug() {}, info: write, warn: write, error: write, setLevel() {}, getLevel: () => "info" as Level, setName() {} };
}

const AUTH = new Set([
  "access_denied",
  "account_inactive",
  "ekm_access_denied",
  "enterprise_is_restricted",
  "invalid_auth",
  "missing_scope",
  "no_permission",
  "not_allowed_token_type",
  "not_authed",
  "org_login_required",
  "team_access_not_granted",
  "token_expired",
  "token_revoked",
  "two_factor_setup_required",
]);
const MAYBE_EXECUTED = new Set(["fatal_error", "internal_error", "request_timeout", "service_unavailable"]);
const NOT_EXECUTED = new Set(["accesslimited", "message_limit_exceeded", "ratelimited", "rate_limited", "team_added_to_org"]);
const DEFAULT_LIMIT_MS = 30_000;

/** What a failed call means; `setting` names the token it was made with. Never throws. */
export function explainFailure(error: unknown, setting = "channels.slack.botToken"): ApiFailure {
  if (error instanceof WebAPIRateLimitedError) return { kind: "limited", afterMs: askedWaitMs(error.retryAfter), reason: "ratelimited" };
  if (error instanceof WebAPIPlatformError) return explainAnswer(error.data, setting);
  if (error instanceof WebAPIHTTPError) return { kind: "lost", reason: `Slack answered with status ${error.statusCode}` };
  // The library's answer to a 429 without Retry-After has no class of its own.
  if (error instanceof Error && error.message.startsWith("Retry header did not contain")) {
    return { kind: "limited", afterMs: DEFAULT_LIMIT_MS, reason: "ratelimited" };
  }
  return explainSilence(error instanceof WebAPIRequestError ? error.original : error, "Slack");
}

function explainAnswer(data: { error?: unknown; needed?: unknown }, setting: string): ApiFailure {
  const { error: code, needed } = data;
  // A cut or foreign body (HTML from a proxy) ends up here, too: the library takes its text for the error's name.
  if (typeof code !== "string" || !/^[a-z][a-z0-9_]{1,80}$/.test(code)) return { kind: "lost", reason: "the answer was not Slack's" };
  if (NOT_EXECUTED.has(code)) return { kind: "limited", afterMs: DEFAULT_LIMIT_MS, reason: code };
  if (MAYBE_EXECUTED.has(code)) return { kind: "lost", reason: code };
  if (!AUTH.has(code)) return { kind: "refused", code, reason: code };
  const scope = code === "missing_scope" && typeof needed === "string" ? ` ${needed}` : "";
  return { kind: "auth", reason: `auth failed (${code}${scope}): check ${setting}` };
}
