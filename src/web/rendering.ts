// How the page's texts become HTML without holding up the gateway: each once, a long one or one with code or formulas
// in a worker, and never for long at a stretch. message-view.ts, run-log.ts, board-api.ts → here → markdown.ts.
import { Worker } from "node:worker_threads";
import { ownEntry } from "../core/own-files.ts";
import { hasCode, hasMath, MAX_RENDERED_LENGTH, renderMarkdown, renderPlain } from "./markdown.ts";

const MAX_CACHED_LENGTH = 4_000_000;
const BUSY_MS = 10;
/** Takes some milliseconds, less than the way to the worker and back. */
const MAX_SHORT_LENGTH = 3_000;
const DEADLINE_MS = 5_000;
/** Its memory is worth more than its start. */
const IDLE_MS = 30_000;

export interface Renderer {
  /** Safe HTML; plain text when it takes too long. Never rejects. */
  render(markdown: string): Promise<string>;
  stop(): void;
}

/** The worker is started by the first long text, ended when none came for a while, and replaced when it hangs or breaks. */
export function createRenderer(deadlineMs = DEADLINE_MS): Renderer {
  let worker: Worker | null = null;
  let end: ((html: string | null) => void) | null = null;
  let last: Promise<unknown> = Promise.resolve();
  let idle: NodeJS.Timeout | undefined;

  const drop = (): void => {
    clearTimeout(idle);
    void worker?.terminate();
    worker = null;
  };
  const start = (): Worker => {
    const fresh = new Worker(ownEntry("src/web/markdown-worker"), { env: {}, resourceLimits: { maxOldGenerationSizeMb: 256 } });
    // A page that waits for nothing must not keep the process from ending.
    fresh.unref();
    // What one that was given up still says is another text: it may have had it ready all the while, and a machine that slept looks
    // at its timers first.
    const isCurrent = (): boolean => worker === fresh;
    fresh.on("message", (html: string) => isCurrent() && end?.(html));
    fresh.on("error", () => isCurrent() && end?.(null));
    fresh.on("exit", () => {
      if (!isCurrent()) return;
      worker = null;
      end?.(null);
    });
    return fresh;
  };
  const ask = (markdown: string): Promise<string> =>
    new Promise((resolve) => {
      clearTimeout(idle);
      worker ??= start();
      const deadline = setTimeout(() => end?.(null), deadlineMs);
      end = (html) => {
        end = null;
        clearTimeout(deadline);
        if (html === null) drop();
        else idle = setTimeout(drop, IDLE_MS).unref();
        resolve(html ?? renderPlain(markdown));
      };
      worker.postMessage(markdown);
    });
  return {
    render(markdown) {
      const isShort = markdown.length <= MAX_SHORT_LENGTH && !hasCode(markdown) && !hasMath(markdown);
      const isQuick = isShort || markdown.length > MAX_RENDERED_LENGTH;
      if (isQuick) return Promise.resolve(renderMarkdown(markdown));
      // One after the other: the deadline counts from when the worker has it.
      const mine = last.then(() => ask(markdown));
      last = mine;
      return mine;
    },
    stop() {
      end?.(null);
      drop();
    },
  };
}

/** For texts that never change: `key` is all that tells them apart. */
export function createHtmlCache<K>(): (key: K, make: () => Promise<string>) => Promise<string> {
  const cache = new Map<K, string>();
  let length = 0;
  return async (key, make) => {
    const known = cache.get(key);
    if (known !== undefined) return known;
    const html = await make();
    // Another tab may have asked meanwhile.
    length += html.length - (cache.get(key)?.length ?? 0);
    cache.set(key, html);
    for (const [oldest, text] of cache) {
      if (length <= MAX_CACHED_LENGTH) break;
      cache.delete(oldest);
      length -= text.length;
    }
    return html;
  };
}

/** In the same order. Lets other work through between costly items. */
export async function mapInPieces<T, V>(items: readonly T[], map: (item: T) => V | Promise<V>): Promise<V[]> {
  const mapped: V[] = [];
  let pausedAt = performance.now();
  for (const item of items) {
    mapped.push(await map(item));
    if (performance.now() - pausedAt < BUSY_MS) continue;
    await new Promise(setImmediate);
    pausedAt = performance.now();
  }
  return mapped;
}
