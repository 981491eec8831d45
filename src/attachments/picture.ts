// What a picture's header says of its size, and whether it moves: read from the bytes, never decoded, so that a small file that would
// unpack to gigabytes costs nothing here. Pure.
import { isPicture } from "../core/attachment.ts";

export interface PictureFacts {
  readonly width?: number;
  readonly height?: number;
  readonly unfit?: string;
}

/** The largest side every provider takes; larger ones are refused there, or scaled down to something nobody can read. */
const MAX_SIDE = 8_000;
/** What a provider takes of one picture is 5 MB of base64. */
const MAX_PICTURE_BYTES = 3_750_000;

/** `bytes`: the whole file, or as much of its beginning as there is. */
export function pictureFacts(type: string, bytes: Buffer, size: number): PictureFacts {
  if (!isPicture({ type })) return {};
  const found = sizeOf(type, bytes);
  if (found === null || found.width === 0 || found.height === 0) return { unfit: "its header names no size" };
  const { width, height } = found;
  if (width > MAX_SIDE || height > MAX_SIDE)
    return { width, height, unfit: `it has ${width} × ${height} pixels, and models take at most ${MAX_SIDE} a side` };
  if (size > MAX_PICTURE_BYTES) return { width, height, unfit: "it is larger than the 3.6 MB a model takes" };
  if (type === "image/gif" && isMoving(bytes)) return { width, height, unfit: "it is an animation, and models look at still pictures" };
  return { width, height };
}

interface Size {
  readonly width: number;
  readonly height: number;
}

function sizeOf(type: string, bytes: Buffer): Size | null {
  if (type === "image/png") return bytes.length < 24 ? null : { width: bytes.readUInt32BE(16), height: bytes.readUInt32BE(20) };
  if (type === "image/gif") return bytes.length < 10 ? null : { width: bytes.readUInt16LE(6), height: bytes.readUInt16LE(8) };
  return type === "image/jpeg" ? jpegSize(bytes) : webpSize(bytes);
}

/** Segment by segment up to the one that begins the picture itself. */
function jpegSize(bytes: Buffer): Size | null {
  for (let at = 2; at + 9 < bytes.length; ) {
    if (bytes[at] !== 0xff) return null;
    const marker = bytes[at + 1] ?? 0;
    if (marker === 0xff) at += 1;
    else if (marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker))
      return { height: bytes.readUInt16BE(at + 5), width: bytes.readUInt16BE(at + 7) };
    else at += 2 + bytes.readUInt16BE(at + 2);
  }
  return null;
}

function webpSize(bytes: Buffer): Size | null {
  if (bytes.length < 30) return null;
  const form = bytes.toString("latin1", 12, 16);
  if (form === "VP8 ") return { width: bytes.readUInt16LE(26) & 0x3fff, height: bytes.readUInt16LE(28) & 0x3fff };
  if (form === "VP8L") {
    const bits = bytes.readUInt32LE(21);
    return { width: (bits & 0x3fff) + 1, height: ((bits >>> 14) & 0x3fff) + 1 };
  }
  return form === "VP8X" ? { width: bytes.readUIntLE(24, 3) + 1, height: bytes.readUIntLE(27, 3) + 1 } : null;
}

/** Block by block until a second frame begins; a broken file has none. */
function isMoving(bytes: Buffer): boolean {
  const table = (flags: number): number => ((flags & 0x80) === 0 ? 0 : 3 * 2 ** ((flags & 7) + 1));
  const pastBlocks = (from: number): number => {
    let at = from;
    while (at < bytes.length && bytes[at] !== 0) at += 1 + (bytes[at] ?? 0);
    return at + 1;
  };
  let frames = 0;
  for (let at = 13 + table(bytes[10] ?? 0); at < bytes.length && frames < 2; ) {
    const block = bytes[at];
    if (block === 0x21) at = pastBlocks(at + 2);
    else if (block === 0x2c) {
      frames += 1;
      at = pastBlocks(at + 11 + table(bytes[at + 9] ?? 0));
    } else break;
  }
  return frames > 1;
}
