// Clocks for tests in which real sockets and long waits meet: the sockets keep their own pace, minutes of back-off pass in
// fractions of a second.
import { type Clock, systemClock } from "../../src/core/clock.ts";

/** Runs faster than the wall's. */
export function createFastClock(factor: number): Clock {
  const startedAt = Date.now();
  return {
    now: () => Math.floor(startedAt + (Date.now() - startedAt) * factor),
    // Rounded up, so that nobody wakes a moment too early.
    sleep: (ms, signal) => systemClock.sleep(Math.ceil(ms / factor) + 1, signal),
  };
}

/** Shows the wall's time, and cuts every wait to `longestMs`. */
export const createImpatientClock = (longestMs: number): Clock => ({
  now: systemClock.now,
  sleep: (ms, signal) => systemClock.sleep(Math.min(ms, longestMs), signal),
});
