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

/** What a model call may take at most, known before it is made. */
export interface Outlay {
  /** The model that is asked first, and those that are asked when it fails. */
  readonly models: readonly [string, ...string[]];
  /** By its UTF-8 bytes: a token is at least one. */
  inputTokens(): number;
}

/** Who pays for the model calls of a turn. */
export interface Account {
  /** Asked before each call: may it go on? Null: yes. Else why not, in a sentence for whoever reads the chat; the call is not made. */
  mayCall(outlay: Outlay): Promise<string | null>;
  /** Told after each call that was made, with the model that answered. */
  settle(spend: Spend, model: string): Promise<void>;
}
