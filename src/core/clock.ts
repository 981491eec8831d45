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

/** ISO time that is legal in a file name on every system. */
export const fileStamp = (at: number): string => new Date(at).toISOString().replaceAll(":", "-");
