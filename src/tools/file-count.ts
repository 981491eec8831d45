// How many files a command has made below the folder it may write to. No counter of the system says so for one process,
// so the folder is walked: when the disk seems to have many more files, and else now and then, for others may remove
// theirs meanwhile. A large folder is walked seldom, so that the watch costs a small part of one core.
import { lstat, opendir } from "node:fs/promises";
import { join } from "node:path";

export interface FileCount {
  /** Looks again when it is time; `freeFiles` is how many more the disk can hold now. */
  measure(freeFiles: number): void;
  areMany(): boolean;
}

const FIRST_WALK_MS = 2000;
/** One walk, then a pause of so many times what it took. */
const PAUSE = 50;
const BATCH = 64;
/** The kernel's clock for files may be a little behind ours. */
const CLOCK_MS = 20;

export function createFileCount(folder: string, limit: number, freeAtStart: number): FileCount {
  const startedAt = Date.now();
  let areMany = false;
  let isWalking = false;
  let nextWalkAt = performance.now() + FIRST_WALK_MS;
  let hintedFrom = freeAtStart;
  const walk = async (): Promise<void> => {
    const from = performance.now();
    areMany = (await countFresh(folder, startedAt - CLOCK_MS, limit)) > limit;
    nextWalkAt = performance.now() + Math.max(FIRST_WALK_MS, PAUSE * (performance.now() - from));
  };
  return {
    areMany: () => areMany,
    measure(freeFiles) {
      const isHinted = hintedFrom - freeFiles > limit;
      if (areMany || isWalking || (!isHinted && performance.now() < nextWalkAt)) return;
      isWalking = true;
      // Somebody else may have made them: the next hint is as many more.
      if (isHinted) hintedFrom = freeFiles;
      walk()
        // A folder that can't be read has nothing to count; it is tried again.
        .catch(() => undefined)
        .finally(() => {
          isWalking = false;
        });
    },
  };
}

/** How many files below the folder were made or changed since then; stops counting above `limit`. */
async function countFresh(folder: string, since: number, limit: number): Promise<number> {
  let count = 0;
  const waiting = [folder];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    // By its change time, which nobody can set: without a new one nothing was added to a folder.
    const isFresh = await isSince(next, since);
    let batch: string[] = [];
    const countBatch = async (): Promise<void> => {
      const fresh = await Promise.all(batch.map((path) => isSince(path, since)));
      count += fresh.filter(Boolean).length;
      batch = [];
    };
    for await (const entry of await opendir(next, { bufferSize: 256 }).catch(() => [])) {
      const path = join(next, entry.name);
      if (entry.isDirectory()) waiting.push(path);
      if (isFresh) batch.push(path);
      if (batch.length >= BATCH) await countBatch();
      if (count > limit) return count;
    }
    await countBatch();
  }
  return count;
}

const isSince = async (path: string, since: number): Promise<boolean> =>
  ((await lstat(path).catch(() => null))?.ctimeMs ?? Number.NEGATIVE_INFINITY) >= since;
