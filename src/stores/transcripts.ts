// Transcripts: append-only JSONL, one file per session, `<state>/agents/<agentId>/sessions/<sessionId>.jsonl`.
// A turn appends each message before the loop goes on; sync() makes lines durable before a row refers to them.
// A crash can tear only the last line, because a line is one write call; the next open cuts it off.
import {
  closeSync,
  existsSync,
  fdatasyncSync,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { AppError, errorText } from "../core/errors.ts";
import { isAgentId, isUuid, newId } from "../core/ids.ts";
import type { Logger } from "../core/logger.ts";
import { endOfLastLine, lineNumberAt, linesBackwards } from "./lines.ts";
import { type Entry, type EntryBody, isHeader, parseEntry, type TranscriptHeader } from "./transcript-entry.ts";

export interface TranscriptRef {
  readonly agentId: string;
  readonly sessionId: string;
  /** Set once archived: the file's present name. */
  readonly archiveName?: string | null;
}

/** How a transcript begins. */
export interface Opening {
  readonly key: string;
  readonly parent: string | null;
  readonly entries?: readonly NewEntry[];
  /** False: don't wait for the disk. The caller keeps the entries elsewhere until secure(). */
  readonly isDurable?: boolean;
}

/** `id` may be given to make an append recognisable after a crash; else one is made. */
export type NewEntry = EntryBody & { readonly id?: string; readonly phase?: "announce" };

export interface Transcripts {
  /** Makes the file with its header line and first entries; durable on return. */
  create(ref: TranscriptRef, about: Opening): void;
  /** Makes sure of a file that was created without waiting for the disk; makes it anew when a power cut took it. */
  secure(ref: TranscriptRef, about: Opening): void;
  /** One write per call, so that entries given together stand or fall together at a line's border. */
  append(ref: TranscriptRef, entries: readonly NewEntry[]): Entry[];
  /** Everything appended so far is on disk when this returns. */
  sync(ref: TranscriptRef): void;
  /** The last `count` entries, oldest first. */
  tail(ref: TranscriptRef, count: number): Entry[];
  /** The newest entries that fit into `maxBytes`, oldest first; goes back at most to the entry the last compaction kept. */
  window(ref: TranscriptRef, maxBytes: number): Entry[];
  /** Renames to `name` in the same folder; doing it again after a crash is harmless. False: there is no file. */
  archive(ref: TranscriptRef, name: string): boolean;
  /** Gives an archived transcript its own name back. */
  restore(ref: TranscriptRef): void;
  /** Where agents' transcripts lie. */
  folder(agentId: string): string;
  path(ref: TranscriptRef): string;
  close(): void;
}

interface Deps {
  stateDir: string;
  log: Logger;
  now(): number;
  redact(text: string): string;
}

interface OpenFile {
  fd: number;
  lastId: string | null;
  dirty: boolean;
}

const MAX_OPEN = 64;
/** Longer lines are damage, not entries: they would only fill the memory. */
const MAX_LINE = 8 * 1024 * 1024;

export function createTranscripts(deps: Deps): Transcripts {
  const open = new Map<string, OpenFile>();
  /** Sessions this process made without waiting for the disk: no power cut came in between, so their files are whole. */
  const unsynced = new Set<string>();

  const close = (path: string): void => {
    const file = open.get(path);
    if (file === undefined) return;
    open.delete(path);
    if (file.dirty) fdatasyncSync(file.fd);
    closeSync(file.fd);
  };

  const forAppend = (ref: TranscriptRef): OpenFile => {
    const path = pathOf(deps, ref);
    const known = open.get(path);
    // Taken out and put back: a Map keeps insertion order, so the first key is the least recently used.
    if (known !== undefined) open.delete(path);
    else if (open.size >= MAX_OPEN) close(open.keys().next().value as string);
    const file = known ?? openForAppend(deps, path);
    open.set(path, file);
    return file;
  };

  return {
    create(ref, about) {
      createFile(deps, ref, about);
      if (about.isDurable === false) unsynced.add(ref.sessionId);
    },
    secure: (ref, about) => secureFile(deps, ref, about, unsynced.delete(ref.sessionId)),
    append(ref, entries) {
      const file = forAppend(ref);
      const full = toFull(deps, entries, file.lastId);
      writeLines(deps, ref, file, linesOf(deps, full));
      file.lastId = full.at(-1)?.id ?? file.lastId;
      file.dirty = true;
      return full;
    },
    sync(ref) {
      const file = open.get(pathOf(deps, ref));
      if (file?.dirty !== true) return;
      fdatasyncSync(file.fd);
      file.dirty = false;
    },
    tail: (ref, count) => readBackwards(deps, ref, (taken) => taken.length >= count).reverse(),
    window: (ref, maxBytes) => readWindow(deps, ref, maxBytes),
    archive(ref, name) {
      close(pathOf(deps, ref));
      return move(deps, ref.agentId, `${ref.sessionId}.jsonl`, name);
    },
    restore(ref) {
      if (ref.archiveName != null) move(deps, ref.agentId, ref.archiveName, `${ref.sessionId}.jsonl`);
    },
    folder: (agentId) => folderOf(deps, agentId),
    path: (ref) => pathOf(deps, ref),
    close() {
      for (const path of [...open.keys()]) close(path);
    },
  };
}

function folderOf(deps: Deps, agentId: string): string {
  if (!isAgentId(agentId)) throw new AppError("invalid", `"${agentId.slice(0, 80)}" is not an agent id`);
  return join(deps.stateDir, "agents", agentId, "sessions");
}

function pathOf(deps: Deps, ref: TranscriptRef): string {
  if (!isUuid(ref.sessionId)) throw new AppError("invalid", "not a session id");
  const folder = folderOf(deps, ref.agentId);
  const own = join(folder, `${ref.sessionId}.jsonl`);
  if (ref.archiveName == null) return own;
  const archived = join(folder, ref.archiveName);
  // A crash between restoring the name and recording it leaves the file under its own name.
  return !existsSync(archived) && existsSync(own) ? own : archived;
}

function toFull(deps: Deps, entries: readonly NewEntry[], lastId: string | null): Entry[] {
  const at = new Date(deps.now()).toISOString();
  let parentId = lastId;
  return entries.map((entry): Entry => {
    const made = { ...entry, id: entry.id ?? newId(), parentId, at };
    parentId = made.id;
    return made;
  });
}

const linesOf = (deps: Deps, entries: readonly Entry[]): string =>
  entries.map((entry) => `${deps.redact(JSON.stringify(entry))}\n`).join("");

function createFile(deps: Deps, ref: TranscriptRef, about: Opening): void {
  const at = new Date(deps.now()).toISOString();
  const { key, parent, entries = [], isDurable = true } = about;
  const header: TranscriptHeader = { type: "session", version: 1, id: ref.sessionId, at, key, agentId: ref.agentId, parent };
  const fd = openNew(deps, ref);
  try {
    const bytes = Buffer.from(`${JSON.stringify(header)}\n${linesOf(deps, toFull(deps, entries, null))}`);
    if (writeSync(fd, bytes) < bytes.length) throw new AppError("storage", "the disk is full");
    if (isDurable) fdatasyncSync(fd);
  } finally {
    closeSync(fd);
  }
  if (isDurable) syncFolder(folderOf(deps, ref.agentId));
}

/** The folder is there but for an agent's very first session; looking each time would cost as much as the file. */
function openNew(deps: Deps, ref: TranscriptRef): number {
  const path = pathOf(deps, ref);
  try {
    return openSync(path, "wx", 0o600);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    mkdirSync(folderOf(deps, ref.agentId), { recursive: true, mode: 0o700 });
    return openSync(path, "wx", 0o600);
  }
}

function secureFile(deps: Deps, ref: TranscriptRef, about: Opening, isOurs: boolean): void {
  const path = pathOf(deps, ref);
  const isWhole = isOurs || (existsSync(path) && readBackwards(deps, ref, (taken) => taken.length > 0).length > 0);
  if (!isWhole) {
    rmSync(path, { force: true });
    return createFile(deps, ref, { ...about, isDurable: true });
  }
  const fd = openSync(path, "r");
  try {
    fdatasyncSync(fd);
  } finally {
    closeSync(fd);
  }
  syncFolder(folderOf(deps, ref.agentId));
}

function openExisting(path: string, flags: "r" | "r+"): number {
  try {
    return openSync(path, flags);
  } catch (error) {
    throw new AppError("storage", `The transcript ${path} can't be opened: ${errorText(error)}`, { cause: error });
  }
}

function openForAppend(deps: Deps, path: string): OpenFile {
  // Not "a+": that would quietly make a new file where the transcript was deleted.
  const fd = openExisting(path, "r+");
  const size = fstatSync(fd).size;
  const end = endOfLastLine(fd, size);
  if (end < size) {
    ftruncateSync(fd, end);
    deps.log.warn({ path, cutBytes: size - end }, "cut a torn last line off a transcript");
  }
  let last: Entry | null = null;
  // A damaged last line must not break the chain of parents.
  for (const line of linesBackwards(fd, end)) {
    last = parseEntry(line.text);
    if (last !== null) break;
  }
  closeSync(fd);
  return { fd: openSync(path, "a"), lastId: last?.id ?? null, dirty: false };
}

function writeLines(deps: Deps, ref: TranscriptRef, file: OpenFile, text: string): void {
  const bytes = Buffer.from(text);
  const before = fstatSync(file.fd).size;
  try {
    const written = writeSync(file.fd, bytes);
    if (written < bytes.length) throw new AppError("storage", "the disk is full");
  } catch (error) {
    // Half a line must not stay in front of the next one.
    ftruncateSync(file.fd, before);
    throw new AppError("storage", `The transcript ${pathOf(deps, ref)} can't be written: ${errorText(error)}`, { cause: error });
  }
}

function readBackwards(deps: Deps, ref: TranscriptRef, enough: (taken: Entry[], line: string) => boolean): Entry[] {
  const path = pathOf(deps, ref);
  const fd = openExisting(path, "r");
  const taken: Entry[] = [];
  try {
    for (const line of linesBackwards(fd, fstatSync(fd).size)) {
      if (line.offset === 0 && isHeader(line.text)) break;
      if (enough(taken, line.text)) break;
      const entry = line.text.length > MAX_LINE ? null : parseEntry(line.text);
      if (entry !== null) taken.push(entry);
      else deps.log.warn({ path, line: lineNumberAt(fd, line.offset) }, "skipped a damaged line of a transcript");
    }
  } finally {
    closeSync(fd);
  }
  return taken;
}

function readWindow(deps: Deps, ref: TranscriptRef, maxBytes: number): Entry[] {
  let bytes = 0;
  let keptFrom: string | null | undefined;
  const newestFirst = readBackwards(deps, ref, (taken, line) => {
    const last = taken.at(-1);
    if (last?.type === "compaction" && keptFrom === undefined) keptFrom = last.keptFrom;
    if (keptFrom !== undefined && (keptFrom === null || last?.id === keptFrom)) return true;
    bytes += line.length;
    return bytes > maxBytes && taken.length > 0;
  });
  return newestFirst.reverse();
}

/** True when the file stands under its new name, also when a crash came after the rename. */
function move(deps: Deps, agentId: string, from: string, to: string): boolean {
  const folder = folderOf(deps, agentId);
  if (!existsSync(join(folder, from))) return existsSync(join(folder, to));
  renameSync(join(folder, from), join(folder, to));
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
