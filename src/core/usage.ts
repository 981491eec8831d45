// Tokens and money, as the provider reported them. Cost is null when no price is known: never shown as $0.

export interface Usage {
  /** All input tokens, cache reads and writes included. */
  readonly input: number;
  readonly output: number;
  readonly cacheRead: number;
  readonly cacheWrite: number;
}

/** Sum of several model calls. `costUsd` is null as soon as one call had no known price. */
export interface Spend {
  readonly usage: Usage | null;
  readonly costUsd: number | null;
}

export const NO_SPEND: Spend = { usage: null, costUsd: null };

export const totalTokens = (u: Usage): number => u.input + u.output;

function addUsage(a: Usage | null, b: Usage | null): Usage | null {
  if (a === null) return b;
  if (b === null) return a;
  return {
    input: a.input + b.input,
    output: a.output + b.output,
    cacheRead: a.cacheRead + b.cacheRead,
    cacheWrite: a.cacheWrite + b.cacheWrite,
  };
}

/** Adds one call to a sum; a sum without any usage yet takes the call's cost as it is. */
export function addSpend(sum: Spend, call: Spend): Spend {
  if (call.usage === null) return sum;
  if (sum.usage === null) return call;
  const costUsd = sum.costUsd === null || call.costUsd === null ? null : sum.costUsd + call.costUsd;
  return { usage: addUsage(sum.usage, call.usage), costUsd };
}
