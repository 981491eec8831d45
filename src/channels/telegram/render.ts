// OutMessage → parts, and part → the exact call. A part holds Telegram's own field names, beside two for the sending, and
// is stored as it is; only where it goes (chat, topic) and what must be said about the sending itself are added at the call.

import type { Address } from "../../core/address.ts";
import type { Attachment } from "../../core/attachment.ts";
import type { Button, OutMessage, Part, Stats } from "../../core/message.ts";
import { cutText } from "../../core/visible-text.ts";
import { beginningOf, FILE_CAPTION, fileOf, MAX_MESSAGES, restNote, type TextFile } from "../long-text.ts";
import { type TelegramEntity, toTelegram } from "../markdown.ts";
import { type FormattedText, splitEntities, type TextRange } from "../split.ts";
import { type CodeRange, inert, spellApart } from "./inert.ts";
import { MAX_TOAST } from "./presses.ts";

/** A range of a message: what Markdown knows, and the quote that opens at a tap. */
type Entity = TelegramEntity | CodeRange | (TextRange & { readonly type: "expandable_blockquote" });
type Piece = FormattedText<Entity>;

interface InlineButton {
  readonly text: string;
  readonly callback_data: string;
  readonly style?: "danger";
}

/** What the outbox keeps of one message. */
export type TelegramPart = {
  /** Of a file: what stands under it. */
  readonly text: string;
  readonly file?: TextFile;
  /** A stored file; its bytes are read when it is sent. */
  readonly attachment?: Attachment;
  /** A picture that Telegram would not take as one. */
  readonly asDocument?: true;
  readonly entities?: readonly Entity[];
  readonly reply_parameters?: { readonly message_id: number; readonly allow_sending_without_reply: true };
  readonly reply_markup?: { readonly inline_keyboard: readonly (readonly InlineButton[])[] };
  readonly disable_notification?: true;
  /** The topic it was meant for; when it has to go elsewhere, it says so. */
  readonly topic?: string;
  /** A place may be reserved for it first. */
  readonly kind?: "announcement";
  /** The press this answers. */
  readonly press?: string;
  /** Short enough to be shown where the person pressed, and nowhere else. */
  readonly isToast?: true;
};

export interface Note {
  readonly repeated: boolean;
  /** The topic is gone, the chat itself gets the text. */
  readonly moved: boolean;
}

/** Telegram takes 4096 UTF-16 units; the rest is room for the notes a later attempt may have to put in front. */
export const MAX_LENGTH = 4_000;
/** Telegram takes 1024, with the same notes. */
const MAX_CAPTION = 900;
/** Of more than these Telegram drops some without a word. */
export const MAX_ENTITIES = 100;
/** Markup takes room that isn't shown, but not this much. */
const SURELY_LONG = 1.5 * MAX_MESSAGES * MAX_LENGTH;
/** What a button carries, at most. */
export const MAX_CALLBACK_BYTES = 64;
const BUTTONS_PER_ROW = 3;
/** A closed quote shows its first lines; only what stands below them is folded. */
const CLOSED_QUOTE_LINES = 3;
const REPEATED = "(may be repeated)";
const MOVED = "(the topic this belongs to is gone)";
const EMPTY = "(empty message)";

/** Replaces known secrets by their names. */
export type Redact = (text: string) => string;

/** Never empty. The reply mark goes to the first part, buttons under the last that is no file. */
export function renderMessage(message: OutMessage, address: Address, redact: Redact = (text) => text): Part[] {
  const { fileName, markdown, file } = message;
  if (file !== undefined) return [renderFile(message, file, { address, redact })];
  const withFile = (name: string): Part[] => renderWithFile(message, name, { address, redact });
  if (fileName !== undefined && markdown.length > SURELY_LONG) return withFile(fileName);
  const pieces = toPieces(message, redact);
  const toast = toToast(pieces, message);
  if (toast !== null) return [toast];
  return fileName !== undefined && pieces.length > MAX_MESSAGES ? withFile(fileName) : toParts(pieces, message, address);
}

