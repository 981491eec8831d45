// The state folder as the stores found it. A file that is moved, removed or cut short goes on working for whoever has it open:
// a gateway whose folder is gone would go on answering, into a database that nobody will ever open again. So whoever is about
// to write looks first whether the files behind the names are still those that were opened, with all they held.
import { type Stats, statSync } from "node:fs";
import { join } from "node:path";
import { AppError, errorText } from "../core/errors.ts";

/** How old a look may be for what nobody was promised: most of what a turn writes is that, within a few milliseconds. */
const RECENT_MS = 5;

export interface StateFolder {
  /** Looks. Null: all is well; else what is wrong, in words. */
  problem(): string | null;
  /**
   * Throws AppError("storage") as long as something is wrong: what waits goes on when the folder is back. `isRelaxed`: a look
   * of a moment ago will do.
   */
  check(isRelaxed?: boolean): void;
}

export interface HeldFile {
  readonly name: string;
  /**
   * Asked when it has become smaller, as SQLite may make it itself: the size below which content is missing. Null when that
   * can't be told just now, so that it is asked again. Without it the size says nothing.
   */
  neededBytes?(): number | null;
  /** Every commit writes behind its end. So it is looked at each time: cut short, one commit would give it back its size. */
  readonly isJournal?: true;
}

/** From now on these files of the folder are the ones it must hold. */
export function holdStateFolder(stateDir: string, files: readonly HeldFile[]): StateFolder {
  const held = files.map((file) => ({ look: holdFile(join(stateDir, file.name), file), isJournal: file.isJournal === true }));
  let soundAt = Number.NEGATIVE_INFINITY;
  const problem = (onlyJournal = false): string | null => {
    for (const { look, isJournal } of held) {
      const what = onlyJournal && !isJournal ? null : look();
      if (what !== null) return what;
    }
    return null;
  };
  return {
    problem: () => problem(),
    check(isRelaxed = false) {
      const now = performance.now();
      const isRecent = isRelaxed && now - soundAt < RECENT_MS;
      const what = problem(isRecent);
      if (what !== null) throw new AppError("storage", what);
      if (!isRecent) soundAt = now;
    },
  };
}

/** Returns what looks at the file; it never throws. */
function holdFile(path: string, { neededBytes }: HeldFile): () => string | null {
  const { dev, ino, size } = statSync(path);
  let knownBytes = size;
  let isCut = false;
  return () => {
    const now = lookAt(path);
    if (typeof now === "string") return moved(now);
    if (now.dev !== dev || now.ino !== ino) return moved(`${path} is another file than the one in use`);
    // For good: a write would make it as long as it was, with a hole where the content has been.
    if (isCut) return cut(path);
    const needed = now.size < knownBytes ? (neededBytes?.() ?? null) : 0;
    if (needed === null) return null;
    isCut = now.size < needed;
    knownBytes = now.size;
    return isCut ? cut(path) : null;
  };
}

/** What is wrong in words when it can't be looked at: gone, or somewhere nobody lets us. */
function lookAt(path: string): Stats | string {
  try {
    return statSync(path, { throwIfNoEntry: false }) ?? `${path} is gone`;
  } catch (error) {
    return `${path} can't be reached (${errorText(error)})`;
  }
}

const moved = (what: string): string =>
  `The state folder was moved, removed or replaced while Herald runs: ${what}. Nothing is taken in until it is back; put it back, or stop Herald and start it again.`;

const cut = (path: string): string =>
  `Another program cut ${path} short while Herald runs, and what was in it is lost. Nothing is taken in any more; stop Herald, move the database with its -wal and -shm away, and put a backup back.`;
