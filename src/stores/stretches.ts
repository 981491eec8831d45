// Looking through many rows by their numbers, from the newest back, without holding up everybody else: a stretch at a time
// (Database.stretch), and whatever else is due has its turn in between.
import { setImmediate } from "node:timers/promises";

export interface Stretches {
  readonly from: number;
  readonly to: number;
  readonly length: number;
}

/** `look` reads the numbers below `top` and not below `bottom`; false: that is enough. Returns the last number that was looked at. */
export async function inStretches(
  { from, to, length }: Stretches,
  look: (top: number, bottom: number) => Promise<boolean>,
): Promise<number> {
  let top = from;
  while (top > to) {
    const bottom = Math.max(to, top - length);
    const isMore = await look(top, bottom);
    top = bottom;
    if (!isMore) break;
    await setImmediate();
  }
  return top;
}
