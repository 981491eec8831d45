// Transcripts: append-only JSONL, one file per session, `<state>/agents/<agentId>/sessions/<sessionId>.jsonl`.
// A turn appends each message before the loop goes on; sync() makes lines durable before a row refers to them.
// A crash can tear only the last line, because a line is one write call; the next open cuts it off.
// A child's file is made when it is first needed: until then, and until it is synced, its run keeps how it begins.
import { closeSync, existsSync, rmSync, statSync } from "node:fs";
import { AppError, errorText } from "../core/errors.ts";
import { isAgentId, isUuid } from "../core/ids.ts";
import type { Logger } from "../core/logger.ts";
import { type ArchivedTranscript, listArchived, removeArchived } from "./archived-transcripts.ts";
import { createRewinding, stillCounting } from "./rewinding.ts";
import { findCompaction, readBackwards, readEnd } from "./transcript-end.ts";
import { type Entry, type NewEntry, type TranscriptHeader, toLines } from "./transcript-entry.ts";
import { appendLines, moveFile, type OpenFile, openForAppend, probeRoom, startFile, syncFile, syncFileNow } from "./transcript-file.ts";
import { type PageRange, readBetween, readTranscriptPage, type TranscriptPage } from "./transcript-page.ts";

export interface TranscriptRef {
  readonly agentId: string;
  readonly sessionId: string;
  /** Of a child: where people read of it when there is no file to name. */
  readonly runId?: string;
  /** Set once archived: the file's present name. */
  readonly archiveName?: string | null;
}

/** How a transcript begins. */
export interface Opening {
  readonly key: string;
  readonly parent: string | null;
  readonly entries?: readonly NewEntry[];
}

export interface Transcripts {
  /** Makes the file with its header line and first entries; durable on return. */
  create(ref: TranscriptRef, about: Opening): Promise<void>;
  /** Before a child works: its file is made unless it stands there with an entry; a power cut may have left half of it. */
  ensure(ref: TranscriptRef): Promise<void>;
  /** One write per call, so that entries given together stand or fall together at a line's border. */
  append(ref: TranscriptRef, entries: readonly NewEntry[]): Promise<Entry[]>;
  /** Everything appended so far, also by a process before this one, is on disk when this returns. False: there is no file. */
  sync(ref: TranscriptRef): Promise<boolean>;
  /** Throws when the disk has no room for a few more entries: a row may still find some in the database's own pages. */
  probe(): Promise<void>;
  /** The last `count` entries, oldest first. */
  tail(ref: TranscriptRef, count: number): Promise<Entry[]>;
  /**
   * The newest entries, oldest first, until their weights pass `max`, without those that were set aside; goes back at most to the entry
   * the last compaction kept.
   */
  window(ref: TranscriptRef, max: number, weigh: (entry: Entry) => number): Promise<Entry[]>;
  /** The last compaction, for when a window ends before it. Reads back to it. */
  lastCompaction(ref: TranscriptRef): Promise<Entry | null>;
  /** For leafing through it, from the end. Throws ENOENT when there is no file. */
  page(ref: TranscriptRef, range: PageRange): Promise<TranscriptPage>;
  /** What stands between two positions of pages, oldest first, read as it is taken: never more than a few lines are in memory. */
  between(ref: TranscriptRef, from: number, to: number): AsyncIterable<Entry>;
  /** Renames to `name` in the same folder; doing it again after a crash is harmless. False: there is no file. */
  archive(ref: TranscriptRef, name: string): Promise<boolean>;
  /** Gives an archived transcript its own name back. False: there is no file any more. */
  restore(ref: TranscriptRef): Promise<boolean>;
  /** Those archived before `before`, which is a time as it stands in their names (`fileStamp`). */
  listArchived(agentId: string, before: string): Promise<ArchivedTranscript[]>;
  /** For good, an archived one by its name. Doing it again is harmless. */
  remove(agentId: string, name: string): Promise<void>;
  path(ref: TranscriptRef): string;
  close(): void;
}

export interface TranscriptFiles extends Transcripts {
  /** Where an agent's transcripts lie. */
  folder(agentId: string): string;
}

interface Deps {
  stateDir: string;
  log: Logger;
  now(): number;
  redact(text: string): string;
  /** Called before anything is written; what it throws refuses the write. */
  check?(): void;
  /** How a session begins whose file is not there yet; null: it should be there. */
  opening?(ref: TranscriptRef): Promise<Opening | null>;
}

