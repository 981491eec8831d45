// A clock that runs faster than the wall's, for tests in which real sockets and long waits meet: the sockets keep their
// own pace, minutes of back-off pass in fractions of a second.
import { type Clock, systemClock } from "../../src/core/clock.ts";

export function createFastClock(factor: number): Clock {
  const startedAt = Date.now();
  return {
    now: () => Math.floor(startedAt + (Date.now() - startedAt) * factor),
    // Rounded up, so that nobody wakes a moment too early.
    sleep: (ms, signal) => systemClock.sleep(Math.ceil(ms / factor) + 1, signal),
  };
}
