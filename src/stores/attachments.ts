// Files of messages: what they are, whose and since when. The bytes are in file-bytes.ts or byte-rows.ts, and were whole before the row
// here was made: what has no row is nobody's, and is swept.
import { type Attachment, attachmentPath, idsInText, isPicture } from "../core/attachment.ts";
import type { Clock } from "../core/clock.ts";
import { type Database, parseColumn, type Tx } from "./database.ts";

export interface NewAttachment extends Attachment {
  /** Unique: the same thing fetched again after a crash is found by it. */
  readonly origin: string;
  /** The address it belongs to (addressKey). */
  readonly chat: string;
  /** What it was sent with; null: uploaded, and not sent yet. */
  readonly message: string | null;
  readonly sha256: string;
}

export interface StoredAttachment extends Attachment {
  readonly chat: string;
  readonly message: string | null;
  readonly sha256: string;
}

export interface Due {
  readonly unsentBefore: number;
  readonly before: number;
}

export interface Attachments {
  /** False: this origin is on record already. */
  add(tx: Tx, attachment: NewAttachment): Promise<boolean>;
  get(id: string): Promise<StoredAttachment | null>;
  findByOrigin(origin: string): Promise<StoredAttachment | null>;
  /** Pictures of this chat whose places in the workspace stand in the text, in that order. */
  picturesNamed(chat: string, text: string): Promise<Attachment[]>;
  /** Uploads of this chat become part of the message, all of them or none: null. Those that are part of it already count. Under the chat's lock. */
  claim(tx: Tx, ids: readonly string[], to: { chat: string; message: string }): Promise<Attachment[] | null>;
  /** Bytes taken in since then, in all and of one chat. */
  takenSince(at: number, chat: string): Promise<{ readonly all: number; readonly chat: number }>;
  /** Uploads of a chat that wait to be sent. */
  countUnsent(chat: string): Promise<number>;
  /** Forgets an upload that is part of no message. False: there is none. */
  discard(tx: Tx, id: string, chat: string): Promise<boolean>;
  /** Those of a chat are nobody's from now on. Their rows stay until the sweep, which needs them to know copies by. */
  forgetOf(tx: Tx, chat: string): Promise<void>;
  /** What is to be swept: forgotten, not sent since `unsentBefore`, or older than `before`. */
  listDue(older: Due, limit: number): Promise<StoredAttachment[]>;
  /** Removes the rows of those that are still due; their ids. */
  purge(tx: Tx, ids: readonly string[], older: Due): Promise<string[]>;
  /** Those of the ids that are on record. */
  known(ids: readonly string[]): Promise<ReadonlySet<string>>;
}

interface Row {
  id: string;
  chat: string;
  message: string | null;
  name: string;
  type: string;
  size: number;
  sha256: string;
  facts: string;
}

const COLUMNS = "id, chat, message, name, type, size, sha256, facts";
/** More than a request shows. */
const MAX_NAMED = 20;
/** The time of what is forgotten: older than anything. */
const FORGOTTEN = 0;
const DUE = "(at < ? OR (at < ? AND message IS NULL))";

