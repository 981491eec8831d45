// Time as an argument: everything that waits or stamps takes a Clock, so tests can drive a day in a second.

export interface Clock {
  now(): number;
  /** Resolves after `ms`, or at once when the signal aborts (check the signal afterwards). Never rejects. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

export const systemClock: Clock = {
  now: () => Date.now(),
  sleep: (ms, signal) =>
    new Promise((resolve) => {
      if (signal?.aborted) return resolve();
      const done = () => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", done);
        resolve();
      };
      const timer = setTimeout(done, ms);
      signal?.addEventListener("abort", done, { once: true });
    }),
};

/** Aborts `abort` with `reason` after `ms`. Call what it returns when the work is over: then nothing happens any more. */
export function abortAfter(clock: Clock, ms: number, abort: AbortController, reason = "timeout"): () => void {
  const over = new AbortController();
  void clock.sleep(ms, over.signal).then(() => {
    if (!over.signal.aborted) abort.abort(reason);
  });
  // With a reason: without one an exception with its stack is made, at every end of everything that has a limit.
  return () => over.abort("over");
}

/** The UTC day as `2026-01-31`. */
export const dayOf = (at: number): string => new Date(at).toISOString().slice(0, 10);

/** ISO time that is legal in a file name on every system. */
export const fileStamp = (at: number): string => new Date(at).toISOString().replaceAll(":", "-");
