// Raw update → Inbound, pure. The receive side stores each update together with who the bot is, so that a mention is
// understood after a restart without the network. Whatever is nobody's message becomes null: edits (they never run
// anything), bots, anonymous admins and channels (no person to authorise), service messages, other bots' commands.

import { z } from "zod";
import type { Address } from "../../core/address.ts";
import type { Quoted } from "../../core/fence.ts";
import type { Inbound } from "../../core/message.ts";
import { safeParse } from "../../core/safe-parse.ts";
import { firstWordAt, shortText } from "../../core/visible-text.ts";
import { mediaFile, mediaNote, mediaSchema } from "./media.ts";
import { quotedFrom } from "./quoted.ts";
import { MAX_CALLBACK_BYTES } from "./render.ts";

const id = z.number().int();
const text = z.string().max(100_000);

const user = z.object({
  id,
  is_bot: z.boolean().optional(),
  first_name: text.optional(),
  last_name: text.optional(),
  username: text.optional(),
});
const chat = z.object({ id, type: z.string() });

const entity = z.object({ type: z.string(), offset: id.optional(), length: id.optional(), user: z.object({ id }).optional() });

const replied = z.object({
  message_id: id.optional().catch(undefined),
  from: user.optional(),
  text: text.optional(),
  caption: text.optional(),
  forum_topic_created: z.unknown().optional(),
});

/** Whose words a forwarded message holds: a person, one who hides, a chat or a channel. */
const origin = z.object({
  sender_user: user.optional().catch(undefined),
  sender_user_name: text.optional().catch(undefined),
  sender_chat: z.object({ title: text }).optional().catch(undefined),
  chat: z.object({ title: text }).optional().catch(undefined),
});

const message = z.object({
  message_id: id,
  chat,
  from: user.optional(),
  sender_chat: z.unknown().optional(),
  is_automatic_forward: z.boolean().optional(),
  forward_origin: z.unknown().optional(),
  /** The bot that wrote it, when a person picked an answer of an inline bot. */
  via_bot: user.optional(),
  is_topic_message: z.boolean().optional(),
  message_thread_id: id.optional(),
  text: text.optional(),
  caption: text.optional(),
  entities: z.array(entity).optional(),
  caption_entities: z.array(entity).optional(),
  reply_to_message: replied.optional(),
  ...mediaSchema.shape,
});

const press = z.object({
  id: z.string().max(200),
  from: user,
  data: text.optional(),
  message: z
    .object({
      chat,
      /** 0 when Telegram no longer shows the message to the bot: then its topic is unknown too. */
      date: z.number(),
      is_topic_message: z.boolean().optional(),
      message_thread_id: id.optional(),
    })
    .optional(),
});

/** Telegram's own button under a draft. Only in private chats, whose id is the person's; who pressed is not said besides. */
const stopped = z.object({ chat, draft_id: id, message_thread_id: id.optional() });

const stored = z.object({
  me: z.object({ id, username: z.string().regex(/^\w{2,64}$/) }),
  update: z.object({
    message: z.unknown().optional(),
    callback_query: z.unknown().optional(),
    stopped_message_generation: z.unknown().optional(),
  }),
  album: z.array(z.unknown()).max(100).optional(),
});

type User = z.output<typeof user>;
type Message = z.output<typeof message>;
type Me = z.output<typeof stored>["me"];

/** The topic with this id is "General": text for it goes to the chat without a thread. */
export const GENERAL_TOPIC = 1;
const COMMAND = /^\/([a-z0-9_]{1,32})(?:@([a-z0-9_]{2,32}))?(?=\s|$)/i;
const MAX_QUOTE = 1_000;
/** Who Telegram names where no person spoke: itself, "a channel", "an anonymous admin". On no list do they stand for somebody. */
const STAND_INS: ReadonlySet<number> = new Set([777_000, 136_817_688, 1_087_968_824]);

