// Attachments for tests: the door on a database, and files of each kind, made by hand.
import { deflateSync } from "node:zlib";
import { createFileDesk } from "../../src/app/attachments.ts";
import { createIntake, type Intake, type IntakeLimits } from "../../src/attachments/intake.ts";
import type { Clock } from "../../src/core/clock.ts";
import { noFailpoints } from "../../src/core/failpoints.ts";
import type { AttachmentBytes } from "../../src/stores/attachment-bytes.ts";
import { type Attachments, createAttachments } from "../../src/stores/attachments.ts";
import type { Database } from "../../src/stores/database.ts";
import { createFileBytes } from "../../src/stores/file-bytes.ts";
import type { FileOutlet } from "../../src/tools/send-file.ts";
import type { FileDesk } from "../../src/web/files-api.ts";

/** For whoever sends none. */
export const noOutlet: FileOutlet = {
  maxBytes: async () => 0,
  known: async () => null,
  post: async () => ({ refused: "no" }),
  queue: async () => ({ refused: "no" }),
};

/** For whoever answers messages without files. */
export const noFiles = async () => ({ files: [], words: [] });

export const LIMITS: IntakeLimits = {
  fileBytes: 20 * 1024 * 1024,
  perMessage: 10,
  chatDayBytes: 500 * 1024 * 1024,
  dayBytes: 2_000 * 1024 * 1024,
  freeBytes: 0,
};

export interface FileRig {
  readonly attachments: Attachments;
  readonly bytes: AttachmentBytes;
  readonly intake: Intake;
  readonly desk: FileDesk;
  limits: IntakeLimits;
  freeBytes: number | null;
}

export function createFileRig(db: Database, clock: Clock, stateDir: string, bytes = createFileBytes(stateDir)): FileRig {
  const attachments = createAttachments({ db, clock });
  const now = { limits: LIMITS, freeBytes: null as number | null };
  const limits = (): IntakeLimits => now.limits;
  const intake = createIntake({ db, attachments, bytes, clock, failpoint: noFailpoints, limits, freeBytes: async () => now.freeBytes });
  const desk = createFileDesk({ db, attachments, attachmentBytes: bytes }, intake);
  return Object.assign(now, { attachments, bytes, intake, desk });
}

/** One piece after the other. */
export async function* inPieces(bytes: Uint8Array, size = 64 * 1024): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

function chunk(type: string, data: Buffer): Buffer {
  const length = Buffer.alloc(4);
  length.writeUInt32BE(data.length);
  // Nobody here looks at the checksum of a picture; browsers do.
  const sum = Buffer.alloc(4);
  sum.writeUInt32BE(crc32(Buffer.concat([Buffer.from(type, "latin1"), data])));
  return Buffer.concat([length, Buffer.from(type, "latin1"), data, sum]);
}

function crc32(bytes: Buffer): number {
  let crc = 0xffffffff;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return (crc ^ 0xffffffff) >>> 0;
}

/** A red picture of this size; its pixels are there only when they are few. */
export function png(width = 2, height = 2): Buffer {
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([8, 2, 0, 0, 0], 8);
  const row = Buffer.concat([Buffer.of(0), Buffer.alloc(3 * Math.min(width, 1_000)).map((_, n) => (n % 3 === 0 ? 220 : 30))]);
  const pixels = deflateSync(Buffer.concat(Array.from({ length: Math.min(height, 1_000) }, () => row)));
  const signature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
  return Buffer.concat([signature, chunk("IHDR", header), chunk("IDAT", pixels), chunk("IEND", Buffer.alloc(0))]);
}

export function gif(frames: number): Buffer {
  const head = Buffer.concat([Buffer.from("GIF89a", "latin1"), Buffer.from([1, 0, 1, 0, 0x80, 0, 0, 0, 0, 0, 255, 255, 255])]);
  const frame = Buffer.from([0x21, 0xf9, 4, 0, 1, 0, 0, 0, 0x2c, 0, 0, 0, 0, 1, 0, 1, 0, 0, 2, 2, 0x44, 1, 0]);
  return Buffer.concat([head, ...Array.from({ length: frames }, () => frame), Buffer.of(0x3b)]);
}
