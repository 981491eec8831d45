// The bytes of attachments, behind one interface: files in the state folder (file-bytes.ts) where a process is alone on it, rows where
// several machines must read them (byte-rows.ts).

export interface AttachmentBytes {
  /** All that comes, or nothing: killed or failed in the middle it leaves nothing that is ever read. */
  write(id: string, pieces: AsyncIterable<Uint8Array>): Promise<void>;
  /** Null: there are none. */
  read(id: string): Promise<Buffer | null>;
  remove(ids: readonly string[]): Promise<void>;
  /** Ids of what was begun before this time, whole or not: whoever is not on record by then is nobody's. */
  listBefore(at: number): Promise<string[]>;
}
