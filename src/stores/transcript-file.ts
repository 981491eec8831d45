// One transcript file: its name, its making, its append handle, reading it from its end. transcripts.ts decides which
// file and when; nothing else touches them.
import {
  closeSync,
  existsSync,
  fdatasyncSync,
  fstatSync,
  fsyncSync,
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
import { endOfLastLine, lineNumberAt, linesBackwards } from "./lines.ts";
import { type Entry, isHeader, parseEntry } from "./transcript-entry.ts";

/** A file held open for appending. */
export interface OpenFile {
  readonly path: string;
  readonly fd: number;
  lastId: string | null;
  /** Something was written since the last sync. */
  isDirty: boolean;
  /** Its name is not on the disk yet. */
  isNew: boolean;
  /** So many bytes are on the disk for certain. */
  safeSize: number;
  /** A sync failed: what lies behind safeSize may be lost, whatever the next sync says. */
  isDoubtful: boolean;
  /** Where a failed write left half a line that could not be cut off yet. */
  tornAt: number | null;
}

const UNTOUCHED = { isDoubtful: false, tornAt: null };

/** Longer lines are damage, not entries: they would only fill the memory. */
const MAX_LINE = 8 * 1024 * 1024;

/** Makes the file with its first lines; on disk with the first sync. Throws when it exists. */
export function startFile(path: string, text: string, lastId: string | null): OpenFile {
  const file: OpenFile = { path, fd: openNew(path), lastId, isDirty: true, isNew: true, safeSize: 0, ...UNTOUCHED };
  try {
    writeWhole(file.fd, text);
    return file;
  } catch (error) {
    closeSync(file.fd);
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

function writeWhole(fd: number, text: string): void {
  const bytes = Buffer.from(text);
  if (writeSync(fd, bytes) < bytes.length) throw new AppError("storage", "the disk is full");
}

function openExisting(path: string, flags: "r" | "r+"): number {
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
  return { path, fd: openSync(path, "a"), lastId: last?.id ?? null, isDirty: true, isNew: true, safeSize: 0, ...UNTOUCHED };
}

/** One write call: the lines stand or fall together. */
export function appendLines(file: OpenFile, text: string): void {
  try {
    cutTorn(file);
    file.tornAt = fstatSync(file.fd).size;
    writeWhole(file.fd, text);
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
  file.isDirty = true;
}

/** Half a line must not stay in front of the next one. */
function cutTorn(file: OpenFile): void {
  if (file.tornAt === null) return;
  ftruncateSync(file.fd, file.tornAt);
  file.tornAt = null;
}

export function syncFile(file: OpenFile): void {
  if (!file.isDirty) return;
  try {
    if (file.isDoubtful) writeAgain(file);
    fdatasyncSync(file.fd);
    if (file.isNew) syncFolder(dirname(file.path));
  } catch (error) {
    file.isDoubtful = true;
    throw new AppError("storage", `The transcript ${file.path} can't be brought to the disk: ${errorText(error)}`, { cause: error });
  }
  file.safeSize = fstatSync(file.fd).size;
  file.isDirty = false;
  file.isNew = false;
  file.isDoubtful = false;
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

/** Newest first, until `enough`. Damaged lines are skipped with a warning that names the line. */
export function readBackwards(path: string, log: Logger, enough: (taken: Entry[], line: string) => boolean): Entry[] {
  const fd = openExisting(path, "r");
  const taken: Entry[] = [];
  // Counted once, from the newest damage: counting anew for each would read the file as often as it has damaged lines.
  let number: number | null = null;
  try {
    for (const line of linesBackwards(fd, fstatSync(fd).size)) {
      if (number !== null) number--;
      if (line.offset === 0 && isHeader(line.text)) break;
      if (enough(taken, line.text)) break;
      const entry = line.text.length > MAX_LINE ? null : parseEntry(line.text);
      if (entry !== null) {
        taken.push(entry);
        continue;
      }
      number ??= lineNumberAt(fd, line.offset);
      log.warn({ path, line: number }, "skipped a damaged line of a transcript");
    }
  } finally {
    closeSync(fd);
  }
  return taken;
}

/** True when the file stands under its new name, also when a crash came after the rename. */
export function moveFile(folder: string, from: string, to: string): boolean {
  if (existsSync(join(folder, from))) renameSync(join(folder, from), join(folder, to));
  else if (!existsSync(join(folder, to))) return false;
  // Also when it was renamed before: perhaps the sync failed then.
  syncFolder(folder);
  return true;
}

/** A new or renamed name survives a power cut only once its folder is synced. */
function syncFolder(folder: string): void {
  const fd = openSync(folder, "r");
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}
