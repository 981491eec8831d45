// Times, tokens and money of runs as people read them. Pure.
import type { Run } from "../core/run.ts";
import { type Spend, totalTokens } from "../core/usage.ts";

/** 5s · 5m12s · 2h03m */
export function duration(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 60) return `${seconds}s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes}m${String(seconds % 60).padStart(2, "0")}s`;
  return `${Math.floor(minutes / 60)}h${String(minutes % 60).padStart(2, "0")}m`;
}

/** 516 · 11.2k · 1.3M */
export function count(n: number): string {
  if (n < 1_000) return String(n);
  const [value, unit] = n < 999_950 ? [n / 1_000, "k"] : [n / 1_000_000, "M"];
  return `${value.toFixed(1).replace(/\.0$/, "")}${unit}`;
}

/** `est $0.12`; below a cent with the digits that matter. Null: no price is known, so nothing is said. */
export const cost = (usd: number | null): string | null =>
  usd === null ? null : `est $${usd === 0 || usd >= 0.01 ? usd.toFixed(2) : usd.toPrecision(2)}`;

/** `est $0.12 of $0.50`: with what is spent of its own limit, all below it included. */
export const costOf = (usd: number | null, limit: string | null): string | null =>
  limit === null ? cost(usd) : usd === null ? `spent ${limit}` : `${cost(usd)} (${limit})`;

export function tokens({ usage }: Spend): string {
  return usage === null ? "tokens n/a" : `tokens ${count(totalTokens(usage))} (in ${count(usage.input)} / out ${count(usage.output)})`;
}

export const runtimeOf = (run: Run, now: number): number => (run.endedAt ?? now) - (run.startedAt ?? run.endedAt ?? now);
