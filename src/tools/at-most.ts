// At most so many of one kind at a time for the whole gateway, the rest wait in line (TL10): commands, searches, page
// readers. A model may ask for a hundred at once, and a dozen sub-agents may do so together.

export interface Waiting {
  readonly signal: AbortSignal;
  /** Told when there is no place at once. */
  onWait?(): void;
}

/** Runs the work when a place is free. Ending never waits: once `signal` has aborted, work that looks at it first is run at once. */
export type AtMost = <T>(waiting: Waiting, work: () => Promise<T>) => Promise<T>;

export function createAtMost(count: number): AtMost {
  let free = count;
  const line = new Set<() => void>();
  const giveBack = (): void => {
    const [next] = line;
    if (next === undefined) free += 1;
    else next();
  };
  /** Resolves with whether there is a place to give back. */
  const comeUp = (signal: AbortSignal): Promise<boolean> =>
    new Promise((resolve) => {
      const leave = (hasPlace: boolean): void => {
        signal.removeEventListener("abort", giveUp);
        line.delete(enter);
        resolve(hasPlace);
      };
      const enter = (): void => leave(true);
      const giveUp = (): void => leave(false);
      line.add(enter);
      signal.addEventListener("abort", giveUp, { once: true });
    });
  return async ({ signal, onWait }, work) => {
    if (signal.aborted) return await work();
    if (free > 0) free -= 1;
    else {
      onWait?.();
      if (!(await comeUp(signal))) return await work();
    }
    try {
      return await work();
    } finally {
      giveBack();
    }
  };
}
