// Reading a line file from its end, or a stretch of it: the last N lines of a 100 MB transcript cost a few chunks, not the file.
import { readSync } from "node:fs";

const CHUNK = 64 * 1024;
const NEWLINE = 0x0a;

export interface Line {
  readonly text: string;
  /** Byte offset of the line's first byte. */
  readonly offset: number;
}

/** Complete lines (those that end in a newline), newest first, up to `end`. Bytes after the last newline are not a line. */
export function* linesBackwards(fd: number, end: number): Generator<Line> {
  let pieces: Buffer[] = [];
  let position = end;
  let open = false;
  while (position > 0) {
    const size = Math.min(CHUNK, position);
    position -= size;
    const chunk = Buffer.allocUnsafe(size);
    readFully(fd, chunk, position);
    let lineEnd = size;
    for (let i = chunk.lastIndexOf(NEWLINE, size - 1); i >= 0; i = i === 0 ? -1 : chunk.lastIndexOf(NEWLINE, i - 1)) {
      if (open) yield { text: join(chunk.subarray(i + 1, lineEnd), pieces), offset: position + i + 1 };
      open = true;
      pieces = [];
      lineEnd = i;
    }
    if (open) pieces.unshift(chunk.subarray(0, lineEnd));
  }
  if (open) yield { text: join(Buffer.alloc(0), pieces), offset: 0 };
}

/** Complete lines, oldest first, from the beginning of one up to `end`. */
export function* linesForward(fd: number, from: number, end: number): Generator<string> {
  let pieces: Buffer[] = [];
  for (let position = from; position < end; ) {
    const chunk = Buffer.allocUnsafe(Math.min(CHUNK, end - position));
    readFully(fd, chunk, position);
    position += chunk.length;
    let lineStart = 0;
    for (let i = chunk.indexOf(NEWLINE); i >= 0; i = chunk.indexOf(NEWLINE, lineStart)) {
      pieces.push(chunk.subarray(lineStart, i));
      yield join(Buffer.alloc(0), pieces);
      pieces = [];
      lineStart = i + 1;
    }
    if (lineStart < chunk.length) pieces.push(chunk.subarray(lineStart));
  }
}

/** Offset just behind the last newline before `end`: where a torn last line begins. */
export function endOfLastLine(fd: number, end: number): number {
  let position = end;
  while (position > 0) {
    const size = Math.min(CHUNK, position);
    position -= size;
    const chunk = Buffer.allocUnsafe(size);
    readFully(fd, chunk, position);
    const newline = chunk.lastIndexOf(NEWLINE);
    if (newline >= 0) return position + newline + 1;
  }
  return 0;
}

/** 1-based number of the line that starts at `offset`. Reads the file up to there: only for warnings. */
export function lineNumberAt(fd: number, offset: number): number {
  const chunk = Buffer.allocUnsafe(CHUNK);
  let number = 1;
  for (let position = 0; position < offset; ) {
    const read = readSync(fd, chunk, 0, Math.min(CHUNK, offset - position), position);
    if (read === 0) break;
    for (let i = 0; i < read; i++) if (chunk[i] === NEWLINE) number++;
    position += read;
  }
  return number;
}

function readFully(fd: number, into: Buffer, position: number): void {
  for (let done = 0; done < into.length; ) {
    const read = readSync(fd, into, done, into.length - done, position + done);
    if (read === 0) throw new RangeError("file became shorter while it was read");
    done += read;
  }
}

const join = (head: Buffer, pieces: Buffer[]): string => (pieces.length === 0 ? head : Buffer.concat([head, ...pieces])).toString("utf8");
