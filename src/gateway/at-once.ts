// What is said on the page of a process that is alone is posted in the very transaction that says it: it is there as soon as the answer is
// recorded, and costs no transaction of its own. Asked at the end of each transaction, when all that belongs to it is written. Where
// several processes share a database it is delivery that posts it: the numbers of a chat must grow in commit order, and its lock
// (lock.page) can't be taken in the middle of a transaction. stores/transactions.ts → here → attempt.ts
import { addressKey } from "../core/address.ts";
import type { AppEvent } from "../core/events.ts";
import type { Tx } from "../stores/database.ts";
import { type AttemptDeps, type Posting, sayRow } from "./attempt.ts";

type Added = NonNullable<Extract<AppEvent, { type: "outbox.added" }>["message"]>;

/** Of what the transaction has to say, what is still to be said after it. */
export type AtOnce = (tx: Tx, events: readonly AppEvent[]) => Promise<AppEvent[]>;

export function createAtOnce(deps: Posting & Pick<AttemptDeps, "channel">): AtOnce {
  return async (tx, events) => {
    const left: AppEvent[] = [];
    // Posting adds events of its own, which are come to here as well.
    for (const event of events) {
      const message = event.type === "outbox.added" ? event.message : undefined;
      if (message === undefined || !(await postAll(deps, tx, message))) left.push(event);
    }
    return left;
  };
}

/**
 * False: delivery does the rest, because something that was said before waits there, or this was taken back. What is read here stays as it
 * is until the transaction is over: a process that is alone does one at a time.
 */
async function postAll(deps: Posting & Pick<AttemptDeps, "channel">, tx: Tx, { delivery, address }: Added): Promise<boolean> {
  const channel = deps.channel(address.channel, address.account);
  if (channel?.postIn === undefined) return false;
  for (;;) {
    const row = await deps.outbox.head(addressKey(address));
    if (row?.delivery !== delivery || row.isDamaged) return false;
    await sayRow(deps, tx, row, channel.postIn);
    if (row.n === row.parts - 1) return true;
  }
}
