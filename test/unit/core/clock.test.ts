// A time limit on a clock the test drives.
import { expect, it } from "vitest";
import { abortAfter } from "../../../src/core/clock.ts";
import { createManualClock } from "../../support/manual-clock.ts";

it("[SP8] aborts when the time is over, with its reason, and never once the work was over before", async () => {
  const clock = createManualClock();
  const [late, early] = [new AbortController(), new AbortController()];
  abortAfter(clock, 1_000, late);
  const clear = abortAfter(clock, 1_000, early, "too slow");
  await clock.advance(999);
  expect([late.signal.aborted, early.signal.aborted]).toEqual([false, false]);
  clear();
  await clock.advance(1);
  expect([late.signal.reason, early.signal.aborted]).toEqual(["timeout", false]);
});
