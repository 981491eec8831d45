// One attempt to post one part, and what its outcome means for delivery: done, not done, perhaps done, goes elsewhere.
// outbox row → delivery → sendPart → Telegram. Telegram can't be asked whether a message arrived, so the difference
// between "surely not executed" and "may have been" is all that stands between a lost and a repeated text (DL4).
import { type Api, InputFile } from "grammy/web";
import type { Address } from "../../core/address.ts";
import type { Part, SendRequest, SendResult } from "../../core/message.ts";
import type { TextFile } from "../long-text.ts";
import { type ApiFailure, asGrammySignal, explainFailure } from "./api.ts";
import { type TelegramPart, withNotes, withoutFormatting } from "./render.ts";

export interface SendOptions {
  readonly api: Api;
  /** Gives a call up whose answer nobody can wait for any more. */
  readonly signal: AbortSignal;
  /** `reserved`: an announcement's place is posted first and the text edited into it, so that the text can't appear twice. */
  readonly announce: "plain" | "reserved";
}

type MessagePayload = Parameters<Api["raw"]["sendMessage"]>[0];
type EditPayload = Parameters<Api["raw"]["editMessageText"]>[0];
type DocumentPayload = Parameters<Api["raw"]["sendDocument"]>[0];
type MediaPayload = Parameters<Api["raw"]["editMessageMedia"]>[0];

const RESERVED_TEXT = "⏳ A sub-agent has finished; its result follows here.";
/** A wrong token is the operator's to change: no hurry, but nothing is lost until then. */
const AUTH_RETRY_MS = 60_000;

/** Never throws. */
export async function sendPart(options: SendOptions, request: SendRequest): Promise<SendResult> {
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

function bodyOf({ address, part, repeated }: SendRequest): Omit<TelegramPart, "topic" | "kind"> {
  const { topic, kind: _kind, text: _text, entities: _entities, ...rest } = asPart(part);
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

const NO_PREVIEW = { link_preview_options: { is_disabled: true } };

/** What is called text in a message is called caption under a file. */
const captioned = ({ text, entities, ...rest }: Omit<TelegramPart, "topic" | "kind" | "file">): object => ({
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
  return { status: "failed", reason };
}

function plainer(part: Part, field: keyof TelegramPart, reason: string): SendResult {
  const { [field]: _refused, ...rest } = part;
  return { status: "rerender", part: rest, reason };
}
