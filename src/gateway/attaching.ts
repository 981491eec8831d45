// The files of a person's message, before its turn begins (CH2): fetched from the platform and stored, each once however often the turn
// is tried; laid into the workspace for tools; and put in words for the model. What can't be taken is said in the chat, in a sentence each.
// The message waits in the inbox until all of this is done, so nothing that was acknowledged is lost with a process.

import type { Intake } from "../attachments/intake.ts";
import { addressKey } from "../core/address.ts";
import {
  type Attachment,
  attachmentPath,
  cleanFileName,
  type FetchedFile,
  isPicture,
  isRecording,
  isText,
  type SentFile,
  sizeText,
} from "../core/attachment.ts";
import type { Clock } from "../core/clock.ts";
import { errorText, isStorageError } from "../core/errors.ts";
import type { HitFailpoint } from "../core/failpoints.ts";
import { fence, newFenceToken, quotedLine } from "../core/fence.ts";
import type { Logger } from "../core/logger.ts";
import type { Channel, Inbound } from "../core/message.ts";
import type { AttachmentBytes } from "../stores/attachment-bytes.ts";
import { type Attachments, publicOf } from "../stores/attachments.ts";
import type { Database } from "../stores/database.ts";
import { lock } from "../stores/lock-keys.ts";
import type { Outbox } from "../stores/outbox.ts";

export interface AttachingDeps {
  readonly db: Database;
  readonly intake: Intake;
  readonly attachments: Attachments;
  readonly attachmentBytes: AttachmentBytes;
  readonly outbox: Pick<Outbox, "add">;
  readonly clock: Clock;
  readonly failpoint: HitFailpoint;
  readonly log: Logger;
  /** Lays a copy into a workspace, where it is not there yet; only then it is read. False: there is nothing to read. */
  place(workspace: string, path: string, read: () => Promise<Buffer | null>): Promise<boolean>;
}

export interface Attaching {
  readonly row: { readonly id: number };
  readonly inbound: Inbound;
  readonly channel: Channel;
  readonly workspace: string;
  readonly signal: AbortSignal;
  /** What an earlier try of its turn has put on record; null: it is the first, or came no further. */
  readonly onRecord: readonly Attachment[] | null;
}

/** What came with a message, for its transcript. */
export interface Gathered {
  readonly files: readonly Attachment[];
  /** Stands before the person's own words. */
  readonly words: readonly string[];
}

const NOTHING: Gathered = { files: [], words: [] };
/** A text this short is read at once; a longer one by the tool. */
const INLINE_BYTES = 16 * 1024;
const WAITS_MS = [1_000, 4_000] as const;
const LONGEST_WAIT_MS = 30_000;

type Failed = Exclude<FetchedFile, { status: "open" }>;
type Got = { readonly file: Attachment } | { readonly refused: string };

/** Null: it was ended meanwhile. Throws only when the disk refuses. */
export async function gather(deps: AttachingDeps, job: Attaching): Promise<Gathered | null> {
  const { inbound, row, signal } = job;
  const sent = inbound.files ?? [];
  if (sent.length === 0) return NOTHING;
  if (job.onRecord !== null) {
    // What the request says of them stands: fetched again, one that was refused might be there now, and the words would not be true.
    for (const file of job.onRecord) await placed(deps, job.workspace, file);
    return NOTHING;
  }
  const { perMessage } = deps.intake.limits();
  const taken: { readonly file: Attachment; readonly kind: SentFile["kind"] }[] = [];
  const refusals: string[] = [];
  for (const [n, one] of sent.slice(0, perMessage).entries()) {
    const got = await take(deps, job, one, n);
    if (signal.aborted) return null;
    if ("file" in got) taken.push({ file: got.file, kind: one.kind });
    else refusals.push(got.refused);
  }
  if (sent.length > perMessage) refusals.push(`Only the first ${perMessage} files were taken: a message may have no more.`);
  deps.failpoint("file.gathered");
  const words: string[] = [];
  for (const { file, kind } of taken) words.push(await wordsFor(deps, job, file, kind));
  await tellRefusals(deps, job, refusals);
  deps.log.debug({ inboxId: row.id, files: taken.length, refused: refusals.length }, "the files of a message were gathered");
  return {
    files: taken.map(({ file }) => file),
    words: [...words, ...refusals.map((sentence) => `[Not attached: ${quotedLine(sentence)}]`)],
  };
}

