// One tab and what it has got. Messages and their changes are durable: it is fed from the table by its cursor, so a doorbell may be
// missed or rung twice and nothing is lost; what comes twice takes the place of what is there. live.ts → here → sse.ts
import type { WebMessage, WebMessages } from "../stores/web-messages.ts";
import { type Cursor, cursorText } from "./cursor.ts";
import type { MessageViews } from "./message-view.ts";
import type { Outgoing } from "./outgoing.ts";
import type { Stream } from "./sse.ts";
import type { Turns } from "./turns.ts";

export interface Listener {
  readonly chat: string;
  /** Null: from now on. */
  readonly cursor: Cursor | null;
  /** Null: a script with the token. */
  readonly browserId: string | null;
}

export interface Tab extends Pick<Listener, "chat" | "browserId"> {
  /** What it calls itself when it says which run it has open. */
  readonly id: string;
  /** The run it has open. */
  run: string | null;
  readonly stream: Stream;
  /** The last message written to the stream. */
  sentSeq: number;
  /** The last change of a message written to the stream. */
  sentEdit: number;
  isFeeding: boolean;
  /** Asked for more while it was fed. */
  isRung: boolean;
  /** There was no room for the last one. */
  isDraftDue: boolean;
}

export interface FeedOptions {
  messages: Pick<WebMessages, "list" | "listEdited">;
  views: MessageViews;
  turns: Turns;
  outgoing: Pick<Outgoing, "event">;
}

const PAGE_SIZE = 20;

/** A tab that is behind gets the newest once it caught up, not each one. */
export function sendDraft(tab: Tab, { turns, outgoing }: Pick<FeedOptions, "turns" | "outgoing">): void {
  tab.isDraftDue = !tab.stream.hasRoom();
  const draft = tab.isDraftDue ? null : turns.draft(tab.chat);
  if (draft !== null) tab.stream.send(outgoing.event("draft", draft));
}

/** Its chat was deleted while nobody could tell it: it has got messages, and there are none. */
export async function sayIfGone(
  { chat, sentSeq, stream }: Tab,
  { messages, outgoing }: { messages: Pick<WebMessages, "lastSeq">; outgoing: Pick<Outgoing, "event"> },
): Promise<void> {
  if (sentSeq > 0 && (await messages.lastSeq(chat)) === 0) stream.send(outgoing.event("gone", {}));
}

/** Writes what the tab has not got yet for as long as it keeps up; `drain` calls again. */
export async function feed(tab: Tab, options: FeedOptions): Promise<void> {
  tab.isRung = true;
  // One at a time per tab, else two would send the same rows.
  if (tab.isFeeding) return;
  tab.isFeeding = true;
  try {
    while (!tab.stream.isClosed() && tab.stream.hasRoom()) {
      tab.isRung = false;
      const { rows, isEdits } = await nextRows(tab, options);
      // Posted while the list was read.
      if (rows.length === 0 && tab.isRung) continue;
      // Messages first: on a slow line drafts alone would fill it.
      if (rows.length === 0) return void (tab.isDraftDue && sendDraft(tab, options));
      if (!(await sendRows(tab, rows, isEdits, options))) return;
    }
  } finally {
    tab.isFeeding = false;
  }
}

/** New ones first: a change may be of one that the tab has not got. */
async function nextRows({ chat, sentSeq, sentEdit }: Tab, { messages }: FeedOptions): Promise<{ rows: WebMessage[]; isEdits: boolean }> {
  const rows = await messages.list(chat, { afterSeq: sentSeq, limit: PAGE_SIZE });
  return rows.length > 0 ? { rows, isEdits: false } : { rows: await messages.listEdited(chat, sentEdit, PAGE_SIZE), isEdits: true };
}

/** False: there is no more room. */
async function sendRows(tab: Tab, rows: readonly WebMessage[], isEdits: boolean, { views, outgoing }: FeedOptions): Promise<boolean> {
  for (const view of await views.toViews(rows)) {
    // Nothing leaves before this moment's writes are done: a whole page at once could be more than a tab may be behind.
    if (!tab.stream.hasRoom()) return false;
    if (isEdits) tab.sentEdit = view.editedAt ?? tab.sentEdit;
    else tab.sentSeq = view.seq;
    const id = cursorText({ seq: tab.sentSeq, editedAt: tab.sentEdit });
    tab.stream.send(outgoing.event(isEdits ? "edited" : "message", view, id));
  }
  return true;
}