interface State extends Deps {
  /** By path; the least recently used comes first. */
  readonly open: Map<string, OpenFile>;
  /** Of all of them together, in bytes (recent-entries.ts). */
  remembered: number;
}

const MAX_OPEN = 64;
/** Of all that are held open together, as lines of the files: parsed they take a few times as much. */
const MAX_REMEMBERED = 4 * 1024 * 1024;

export function createTranscripts(deps: Deps): TranscriptFiles {
  const state: State = { ...deps, open: new Map(), remembered: 0 };
  const folder = (agentId: string): string => {
    // Whoever writes there would make the whole path anew.
    deps.check?.();
    return folderOf(deps, agentId);
  };
  return {
    async create(ref, about) {
      const file = start(state, ref, about);
      try {
        await syncFile(file);
      } catch (error) {
        // Nobody knows of it yet, and who tries again makes another.
        drop(state, file);
        closeSync(file.fd);
        rmSync(file.path, { force: true });
        throw error;
      }
    },
    ensure: (ref) => ensure(state, ref),
    async append(ref, entries) {
      const file = take(state, await present(state, ref));
      const { full, lines } = toLines(deps, entries, file.lastId);
      remembering(state, file, () => appendLines(file, joined(lines), full));
      return full;
    },
    async sync(ref) {
      deps.check?.();
      const path = pathOf(deps, ref);
      if (!state.open.has(path) && !existsSync(path)) return false;
      await syncFile(take(state, await present(state, ref)));
      return true;
    },
    async probe() {
      deps.check?.();
      probeRoom(deps.stateDir);
    },
    tail: (ref, count) => readLast(state, ref, () => (taken) => taken.length >= count),
    window: async (ref, max, weigh) => stillCounting(await readLast(state, ref, () => windowEnd(max, weigh))),
    lastCompaction: async (ref) => findCompaction(await present(state, ref), deps.log),
    page: async (ref, range) => readTranscriptPage(await present(state, ref), range),
    async *between(ref, from, to) {
      yield* readBetween(await present(state, ref), from, to);
    },
    async archive(ref, name) {
      // By either name: one renamed before a crash is there, and is not begun anew.
      await release(state, await present(state, { ...ref, archiveName: name }));
      return moveFile(folderOf(deps, ref.agentId), `${ref.sessionId}.jsonl`, name);
    },
    restore: async (ref) => ref.archiveName == null || moveFile(folderOf(deps, ref.agentId), ref.archiveName, `${ref.sessionId}.jsonl`),
    listArchived: async (agentId, before) => listArchived(folder(agentId), before),
    remove: async (agentId, name) => removeArchived(folder(agentId), name),
    folder,
    path: (ref) => pathOf(deps, ref),
    close() {
      for (const path of state.open.keys()) tryLetGo(state, path);
    },
  };
}

/** Put together as they are, here and below: `join` weighs each sign of a path, and a turn asks for this one a dozen times. */
function folderOf(deps: Deps, agentId: string): string {
  if (!isAgentId(agentId)) throw new AppError("invalid", `"${agentId.slice(0, 80)}" is not an agent id`);
  return `${deps.stateDir}/agents/${agentId}/sessions`;
}

function pathOf(deps: Deps, ref: TranscriptRef): string {
  if (!isUuid(ref.sessionId)) throw new AppError("invalid", "not a session id");
  const folder = folderOf(deps, ref.agentId);
  const own = `${folder}/${ref.sessionId}.jsonl`;
  if (ref.archiveName == null) return own;
  const archived = `${folder}/${ref.archiveName}`;
  // A crash between restoring the name and recording it leaves the file under its own name.
  return !existsSync(archived) && existsSync(own) ? own : archived;
}

/** Where it lies; made first when nobody needed it before, or when its maker was killed before it wrote a line. */
async function present(state: State, ref: TranscriptRef): Promise<string> {
  const path = pathOf(state, ref);
  if (!state.open.has(path) && (statSync(path, { throwIfNoEntry: false })?.size ?? 0) === 0) await begin(state, ref, path);
  return path;
}

async function ensure(state: State, ref: TranscriptRef): Promise<void> {
  const path = await present(state, ref);
  if (!state.open.has(path) && existsSync(path) && !hasEntry(state, path)) await begin(state, ref, path);
}

const hasEntry = ({ log }: State, path: string): boolean => readBackwards(path, log, (taken) => taken.length > 0).length > 0;

