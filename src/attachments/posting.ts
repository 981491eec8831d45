// A file on its way out (CH2): a copy of it is stored first, and the row of the outbox refers to that. What happens to the file in the
// workspace afterwards changes nothing, and the same call made again after a crash finds what it did.
import { type Address, addressKey } from "../core/address.ts";
import type { Attachment } from "../core/attachment.ts";
import type { HitFailpoint } from "../core/failpoints.ts";
import type { Channel } from "../core/message.ts";
import type { ToolContext } from "../core/tool.ts";
import { type Attachments, publicOf } from "../stores/attachments.ts";
import type { Database } from "../stores/database.ts";
import { lock } from "../stores/lock-keys.ts";
import type { Outbox } from "../stores/outbox.ts";
import type { Intake, Taken } from "./intake.ts";

export interface FilePosting {
  /** What this call has stored already; null: nothing yet. */
  known(call: string): Promise<Attachment | null>;
  /** Stores and queues it, once for each call. */
  post(outgoing: OutgoingFile): Promise<Taken>;
  /** Queues what is stored: the call was killed in between, or it was not. */
  queue(outgoing: Omit<OutgoingFile, "name" | "bytes">, file: Attachment): Promise<Taken>;
  maxBytes(): Promise<number>;
}

export interface OutgoingFile {
  /** Names the tool call for good. */
  readonly call: string;
  /** Who makes it. */
  readonly by: Sender;
  readonly address: Address;
  readonly name: string;
  readonly caption: string;
  readonly bytes: Buffer;
}

export type Sender = Pick<ToolContext, "runId" | "turnId" | "sessionKey" | "signal">;

/** Whoever sends, as the rows know it. */
interface Poster {
  /** The tree it belongs to: a stop takes that lock. */
  readonly rootKey: string;
  /** Nothing of it is posted in a chat. */
  readonly isSilent: boolean;
  /** It has not ended meanwhile. Looked at under the lock of the tree. */
  isThere(): Promise<boolean>;
}

export interface PostingDeps {
  readonly db: Database;
  readonly attachments: Attachments;
  readonly outbox: Pick<Outbox, "add">;
  readonly intake: Intake;
  readonly failpoint: HitFailpoint;
  channel(name: string, account: string): Channel | null;
  posterOf(sender: Sender): Promise<Poster>;
}

const ENDED = "What sends this has ended; nothing is posted any more.";
const SILENT = "Nothing can be sent: this run works silently, and nothing of it is posted in a chat.";
const OFF = "The chat's channel is off, so nothing can be sent there.";

export function createFilePosting(deps: PostingDeps): FilePosting {
  const originOf = (call: string): string => `out:${call}`;
  const queue: FilePosting["queue"] = async ({ call, by, address, caption }, file) => {
    const way = await findWay(deps, by, address);
    if ("refused" in way) return way;
    const { channel, poster } = way;
    const parts = channel.render({ markdown: caption, file }, address);
    const isQueued = await deps.db.transaction([lock.tree(poster.rootKey), lock.chat(address)], async (tx) => {
      // Stopped a moment ago: whoever did has been told that it is over.
      if (by.signal.aborted || !(await poster.isThere())) return false;
      await deps.outbox.add(tx, { delivery: `file:${call}`, address, parts });
      return true;
    });
    if (!isQueued) return { refused: ENDED };
    deps.failpoint("file.queued");
    return { file };
  };
  return {
    maxBytes: async () => deps.intake.limits().fileBytes,
    async known(call) {
      const file = await deps.attachments.findByOrigin(originOf(call));
      return file === null ? null : publicOf(file);
    },
    async post(outgoing) {
      const { call, by, address, name, bytes } = outgoing;
      const way = await findWay(deps, by, address);
      if ("refused" in way) return way;
      const pieces = {
        async *[Symbol.asyncIterator]() {
          yield bytes;
        },
      };
      const taken = await deps.intake.take({
        ...{ origin: originOf(call), chat: addressKey(address), message: `file:${call}` },
        ...{ name, size: bytes.length, pieces },
      });
      return "refused" in taken ? taken : queue(outgoing, taken.file);
    },
    queue,
  };
}

async function findWay(
  deps: PostingDeps,
  by: Sender,
  address: Address,
): Promise<{ readonly channel: Channel; readonly poster: Poster } | { readonly refused: string }> {
  if (by.signal.aborted) return { refused: ENDED };
  const poster = await deps.posterOf(by);
  if (poster.isSilent) return { refused: SILENT };
  const channel = deps.channel(address.channel, address.account);
  return channel === null ? { refused: OFF } : { channel, poster };
}
