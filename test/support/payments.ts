// The real payments under settings without a limit, for parts that are wired by hand; or with the limits a test gives.

import type { BudgetSettings } from "../../src/budgets/levels.ts";
import { createPayments, type PaymentDeps, type Payments } from "../../src/budgets/payments.ts";

export const NO_LIMITS: BudgetSettings = {
  ...{ message: null, chatPerDay: null, personPerDay: null, agentPerDay: null, perDay: null, perMonth: null },
  unpriced: "refuse",
};

export const paymentsOf = (
  parts: Pick<PaymentDeps, "db" | "budgets" | "runs" | "clock" | "bus" | "failpoint">,
  limits: Partial<BudgetSettings> = {},
): Payments =>
  createPayments({
    ...{ db: parts.db, budgets: parts.budgets, runs: parts.runs, clock: parts.clock, bus: parts.bus, failpoint: parts.failpoint },
    settings: () => ({ ...NO_LIMITS, ...limits }),
    priceOf: () => () => null,
    isReachable: () => true,
    async say() {},
  });
