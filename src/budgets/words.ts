// Budgets as people and models read them. Pure.
import { type Amount, type Cap, type LevelNow, MICRO, shareOf, WARN_AT } from "../core/budget.ts";

export const dollars = (micro: number): string => {
  const usd = micro / MICRO;
  return `$${usd === 0 || usd >= 0.01 ? usd.toFixed(2) : usd.toPrecision(2)}`;
};

export function tokenCount(tokens: number): string {
  if (tokens < 10_000) return `${tokens}`;
  return tokens < 1_000_000 ? `${Math.round(tokens / 1000)}k` : `${(tokens / 1_000_000).toFixed(1).replace(/\.0$/, "")}M`;
}

/** `$0.12 of $0.50` and `18k of 20k tokens`; null: that side has no limit. */
export const spentWords = ({ cap, spent }: Pick<LevelNow, "cap" | "spent">): Record<keyof Cap, string | null> => ({
  usd: cap.usd === null ? null : `${dollars(spent.usd)} of ${dollars(cap.usd)}`,
  tokens: cap.tokens === null ? null : `${tokenCount(spent.tokens)} of ${tokenCount(cap.tokens)} tokens`,
});

/** What is left of it: neither spent nor held back for calls that are under way or to come. */
export function leftWords({ cap, spent, held, kept }: Omit<LevelNow, "id" | "name">): string {
  const left = (side: keyof Cap): number => Math.max(0, (cap[side] ?? 0) - spent[side] - held[side] - kept[side]);
  return [
    ...(cap.usd === null ? [] : [dollars(left("usd"))]),
    ...(cap.tokens === null ? [] : [`${tokenCount(left("tokens"))} tokens`]),
  ].join(" and ");
}

/** The same as one text. */
export function spentText(level: Pick<LevelNow, "cap" | "spent">): string {
  const { usd, tokens } = spentWords(level);
  return [usd, tokens].filter((part) => part !== null).join(", ");
}

/** For the model of a run, in tenths: told at every cent, it would be most of what a long run reads. */
export function leftText(level: LevelNow): string {
  const tenths = Math.max(0, Math.floor((1 - shareOf(level)) * 10));
  const much = tenths === 0 ? "less than a tenth of it is left: come to your result" : `about ${tenths * 10} % of it is left`;
  return `Your budget is ${capText(level.cap)}, for you and all you send out; ${much}.`;
}

/** Its own limit, which a person can raise from the announcement. */
export const isOwnLimit = (reason: string | null): boolean => reason?.startsWith("The budget of this run ") === true;

/** In a command: as much as it has once more, of each side it has. A button's, because platforms carry no long numbers in one. */
export const TWICE = "x2";

/** `needs`: the call that was not made. Of a limit that has paid for nothing yet "used up" would be no reason. */
export function overText(level: LevelNow, needs: Amount): string {
  const { name, cap, spent, kept } = level;
  const side = SIDES.find((one) => spent[one] === 0 && needs[one] > 0 && kept[one] + needs[one] > (cap[one] ?? Number.POSITIVE_INFINITY));
  if (side === undefined) return `The budget of ${name} is used up: ${spentText(level)}.`;
  const words = (amount: Amount): string => capText({ usd: null, tokens: null, [side]: amount[side] });
  const aside = kept[side] === 0 ? "" : `, of which ${words(kept)} are kept for last words`;
  return `The budget of ${name} does not pay for a single call: it is ${capText(cap)}${aside}, and the call needs at least ${words(needs)}.`;
}

const SIDES = ["usd", "tokens"] as const;

export const warningText = (level: LevelNow): string =>
  `⚠️ More than ${WARN_AT * 100} % of the budget of ${level.inChat ?? level.name} is used: ${spentText(level)}.`;

export const unpricedText = (model: string): string =>
  `A limit in USD applies here, and no price is known for ${model}: give it under models.providers.<name>.models[].cost, or set budgets.unpriced to "allow".`;

export const capText = ({ usd, tokens }: Cap): string =>
  [...(usd === null ? [] : [dollars(usd)]), ...(tokens === null ? [] : [`${tokenCount(tokens)} tokens`])].join(" and ") || "no limit";
