// After an outage that no session spans: what was said meanwhile is read channel by channel, from the last message that is on record.
// What may have come both ways is one row, by its id; what is told in the new session waits behind it, so that a channel keeps its order.

import { safeParse } from "../../core/safe-parse.ts";
import { explainFailure } from "./api.ts";
import { advance, learnDirect, learnPlace } from "./journal.ts";
import { channelSchema } from "./payload.ts";
import { placeFor, type Receiver, takeMessage } from "./receive.ts";
import { byAge, isAfter, laterOf, snowflakeAt } from "./snowflake.ts";

/** As long as Telegram keeps what was not fetched: to answer what somebody asked last week helps nobody. */
const MAX_GAP_MS = 24 * 3_600_000;
/** Discord's clock and ours may differ. */
const SKEW_MS = 60_000;
const PAGE = 100;
const MAX_PAGES = 50;
const MAX_OPENED = 10;
const MIN_WAIT_MS = 500;

/** Throws when it can't be read to the end, or the disk refuses: then it is still missing. */
export async function catchUp(receiver: Receiver, since: number): Promise<void> {
  const { journal, listed } = receiver;
  await openDirectChats(receiver);
  const known = [...journal.channels].flatMap(([channel, { last }]) => (last === null ? [] : [channel]));
  for (const channel of new Set([...known, ...journal.direct.values(), ...listed()])) {
    const last = journal.channels.get(channel)?.last ?? null;
    await readOn(receiver, channel, laterOf(last ?? snowflakeAt(since - SKEW_MS), oldest(receiver)));
    if (receiver.signal.aborted) return;
  }
}

/**
 * Discord lists no direct chats: what somebody said in their first one would be lost with the session. It can be opened any number of
 * times, and is the same one; but who opens many is taken for a nuisance.
 */
async function openDirectChats(receiver: Receiver): Promise<void> {
  const { api, journal, people, signal } = receiver;
  const unknown = people().filter((person) => !journal.direct.has(person));
  for (const person of unknown.slice(0, MAX_OPENED)) {
    if (signal.aborted) return;
    const opened = await askPatiently(receiver, () => api.users.createDM(person));
    // Nobody of that name, or nobody who takes messages: what can't be opened was not written in.
    if (opened === null) continue;
    learnPlace(journal, opened.id, { kind: "dm" });
    learnDirect(journal, person, opened.id);
  }
}

/**
 * Threads that were begun meanwhile in a channel people may talk in: Discord lists them with their server. Of one that somebody began to
 * read, and was killed, the rest is read.
 */
export async function catchUpThreads(receiver: Receiver, threads: readonly unknown[], since: number): Promise<void> {
  const { journal, listed } = receiver;
  for (const one of threads) {
    const { id, parent_id: parent, last_message_id: last } = safeParse(channelSchema, one).data ?? {};
    if (id === undefined || typeof parent !== "string" || typeof last !== "string") continue;
    const from = laterOf(journal.channels.get(id)?.last ?? snowflakeAt(since - SKEW_MS), oldest(receiver));
    if (isAfter(last, from) && listed().includes(parent)) await readOn(receiver, id, from);
  }
}

const oldest = ({ clock }: Receiver): string => snowflakeAt(clock.now() - MAX_GAP_MS);

async function readOn(receiver: Receiver, channel: string, from: string): Promise<void> {
  // Asked first: a message that is read doesn't say where it stands.
  const place = await placeFor(receiver, channel);
  if (place === null) return;
  let after = from;
  for (let page = 0; page < MAX_PAGES && !receiver.signal.aborted; page++) {
    const messages = await readPage(receiver, channel, after);
    if (messages === null) return void receiver.journal.channels.delete(channel);
    for (const message of messages) await takeMessage(receiver, message, null);
    const last = messages.at(-1)?.id;
    // Also when it is our own: what is read is not read again.
    if (last !== undefined) advance(receiver.journal, { seq: null, said: { channel, id: last, place } });
    after = last ?? after;
    if (messages.length < PAGE) return;
  }
  if (!receiver.signal.aborted) receiver.log.warn({ channel }, "too much was said while Discord was not heard; the rest is left out");
}

/** Oldest first; null: the channel is gone, closed to us, or one that holds no messages (a forum has its threads). */
async function readPage(receiver: Receiver, channel: string, after: string): Promise<{ id: string }[] | null> {
  const messages = await askPatiently(receiver, () => receiver.api.channels.getMessages(channel, { after, limit: PAGE }));
  return messages === null ? null : [...messages].sort(byAge);
}

/** Null: Discord refuses it, which it would do the next time, too; nothing else must wait for that. Throws when it can't be asked. */
async function askPatiently<T>({ signal, clock }: Receiver, ask: () => Promise<T>): Promise<T | null> {
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      const failure = explainFailure(error);
      if (failure.kind === "refused") return null;
      if (failure.kind !== "limited" || signal.aborted) throw error;
      await clock.sleep(Math.max(failure.afterMs, MIN_WAIT_MS), signal);
    }
  }
}
