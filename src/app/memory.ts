// Memory that a start or a burst took and nobody needs any more, given back when it is quiet. V8 collects when something is
// allocated, and keeps the room for the next burst: an idle gateway would hold for ever what its busiest minute took.
import { getHeapStatistics, setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import type { Clock } from "../core/clock.ts";

/** What there is to give back, and how. */
export interface Heap {
  /** What it takes of the machine, garbage included. */
  bytes(): number;
  /** CPU time of the process so far. */
  cpuMs(): number;
  /**
   * Gives back what it can. Holds the event loop for 50 to 100 ms, after a large burst for more than half a second: once, and
   * only when it is quiet.
   */
  collect(): Promise<void>;
}

const LOOK_EVERY_MS = 10_000;
/** Of one core: polling, the page's signs of life and whoever looks at /metrics stay below it. */
const QUIET_SHARE = 0.03;
const WORTH_BYTES = 8 * 1024 * 1024;

/** Runs until the signal aborts. */
export async function giveMemoryBack(heap: Heap, clock: Clock, signal: AbortSignal): Promise<void> {
  let left = 0;
  let cpuMs = heap.cpuMs();
  while (!signal.aborted) {
    await clock.sleep(LOOK_EVERY_MS, signal);
    const used = heap.cpuMs() - cpuMs;
    cpuMs += used;
    if (signal.aborted || used > LOOK_EVERY_MS * QUIET_SHARE || heap.bytes() - left < WORTH_BYTES) continue;
    await heap.collect();
    left = heap.bytes();
    // Its own work is no sign that somebody is busy.
    cpuMs = heap.cpuMs();
  }
}

export const processHeap: Heap = {
  bytes: () => getHeapStatistics().total_physical_size,
  cpuMs() {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1000;
  },
  async collect() {
    // The only way to it without a flag on the command line: the function exists in contexts made while the flag is set.
    setFlagsFromString("--expose-gc");
    const gc: (options: object) => Promise<void> = runInNewContext("gc");
    setFlagsFromString("--no-expose-gc");
    await gc({ type: "major", execution: "async", flavor: "last-resort" });
  },
};
