// The client-server API by plain fetch, and one place that says what a failed call means. No retries here: whether a call may be made
// again is for the caller to decide (sync.ts, send.ts). The token goes in a header, never in an address, and to no other host.
import { readBytes } from "../../core/read-bytes.ts";
import { type CallFailure, explainSilence } from "../failure.ts";

export interface ApiOptions {
  /** `https://matrix.example.org`, without a slash at the end. */
  readonly homeserver: string;
  readonly accessToken: string;
  /** After this a call is given up. */
  readonly timeoutMs: number;
  /** Ends calls under way. */
  readonly signal: AbortSignal;
}

export type ApiFailure = CallFailure<{ readonly code: string; readonly status: number }>;

export class MatrixFailure extends Error {
  readonly failure: ApiFailure;
  constructor(failure: ApiFailure) {
    super(failure.reason);
    this.name = "MatrixFailure";
    this.failure = failure;
  }
}

export type Answer = Readonly<Record<string, unknown>>;

interface Call {
  readonly query?: Readonly<Record<string, string>>;
  readonly body?: Answer | { readonly bytes: Uint8Array<ArrayBuffer>; readonly type: string };
  /** Instead of the client's own. */
  readonly timeoutMs?: number;
}

export interface Api {
  /** Path in its segments, each of which may be anybody's words. Throws MatrixFailure. */
  call(method: "GET" | "PUT" | "POST", path: readonly string[], call?: Call): Promise<Answer>;
}

/** No page of history is longer. A sync may be, after an outage that many rooms were busy in (sync.ts). */
const MAX_ANSWER_BYTES = 64 * 1024 * 1024;
const DEFAULT_LIMIT_MS = 5_000;
/** No timer is set for longer, and nobody waits longer without asking again. */
const MAX_ASKED_MS = 24 * 3_600_000;
const AUTH = new Set(["M_UNKNOWN_TOKEN", "M_MISSING_TOKEN", "M_USER_DEACTIVATED", "M_USER_LOCKED", "M_CONSENT_NOT_GIVEN"]);

/** Why nothing came of an answer that did come. */
export const TOO_LONG = "the answer is longer than any that is read";

export const v3 = (...segments: string[]): string[] => ["_matrix", "client", "v3", ...segments];

export function createApi({ homeserver, accessToken, timeoutMs, signal }: ApiOptions): Api {
  return {
    async call(method, path, { query = {}, body, timeoutMs: own = timeoutMs } = {}) {
      const search = new URLSearchParams(query).toString();
      const url = `${homeserver}/${path.map(encodeURIComponent).join("/")}${search === "" ? "" : `?${search}`}`;
      const bytes = body !== undefined && "bytes" in body ? (body.bytes as Uint8Array<ArrayBuffer>) : null;
      const type = bytes === null ? "application/json" : String(body?.type);
      const content = bytes ?? (body === undefined ? null : JSON.stringify(body));
      try {
        const response = await fetch(url, {
          method,
          headers: { authorization: `Bearer ${accessToken}`, ...(content === null ? {} : { "content-type": type }) },
          body: content,
          // Elsewhere nobody needs the token.
          redirect: "manual",
          signal: AbortSignal.any([signal, AbortSignal.timeout(own)]),
        });
        return await readAnswer(response);
      } catch (error) {
        throw error instanceof MatrixFailure ? error : new MatrixFailure(explainSilence(error, "the homeserver"));
      }
    },
  };
}

async function readAnswer(response: Response): Promise<Answer> {
  const bytes = response.body === null ? Buffer.alloc(0) : await readBytes(gathered(response.body), MAX_ANSWER_BYTES);
  if (bytes === null && response.status === 200) throw new MatrixFailure({ kind: "lost", reason: TOO_LONG });
  const answer = bytes === null ? null : asObject(bytes.toString("utf8"));
  if (response.status === 200 && answer !== null) return answer;
  throw new MatrixFailure(explainAnswer(response, answer));
}

/** A long body comes in thousands of pieces, which readBytes takes for somebody who means harm. */
async function* gathered(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let held: Uint8Array[] = [];
  let size = 0;
  for await (const piece of pieces) {
    held.push(piece);
    size += piece.byteLength;
    if (size < 256 * 1024) continue;
    yield Buffer.concat(held);
    held = [];
    size = 0;
  }
  yield Buffer.concat(held);
}

function asObject(text: string): Answer | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Answer) : null;
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}

function explainAnswer({ status, headers }: Response, answer: Answer | null): ApiFailure {
  const code = typeof answer?.errcode === "string" && /^[A-Z][A-Z0-9_.]{1,80}$/i.test(answer.errcode) ? answer.errcode : null;
  if (status === 429 || code === "M_LIMIT_EXCEEDED")
    return { kind: "limited", afterMs: askedMs(answer, headers), reason: "M_LIMIT_EXCEEDED" };
  if (status >= 500) return { kind: "lost", reason: `the homeserver answered with status ${status}` };
  // What stands before a server often takes less than the server itself, and says so in a page: the same again would be as large.
  if (status === 413) return { kind: "refused", code: "M_TOO_LARGE", status, reason: "M_TOO_LARGE" };
  // A page of something in between, or a redirect to one: nothing of what Matrix says comes without a code.
  if (code === null) return { kind: "lost", reason: `the answer was not a homeserver's (status ${status})` };
  if (AUTH.has(code) || status === 401)
    return { kind: "auth", reason: `the sign-in is no longer valid (${code}): check channels.matrix.accessToken` };
  return { kind: "refused", code, status, reason: code };
}

function askedMs(answer: Answer | null, headers: Headers): number {
  const seconds = headers.get("retry-after");
  const ms = Number(answer?.retry_after_ms ?? (seconds === null ? Number.NaN : Number(seconds) * 1_000));
  return Number.isFinite(ms) && ms >= 0 ? Math.min(ms, MAX_ASKED_MS) : DEFAULT_LIMIT_MS;
}

/** What a failed call means. Never throws. */
export const explainFailure = (error: unknown): ApiFailure =>
  error instanceof MatrixFailure ? error.failure : { kind: "lost", reason: error instanceof Error ? error.name : "unknown error" };

/** The server says no, whatever the reason: asked again it would say the same. */
export const isRefused = (error: unknown): boolean => explainFailure(error).kind === "refused";
