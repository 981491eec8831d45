// One attempt to post one part, and what its outcome means for delivery; and the look whether an attempt arrived.
// outbox row → delivery → sendPart → Discord. Each message carries a nonce made of its outbox key: sent once more within minutes, Discord
// answers with the message that stands there. Later it has forgotten the nonce, and the channel is read for our own words (DL4).

import { createHash } from "node:crypto";
import type { API } from "@discordjs/core/http-only";
import type { Address } from "../../core/address.ts";
import type { Clock } from "../../core/clock.ts";
import { errorText, isStorageError } from "../../core/errors.ts";
import { draftBegunAt, type Part, type Reconciled, type ReconcileRequest, type SendRequest, type SendResult } from "../../core/message.ts";
import { unsent } from "../failure.ts";
import { type ApiFailure, explainFailure } from "./api.ts";
import type { Drafting } from "./draft.ts";
import type { Echoes } from "./echoes.ts";
import { contentOf, type Editor, THREAD_ARCHIVED } from "./edit.ts";
import { channelOf, findMessage, type Standing } from "./history.ts";
import { asEmpty, type DiscordPart, withoutFile } from "./render.ts";
import { type Whispering, whisper } from "./whisper.ts";

export interface Sender extends Whispering, Editor {
  readonly clock: Clock;
  readonly me: string;
  /** No request of ours is still under way so long after it was begun. */
  readonly settleMs: number;
  readonly echoes: Pick<Echoes, "sent" | "find" | "isOthers">;
  readonly drafts: Pick<Drafting, "complete">;
  /** The bytes of a stored file; null: they are gone. Throws when the disk refuses. */
  readFile(id: string): Promise<Buffer | null>;
}

type Body = Parameters<API["channels"]["createMessage"]>[1];

/** So long Discord surely knows a nonce: "the past few minutes" are its words. */
const NONCE_MS = 2 * 60_000;

const UNKNOWN_CHANNEL = 10_003;
const THREAD_CLOSED: ReadonlySet<number> = new Set([THREAD_ARCHIVED, 160_005]);
const NO_REPLY: ReadonlySet<number> = new Set([160_002]);
const EMPTY_MESSAGE = 50_006;
const BAD_FORM = 50_035;
const TOO_LARGE: ReadonlySet<number> = new Set([40_005, 413]);
const NO_RIGHT = 50_013;
const REPEATED = "(may be repeated)";
const MOVED = "(the thread this belongs to is gone)";

/**
 * At most 25 characters, so a digest: the same over retries and restarts. Of the part as well as of its key: whoever begins anew with an
 * empty state counts from one again, and Discord would take the first answers for those it was sent a minute before.
 */
export const nonceOf = (key: string, part: Part): string =>
  createHash("sha256")
    .update(`${key}\n${JSON.stringify(part)}`)
    .digest("base64url")
    .slice(0, 22);

/** Never throws. */
export async function sendPart(sender: Sender, request: SendRequest): Promise<SendResult> {
  const { address, key, ref } = request;
  const part = request.part as DiscordPart;
  const toResult = async (failure: ApiFailure): Promise<SendResult> =>
    failure.kind === "refused" ? explainRefusal(sender, failure, request) : unsent(sender, failure);
  if (part.onlyTo !== undefined) return whisper(sender, { part, onlyTo: part.onlyTo, address, repeated: request.repeated }, toResult);
  const isMoved = part.thread !== undefined && address.thread === undefined;
  if (ref !== undefined && !isMoved) {
    const completed = await sender.drafts.complete({ ...request, ref }, toResult);
    if (completed?.status === "sent") sender.authTrouble(null);
    if (completed !== null) return completed;
  }
  // Nothing of it was ever seen, and it was only to say that no more comes.
  if (part.onlyDrafted === true) return { status: "sent", ref: "" };
  try {
    const files = await filesOf(sender, part);
    if (files === null) return { status: "rerender", part: withoutFile(part, "it is no longer kept"), reason: "the file is gone" };
    const body = {
      ...contentOf(part, [...(request.repeated ? [REPEATED] : []), ...(isMoved ? [MOVED] : [])]),
      ...(isMoved ? {} : replyOf(part)),
    };
    const sent = await sender.api.channels.createMessage(channelOf(address), {
      ...body,
      ...files,
      nonce: nonceOf(key, part),
      enforce_nonce: true,
    } as unknown as Body);
    sender.authTrouble(null);
    // Posted, but without the message's name: look it up rather than believe.
    if (typeof sent?.id !== "string") return { status: "unknown", reason: "the answer named no message" };
    sender.echoes.sent(nonceOf(key, part), sent.id);
    return { status: "sent", ref: sent.id };
  } catch (error) {
    if (isStorageError(error)) return { status: "retry", reason: errorText(error) };
    return toResult(explainFailure(error));
  }
}

const replyOf = ({ message_reference }: DiscordPart): object => (message_reference === undefined ? {} : { message_reference });

