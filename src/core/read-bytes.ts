// Collects what comes in pieces, up to a limit: a request's body, an answer's. Opens nothing itself.

/** Cut into single bytes a body costs a hundred times its size; whoever means well sends a few pieces. */
const MAX_PIECES = 2_000;

/** Null when there is more than `maxBytes`, or it comes in crumbs; nothing is read beyond that. */
export async function readBytes(pieces: AsyncIterable<Uint8Array>, maxBytes: number): Promise<Buffer | null> {
  const read: Uint8Array[] = [];
  let size = 0;
  for await (const piece of pieces) {
    size += piece.byteLength;
    read.push(piece);
    if (size > maxBytes || read.length > MAX_PIECES) return null;
  }
  return Buffer.concat(read);
}
