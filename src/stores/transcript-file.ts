// One transcript file: its name, its making, its append handle (transcript-end.ts reads it). transcripts.ts decides which file and when;
// nothing else touches them.
import {
  closeSync,
  existsSync,
  fdatasync,
  fdatasyncSync,
  fstatSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readSync,
  renameSync,
  rmSync,
  writeSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { AppError, errorText } from "../core/errors.ts";
import { newId } from "../core/ids.ts";
import type { Logger } from "../core/logger.ts";
import { endOfLastLine, linesBackwards } from "./lines.ts";
import { createRecentEntries, type RecentEntries } from "./recent-entries.ts";
import { syncPath, syncPathLater } from "./sync-path.ts";
import { type Entry, parseEntry } from "./transcript-entry.ts";

/** A file held open for appending. */
export interface OpenFile {
  readonly path: string;
  readonly fd: number;
  readonly ino: number;
  readonly recent: RecentEntries;
  lastId: string | null;
  /** How often something was written, and up to which of them it is on the disk. */
  writes: number;
  syncedWrites: number;
  /** Under way on another thread: until it is over the handle must not be closed, or its number would be another file's. */
  syncing: Promise<void> | null;
  /** Its name is not on the disk yet. */
  isNew: boolean;
  /** So many bytes are on the disk for certain. */
  safeSize: number;
  /** A sync failed: what lies behind safeSize may be lost, whatever the next sync says. */
  isDoubtful: boolean;
  /** Where a failed write left half a line that could not be cut off yet. */
  tornAt: number | null;
}

const UNTOUCHED = { writes: 1, syncedWrites: 0, syncing: null, isNew: true, safeSize: 0, isDoubtful: false, tornAt: null };

/** What is known of a file that nobody has synced yet. */
function holdFile(path: string, fd: number, lastId: string | null): OpenFile {
  const { ino } = fstatSync(fd);
  return { path, fd, ino, recent: createRecentEntries(), lastId, ...UNTOUCHED };
}

/** Makes the file with its first lines; on disk with the first sync. Throws when it exists. */
export function startFile(path: string, text: string, lastId: string | null): OpenFile {
  const fd = openNew(path);
  try {
    writeWhole(fd, text);
    return holdFile(path, fd, lastId);
  } catch (error) {
    closeSync(fd);
    // Half a beginning is none.
    rmSync(path, { force: true });
    throw error;
  }
}

/** The folder is there but for an agent's very first session; looking each time would cost as much as the file. */
function openNew(path: string): number {
  try {
    return openSync(path, "ax", 0o600);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    return openSync(path, "ax", 0o600);
  }
}

/** Returns how many bytes that were. */
function writeWhole(fd: number, text: string): number {
  const bytes = Buffer.from(text);
  if (writeSync(fd, bytes) < bytes.length) throw new AppError("storage", "the disk is full");
  return bytes.length;
}

/** Throws AppError("storage") when it is not there. */
export function openExisting(path: string, flags: "r" | "r+"): number {
  try {
    return openSync(path, flags);
  } catch (error) {
    throw new AppError("storage", `The transcript ${path} can't be opened: ${errorText(error)}`, { cause: error });
  }
}

/** Cuts a torn last line off. Throws AppError("storage") when there is no file: it would be quietly made anew. */
export function openForAppend(path: string, log: Logger): OpenFile {
  const fd = openExisting(path, "r+");
  let last: Entry | null = null;
  try {
    const size = fstatSync(fd).size;
    const end = endOfLastLine(fd, size);
    if (end < size) {
      ftruncateSync(fd, end);
      log.warn({ path, cutBytes: size - end }, "cut a torn last line off a transcript");
    }
    // A damaged last line must not break the chain of parents.
    for (const line of linesBackwards(fd, end)) {
      last = parseEntry(line.text);
      if (last !== null) break;
    }
  } finally {
    closeSync(fd);
  }
  // Whoever wrote it may have been killed before its sync: nothing of it is taken for safe.
  return holdFile(path, openSync(path, "a"), last?.id ?? null);
}

/** One write call: the lines stand or fall together. */
export function appendLines(file: OpenFile, text: string, entries: readonly Entry[]): void {
  try {
    cutTorn(file);
    const { size } = fstatSync(file.fd);
    file.tornAt = size;
    file.recent.add(size, writeWhole(file.fd, text), entries);
    file.tornAt = null;
  } catch (error) {
    const reasons = [errorText(error)];
    try {
      cutTorn(file);
    } catch (again) {
      reasons.push(errorText(again));
    }
    throw new AppError("storage", `The transcript ${file.path} can't be written: ${reasons.join("; ")}`, { cause: error });
  }
  file.lastId = entries.at(-1)?.id ?? file.lastId;
  file.writes++;
}

/** Half a line must not stay in front of the next one. */
function cutTorn(file: OpenFile): void {
  if (file.tornAt === null) return;
  ftruncateSync(file.fd, file.tornAt);
  file.tornAt = null;
}

/**
 * All that was written before is on the disk when it resolves. The disk is waited for on another thread: on ours, half of a turn would be
 * spent doing nothing, and every other session waits along.
 */
export async function syncFile(file: OpenFile): Promise<void> {
  const wanted = file.writes;
  // One that was under way may have begun before our lines were written.
  while (file.syncedWrites < wanted) {
    file.syncing ??= syncOnce(file).finally(() => {
      file.syncing = null;
    });
    await file.syncing;
  }
}

const waitForDisk = (fd: number): Promise<void> =>
  new Promise((resolve, reject) => fdatasync(fd, (error) => (error === null ? resolve() : reject(error))));

async function syncOnce(file: OpenFile): Promise<void> {
  const { writes } = file;
  let size = 0;
  try {
    if (file.isDoubtful) writeAgain(file);
    size = wholeSize(file);
    // A new file's name is another thing to wait for, at the same time. Also when one of them fails the other is waited for: whoever
    // closes the file next must not take it away from under a sync.
    const both = await Promise.allSettled([waitForDisk(file.fd), file.isNew ? syncPathLater(dirname(file.path)) : null]);
    for (const one of both) if (one.status === "rejected") throw one.reason;
  } catch (error) {
    throw doubt(file, error);
  }
  markSafe(file, writes, size);
}

/** The same on our own thread, for whoever closes it next. */
export function syncFileNow(file: OpenFile): void {
  if (file.syncedWrites === file.writes) return;
  try {
    if (file.isDoubtful) writeAgain(file);
    fdatasyncSync(file.fd);
    if (file.isNew) syncPath(dirname(file.path));
  } catch (error) {
    throw doubt(file, error);
  }
  markSafe(file, file.writes, wholeSize(file));
}

/** Without half a line that is still to be cut off: what is written in its place is not on the disk yet. */
const wholeSize = ({ fd, tornAt }: OpenFile): number => tornAt ?? fstatSync(fd).size;

function markSafe(file: OpenFile, writes: number, size: number): void {
  file.syncedWrites = writes;
  file.safeSize = size;
  file.isNew = false;
  file.isDoubtful = false;
}

function doubt(file: OpenFile, error: unknown): AppError {
  file.isDoubtful = true;
  return new AppError("storage", `The transcript ${file.path} can't be brought to the disk: ${errorText(error)}`, { cause: error });
}

/** The kernel forgets what it could not write and calls the next sync a success; only bytes written anew are tried again. */
function writeAgain({ path, safeSize }: OpenFile): void {
  const fd = openExisting(path, "r+");
  try {
    const bytes = Buffer.alloc(fstatSync(fd).size - safeSize);
    const length = readSync(fd, bytes, 0, bytes.length, safeSize);
    if (writeSync(fd, bytes, 0, length, safeSize) < bytes.length) throw new AppError("storage", "the disk is full");
  } finally {
    closeSync(fd);
  }
}

const PROBE = Buffer.alloc(64 * 1024, "\n");

export function probeRoom(folder: string): void {
  const path = join(folder, `.probe-${newId()}`);
  try {
    const fd = openSync(path, "wx", 0o600);
    try {
      if (writeSync(fd, PROBE) < PROBE.length) throw new AppError("storage", "the disk is full");
      fdatasyncSync(fd);
    } finally {
      closeSync(fd);
    }
  } finally {
    rmSync(path, { force: true });
  }
}

/** True when the file stands under its new name, also when a crash came after the rename. */
export function moveFile(folder: string, from: string, to: string): boolean {
  if (existsSync(join(folder, from))) renameSync(join(folder, from), join(folder, to));
  else if (!existsSync(join(folder, to))) return false;
  // Also when it was renamed before: perhaps the sync failed then.
  syncPath(folder);
  return true;
}
