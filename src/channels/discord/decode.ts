// Stored payload → Inbound, pure. The receive side stores each together with who the bot is and where it was said, so that a mention and
// a thread are understood after a restart without the network. Whatever is nobody's message becomes null: bots, webhooks and ourselves,
// joins, pins and all that Discord itself says.
import type { Address } from "../../core/address.ts";
import { type FileKind, type SentFile, sizeText } from "../../core/attachment.ts";
import type { Quoted } from "../../core/fence.ts";
import type { Inbound } from "../../core/message.ts";
import { safeParse } from "../../core/safe-parse.ts";
import { firstWordAt, shortText } from "../../core/visible-text.ts";
import { COMMAND_NAMES } from "./commands.ts";
import {
  attachmentSchema,
  type DiscordFile,
  type DiscordMessage,
  type Interaction,
  interactionSchema,
  messageSchema,
  type Place,
  type Stored,
  storedSchema,
  type User,
} from "./payload.ts";

/** What a person says: a message, or a reply to one. */
const SAID: ReadonlySet<number> = new Set([0, 19]);
const FORWARD = 1;
const COMMAND = /^\/([a-z0-9_]{1,32})(?=\s|$)/i;
const MAX_TEXT = 10_000;
const MAX_QUOTE = 1_000;

/** Never throws; null for what is nobody's message or has another shape than Discord's. */
export function decodePayload(raw: unknown, account: string): Inbound | null {
  const parsed = safeParse(storedSchema, raw);
  if (!parsed.success) return null;
  const stored = parsed.data;
  if (stored.kind === "interaction") {
    const interaction = safeParse(interactionSchema, stored.payload);
    return interaction.success ? decodeInteraction(interaction.data, stored, account) : null;
  }
  const message = safeParse(messageSchema, stored.payload);
  return message.success ? decodeMessage(message.data, stored, account) : null;
}

function addressOf(channel: string, { kind, parent }: Place, account: string): Address {
  const base = { channel: "discord", account, kind };
  return parent === undefined ? { ...base, chat: channel } : { ...base, chat: parent, thread: channel };
}

function decodeInteraction(interaction: Interaction, { place }: Stored, account: string): Inbound | null {
  const { id, application_id: app, token, channel_id, type, data } = interaction;
  const from = interaction.member?.user ?? interaction.user;
  const channel = channel_id ?? interaction.channel?.id;
  if (from === undefined || from === null || !isPerson(from) || typeof channel !== "string") return null;
  const line = type === 2 ? typedCommand(data) : pressedCommand(data.custom_id ?? "");
  const base = { address: addressOf(channel, place, account), sender: senderOf(from), text: line, mentioned: true };
  // Nobody else saw it: its answer belongs to it, by the token it came with. A press in a direct chat is answered there, where it stays.
  const onlyTo = type === 3 && place.kind === "dm" ? {} : { onlyTo: { id, app, token, way: type === 2 ? "command" : "press" } };
  return { ...base, kind: type === 2 ? "command" : "button", ...onlyTo };
}

/** All commands have one option at most: what would be typed behind the name. */
function typedCommand({ name = "", options = [] }: Interaction["data"]): string {
  const words = options.flatMap(({ value }) => (value === undefined ? [] : [String(value)])).join(" ");
  return `/${name.toLowerCase()} ${words.slice(0, MAX_TEXT).toWellFormed()}`.trim();
}

/** Made by hand, it may be anything. What none of our buttons carries is no command, and means nothing (gateway.ts says so). */
const pressedCommand = (data: string): string => (data.startsWith("/") && data.isWellFormed() ? data : "");

function decodeMessage(message: DiscordMessage, { me, place }: Stored, account: string): Inbound | null {
  if (!isSaid(message, me)) return null;
  const address = addressOf(message.channel_id, place, account);
  const origin = { address, sender: senderOf(message.author), ref: message.id };
  const written = (message.content ?? "").slice(0, MAX_TEXT).toWellFormed();
  const named = written.slice(firstWordAt(written)).replace(new RegExp(`^<@!?${me}>[,:]?`), "");
  const words = toReadable(named.slice(firstWordAt(named)), message).trimEnd();
  const isNamed = new RegExp(`<@!?${me}>`).test(written) || (message.mentions ?? []).some((one) => one.id === me);
  const mentioned = address.kind === "dm" || isNamed || message.referenced_message?.author.id === me;
  if (message.message_reference?.type === FORWARD) return decodeForward(message, { ...origin, mentioned });
  const attached = filesOf(message.attachments);
  const notes = [...attached.map(fileNote), ...otherNotes(message)];
  const base = { ...origin, ...(notes.length === 0 ? {} : { words }), ...sentFiles(message, attached) };
  const [, command = ""] = COMMAND.exec(words) ?? [];
  // Among people a word with a stroke is not always meant for us: without our name only what we know is.
  if (command !== "" && (mentioned || COMMAND_NAMES.has(command.toLowerCase())))
    return { ...base, kind: "command", text: `/${command.toLowerCase()}${words.slice(command.length + 1)}`, mentioned: true };
  // The bot's name alone is a call, too.
  const text = [...notes, words].filter((part) => part !== "").join("\n") || toReadable(written, message).trim();
  if (text === "") return null;
  const about = {
    ...replyOf(message, me),
    ...(words === "" ? { isWordless: true as const } : {}),
  };
  return { ...base, kind: "message", text, ...about, mentioned };
}

