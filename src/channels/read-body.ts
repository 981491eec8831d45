// The body of a request from a platform (Telegram's webhook, Slack over HTTP), read only after its sender was checked.
import type { IncomingMessage } from "node:http";

/** A body cut into single bytes costs a hundred times its size; a platform's comes in a few pieces. */
const MAX_PIECES = 2_000;

/** Null when it is longer than `maxBytes`, by its announced length or by its real one, or comes in crumbs. */
export async function readBody(request: IncomingMessage, maxBytes: number): Promise<string | null> {
  if (Number(request.headers["content-length"] ?? 0) > maxBytes) return null;
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length;
    chunks.push(chunk);
    if (size > maxBytes || chunks.length > MAX_PIECES) return null;
  }
  return Buffer.concat(chunks).toString("utf8");
}
