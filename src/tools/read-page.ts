// One page of a file of any size: whole lines from a line number on, in bounded memory.
// file handle → chunks → the lines asked for, and where the next page begins.
import type { FileHandle } from "node:fs/promises";
import { MAX_TEXT_BYTES } from "./output.ts";

const CHUNK_BYTES = 256 * 1024;
const SNIFF_BYTES = 8 * 1024;
const NEWLINE = 0x0a;
/** A character cut in half is left away. */
const HALF_AT_END = { stream: true };

export type Page =
  | { readonly kind: "binary" }
  | { readonly kind: "stopped" }
  /** `offset` lies behind the last line. */
  | { readonly kind: "past-end"; readonly lines: number }
  | {
      readonly kind: "text";
      readonly text: string;
      /** First line that is not in `text`; null at the end of the file. */
      readonly next: number | null;
      /** The only line of this page is longer than a page and was cut. */
      readonly cutLine: boolean;
    };

/** Reads up to `limit` lines from line `offset` (1 = first), at most 48 KB. A NUL byte near the start means binary. */
export async function readPage(file: FileHandle, range: { offset: number; limit: number }, signal: AbortSignal): Promise<Page> {
  const buffer = Buffer.alloc(CHUNK_BYTES);
  const lastLine = range.offset + range.limit - 1;
  const kept: Buffer[] = [];
  let keptBytes = 0;
  let line = 1;
  for (let position = 0; ; ) {
    if (signal.aborted) return { kind: "stopped" };
    const { bytesRead } = await file.read(buffer, 0, CHUNK_BYTES, position);
    const chunk = buffer.subarray(0, bytesRead);
    if (position === 0 && chunk.subarray(0, SNIFF_BYTES).includes(0)) return { kind: "binary" };
    if (bytesRead === 0) return endOfFile(kept, { line, offset: range.offset, size: position });
    position += bytesRead;
    for (let from = 0; from < bytesRead; ) {
      const at = chunk.indexOf(NEWLINE, from);
      const to = at === -1 ? bytesRead : at + 1;
      if (line > lastLine) return pageOf(kept, line);
      if (line >= range.offset) {
        kept.push(Buffer.from(chunk.subarray(from, to)));
        keptBytes += to - from;
        if (keptBytes > MAX_TEXT_BYTES) return fullPage(Buffer.concat(kept), range.offset);
      }
      if (at !== -1) line += 1;
      from = to;
    }
  }
}

const pageOf = (kept: readonly Buffer[], next: number | null): Page => ({
  kind: "text",
  text: Buffer.concat(kept).toString("utf8"),
  next,
  cutLine: false,
});

function endOfFile(kept: readonly Buffer[], seen: { line: number; offset: number; size: number }): Page {
  if (kept.length > 0 || seen.size === 0 || seen.offset === 1) return pageOf(kept, null);
  return { kind: "past-end", lines: seen.line };
}

/** Too much: drop the line that did not fit, or cut it when it is the only one. */
function fullPage(bytes: Buffer, offset: number): Page {
  const within = bytes.subarray(0, MAX_TEXT_BYTES);
  const end = within.lastIndexOf(NEWLINE) + 1;
  if (end === 0)
    return {
      kind: "text",
      text: new TextDecoder("utf-8", { ignoreBOM: true }).decode(within, HALF_AT_END),
      next: offset + 1,
      cutLine: true,
    };
  const text = within.subarray(0, end).toString("utf8");
  return { kind: "text", text, next: offset + text.split("\n").length - 1, cutLine: false };
}
