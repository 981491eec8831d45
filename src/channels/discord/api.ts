// Discord's REST client, and one place that says what a failed call means. The client never tries again by itself: not after a server
// error (it may have been executed), and not after a 429, which it would sit out in a queue of its own, unseen by delivery. Whether a
// call may be made again is for the caller to decide (receive.ts, send.ts).
import { API } from "@discordjs/core/http-only";
import { BurstHandlerMajorIdKey, DiscordAPIError, HTTPError, RateLimitError, REST } from "@discordjs/rest";
import { askedWaitMs, withBytesMs } from "../connecting.ts";
import { type CallFailure, explainSilence } from "../failure.ts";

export interface ApiOptions {
  readonly botToken: string;
  /** Without the version, e.g. `https://discord.com/api`. */
  readonly apiUrl: string;
  /** After this a call is given up, its answer's body included; with a file it has more. */
  readonly timeoutMs: number;
  /** Ends calls under way. The library takes one for each call, and never lets go of it again. */
  readonly signal: AbortSignal;
}

/** `code` is Discord's own number. */
export type ApiFailure = CallFailure<{ readonly code: number }>;

export const API_URL = "https://discord.com/api";
export const BAD_TOKEN = "auth failed: check channels.discord.botToken";
/** Where a wait is asked for without a figure: by a page in front of Discord. */
const BARE_WAIT_MS = 60_000;

/** The longest a timer can be set for. */
const NEVER_MS = 2 ** 31 - 1;

class Unauthorized extends Error {}

/** A 403 or 429 that is not Discord's own answer but of whoever stands in front of it. */
class TurnedAway extends Error {}

export function createApi({ botToken, apiUrl, timeoutMs, signal }: ApiOptions): API {
  const request = async (url: string, init: { signal?: AbortSignal; body?: unknown }): Promise<Response> => {
    const { signal: own } = init;
    const signals = [signal, AbortSignal.timeout(withBytesMs(timeoutMs, bytesOf(init.body))), ...(own === undefined ? [] : [own])];
    // The token stands in a header, and goes nowhere but to this address.
    const response = await fetch(url, { ...init, signal: AbortSignal.any(signals), redirect: "error" } as RequestInit);
    const isJson = response.headers.get("content-type")?.startsWith("application/json") === true;
    // The client would forget the token after one such answer, and refuse every call from then on.
    if (response.status === 401 && !/\/(?:webhooks|interactions)\//.test(url)) {
      await response.body?.cancel();
      throw new Unauthorized();
    }
    if (!isJson && (response.status === 403 || response.status === 429)) {
      await response.body?.cancel();
      throw new TurnedAway(`status ${response.status}`);
    }
    return response;
  };
  const rest = new REST({
    version: "10",
    api: apiUrl,
    retries: 0,
    // Ours counts.
    timeout: NEVER_MS,
    rejectOnRateLimit: () => true,
    makeRequest: request as unknown as REST["options"]["makeRequest"],
  });
  lineUpNobody(rest);
  return new API(rest.setToken(botToken));
}

/** Of a message with files. */
function bytesOf(body: unknown): number {
  if (!(body instanceof FormData)) return 0;
  return [...body.values()].reduce((sum, value) => sum + (typeof value === "string" ? value.length : value.size), 0);
}

/**
 * The client makes calls of one kind in one channel one after the other, so that a message that hangs would hold up the answer to /stop
 * (DL6). Order and pace are delivery's; here every call is made at once, which the client does by itself for interactions only.
 */
function lineUpNobody(rest: REST): void {
  const inner = rest as unknown as { createHandler(hash: string, major: string): unknown };
  const create = inner.createHandler.bind(rest);
  inner.createHandler = (hash) => create(hash, BurstHandlerMajorIdKey);
}

/** What a failed call means. Never throws. */
export function explainFailure(error: unknown): ApiFailure {
  if (error instanceof Unauthorized) return { kind: "auth", reason: BAD_TOKEN };
  if (error instanceof TurnedAway)
    return { kind: "limited", afterMs: BARE_WAIT_MS, isGlobal: true, reason: `turned away (${error.message})` };
  if (error instanceof RateLimitError) return explainLimit(error);
  if (error instanceof HTTPError) return { kind: "lost", reason: `Discord answered with status ${error.status}` };
  if (error instanceof DiscordAPIError) return explainAnswer(error);
  return explainSilence(error, "Discord");
}

function explainLimit({ retryAfter, global: isGlobal }: RateLimitError): ApiFailure {
  const reason = isGlobal ? "rate limited (all calls)" : "rate limited";
  return { kind: "limited", afterMs: askedWaitMs(retryAfter / 1_000), isGlobal, reason };
}

function explainAnswer(error: DiscordAPIError): ApiFailure {
  const { status } = error;
  // Also when it was not Discord that said so: it is too large on the way there, whoever is asked.
  if (status === 413) return { kind: "refused", code: status, reason: "413 too large" };
  // Half an answer, or a page of somebody in between: the library takes whatever it finds for Discord's words.
  if (typeof error.code !== "number") return { kind: "lost", reason: `the answer was not Discord's (status ${status})` };
  const words = error.message.split("\n").slice(0, 4).join("; ");
  return { kind: "refused", code: error.code === 0 ? status : error.code, reason: `${error.code === 0 ? status : error.code} ${words}` };
}
