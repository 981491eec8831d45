// Stored payload → Inbound, pure. Whatever is nobody's message becomes null: edits and deletions (they never run anything),
// joins, bots and ourselves, other workspaces' and other apps' payloads. The nested message of an edit is never looked at.
import type { Address } from "../../core/address.ts";
import { type FileKind, type SentFile, sizeText } from "../../core/attachment.ts";
import type { Inbound } from "../../core/message.ts";
import { safeParse } from "../../core/safe-parse.ts";
import { toReadable } from "./mrkdwn.ts";
import {
  type BlockActions,
  blockActions,
  eventCallback,
  fileSchema,
  isSaid,
  type Me,
  type MessageEvent,
  messageEvent,
  type PayloadKind,
  type SlackFile,
  slashCommand,
  stopEvent,
  storedSchema,
} from "./payload.ts";

/** The slash commands of the app. Slack delivers none inside threads, so there people write them as text, with `!` or a blank before `/`. */
const WRITTEN_COMMAND = /^[!/](?:subagents|stop)(?=\s|$)/i;
/** What Slack itself allows; more can only come from somewhere else. */
const MAX_TEXT = 40_000;
const SLACKBOT = "USLACKBOT";

interface Source {
  readonly me: Me;
  readonly account: string;
  readonly channelType: string | undefined;
}

/** Never throws; null for what is nobody's message or has another shape than Slack's. */
export function decodePayload(raw: unknown, account: string): Inbound | null {
  const parsed = safeParse(storedSchema, raw);
  if (!parsed.success) return null;
  const { payload, kind, me, channelType } = parsed.data;
  const source: Source = { me, account, channelType };
  const readers = kind === undefined ? Object.values(READERS) : [READERS[kind]];
  for (const read of readers) {
    const inbound = read(payload, source);
    if (inbound !== null) return inbound;
  }
  return null;
}

const READERS: Readonly<Record<PayloadKind, (payload: unknown, source: Source) => Inbound | null>> = {
  event: decodeEvent,
  command: decodeSlash,
  press: decodePress,
};

function decodeEvent(payload: unknown, source: Source): Inbound | null {
  const outer = safeParse(eventCallback, payload);
  if (!outer.success) return null;
  const { team_id, context_team_id, authorizations, api_app_id, event } = outer.data;
  const teams = [team_id, context_team_id, ...(authorizations ?? []).map((one) => one.team_id)];
  if (!isOurs(source.me, api_app_id, teams)) return null;
  const message = safeParse(messageEvent, event);
  if (message.success) return decodeMessage(message.data, source);
  const stop = safeParse(stopEvent, event);
  if (!stop.success) return null;
  const address = addressOf(source, { chat: stop.data.channel, thread: stop.data.thread_ts });
  // Slack shows it while an answer is written: it ends that answer, and nothing that goes on beside it (ST3).
  return { kind: "button", address, sender: { id: stop.data.user }, text: "/stop answer", mentioned: true };
}

function decodeMessage(event: MessageEvent, source: Source): Inbound | null {
  const { me } = source;
  if (!isSaid(event.subtype) || isAutomatic(event) || event.user === me.userId || event.user === SLACKBOT) return null;
  const hint = { chat: event.channel, type: event.channel_type };
  const kind = kindOf(source, hint);
  // A message in the channel itself is the root of what follows; people's direct chats go on where they are.
  const thread = event.thread_ts ?? (kind === "channel" ? event.ts : undefined);

  const written = (event.text ?? "").slice(0, MAX_TEXT).toWellFormed();
  const own = `<@${me.userId}(?:\\|[^<>]{0,200})?>`;
  const bare = written.replace(new RegExp(`^\\s*${own}[,:]?`), "").replace(new RegExp(`${own}\\s*$`), "");
  const words = toReadable(bare).trim();
  const attached = (event.files ?? []).flatMap((file) => safeParse(fileSchema, file).data ?? []);
  const notes = attached.flatMap(fileNote);
  const sent = attached.flatMap(toFile);
  const base = {
    ...{ address: addressOf(source, { ...hint, thread }), sender: { id: event.user }, ref: event.ts },
    ...(notes.length === 0 ? {} : { words }),
    ...(sent.length === 0 ? {} : { files: sent }),
  };
  if (WRITTEN_COMMAND.test(words)) return { ...base, kind: "command", text: words, mentioned: true };

  const cut = (event.text ?? "").length > MAX_TEXT ? ["[the rest of this message was cut]"] : [];
  // The bot's name alone is a call, too.
  const text = [...notes, words, ...cut].filter((part) => part !== "").join("\n") || toReadable(written).trim();
  if (text === "") return null;
  const named = event.type === "app_mention" || new RegExp(own).test(written);
  const mentioned = kind === "dm" || named || event.parent_user_id === me.userId;
  // The thread below a message is how Slack replies to it.
  const about = {
    ...(typeof event.thread_ts === "string" && event.thread_ts !== event.ts ? { repliesTo: event.thread_ts } : {}),
    ...(words === "" ? { isWordless: true as const } : {}),
  };
  return { ...base, kind: "message", text, ...about, mentioned };
}

