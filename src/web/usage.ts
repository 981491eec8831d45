// What was used, as the page plots it: by day, and told apart by model, agent, person or channel. The source is an argument
// (app/usage-desk.ts).
import type { BudgetLine } from "./board.ts";

export const USAGE_DAYS = [7, 30, 90] as const;
export const USAGE_BY = ["all", "model", "agent", "person", "channel"] as const;
export type UsageBy = (typeof USAGE_BY)[number];

export interface UsageSum {
  readonly input: number;
  readonly output: number;
  readonly calls: number;
  readonly runs: number;
  /** Of the calls for which a price is known; null: of none of them. */
  readonly costUsd: number | null;
  /** Calls for which none is known. */
  readonly unpriced: number;
}

export interface UsageSeries {
  /** Null: all that have no place of their own. */
  readonly name: string | null;
  readonly label: string;
  readonly total: UsageSum;
  /** One for each day, in their order; null: nothing on that day. */
  readonly days: readonly (UsageSum | null)[];
}

export interface UsageBudget extends BudgetLine {
  /** `$0.38 and 2k tokens` */
  readonly left: string;
}

export interface UsageView {
  readonly by: UsageBy;
  /** `2026-01-31`, UTC's, as budgets count them; the last one is today. */
  readonly days: readonly string[];
  /** Those that used most first. */
  readonly series: readonly UsageSeries[];
  readonly total: UsageSum;
  /** How many have no place of their own. */
  readonly others: number;
  readonly budgets: readonly UsageBudget[];
}

export interface UsageDesk {
  read(options: { readonly days: number; readonly by: UsageBy }): Promise<UsageView>;
}
