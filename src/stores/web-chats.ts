// The page's chats as people keep them: what they call them, finding words in them, removing one (WB3). The messages themselves:
// web-messages.ts.
import { setImmediate } from "node:timers/promises";
import type { Database, Tx } from "./database.ts";

export interface WebHit {
  readonly chat: string;
  readonly seq: number;
  readonly author: "user" | "agent";
  readonly at: number;
  readonly text: string;
}

export interface WebChats {
  /** Null: it is called by its first words again. */
  rename(tx: Tx, chat: string, title: string | null): Promise<void>;
  /** All its messages, and its name. Returns how many messages there were. The caller holds its lock (lock.page). */
  remove(tx: Tx, chat: string): Promise<number>;
  count(chat: string): Promise<number>;
  /**
   * Messages of any chat that hold these words, newest first, in any case of letters.
   * `isWhole`: all messages were looked at, and there are no more hits.
   */
  search(words: string, limit: number): Promise<{ readonly hits: readonly WebHit[]; readonly isWhole: boolean }>;
}

const MAX_LOOKED_AT = 50_000;

export function createWebChats({ db }: { db: Database }): WebChats {
  return {
    async rename(tx, chat, title) {
      if (title === null) return void (await tx.run("DELETE FROM web_chats WHERE id = ?", chat));
      const sql = "INSERT INTO web_chats (id, title) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET title = excluded.title";
      await tx.run(sql, chat, title);
    },
    async remove(tx, chat) {
      await tx.run("DELETE FROM web_chats WHERE id = ?", chat);
      return tx.run("DELETE FROM web_messages WHERE chat = ?", chat);
    },
    count: async (chat) => (await db.get<{ n: number }>("SELECT count(*) AS n FROM web_messages WHERE chat = ?", chat))?.n ?? 0,
    search: (words, limit) => search(db, words, limit),
  };
}

async function search(db: Database, words: string, limit: number): ReturnType<WebChats["search"]> {
  const { sql, param } = db.holds("text", words);
  const border = "SELECT min(seq) AS least FROM (SELECT seq FROM web_messages WHERE seq < ? ORDER BY seq DESC LIMIT ?) AS stretch";
  const found = `SELECT chat, seq, author, at, text FROM web_messages WHERE seq < ? AND seq >= ? AND ${sql} ORDER BY seq DESC LIMIT ?`;
  const hits: WebHit[] = [];
  let before = Number.MAX_SAFE_INTEGER;
  // By their count, not by their numbers: each start of the gateway leaves a thousand out.
  for (let seen = 0; seen < MAX_LOOKED_AT; seen += db.stretch) {
    const least = (await db.get<{ least: number | null }>(border, before, db.stretch))?.least ?? null;
    if (least === null) return { hits, isWhole: true };
    const rows = await db.all<WebHit>(found, before, least, param, limit + 1 - hits.length);
    hits.push(...rows.map((row) => ({ ...row })));
    if (hits.length > limit) return { hits: hits.slice(0, limit), isWhole: false };
    before = least;
    await setImmediate();
  }
  return { hits, isWhole: false };
}