export function createAttachments({ db, clock }: { db: Database; clock: Clock }): Attachments {
  const one = (row: Row | undefined): StoredAttachment | null => (row === undefined ? null : fromRow(row));
  return {
    async add(tx, { id, origin, chat, message, name, type, size, sha256, ...facts }) {
      const sql = `INSERT INTO attachments (id, origin, chat, message, name, type, size, sha256, facts, at)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`;
      const { width, height, unfit } = facts;
      const kept = JSON.stringify({ width, height, unfit });
      return (await tx.run(sql, id, origin, chat, message, name, type, size, sha256, kept, clock.now())) === 1;
    },
    get: async (id) => one(await db.get<Row>(`SELECT ${COLUMNS} FROM attachments WHERE id = ? AND at > ?`, id, FORGOTTEN)),
    findByOrigin: async (origin) => one(await db.get<Row>(`SELECT ${COLUMNS} FROM attachments WHERE origin = ?`, origin)),
    async picturesNamed(chat, text) {
      const found: Attachment[] = [];
      const sql = `SELECT ${COLUMNS} FROM attachments WHERE id >= ? AND id < ? AND chat = ?`;
      for (const beginning of idsInText(text).slice(0, MAX_NAMED))
        for (const row of await db.all<Row>(sql, beginning, `${beginning}g`, chat)) {
          const file = publicOf(fromRow(row));
          if (isPicture(file) && text.includes(attachmentPath(file))) found.push(file);
        }
      return found;
    },
    async claim(tx, wanted, { chat, message }) {
      const claimed: Attachment[] = [];
      const unsent: string[] = [];
      const sql = `SELECT ${COLUMNS} FROM attachments WHERE id = ? AND chat = ? AND (message IS NULL OR message = ?)`;
      for (const id of wanted) {
        const row = await tx.get<Row>(sql, id, chat, message);
        if (row === undefined) return null;
        claimed.push(publicOf(fromRow(row)));
        if (row.message === null) unsent.push(id);
      }
      // Discarded, swept or sent in another message since it was read: those don't take the chat's lock.
      const take = "UPDATE attachments SET message = ? WHERE id = ? AND (message IS NULL OR message = ?)";
      for (const id of wanted) {
        if ((await tx.run(take, message, id, message)) === 1) continue;
        for (const other of unsent) await tx.run("UPDATE attachments SET message = NULL WHERE id = ? AND message = ?", other, message);
        return null;
      }
      return claimed;
    },
    async takenSince(at, chat) {
      const sql = "SELECT coalesce(sum(size), 0) AS n FROM attachments WHERE at > ?";
      const all = await db.get<{ n: number }>(sql, at);
      const own = await db.get<{ n: number }>(`${sql} AND chat = ?`, at, chat);
      return { all: Number(all?.n ?? 0), chat: Number(own?.n ?? 0) };
    },
    countUnsent: async (chat) =>
      (await db.get<{ n: number }>("SELECT count(*) AS n FROM attachments WHERE chat = ? AND message IS NULL", chat))?.n ?? 0,
    discard: async (tx, id, chat) =>
      (await tx.run("DELETE FROM attachments WHERE id = ? AND chat = ? AND message IS NULL", id, chat)) === 1,
    async forgetOf(tx, chat) {
      // Under another origin and of no chat: whoever sends the same there again sends it anew.
      await tx.run("UPDATE attachments SET at = ?, chat = '', origin = 'forgotten:' || id WHERE chat = ?", FORGOTTEN, chat);
    },
    listDue: async ({ before, unsentBefore }, limit) =>
      (await db.all<Row>(`SELECT ${COLUMNS} FROM attachments WHERE ${DUE} LIMIT ?`, before, unsentBefore, limit)).map(fromRow),
    async purge(tx, wanted, { before, unsentBefore }) {
      const gone: string[] = [];
      const sql = `DELETE FROM attachments WHERE id = ? AND ${DUE}`;
      for (const id of wanted) if ((await tx.run(sql, id, before, unsentBefore)) === 1) gone.push(id);
      return gone;
    },
    async known(wanted) {
      const found = new Set<string>();
      for (const id of wanted) if ((await db.get("SELECT 1 AS found FROM attachments WHERE id = ?", id)) !== undefined) found.add(id);
      return found;
    },
  };
}

function fromRow({ facts, ...row }: Row): StoredAttachment {
  return {
    ...row,
    ...parseColumn<Pick<Attachment, "width" | "height" | "unfit">>(facts, { table: "attachments", id: row.id, column: "facts" }),
  };
}

/** What transcripts, parts and the page are given of it. */
export const publicOf = ({ chat: _chat, message: _message, sha256: _sha256, ...file }: StoredAttachment): Attachment => file;
