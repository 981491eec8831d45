// Carrying a command out and answering it: effect, answer and the done row are one transaction, so that a replayed command finds
// its row done and does nothing. gateway.ts → here → commands, outbox
import type { Clock } from "../core/clock.ts";
import { isStorageError, publicErrorText } from "../core/errors.ts";
import type { HitFailpoint } from "../core/failpoints.ts";
import type { Logger } from "../core/logger.ts";
import type { Channel, Inbound } from "../core/message.ts";
import type { Database, Tx } from "../stores/database.ts";
import type { Inbox, InboxRow } from "../stores/inbox.ts";
import { lock } from "../stores/lock-keys.ts";
import type { Outbox } from "../stores/outbox.ts";
import type { Answer } from "./commands.ts";

export interface AnsweringDeps {
  readonly db: Database;
  readonly inbox: Inbox;
  readonly outbox: Outbox;
  readonly clock: Clock;
  readonly log: Logger;
  readonly failpoint: HitFailpoint;
}

/** What somebody said, and where. */
export interface Item {
  readonly row: InboxRow;
  readonly channel: Channel;
  readonly inbound: Inbound;
  /** Of the chat it came from: what a command does is done to its tree. */
  readonly sessionKey: string;
}

export interface CommandRun {
  /** It waits for a model: it is answered whenever it is done, and nobody waits for it. */
  readonly isSlow: boolean;
  run(): Promise<Answer>;
  /** A slow one came to its end, well or not. */
  onOver(): Promise<void>;
}

export interface Answering {
  answer(item: Item, done: Answer): Promise<void>;
  /** The same, as part of the caller's transaction. */
  record(tx: Tx, item: Item, done: Answer): Promise<void>;
  /**
   * Answered on return, unless it is slow: a /stop must take effect before the next row is looked at, or it would drop what came
   * after it in the same batch. Throws when the disk refuses and it is worth another try.
   */
  carryOut(item: Item, command: CommandRun): Promise<"over" | "later">;
  /** Resolves when the slow ones are answered. */
  idle(): Promise<void>;
}

const STORAGE_RETRY_MS = 5_000;
const MAX_TRIES = 3;

export function createAnswering(deps: AnsweringDeps, stopped: AbortSignal): Answering {
  const slow = new Set<Promise<void>>();
  /** The command the disk spoiled last, and how often. */
  let spoiled: { readonly rowId: number; readonly times: number } | null = null;
  const mayTryAgain = (rowId: number): boolean => {
    spoiled = { rowId, times: spoiled?.rowId === rowId ? spoiled.times + 1 : 1 };
    return spoiled.times < MAX_TRIES;
  };
  const carryOutNow = async (item: Item, run: CommandRun["run"]): Promise<void> => {
    try {
      await answer(deps, item, await run());
    } catch (error) {
      // Tried again as a whole: what it has done already it finds done. But not for ever: others wait behind it.
      if (isStorageError(error) && mayTryAgain(item.row.id)) throw error;
      await answer(deps, item, failed(deps, item, error));
    }
  };
  return {
    answer: (item, done) => answer(deps, item, done),
    record: (tx, item, done) => record(deps, tx, item, done),
    async carryOut(item, { isSlow, run, onOver }) {
      if (!isSlow) {
        await carryOutNow(item, run);
        return "over";
      }
      const over = carryOutSlowly(deps, stopped, item, run)
        .finally(onOver)
        .catch((error: unknown) => deps.log.error({ err: error, inboxId: item.row.id }, "an answer could not be recorded"));
      const tracked = over.finally(() => slow.delete(tracked));
      slow.add(tracked);
      return "later";
    },
    async idle() {
      await Promise.all(slow);
    },
  };
}

/** Nobody runs the command again, so its answer waits for the disk. */
async function carryOutSlowly(deps: AnsweringDeps, stopped: AbortSignal, item: Item, run: CommandRun["run"]): Promise<void> {
  const done = await run().catch((error: unknown) => failed(deps, item, error));
  for (;;) {
    try {
      return await answer(deps, item, done);
    } catch (error) {
      if (!isStorageError(error) || stopped.aborted) throw error;
      deps.log.error({ err: error, inboxId: item.row.id }, "an answer could not be recorded; trying again");
      await deps.clock.sleep(STORAGE_RETRY_MS, stopped);
    }
  }
}

async function answer(deps: AnsweringDeps, item: Item, done: Answer): Promise<void> {
  deps.failpoint("command.before-commit");
  const { address } = item.inbound;
  const locks = [lock.tree(item.sessionKey), lock.chat(address), ...lock.pageOf(address)];
  await deps.db.transaction(locks, (tx) => record(deps, tx, item, done));
  deps.failpoint("command.committed");
}

async function record({ inbox, outbox }: AnsweringDeps, tx: Tx, { row, channel, inbound }: Item, done: Answer): Promise<void> {
  if (!(await inbox.finish(tx, row.id))) return;
  const markdown = "act" in done ? await done.act(tx) : done.text;
  if (markdown === null) return;
  const { ref, onlyTo, address } = inbound;
  const message = { markdown, ...(ref === undefined ? {} : { replyTo: ref }), ...(onlyTo === undefined ? {} : { onlyTo }) };
  const parts = channel.render(message, address);
  await outbox.add(tx, { delivery: `answer:${row.id}`, address, parts, isAnswer: true });
}

function failed({ log }: AnsweringDeps, item: Item, error: unknown): Answer {
  log.error({ err: error, inboxId: item.row.id }, "a command failed");
  return { text: `⚠️ That did not work: ${publicErrorText(error)}` };
}