/** Null: what belongs there is no longer kept. */
async function filesOf({ readFile }: Sender, { file, attachment }: DiscordPart): Promise<object | null> {
  if (file !== undefined) return { files: [{ name: file.name, data: Buffer.from(file.content), contentType: "text/markdown" }] };
  if (attachment === undefined) return {};
  const bytes = await readFile(attachment.id);
  return bytes === null ? null : { files: [{ name: attachment.name, data: bytes, contentType: attachment.type }] };
}

const isFile = ({ file, attachment }: DiscordPart): boolean => file !== undefined || attachment !== undefined;

async function explainRefusal(
  sender: Sender,
  { code, reason }: Extract<ApiFailure, { kind: "refused" }>,
  { address, part: given }: SendRequest,
): Promise<SendResult> {
  const part = given as DiscordPart;
  const { thread, ...chat } = address;
  // The text says in its first line that its thread is gone: never silently to the channel itself.
  if (thread !== undefined && (code === UNKNOWN_CHANNEL || THREAD_CLOSED.has(code))) return { status: "retarget", address: chat, reason };
  if (code === UNKNOWN_CHANNEL) return openDirectChat(sender, address, reason);
  if (isFile(part) && (TOO_LARGE.has(code) || code === NO_RIGHT || code === BAD_FORM))
    return { status: "rerender", part: withoutFile(part, reason), reason };
  if (part.message_reference !== undefined && (NO_REPLY.has(code) || (code === BAD_FORM && /message_reference/i.test(reason))))
    return plainer(part, "message_reference", reason);
  if (part.components !== undefined && code === BAD_FORM && /component|custom_id/i.test(reason)) return plainer(part, "components", reason);
  if (code === EMPTY_MESSAGE && !isFile(part)) return { status: "rerender", part: asEmpty(part), reason };
  return { status: "failed", reason };
}

function plainer(part: DiscordPart, field: keyof DiscordPart, reason: string): SendResult {
  const { [field]: _refused, ...rest } = part;
  return { status: "rerender", part: rest, reason };
}

/** A person's own id stands for the direct chat with them, which has another one; opening it can be asked any number of times. */
async function openDirectChat({ api }: Sender, address: Address, reason: string): Promise<SendResult> {
  try {
    const { id } = await api.users.createDM(address.chat);
    if (typeof id !== "string" || id === address.chat) return { status: "failed", reason };
    return { status: "retarget", address: { ...address, chat: id, kind: "dm" }, reason: "the direct chat was opened" };
  } catch (error) {
    const failure = explainFailure(error);
    // It is nobody's id either: a channel that is gone.
    if (failure.kind === "refused") return { status: "failed", reason };
    return { status: "retry", ...(failure.kind === "limited" ? { afterMs: failure.afterMs } : {}), reason: failure.reason };
  }
}

/**
 * Did it arrive? While Discord knows the nonce, sending it again is how to ask. After that the channel tells, by our own words; and when
 * they are not there, nobody can be sure that they never were.
 */
export async function findPart(sender: Sender, request: ReconcileRequest): Promise<Reconciled> {
  const { part: given, key, since, ref, address } = request;
  const part = given as DiscordPart;
  // The first part of an answer to a command is written into its place: done twice it shows once.
  if (part.onlyTo !== undefined)
    return part.onlyTo.way === "command" && part.isFirst === true ? { status: "absent" } : { status: "untold" };
  const heard = sender.echoes.find(nonceOf(key, part));
  if (heard !== null) return { status: "found", ref: heard };
  const begunAt = ref === undefined ? null : draftBegunAt(ref);
  // The same for what is written in the place of its draft.
  if (ref !== undefined && begunAt === null) return { status: "absent" };
  const now = sender.clock.now();
  if (begunAt === null && now >= since && now - since < NONCE_MS) return { status: "again" };
  try {
    const found = await findMessage(sender.api, { address, since: begunAt ?? since }, (message) => isIt(sender, message, part, key));
    if (found !== null) return { status: "found", ref: found };
  } catch (error) {
    const failure = explainFailure(error);
    // A place that is gone can't tell, and takes no message either: sending says so.
    if (failure.kind !== "refused") return { status: "unknown", reason: failure.reason };
    return { status: "absent" };
  }
  return begunAt === null ? { status: "untold" } : { status: "absent" };
}

function isIt({ me, echoes }: Sender, message: Standing, part: DiscordPart, key: string): boolean {
  const nonce = nonceOf(key, part);
  if (message.author.id !== me || echoes.isOthers(message.id, nonce)) return false;
  if (typeof message.nonce === "string") return message.nonce === nonce;
  const { file, attachment } = part;
  const size = attachment?.size ?? (file === undefined ? null : Buffer.byteLength(file.content));
  const hasFile = size === null ? message.attachments.length === 0 : message.attachments.some((one) => one.size === size);
  return hasFile && bare(message.content) === bare(part.content);
}

/** Without what Discord trims, and what we may have put in front. */
const bare = (text: string): string => text.replace(/^(?:\(may be repeated\)|\(the thread this belongs to is gone\)|\s)+/, "").trim();
