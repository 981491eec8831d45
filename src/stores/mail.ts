// Messages between sessions that wait to be read at the next step: from a person or requester to a run
// (run_messages), and from a finished run to its requester's model (notes). Rows are taken by appending them to
// the reader's transcript under a fixed entry id and then marking them, so a crash in between repeats nothing.
import type { Clock } from "../core/clock.ts";
import type { Database, Tx } from "./database.ts";

export interface Mail {
  readonly id: number;
  /** The entry id under which it stands in the reader's transcript. */
  readonly entryId: string;
  readonly text: string;
  readonly from: string;
}

export interface MailStore {
  /** To a queued or running run; durable on return. */
  sendToRun(tx: Tx, runId: string, from: string, text: string): Promise<void>;
  /** For the session's model. `about` names the fact, so that it is told once. */
  addNote(tx: Tx, sessionId: string, about: string, text: string): Promise<void>;
  /** Whether somebody has read the note about it. */
  isRead(about: string): Promise<boolean>;
  /** For whoever has read the note about `read`. One that still waits says how things stand when it is read. */
  addToRead(tx: Tx, read: string, about: string, text: string): Promise<void>;
  /** It is not told any more, unless it was. */
  dropNote(tx: Tx, about: string): Promise<void>;
  listForRun(runId: string): Promise<Mail[]>;
  listNotes(sessionId: string): Promise<Mail[]>;
  /** Has been appended to the reader's transcript. */
  takeForRun(tx: Tx, ids: readonly number[]): Promise<void>;
  takeNotes(tx: Tx, ids: readonly number[]): Promise<void>;
  /** Forgets all that was sent to this run. */
  removeOf(tx: Tx, runId: string): Promise<void>;
  /** Forgets what was taken before this time, and notes for sessions that had ended by then: nobody reads those any more. */
  purge(before: number): Promise<void>;
}

interface Stored {
  id: number;
  text: string;
  from_name: string;
}

export function createMail({ db, clock }: { db: Database; clock: Clock }): MailStore {
  const take = async (tx: Tx, table: "run_messages" | "notes", ids: readonly number[]): Promise<void> => {
    const sql = `UPDATE ${table} SET taken_at = ? WHERE taken_at IS NULL AND id = ?`;
    for (const id of ids) await tx.run(sql, clock.now(), id);
  };
  const mail =
    (prefix: string) =>
    (row: Stored): Mail => ({ id: row.id, entryId: `${prefix}:${row.id}`, text: row.text, from: row.from_name });
  return {
    async sendToRun(tx, runId, from, text) {
      await tx.run("INSERT INTO run_messages (run_id, sender, text, created_at) VALUES (?, ?, ?, ?)", runId, from, text, clock.now());
    },
    async addNote(tx, sessionId, about, text) {
      await tx.run(
        "INSERT INTO notes (session_id, about, text, created_at) VALUES (?, ?, ?, ?) ON CONFLICT (about) DO NOTHING",
        sessionId,
        about,
        text,
        clock.now(),
      );
    },
    isRead: async (about) => (await db.get("SELECT 1 FROM notes WHERE about = ? AND taken_at IS NOT NULL", about)) !== undefined,
    async addToRead(tx, read, about, text) {
      await tx.run(
        `INSERT INTO notes (session_id, about, text, created_at) SELECT session_id, ?, ?, ? FROM notes WHERE about = ? AND taken_at IS NOT NULL
         ON CONFLICT (about) DO NOTHING`,
        ...[about, text, clock.now(), read],
      );
    },
    dropNote: async (tx, about) => void (await tx.run("DELETE FROM notes WHERE about = ? AND taken_at IS NULL", about)),
    listForRun: async (runId) =>
      (
        await db.all<Stored>(
          "SELECT id, text, sender AS from_name FROM run_messages WHERE run_id = ? AND taken_at IS NULL ORDER BY id",
          runId,
        )
      ).map(mail("mail")),
    listNotes: async (sessionId) =>
      (
        await db.all<Stored>(
          "SELECT id, text, about AS from_name FROM notes WHERE session_id = ? AND taken_at IS NULL ORDER BY id",
          sessionId,
        )
      ).map(mail("note")),
    takeForRun: (tx, ids) => take(tx, "run_messages", ids),
    takeNotes: (tx, ids) => take(tx, "notes", ids),
    // By its index for what waits; what was read is found there by its time, and forgotten after some days anyhow.
    removeOf: async (tx, runId) => void (await tx.run("DELETE FROM run_messages WHERE run_id = ? AND taken_at IS NULL", runId)),
    purge: (before) =>
      db.transaction([], async (tx) => {
        for (const table of ["run_messages", "notes"]) await tx.run(`DELETE FROM ${table} WHERE taken_at < ?`, before);
        await tx.run(
          `DELETE FROM notes ${db.by("notes_open")}
           WHERE taken_at IS NULL AND created_at < ? AND EXISTS (SELECT 1 FROM sessions WHERE id = notes.session_id AND ended_at < ?)`,
          before,
          before,
        );
      }),
  };
}
