// One attempt to post one part, and what its outcome means for delivery; and the look whether an attempt arrived.
// outbox row → delivery → sendPart → Slack. Each message carries its outbox key as metadata, so that after a lost answer
// or a killed process Slack itself can be asked (DL4): nothing is lost and nothing said twice.
import type { Address } from "../../core/address.ts";
import type { Clock } from "../../core/clock.ts";
import type { EditRequest, EditResult, OnlyReader, Reconciled, ReconcileRequest, SendRequest, SendResult } from "../../core/message.ts";
import { type TokenWatch, unedited, unsent } from "../failure.ts";
import { type ApiFailure, explainFailure } from "./api.ts";
import { type FileSender, sendFile, uploadedId } from "./file.ts";
import { findMessage, keyOf, metadataOf } from "./history.ts";
import { plainer, type SlackPart, withNote, withoutFile } from "./render.ts";
import type { Streams } from "./stream.ts";

export interface Sender extends FileSender, TokenWatch {
  readonly clock: Clock;
  /** No request of ours is still under way so long after it was begun. */
  readonly settleMs: number;
  /** Answers that are read while they are written. */
  readonly streams: Pick<Streams, "complete">;
  /** The bytes of a stored file; null: they are gone. */
  readFile(id: string): Promise<Buffer | null>;
}

const PLACE_GONE = new Set(["channel_not_found", "not_in_channel", "is_archived"]);
const THREAD_GONE = new Set(["thread_not_found", "message_not_found", "cannot_reply_to_message", "invalid_thread_ts"]);
const EDIT_GONE = new Set(["cant_update_message", "edit_window_closed"]);
const TOO_MUCH = new Set(["msg_too_long", "msg_blocks_too_long", "invalid_blocks", "invalid_blocks_format", "markdown_text_conflict"]);
/** The bot, or the person, is no member of the place. */
const OUTSIDE = new Set(["channel_not_found", "not_in_channel", "user_not_in_channel"]);
const REPEATED = "(may be repeated)";
const MOVED = "(the thread this belongs to is gone)";

/** Never throws. */
export async function sendPart(sender: Sender, request: SendRequest): Promise<SendResult> {
  const { address, key } = request;
  const stored = request.part as SlackPart;
  if (stored.onlyTo !== undefined) return whisper(sender, request, stored.onlyTo);
  if (isPerson(address)) return openDirectChat(sender, request);
  const moved = stored.thread !== undefined && address.thread === undefined;
  const { text, blocks } = moved ? withNote(stored, MOVED) : stored;
  if (isFile(stored)) return postFile(sender, request, text);
  if (request.ref !== undefined && !moved) {
    const completed = await sender.streams.complete({ ...request, ref: request.ref }, (failure) => toResult(sender, failure, request));
    if (completed?.status === "sent") sender.authTrouble(null);
    if (completed !== null) return completed;
  }
  // Nothing of it was ever seen, and it was only to say that no more comes.
  if (stored.onlyDrafted === true) return { status: "sent", ref: "" };
  try {
    const { ts } = await sender.client.chat.postMessage({
      ...target(address),
      text,
      blocks: [...blocks],
      metadata: metadataOf(key),
      unfurl_links: false,
      unfurl_media: false,
    });
    sender.authTrouble(null);
    // Posted, but without the message's name: look it up rather than believe.
    return typeof ts === "string" ? { status: "sent", ref: ts } : { status: "unknown", reason: "the answer named no message" };
  } catch (error) {
    return toResult(sender, explainFailure(error), request);
  }
}

/** A person's own id stands for the direct chat with them, which has another one. */
const isPerson = ({ chat }: Address): boolean => /^[UW]/.test(chat);

/**
 * Slack takes a message for a person's id, but neither a file nor a question about what arrived: so the chat is opened first, which can
 * be asked any number of times, and the message is sent to its own address, where order and pace are those of the chat.
 */
async function openDirectChat(sender: Sender, request: SendRequest): Promise<SendResult> {
  const { address } = request;
  try {
    const { channel } = await sender.client.conversations.open({ users: address.chat });
    sender.authTrouble(null);
    if (typeof channel?.id !== "string") return { status: "retry", reason: "Slack named no direct chat" };
    return { status: "retarget", address: { ...address, chat: channel.id }, reason: "the direct chat was opened" };
  } catch (error) {
    const failure = explainFailure(error);
    // Nothing was posted, whatever became of the answer.
    return failure.kind === "lost" ? { status: "retry", reason: failure.reason } : toResult(sender, failure, request);
  }
}

const isFile = ({ file, attachment }: SlackPart): boolean => file !== undefined || attachment !== undefined;

