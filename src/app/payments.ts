// Settings → who pays for what: the limits as they are now, prices by a model's name, and the words a chat is told.
import { createPayments, type Payments } from "../budgets/payments.ts";
import { type Cap, toCap } from "../core/budget.ts";
import type { Base } from "./base.ts";
import type { Channels } from "./channels.ts";
import type { ModelParts } from "./models.ts";
import type { Stores } from "./store-parts.ts";

export interface PaymentPartsDeps extends Pick<Base, "config" | "clock" | "bus" | "failpoint"> {
  readonly stores: Stores;
  readonly channels: Channels;
  readonly priceOf: ModelParts["priceOf"];
}

export function createPaymentParts(deps: PaymentPartsDeps): Payments {
  const { stores, channels } = deps;
  const cap = (written: Parameters<typeof toCap>[0] | undefined): Cap | null => (written === undefined ? null : toCap(written));
  return createPayments({
    ...{ db: stores.db, budgets: stores.budgets, runs: stores.runs, clock: deps.clock, bus: deps.bus, failpoint: deps.failpoint },
    priceOf: deps.priceOf,
    settings() {
      const { message, chatPerDay, personPerDay, agentPerDay, perDay, perMonth, unpriced } = deps.config().budgets;
      return {
        ...{ message: cap(message), chatPerDay: cap(chatPerDay), personPerDay: cap(personPerDay), agentPerDay: cap(agentPerDay) },
        ...{ perDay: cap(perDay), perMonth: cap(perMonth), unpriced },
      };
    },
    isReachable: ({ channel, account }) => channels.find(channel, account) !== null,
    async say(tx, address, { delivery, markdown }) {
      const channel = channels.find(address.channel, address.account);
      if (channel !== null) await stores.outbox.add(tx, { delivery, address, parts: channel.render({ markdown }, address) });
    },
  });
}