/** Somebody else's words: to read, not to run. */
function decodeForward(message: DiscordMessage, base: Omit<Inbound, "kind" | "text">): Inbound | null {
  const shown = (message.message_snapshots ?? []).map(({ message: one }) => one);
  const attached = shown.flatMap((one) => filesOf(one.attachments));
  const text = [...attached.map(fileNote), ...shown.map(({ content }) => content ?? "")].filter((part) => part !== "").join("\n");
  if (text === "") return null;
  const quoted: Quoted = { source: "a forwarded message of somebody", text: text.slice(0, MAX_TEXT).toWellFormed() };
  return { ...base, kind: "message", text: "[forwarded message]", quoted, isWordless: true, ...sentFiles(message, attached) };
}

/** By a person, and neither by us nor by a machine. */
export const isSaid = ({ type, author, webhook_id }: DiscordMessage, me: string): boolean =>
  SAID.has(type) && isPerson(author) && author.id !== me && (webhook_id === undefined || webhook_id === null);

const isPerson = ({ bot, system }: User): boolean => bot !== true && system !== true;

/** It holds nothing at all: where people write, this is what comes without the right to read what they write. */
export const isBlank = ({ content, attachments, sticker_items, poll, message_snapshots }: DiscordMessage): boolean =>
  (content ?? "") === "" && [attachments, sticker_items, message_snapshots].every((list) => (list ?? []).length === 0) && !poll;

/** Which of our own messages is answered (it may be a question), or what another said whose message is. */
function replyOf({ referenced_message: target }: DiscordMessage, me: string): Pick<Inbound, "repliesTo" | "quoted"> {
  if (target === null || target === undefined) return {};
  if (target.author.id === me) return { repliesTo: target.id };
  const text = target.content ?? "";
  if (text === "") return {};
  const source = `the message being answered, of ${senderOf(target.author).name ?? "somebody"}`;
  return { quoted: { source, text: shortText(text, MAX_QUOTE) } };
}

/** `<@42>` → `@Ann`, `<:wave:1>` → `:wave:`; what else stands in such brackets stays. */
function toReadable(text: string, { mentions }: DiscordMessage): string {
  const names = new Map((mentions ?? []).map((one) => [one.id, senderOf(one).name ?? one.id]));
  return text
    .replace(/<@!?(\d{1,20})>/g, (whole, id: string) => (names.has(id) ? `@${names.get(id)}` : whole))
    .replace(/<a?(:\w{2,32}:)\d{1,20}>/g, "$1");
}

function senderOf({ id, global_name, username }: User): Inbound["sender"] {
  const name = (global_name || username || "").replace(/\p{C}/gu, "").slice(0, 64).toWellFormed().trim();
  return name === "" ? { id } : { id, name };
}

const filesOf = (list: DiscordMessage["attachments"]): DiscordFile[] =>
  (list ?? []).flatMap((one) => safeParse(attachmentSchema, one).data ?? []);

/** By where they stand: their addresses expire within a day, and who has the message gets new ones (fetch-file.ts). */
function sentFiles({ channel_id, id: message }: DiscordMessage, files: readonly DiscordFile[]): Pick<Inbound, "files"> {
  if (files.length === 0) return {};
  const sent = files.map((file): SentFile => {
    const size = typeof file.size === "number" ? { size: file.size } : {};
    return { source: { remote: `${channel_id}/${message}/${file.id}` }, kind: kindOf(file), name: nameOf(file), ...size };
  });
  return { files: sent };
}

const nameOf = ({ filename, title }: DiscordFile): string => filename ?? title ?? "file";

function kindOf({ content_type, waveform }: DiscordFile): FileKind {
  const type = content_type ?? "";
  if (waveform !== undefined && waveform !== null) return "voice message";
  if (type.startsWith("image/")) return "photo";
  if (type.startsWith("video/")) return "video";
  return type.startsWith("audio/") ? "audio" : "file";
}

/** `[file report.pdf 12 KB]`. Brackets and control characters can't forge a note. */
function fileNote(file: DiscordFile): string {
  const size = typeof file.size === "number" ? sizeText(file.size) : "";
  return bracket(kindOf(file), nameOf(file), size);
}

function otherNotes({ sticker_items, poll }: DiscordMessage): string[] {
  const stickers = (sticker_items ?? []).map(({ name }) => bracket("sticker", name));
  return poll === null || poll === undefined ? stickers : [...stickers, bracket("poll", poll.question.text ?? "")];
}

const bracket = (...words: string[]): string => `[${words.map(clean).filter(Boolean).join(" ")}]`;

const clean = (text: string): string =>
  text
    .slice(0, 400)
    .replace(/[\p{C}[\]]/gu, " ")
    .replace(/\s+/g, " ")
    .trim()
    .slice(0, 100)
    .toWellFormed();
