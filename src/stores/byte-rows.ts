// Bytes of attachments as rows, for several machines. A piece is a row of base64, because every statement here takes texts; each goes
// into a transaction of its own, so that nobody waits for a whole upload. They count once the attachment's own row is there.
import type { Clock } from "../core/clock.ts";
import type { AttachmentBytes } from "./attachment-bytes.ts";
import type { Query, Tx } from "./database.ts";

interface Deps {
  readonly db: Query & { transaction<T>(keys: readonly [], work: (tx: Tx) => Promise<T>): Promise<T> };
  readonly clock: Clock;
}

/** Divisible by three: base64 of all pieces in a row is base64 of the whole. */
const PIECE_BYTES = 192 * 1024;

export function createByteRows({ db, clock }: Deps): AttachmentBytes {
  const remove = (ids: readonly string[]): Promise<void> =>
    db.transaction([], async (tx) => {
      for (const id of ids) await tx.run("DELETE FROM attachment_pieces WHERE attachment_id = ?", id);
    });
  return {
    async write(id, pieces) {
      const put = (n: number, bytes: Buffer): Promise<number> =>
        db.transaction([], (tx) =>
          tx.run(
            "INSERT INTO attachment_pieces (attachment_id, n, data, at) VALUES (?, ?, ?, ?)",
            ...[id, n, bytes.toString("base64"), clock.now()],
          ),
        );
      try {
        // Of an attempt that was killed.
        await remove([id]);
        let n = 0;
        for await (const bytes of inPieces(pieces)) await put(n++, bytes);
      } catch (error) {
        await remove([id]).catch(() => undefined);
        throw error;
      }
    },
    async read(id) {
      const whole: Buffer[] = [];
      const counted = await db.get<{ n: number }>("SELECT count(*) AS n FROM attachment_pieces WHERE attachment_id = ?", id);
      const pieces = Number(counted?.n ?? 0);
      const sql = "SELECT data FROM attachment_pieces WHERE attachment_id = ? AND n = ?";
      for (let n = 0; n < pieces; n++) {
        const row = await db.get<{ data: string }>(sql, id, n);
        // Removed while it was read: half of it is not it.
        if (row === undefined) return null;
        whole.push(Buffer.from(row.data, "base64"));
      }
      return pieces === 0 ? null : Buffer.concat(whole);
    },
    remove,
    listBefore: async (at) =>
      (await db.all<{ id: string }>("SELECT attachment_id AS id FROM attachment_pieces WHERE n = 0 AND at < ?", at)).map(({ id }) => id),
  };
}

async function* inPieces(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<Buffer> {
  let rest: Buffer = Buffer.alloc(0);
  for await (const piece of pieces) {
    rest = Buffer.concat([rest, piece]);
    for (; rest.length >= PIECE_BYTES; rest = rest.subarray(PIECE_BYTES)) yield rest.subarray(0, PIECE_BYTES);
  }
  if (rest.length > 0) yield rest;
}
