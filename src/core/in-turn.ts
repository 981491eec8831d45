// One after the other, in the order of the calls, whether the one before went well or not.

/** Makes a function that does so; each resolves or rejects as its own work does. */
export function createInTurn(): <T>(work: () => Promise<T>) => Promise<T> {
  let last: Promise<unknown> = Promise.resolve();
  return (work) => {
    const mine = last.then(work, work);
    last = mine;
    // Whoever asked for it hears of it.
    mine.catch(() => undefined);
    return mine;
  };
}
