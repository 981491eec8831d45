// Waiting for a condition with a deadline, instead of sleeping and hoping.

/** Resolves with the first truthy value; rejects with `what` (and the last error) after `timeoutMs`. */
export async function waitFor<T>(what: string, probe: () => T | Promise<T>, timeoutMs = 45_000): Promise<NonNullable<T>> {
  const deadline = performance.now() + timeoutMs;
  let last: unknown = null;
  for (;;) {
    try {
      const value = await probe();
      if (value) return value as NonNullable<T>;
      last = value;
    } catch (error) {
      last = error;
    }
    if (performance.now() > deadline)
      throw new Error(`waited ${timeoutMs} ms for: ${what}; last: ${last instanceof Error ? last.message : JSON.stringify(last)}`);
    await new Promise((resolve) => setTimeout(resolve, 15));
  }
}

/** The same for something that calls its `wakers` at each change: what holds for a moment only is not missed. A probe that throws ends it. */
export function waitOn<T>(wakers: Set<() => void>, what: string, probe: () => T, timeoutMs: number): Promise<NonNullable<T>> {
  return new Promise((resolve, reject) => {
    const end = (): void => {
      clearTimeout(timer);
      clearInterval(ticker);
      wakers.delete(look);
    };
    const look = (): void => {
      try {
        const value = probe();
        if (!value) return;
        end();
        resolve(value as NonNullable<T>);
      } catch (error) {
        end();
        reject(error as Error);
      }
    };
    const timer = setTimeout(() => {
      end();
      reject(new Error(`waited ${timeoutMs} ms for: ${what}`));
    }, timeoutMs);
    // What a probe looks at beside it changes without a call.
    const ticker = setInterval(look, 15);
    wakers.add(look);
    look();
  });
}

/** For what only a look at the stores can tell of each. */
export async function allOf<T>(items: readonly T[], holds: (item: T) => Promise<boolean>): Promise<boolean> {
  for (const item of items) if (!(await holds(item))) return false;
  return true;
}
