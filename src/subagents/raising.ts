// Raising a run's limit (BG6): by a person only, in one transaction with its going on. The button below an announcement names the run and
// its generation: pressed twice, or by two people, it finds the run raised and says by whom.

import { isOwnLimit, TWICE } from "../budgets/words.ts";
import { type Cap, microUsd } from "../core/budget.ts";
import { isUnfinished, type Run } from "../core/run.ts";
import type { Tx } from "../stores/database.ts";
import type { SubagentDeps } from "./deps.ts";
import type { Steering } from "./steering.ts";

/** `+0.50` dollars, `+20k` or `+20000` tokens, `x2`; null: none of them. */
export function readAmount(text: string): Cap | typeof TWICE | null {
  if (text === TWICE) return TWICE;
  const tokens = /^\+?(\d{1,12}(?:\.\d{1,3})?)k$|^\+?(\d{3,15})$/i.exec(text);
  const count = tokens === null ? 0 : tokens[1] === undefined ? Number(tokens[2]) : Math.round(Number(tokens[1]) * 1000);
  if (tokens !== null) return count === 0 ? null : { usd: null, tokens: count };
  const usd = /^\+?\$?(\d{1,7}(?:\.\d{1,6})?)$/.exec(text)?.[1];
  return usd === undefined || Number(usd) === 0 ? null : { usd: microUsd(Number(usd)), tokens: null };
}

export type Raised = { readonly run: Run; readonly budget: Cap; readonly goesOn: boolean } | { readonly refused: string };

export interface RaiseRequest {
  readonly by: string;
  readonly amount: Cap | typeof TWICE;
  /** Of a button: the generation it was made for. */
  readonly generation: number | null;
}

/** A bare number is tokens from three digits on: who means dollars has to hear how those are written. */
const IN_USD = "Its limit is in USD: write `+0.50` or `+$100`.";
const IN_TOKENS = "Its limit is in tokens: write `+20k` or `+500`.";
const GO_ON = "Your budget was raised. Go on where you left off.";

export async function raise(
  deps: Pick<SubagentDeps, "runs"> & { readonly steering: Pick<Steering, "send" | "isLanding"> },
  tx: Tx,
  found: Run,
  { by, amount: wanted, generation }: RaiseRequest,
): Promise<Raised> {
  // As it is now: two may press in the same moment, and the second finds what the first has done.
  const run = (await deps.runs.get(found.id)) ?? found;
  const { budget } = run;
  if (budget === null) return { refused: "It has no limit of its own." };
  if (generation !== null && generation !== run.generation)
    return { refused: budget.raised?.generation === generation ? `Already raised by ${budget.raised.by}.` : "That run has gone on since." };
  const amount = wanted === TWICE ? budget : wanted;
  const sum = (one: number | null, more: number | null): number | null => (one === null ? null : one + (more ?? 0));
  if ((amount.usd !== null && budget.usd === null) || (amount.tokens !== null && budget.tokens === null))
    return { refused: budget.usd === null ? IN_TOKENS : IN_USD };
  const raised = {
    usd: sum(budget.usd, amount.usd),
    tokens: sum(budget.tokens, amount.tokens),
    raised: { by, generation: run.generation },
  };
  const goesOn = !isUnfinished(run.state) && isOwnLimit(run.reason);
  // First: what can't go on is not raised either, or each press that is refused would raise it once more.
  // At its last word it would end for want of what it has by now: it reads this before it ends, and goes on.
  const sent = goesOn || (await deps.steering.isLanding(run)) ? await deps.steering.send(tx, run, by, GO_ON) : null;
  if (sent !== null && typeof sent === "object") return sent;
  await deps.runs.setBudget(tx, run.id, raised);
  return { run, budget: raised, goesOn };
}
