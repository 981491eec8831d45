// What the page's channel writes: its messages (web-messages.ts), and with a person's own one the inbox row it is answered by.
import { type Database, RELAXED } from "./database.ts";
import type { Inbox } from "./inbox.ts";
import { lock } from "./lock-keys.ts";
import type { WebMessages } from "./web-messages.ts";

interface NewMessage {
  readonly chat: string;
  readonly key: string;
  readonly text: string;
}

type Posted = Awaited<ReturnType<WebMessages["post"]>>;

export interface WebPosts {
  /** The agent's words. Not waited for on their way to the disk: their row in the outbox is there, and is sent again after a power cut. */
  say(message: NewMessage & { readonly extra: Readonly<Record<string, unknown>> }): Promise<Posted>;
  /**
   * What somebody posted, and with it their own message, unless it is null: both or neither, durable on return, so that no tab
   * shows words that nobody will answer. A message that is not new takes nothing in.
   */
  take(update: { readonly externalId: string; readonly raw: unknown }, message: NewMessage | null): Promise<Posted | null>;
  findByKey(key: string): Promise<{ readonly seq: number } | null>;
}

export interface WebPostDeps {
  readonly db: Database;
  readonly inbox: Pick<Inbox, "put">;
  readonly webMessages: Pick<WebMessages, "post" | "findByKey">;
}

export function createWebPosts(
  { db, inbox, webMessages }: WebPostDeps,
  from: { readonly channel: string; readonly account: string },
): WebPosts {
  return {
    say: (message) => db.transaction([lock.page(message.chat)], (tx) => webMessages.post(tx, { ...message, author: "agent" }), RELAXED),
    take: (update, message) =>
      db.transaction(message === null ? [lock.inbox] : [lock.inbox, lock.page(message.chat)], async (tx) => {
        const posted = message === null ? null : await webMessages.post(tx, { ...message, author: "user" });
        if (posted === null || posted.status === "inserted") await inbox.put(tx, from, [update]);
        return posted;
      }),
    findByKey: webMessages.findByKey,
  };
}
