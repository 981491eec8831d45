// What else is on record about one run: a whole entry of its transcript, its documents, what each of its steps cost. The source is an
// argument (app/run-record.ts), so the page depends on these views and not on the stores.
import type { Entry } from "../stores/transcript-entry.ts";

/** What a run had spent after one of its steps; null: no price is known for all of it. */
export interface SpendPoint {
  readonly at: string;
  readonly tokens: number;
  readonly costUsd: number | null;
}

export interface SpendView {
  /** Oldest first, each with all that came before it. */
  readonly points: readonly SpendPoint[];
  readonly steps: number;
  /** There were more steps than can be read at once: these are the last ones. */
  readonly isCut: boolean;
}

/** One text beside the run's transcript. */
export interface DocumentView {
  readonly name: string;
  readonly text: string;
  /** Only its end: it is longer than can be shown. */
  readonly isCut: boolean;
}

/** Null everywhere: there is no such run, or nothing of the kind. */
export interface RunRecord {
  entry(id: string, position: number): Promise<Entry | null>;
  documents(id: string): Promise<readonly { readonly name: string; readonly about: string }[] | null>;
  document(id: string, name: string): Promise<DocumentView | null>;
  spend(id: string): Promise<SpendView | null>;
}
