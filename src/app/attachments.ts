// Files of messages, wired: the door they come in by, what the page may do with them, how a turn gathers them, and sending one.
import { statfs } from "node:fs/promises";
import type { Agents } from "../agents/agent.ts";
import { createIntake, type Intake, type IntakeLimits } from "../attachments/intake.ts";
import { createFilePosting, type FilePosting, type PostingDeps } from "../attachments/posting.ts";
import { sweepAttachments } from "../attachments/sweep.ts";
import { fileChat } from "../channels/web/channel.ts";
import type { Config } from "../config/schema.ts";
import { attachmentPath } from "../core/attachment.ts";
import { errorText } from "../core/errors.ts";
import { type Attaching, type Gathered, gather } from "../gateway/attaching.ts";
import { publicOf, type StoredAttachment } from "../stores/attachments.ts";
import { placeFile, removePlaced } from "../tools/place-file.ts";
import type { FileDesk } from "../web/files-api.ts";
import type { Base } from "./base.ts";
import type { Stores } from "./store-parts.ts";

export interface AttachmentParts {
  readonly intake: Intake;
  readonly desk: FileDesk;
  gather(job: Attaching): Promise<Gathered | null>;
  /** Forgets what nobody needs any more, with the copies of it in this machine's workspaces. */
  sweep(): Promise<void>;
  /** How files leave, once there are channels. */
  outlet(posters: Pick<PostingDeps, "channel" | "posterOf">): FilePosting;
}

export interface AttachmentDeps extends Pick<Base, "config" | "clock" | "failpoint" | "log" | "stateDir"> {
  readonly stores: Stores;
  readonly agents: Pick<Agents, "list">;
}

const MEGABYTE = 1024 * 1024;

export function createAttachmentParts(deps: AttachmentDeps): AttachmentParts {
  const { stores, clock, failpoint, log } = deps;
  const { db, attachments, attachmentBytes, outbox } = stores;
  const intake = createIntake({
    ...{ db, attachments, bytes: attachmentBytes, clock, failpoint },
    limits: () => limitsOf(deps.config()),
    // Rows lie on another machine's disk, which has a keeper of its own.
    freeBytes: async () => (stores.installation === null ? freeBytes(deps.stateDir) : null),
  });
  return {
    intake,
    desk: createFileDesk(stores, intake),
    outlet: (posters) => createFilePosting({ db, attachments, outbox, intake, failpoint, ...posters }),
    sweep: () =>
      sweepAttachments(
        { db, attachments, bytes: attachmentBytes, clock, removeCopies: (file) => removeCopies(deps, file) },
        deps.config().attachments.keepDays,
      ),
    gather: (job) => gather({ db, intake, attachments, attachmentBytes, outbox, clock, failpoint, log, place: placeFile }, job),
  };
}

/** Whichever agent's turn it came to. */
async function removeCopies({ agents, log }: AttachmentDeps, file: StoredAttachment): Promise<void> {
  const path = attachmentPath(file);
  for (const workspace of new Set(agents.list().map((agent) => agent.workspace))) {
    try {
      await removePlaced(workspace, path, file);
    } catch (error) {
      log.warn({ reason: errorText(error), path }, "the copy of a file that is forgotten stays in a workspace");
    }
  }
}

const limitsOf = ({ attachments }: Config): IntakeLimits => ({
  fileBytes: attachments.maxFileMegabytes * MEGABYTE,
  perMessage: attachments.maxPerMessage,
  chatDayBytes: attachments.chatDayMegabytes * MEGABYTE,
  dayBytes: attachments.dayMegabytes * MEGABYTE,
  freeBytes: attachments.freeDiskMegabytes * MEGABYTE,
});

async function freeBytes(folder: string): Promise<number> {
  const { bavail, bsize } = await statfs(folder);
  return bavail * bsize;
}

/** Uploads that wait in one chat: two messages' worth, so that a failed send and the next one have room. */
const UNSENT_MESSAGES = 2;

export function createFileDesk(
  { db, attachments, attachmentBytes }: Pick<Stores, "db" | "attachments" | "attachmentBytes">,
  intake: Intake,
): FileDesk {
  return {
    limits: () => intake.limits(),
    async take({ chat: pageChat, key, ...upload }) {
      const chat = fileChat(pageChat);
      const { perMessage } = intake.limits();
      if ((await attachments.countUnsent(chat)) >= UNSENT_MESSAGES * perMessage)
        return { refused: `${UNSENT_MESSAGES * perMessage} files wait to be sent in this chat already. Send or remove some first.` };
      return intake.take({ ...upload, chat, origin: `upload:${pageChat}:${key}`, message: null });
    },
    async read(id) {
      const file = await attachments.get(id);
      const bytes = file === null ? null : await attachmentBytes.read(id);
      return file === null || bytes === null ? null : { file: publicOf(file), bytes };
    },
    async discard(chat, id) {
      const isGone = await db.transaction([], (tx) => attachments.discard(tx, id, fileChat(chat)));
      if (isGone) await attachmentBytes.remove([id]);
      return isGone;
    },
  };
}
