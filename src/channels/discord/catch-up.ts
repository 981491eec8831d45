// After an outage that no session spans: what was said meanwhile is read channel by channel, from the last message that is on record.
// What may have come both ways is one row, by its id; what is told in the new session waits behind it, so that a channel keeps its order.

import { safeParse } from "../../core/safe-parse.ts";
import { explainFailure } from "./api.ts";
import { learnDirect, learnPlace } from "./journal.ts";
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
const GONE: ReadonlySet<number> = new Set([10_003, 50_001, 50_013, 403, 404]);
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
async function openDirectChats({ api, journal, people, signal }: Receiver): Promise<void> {
  const unknown = people().filter((person) => !journal.direct.has(person));
  for (const person of unknown.slice(0, MAX_OPENED)) {
    if (signal.aborted) return;
    try {
      const { id } = await api.users.createDM(person);
      learnPlace(journal, id, { kind: "dm" });
      learnDirect(journal, person, id);
    } catch (error) {
      // Nobody of that name, or nobody who takes messages: what can't be opened was not written in.
      if (explainFailure(error).kind !== "refused") throw error;
    }
  }
}

/** Threads that were begun meanwhile in a channel people may talk in: Discord lists them with their server. */
export async function catchUpThreads(receiver: Receiver, threads: readonly unknown[], since: number): Promise<void> {
  const { journal, listed } = receiver;
  const floor = laterOf(snowflakeAt(since - SKEW_MS), oldest(receiver));
  for (const one of threads) {
    const { id, parent_id: parent, last_message_id: last } = safeParse(channelSchema, one).data ?? {};
    if (id === undefined || typeof parent !== "string" || typeof last !== "string") continue;
    const isNews = isAfter(last, floor) && (journal.channels.get(id)?.last ?? null) === null;
    if (isNews && listed().includes(parent)) await readOn(receiver, id, floor);
  }
}

const oldest = ({ clock }: Receiver): string => snowflakeAt(clock.now() - MAX_GAP_MS);

async function readOn(receiver: Receiver, channel: string, from: string): Promise<void> {
  // Asked first: a message that is read doesn't say where it stands.
  if ((await placeFor(receiver, channel)) === null) return;
  let after = from;
  for (let page = 0; page < MAX_PAGES && !receiver.signal.aborted; page++) {
    const messages = await readPage(receiver, channel, after);
    if (messages === null) return void receiver.journal.channels.delete(channel);
    for (const message of messages) await takeMessage(receiver, message, null);
    after = messages.at(-1)?.id ?? after;
    if (messages.length < PAGE) return;
  }
  if (!receiver.signal.aborted) receiver.log.warn({ channel }, "too much was said while Discord was not heard; the rest is left out");
}

/** Oldest first; null: the channel is gone, or closed to us. */
async function readPage({ api, signal, clock }: Receiver, channel: string, after: string): Promise<{ id: string }[] | null> {
  for (;;) {
    try {
      const messages = await api.channels.getMessages(channel, { after, limit: PAGE });
      return [...messages].sort(byAge);
    } catch (error) {
      const failure = explainFailure(error);
      if (failure.kind === "refused" && GONE.has(failure.code)) return null;
      if (failure.kind !== "limited" || signal.aborted) throw error;
      await clock.sleep(Math.max(failure.afterMs, MIN_WAIT_MS), signal);
    }
  }
}
