// Webhook mode's albums. Telegram calls with one picture at a time and brings the next one of a chat only once the last
// is confirmed, so nothing would come while a call waits. Each picture is put aside on disk and confirmed; when no more
// come, all of them go into the inbox as one message.
// webhook.ts → take → put aside (the channel's cursor) → quiet → takeUpdates → inbox row
import type { Update } from "grammy/types";
import { createInTurn } from "../../core/in-turn.ts";
import { albumOf, isUpdate, type Me, type Receiver, takeUpdates } from "./receive.ts";

interface Albums {
  /** Durable on return: as a row, or put aside. Throws when the disk refuses: then nothing may be confirmed. */
  take(update: Update): Promise<void>;
}

const QUIET_MS = 1_000;
/** All that is put aside is written again with each picture. */
const MAX_HELD = 50;

/** `left`: what an earlier process put aside; it is taken up. */
export function createAlbums(receiver: Receiver, me: Me, left: readonly Update[]): Albums {
  let held = left;
  // Each rests on what the one before put aside.
  const inTurn = createInTurn();
  const release = async (album: readonly Update[], after: readonly Update[] = []) => {
    const rest = held.filter((update) => !album.includes(update));
    await takeUpdates(receiver, me, [...album, ...after], JSON.stringify(rest));
    held = rest;
  };
  const members = (album: string | null) => held.filter((update) => albumOf(update) === album);
  const waitForMore = (album: string | null): void =>
    releaseWhenQuiet(receiver, {
      members: () => members(album),
      release: () => inTurn(() => release(members(album))),
    });
  for (const album of new Set(held.map(albumOf))) waitForMore(album);
  const take = async (update: Update): Promise<void> => {
    if (held.some(({ update_id }) => update_id === update.update_id)) return;
    const album = albumOf(update);
    // Whatever else is said in the chat comes after it.
    const before = held.filter((other) => other.message?.chat.id === update.message?.chat?.id && albumOf(other) !== album);
    if (album === null) return before.length === 0 ? takeUpdates(receiver, me, [update]) : release(before, [update]);
    if (before.length > 0) await release(before);
    if (held.length >= MAX_HELD) await release(held);
    const next = [...held, update];
    await receiver.inbox.put([], JSON.stringify(next));
    held = next;
    waitForMore(album);
  };
  return { take: (update) => inTurn(() => take(update)) };
}

/** What was confirmed to Telegram but is no message yet. A poll's offset is no list. */
export async function heldUpdates({ inbox, log }: Receiver): Promise<Update[]> {
  const { value } = (await inbox.cursor()) ?? { value: "" };
  if (!value.startsWith("[")) return [];
  try {
    return (JSON.parse(value) as unknown[]).filter(isUpdate).filter((update) => albumOf(update) !== null);
  } catch (error) {
    log.error({ err: error }, "the pictures put aside for an album can't be read; they are left out");
    return [];
  }
}

interface Waiting {
  members(): readonly Update[];
  /** Those that are members by then. */
  release(): Promise<void>;
}

/** Does nothing when another picture comes in the meantime: that one waits in its turn. */
function releaseWhenQuiet(receiver: Receiver, album: Waiting): void {
  const { clock, signal, log } = receiver;
  const last = album.members().at(-1);
  const waiting = clock.sleep(QUIET_MS, signal).then(async () => {
    if (signal.aborted || last === undefined || album.members().at(-1) !== last) return;
    try {
      await album.release();
    } catch (error) {
      log.error({ err: error }, "an album could not be recorded; it is kept and tried again");
      releaseWhenQuiet(receiver, album);
    }
  });
  const tracked = waiting.finally(() => receiver.loose.delete(tracked));
  receiver.loose.add(tracked);
}