async function take(deps: AttachingDeps, job: Attaching, sent: SentFile, n: number): Promise<Got> {
  const { source } = sent;
  const name = cleanFileName(sent.name);
  if ("stored" in source) {
    const known = await deps.attachments.get(source.stored);
    return known === null ? { refused: `“${name}” is no longer kept here.` } : { file: publicOf(known) };
  }
  const origin = `in:${job.row.id}:${n}`;
  const chat = addressKey(job.inbound.address);
  const known = await deps.attachments.findByOrigin(origin);
  if (known !== null) return { file: publicOf(known) };
  const refused = await deps.intake.foresee({ chat, name, size: sent.size });
  if (refused !== null) return { refused };
  for (let tries = 0; ; tries++) {
    const fetched = await fetchOne(job, sent);
    const got =
      fetched.status === "open"
        ? await keep(deps, { origin, chat, message: `inbox:${job.row.id}`, name, pieces: fetched.pieces })
        : fetched;
    if (!("status" in got)) return got;
    const waitMs = got.status === "retry" ? WAITS_MS[tries] : undefined;
    if (got.status === "refused" || waitMs === undefined || job.signal.aborted) {
      deps.log.warn({ inboxId: job.row.id, reason: got.reason }, "a file could not be fetched");
      return { refused: `“${name}” could not be fetched: ${got.reason}.` };
    }
    await deps.clock.sleep(Math.max(waitMs, Math.min(got.afterMs ?? 0, LONGEST_WAIT_MS)), job.signal);
  }
}

const fetchOne = async ({ channel, signal }: Attaching, sent: SentFile): Promise<FetchedFile> =>
  channel.fetchFile === undefined ? { status: "refused", reason: "this channel hands out no files" } : channel.fetchFile(sent, signal);

/** A download that breaks off is like one that never began. */
async function keep(deps: AttachingDeps, incoming: Parameters<Intake["take"]>[0]): Promise<Got | Failed> {
  try {
    return await deps.intake.take(incoming);
  } catch (error) {
    if (isStorageError(error)) throw error;
    return { status: "retry", reason: `the download broke off (${errorText(error)})` };
  }
}

async function wordsFor(deps: AttachingDeps, { workspace }: Attaching, file: Attachment, kind: SentFile["kind"]): Promise<string> {
  const bytes = await deps.attachmentBytes.read(file.id);
  const path = bytes === null ? null : await placed(deps, workspace, file, async () => bytes);
  const what = `${kind} ${quotedLine(file.name)}, ${file.type}, ${sizeText(file.size)}`;
  const where = path === null ? "" : `, in the workspace as ${path}`;
  if (bytes !== null && isText(file) && file.size <= INLINE_BYTES)
    return `[Attached ${what}${where}]\n${fence({ source: `attached file ${file.name}`, text: bytes.toString("utf8") }, newFenceToken())}`;
  if (isText(file)) return `[Attached ${what}${where}. It is too long to stand here: use the tool read.]`;
  if (isRecording(file) || kind === "voice message" || kind === "video")
    return `[Attached ${what}${where}. You can't hear or watch it: say so, and ask for it in words if it matters.]`;
  if (!isPicture(file)) return `[Attached ${what}${where}. You can't read this kind of file directly; say so if nothing here can.]`;
  const size = file.width === undefined ? "" : `, ${file.width} × ${file.height} pixels`;
  return file.unfit === undefined
    ? `[Attached ${what}${size}${where}]`
    : `[Attached ${what}${size}${where}. You are not shown it: ${file.unfit}.]`;
}

/** Tools can do without; the model and people can't wait for it. */
async function placed(
  deps: AttachingDeps,
  workspace: string,
  file: Attachment,
  read = () => deps.attachmentBytes.read(file.id),
): Promise<string | null> {
  const path = attachmentPath(file);
  try {
    return (await deps.place(workspace, path, read)) ? path : null;
  } catch (error) {
    deps.log.warn({ reason: errorText(error), path }, "a file could not be laid into the workspace");
    return null;
  }
}

async function tellRefusals(deps: AttachingDeps, { row, inbound, channel }: Attaching, refusals: readonly string[]): Promise<void> {
  if (refusals.length === 0) return;
  const { address, ref } = inbound;
  // A name is somebody's words, and no markup.
  const markdown = refusals.map((sentence) => `📎 ${sentence.replace(/[\\`*_[\]<>~|]/g, "\\$&")}`).join("\n");
  const parts = channel.render({ markdown, ...(ref === undefined ? {} : { replyTo: ref }) }, address);
  await deps.db.transaction([lock.chat(address)], (tx) => deps.outbox.add(tx, { delivery: `files:${row.id}`, address, parts }));
}
