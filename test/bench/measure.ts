// What every topic of the bench shares: the row of the table, medians of interleaved rounds, a folder that goes away.
// bench.ts → one topic after the other → rows → Markdown.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export interface Row {
  readonly measure: string;
  readonly value: string;
  /** Empty when the figure is only told, not judged. */
  readonly goal: string;
  readonly met: boolean | null;
  /** What stands behind the figure: the absolute times of this machine, counts. */
  readonly detail: string;
}

export interface BenchOptions {
  /** Folder of a checkout of other code to compare with; null: none. */
  readonly against: string | null;
}

export interface Topic {
  readonly name: string;
  run(options: BenchOptions): Promise<Row[]>;
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const upper = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? Number.NaN) + upper) / 2;
}

const MAX_MS = 12_000;
const MIN_ROUNDS = 3;

export type Work = () => void | Promise<void>;

/** Ms of one call. */
export async function timed(work: Work): Promise<number> {
  const startedAt = performance.now();
  await work();
  return performance.now() - startedAt;
}

/** Runs the works in turn, so that a slow moment of the machine falls on all of them; the median round of each, in ms. */
export async function interleave<Name extends string>(rounds: number, works: Readonly<Record<Name, Work>>): Promise<Record<Name, number>> {
  const names = Object.keys(works) as Name[];
  const times = Object.fromEntries(names.map((name) => [name, [] as number[]])) as Record<Name, number[]>;
  const deadline = performance.now() + MAX_MS;
  // The first round only warms up. A machine that is too busy gets fewer rounds, not a longer bench.
  for (let round = 0; round <= rounds && (round <= MIN_ROUNDS || performance.now() < deadline); round++) {
    // Back and forth: nobody always runs behind the same neighbour.
    for (const name of round % 2 === 0 ? names : names.toReversed()) {
      const ms = await timed(works[name]);
      if (round > 0) times[name].push(ms);
    }
  }
  return Object.fromEntries(names.map((name) => [name, median(times[name])])) as Record<Name, number>;
}

export const atMost = (measure: string, ratio: number, goal: number, detail: string): Row => ({
  measure,
  value: `${ratio.toFixed(2)}×`,
  goal: `≤ ${goal}×`,
  met: ratio <= goal,
  detail,
});

export const below = (measure: string, value: number, goal: number, unit: string, detail: string): Row => ({
  measure,
  value: `${Math.round(value)} ${unit}`,
  goal: `< ${goal} ${unit}`,
  met: value < goal,
  detail,
});

export const told = (measure: string, value: string, detail: string): Row => ({ measure, value, goal: "", met: null, detail });

export const us = (ms: number): string => (ms < 1 ? `${Math.round(ms * 1000)} µs` : `${ms.toFixed(1)} ms`);

/** Resident memory of a process in MB. */
export function rssMb(pid: number | "self"): number {
  const kb = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
  return Number(kb) / 1024;
}

export async function withFolder<T>(work: (folder: string) => Promise<T>): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), "herald-bench-"));
  try {
    return await work(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
