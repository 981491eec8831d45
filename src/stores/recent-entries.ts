// The end of a transcript that is held open, as this process last read it and has added to it since: every turn reads what the one
// before has just appended, several times over, and from the file that costs as much as writing it. Never the truth: who asks says how
// long the file is now, and where that is not what was seen last somebody else has been at it, and the file is read. So is one that
// nobody has read before: on a disk that gives nothing back a run must not begin.
import type { Entry } from "./transcript-entry.ts";

export interface RecentEntries {
  /** As lines of the file. */
  bytes(): number;
  forget(): void;
  /** Appended where the file ended at `from`. */
  add(from: number, bytes: number, entries: readonly Entry[]): void;
  /** Read from a file of `size` bytes, from `from` on, oldest first. `isWhole`: nothing stands before them. */
  replace(size: number, from: number, entries: readonly Entry[], isWhole: boolean): void;
  /** Newest first, until `enough`; null when that takes more than is known of a file of `size` bytes. */
  read(size: number, enough: (taken: Entry[]) => boolean): Entry[] | null;
}

/** A conversation that fills a large context window; beyond it, what is oldest is forgotten. */
const MAX_BYTES = 2 * 1024 * 1024;

interface Piece {
  readonly bytes: number;
  readonly entries: readonly Entry[];
}

export function createRecentEntries(): RecentEntries {
  /** Oldest first, without a gap up to `end`. */
  let pieces: Piece[] = [];
  let end = 0;
  let bytes = 0;
  let isWhole = false;
  const keep = (piece: Piece): void => {
    pieces.push(piece);
    end += piece.bytes;
    bytes += piece.bytes;
    while (bytes > MAX_BYTES) {
      bytes -= pieces.shift()?.bytes ?? 0;
      isWhole = false;
    }
  };
  const beginAt = (from: number, whole: boolean): void => {
    pieces = [];
    bytes = 0;
    end = from;
    isWhole = whole;
  };
  return {
    bytes: () => bytes,
    forget: () => beginAt(0, false),
    add(from, bytes, entries) {
      // Nobody has read the file yet, or somebody else has written in between.
      if (from !== end) beginAt(from, false);
      keep({ bytes, entries });
    },
    replace(size, from, entries, whole) {
      beginAt(from, whole);
      keep({ bytes: size - from, entries });
    },
    read(size, enough) {
      if (size !== end) return null;
      const taken: Entry[] = [];
      for (let n = pieces.length - 1; n >= 0; n--) {
        for (const entry of pieces[n]?.entries.toReversed() ?? []) {
          if (enough(taken)) return taken;
          taken.push(entry);
        }
      }
      return isWhole || enough(taken) ? taken : null;
    },
  };
}
