// Many doorbells, one answer: work runs a while after the first ring, and once for all rings until then.
import type { Clock } from "../core/clock.ts";

export interface Throttle {
  ring(): void;
}

export interface ThrottleOptions {
  clock: Clock;
  everyMs: number;
  /** Returns how long the next run must wait at least, when that is longer. */
  work(): number | undefined;
  /** Hears of work that threw; the next ring tries again. */
  onError(error: unknown): void;
  /** After it aborts nothing runs any more. */
  signal: AbortSignal;
}

export function createThrottle(options: ThrottleOptions): Throttle {
  let isWaiting = false;
  let waitMs = options.everyMs;
  const run = async () => {
    await options.clock.sleep(waitMs, options.signal);
    isWaiting = false;
    if (options.signal.aborted) return;
    try {
      waitMs = Math.max(options.everyMs, options.work() ?? 0);
    } catch (error) {
      options.onError(error);
    }
  };
  return {
    ring() {
      if (isWaiting || options.signal.aborted) return;
      isWaiting = true;
      void run();
    },
  };
}
