// The body of a request from a platform (Telegram's webhook, Slack over HTTP), read only after its sender was checked.
import type { IncomingMessage } from "node:http";

/** Null when it is longer than `maxBytes`, by its announced length or by its real one. */
export async function readBody(request: IncomingMessage, maxBytes: number): Promise<string | null> {
  if (Number(request.headers["content-length"] ?? 0) > maxBytes) return null;
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > maxBytes) return null;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}
