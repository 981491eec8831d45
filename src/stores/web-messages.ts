// The web page's own platform: what Telegram keeps on its servers stands in this table. The row number is the
// cursor of the page's event stream, the unique key makes sending and posting idempotent (DL4).
// web channel → post → web.posted ⇒ page stream → list after its cursor
// web channel → edit → web.edited ⇒ page stream → listEdited after its cursor: a change has no new number, but a time of its own
import type { Clock } from "../core/clock.ts";
import type { Database, Tx } from "./database.ts";

type WebAuthor = "user" | "agent";

export interface WebMessage {
  /** Grows with every message of a chat, in commit order (lock.page). */
  readonly seq: number;
  readonly chat: string;
  readonly key: string;
  readonly author: WebAuthor;
  readonly text: string;
  readonly extra: Readonly<Record<string, unknown>> | null;
  readonly at: number;
  /** Of the last change; null: it stands as it was posted. */
  readonly editedAt: number | null;
  /** Key of the message that stands in the place of this one, or of what this one answered (WB3); null: it counts. */
  readonly replacedBy: string | null;
}

interface WebChat {
  readonly id: string;
  /** What people call it, else the start of what they said first; null while only the agent has spoken. */
  readonly title: string | null;
  readonly lastAt: number;
  readonly lastSeq: number;
}

interface NewWebMessage {
  readonly chat: string;
  /** Unique over all chats: the same key again changes nothing. */
  readonly key: string;
  readonly author: WebAuthor;
  readonly text: string;
  readonly extra?: Readonly<Record<string, unknown>> | null;
}

export interface WebMessages {
  /** When the key was `known`, `seq` is the first one's; `other`: it was used for another message. */
  post(tx: Tx, message: NewWebMessage): Promise<{ seq: number; status: "inserted" | "known" | "other" }>;
  /** Other words for a message of this chat. False: it is not there. The caller holds the chat's lock (lock.page). */
  edit(tx: Tx, chat: string, seq: number, to: Pick<NewWebMessage, "text" | "extra">): Promise<boolean>;
  /** These messages of a chat are an earlier version of what another one begins. The caller holds the chat's lock (lock.page). */
  setAside(tx: Tx, chat: string, seqs: readonly number[], by: string): Promise<void>;
  /** What was set aside for this message counts again; their numbers. The caller holds the chat's lock (lock.page). */
  bringBack(tx: Tx, chat: string, by: string): Promise<number[]>;
  /** The person's last words that count, and at most `limit` messages behind them; null: there are none. */
  lastExchange(chat: string, limit: number): Promise<{ readonly asked: WebMessage; readonly behind: readonly WebMessage[] } | null>;
  /** What was changed after this time, in the order of the changes. */
  listEdited(chat: string, afterMs: number, limit: number): Promise<WebMessage[]>;
  /** When anything in this chat was changed last; 0: nothing was. */
  lastEdit(chat: string): Promise<number>;
  /** Oldest first. With `afterSeq`: the next ones after it; else the last ones (before `beforeSeq`). */
  list(chat: string, range: { afterSeq?: number; beforeSeq?: number; limit: number }): Promise<WebMessage[]>;
  /** Most recently used first. */
  chats(limit?: number): Promise<WebChat[]>;
  findByKey(key: string): Promise<WebMessage | null>;
  /**
   * Once at a start. A power cut may have taken messages that a tab was shown, and its cursor with them: what comes now is numbered
   * behind all of those, or the tab would take it for known.
   */
  skipNumbers(): Promise<void>;
  /** Removes what was sent under this delivery, its parts and its later generations (`<delivery>#1`, `<delivery>:g2#0`). */
  removeOf(tx: Tx, delivery: string): Promise<number>;
  /** The newest message of this chat; 0 when there is none. Not of all: in another chat a later number may be committed earlier. */
  lastSeq(chat: string): Promise<number>;
}

interface MessageRow extends Omit<WebMessage, "extra" | "editedAt" | "replacedBy"> {
  extra: string | null;
  edited_at: number | null;
  replaced_by: string | null;
}

const TITLE_LENGTH = 80;
/** More than are sent without a durable commit in between. */
const SKIPPED = 1_000;
const COLUMNS = "seq, chat, key, author, text, extra, at, edited_at, replaced_by";

// Hops from chat to chat on the index, so the cost is the number of chats, not of messages.
const CHATS = `
  WITH RECURSIVE chat(id) AS (
    SELECT MIN(chat) FROM web_messages
    UNION ALL
    SELECT (SELECT MIN(chat) FROM web_messages WHERE chat > chat.id) FROM chat WHERE chat.id IS NOT NULL
  )
  SELECT chat.id AS id, last.at AS "lastAt", last.seq AS "lastSeq",
    coalesce((SELECT title FROM web_chats WHERE web_chats.id = chat.id), (SELECT substr(text, 1, ${TITLE_LENGTH}) FROM web_messages
      WHERE chat = chat.id AND author = 'user' AND replaced_by IS NULL AND text <> '' ORDER BY seq LIMIT 1)) AS title
  FROM chat JOIN web_messages AS last ON last.seq = (SELECT MAX(seq) FROM web_messages WHERE chat = chat.id)
  ORDER BY last.seq DESC LIMIT ?`;