/** Posted by an app, hidden by Slack, or a mention added to an older message. */
const isAutomatic = ({ bot_id, bot_profile, hidden, edited }: MessageEvent): boolean =>
  [bot_id, bot_profile, hidden, edited].some((mark) => mark !== undefined && mark !== null && mark !== false);

function decodeSlash(payload: unknown, source: Source): Inbound | null {
  const parsed = safeParse(slashCommand, payload);
  if (!parsed.success) return null;
  const { command, text, user_id, user_name, channel_id, channel_name, team_id, api_app_id, response_url: url } = parsed.data;
  if (!isOurs(source.me, api_app_id, [team_id])) return null;
  const address = addressOf(source, { chat: channel_id, name: channel_name });
  const line = `${command.toLowerCase()} ${toReadable(text ?? "")
    .slice(0, MAX_TEXT)
    .toWellFormed()}`.trim();
  const inbound: Inbound = { kind: "command", address, sender: senderOf(user_id, user_name), text: line, mentioned: true };
  // Where others read along, nobody saw the command, and nobody else needs its answer.
  return address.kind === "dm" ? inbound : { ...inbound, onlyTo: { user: user_id, ...(typeof url === "string" ? { url } : {}) } };
}

function decodePress(payload: unknown, source: Source): Inbound | null {
  const parsed = safeParse(blockActions, payload);
  if (!parsed.success) return null;
  const { user, team, api_app_id, container, channel, message, actions, response_url: url } = parsed.data;
  const chat = container?.channel_id ?? channel?.id;
  const command = pressedCommand(actions);
  if (chat === undefined || command === null || !isOurs(source.me, api_app_id, [team?.id, user.team_id])) return null;
  const thread = container?.thread_ts ?? message?.thread_ts;
  const address = addressOf(source, { chat, name: channel?.name, thread });
  // Nobody saw the press, and its answer is for whoever pressed.
  const onlyTo = { user: user.id, ...(typeof url === "string" ? { url } : {}) };
  return { kind: "button", address, sender: senderOf(user.id, user.username ?? user.name), text: command, mentioned: true, onlyTo };
}

function pressedCommand(actions: BlockActions["actions"]): string | null {
  const value = actions[0]?.value?.toWellFormed() ?? "";
  return value.startsWith("/") && value.length <= MAX_TEXT ? value : null;
}

/** Another workspace's or another app's payload is not for us, whoever delivered it (SL-007). */
function isOurs(me: Me, appId: string | null | undefined, teams: readonly (string | null | undefined)[]): boolean {
  if (me.appId !== "" && appId !== undefined && appId !== null && appId !== me.appId) return false;
  return me.teamId === "" || teams.includes(me.teamId);
}

interface Place {
  readonly chat: string;
  readonly type?: string | null | undefined;
  readonly name?: string | null | undefined;
  readonly thread?: string | null | undefined;
}

function addressOf(source: Source, place: Place): Address {
  const base = { channel: "slack", account: source.account, chat: place.chat, kind: kindOf(source, place) };
  return place.thread === undefined || place.thread === null ? base : { ...base, thread: place.thread };
}

/** Direct messages tell by their id; a group of people can't be told from a channel but by type or name. */
function kindOf({ channelType }: Source, { chat, type, name }: Place): Address["kind"] {
  if (chat.startsWith("D")) return "dm";
  return (type ?? channelType) === "mpim" || (name ?? "").startsWith("mpdm-") ? "group" : "channel";
}

function senderOf(id: string, name: string | null | undefined): Inbound["sender"] {
  const clean = (name ?? "").replace(/\p{C}/gu, "").slice(0, 64).toWellFormed().trim();
  return clean === "" ? { id } : { id, name: clean };
}

/** Those that Slack only links to, or keeps back, have no address: then the note is all there is. */
function toFile({ name, title, mimetype, subtype, size, url_private_download: download, url_private: plain }: SlackFile): SentFile[] {
  const remote = download ?? plain ?? "";
  if (remote === "") return [];
  const known = size === undefined || size === null ? {} : { size };
  return [{ source: { remote }, kind: kindOfFile(mimetype ?? "", subtype ?? ""), name: name ?? title ?? "file", ...known }];
}

function kindOfFile(mimetype: string, subtype: string): FileKind {
  if (subtype === "slack_audio") return "voice message";
  if (mimetype.startsWith("image/")) return "photo";
  if (mimetype.startsWith("video/")) return "video";
  return mimetype.startsWith("audio/") ? "audio" : "file";
}

/** `[file report.pdf application/pdf 12 KB]`. Brackets and control characters can't forge a note. */
function fileNote(file: SlackFile): string[] {
  const size = file.size === undefined || file.size === null ? "" : sizeText(file.size);
  const words = [file.name ?? file.title ?? "", file.mimetype ?? "", size].map((word) =>
    word
      .slice(0, 400)
      .replace(/[\p{C}[\]]/gu, " ")
      .replace(/\s+/g, " ")
      .trim()
      .slice(0, 100)
      .toWellFormed(),
  );
  return [`[${["file", ...words].filter((word) => word !== "").join(" ")}]`];
}
