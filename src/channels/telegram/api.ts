// The Bot API client: grammY's typed calls over node:http, and one place that says what a failed call means. The build for the
// web, because that for Node brings a fetch of its own, 3 MB with what it needs, which hangs on a cut answer until its timeout.
// No retries here: whether a call may be made again is for the caller to decide (poll.ts, send.ts).
import { Api, type ApiClientOptions, GrammyError, HttpError } from "grammy/web";
import { askedWaitMs, explainRequestFailure } from "../connecting.ts";
import { createJsonCall } from "../json-call.ts";

export interface ApiOptions {
  readonly botToken: string;
  readonly apiRoot: string;
  /** After this a call is given up. Must be longer than a long poll. */
  readonly timeoutMs: number;
}

/** Why a call failed, by what can be done about it. `reason` never holds the token: it is made of codes and Telegram's words. */
export type ApiFailure =
  | { readonly kind: "flood"; readonly afterMs: number; readonly reason: string }
  /** Surely not executed: no connection was made. */
  | { readonly kind: "offline"; readonly reason: string }
  /** May have been executed: the answer is missing, cut, or a server error. */
  | { readonly kind: "lost"; readonly reason: string }
  | { readonly kind: "auth"; readonly reason: string }
  | { readonly kind: "conflict"; readonly reason: string }
  | { readonly kind: "refused"; readonly code: number; readonly reason: string; readonly migrateTo?: number };

type GrammyFetch = NonNullable<ApiClientOptions["fetch"]>;

export function createApi(options: ApiOptions): Api {
  return new Api(options.botToken, {
    apiRoot: options.apiRoot.replace(/\/+$/, ""),
    timeoutSeconds: options.timeoutMs / 1000,
    sensitiveLogs: false,
    fetch: createJsonCall() as unknown as GrammyFetch,
  });
}

type GrammySignal = NonNullable<Parameters<Api["getMe"]>[0]>;
/** grammY types the polyfill of its other build. */
export const asGrammySignal = (signal: AbortSignal): GrammySignal => signal as unknown as GrammySignal;

/** What a failed call means. Never throws. */
export function explainFailure(error: unknown): ApiFailure {
  if (error instanceof GrammyError) return explainAnswer(error);
  if (!(error instanceof HttpError)) return { kind: "lost", reason: error instanceof Error ? error.name : "unknown error" };
  const { notSent, code } = explainRequestFailure(error.error);
  if (notSent) return { kind: "offline", reason: `can't reach Telegram (${code})` };
  const timedOut = error.error instanceof Error && error.error.message.includes("timed out");
  return { kind: "lost", reason: timedOut ? "no answer in time" : `the answer was lost (${code})` };
}

function explainAnswer(error: GrammyError): ApiFailure {
  const reason = `${error.error_code} ${error.description}`;
  const { retry_after: retryAfter, migrate_to_chat_id: migrateTo } = error.parameters;
  if (error.error_code === 429) return { kind: "flood", afterMs: askedWaitMs(retryAfter), reason };
  // 404 is what a malformed token gets: the method's path does not exist.
  if (error.error_code === 401 || error.error_code === 404)
    return { kind: "auth", reason: "auth failed: check channels.telegram.botToken" };
  if (error.error_code === 409) return { kind: "conflict", reason };
  if (error.error_code >= 500) return { kind: "lost", reason };
  return { kind: "refused", code: error.error_code, reason, ...(migrateTo === undefined ? {} : { migrateTo }) };
}
