// What a move takes from and what it fills: an installation as a state folder (folder-side.ts) or in PostgreSQL (postgres-side.ts). Both
// ways it is the same work, and comparing is reading both.
import type { Row } from "../../stores/database.ts";
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
  /** The page's. */
  token(): Promise<string | null>;
  /** Throws when somebody else may work here by now. */
  check(): void;
  close(): Promise<void>;
}

export interface Target extends Side {
  /** Makes it empty and marks it. Throws AppError("state") when it holds an installation already; then nothing was changed. */
  begin(): Promise<void>;
  putRows(table: string, columns: readonly string[], rows: readonly Row[]): Promise<void>;
  setCounter(table: string, last: number): Promise<void>;
  putTranscript(transcript: WholeTranscript): Promise<void>;
  putDocument(document: WholeDocument): Promise<void>;
  putToken(token: string): Promise<void>;
  /** All that was put is there for whoever reads. */
  flush(): Promise<void>;
  /** It is complete from now on, and on disk. */
  finish(): Promise<void>;
}

/** How many rows, lines or documents are in memory at once. */
export const BATCH = 250;
