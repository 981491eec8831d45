// When memory is given back: the rule on a heap that is told what it holds, and the real one.
import { expect, it } from "vitest";
import { giveMemoryBack, type Heap, processHeap } from "../../../src/app/memory.ts";
import { createManualClock } from "../../support/manual-clock.ts";

const MB = 1024 * 1024;

it("[RN3] memory is given back when it is quiet and worth it, after a start and after a burst, and not again and again", async () => {
  const clock = createManualClock();
  const over = new AbortController();
  const state = { bytes: 50 * MB, cpuMs: 900, collected: 0 };
  const heap: Heap = {
    bytes: () => state.bytes,
    cpuMs: () => state.cpuMs,
    async collect() {
      state.collected++;
      state.bytes = 20 * MB;
      state.cpuMs += 400;
    },
  };
  const done = giveMemoryBack(heap, clock, over.signal);
  /** Ten seconds in which it works for so many ms and takes so much. */
  const pass = async (workMs: number, takes: number): Promise<number> => {
    state.cpuMs += workMs;
    state.bytes += takes * MB;
    await clock.advance(10_000);
    return state.collected;
  };
  expect(await pass(1_000, 0), "still starting").toBe(0);
  expect(await pass(50, 0), "at rest for the first time").toBe(1);
  expect(await pass(50, 3), "a little").toBe(1);
  expect(await pass(9_000, 400), "a burst").toBe(1);
  expect(await pass(50, 0), "after it").toBe(2);
  for (let n = 0; n < 5; n++) expect(await pass(50, 1), "idle").toBe(2);
  over.abort();
  await clock.advance(10_000);
  await done;
});

it("[RN3] the process gives back what it holds for nothing", async () => {
  let burst: string[][] | null = Array.from({ length: 200 }, (_, n) => Array.from({ length: 5_000 }, (__, m) => `${n} ${m}`));
  expect(burst).toHaveLength(200);
  const before = processHeap.bytes();
  burst = null;
  await processHeap.collect();
  expect(before - processHeap.bytes()).toBeGreaterThan(20 * MB);
});