/** One message, and the file: the beginning alone says that there is more, and where. */
function renderWithFile(message: OutMessage, name: string, { address, redact }: { address: Address; redact: Redact }): Part[] {
  const note = restNote(message);
  const [first = { text: "", entities: [] }] = cutWords(beginningOf(message), MAX_LENGTH - 2 - note.length, redact);
  const beginning: Piece = { ...first, text: `${apart(first.text)}${note}` };
  const file: TelegramPart = { text: FILE_CAPTION, file: fileOf(message, name), ...everywhere(message, address) };
  return [...toParts(finish([beginning], message), message, address), file];
}

/** What doesn't fit under it is left out: a caption is short. */
function renderFile(message: OutMessage, attachment: Attachment, { address, redact }: { address: Address; redact: Redact }): Part {
  const [{ text, entities } = { text: "", entities: [] }] = finish(cutWords(message.markdown, MAX_CAPTION, redact), message);
  const part: TelegramPart = {
    ...{ text, attachment },
    ...(entities.length === 0 ? {} : { entities }),
    ...everywhere(message, address),
  };
  return part;
}

/** A file that is refused for good: nobody is left with a promise (AN10). */
export const withoutFile = (
  { file: _file, attachment, asDocument: _asDocument, entities: _entities, ...rest }: TelegramPart,
  reason: string,
): TelegramPart => ({
  ...rest,
  text: cutText(
    attachment === undefined
      ? `⚠️ The whole text could not be sent as a file (${reason}). It stands on the page and in the transcript of the run.`
      : `⚠️ The file “${attachment.name}” could not be sent (${reason}).`,
    MAX_LENGTH,
  ),
});

function toPieces(message: OutMessage, redact: Redact): Piece[] {
  const cut = cutWords(message.markdown, MAX_LENGTH, redact);
  return finish(cut.length === 0 ? [{ text: EMPTY, entities: [] }] : cut, message);
}

function cutWords(markdown: string, maxLength: number, redact: Redact): Piece[] {
  const rendered = toTelegram(markdown);
  const named = redact(rendered.text);
  // Markup stood inside a secret, which is whole only now. Its name has another length: no range would stand where it belongs.
  const { text, entities } = inert(named === rendered.text ? rendered : { text: named, entities: [] });
  return splitEntities(text, entities, maxLength);
}

/** A cut may have left a sign at the start of a piece: that comes alive, too. */
const finish = (pieces: readonly Piece[], { stats }: OutMessage): Piece[] =>
  (stats === undefined ? pieces : withStats(pieces, stats)).map((piece) => inert(piece));

function toParts(pieces: readonly Piece[], message: OutMessage, address: Address): Part[] {
  const keyboard = toKeyboard(message.buttons ?? []);
  return pieces.map((piece, n) => {
    const part: TelegramPart = {
      text: piece.text,
      ...(piece.entities.length === 0 ? {} : { entities: piece.entities }),
      ...(n === 0 ? { ...replyMark(message.replyTo), ...pressMark(message) } : {}),
      ...(n === pieces.length - 1 && keyboard.length > 0 ? { reply_markup: { inline_keyboard: keyboard } } : {}),
      ...everywhere(message, address),
    };
    return part;
  });
}

const pressMark = ({ onlyTo }: OutMessage): Pick<TelegramPart, "press"> => (onlyTo?.press === undefined ? {} : { press: onlyTo.press });

/** The answer to a press; null: it is none, or too long for that. */
function toToast([first, ...others]: readonly Piece[], { onlyTo, buttons = [] }: OutMessage): TelegramPart | null {
  const press = onlyTo?.press;
  if (press === undefined || first === undefined || others.length > 0 || buttons.length > 0) return null;
  // A list is read, not glimpsed.
  if (first.text.length > MAX_TOAST || first.text.includes("\n")) return null;
  return { text: first.text, press, isToast: true };
}

