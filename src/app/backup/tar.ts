// A tar archive, written and read in pieces: plain files only, in the form every tar opens (ustar; a longer name in a pax record before it).
// A reader believes nothing: whatever is no plain file, or not as its header says, is refused by name.
import { AppError } from "../../core/errors.ts";

const BLOCK = 512;
const NAME_BYTES = 100;
/** Eleven octal digits. */
const MAX_SIZE = 8 ** 11 - 1;
const MAX_PAX = 64 * 1024;

export interface TarFile {
  readonly name: string;
  readonly size: number;
}

export const paddingOf = (size: number): Buffer => Buffer.alloc((BLOCK - (size % BLOCK)) % BLOCK);
export const TAR_END = Buffer.alloc(2 * BLOCK);

/** What stands before a file's bytes. */
export function headOf({ name, size }: TarFile, seconds: number): Buffer {
  if (size > MAX_SIZE) throw new AppError("invalid", `${name} is larger than 8 GB, which a backup can't hold.`);
  if (Buffer.byteLength(name) <= NAME_BYTES) return block(name, size, "0", seconds);
  const record = paxRecord("path", name);
  return Buffer.concat([
    block("pax", record.length, "x", seconds),
    record,
    paddingOf(record.length),
    block("long-name", size, "0", seconds),
  ]);
}

/** Its length counts itself. */
function paxRecord(key: string, value: string): Buffer {
  const rest = ` ${key}=${value}\n`;
  let length = Buffer.byteLength(rest);
  while (String(length).length + Buffer.byteLength(rest) !== length) length = String(length).length + Buffer.byteLength(rest);
  return Buffer.from(`${length}${rest}`);
}

function block(name: string, size: number, type: string, seconds: number): Buffer {
  const bytes = Buffer.alloc(BLOCK);
  const octal = (value: number, digits: number): string => `${value.toString(8).padStart(digits, "0")}\0`;
  bytes.write(name, 0);
  bytes.write(`${octal(0o600, 7)}${octal(0, 7)}${octal(0, 7)}${octal(size, 11)}${octal(seconds, 11)}        ${type}`, NAME_BYTES);
  bytes.write("ustar\u000000", 257);
  bytes.write(`${octal(sumOf(bytes), 6)} `, 148);
  return bytes;
}

/** With blanks in its own place. */
const sumOf = (bytes: Buffer): number => bytes.reduce((sum, byte, n) => sum + (n >= 148 && n < 156 ? 32 : byte), 0);

export interface TarEntry extends TarFile {
  /** Its bytes; read to the end before the next entry is asked for. */
  bytes(): AsyncGenerator<Buffer>;
}

const damaged = (what: string): AppError => new AppError("invalid", `The file is damaged, or no backup of Herald: ${what}.`);

/** Throws AppError("invalid") at the first thing that is no plain file. */
export async function* readTar(source: AsyncIterable<Buffer>): AsyncGenerator<TarEntry> {
  const pieces = createPieces(source);
  let longName: string | null = null;
  for (;;) {
    const head = await pieces.take(BLOCK);
    if (head === null) throw damaged("it ends in the middle");
    if (head.every((byte) => byte === 0)) break;
    const field = (from: number, length: number): string => head.toString("utf8", from, from + length).replace(/\0.*$/s, "");
    if (Number.parseInt(field(148, 8), 8) !== sumOf(head)) throw damaged("a header is not what it was");
    const [size, type] = [Number.parseInt(field(124, 12), 8), field(156, 1)];
    const name: string = longName ?? field(0, NAME_BYTES);
    if (!Number.isSafeInteger(size) || size < 0) throw damaged(`${JSON.stringify(name)} has no size`);
    if (type === "x" && longName === null) {
      longName = readPath(size > MAX_PAX ? null : await pieces.take(size + paddingOf(size).length), size);
      continue;
    }
    if (type !== "0")
      throw new AppError("invalid", `The archive holds ${JSON.stringify(name)}, which is no plain file. Nothing was written.`);
    longName = null;
    yield { name, size, bytes: () => pieces.stream(size) };
    await pieces.take(paddingOf(size).length);
  }
  await pieces.expectNothing();
}

function readPath(record: Buffer | null, size: number): string {
  const path = /^\d+ path=(.+)\n$/s.exec(record?.toString("utf8", 0, size) ?? "")?.[1];
  if (path === undefined) throw damaged("a long name can't be read");
  return path;
}

interface Pieces {
  /** Exactly so many bytes; null: it ended before. */
  take(count: number): Promise<Buffer | null>;
  stream(count: number): AsyncGenerator<Buffer>;
  /** Zeros at most, and not many. */
  expectNothing(): Promise<void>;
}

function createPieces(source: AsyncIterable<Buffer>): Pieces {
  const iterator = source[Symbol.asyncIterator]();
  let held: Buffer = Buffer.alloc(0);
  const more = async (): Promise<boolean> => {
    const { value, done } = await iterator.next();
    if (done !== true) held = held.length === 0 ? value : Buffer.concat([held, value]);
    return done !== true;
  };
  const cut = (count: number): Buffer => {
    const piece = held.subarray(0, count);
    held = held.subarray(count);
    return piece;
  };
  return {
    async take(count) {
      while (held.length < count) if (!(await more())) return null;
      return cut(count);
    },
    async *stream(count) {
      for (let left = count; left > 0; ) {
        if (held.length === 0 && !(await more())) throw damaged("it ends in the middle of a file");
        const piece = cut(Math.min(left, held.length));
        left -= piece.length;
        yield piece;
      }
    },
    async expectNothing() {
      for (let seen = 0; ; ) {
        seen += held.length;
        if (cut(held.length).some((byte) => byte !== 0) || seen > 64 * 1024) throw damaged("something follows its end");
        if (!(await more())) return;
      }
    },
  };
}