const marksOf = ({ text, entities, caption_entities }: Message) => (text === undefined ? caption_entities : entities) ?? [];

/** Never throws; null for what is nobody's message or has another shape than Telegram's. */
export function decodeUpdate(raw: unknown, account: string): Inbound | null {
  const parsed = safeParse(stored, raw);
  if (!parsed.success) return null;
  const { me, update, album } = parsed.data;
  if (update.callback_query !== undefined) return decodePress(update.callback_query, account);
  if (update.stopped_message_generation !== undefined) return decodeStop(update.stopped_message_generation, account);
  const main = safeParse(message, update.message);
  if (!main.success) return null;
  const others = (album ?? []).map((item) => safeParse(message, item)).flatMap((item) => (item.success ? [item.data] : []));
  return decodeMessage(main.data, others, me, account);
}

function decodePress(raw: unknown, account: string): Inbound | null {
  const parsed = safeParse(press, raw);
  if (!parsed.success || !isPerson(parsed.data.from)) return null;
  const { id: pressId, from, data, message: under } = parsed.data;
  if (under === undefined || under.date === 0 || data === undefined) return null;
  const address = addressOf(under, account);
  if (address === null) return null;
  // Answered as a toast (send.ts): nobody else saw the press.
  return { kind: "button", address, sender: senderOf(from), text: pressedCommand(data), mentioned: true, onlyTo: { press: pressId } };
}

/** Made by hand, it may be anything. What none of our buttons carries is no command, and means nothing (gateway.ts says so). */
const pressedCommand = (data: string): string =>
  data.startsWith("/") && Buffer.byteLength(data) <= MAX_CALLBACK_BYTES && data.isWellFormed() && !data.includes("\ufffd") ? data : "";

/** Only of the answer that is named by it: pressed late, it ends no other one. */
function decodeStop(raw: unknown, account: string): Inbound | null {
  const parsed = safeParse(stopped, raw);
  if (!parsed.success || parsed.data.chat.type !== "private") return null;
  const { chat, draft_id, message_thread_id: topic } = parsed.data;
  const address = addressOf({ chat, is_topic_message: topic !== undefined, message_thread_id: topic }, account);
  const sender = { id: String(chat.id) };
  return address === null ? null : { kind: "button", address, sender, text: `/stop answer ${draft_id}`, mentioned: true };
}

function decodeMessage(source: Message, album: readonly Message[], me: Me, account: string): Inbound | null {
  const { from } = source;
  if (from === undefined || !isPerson(from) || source.sender_chat !== undefined || source.is_automatic_forward === true) return null;
  const address = addressOf(source, account);
  if (address === null) return null;
  const mention = new RegExp(`(?<![\\w@])@${me.username}(?!\\w)`, "i");
  const written = source.text ?? source.caption ?? "";
  const named = written.slice(firstWordAt(written)).replace(new RegExp(`^@${me.username}(?!\\w)[,:]?`, "i"), "");
  // Behind what nobody sees as well: the gateway looks for a command there.
  const unnamed = named.slice(firstWordAt(named));
  const marked = quotedFrom(written, written.length - unnamed.length, marksOf(source));
  const words = marked ?? unnamed.trimEnd();
  const media = [source, ...album];
  const notes = media.map((item) => mediaNote(item)).filter((note) => note !== "");
  const sent = media.map(mediaFile).filter((file) => file !== null);
  const origin = { address, sender: senderOf(from), ref: String(source.message_id), ...(sent.length === 0 ? {} : { files: sent }) };
  // Forwarded words are somebody else's, and so are a bot's that they had write for them: to read, not to run.
  const forwarded = source.forward_origin !== undefined || source.via_bot !== undefined;
  const base = { ...origin, ...(notes.length === 0 || forwarded ? {} : { words }) };
  const command = forwarded ? null : COMMAND.exec(words);
  if (command !== null) {
    const [head, name = "", target] = command;
    if (target !== undefined && target.toLowerCase() !== me.username.toLowerCase()) return null;
    return { ...base, kind: "command", text: `/${name.toLowerCase()}${words.slice(head.length)}`, mentioned: true };
  }
  // The bot's name alone is a call, too.
  const body = [...notes, words].filter((part) => part !== "").join("\n") || written.trim();
  if (body === "") return null;
  const mentioned = address.kind === "dm" || mention.test(written) || isNamed(source, me) || isReplyTo(source, me);
  if (forwarded)
    return {
      ...base,
      kind: "message",
      text: "[forwarded message]",
      quoted: forwardOf(source, body),
      isWordless: true,
      mentioned,
    };
  const quoted = quoteOf(source, me);
  const about = { ...replyOf(source, me), ...(words === "" ? { isWordless: true as const } : {}), ...(quoted === null ? {} : { quoted }) };
  return { ...base, kind: "message", text: body, ...about, mentioned };
}

