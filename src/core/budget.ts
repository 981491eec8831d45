// Budgets (BG): what a model call may take at most is held back before it is made, at every level that applies, and becomes what it
// really took afterwards. Checked against what is spent AND held, so that twenty children who ask at once can't each see the same rest.
// Pure: stores/budgets.ts keeps the figures, budgets/ knows the levels and the prices.

/** Millionths of a dollar, whole ones: sums of money must not depend on the order in which they are added. */
export type MicroUsd = number;

export const MICRO = 1_000_000;
/** Upwards: what is rounded away would be money that nobody counted. */
export const microUsd = (usd: number): MicroUsd => Math.ceil(usd * MICRO - 1e-6);

/** Money and tokens; a level may limit either or both. */
export interface Amount {
  readonly usd: MicroUsd;
  readonly tokens: number;
}

/** What a call took; null: nobody knows what it cost. */
export interface Taken {
  readonly usd: MicroUsd | null;
  readonly tokens: number;
}

export interface Cap {
  readonly usd: MicroUsd | null;
  readonly tokens: number | null;
}

/** As people write it: dollars, and a side that is left out has no limit. */
export const toCap = ({ usd, tokens }: { readonly usd?: number | undefined; readonly tokens?: number | undefined }): Cap => ({
  usd: usd === undefined ? null : microUsd(usd),
  tokens: tokens ?? null,
});

/** Under both of them; null: neither limits anything. */
export function narrower(one: Cap | null, other: Cap | null): Cap | null {
  const least = (side: keyof Cap): number | null => {
    const found = Math.min(one?.[side] ?? Number.POSITIVE_INFINITY, other?.[side] ?? Number.POSITIVE_INFINITY);
    return found === Number.POSITIVE_INFINITY ? null : found;
  };
  const cap = { usd: least("usd"), tokens: least("tokens") };
  return cap.usd === null && cap.tokens === null ? null : cap;
}

export const fromCap = ({ usd, tokens }: Cap): { usd?: number; tokens?: number } => ({
  ...(usd === null ? {} : { usd: usd / MICRO }),
  ...(tokens === null ? {} : { tokens }),
});

/** One thing that has a limit of its own: a run with all below it, a message, a chat's day, the installation's month. */
export interface Level {
  /** Names it for good, its day or month included: a hold is settled where it was taken. */
  readonly id: string;
  /** As it reads in what is said about the call itself: `this run`, `this chat today`. */
  readonly name: string;
  /** As it reads among other messages of the chat; left out: the same. */
  readonly inChat?: string;
  readonly cap: Cap;
}

export interface Figures {
  readonly spent: Amount;
  /** By calls under way: what they don't use comes back. */
  readonly held: Amount;
  /** By runs, each for its last call: until it ends nobody else gets it, so nobody waits for it either. */
  readonly kept: Amount;
}

export interface LevelNow extends Level, Figures {}

export const NOTHING: Amount = { usd: 0, tokens: 0 };

export const add = (one: Amount, other: Amount): Amount => ({ usd: one.usd + other.usd, tokens: one.tokens + other.tokens });

/** A call before it is made: the most its input can be, and what one token of its answer costs. */
export interface Asked {
  readonly inputTokens: number;
  readonly inputUsd: MicroUsd;
  /** Of one token of output; not whole: it is multiplied first. */
  readonly outputUsd: number;
  /** The longest answer wanted. */
  readonly maxOutput: number;
}

/** A shorter answer than this is of no use to anybody: the call is not made. */
export const LEAST_OUTPUT = 512;

export type Decision =
  /** May be made, with an answer of at most so many tokens. */
  | { readonly kind: "held"; readonly maxOutput: number; readonly amount: Amount }
  /** Only what others hold is in the way: one of them will settle. */
  | { readonly kind: "wait" }
  /** `needs`: what the shortest answer worth paying for would take. */
  | { readonly kind: "over"; readonly level: LevelNow; readonly needs: Amount };

/** What the call takes with an answer of this length. */
export const amountOf = ({ inputTokens, inputUsd, outputUsd }: Asked, output: number): Amount => ({
  // As microUsd: what is a whole number but for the last binary digit must not pass a level by one.
  usd: inputUsd + Math.ceil(outputUsd * output - 1e-6),
  tokens: inputTokens + output,
});

export function decide(levels: readonly LevelNow[], asked: Asked): Decision {
  const least = Math.min(LEAST_OUTPUT, asked.maxOutput);
  const within = (level: LevelNow): number => outputWithin(level, asked, add(level.kept, add(level.spent, level.held)));
  const room = Math.min(asked.maxOutput, ...levels.map(within));
  if (room >= least) return { kind: "held", maxOutput: room, amount: amountOf(asked, room) };
  // Without what calls under way hold: if it doesn't fit then either, nobody's end would help.
  const over = levels.find((level) => outputWithin(level, asked, add(level.kept, level.spent)) < least);
  return over === undefined ? { kind: "wait" } : { kind: "over", level: over, needs: amountOf(asked, least) };
}

/** The longest answer that fits below this level's cap when so much is taken already; below 0 where not even the input fits. */
function outputWithin({ cap }: Level, asked: Asked, taken: Amount): number {
  const byTokens = cap.tokens === null ? Number.POSITIVE_INFINITY : cap.tokens - taken.tokens - asked.inputTokens;
  if (cap.usd === null) return byTokens;
  const leftUsd = cap.usd - taken.usd - asked.inputUsd;
  // A free answer is as long as it likes, unless its input was too much.
  const byUsd = leftUsd < 0 ? -1 : asked.outputUsd === 0 ? Number.POSITIVE_INFINITY : Math.floor(leftUsd / asked.outputUsd);
  return Math.min(byTokens, byUsd);
}

/** From this share on the chat is told, once for each level and period (BG5). */
export const WARN_AT = 0.8;

/** How much of it is spent; of its two sides the one that is nearer to its end. */
export const shareOf = ({ cap, spent }: Pick<LevelNow, "cap" | "spent">): number =>
  Math.max(cap.usd === null ? 0 : ratio(spent.usd, cap.usd), cap.tokens === null ? 0 : ratio(spent.tokens, cap.tokens));

const ratio = (part: number, whole: number): number => (whole === 0 ? 1 : part / whole);
