// Webhook mode's albums. Telegram calls with one picture at a time and brings the next one of a chat only once the last
// is confirmed, so nothing would come while a call waits. Each picture is put aside on disk and confirmed; when no more
// come, all of them go into the inbox as one message.
// webhook.ts → take → put aside (the channel's cursor) → quiet → takeUpdates → inbox row
import type { Update } from "grammy/types";
import { albumOf, isUpdate, type Me, type Receiver, takeUpdates } from "./receive.ts";

interface Albums {
  /** Durable on return: as a row, or put aside. Throws when the disk refuses: then nothing may be confirmed. */
  take(update: Update): void;
}

const QUIET_MS = 1_000;
/** All that is put aside is written again with each picture. */
const MAX_HELD = 50;

/** Takes up what an earlier process put aside. */
export function createAlbums(receiver: Receiver, me: Me): Albums {
  let held = heldUpdates(receiver);
  const release = (album: readonly Update[], after: readonly Update[] = []) => {
    const rest = held.filter((update) => !album.includes(update));
    takeUpdates(receiver, me, [...album, ...after], JSON.stringify(rest));
    held = rest;
  };
  const members = (album: string | null) => held.filter((update) => albumOf(update) === album);
  for (const album of new Set(held.map(albumOf))) releaseWhenQuiet(receiver, () => members(album), release);
  return {
    take(update) {
      if (held.some(({ update_id }) => update_id === update.update_id)) return;
      const album = albumOf(update);
      // Whatever else is said in the chat comes after it.
      const before = held.filter((other) => other.message?.chat.id === update.message?.chat?.id && albumOf(other) !== album);
      if (album === null) return before.length === 0 ? takeUpdates(receiver, me, [update]) : release(before, [update]);
      if (before.length > 0) release(before);
      if (held.length >= MAX_HELD) release(held);
      const next = [...held, update];
      receiver.inbox.put([], JSON.stringify(next));
      held = next;
      releaseWhenQuiet(receiver, () => members(album), release);
    },
  };
}

/** What was confirmed to Telegram but is no message yet. A poll's offset is no list. */
export function heldUpdates({ inbox, log }: Receiver): Update[] {
  const { value } = inbox.cursor() ?? { value: "" };
  if (!value.startsWith("[")) return [];
  try {
    return (JSON.parse(value) as unknown[]).filter(isUpdate).filter((update) => albumOf(update) !== null);
  } catch (error) {
    log.error({ err: error }, "the pictures put aside for an album can't be read; they are left out");
    return [];
  }
}

/** Does nothing when another picture comes in the meantime: that one waits in its turn. */
function releaseWhenQuiet(receiver: Receiver, members: () => readonly Update[], release: (album: readonly Update[]) => void): void {
  const { clock, signal, log } = receiver;
  const last = members().at(-1);
  const waiting = clock.sleep(QUIET_MS, signal).then(() => {
    const album = members();
    if (signal.aborted || album.length === 0 || album.at(-1) !== last) return;
    try {
      release(album);
    } catch (error) {
      log.error({ err: error }, "an album could not be recorded; it is kept and tried again");
      releaseWhenQuiet(receiver, members, release);
    }
  });
  const tracked = waiting.finally(() => receiver.loose.delete(tracked));
  receiver.loose.add(tracked);
}
