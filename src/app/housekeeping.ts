// Regular small chores: forgetting settled inbox and outbox rows that no replay can reach any more, mail that was read
// long ago, messages that change no more, settled questions and approvals of what is over, levels of budgets whose time is over, days of the ledger, files nobody needs any more, and letting the database tidy up. One loop for all.

import { type Clock, dayOf } from "../core/clock.ts";
import { errorText } from "../core/errors.ts";
import type { Logger } from "../core/logger.ts";
import { archiveDeleted } from "./deleted-chats.ts";
import type { Files } from "./files.ts";
import type { Stores } from "./store-parts.ts";

const EVERY_MS = 3_600_000;
/** Telegram keeps an update for a day and Slack retries for an hour; after a week of silence Telegram counts from a random id. */
const KEEP_MS = 6 * 24 * 3_600_000;

/** A month's level is touched as seldom as something is paid for: forgotten within its month, it would begin at nothing again. */
const KEEP_LEVELS_MS = 40 * 24 * 3_600_000;

/** A year and a month of what was used. */
const KEEP_LEDGER_MS = 400 * 24 * 3_600_000;

export interface HouseDeps {
  readonly stores: Stores;
  readonly clock: Clock;
  readonly log: Logger;
  readonly attaching: Pick<Files, "sweep">;
}

/** Runs until the signal aborts. */
export async function keepHouse({ stores, clock, log, attaching }: HouseDeps, signal: AbortSignal): Promise<void> {
  // A process before this one may have ended right behind the row that says so. It never rejects, and the first hour begins now.
  const begun = archiveDeleted(stores, log);
  while (!signal.aborted) {
    await clock.sleep(EVERY_MS, signal);
    if (signal.aborted) break;
    try {
      const before = clock.now() - KEEP_MS;
      await stores.inbox.purge(before);
      await stores.outbox.purge(before);
      await stores.mail.purge(before);
      await stores.tries.purge(before);
      // After the outbox: as long as its first posting is on record, a message that changes can't be posted anew under the same name.
      await stores.live.purge(before);
      await stores.questions.purge(before);
      await stores.rules.purge(before);
      await stores.budgets.purge(clock.now() - KEEP_LEVELS_MS);
      await stores.ledger.purge(dayOf(clock.now() - KEEP_LEDGER_MS));
      await archiveDeleted(stores, log);
      await attaching.sweep();
      await stores.db.optimize();
    } catch (error) {
      log.warn({ reason: errorText(error) }, "housekeeping was put off");
    }
  }
  await begun;
}
