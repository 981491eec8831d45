// The poll loop: getUpdates → inbox rows and the next offset in one transaction → the next getUpdates, which is what
// confirms them. Killed anywhere, the stored offset decides: what was not recorded comes again, what was doesn't.

import type { Update } from "grammy/types";
import type { Api } from "grammy/web";
import { errorText } from "../../core/errors.ts";
import { heldUpdates } from "./albums.ts";
import { type ApiFailure, asGrammySignal, explainFailure } from "./api.ts";
import { ALLOWED_UPDATES, createBackoff, isUpdate, learnMe, type Receiver, takeUpdates } from "./receive.ts";

export interface PollOptions {
  /** A client whose timeout is longer than a poll. */
  readonly api: Api;
  readonly pollSeconds: number;
}

interface Offset {
  readonly value: number;
  readonly at: number;
}

/** After a week without updates Telegram goes on at a random id: an old offset could confirm a new update away unseen. */
const OFFSET_LIFE_MS = 5 * 24 * 3_600_000;
/** A poll that neither answers nor fails for so long is dead, whatever the client believes. */
const WATCHDOG_MS = 90_000;
/** An answer that comes back empty at once (a proxy, a stand-in server) must not make the loop spin. */
const MIN_EMPTY_POLL_MS = 200;
const ALBUM_MS = 500;
const BATCH = 100;

/** Ends when the receiver's signal aborts. Never throws. */
export async function poll(receiver: Receiver, options: PollOptions): Promise<void> {
  const { signal, clock } = receiver;
  const me = await learnMe(receiver);
  if (me === null) return;
  const backoff = createBackoff(receiver);
  let offset: Offset | null = null;
  let ready = false;
  // Asked without waiting first, so that /status knows at once whether polling works.
  let proven = false;
  while (!signal.aborted) {
    const startedAt = clock.now();
    try {
      if (!ready) {
        offset = await storedOffset(receiver);
        const left = await heldUpdates(receiver);
        if (left.length > 0) await record(() => takeUpdates(receiver, me, left));
        await receiver.api.deleteWebhook({}, asGrammySignal(signal));
        ready = true;
      }
      const fresh = offset !== null && startedAt - offset.at < OFFSET_LIFE_MS ? offset.value : undefined;
      const updates = await fetchBatch(receiver, proven ? options : { ...options, pollSeconds: 0 }, fresh);
      if (signal.aborted) return;
      if (updates.length > 0) {
        const next = Math.max(...updates.map((update) => update.update_id)) + 1;
        await record(() => takeUpdates(receiver, me, updates, String(next)));
        offset = { value: next, at: clock.now() };
      }
      proven = true;
      backoff.reset();
      receiver.show("on");
      if (updates.length === 0 && clock.now() - startedAt < MIN_EMPTY_POLL_MS) await clock.sleep(MIN_EMPTY_POLL_MS, signal);
    } catch (error) {
      proven = false;
      if (!signal.aborted) await backoff.wait(error instanceof PollFailure ? error.failure : explainFailure(error));
    }
  }
}

async function storedOffset(receiver: Receiver): Promise<Offset | null> {
  const cursor = await receiver.inbox.cursor();
  const value = Number(cursor?.value);
  return cursor === null || !Number.isSafeInteger(value) ? null : { value, at: cursor.at };
}

/** A poll ends with the first picture of an album: nothing is confirmed yet, so a moment later the whole album can be asked for. */
async function fetchBatch(receiver: Receiver, options: PollOptions, offset: number | undefined): Promise<Update[]> {
  const updates = await fetchUpdates(receiver, options, offset);
  if (updates.at(-1)?.message?.media_group_id === undefined) return updates;
  await receiver.clock.sleep(ALBUM_MS, receiver.signal);
  return fetchUpdates(receiver, { ...options, pollSeconds: 0 }, offset);
}

/** One long poll, given up by the watchdog when it hangs in spite of the client's own timeout. */
async function fetchUpdates(receiver: Receiver, options: PollOptions, offset: number | undefined): Promise<Update[]> {
  const ended = new AbortController();
  const signal = AbortSignal.any([receiver.signal, ended.signal]);
  const watchdog = receiver.clock.sleep(WATCHDOG_MS, signal);
  const dead = watchdog.then(() => {
    if (signal.aborted) return new Promise<never>(() => {});
    throw new PollFailure({ kind: "lost", reason: "the poll was dead" });
  });
  const payload = {
    limit: BATCH,
    timeout: options.pollSeconds,
    allowed_updates: ALLOWED_UPDATES,
    ...(offset === undefined ? {} : { offset }),
  };
  try {
    return (await Promise.race([options.api.getUpdates(payload, asGrammySignal(signal)), dead])).filter(isUpdate);
  } finally {
    ended.abort();
  }
}

/** A failure that isn't Telegram's answer: a dead poll, a refusing disk. */
class PollFailure extends Error {
  readonly failure: ApiFailure;
  constructor(failure: ApiFailure, options?: ErrorOptions) {
    super(failure.reason, options);
    this.name = "PollFailure";
    this.failure = failure;
  }
}

/** When the disk refuses, nothing may be confirmed: the same updates are fetched again. */
async function record(put: () => Promise<void>): Promise<void> {
  try {
    await put();
  } catch (error) {
    throw new PollFailure({ kind: "offline", reason: `can't record updates: ${errorText(error)}` }, { cause: error });
  }
}
