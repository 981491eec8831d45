// What of a transcript still counts. A file only grows, so a request that the person put another one in the place of stays where it is;
// a line behind it says from which entry on all before that line is set aside. Asked of entries from the newest back.
import type { Entry } from "./transcript-entry.ts";

/** Asked of each entry in turn, newest first: does it count? The same one twice in a row does no harm. */
export function createRewinding(): (entry: Entry) => boolean {
  let from: string | null = null;
  return (entry) => {
    if (from !== null) {
      if (entry.id === from) from = null;
      return false;
    }
    if (entry.type === "rewound") from = entry.from;
    return entry.type !== "rewound";
  };
}

/** Of entries oldest first, the last of them the newest of all. */
export function stillCounting(entries: readonly Entry[]): Entry[] {
  const counts = createRewinding();
  return entries.toReversed().filter(counts).reverse();
}