async function postFile(sender: Sender, request: SendRequest, text: string): Promise<SendResult> {
  const { file, attachment } = request.part as SlackPart;
  const read = async (): Promise<Uint8Array<ArrayBuffer> | null> => {
    const bytes = attachment === undefined ? Buffer.from(file?.content ?? "") : await sender.readFile(attachment.id);
    return bytes === null ? null : new Uint8Array(bytes);
  };
  const { chat, thread } = request.address;
  const place = thread === undefined ? { channel_id: chat } : { channel_id: chat, thread_ts: thread };
  const result = await sendFile(sender, request, {
    ...{ name: attachment?.name ?? file?.name ?? "", read, comment: text, place },
    toResult: (failure) => toResult(sender, failure, request),
  });
  if (result.status === "sent") sender.authTrouble(null);
  return result;
}

/** A message only one person sees. It stands in no history and takes no metadata, so nobody can ask whether it arrived. */
async function whisper(sender: Sender, request: SendRequest, { user = "", url }: OnlyReader): Promise<SendResult> {
  const stored = request.part as SlackPart;
  const { text, blocks } = request.repeated ? withNote(stored, REPEATED) : stored;
  try {
    const { message_ts: ts } = await sender.client.chat.postEphemeral({ ...target(request.address), user, text, blocks: [...blocks] });
    sender.authTrouble(null);
    return { status: "sent", ref: ts ?? "" };
  } catch (error) {
    const failure = explainFailure(error);
    if (failure.kind !== "refused" || !OUTSIDE.has(failure.code) || url === undefined) return toResult(sender, failure, request);
    // The command's own address works there, too, for a while.
    const second = await sender.givenUrls.post(url, JSON.stringify({ response_type: "ephemeral", text, blocks }));
    return second === null ? { status: "sent", ref: "" } : toResult(sender, second, request);
  }
}

/** One attempt to bring a message of ours up to date. Never throws. */
export async function editPart(sender: Sender, { address, ref, part }: EditRequest): Promise<EditResult> {
  const { text, blocks } = part as SlackPart;
  try {
    // Its metadata stays as it is: by it the message was found, and can be again.
    await sender.client.chat.update({ channel: address.chat, ts: ref, text, blocks: [...blocks] });
    sender.authTrouble(null);
    return { status: "shown" };
  } catch (error) {
    const failure = explainFailure(error);
    if (failure.kind !== "refused") return unedited(sender, failure);
    const isGone = EDIT_GONE.has(failure.code) || PLACE_GONE.has(failure.code) || THREAD_GONE.has(failure.code);
    return { status: isGone ? "gone" : "refused", reason: failure.reason };
  }
}

const target = ({ chat, thread }: Address) => ({ channel: chat, ...(thread === undefined ? {} : { thread_ts: thread }) });

function toResult(sender: Sender, failure: ApiFailure, { address, part }: SendRequest): SendResult {
  const { kind, reason } = failure;
  const stored = part as SlackPart;
  if (kind !== "refused") {
    const result = unsent(sender, failure);
    // Of all that is wrong with a token only this is about files.
    const isScope = kind === "auth" && isFile(stored) && reason.includes("missing_scope");
    return isScope ? { status: "rerender", part: withoutFile(stored, "the Slack app lacks a scope"), reason } : result;
  }
  const { thread, ...chat } = address;
  if (thread !== undefined && THREAD_GONE.has(failure.code)) return { status: "retarget", address: chat, reason };
  if (isFile(stored) && !PLACE_GONE.has(failure.code)) return { status: "rerender", part: withoutFile(stored, reason), reason };
  const plain = TOO_MUCH.has(failure.code) ? plainer(stored) : null;
  return plain === null ? { status: "failed", reason } : { status: "rerender", part: plain, reason };
}

/**
 * Looks for the key, or the file, in what was posted since. A find is certain at any time; that it is absent only counts once no request of
 * an earlier attempt (also of a killed process) can still be on its way.
 */
export async function findPart(sender: Sender, request: ReconcileRequest): Promise<Reconciled> {
  const { onlyTo } = request.part as SlackPart;
  if (onlyTo !== undefined) return { status: "untold" };
  // Only a file whose id is on record can have been shared.
  if (isFile(request.part as SlackPart) && uploadedId(request) === null) return { status: "absent" };
  const lookedAt = sender.clock.now();
  try {
    const id = uploadedId(request);
    const ref = await findMessage(sender.client, request, (message) =>
      id === null ? keyOf(message) === request.key : (message.files ?? []).some((one) => one.id === id),
    );
    if (ref !== null) return { status: "found", ref };
  } catch (error) {
    const failure = explainFailure(error);
    if (failure.kind === "auth") sender.authTrouble(failure.reason);
    // A place that is gone can't tell, and takes no message either: sending says so.
    const isGone = failure.kind === "refused" && (PLACE_GONE.has(failure.code) || THREAD_GONE.has(failure.code));
    if (!isGone) return { status: "unknown", reason: failure.reason };
  }
  if (lookedAt - request.since < sender.settleMs) return { status: "unknown", reason: "not there yet" };
  return { status: "absent" };
}
