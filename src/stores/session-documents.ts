// What stands beside a session's transcript: BRIEF.md, the run's brief and response, trace.md. Small Markdown texts made from
// rows and transcripts, and made again after a crash (subagents/documents/). A process alone on its state folder keeps them as
// files (document-files.ts), several machines as rows (document-rows.ts); nobody above can tell which.

export interface SessionRef {
  readonly agentId: string;
  readonly sessionId: string;
}

export interface SessionDocuments {
  /** The last `maxBytes`, from a whole character on, or all of it; null: there is none. Throws on what is no document of ours. */
  read(ref: SessionRef, name: string, maxBytes?: number): Promise<string | null>;
  /** An empty one counts as none: a power cut may leave a file without its text, and a row is there before it has any. */
  has(ref: SessionRef, name: string): Promise<boolean>;
  /** In the place of all that it said: a reader meets the old text or the new one, never half of one. */
  replace(ref: SessionRef, name: string, text: string): Promise<void>;
  /**
   * For a text that depends on the one before. Two who read, add and write would each drop what the other added; here nobody
   * else's `change` of this document begins, in this process or another, until the work is over. The work does nothing else: a
   * database may ask for it again. Never inside another `change`, and where documents are files never inside a transaction: the
   * one ahead in line may wait for that transaction's end.
   */
  change<T>(ref: SessionRef, name: string, work: (document: OpenDocument) => Promise<T>): Promise<T>;
  /** All that the session has. */
  removeAll(ref: SessionRef): Promise<void>;
}

/** A document while nobody else changes it. */
export interface OpenDocument {
  /** Its last `maxBytes`, from a whole character on; null: there is none. */
  end(maxBytes: number): Promise<DocumentEnd | null>;
  replace(text: string): Promise<void>;
  /** Costs no more than what is added, where documents are files. */
  append(text: string): Promise<void>;
  remove(): Promise<void>;
  /** In the place of what had that name. There is none under its own name then. */
  rename(to: string): Promise<void>;
}

export interface DocumentEnd {
  readonly text: string;
  /** Of the whole document, in bytes. */
  readonly size: number;
}

/** The text of bytes that were cut out anywhere: what is left of a character at their front is dropped. */
export function textFrom(bytes: Buffer): string {
  let start = 0;
  // Of UTF-8, which has at most three bytes behind a character's first.
  while (start < 3 && ((bytes[start] ?? 0) & 0xc0) === 0x80) start++;
  return bytes.toString("utf8", start);
}
