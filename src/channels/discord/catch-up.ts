// After an outage that no session spans: what was said meanwhile is read, each channel by itself, from the last message that is on record,
// and tried again until it can be. What may have come both ways is one row, by its id; what is told in the new session comes behind it.

import { errorText } from "../../core/errors.ts";
import type { ApiFailure } from "./api.ts";
import { backOff, Unanswered } from "./ask.ts";
import { openDirectChat, startOf } from "./gaps.ts";
import { advance, forgetLast, type Gap } from "./journal.ts";
import { DIRECT, type Place } from "./payload.ts";
import { fetchPlace, isWriteDue, knownPlace, type Receiver, takeRead, writeJournal } from "./receive.ts";
import { byAge, isAfter } from "./snowflake.ts";

const PAGE = 100;
/** Of what no session told. */
const MAX_PAGES = 50;

/** Begins to read what nobody reads yet. Returns at once. */
export function readGaps(receiver: Receiver): void {
  const { gaps, unopened } = receiver.journal;
  for (const channel of gaps.keys())
    begin(receiver, channel, { isOpen: () => gaps.has(channel), attempt: () => fillGap(receiver, channel) });
  for (const person of unopened.keys())
    begin(receiver, `person:${person}`, { isOpen: () => unopened.has(person), attempt: () => findDirectChat(receiver, person) });
}

interface Task {
  isOpen(): boolean;
  attempt(): Promise<void>;
}

function begin(receiver: Receiver, key: string, task: Task): void {
  if (!receiver.underWay.has(key) && !receiver.signal.aborted) receiver.underWay.set(key, keepTrying(receiver, key, task));
}

/** Until it is closed, or all is over. Never throws. */
async function keepTrying({ clock, signal, log, underWay, unread }: Receiver, key: string, { isOpen, attempt }: Task): Promise<void> {
  for (let failures = 0; isOpen() && !signal.aborted; ) {
    try {
      await attempt();
      failures = 0;
      unread.delete(key);
    } catch (error) {
      if (signal.aborted) break;
      failures++;
      const failure = error instanceof Unanswered ? error.failure : null;
      const reason = failure?.reason ?? `can't record what was said: ${errorText(error)}`;
      const delayMs = delayFor(failure, failures);
      // With all of Discord out of reach, it is not a line for each.
      log[unread.size === 0 ? "warn" : "debug"]({ of: key, reason, delayMs }, "what was missed on Discord can't be read yet; trying again");
      unread.set(key, reason);
      await clock.sleep(delayMs, signal);
    }
  }
  // In the same moment as isOpen was asked: opened again a moment later it would be taken for being read, and nobody would.
  underWay.delete(key);
  unread.delete(key);
}

/** Also a limit: one that is never over is asked for less and less. */
const delayFor = (failure: ApiFailure | null, failures: number): number =>
  Math.max(failure?.kind === "limited" ? failure.afterMs : 0, backOff(failures));

/** It can be opened any number of times, and is the same one. */
async function findDirectChat(receiver: Receiver, person: string): Promise<void> {
  const opened = await receiver.ask(`person:${person}`, () => receiver.api.users.createDM(person));
  if (opened !== null) openDirectChat(receiver, person, opened.id);
  // Nobody of that name, or nobody who takes messages: what can't be opened was not written in.
  else if (receiver.journal.unopened.delete(person)) await noteClosed(receiver);
}

/** Throws when it can't be read to the end, or the disk refuses: then it is still open. */
async function fillGap(receiver: Receiver, channel: string): Promise<void> {
  const { journal, signal } = receiver;
  const gap = journal.gaps.get(channel);
  if (gap === undefined) return;
  gap.isBehind = false;
  const place = await readOn(receiver, channel, gap);
  // A message that comes while the last page is on its way may be missing in it, and finds the gap open: it is in `told`, and recorded
  // here. Between "nothing is left" and the end of the gap there is no await, or one could come in between and be lost.
  while (!gap.isBehind) {
    signal.throwIfAborted();
    const [told] = gap.told;
    if (told === undefined) {
      journal.gaps.delete(channel);
      return noteClosed(receiver);
    }
    const its = told.isDirect ? DIRECT : place;
    if (its !== null) await takeRead(receiver, told.payload, its);
    gap.told.shift();
  }
}

async function noteClosed(receiver: Receiver): Promise<void> {
  if (!isWriteDue(receiver)) return;
  try {
    await writeJournal(receiver);
  } catch (error) {
    receiver.log.debug({ err: error }, "how far Discord was read could not be recorded");
  }
}

/** Where that is; null: it is no place of ours any more. */
async function readOn(receiver: Receiver, channel: string, gap: Gap): Promise<Place | null> {
  const { journal, signal, api, log, ask } = receiver;
  // Asked first: a message that is read doesn't say where it stands.
  const place = knownPlace(receiver, channel) ?? (await ask(channel, () => fetchPlace(receiver, channel)));
  if (place === null) return null;
  for (let after = startOf(receiver, channel, gap); ; ) {
    const from = after;
    const messages = await ask(channel, () => api.channels.getMessages(channel, { after: from, limit: PAGE }));
    // Gone, closed to us, or one that holds no messages (a forum has its threads).
    if (messages === null) {
      forgetLast(journal, channel);
      return place;
    }
    const inOrder = [...messages].sort(byAge);
    for (const message of inOrder) {
      signal.throwIfAborted();
      await takeRead(receiver, message, place);
    }
    after = inOrder.at(-1)?.id ?? after;
    gap.pages++;
    if (gap.pages >= MAX_PAGES && inOrder.length === PAGE && isAfter(gap.until, after)) {
      log.warn({ channel }, "too much was said while Discord was not heard; the rest of it is left out");
      after = gap.until;
    }
    // Also when it is our own: what is read is not read again.
    if (isAfter(after, startOf(receiver, channel, gap))) advance(journal, { seq: null, said: { channel, id: after, place } });
    if (inOrder.length < PAGE) return place;
  }
}
