// Preloaded into a gateway process (NODE_OPTIONS=--import): its clock and timers run faster than the wall's by
// FAST_TIME_FACTOR, so that the waits between two tries pass quickly, and ahead of it by FAST_TIME_AHEAD_MS, so that what is due later is
// due now. Sockets and disks keep their own pace.
const ahead = Number(process.env.FAST_TIME_AHEAD_MS ?? 0);
const factor = Number(process.env.FAST_TIME_FACTOR ?? 1);
const { now } = Date;
const startedAt = now();
const { setTimeout: wait } = globalThis;

Date.now = () => Math.floor(startedAt + ahead + (now() - startedAt) * factor);
// Rounded up, so that nobody wakes a moment too early.
globalThis.setTimeout = Object.assign(
  (run: (...args: unknown[]) => void, ms = 0, ...args: unknown[]) => wait(run, Math.ceil(ms / factor) + 1, ...args),
  { __promisify__: wait.__promisify__ },
) as typeof setTimeout;
