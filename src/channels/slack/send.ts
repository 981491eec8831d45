// One attempt to post one part, and what its outcome means for delivery; and the look whether an attempt arrived.
// outbox row → delivery → sendPart → Slack. Each message carries its outbox key as metadata, so that after a lost answer
// or a killed process Slack itself can be asked (DL4): nothing is lost and nothing said twice.
import type { WebClient } from "@slack/web-api";
import type { Address } from "../../core/address.ts";
import type { Clock } from "../../core/clock.ts";
import type { OnlyReader, Reconciled, ReconcileRequest, SendRequest, SendResult } from "../../core/message.ts";
import type { TextFile } from "../long-text.ts";
import { type ApiFailure, explainFailure } from "./api.ts";
import { type FileSender, sendFile, uploadedId } from "./file.ts";
import { plainer, type SlackPart, withNote } from "./render.ts";

export interface Sender extends FileSender {
  readonly clock: Clock;
  /** No request of ours is still under way so long after it was begun. */
  readonly settleMs: number;
  /** Told of the token's trouble, and null when a call succeeds again. */
  authTrouble(reason: string | null): void;
}

const EVENT_TYPE = "herald_part";
/** A wrong token is the operator's to change: no hurry, but nothing is lost until then. */
const AUTH_RETRY_MS = 60_000;
const PLACE_GONE = new Set(["channel_not_found", "not_in_channel", "is_archived"]);
const THREAD_GONE = new Set(["thread_not_found", "message_not_found", "cannot_reply_to_message", "invalid_thread_ts"]);
const TOO_MUCH = new Set(["msg_too_long", "msg_blocks_too_long", "invalid_blocks", "invalid_blocks_format", "markdown_text_conflict"]);
/** The bot, or the person, is no member of the place. */
const OUTSIDE = new Set(["channel_not_found", "not_in_channel", "user_not_in_channel"]);
const REPEATED = "(may be repeated)";
const MOVED = "(the thread this belongs to is gone)";
/** Slack's clock and ours may differ. */
const SKEW_MS = 60_000;
const PAGE = 200;
const MAX_PAGES = 20;

/** Never throws. */
export async function sendPart(sender: Sender, request: SendRequest): Promise<SendResult> {
  const { address, key } = request;
  const stored = request.part as SlackPart;
  if (stored.onlyTo !== undefined) return whisper(sender, request, stored.onlyTo);
  const moved = stored.thread !== undefined && address.thread === undefined;
  const { text, blocks, file } = moved ? withNote(stored, MOVED) : stored;
  if (file !== undefined) return postFile(sender, request, { file, text });
  try {
    const { ts } = await sender.client.chat.postMessage({
      ...target(address),
      text,
      blocks: [...blocks],
      metadata: { event_type: EVENT_TYPE, event_payload: { key } },
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

async function postFile(sender: Sender, request: SendRequest, { file, text }: { file: TextFile; text: string }): Promise<SendResult> {
  const { chat, thread } = request.address;
  const place = thread === undefined ? { channel_id: chat } : { channel_id: chat, thread_ts: thread };
  const result = await sendFile(sender, request, {
    ...{ file, comment: text, place },
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
    const { message_ts: ts } = await sender.client.chat.postEphemeral({ channel: request.address.chat, user, text, blocks: [...blocks] });
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

const target = ({ chat, thread }: Address) => ({ channel: chat, ...(thread === undefined ? {} : { thread_ts: thread }) });

function toResult(sender: Sender, failure: ApiFailure, { address, part }: SendRequest): SendResult {
  const { reason } = failure;
  switch (failure.kind) {
    case "limited":
      return { status: "retry", afterMs: failure.afterMs, reason };
    case "offline":
      return { status: "retry", reason };
    case "auth":
      sender.authTrouble(reason);
      return { status: "retry", afterMs: AUTH_RETRY_MS, reason };
    case "lost":
      return { status: "unknown", reason };
    case "refused": {
      const { thread, ...chat } = address;
      if (thread !== undefined && THREAD_GONE.has(failure.code)) return { status: "retarget", address: chat, reason };
      const plain = TOO_MUCH.has(failure.code) ? plainer(part as SlackPart) : null;
      return plain === null ? { status: "failed", reason } : { status: "rerender", part: plain, reason };
    }
  }
}

/**
 * Looks for the key, or the file, in what was posted since. A find is certain at any time; that it is absent only counts once no request of
 * an earlier attempt (also of a killed process) can still be on its way.
 */
export async function findPart(sender: Sender, request: ReconcileRequest): Promise<Reconciled> {
  const { onlyTo, file } = request.part as SlackPart;
  if (onlyTo !== undefined) return { status: "untold" };
  // Only a file whose id is on record can have been shared.
  if (file !== undefined && uploadedId(request) === null) return { status: "absent" };
  const lookedAt = sender.clock.now();
  try {
    const ref = await search(sender.client, request);
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

async function search(client: WebClient, request: ReconcileRequest): Promise<string | null> {
  const { chat, thread } = request.address;
  const oldest = String(Math.max(0, request.since - SKEW_MS) / 1000);
  const id = uploadedId(request);
  let cursor: string | undefined;
  for (let page = 0; page < MAX_PAGES; page++) {
    const query = { channel: chat, oldest, limit: PAGE, include_all_metadata: true, ...(cursor === undefined ? {} : { cursor }) };
    const answer =
      thread === undefined ? await client.conversations.history(query) : await client.conversations.replies({ ...query, ts: thread });
    const found = (answer.messages ?? []).find((message) => (id === null ? keyOf(message) === request.key : hasFile(message, id)));
    if (found?.ts !== undefined) return found.ts;
    cursor = answer.response_metadata?.next_cursor || undefined;
    if (cursor === undefined) return null;
  }
  // Not seen to the end, so nothing can be concluded.
  throw new Error("too many messages to look through");
}

const hasFile = (message: object, id: string): boolean =>
  ((message as { files?: readonly { id?: unknown }[] }).files ?? []).some((file) => file.id === id);

function keyOf(message: object): unknown {
  const { metadata } = message as { metadata?: { event_type?: unknown; event_payload?: { key?: unknown } } };
  return metadata?.event_type === EVENT_TYPE ? metadata.event_payload?.key : undefined;
}
