// Reading a transcript file from its end: what a turn needs stands there, however long the file has become.
import { closeSync, fstatSync, statSync } from "node:fs";
import type { Logger } from "../core/logger.ts";
import { lineNumberAt, linesBackwards } from "./lines.ts";
import { createRewinding } from "./rewinding.ts";
import { type Entry, isHeader, parseEntry } from "./transcript-entry.ts";
import { type OpenFile, openExisting } from "./transcript-file.ts";

/** Longer lines are damage, not entries: they would only fill the memory. */
const MAX_LINE = 8 * 1024 * 1024;

/**
 * Newest first, until what `until` makes says that it is enough. From memory when the file is the one held open, as long as it was when
 * we last wrote or read it; else from the file.
 */
export function readEnd(file: OpenFile, log: Logger, until: () => (taken: Entry[]) => boolean): Entry[] {
  const now = statSync(file.path, { throwIfNoEntry: false });
  const known = now?.ino === file.ino ? file.recent.read(now.size, until()) : null;
  if (known !== null) return known;
  const { taken, size, from, isWhole } = walkBackwards(file.path, log, until());
  if (now?.ino === file.ino) file.recent.replace(size, from, taken.toReversed(), isWhole);
  return taken;
}

/** Newest first, until `enough`. Damaged lines are skipped with a warning that names the line. */
export const readBackwards = (path: string, log: Logger, enough: (taken: Entry[], line: string) => boolean): Entry[] =>
  walkBackwards(path, log, enough).taken;

/** `from`: where the oldest that was taken begins. `isWhole`: nothing but the header stands before it. */
interface Walked {
  readonly taken: Entry[];
  readonly size: number;
  readonly from: number;
  readonly isWhole: boolean;
}

function walkBackwards(path: string, log: Logger, enough: (taken: Entry[], line: string) => boolean): Walked {
  const fd = openExisting(path, "r");
  const taken: Entry[] = [];
  // Counted once, from the newest damage: counting anew for each would read the file as often as it has damaged lines.
  let number: number | null = null;
  try {
    const { size } = fstatSync(fd);
    let from = size;
    for (const line of linesBackwards(fd, size)) {
      if (number !== null) number--;
      if (line.offset === 0 && isHeader(line.text)) break;
      if (enough(taken, line.text)) return { taken, size, from, isWhole: false };
      from = line.offset;
      const entry = line.text.length > MAX_LINE ? null : parseEntry(line.text);
      if (entry !== null) {
        taken.push(entry);
        continue;
      }
      number ??= lineNumberAt(fd, line.offset);
      log.warn({ path, line: number }, "skipped a damaged line of a transcript");
    }
    return { taken, size, from, isWhole: true };
  } finally {
    closeSync(fd);
  }
}

/** How far back a compaction is looked for. */
const MAX_LOOK_BACK = 64 * 1024 * 1024;

/** The newest one that was not set aside. */
export function findCompaction(path: string, log: Logger): Entry | null {
  let bytes = 0;
  const counts = createRewinding();
  const [newest] = readBackwards(path, log, (taken, line) => {
    if (taken[0] !== undefined && counts(taken[0]) && taken[0].type === "compaction") return true;
    // Only the one looked for is kept: the others may be many.
    taken.length = 0;
    bytes += line.length;
    return bytes > MAX_LOOK_BACK;
  });
  return newest?.type === "compaction" ? newest : null;
}