const isPerson = (from: User): boolean => from.is_bot !== true && !STAND_INS.has(from.id);

/** Named without a username: a person's client writes the bot's name and links it. */
const isNamed = (source: Message, me: Me): boolean =>
  [...(source.entities ?? []), ...(source.caption_entities ?? [])].some((item) => item.type === "text_mention" && item.user?.id === me.id);

/** Inside a topic every plain message "replies" to the message that created it: that is nobody's answer to the bot. */
function isReplyTo(source: Message, me: Me): boolean {
  const target = source.reply_to_message;
  return target?.from?.id === me.id && target.forum_topic_created === undefined;
}

/** Which of our own messages is answered: it may be a question. */
function replyOf(source: Message, me: Me): Pick<Inbound, "repliesTo"> {
  const id = source.reply_to_message?.message_id;
  return id === undefined || !isReplyTo(source, me) ? {} : { repliesTo: String(id) };
}

/** What was said before, when the person answers it; the bot's own words are in the session already. */
function quoteOf(source: Message, me: Me): Quoted | null {
  const target = source.reply_to_message;
  const text = target?.text ?? target?.caption ?? "";
  if (text === "" || target?.from === undefined || target.from.id === me.id) return null;
  return { source: `the message being answered, of ${senderOf(target.from).name ?? "somebody"}`, text: shortText(text, MAX_QUOTE) };
}

/** Names of files and whatever else stands in it are not the person's either. */
function forwardOf(source: Message, text: string): Quoted {
  const { sender_user, sender_user_name, sender_chat, chat } =
    safeParse(origin, source.forward_origin ?? { sender_user: source.via_bot }).data ?? {};
  const name =
    sender_user === undefined ? cleanName(sender_user_name ?? sender_chat?.title ?? chat?.title ?? "") : senderOf(sender_user).name;
  return { source: `a forwarded message of ${name || "somebody"}`, text };
}

function addressOf(
  source: { chat: { id: number; type: string }; is_topic_message?: boolean | undefined; message_thread_id?: number | undefined },
  account: string,
): Address | null {
  const { id: chatId, type } = source.chat;
  if (type !== "private" && type !== "group" && type !== "supergroup") return null;
  const base = { channel: "telegram", account, chat: String(chatId), kind: type === "private" ? ("dm" as const) : ("group" as const) };
  const thread = source.message_thread_id;
  // A plain reply carries a thread id too, which is no topic and can't be sent to.
  if (source.is_topic_message !== true || thread === undefined || thread === GENERAL_TOPIC) return base;
  return { ...base, thread: String(thread) };
}

function senderOf(from: User): { id: string; name?: string } {
  const name = cleanName([from.first_name, from.last_name].filter(Boolean).join(" ") || from.username || "");
  return { id: String(from.id), ...(name === "" ? {} : { name }) };
}

const cleanName = (name: string): string => name.replace(/\p{C}/gu, "").slice(0, 64).toWellFormed().trim();
