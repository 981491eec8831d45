// One attempt to post one part, and what its outcome means for delivery: done, not done, perhaps done, goes elsewhere.
// outbox row → delivery → sendPart → Telegram. Telegram can't be asked whether a message arrived, so the difference
// between "surely not executed" and "may have been" is all that stands between a lost and a repeated text (DL4).
import { type Api, InputFile } from "grammy/web";
import type { Address } from "../../core/address.ts";
import { type Attachment, isPicture } from "../../core/attachment.ts";
import { errorText, isStorageError } from "../../core/errors.ts";
import type { EditRequest, EditResult, Part, SendRequest, SendResult } from "../../core/message.ts";
import type { TextFile } from "../long-text.ts";
import { type ApiFailure, asGrammySignal, explainFailure } from "./api.ts";
import type { Presses } from "./presses.ts";
import { type TelegramPart, withNotes, withoutFile, withoutFormatting } from "./render.ts";

export interface SendOptions {
  readonly api: Api;
  /** Gives a call up whose answer nobody can wait for any more. */
  readonly signal: AbortSignal;
  /** `reserved`: an announcement's place is posted first and the text edited into it, so that the text can't appear twice. */
  readonly announce: "plain" | "reserved";
  readonly presses: Pick<Presses, "end">;
  /** The bytes of a stored file; null: they are gone. Throws when the disk refuses. */
  readFile(id: string): Promise<Buffer | null>;
}

type MessagePayload = Parameters<Api["raw"]["sendMessage"]>[0];
type EditPayload = Parameters<Api["raw"]["editMessageText"]>[0];
type DocumentPayload = Parameters<Api["raw"]["sendDocument"]>[0];
type PhotoPayload = Parameters<Api["raw"]["sendPhoto"]>[0];
type MediaPayload = Parameters<Api["raw"]["editMessageMedia"]>[0];

const RESERVED_TEXT = "⏳ A sub-agent has finished; its result follows here.";
/** A wrong token is the operator's to change: no hurry, but nothing is lost until then. */
const AUTH_RETRY_MS = 60_000;

/** Never throws. */
export async function sendPart(options: SendOptions, request: SendRequest): Promise<SendResult> {
  const { press, isToast, text } = asPart(request.part);
  if (press !== undefined) {
    // A toast is worth seconds: whatever becomes of this attempt, there is no other. Days later it would be a toast about nothing.
    const ended = options.presses.end(press, isToast === true ? text : undefined);
    if (isToast === true) return ended.then(() => ({ status: "sent", ref: "" }));
  }
  if (asPart(request.part).attachment !== undefined) return postFile(options, request);
  const place = placeIn(request);
  if (place !== null) return fill(options, request, place);
  const reserves = options.announce === "reserved" && asPart(request.part).kind === "announcement";
  return reserves ? reserve(options, request) : post(options, request);
}

/** The id of the status line. One in a chat the text was moved away from doesn't count: there the same id is another message. */
function placeIn({ address, ref }: SendRequest): number | null {
  const [chat, id] = (ref ?? "").split("#");
  return chat === address.chat && id !== undefined ? Number(id) : null;
}

const asPart = (part: Part): TelegramPart => part as TelegramPart;
const chatId = (address: Address): number | string => (/^-?\d{1,16}$/.test(address.chat) ? Number(address.chat) : address.chat);

function target(address: Address): Pick<MessagePayload, "chat_id" | "message_thread_id"> {
  return { chat_id: chatId(address), ...(address.thread === undefined ? {} : { message_thread_id: Number(address.thread) }) };
}

function bodyOf({ address, part, repeated }: SendRequest): Omit<TelegramPart, "topic" | "kind" | "press" | "isToast"> {
  const { topic, kind: _kind, press: _press, isToast: _isToast, text: _text, entities: _entities, ...rest } = asPart(part);
  return { ...rest, ...withNotes(asPart(part), { repeated, moved: topic !== undefined && address.thread === undefined }) };
}

async function post({ api, signal }: SendOptions, request: SendRequest): Promise<SendResult> {
  const { file, ...body } = bodyOf(request);
  const place = target(request.address);
  const aborts = asGrammySignal(signal);
  try {
    const { message_id } =
      file === undefined
        ? await api.raw.sendMessage({ ...place, ...body, ...NO_PREVIEW } as unknown as MessagePayload, aborts)
        : await api.raw.sendDocument({ ...place, ...captioned(body), document: upload(file) } as unknown as DocumentPayload, aborts);
    return { status: "sent", ref: String(message_id) };
  } catch (error) {
    return toResult(explainFailure(error), request);
  }
}