const everywhere = (message: OutMessage, address: Address): Pick<TelegramPart, "disable_notification" | "topic" | "kind"> => ({
  ...(message.quiet === true ? { disable_notification: true } : {}),
  ...(address.thread === undefined ? {} : { topic: address.thread }),
  ...(message.kind === undefined ? {} : { kind: message.kind }),
});

/** Under the last words where there is room, else as a message of its own: a quote is never cut in two. */
function withStats(pieces: readonly Piece[], stats: Stats): Piece[] {
  const text = cutText(statsQuote(stats), MAX_LENGTH);
  const last = pieces.at(-1) ?? { text: "", entities: [] };
  const fits = last.text.length + 2 + text.length <= MAX_LENGTH;
  const head = fits ? apart(last.text) : "";
  const quote: Entity = { type: "expandable_blockquote", offset: head.length, length: text.length };
  const closing: Piece = { text: head + text, entities: fits ? [...last.entities, quote] : [quote] };
  return [...(fits ? pieces.slice(0, -1) : pieces), closing];
}

/** Ends in a blank line. Nothing is trimmed: a range may reach to the last character. */
const apart = (text: string): string => text + (text.endsWith("\n\n") ? "" : text.endsWith("\n") ? "\n" : "\n\n");

/** The stats line with a line for each item: the figures are what the closed quote shows, the names what opening it adds (AN9). */
function statsQuote({ figures, names }: Stats): string {
  const blank = Array.from({ length: Math.max(0, CLOSED_QUOTE_LINES - figures.length) }, () => "");
  const [first = "", ...others] = figures;
  return [`Stats: ${first}`, ...others.map((item) => `• ${item}`), ...blank, ...names.map((item) => `• ${item}`)].join("\n");
}

/** A question that was deleted meanwhile must not make its answer fail. */
function replyMark(replyTo: string | undefined): Pick<TelegramPart, "reply_parameters"> {
  const id = Number(replyTo);
  return Number.isSafeInteger(id) && id > 0 ? { reply_parameters: { message_id: id, allow_sending_without_reply: true } } : {};
}

/** A press comes back as the command itself, through the same gate as if it were typed; a longer one than Telegram carries has no button. */
function toKeyboard(buttons: readonly Button[]): InlineButton[][] {
  const fitting = buttons.filter((button) => Buffer.byteLength(button.command) <= MAX_CALLBACK_BYTES);
  const rows: InlineButton[][] = [];
  for (let n = 0; n < fitting.length; n += BUTTONS_PER_ROW) rows.push(fitting.slice(n, n + BUTTONS_PER_ROW).map(toButton));
  return rows;
}

const toButton = ({ label, command, danger }: Button): InlineButton => ({
  text: label,
  callback_data: command,
  ...(danger === true ? { style: "danger" as const } : {}),
});

/** The same words without formatting; what must not come alive stays code, and where even that is refused, is spelled apart. */
export function withoutFormatting(part: TelegramPart): TelegramPart {
  const { entities = [], ...rest } = part;
  const needed = inert({ text: part.text, entities: [] }).entities;
  if (needed.length === 0) return rest;
  const isBare = entities.length === needed.length && entities.every(({ type }) => type === "code");
  return isBare ? { ...rest, text: spellApart(part.text) } : { ...rest, entities: needed };
}

/** The text of a call: the part's own, with what must be said first in front and its ranges moved along. */
export function withNotes(part: TelegramPart, note: Note): Pick<TelegramPart, "text" | "entities"> {
  const lines = [...(note.repeated ? [REPEATED] : []), ...(note.moved ? [MOVED] : [])];
  if (lines.length === 0) return { text: part.text, ...(part.entities === undefined ? {} : { entities: part.entities }) };
  const head = `${lines.join("\n")}\n\n`;
  const entities = part.entities?.map((entity) => ({ ...entity, offset: entity.offset + head.length }));
  return { text: head + part.text, ...(entities === undefined ? {} : { entities }) };
}
