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

/** What a provider counted as the input of one request, and which request that was (models/input-bound.ts). */
export interface InputCount {
  readonly model: string;
  /** How many, and a digest of them. */
  readonly messages: number;
  readonly digest: string;
  /** Digest of system prompt and tools. */
  readonly head: string;
  readonly tokens: number;
}

/** One call to a provider that is about to be made: retries and fallbacks are calls of their own. */
export interface Outlay {
  readonly model: string;
  /** The most its input can be (models/input-bound.ts). Counted when somebody asks: a long history takes a while. */
  inputTokens(): number;
  /** What such a use would cost; null: no price is known. */
  costUsd(usage: Usage): number | null;
  /** The longest answer it is to give; null: as long as the model likes. */
  readonly maxOutput: number | null;
}

/** What became of a call: what the provider reported, `nothing` where it refused to begin, null where nobody knows. */
export type Took = Spend | "nothing" | null;

export interface Permit {
  /** The answer may be so long; null: as long as was asked for. */
  readonly maxOutput: number | null;
  /** Told once, whatever became of it. */
  settle(took: Took): Promise<void>;
}

/** Who decides whether a call can be paid for. A refusal is a sentence for whoever reads the chat; the call is not made. */
export interface Purse {
  open(outlay: Outlay, signal: AbortSignal): Promise<Permit | { readonly refused: string }>;
}

/** Who pays for the model calls of a turn. */
export interface Account {
  /** Left out: nothing limits it. */
  readonly purse?: Purse;
  /** Told after each call that was made, with the model that answered. */
  settle(spend: Spend, model: string): Promise<void>;
}
