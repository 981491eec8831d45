// Many doorbells, one answer: work runs a while after the first ring, and once for all rings until then.
import type { Clock } from "./clock.ts";

export interface Throttle {
  ring(): void;
}

export interface ThrottleOptions {
  clock: Clock;
  everyMs: number;
  /** Never twice at once. Returns how long the next run must wait at least, when that is longer. */
  work(): Promise<number | undefined> | number | undefined;
  /** Hears of work that threw; the next ring tries again. */
  onError(error: unknown): void;
  /** After it aborts nothing runs any more. */
  signal: AbortSignal;
}

export function createThrottle(options: ThrottleOptions): Throttle {
  let isRunning = false;
  let isRung = false;
  let waitMs = options.everyMs;
  const runOnce = async () => {
    await options.clock.sleep(waitMs, options.signal);
    // From here on a ring is about something that this run may not have seen.
    isRung = false;
    if (options.signal.aborted) return;
    try {
      waitMs = Math.max(options.everyMs, (await options.work()) ?? 0);
    } catch (error) {
      options.onError(error);
    }
  };
  const run = async () => {
    isRunning = true;
    while (isRung) await runOnce();
    isRunning = false;
  };
  return {
    ring() {
      if (options.signal.aborted) return;
      isRung = true;
      if (!isRunning) void run();
    },
  };
}