/** A stored file, as a picture where Telegram shows it as one. */
async function postFile({ api, signal, readFile }: SendOptions, request: SendRequest): Promise<SendResult> {
  const { attachment, asDocument, file: _file, ...body } = bodyOf(request);
  if (attachment === undefined) return { status: "failed", reason: "there is no file" };
  const place = { ...target(request.address), ...captioned(body) };
  const aborts = asGrammySignal(signal);
  try {
    const bytes = await readFile(attachment.id);
    if (bytes === null) return withoutIt(request, "it is no longer kept");
    const upload = new InputFile(bytes, attachment.name);
    const { message_id } =
      asDocument !== true && isPhoto(attachment)
        ? await api.raw.sendPhoto({ ...place, photo: upload } as unknown as PhotoPayload, aborts)
        : await api.raw.sendDocument({ ...place, document: upload } as unknown as DocumentPayload, aborts);
    return { status: "sent", ref: String(message_id) };
  } catch (error) {
    if (isStorageError(error)) return { status: "retry", reason: errorText(error) };
    return toResult(explainFailure(error), request);
  }
}

const withoutIt = ({ part }: Pick<SendRequest, "part">, reason: string): SendResult => ({
  status: "rerender",
  part: withoutFile(asPart(part), reason),
  reason,
});

const MAX_PHOTO_BYTES = 10_000_000;
/** Of both sides together, and of one to the other. */
const MAX_PHOTO_SIDES = 10_000;
const MAX_PHOTO_RATIO = 20;

function isPhoto(file: Attachment): boolean {
  const { width = 0, height = 0 } = file;
  if (!isPicture(file) || file.type === "image/gif" || file.size > MAX_PHOTO_BYTES || width * height === 0) return false;
  return width + height <= MAX_PHOTO_SIDES && Math.max(width / height, height / width) <= MAX_PHOTO_RATIO;
}

const NO_PREVIEW = { link_preview_options: { is_disabled: true } };

/** What is called text in a message is called caption under a file. */
const captioned = ({ text, entities, ...rest }: Omit<ReturnType<typeof bodyOf>, "file">): object => ({
  ...rest,
  caption: text,
  ...(entities === undefined ? {} : { caption_entities: entities }),
});

const upload = ({ name, content }: TextFile): InputFile => new InputFile(Buffer.from(content), name);

/** A status line to edit later. If its answer is lost another one is posted: at worst one stands alone. */
async function reserve({ api, signal }: SendOptions, request: SendRequest): Promise<SendResult> {
  try {
    const { reply_parameters } = asPart(request.part);
    const payload = { ...target(request.address), text: RESERVED_TEXT, ...(reply_parameters === undefined ? {} : { reply_parameters }) };
    const message = await api.raw.sendMessage(payload as unknown as MessagePayload, asGrammySignal(signal));
    return { status: "reserved", ref: `${request.address.chat}#${message.message_id}` };
  } catch (error) {
    return toResult(explainFailure(error), request);
  }
}

