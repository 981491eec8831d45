// A clock a test drives: time stands still until advance() is called, and sleepers wake in order.
import type { Clock } from "../../src/core/clock.ts";

export interface ManualClock extends Clock {
  /** Moves time on, waking everybody whose time comes, and lets what they do settle in between. */
  advance(ms: number): Promise<void>;
  /** Jumps, as a machine that slept does: everybody whose time has come wakes once, however long it was. */
  leap(ms: number): Promise<void>;
  /** Somebody sets the time of day: those who sleep notice nothing. */
  set(now: number): void;
}

interface Sleeper {
  readonly at: number;
  wake(): void;
}

/** Turns of the event loop: enough for a chain of awaits and a write or two. */
const settle = async (): Promise<void> => {
  for (let i = 0; i < 20; i++) await new Promise((resolve) => setImmediate(resolve));
};

export function createManualClock(startAt = Date.UTC(2026, 0, 1)): ManualClock {
  /** What sleepers go by. */
  let now = startAt;
  /** By how much the time of day was set. */
  let offset = 0;
  const sleepers = new Set<Sleeper>();
  return {
    now: () => now + offset,
    set(to) {
      offset = to - now;
    },
    sleep: (ms, signal) =>
      new Promise((resolve) => {
        if (signal?.aborted) return resolve();
        const sleeper: Sleeper = {
          at: now + ms,
          wake() {
            sleepers.delete(sleeper);
            signal?.removeEventListener("abort", sleeper.wake);
            resolve();
          },
        };
        sleepers.add(sleeper);
        signal?.addEventListener("abort", sleeper.wake, { once: true });
      }),
    async leap(ms) {
      await settle();
      now += ms;
      for (const sleeper of [...sleepers].sort((a, b) => a.at - b.at)) if (sleeper.at <= now) sleeper.wake();
      await settle();
    },
    async advance(ms) {
      const end = now + ms;
      await settle();
      for (;;) {
        const next = [...sleepers].filter((sleeper) => sleeper.at <= end).sort((a, b) => a.at - b.at)[0];
        if (next === undefined) break;
        now = Math.max(now, next.at);
        next.wake();
        await settle();
      }
      now = end;
      await settle();
    },
  };
}
