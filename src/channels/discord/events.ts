// What an event of the gateway means for the receive side. Each is looked at in the order it was told, and counts as heard only then:
// the number it has in its session goes on record behind it, so that whoever connects next asks for what is missing.
import { openGaps, openThreads } from "./gaps.ts";
import { advance } from "./journal.ts";
import { learnChannels, type Receiver, takeInteraction, takeTold, writeJournal } from "./receive.ts";

/** As much of it as is read. */
export interface Dispatch {
  readonly t: string;
  readonly s: number;
  readonly d: unknown;
}

interface Taken {
  /** Under way already, because Discord doesn't wait for it. */
  readonly seen: Promise<void> | null;
  /** In its turn. Throws when it is not on record: then nothing behind it counts either. */
  work(): Promise<void>;
}

export function takeEvent(receiver: Receiver, { t, s, d }: Dispatch): Taken {
  const seen = t === "INTERACTION_CREATE" ? takeInteraction(receiver, d) : null;
  const work = async (): Promise<void> => {
    await (seen ?? handle(receiver, t, d, s));
    advance(receiver.journal, { seq: s });
  };
  return { seen, work };
}

async function handle(receiver: Receiver, type: string, d: unknown, seq: number): Promise<void> {
  if (type === "READY") receiver.unlisted = new Set(listOf(d, "guilds").map(idOf));
  // Before anything that the session tells, also when it is taken up again before this was done: a channel is read on from its last
  // message, and what comes later must not be that.
  await noteGap(receiver);
  switch (type) {
    case "MESSAGE_CREATE":
      return takeTold(receiver, d, seq);
    case "GUILD_CREATE":
      return takeServer(receiver, d);
    case "CHANNEL_CREATE":
    case "CHANNEL_UPDATE":
    case "THREAD_CREATE":
    case "THREAD_UPDATE":
      return learnChannels(receiver, [d]);
    case "THREAD_LIST_SYNC":
      return learnChannels(receiver, listOf(d, "threads"));
  }
}

/** On record before anything of the session counts: whoever is killed behind it must know which channels are still to be read. */
async function noteGap(receiver: Receiver): Promise<void> {
  const { journal, clock } = receiver;
  const since = journal.missingSince;
  if (since === null) return;
  openGaps(receiver, since);
  Object.assign(journal, { missingSince: null, heardAt: clock.now() });
  await writeJournal(receiver);
}

/** Comes for each server at the beginning of a session, and when the bot is invited to one. */
async function takeServer(receiver: Receiver, server: unknown): Promise<void> {
  const { journal, unlisted } = receiver;
  const threads = listOf(server, "threads");
  learnChannels(receiver, [...listOf(server, "channels"), ...threads]);
  // In an outage of its own it lists nothing, and comes again after it.
  if (journal.threadsSince === null || (server as { readonly unavailable?: unknown } | null)?.unavailable === true) return;
  const hasOpened = openThreads(receiver, threads, journal.threadsSince);
  unlisted?.delete(idOf(server));
  // Whoever took the session up in its middle can't know it: the next one lists them all, and reads nothing twice.
  if (unlisted?.size === 0) journal.threadsSince = null;
  if (hasOpened) await writeJournal(receiver);
}

const idOf = (value: unknown): unknown => (value as { readonly id?: unknown } | null)?.id;

function listOf(value: unknown, key: string): unknown[] {
  const list = (value as Record<string, unknown> | null)?.[key];
  return Array.isArray(list) ? list : [];
}
