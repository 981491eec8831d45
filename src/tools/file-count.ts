// What a command has made below the folder it may write to: how many files, and how much disk they take. No counter of the
// system says so for one process, so the folder is walked: when the disk seems to have lost much more than anybody claims,
// and else now and then, for others may remove theirs meanwhile. A large folder is walked seldom, so that the watch costs
// a small part of one core.
import { lstat, opendir } from "node:fs/promises";
import { join, relative, sep } from "node:path";
import { escapeName } from "./output.ts";

export interface FileCount {
  /** Looks again when it is time, or at once when one of them has grown by a lot; then says when the bytes are counted. */
  measure(seen: Seen): Promise<void> | null;
  /** Of the files made or changed since the start, as last counted. */
  bytes(): number;
  /** Why the command has to end, in a clause, or null. */
  problem(): string | null;
}

interface Seen {
  readonly freeFiles: number;
  /** Put down to the command by what it wrote and what the disk lost. */
  readonly takenBytes: number;
  readonly unclaimedBytes: number;
}

export interface FileCountOptions {
  readonly folder: string;
  readonly maxFiles: number;
  readonly freeFilesAtStart: number;
  /** So many more bytes, taken or claimed by nobody, are worth a walk. */
  readonly stepBytes: number;
}

const FIRST_WALK_MS = 2000;
/** One walk, then a pause of so many times what it took. */
const PAUSE = 50;
const BATCH = 64;
/** What the system counts a file's disk in, whatever its disk does. */
const BLOCK_BYTES = 512;
/** The kernel's clock for files may be a little behind ours. */
const CLOCK_MS = 20;

export function createFileCount({ folder, maxFiles, freeFilesAtStart, stepBytes }: FileCountOptions): FileCount {
  const startedAt = Date.now();
  let found: Found = { files: 0, bytes: 0, unreadable: null };
  let isWalking = false;
  let nextWalkAt = performance.now() + FIRST_WALK_MS;
  let hintedFrom: Seen = { freeFiles: freeFilesAtStart, takenBytes: 0, unclaimedBytes: 0 };
  const isTooMuch = (): boolean => found.files > maxFiles || found.unreadable !== null;
  const walk = async (withBytes: boolean): Promise<void> => {
    const from = performance.now();
    const fresh = await findFresh(folder, { since: startedAt - CLOCK_MS, maxFiles, withBytes });
    found = withBytes ? fresh : { ...fresh, bytes: found.bytes };
    nextWalkAt = performance.now() + Math.max(FIRST_WALK_MS, PAUSE * (performance.now() - from));
  };
  return {
    bytes: () => found.bytes,
    problem() {
      if (found.unreadable !== null)
        return `what it has made in ${found.unreadable} can't be counted (tools.exec.maxFiles); make that folder readable, or remove it`;
      if (!isTooMuch()) return null;
      return `it made more than ${maxFiles} files (tools.exec.maxFiles); make fewer, or raise it in the settings`;
    },
    measure(seen) {
      // What was put down to it and isn't there was taken back: from there on it is as many more.
      hintedFrom = { ...hintedFrom, takenBytes: Math.min(hintedFrom.takenBytes, seen.takenBytes) };
      const hasGrown = (of: "takenBytes" | "unclaimedBytes"): boolean => seen[of] - hintedFrom[of] > stepBytes;
      const withBytes = hasGrown("takenBytes") || hasGrown("unclaimedBytes");
      const isHinted = withBytes || hintedFrom.freeFiles - seen.freeFiles > maxFiles;
      if (isTooMuch() || isWalking || (!isHinted && performance.now() < nextWalkAt)) return null;
      isWalking = true;
      // Somebody else may have made them: the next hint is as many more.
      if (isHinted) hintedFrom = seen;
      const walked = walk(withBytes).finally(() => {
        isWalking = false;
      });
      if (withBytes) return walked;
      // The disk fails or there is no handle left: it is tried again.
      walked.catch(() => undefined);
      return null;
    },
  };
}

interface Wanted {
  readonly since: number;
  readonly maxFiles: number;
  /** Costs a look at every file there is, for one that was there before may have grown. */
  readonly withBytes: boolean;
}

interface Found {
  readonly files: number;
  readonly bytes: number;
  /** The first name on the way to a folder that could not be looked into. */
  readonly unreadable: string | null;
}

/** What below the folder was made or changed since then; stops above so many files, and where it can't look. */
async function findFresh(folder: string, wanted: Wanted): Promise<Found> {
  let [files, bytes] = [0, 0];
  const waiting = [folder];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    try {
      for await (const fresh of freshIn(next, wanted, waiting)) {
        files += fresh.files;
        bytes += fresh.bytes;
        if (files > wanted.maxFiles) return { files, bytes, unreadable: null };
      }
    } catch (error) {
      const { code = "" } = error as NodeJS.ErrnoException;
      // Closed by its owner, or nested deeper than a path is long: made so, it would hide any number of files.
      if (code === "ENAMETOOLONG" || (code === "EACCES" && (await isOwn(next))))
        return { files, bytes, unreadable: escapeName(relative(folder, next).split(sep)[0] ?? "").slice(0, 100) };
      // Removed meanwhile, or somebody else's, where the command can't write either.
      if (code !== "ENOENT" && code !== "ENOTDIR" && code !== "EACCES") throw error;
    }
  }
  return { files, bytes, unreadable: null };
}

/** What can't even be looked at from outside lies in one that was closed. */
const isOwn = async (folder: string): Promise<boolean> =>
  ((await lstat(folder).catch(() => null))?.uid ?? process.getuid?.()) === process.getuid?.();

/** Batch by batch; folders in it are put on the list. */
async function* freshIn(folder: string, { since, withBytes }: Wanted, waiting: string[]): AsyncGenerator<Omit<Found, "unreadable">> {
  // By its change time, which nobody can set: without a new one nothing was added to a folder.
  const isFresh = (await lstat(folder)).ctimeMs >= since;
  const count = async (paths: readonly string[]): Promise<Omit<Found, "unreadable">> => {
    const stats = await Promise.all(paths.map((path) => lstat(path).catch(ignoreGone)));
    const fresh = stats.flatMap((one) => (one !== null && one.ctimeMs >= since ? [one] : []));
    return { files: isFresh ? fresh.length : 0, bytes: fresh.reduce((sum, { blocks }) => sum + blocks * BLOCK_BYTES, 0) };
  };
  let batch: string[] = [];
  for await (const entry of await opendir(folder, { bufferSize: 256 })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) waiting.push(path);
    if (isFresh || withBytes) batch.push(path);
    if (batch.length < BATCH) continue;
    yield await count(batch);
    batch = [];
  }
  yield await count(batch);
}

function ignoreGone(error: NodeJS.ErrnoException): null {
  if (error.code !== "ENOENT") throw error;
  return null;
}
