// Rendering stands in the gateway's own event loop, so it is done once per text and never for long at a stretch.

const MAX_CACHED_LENGTH = 4_000_000;
const BUSY_MS = 10;

/** For texts that never change: `key` is all that tells them apart. */
export function createHtmlCache<K>(): (key: K, make: () => string) => string {
  const cache = new Map<K, string>();
  let length = 0;
  return (key, make) => {
    const known = cache.get(key);
    if (known !== undefined) return known;
    const html = make();
    cache.set(key, html);
    length += html.length;
    for (const [oldest, text] of cache) {
      if (length <= MAX_CACHED_LENGTH) break;
      cache.delete(oldest);
      length -= text.length;
    }
    return html;
  };
}

/** In the same order. Lets other work through between costly items. */
export async function mapInPieces<T, V>(items: readonly T[], map: (item: T) => V): Promise<V[]> {
  const mapped: V[] = [];
  let pausedAt = performance.now();
  for (const item of items) {
    mapped.push(map(item));
    if (performance.now() - pausedAt < BUSY_MS) continue;
    await new Promise(setImmediate);
    pausedAt = performance.now();
  }
  return mapped;
}