/** In place of what is there, if anybody knows how it begins. */
async function begin(state: State, ref: TranscriptRef, path: string): Promise<void> {
  const about = (await state.opening?.(ref)) ?? null;
  if (about === null) return;
  // Somebody else may have begun it while its row was read: theirs holds what was appended since.
  if (state.open.has(path) || (existsSync(path) && hasEntry(state, path))) return;
  rmSync(path, { force: true });
  start(state, ref, about);
}

function start(state: State, ref: TranscriptRef, about: Opening): OpenFile {
  state.check?.();
  const header = JSON.stringify(headerOf(ref, about, state.now()));
  const { full, lines } = toLines(state, about.entries ?? [], null);
  return hold(state, startFile(pathOf(state, ref), joined([header, ...lines]), full.at(-1)?.id ?? null));
}

/** Oldest first. */
async function readLast(state: State, ref: TranscriptRef, until: () => (taken: readonly Entry[]) => boolean): Promise<Entry[]> {
  const path = await present(state, ref);
  const file = state.open.get(path);
  if (file === undefined) return readBackwards(path, state.log, until()).reverse();
  return remembering(state, file, () => readEnd(file, state.log, until)).reverse();
}

/** Reads or writes; then of those that were not written for longest so much is forgotten that the rest is few enough. */
function remembering<T>(state: State, file: OpenFile, work: () => T): T {
  const before = file.recent.bytes();
  try {
    return work();
  } finally {
    state.remembered += file.recent.bytes() - before;
    for (const { recent } of state.remembered > MAX_REMEMBERED ? state.open.values() : []) {
      state.remembered -= recent.bytes();
      recent.forget();
      if (state.remembered <= MAX_REMEMBERED) break;
    }
  }
}

const joined = (lines: readonly string[]): string => lines.map((line) => `${line}\n`).join("");

/** What stands before the entries. */
export function headerOf({ sessionId }: TranscriptRef, { key, parent }: Opening, now: number): TranscriptHeader {
  return { type: "session", version: 1, id: sessionId, timestamp: new Date(now).toISOString(), key, parent };
}

/**
 * For writing, in the same tick: with an await in between, others may take so many that this one is closed, and the number of its
 * handle is another file's by then.
 */
function take(state: State, path: string): OpenFile {
  const known = state.open.get(path);
  // Taken out and put back: a Map keeps insertion order.
  if (known !== undefined) state.open.delete(path);
  return hold(state, known ?? openForAppend(path, state.log));
}

function hold(state: State, file: OpenFile): OpenFile {
  for (const [path, { syncing }] of state.open) {
    if (state.open.size < MAX_OPEN) break;
    if (syncing === null) tryLetGo(state, path);
  }
  state.open.set(file.path, file);
  return file;
}

/** Stays open when the sync fails: closed, its lines would be taken for safe. */
function letGo(state: State, path: string): void {
  const file = state.open.get(path);
  if (file === undefined) return;
  syncFileNow(file);
  drop(state, file);
  if (file.syncing === null) closeSync(file.fd);
  // Only when all is closed at once: the others are not let go of before.
  else void file.syncing.catch(() => {}).then(() => closeSync(file.fd));
}

function drop(state: State, { path, recent }: OpenFile): void {
  state.open.delete(path);
  state.remembered -= recent.bytes();
}

/** Let go of, when the sync that is under way is over. */
async function release(state: State, path: string): Promise<void> {
  for (let file = state.open.get(path); file?.syncing != null; file = state.open.get(path)) await syncFile(file);
  letGo(state, path);
}

/** One session's trouble is not another's. */
function tryLetGo(state: State, path: string): void {
  try {
    letGo(state, path);
  } catch (error) {
    state.log.error({ path, reason: errorText(error) }, "a transcript could not be closed");
  }
}

/** When a window is full, or at the entry the last compaction kept. */
export function windowEnd(max: number, weigh: (entry: Entry) => number): (taken: readonly Entry[]) => boolean {
  let weight = 0;
  let keptFrom: string | null | undefined;
  const counts = createRewinding();
  return (taken) => {
    const last = taken.at(-1);
    // What was set aside is passed over: it has no weight, and its summaries sum nothing up.
    if (last === undefined || !counts(last)) return false;
    if (last.type === "compaction" && keptFrom === undefined) keptFrom = last.keptFrom;
    if (keptFrom !== undefined && (keptFrom === null || last.id === keptFrom)) return true;
    weight += weigh(last);
    return weight > max;
  };
}
