// Why a call to a platform failed, by what can be done about it, and what that means for a message: the same wherever it was to be said.
// What a refusal means each platform says itself.
import type { EditResult, SendResult } from "../core/message.ts";
import { explainRequestFailure } from "./connecting.ts";

/** `reason` is made of codes and the platform's words, never of a token. */
export type CallFailure<Refusal extends object> = Unanswered | ({ readonly kind: "refused"; readonly reason: string } & Refusal);

export type Unanswered =
  /** `isGlobal`: for calls of every kind. */
  | { readonly kind: "limited"; readonly afterMs: number; readonly reason: string; readonly isGlobal?: boolean }
  /** Surely not executed: no connection was made, or the platform says so. */
  | { readonly kind: "offline"; readonly reason: string }
  /** May have been executed: the answer is missing, cut, a server error, or not the platform's. */
  | { readonly kind: "lost"; readonly reason: string }
  /** The token or what it may do: the operator's to change. */
  | { readonly kind: "auth"; readonly reason: string };

/** Told of the token's trouble, and null when a call succeeds again. */
export interface TokenWatch {
  authTrouble(reason: string | null): void;
}

/** A wrong token is the operator's to change: no hurry, but nothing is lost until then. */
const AUTH_RETRY_MS = 60_000;

/** What became of a request that fetch gave up; `whom` was asked. */
export function explainSilence(error: unknown, whom: string): Unanswered {
  const { notSent, code } = explainRequestFailure(error);
  if (notSent) return { kind: "offline", reason: `can't reach ${whom} (${code})` };
  return { kind: "lost", reason: code === "TimeoutError" ? "no answer in time" : `the answer was lost (${code})` };
}

/** For a message that was to be posted. */
export function unsent(watch: TokenWatch, failure: Unanswered): SendResult {
  const { kind, reason } = failure;
  switch (kind) {
    case "limited":
      return { status: "retry", afterMs: failure.afterMs, reason };
    case "offline":
      return { status: "retry", reason };
    case "auth":
      watch.authTrouble(reason);
      return { status: "retry", afterMs: AUTH_RETRY_MS, reason };
    case "lost":
      return { status: "unknown", reason };
  }
}

/** For one that stands and was to say something else, which done twice shows once. */
export function unedited(watch: TokenWatch, failure: Unanswered): EditResult {
  const result = unsent(watch, failure);
  return result.status === "retry" ? result : { status: "retry", reason: failure.reason };
}
