// A token bucket per caller address, for failed sign-ins and for posts. Loopback is no exception: on a shared
// machine every program calls from there.
import type { Clock } from "../core/clock.ts";

export interface RateLimit {
  /** Uses one; false when there is none left. */
  take(caller: string): boolean;
  isEmpty(caller: string): boolean;
}

interface Bucket {
  left: number;
  at: number;
}

const MAX_CALLERS = 10_000;

/** `burst` at once, refilled evenly so that `burst` come back in `refillMs`. */
export function createRateLimit(options: { burst: number; refillMs: number; clock: Clock }): RateLimit {
  const buckets = new Map<string, Bucket>();

  const fill = (caller: string): Bucket => {
    const now = options.clock.now();
    const known = buckets.get(caller);
    // A clock that was set back must not empty a bucket.
    const gained = known === undefined ? options.burst : (Math.max(0, now - known.at) / options.refillMs) * options.burst;
    const bucket = { left: Math.min(options.burst, (known?.left ?? 0) + gained), at: now };
    // Moved to the end, so that the first of the map is the one seen longest ago.
    buckets.delete(caller);
    buckets.set(caller, bucket);
    if (buckets.size > MAX_CALLERS) {
      const oldest = buckets.keys().next().value;
      if (oldest !== undefined) buckets.delete(oldest);
    }
    return bucket;
  };

  return {
    take(caller) {
      const bucket = fill(caller);
      if (bucket.left < 1) return false;
      bucket.left -= 1;
      return true;
    },
    isEmpty: (caller) => fill(caller).left < 1,
  };
}
