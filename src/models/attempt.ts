// One HTTP call to one model, start to end: request, stream, watchdog. Settles soon after an abort whatever the
// library does, and closing the socket is part of every end. ai-sdk.ts → attempt → language-model.ts, http-post.ts, reply-draft.ts
import type { LanguageModelV4CallOptions } from "@ai-sdk/provider";
import { type Clock, callAfter } from "../core/clock.ts";
import { createHttpPost, type HttpPost } from "./http-post.ts";
import { createLanguageModels, type LanguageModels, type ModelTarget, withinLimit } from "./language-model.ts";
import { type Failure, refuseRedirect, silence, toFailure } from "./model-error.ts";
import { NAMELESS_CALL, type ReplyDraft } from "./reply-draft.ts";

export interface AttemptOptions {
  readonly clock: Clock;
  readonly target: ModelTarget;
  readonly call: LanguageModelV4CallOptions;
  readonly draft: ReplyDraft;
  /** What is paid for at most, thoughts included; null: nobody counts. */
  readonly maxOutput: number | null;
  /** Nothing arrives for this long, head included: the call is given up. */
  readonly idleMs: number;
  readonly signal: AbortSignal;
}

export type AttemptEnd =
  | { readonly outcome: "ok" }
  | { readonly outcome: "aborted" }
  | { readonly outcome: "error"; readonly failure: Failure };

/** Far above any real answer: a server that never ends a line must not fill the memory. */
const MAX_RESPONSE_BYTES = 128 * 1024 * 1024;

/** Never rejects. `aborted` means the signal given here; what arrived until then is in the draft. */
export type Attempt = (options: AttemptOptions) => Promise<AttemptEnd>;

export function createAttempt(): Attempt {
  // The library's objects are shared by all calls, and their fetch with them: the signal a call was made with tells whose it is.
  const watches = new WeakMap<AbortSignal, Watch>();
  const post = createHttpPost();
  const models = createLanguageModels((input, init) => {
    const watch = init?.signal == null ? undefined : watches.get(init.signal);
    if (watch === undefined) throw new Error("the provider's package sent a request under a signal of its own");
    return watch.fetch(input, init);
  });
  return (options) => attempt(options, { models, watches, post });
}

/** Given as the reason, because an abort without one makes an exception with its stack, several in each call. */
const OVER = "over";

interface Shared {
  readonly models: LanguageModels;
  readonly watches: WeakMap<AbortSignal, Watch>;
  readonly post: HttpPost;
}

async function attempt(options: AttemptOptions, { models, watches, post }: Shared): Promise<AttemptEnd> {
  const { signal, draft, clock } = options;
  const closing = new AbortController();
  const close = () => closing.abort(OVER);
  const watch = createWatch(options, post, closing);
  watches.set(closing.signal, watch);
  signal.addEventListener("abort", close, { once: true });
  if (signal.aborted) close();
  let isRead = false;
  try {
    isRead = await Promise.race([readAnswer(options, models, closing.signal), rejectOn(closing.signal)]);
    const broken = draft.incomplete();
    return broken === null ? { outcome: "ok" } : { outcome: "error", failure: toFailure(broken.error ?? CUT, clock.now()) };
  } catch (error) {
    if (signal.aborted) return { outcome: "aborted" };
    if (isNameless(error)) {
      draft.take(NAMELESS_CALL);
      return { outcome: "ok" };
    }
    return { outcome: "error", failure: watch.isIdle() ? silence(options.idleMs) : toFailure(error, clock.now()) };
  } finally {
    signal.removeEventListener("abort", close);
    watch.end();
    // Of an answer that was read to its end nothing is left to be closed.
    if (!isRead) close();
  }
}

/** The model wrote a call without a name. It would do so again; told about it, it calls by name. */
const isNameless = (error: unknown): boolean =>
  error instanceof Error && error.name === "AI_InvalidResponseDataError" && error.message.includes("function.name");

const CUT = new Error("the answer broke off in the middle");

/** False: there may be more of it. */
async function readAnswer(options: AttemptOptions, models: LanguageModels, signal: AbortSignal): Promise<boolean> {
  const model = await models(options.target);
  const { stream } = await model.doStream({ ...options.call, abortSignal: signal });
  const reader = stream.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return true;
    // After an abort the draft belongs to the answer already given.
    if (signal.aborted || !options.draft.take(value)) return false;
  }
}

const rejectOn = (signal: AbortSignal): Promise<never> =>
  new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason);
    else signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });

interface Watch {
  /** The fetch whose every byte counts as a sign of life: keep-alive lines too, which the library hides. */
  readonly fetch: typeof globalThis.fetch;
  isIdle(): boolean;
  end(): void;
}

function createWatch({ clock, idleMs, target, maxOutput }: AttemptOptions, post: HttpPost, closing: AbortController): Watch {
  let lastByteAt = clock.now();
  let isIdle = false;
  let bytes = 0;
  let endLook = (): void => {};
  const look = (): void => {
    const quietMs = clock.now() - lastByteAt;
    if (quietMs < idleMs) {
      endLook = callAfter(clock, idleMs - quietMs, look);
      return;
    }
    isIdle = true;
    closing.abort(OVER);
  };
  const onBytes = (count: number): void => {
    lastByteAt = clock.now();
    bytes += count;
    if (bytes > MAX_RESPONSE_BYTES) throw new Error("the answer went past 128 MB");
  };
  look();
  return {
    isIdle: () => isIdle,
    end: () => endLook(),
    fetch: async (input, init) => {
      const isBound = maxOutput !== null && target.endpoint.api === "anthropic" && typeof init?.body === "string";
      const response = await post(input, isBound ? { ...init, body: withinLimit(String(init.body), maxOutput) } : init, { onBytes });
      refuseRedirect(response, String(input));
      // All of a `Response` that the packages look at.
      return response as Response;
    },
  };
}
