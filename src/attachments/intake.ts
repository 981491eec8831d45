// The one door by which a file comes to be stored: counted while it arrives, looked at by its content, its bytes whole before its row is
// made. Every refusal is a sentence; of what is refused or broken off nothing stays.
// page upload | a channel's file | send_file → here → stores/attachment-bytes → stores/attachments
import { createHash } from "node:crypto";
import { type Attachment, cleanFileName, sizeText } from "../core/attachment.ts";
import type { Clock } from "../core/clock.ts";
import type { HitFailpoint } from "../core/failpoints.ts";
import { newId } from "../core/ids.ts";
import { createInTurn } from "../core/in-turn.ts";
import type { AttachmentBytes } from "../stores/attachment-bytes.ts";
import { type Attachments, publicOf } from "../stores/attachments.ts";
import type { Database } from "../stores/database.ts";
import { pictureFacts } from "./picture.ts";
import { HEAD_BYTES, typeOf } from "./sniff.ts";

export interface IntakeLimits {
  readonly fileBytes: number;
  readonly perMessage: number;
  /** In the last 24 hours. */
  readonly chatDayBytes: number;
  readonly dayBytes: number;
  /** Stays free on the disk of the state folder. */
  readonly freeBytes: number;
}

export interface IntakeDeps {
  readonly db: Database;
  readonly attachments: Attachments;
  readonly bytes: AttachmentBytes;
  readonly clock: Clock;
  readonly failpoint: HitFailpoint;
  limits(): IntakeLimits;
  /** Free on the disk the bytes go to; null: that is not ours to count. */
  freeBytes(): Promise<number | null>;
}

export interface Incoming {
  /** Once and for all: the same origin again is the same file, and nothing is read. */
  readonly origin: string;
  readonly chat: string;
  readonly message: string | null;
  readonly name: string;
  /** As announced; what really comes is counted. */
  readonly size?: number | undefined;
  readonly pieces: AsyncIterable<Uint8Array>;
}

/** `refused`: a whole sentence, the file's name in it. */
export type Taken = { readonly file: Attachment } | { readonly refused: string };

export interface Intake {
  take(incoming: Incoming): Promise<Taken>;
  /** What it would be refused for before a byte of it was read; null: nothing. */
  foresee(file: Pick<Incoming, "chat" | "name" | "size">): Promise<string | null>;
  limits(): IntakeLimits;
}

const DAY_MS = 24 * 3_600_000;

class TooMuch extends Error {}

export function createIntake(deps: IntakeDeps): Intake {
  /** What is arriving right now: two at once must not both count on the same room. */
  let underWay = 0;
  const inTurn = createInTurn();
  const foresee: Intake["foresee"] = async ({ chat, name, size = 0 }) => {
    const limits = deps.limits();
    const shown = `“${cleanFileName(name)}”`;
    if (size > limits.fileBytes) return tooLarge(shown, limits, size);
    // Read before the rows are: one that gets its row meanwhile is counted twice rather than not at all.
    const added = Math.max(size, 1) + underWay;
    const taken = await deps.attachments.takenSince(deps.clock.now() - DAY_MS, chat);
    if (taken.chat + added > limits.chatDayBytes)
      return `${shown} was not taken: this chat has sent ${sizeText(limits.chatDayBytes)} of files within a day, which is all it may.`;
    if (taken.all + added > limits.dayBytes)
      return `${shown} was not taken: ${sizeText(limits.dayBytes)} of files were sent within a day, which is all this gateway takes.`;
    const free = await deps.freeBytes();
    return free !== null && free - added < limits.freeBytes ? `${shown} was not taken: the gateway's disk is nearly full.` : null;
  };
  return {
    foresee,
    limits: () => deps.limits(),
    async take(incoming) {
      const known = await deps.attachments.findByOrigin(incoming.origin);
      if (known !== null) return { file: publicOf(known) };
      const reserved = incoming.size ?? deps.limits().fileBytes;
      const refused = await inTurn(async () => {
        const sentence = await foresee(incoming);
        if (sentence === null) underWay += reserved;
        return sentence;
      });
      if (refused !== null) return { refused };
      try {
        return await keep(deps, incoming);
      } finally {
        underWay -= reserved;
      }
    },
  };
}

function tooLarge(shown: string, limits: IntakeLimits, size = 0): string {
  const most = sizeText(limits.fileBytes);
  // Just above it both would read the same.
  const has = size === 0 || sizeText(size) === most ? "more than" : `${sizeText(size)}, and files may have at most`;
  return `${shown} was not taken: it has ${has} ${most}.`;
}

async function keep(deps: IntakeDeps, incoming: Incoming): Promise<Taken> {
  const { origin, chat, message, pieces } = incoming;
  const id = newId();
  const name = cleanFileName(incoming.name);
  const limits = deps.limits();
  const meter = createMeter(pieces, limits.fileBytes);
  try {
    await deps.bytes.write(id, meter.pieces());
  } catch (error) {
    if (error instanceof TooMuch) return { refused: tooLarge(`“${name}”`, limits) };
    throw error;
  }
  deps.failpoint("file.written");
  const { head, size, sha256 } = meter.result();
  if (size === 0) {
    await deps.bytes.remove([id]);
    return { refused: `“${name}” was not taken: it is empty.` };
  }
  const type = await typeOf(head);
  // Frames stand all over a GIF; of all others the head is enough.
  const looked = type === "image/gif" && size > head.length ? ((await deps.bytes.read(id)) ?? head) : head;
  const file: Attachment = { id, name, type, size, ...pictureFacts(type, looked, size) };
  const isNew = await deps.db.transaction([], (tx) => deps.attachments.add(tx, { ...file, origin, chat, message, sha256 }));
  deps.failpoint("file.recorded");
  if (isNew) return { file };
  // Somebody else was quicker with the same one.
  const known = await deps.attachments.findByOrigin(origin);
  await deps.bytes.remove([id]);
  if (known === null) throw new Error("an attachment was neither recorded nor found");
  return { file: publicOf(known) };
}

interface Meter {
  pieces(): AsyncIterable<Uint8Array>;
  result(): { readonly head: Buffer; readonly size: number; readonly sha256: string };
}

/** Counts, digests and keeps the beginning of what passes. Throws TooMuch at the first byte too many. */
function createMeter(source: AsyncIterable<Uint8Array>, maxBytes: number): Meter {
  const hash = createHash("sha256");
  const beginning: Uint8Array[] = [];
  let size = 0;
  return {
    async *pieces() {
      for await (const piece of source) {
        if (size < HEAD_BYTES) beginning.push(piece.subarray(0, HEAD_BYTES - size));
        size += piece.byteLength;
        if (size > maxBytes) throw new TooMuch();
        hash.update(piece);
        yield piece;
      }
    },
    result: () => ({ head: Buffer.concat(beginning), size, sha256: hash.digest("hex") }),
  };
}
