// What most starts never need is made, and its code loaded, by whoever asks for it first.

/**
 * Made at the first call; who calls meanwhile waits for the same. One that failed (no file handle left, for one) is made anew at the
 * next call, so whoever was refused may simply ask again.
 */
export function onFirstUse<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | null = null;
  return () => {
    made ??= make().catch((error: unknown) => {
      made = null;
      throw error;
    });
    return made;
  };
}
