// Time as an argument: everything that waits or stamps takes a Clock, so tests can drive a day in a second.

export interface Clock {
  now(): number;
  /** Resolves after `ms`, or at once when the signal aborts (check the signal afterwards). Never rejects. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
  /** For `callAfter`; a clock without it is asked to sleep. */
  after?(ms: number, work: () => void): () => void;
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
  after(ms, work) {
    const timer = setTimeout(work, ms);
    return () => clearTimeout(timer);
  },
};

/**
 * Calls `work` after `ms`, unless what it returns is called before. For limits, which are seldom reached: a sleep that is ended by
 * a signal costs several times as much, and every turn and every model call has some.
 */
export function callAfter(clock: Clock, ms: number, work: () => void): () => void {
  if (clock.after !== undefined) return clock.after(ms, work);
  const over = new AbortController();
  void clock.sleep(ms, over.signal).then(() => {
    if (!over.signal.aborted) work();
  });
  return () => over.abort("over");
}

/** Aborts `abort` with `reason` after `ms`. Call what it returns when the work is over: then nothing happens any more. */
export const abortAfter = (clock: Clock, ms: number, abort: AbortController, reason = "timeout"): (() => void) =>
  callAfter(clock, ms, () => abort.abort(reason));

/** The UTC day as `2026-01-31`. */
export const dayOf = (at: number): string => new Date(at).toISOString().slice(0, 10);

/** ISO time that is legal in a file name on every system. */
export const fileStamp = (at: number): string => new Date(at).toISOString().replaceAll(":", "-");
