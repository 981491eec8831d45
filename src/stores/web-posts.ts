// What the page's channel writes: its messages (web-messages.ts), with a person's own one the inbox row it is answered by, and with one of
// ours what its row in the outbox has to say about it.
import type { Attachment } from "../core/attachment.ts";
import type { Attachments } from "./attachments.ts";
import { type Database, RELAXED, type Tx } from "./database.ts";
import type { Inbox } from "./inbox.ts";
import { lock } from "./lock-keys.ts";
import type { WebMessages } from "./web-messages.ts";

interface NewMessage {
  readonly chat: string;
  readonly key: string;
  readonly text: string;
}

type Posted = Awaited<ReturnType<WebMessages["post"]>>;

/** A person's own: with the files that were uploaded for it. */
interface SentMessage extends NewMessage {
  /** `chat`: the address they were uploaded for. */
  readonly files?: { readonly ids: readonly string[]; readonly chat: string };
}

interface SaidMessage extends NewMessage {
  readonly extra: Readonly<Record<string, unknown>>;
}

export interface WebPosts {
  /** The agent's words. */
  say(message: SaidMessage): Promise<Posted>;
  /** The same in a transaction of the caller's, who holds the chat's lock (lock.page). */
  sayIn(tx: Tx, message: SaidMessage): Promise<Posted>;
  /** The agent's words as they are from now on. False: there is no such message. Lost to a power cut, they are painted again. */
  edit(message: {
    readonly chat: string;
    readonly seq: number;
    readonly text: string;
    readonly extra: Readonly<Record<string, unknown>>;
  }): Promise<boolean>;
  /**
   * What somebody posted, and with it their own message, unless it is null: both or neither, durable on return, so that no tab
   * shows words that nobody will answer. A message that is not new takes nothing in. `no-file`: one of its files is not there, and
   * nothing was taken.
   */
  take(update: { readonly externalId: string; readonly raw: unknown }, message: SentMessage | null): Promise<Posted | "no-file" | null>;
}

export interface WebPostDeps {
  readonly db: Database;
  readonly inbox: Pick<Inbox, "put">;
  readonly attachments: Pick<Attachments, "claim">;
  readonly webMessages: Pick<WebMessages, "post" | "edit">;
}

export function createWebPosts(
  { db, inbox, webMessages, attachments }: WebPostDeps,
  from: { readonly channel: string; readonly account: string },
): WebPosts {
  const sayIn: WebPosts["sayIn"] = async (tx, message) => {
    const posted = await webMessages.post(tx, { ...message, author: "agent" });
    if (posted.status === "inserted") tx.emit({ type: "web.posted", chat: message.chat, seq: posted.seq });
    return posted;
  };
  return {
    say: (message) => db.transaction([lock.page(message.chat)], (tx) => sayIn(tx, message)),
    sayIn,
    edit: ({ chat, seq, ...to }) => db.transaction([lock.page(chat)], (tx) => webMessages.edit(tx, chat, seq, to), RELAXED),
    take: (update, message) =>
      db.transaction(message === null ? [lock.inbox] : [lock.inbox, lock.page(message.chat)], async (tx) => {
        const files = message?.files === undefined ? [] : await attachments.claim(tx, message.files.ids, claimOf(message, message.files));
        if (files === null) return "no-file";
        const posted = message === null ? null : await webMessages.post(tx, { ...message, author: "user", extra: extraOf(files) });
        if (posted === null || posted.status === "inserted") await inbox.put(tx, from, [update]);
        return posted;
      }),
  };
}

const claimOf = ({ key }: NewMessage, { chat }: { readonly chat: string }) => ({ chat, message: key });
const extraOf = (files: readonly Attachment[]): { files: readonly Attachment[] } | null => (files.length === 0 ? null : { files });
