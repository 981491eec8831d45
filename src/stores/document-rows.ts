// Documents as rows, for several machines: what one writes the others read, and two may want to add to the same trace at once.
// The lock is the row itself: whoever changes a document first writes to its row, and the next one's write waits for that
// transaction's end; only then does it read (READ COMMITTED: with the first one's text). A document that is not there yet has no
// row to lock, so an empty one is made first, which is why an empty text counts as none.
import type { Clock } from "../core/clock.ts";
import type { Query, Tx } from "./database.ts";
import { type DocumentEnd, type OpenDocument, type SessionDocuments, textFrom } from "./session-documents.ts";

interface Deps {
  readonly db: Query & {
    /** In the transaction it is asked from, else in one of its own. */
    write<T>(work: (tx: Tx) => Promise<T>): Promise<T>;
  };
  readonly clock: Clock;
}

export function createDocumentRows({ db, clock }: Deps): SessionDocuments {
  return {
    read: async ({ sessionId }, name, maxBytes = Number.POSITIVE_INFINITY) => (await readEnd(db, sessionId, name, maxBytes))?.text ?? null,
    has: async ({ sessionId }, name) =>
      (await db.get("SELECT 1 AS found FROM documents WHERE session_id = ? AND name = ? AND text <> ''", sessionId, name)) !== undefined,
    async replace({ sessionId }, name, text) {
      await db.write((tx) => tx.run(REPLACE, sessionId, name, text, clock.now()));
    },
    change: ({ sessionId }, name, work) =>
      db.write(async (tx) => {
        await tx.run(LOCK, sessionId, name, "", clock.now());
        return work(openDocument(tx, clock, sessionId, name));
      }),
    async removeAll({ sessionId }) {
      await db.write((tx) => tx.run("DELETE FROM documents WHERE session_id = ?", sessionId));
    },
  };
}

/** Each writes to the row that is there, and makes it where there is none. */
const INSERT =
  "INSERT INTO documents (session_id, name, text, changed_at) VALUES (?, ?, ?, ?) ON CONFLICT (session_id, name) DO UPDATE SET";
const LOCK = `${INSERT} changed_at = excluded.changed_at`;
const REPLACE = `${INSERT} text = excluded.text, changed_at = excluded.changed_at`;
const APPEND = `${INSERT} text = documents.text || excluded.text, changed_at = excluded.changed_at`;
const REMOVE = "DELETE FROM documents WHERE session_id = ? AND name = ?";

/** Removed or renamed its name stays locked all the same: who wants to make it anew waits for this transaction's end. */
const openDocument = (tx: Tx, clock: Clock, sessionId: string, name: string): OpenDocument => ({
  end: (maxBytes) => readEnd(tx, sessionId, name, maxBytes),
  async replace(text) {
    await tx.run(REPLACE, sessionId, name, text, clock.now());
  },
  async append(text) {
    await tx.run(APPEND, sessionId, name, text, clock.now());
  },
  async remove() {
    await tx.run(REMOVE, sessionId, name);
  },
  async rename(to) {
    await tx.run(REMOVE, sessionId, to);
    await tx.run("UPDATE documents SET name = ? WHERE session_id = ? AND name = ?", to, sessionId, name);
  },
});

/** The largest integer every database takes. */
const MAX_INTEGER = 2 ** 31 - 1;

/** Asks for as many characters as bytes are wanted, which is never too few: databases cut texts at characters. */
async function readEnd(from: Query, sessionId: string, name: string, maxBytes: number): Promise<DocumentEnd | null> {
  const most = Math.min(maxBytes, MAX_INTEGER);
  const row = await from.get<DocumentEnd>(
    `SELECT CASE WHEN length(text) > ? THEN substr(text, length(text) - ? + 1) ELSE text END AS text, octet_length(text) AS size
     FROM documents WHERE session_id = ? AND name = ?`,
    most,
    most,
    sessionId,
    name,
  );
  if (row === undefined || row.size === 0) return null;
  const bytes = Buffer.from(row.text);
  return { text: bytes.length > most ? textFrom(bytes.subarray(-most)) : row.text, size: row.size };
}
