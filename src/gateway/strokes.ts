// When the next edit may go to a chat (LV2). Edits count for a platform like messages, and nobody waits for one: all messages of a chat
// that change share one slow pace, below the chat's own, and each edit takes one of the chat's places besides, so that messages and
// edits together stay within what the platform bears. What it asks for when edits were too many, edits alone keep.
import { type Address, wholeChatKey } from "../core/address.ts";
import type { Clock } from "../core/clock.ts";
import type { Logger } from "../core/logger.ts";
import type { Pace } from "../core/message.ts";
import type { LiveMessage, LiveMessages } from "../stores/live-messages.ts";
import type { Pacer, Place } from "./pace.ts";

export interface StrokeDeps {
  readonly clock: Clock;
  readonly log: Logger;
  readonly pacer: Pacer;
  channel(name: string, account: string): { readonly pace?: Pace } | null;
}

export interface Strokes {
  /** A place for one edit, or how long to wait before asking again. */
  take(message: LiveMessage, now: { readonly pace: Pace | undefined; readonly isOthersTurn: boolean }): Place | { readonly waitMs: number };
  /** The platform takes no edits there for so long. */
  silence(address: Address, ms: number): void;
  /** The platform remembers what the process before this one has painted. */
  remember(live: Pick<LiveMessages, "listChangedSince">): Promise<void>;
}

/** Something is on its way there: when it has gone is worth a look. */
const BUSY_MS = 500;
/** Where a platform names no pace of edits. */
const DEFAULT_EVERY_MS = 1_000;
/** No platform counts further back. */
const MEMORY_MS = 60_000;
/** More chats than this are not painted in within a minute. */
const MAX_CHATS = 5_000;

/** Whoever waits in line asks again when it is told to, give or take the look at its rows; later it wants nothing any more. */
const LATE_MS = 2_000;
const YIELD_MS = 50;

interface Chat {
  /** When the last edit was; and that the platform takes none from, until. */
  readonly editedAt: number;
  readonly silence: { readonly from: number; readonly until: number };
  /** Messages that wait for their turn, in order, and when each was told to ask again. */
  readonly line: ReadonlyMap<string, number>;
}

const QUIET: Chat = { editedAt: Number.NEGATIVE_INFINITY, silence: { from: 0, until: 0 }, line: new Map() };

export function createStrokes({ clock, pacer, channel }: StrokeDeps): Strokes {
  const chats = new Map<string, Chat>();
  const chatOf = (address: Address): Chat => chats.get(wholeChatKey(address)) ?? QUIET;
  const put = (address: Address, change: Partial<Chat>): void => {
    if (chats.size >= MAX_CHATS) forgetIdle(chats, clock.now());
    chats.set(wholeChatKey(address), { ...chatOf(address), ...change });
  };
  return {
    take({ id, address, notBefore }, { pace, isOthersTurn }) {
      const now = clock.now();
      const { editedAt, silence } = chatOf(address);
      const wait = (waitMs: number): { waitMs: number } => {
        put(address, { line: new Map(chatOf(address).line).set(id, now + waitMs) });
        return { waitMs };
      };
      const waitMs = Math.max(
        // A clock that was set back says nothing about when the last one was.
        editedAt > now ? 0 : editedAt + everyMs(pace, address) - now,
        now < silence.from ? 0 : silence.until - now,
        notBefore - now,
        pacer.waitMs(address, false),
      );
      // What the message itself has to wait for holds up none of the others.
      if (notBefore > now) return { waitMs };
      if (waitMs > 0) return wait(waitMs);
      if (isOthersTurn) return wait(BUSY_MS);
      // One that changes every second asks more often than the others, and would take every place.
      const line = new Map([...chatOf(address).line].filter(([, at]) => at > now - LATE_MS));
      const [first = id] = line.keys();
      put(address, { line });
      if (first !== id) return wait(YIELD_MS);
      line.delete(id);
      put(address, { editedAt: now });
      return pacer.take(address);
    },
    silence(address, ms) {
      const now = clock.now();
      put(address, { silence: { from: now, until: now + ms } });
    },
    async remember(live) {
      const since = clock.now() - MEMORY_MS;
      for (const { address, createdAt, changedAt } of await live.listChangedSince(since)) {
        // When each edit was nobody wrote down: as many as can have been.
        const every = everyMs(channel(address.channel, address.account)?.pace, address);
        if (changedAt <= chatOf(address).editedAt) continue;
        for (let at = changedAt; at > Math.max(since, createdAt, chatOf(address).editedAt); at -= every) pacer.remember(address, at);
        put(address, { editedAt: changedAt });
      }
    },
  };
}

function everyMs(pace: Pace | undefined, { kind }: Address): number {
  const every = pace?.editEveryMs;
  return every === undefined ? DEFAULT_EVERY_MS : kind === "dm" ? every.alone : every.group;
}

function forgetIdle(chats: Map<string, Chat>, now: number): void {
  for (const [key, { editedAt, silence, line }] of chats)
    if (editedAt < now - MEMORY_MS && silence.until <= now && line.size === 0) chats.delete(key);
}
