// Stored event → Inbound, pure. Whatever is nobody's message becomes null: ourselves, notices (which other bots write), edits (they never
// run anything), reactions with a sign that is no button, and what has another shape than Matrix gives it.
import type { Address } from "../../core/address.ts";
import { type FileKind, type SentFile, sizeText } from "../../core/attachment.ts";
import type { Inbound } from "../../core/message.ts";
import { safeParse } from "../../core/safe-parse.ts";
import { shortText } from "../../core/visible-text.ts";
import { commandAt, numberOf } from "./buttons.ts";
import { isMessage, type MessageContent, readMessage, relation, SEALED, STICKER, type Stored, storedSchema, VOICE } from "./event.ts";

/** Clients keep `/` for commands of their own, so `!` does as well. Anything else in a room is said to whoever is called. */
const WRITTEN_COMMAND = /^[!/](?:subagents|stop)(?=\s|$)/i;
/** What older clients put before a reply: words of somebody else. */
const REPLY_FALLBACK = /^> <[^\n]*\n(?:>[^\n]*\n)*\n?/;
const MAX_QUOTE = 1_000;
const MIN_NAME = 2;

const ENCRYPTED =
  "I can't read encrypted rooms, so nothing you write here reaches me: please write to me in a room without encryption (it can't be turned off in this one).";

const KINDS: Readonly<Record<string, FileKind>> = { "m.image": "photo", "m.file": "file", "m.audio": "audio", "m.video": "video" };
const SPOKEN = new Set(["m.text", "m.emote", "m.location", STICKER, ...Object.keys(KINDS)]);

/** Never throws. */
export function decodeEvent(raw: unknown, account: string): Inbound | null {
  const parsed = safeParse(storedSchema, raw);
  if (!parsed.success) return null;
  const stored = parsed.data;
  const { event, me } = stored;
  if (event.sender === me.userId) return null;
  if (stored.isEncrypted === true) return refuse(stored, account);
  if (event.type === "m.reaction") return decodeReaction(stored, account);
  if (!isMessage(event)) return null;
  const content = readMessage(event);
  return content.success ? decodeMessage(stored, content.data, account) : null;
}

const addressOf = ({ room, isDirect }: Stored, account: string, thread: string | undefined): Address => ({
  ...{ channel: "matrix", account, chat: room, kind: isDirect ? "dm" : "channel" },
  ...(thread === undefined ? {} : { thread }),
});

/** Nobody can be asked what it says: whoever may speak here is told so, in the room itself. */
function refuse(stored: Stored, account: string): Inbound {
  const sender = { id: stored.event.sender };
  return { kind: "message", address: addressOf(stored, account, undefined), sender, text: "", unreadable: ENCRYPTED, mentioned: true };
}

function decodeReaction(stored: Stored, account: string): Inbound | null {
  const { data } = safeParse(relation, stored.event.content["m.relates_to"]);
  const n = data?.rel_type === "m.annotation" ? numberOf(data.key ?? "") : null;
  return n === null ? null : pressOf(stored, account, n);
}

/** Only what we have offered ourselves: the words of nobody else's message are ever run. */
function pressOf(stored: Stored, account: string, n: number): Inbound | null {
  const { me, event, about } = stored;
  const pressed = about?.sender === me.userId ? commandAt(about.buttons, n) : null;
  if (pressed === null) return null;
  const address = addressOf(stored, account, about?.thread);
  return { kind: "button", address, sender: { id: event.sender }, text: pressed.command, mentioned: true };
}

function decodeMessage(stored: Stored, content: MessageContent, account: string): Inbound | null {
  const { event, me, about, root } = stored;
  const { thread, repliesTo, isMalformed } = relationOf(content);
  if (isMalformed || !SPOKEN.has(content.msgtype)) return null;
  const file = fileOf(content);
  const note = content.msgtype === STICKER ? bracket("sticker", content.body) : file === null ? "" : noteOf(file);
  const caption = note === "" ? content.body : content.filename === undefined || content.filename === content.body ? "" : content.body;
  const said = repliesTo === undefined && thread === undefined ? caption : caption.replace(REPLY_FALLBACK, "");
  const words = withoutName(said.toWellFormed(), me).trim();
  if (repliesTo !== undefined && about?.sender === me.userId && note === "") {
    const n = numberOf(words);
    const press = n === null ? null : pressOf(stored, account, n);
    if (press !== null) return press;
  }
  const base = {
    ...{ address: addressOf(stored, account, thread), sender: { id: event.sender }, ref: event.event_id },
    ...(note === "" ? {} : { words }),
    ...(file === null ? {} : { files: [file] }),
  };
  if (WRITTEN_COMMAND.test(words)) return { ...base, kind: "command", text: words, mentioned: true };
  // The bot's name alone is a call, too.
  const text = [note, words].filter((part) => part !== "").join("\n") || said.trim();
  if (text === "") return null;
  const isReply = about?.sender === me.userId || root?.sender === me.userId;
  const mentioned = stored.isDirect || isReply || isNamed(content, said, me);
  return {
    ...{ ...base, kind: "message" as const, text, mentioned },
    ...(repliesTo === undefined ? {} : { repliesTo }),
    ...(words === "" && note !== "" ? { isWordless: true as const } : {}),
    ...quotedOf(stored),
  };
}