/** Editing is idempotent: a lost answer is simply edited again, unmarked. */
async function fill(options: SendOptions, request: SendRequest, place: number): Promise<SendResult> {
  const sent: SendResult = { status: "sent", ref: String(place) };
  const { reply_parameters: _reply, disable_notification: _quiet, file, ...body } = bodyOf({ ...request, repeated: false });
  const message = { chat_id: chatId(request.address), message_id: place };
  const aborts = asGrammySignal(options.signal);
  try {
    if (file === undefined) {
      await options.api.raw.editMessageText({ ...message, ...body, ...NO_PREVIEW } as unknown as EditPayload, aborts);
    } else {
      const media = { type: "document", media: upload(file), ...captioned(body) };
      await options.api.raw.editMessageMedia({ ...message, media } as unknown as MediaPayload, aborts);
    }
    return sent;
  } catch (error) {
    const failure = explainFailure(error);
    if (failure.kind === "lost") return { status: "retry", reason: failure.reason };
    if (failure.kind === "refused" && failure.reason.includes("message is not modified")) return sent;
    // Somebody deleted the status line: the text was surely not shown, so it comes as a message of its own.
    if (failure.kind === "refused" && /message (?:to edit not found|can't be edited)/.test(failure.reason)) return post(options, request);
    return toResult(failure, request);
  }
}

/** One attempt to bring a message of ours up to date. Never throws. */
export async function editPart(
  { api, signal }: Pick<SendOptions, "api" | "signal">,
  { address, ref, part }: EditRequest,
): Promise<EditResult> {
  const { topic: _topic, kind: _kind, reply_parameters: _reply, disable_notification: _quiet, file: _file, ...body } = asPart(part);
  // Left out, the old keyboard would stay.
  const markup = { reply_markup: body.reply_markup ?? { inline_keyboard: [] } };
  const payload = { chat_id: chatId(address), message_id: Number(ref), ...body, ...markup, ...NO_PREVIEW };
  try {
    await api.raw.editMessageText(payload as unknown as EditPayload, asGrammySignal(signal));
    return { status: "shown" };
  } catch (error) {
    const failure = explainFailure(error);
    const { kind, reason } = failure;
    if (kind === "flood") return { status: "retry", afterMs: failure.afterMs, reason };
    if (kind === "auth") return { status: "retry", afterMs: AUTH_RETRY_MS, reason };
    if (kind !== "refused") return { status: "retry", reason };
    // Telegram trims and compares for itself.
    if (reason.includes("message is not modified")) return { status: "shown" };
    const isGone = failure.migrateTo !== undefined || EDIT_GONE.test(reason);
    return isGone ? { status: "gone", reason } : { status: "refused", reason };
  }
}

/** Removed, too old, or in a chat that is, or that became another one: nothing there can be edited any more. */
const EDIT_GONE =
  /message (?:to edit not found|can't be edited|identifier is not specified)|MESSAGE_ID_INVALID|chat not found|bot was (?:blocked|kicked)|TOPIC_/i;

function toResult(failure: ApiFailure, request: SendRequest): SendResult {
  switch (failure.kind) {
    case "flood":
      return { status: "retry", afterMs: failure.afterMs, reason: failure.reason };
    case "offline":
    case "conflict":
      return { status: "retry", reason: failure.reason };
    case "auth":
      return { status: "retry", afterMs: AUTH_RETRY_MS, reason: failure.reason };
    case "lost":
      return { status: "unknown", reason: failure.reason };
    case "refused":
      return toRefusal(failure, request);
  }
}

function toRefusal(failure: Extract<ApiFailure, { kind: "refused" }>, { address, part }: SendRequest): SendResult {
  const { reason, migrateTo } = failure;
  const { thread: _thread, ...chat } = address;
  if (migrateTo !== undefined) return { status: "retarget", address: { ...chat, chat: String(migrateTo) }, reason };
  // The text says in its first line that its topic is gone (render.ts): never silently to the chat's root.
  if (address.thread !== undefined && /thread not found|TOPIC_DELETED/i.test(reason)) return { status: "retarget", address: chat, reason };
  const { entities, reply_markup, reply_parameters } = asPart(part);
  if (entities !== undefined && /entit/i.test(reason)) return { status: "rerender", part: withoutFormatting(asPart(part)), reason };
  if (reply_markup !== undefined && /BUTTON|markup|keyboard/i.test(reason)) return plainer(part, "reply_markup", reason);
  if (reply_parameters !== undefined && /repl(?:y|ied)/i.test(reason)) return plainer(part, "reply_parameters", reason);
  const { attachment, asDocument, file } = asPart(part);
  if (attachment !== undefined && asDocument !== true && isPhoto(attachment) && PHOTO_REFUSED.test(reason))
    return { status: "rerender", part: { ...part, asDocument: true }, reason };
  if ((attachment !== undefined || file !== undefined) && FILE_REFUSED.test(reason)) return withoutIt({ part }, reason);
  return { status: "failed", reason };
}

const PHOTO_REFUSED = /PHOTO|IMAGE_PROCESS|dimensions/i;
/** It is the file, not the chat. */
const FILE_REFUSED = /too (?:big|large)|413|file|DOCUMENT|PHOTO|IMAGE_PROCESS|MEDIA/i;

function plainer(part: Part, field: keyof TelegramPart, reason: string): SendResult {
  const { [field]: _refused, ...rest } = part;
  return { status: "rerender", part: rest, reason };
}
