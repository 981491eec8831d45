// Many things that may begin in the same moment, each of them quick: when they have held the event loop for a while the
// next waits a round, so that timers, sockets and people's commands get their turn in between. Used where fifty runs
// start at once, or fifty calls of one reply.

const ROUND_MS = 10;

/** Resolves in the order of the calls: at once, or in the next round when those before took ROUND_MS in this one. */
export function createTurnstile(): () => Promise<void> {
  let last: Promise<void> = Promise.resolve();
  /** When the first of this round passed; null when none has. */
  let since: number | null = null;
  const pass = async (): Promise<void> => {
    if (since !== null && performance.now() - since >= ROUND_MS) await new Promise((resolve) => setImmediate(resolve));
    if (since !== null) return;
    since = performance.now();
    setImmediate(() => {
      since = null;
    });
  };
  return () => {
    last = last.then(pass);
    return last;
  };
}
