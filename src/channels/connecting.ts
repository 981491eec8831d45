// What a failed request means, whatever the platform. First of all: did it leave this machine at all? The one question that decides whether a call may simply be made again
// (surely not executed) or whether the platform must be asked first (may have been executed).

/** Failures before a request can have left: name lookup, connecting, the TLS handshake. */
const NOT_SENT =
  /^(?:ECONNREFUSED|ENOTFOUND|EAI_\w+|EHOSTUNREACH|ENETUNREACH|ENETDOWN|UND_ERR_CONNECT_TIMEOUT|CERT_\w+|ERR_TLS_\w+|ERR_SSL_\w+|DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_\w+)$/;

export interface RequestFailure {
  /** True: surely not executed. */
  readonly notSent: boolean;
  /** The system's or the client's word for it, e.g. ECONNREFUSED; never holds an address or a token. */
  readonly code: string;
}

/** What became of a request that fetch gave up. Never throws. */
export function explainRequestFailure(error: unknown): RequestFailure {
  const cause = rootCause(error);
  const code = cause.code ?? cause.name;
  return { notSent: NOT_SENT.test(code) || cause.syscall === "connect", code };
}

/** No timer is set for longer, and nobody waits longer without asking again. */
const MAX_ASKED_MS = 24 * 3_600_000;

/** What a platform asks for in a 429, in milliseconds. Nonsense is 0: then whoever waits goes by a backoff of its own. */
export function askedWaitMs(seconds: unknown): number {
  const ms = Number(seconds) * 1_000;
  return Number.isNaN(ms) || ms < 0 ? 0 : Math.min(ms, MAX_ASKED_MS);
}

/** So many bytes a millisecond pass on the slowest line anybody sends files over. */
const SLOWEST = 50;

/** When a call that takes `timeoutMs` at most without them is given up with them: or a large file would be begun again for ever. */
export const withBytesMs = (timeoutMs: number, bytes: number): number => timeoutMs + Math.ceil(bytes / SLOWEST);

interface Cause {
  readonly name: string;
  readonly code?: string;
  readonly syscall?: string;
}

/** fetch wraps what happened once or twice; a connection tried on several addresses comes as a list. */
function rootCause(error: unknown): Cause {
  let current = error;
  for (let depth = 0; depth < 4 && current instanceof Error; depth++) {
    const next: unknown = current instanceof AggregateError ? current.errors[0] : current.cause;
    if (!(next instanceof Error)) break;
    current = next;
  }
  if (!(current instanceof Error)) return { name: "unknown error" };
  // A DOMException's `code` is a number from another age.
  const { name, code, syscall } = current as { name: string; code?: unknown; syscall?: unknown };
  return { name, ...(typeof code === "string" ? { code } : {}), ...(typeof syscall === "string" ? { syscall } : {}) };
}