export function createWebMessages({ db, clock }: { db: Database; clock: Clock }): WebMessages {
  const findByKey = async (key: string): Promise<WebMessage | null> => {
    const row = await db.get<MessageRow>(`SELECT ${COLUMNS} FROM web_messages WHERE key = ?`, key);
    return row === undefined ? null : fromRow(row);
  };

  const lastEdit = async (chat: string): Promise<number> =>
    (await db.get<{ at: number | null }>("SELECT MAX(edited_at) AS at FROM web_messages WHERE chat = ? AND edited_at IS NOT NULL", chat))
      ?.at ?? 0;

  const setAside = async (tx: Tx, chat: string, seqs: readonly number[], by: string | null): Promise<void> => {
    let at = Math.max(clock.now(), (await lastEdit(chat)) + 1);
    const sql = "UPDATE web_messages SET replaced_by = ?, edited_at = ? WHERE seq = ? AND chat = ?";
    // A time of its own for each, as for every change: a tab reads on behind the last it has seen.
    for (const seq of seqs) await tx.run(sql, by, at++, seq, chat);
  };

  return {
    async post(tx, { chat, key, author, text, extra = null }) {
      const row = await tx.get<{ seq: number }>(
        "INSERT INTO web_messages (chat, key, author, text, extra, at) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO NOTHING RETURNING seq",
        chat,
        key,
        author,
        text,
        extra === null ? null : JSON.stringify(extra),
        clock.now(),
      );
      if (row !== undefined) return { seq: row.seq, status: "inserted" };
      // Compared where it is kept: a secret in it was replaced on the way in.
      const sql = 'SELECT seq, CASE WHEN chat = ? AND text = ? THEN 1 ELSE 0 END AS "isSame" FROM web_messages WHERE key = ?';
      const known = await tx.get<{ seq: number; isSame: number }>(sql, chat, text, key);
      if (known === undefined) throw new Error("a web message was neither inserted nor found");
      return { seq: known.seq, status: known.isSame === 1 ? "known" : "other" };
    },
    async edit(tx, chat, seq, { text, extra = null }) {
      // Later than every other: two in one millisecond, or a clock that was set back, would leave a tab that saw the first without the second.
      const at = Math.max(clock.now(), (await lastEdit(chat)) + 1);
      const sql = "UPDATE web_messages SET text = ?, extra = ?, edited_at = ? WHERE seq = ? AND chat = ? AND author = 'agent'";
      return (await tx.run(sql, text, extra === null ? null : JSON.stringify(extra), at, seq, chat)) === 1;
    },
    setAside,
    async bringBack(tx, chat, by) {
      const sql = "SELECT seq FROM web_messages WHERE chat = ? AND replaced_by = ? ORDER BY seq";
      const seqs = (await tx.all<{ seq: number }>(sql, chat, by)).map(({ seq }) => seq);
      await setAside(tx, chat, seqs, null);
      return seqs;
    },
    async lastExchange(chat, limit) {
      const last = `SELECT ${COLUMNS} FROM web_messages WHERE chat = ? AND author = 'user' AND replaced_by IS NULL ORDER BY seq DESC LIMIT 1`;
      const row = await db.get<MessageRow>(last, chat);
      if (row === undefined) return null;
      const behind = `SELECT ${COLUMNS} FROM web_messages WHERE chat = ? AND seq > ? ORDER BY seq LIMIT ?`;
      return { asked: fromRow(row), behind: (await db.all<MessageRow>(behind, chat, row.seq, limit)).map(fromRow) };
    },
    async listEdited(chat, afterMs, limit) {
      const sql = `SELECT ${COLUMNS} FROM web_messages WHERE chat = ? AND edited_at > ? ORDER BY edited_at LIMIT ?`;
      return (await db.all<MessageRow>(sql, chat, afterMs, limit)).map(fromRow);
    },
    lastEdit,
    async list(chat, { afterSeq, beforeSeq, limit }) {
      if (afterSeq !== undefined) {
        const sql = `SELECT ${COLUMNS} FROM web_messages WHERE chat = ? AND seq > ? ORDER BY seq LIMIT ?`;
        return (await db.all<MessageRow>(sql, chat, afterSeq, limit)).map(fromRow);
      }
      const sql = `SELECT ${COLUMNS} FROM web_messages WHERE chat = ? AND seq < ? ORDER BY seq DESC LIMIT ?`;
      return (await db.all<MessageRow>(sql, chat, beforeSeq ?? Number.MAX_SAFE_INTEGER, limit)).reverse().map(fromRow);
    },
    chats: async (limit = 100) => (await db.all<WebChat>(CHATS, limit)).map((row) => ({ ...row })),
    findByKey,
    async skipNumbers() {
      await db.transaction([], (tx) => tx.run("UPDATE sqlite_sequence SET seq = seq + ? WHERE name = 'web_messages'", SKIPPED));
    },
    // A range of the key's index: `#` and `:` come before `;`.
    removeOf: (tx, delivery) => tx.run("DELETE FROM web_messages WHERE key >= ? AND key < ?", delivery, `${delivery};`),
    lastSeq: async (chat) =>
      (await db.get<{ seq: number | null }>("SELECT MAX(seq) AS seq FROM web_messages WHERE chat = ?", chat))?.seq ?? 0,
  };
}

function fromRow({ edited_at: editedAt, replaced_by: replacedBy, ...row }: MessageRow): WebMessage {
  return { ...row, editedAt, replacedBy, extra: row.extra === null ? null : (JSON.parse(row.extra) as Record<string, unknown>) };
}
