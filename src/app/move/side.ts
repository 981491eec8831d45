// What a move takes from and what it fills: an installation as a state folder (folder-side.ts) or in PostgreSQL (postgres-side.ts). Both
// ways it is the same work, and comparing is reading both.
import { isUuid } from "../../core/ids.ts";
import type { AttachmentBytes } from "../../stores/attachment-bytes.ts";
import type { Query, Row } from "../../stores/database.ts";
import type { WholeDocument } from "../../stores/document-copy.ts";
import type { WholeTranscript } from "../../stores/transcript-copy.ts";

export interface Side {
  /** In words, without anything secret. */
  readonly name: string;
  /** In the order of the columns' names: the two forms have them in another one. */
  columns(table: string): Promise<string[]>;
  /** All rows in the order of their keys, some at a time. */
  rows(table: string): AsyncIterable<readonly Row[]>;
  /** The last number given to a row, by table, where numbers are given once and never again. */
  counters(): Promise<ReadonlyMap<string, number>>;
  /** Each once, in any order. `onStray` is told of what is left where it is, and why. */
  transcripts(onStray: (what: string) => void): AsyncIterable<WholeTranscript>;
  documents(onStray: (what: string) => void): AsyncIterable<WholeDocument>;
  /** Bytes of attachments, each once; those that are gone are not there. */
  files(): AsyncIterable<WholeFile>;
  /** The page's. */
  token(): Promise<string | null>;
  /** Throws when somebody else may work here by now. */
  check(): void;
  /** What it holds lives on the other side from now on: no gateway begins here any more. Throws when one may have begun before. */
  leave(): Promise<void>;
  close(): Promise<void>;
}

export interface WholeFile {
  readonly id: string;
  readonly bytes: Buffer;
}

export interface Target extends Side {
  /** Makes it empty and marks it. Throws AppError("state") when it holds an installation already; then nothing was changed. */
  begin(): Promise<void>;
  putRows(table: string, columns: readonly string[], rows: readonly Row[]): Promise<void>;
  setCounter(table: string, last: number): Promise<void>;
  putTranscript(transcript: WholeTranscript): Promise<void>;
  putDocument(document: WholeDocument): Promise<void>;
  putFile(file: WholeFile): Promise<void>;
  putToken(token: string): Promise<void>;
  /** All that was put is there for whoever reads. */
  flush(): Promise<void>;
  /** It is complete from now on, and on disk. */
  finish(): Promise<void>;
}

/** Of all attachments on record, in the order of their ids. */
export async function* filesOf(db: Query, bytes: Pick<AttachmentBytes, "read">): AsyncGenerator<WholeFile> {
  const sql = "SELECT id FROM attachments WHERE id > ? ORDER BY id LIMIT ?";
  for (let last = ""; ; ) {
    const rows = await db.all<{ id: string }>(sql, last, BATCH);
    for (const { id } of rows) {
      const found = isUuid(id) ? await bytes.read(id) : null;
      if (found !== null) yield { id, bytes: found };
    }
    if (rows.length < BATCH) return;
    last = rows.at(-1)?.id ?? last;
  }
}

/** The whole as it is written. */
export async function* pieceOf({ bytes }: WholeFile): AsyncGenerator<Buffer> {
  yield bytes;
}

/** How many rows, lines or documents are in memory at once. */
export const BATCH = 250;