interface Related {
  readonly thread?: string;
  /** Not what a client names in a thread for those that know no threads. */
  readonly repliesTo?: string;
  /** An edit, or a thread whose first message nobody can name: where it belongs is never guessed. */
  readonly isMalformed: boolean;
}

function relationOf({ "m.relates_to": related }: MessageContent): Related {
  if (related === undefined) return { isMalformed: false };
  const { rel_type: type, event_id: id, is_falling_back: isFallback, "m.in_reply_to": reply } = related;
  const repliesTo = reply === undefined || (type === "m.thread" && isFallback === true) ? {} : { repliesTo: reply.event_id };
  if (type === undefined) return { ...repliesTo, isMalformed: false };
  if (type !== "m.thread" || id === undefined) return { isMalformed: true };
  return { ...repliesTo, thread: id, isMalformed: false };
}

/** What was said before, when the person answers it; the bot's own words are in the session already. */
function quotedOf({ about, me }: Stored): Pick<Inbound, "quoted"> {
  if (about === undefined || about.sender === me.userId || about.body === "") return {};
  return { quoted: { source: `the message being answered, of ${about.sender}`, text: shortText(about.body, MAX_QUOTE) } };
}

const literally = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

/** As clients write it: the name shown, the id, or its first part; not the id of somebody who has the same one on another server. */
function namesOf({ userId, name }: Stored["me"]): string {
  const local = userId.slice(0, userId.indexOf(":"));
  const shown = name.trim().length >= MIN_NAME ? [literally(name.trim())] : [];
  const own = `${literally(userId)}(?!\\.?[\\p{L}\\p{N}-])`;
  const called = [literally(local), ...shown.map((one) => `@${one}`)].map((one) => `${one}(?!:[\\w-]+(?:\\.[\\w-]+)+)`);
  return [own, ...called, ...shown].join("|");
}

const withoutName = (text: string, me: Stored["me"]): string =>
  text.replace(new RegExp(`^\\s*(?:${namesOf(me)})(?![\\p{L}\\p{N}_])[,:]?`, "iu"), "");

function isNamed({ "m.mentions": mentions }: MessageContent, said: string, me: Stored["me"]): boolean {
  if (mentions?.user_ids?.includes(me.userId) === true) return true;
  return new RegExp(`(?<![\\p{L}\\p{N}_@])(?:${namesOf(me)})(?![\\p{L}\\p{N}_])`, "iu").test(said);
}

function fileOf({ msgtype, body, filename, url, file: sealed, info, [VOICE]: spoken }: MessageContent): SentFile | null {
  const kind = KINDS[msgtype];
  if (kind === undefined) return null;
  const isVoice = kind === "audio" && spoken !== undefined;
  const size = info?.size === undefined ? {} : { size: info.size };
  // Without any address it is fetched in vain, and whoever sent it hears so (fetch-file.ts).
  const remote = url ?? (sealed === undefined ? "" : SEALED);
  return { source: { remote }, kind: isVoice ? "voice message" : kind, name: filename ?? body, ...size };
}

/** `[photo holiday.jpg 12 KB]`. */
const noteOf = ({ kind, name, size }: SentFile): string => bracket(kind, name, size === undefined ? "" : sizeText(size));

const bracket = (...words: string[]): string => `[${words.map(clean).filter(Boolean).join(" ")}]`;

/** Brackets and control characters can't forge a note. */
const clean = (text: string): string =>
  text
    .slice(0, 400)
    .replace(/[\p{C}[\]]/gu, " ")
    .replace(/\s+/g, " ")
    .trim()
    .slice(0, 100)
    .toWellFormed();
