// Regular small chores: forgetting settled inbox and outbox rows that no replay can reach any more, and mail that was read
// long ago, and letting SQLite tidy up. One loop for all of them.
import type { Clock } from "../core/clock.ts";
import { errorText } from "../core/errors.ts";
import type { Logger } from "../core/logger.ts";
import type { Stores } from "./store-parts.ts";

const EVERY_MS = 3_600_000;
/** Telegram keeps an update for a day and Slack retries for an hour; after a week of silence Telegram counts from a random id. */
const KEEP_MS = 6 * 24 * 3_600_000;

/** Runs until the signal aborts. */
export async function keepHouse(stores: Stores, clock: Clock, log: Logger, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await clock.sleep(EVERY_MS, signal);
    if (signal.aborted) return;
    try {
      const before = clock.now() - KEEP_MS;
      await stores.inbox.purge(before);
      await stores.outbox.purge(before);
      await stores.mail.purge(before);
      await stores.tries.purge(before);
      await stores.db.optimize();
    } catch (error) {
      log.warn({ reason: errorText(error) }, "housekeeping was put off");
    }
  }
}
