// One page of a transcript for reading, from its end backwards, and a stretch of it forwards. The cursor is a byte offset, so a page costs the same
// at the end and in the middle of a huge file, and what is appended meanwhile does not move it.
import { closeSync, fstatSync, openSync } from "node:fs";
import { linesBackwards, linesForward } from "./lines.ts";
import { type Entry, parseEntry } from "./transcript-entry.ts";

export interface TranscriptPage {
  /** Oldest first. `position` grows from entry to entry and never changes. */
  readonly entries: readonly { readonly position: number; readonly entry: Entry }[];
  /** The cursor of what came before; null at the beginning. */
  readonly before: number | null;
}

export interface PageRange {
  /** Null: from the end. */
  readonly before: number | null;
  readonly limit: number;
  fits(entry: Entry): boolean;
}

/** A stretch without anything to show, or of huge entries, must not hold up the process: the next page goes on there. */
const MAX_READ = 2 * 1024 * 1024;

/** Damaged lines are passed over. Throws ENOENT when there is no file. */
export function readTranscriptPage(path: string, { before, limit, fits }: PageRange): TranscriptPage {
  const fd = openSync(path, "r");
  const newestFirst: TranscriptPage["entries"][number][] = [];
  const page = (next: number | null): TranscriptPage => ({ entries: newestFirst.reverse(), before: next });
  try {
    const { size } = fstatSync(fd);
    const end = before === null ? size : Math.min(before, size);
    let reached = end;
    for (const { text, offset } of linesBackwards(fd, end)) {
      if (end - reached > MAX_READ) return page(reached);
      const entry = parseEntry(text);
      if (entry !== null && fits(entry)) {
        if (newestFirst.length === limit) return page(reached);
        newestFirst.push({ position: offset, entry });
      }
      reached = offset;
    }
    return page(null);
  } finally {
    closeSync(fd);
  }
}

/** The other way, for who found where to begin. Damaged lines are passed over. */
export function* readBetween(path: string, from: number, to: number): Generator<Entry> {
  const fd = openSync(path, "r");
  try {
    for (const text of linesForward(fd, from, Math.min(to, fstatSync(fd).size))) {
      const entry = parseEntry(text);
      if (entry !== null) yield entry;
    }
  } finally {
    closeSync(fd);
  }
}
