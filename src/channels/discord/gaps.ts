// Channels with a gap: something may have been said there that no session brings. One that can't be read must not keep the others from
// being heard, so each has a gap of its own, which is on record with the journal until it is read (catch-up.ts). What is told of such a
// channel meanwhile waits for that, in memory or in Discord's history alone; so the session goes on, and the channel keeps its order.

import type { Clock } from "../../core/clock.ts";
import { safeParse } from "../../core/safe-parse.ts";
import { createGap, type Gap, type Journal, learnDirect, learnPlace, type Span } from "./journal.ts";
import { channelSchema, DIRECT, type DiscordMessage } from "./payload.ts";
import { isAfter, laterOf, snowflakeAt } from "./snowflake.ts";

/** As long as Telegram keeps what was not fetched: to answer what somebody asked last week helps nobody. */
const MAX_GAP_MS = 24 * 3_600_000;
/** Discord's clock and ours may differ. */
const SKEW_MS = 60_000;
/** Who opens many direct chats is taken for a nuisance. */
const MAX_OPENED = 10;
/** In all channels together. */
const MAX_TOLD = 500;

/** What of the receive side knows what is missing. */
export interface Listening {
  readonly clock: Clock;
  readonly journal: Journal;
  /** Channels of servers that people may talk in. */
  listed(): readonly string[];
  /** Who may write to us directly, by their ids, as far as the settings say. */
  people(): readonly string[];
  /** There is a gap that nobody reads yet. */
  gapOpened(): void;
}

/** Nobody tells what was said between `since` and now. */
export function openGaps(side: Listening, since: number): void {
  const { journal, listed, people } = side;
  // One that is being read may be asked for already, and the answer lack what was said between then and this session.
  for (const gap of journal.gaps.values()) gap.isBehind = true;
  const known = [...journal.channels].flatMap(([channel, { last }]) => (last === null ? [] : [channel]));
  const span = spanOf(side, since);
  for (const channel of new Set([...known, ...journal.direct.values(), ...listed()]))
    if (!journal.gaps.has(channel)) journal.gaps.set(channel, createGap(span));
  // Discord lists no direct chats: what somebody said in their first one would be lost with the session.
  const unknown = people().filter((person) => !journal.direct.has(person) && !journal.unopened.has(person));
  const room = Math.max(0, MAX_OPENED - journal.unopened.size);
  for (const person of unknown.slice(0, room)) journal.unopened.set(person, span);
  side.gapOpened();
}

/**
 * Threads that were begun meanwhile in a channel people may talk in: Discord lists them with their server. True: there is something to
 * read.
 */
export function openThreads(side: Listening, threads: readonly unknown[], since: number): boolean {
  const { journal, listed } = side;
  const found = threads.flatMap((one) => {
    const { id, parent_id: parent, last_message_id: last } = safeParse(channelSchema, one).data ?? {};
    if (id === undefined || typeof parent !== "string" || typeof last !== "string") return [];
    const span = spanOf(side, since);
    const isNew = isAfter(last, startOf(side, id, span)) && !journal.gaps.has(id) && listed().includes(parent);
    return isNew ? [openGap(side, id, span)] : [];
  });
  return found.length > 0;
}

/** A gap that is open stays as it is. */
export function openGap(side: Listening, channel: string, span: Span): Gap {
  const { gaps } = side.journal;
  const gap = gaps.get(channel) ?? createGap(span);
  gaps.set(channel, gap);
  side.gapOpened();
  return gap;
}

const spanOf = ({ clock }: Listening, since: number): Span => ({
  from: laterOf(snowflakeAt(since - SKEW_MS), "1"),
  until: laterOf(snowflakeAt(clock.now() - SKEW_MS), "1"),
});

/** The id behind which a channel is read. */
export function startOf({ journal, clock }: Listening, channel: string, { from }: Span): string {
  return laterOf(journal.channels.get(channel)?.last ?? from, snowflakeAt(clock.now() - MAX_GAP_MS));
}

/** A person's direct chat is found, by asking for it or because they wrote: from here on it is a channel like others. */
export function openDirectChat(side: Listening, person: string, channel: string): Gap | null {
  const { journal } = side;
  const span = journal.unopened.get(person);
  if (span === undefined) return null;
  journal.unopened.delete(person);
  learnPlace(journal, channel, DIRECT);
  learnDirect(journal, person, channel);
  return openGap(side, channel, span);
}

/**
 * Recorded at once, what is told in a channel with a gap would stand before what was missed, and be taken for the channel's last message:
 * killed then, nobody would read the rest. So it waits; that it was told counts all the same, because the gap is on record.
 */
export function waitsForReading(
  side: Listening,
  { channel_id: channel, author }: DiscordMessage,
  { payload, isDirect }: { payload: unknown; isDirect: boolean },
): boolean {
  const { journal } = side;
  const { gaps } = journal;
  const gap = gaps.get(channel) ?? (isDirect ? openDirectChat(side, author.id, channel) : null);
  if (gap === null) return false;
  if (isDirect) learnPlace(journal, channel, DIRECT);
  const held = [...gaps.values()].reduce((sum, { told }) => sum + told.length, 0);
  // What is left out stands in the channel's history, before what is kept behind it: nothing kept is recorded until that is read anew, or
  // it would be the last message, and what was left out lie before the place to read on from.
  if (held >= MAX_TOLD) gap.isBehind = true;
  else gap.told.push({ payload, isDirect });
  return true;
}
