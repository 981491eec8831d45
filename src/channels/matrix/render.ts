// OutMessage → parts, and part → the content of an event. A part holds words and what stands below them, and is stored as it is; the
// numbers of its choices, where it goes and what must be said about the sending itself are added at the call (send.ts).
import type { Address } from "../../core/address.ts";
import type { Attachment } from "../../core/attachment.ts";
import { type Button, type OutMessage, type Part, type Stats, statsLine } from "../../core/message.ts";
import { cutText, shortText } from "../../core/visible-text.ts";
import { beginningOf, FILE_CAPTION, fileOf, MAX_MESSAGES, restNote, type TextFile } from "../long-text.ts";
import { type TelegramEntity, toTelegram } from "../markdown.ts";
import { type FormattedText, splitEntities } from "../split.ts";
import { type Choices, signOf } from "./buttons.ts";
import { OWN_FIELD, type Own } from "./event.ts";
import { escapeHtml, toHtml } from "./html.ts";

/** What the outbox keeps of one message. */
export type MatrixPart = {
  readonly body: string;
  /** The same with its formatting; left out where there is none, or it would take too much room. */
  readonly html?: string;
  readonly buttons?: readonly Button[];
  /** Nobody's telephone rings for it. */
  readonly quiet?: true;
  readonly replyTo?: string;
  /** The thread it was meant for; when it has to go elsewhere, it says so. */
  readonly thread?: string;
  readonly file?: TextFile;
  /** A stored file; its bytes are read when it is sent. */
  readonly attachment?: Attachment;
  /** It belongs in the place of its draft, or nowhere. */
  readonly onlyDrafted?: true;
};

/** Replaces known secrets by their names. */
export type Redact = (text: string) => string;

/** An event takes 65,536 bytes with all that servers add; this many letters of any alphabet, written twice, stay well below it. */
export const MAX_LENGTH = 8_000;
/** Of words and formatting together. */
const MAX_BYTES = 40_000;
/** Markup takes room that isn't shown, but not this much. */
const SURELY_LONG = 1.5 * MAX_MESSAGES * MAX_LENGTH;
const MAX_CAPTION = 2_000;
/** What clients that know no edits show of one. */
const MAX_FALLBACK = 1_000;
const EMPTY = "(empty message)";
const HINT = "React with a number, or reply with it.";
const MOVED = "(the thread this belongs to is gone)";

type Piece = FormattedText<TelegramEntity>;

/** Never empty. The reply mark goes to the first part, stats and choices under the last that is no file. */
export function renderMessage(message: OutMessage, address: Address, redact: Redact = (text) => text): Part[] {
  const { fileName, markdown, file } = message;
  if (file !== undefined) return [renderFile(message, file, { address, redact })];
  const withFile = (name: string): Part[] => renderWithFile(message, name, { address, redact });
  if (fileName !== undefined && markdown.length > SURELY_LONG) return withFile(fileName);
  const pieces = cutWords(markdown, MAX_LENGTH, redact);
  if (fileName !== undefined && pieces.length > MAX_MESSAGES) return withFile(fileName);
  return toParts(pieces.length === 0 ? [{ text: EMPTY, entities: [] }] : pieces, message, address);
}

/** One message, and the file: the beginning alone says that there is more, and where. */
function renderWithFile(message: OutMessage, name: string, { address, redact }: { address: Address; redact: Redact }): Part[] {
  const note = restNote(message);
  const [first = { text: "", entities: [] }] = cutWords(beginningOf(message), MAX_LENGTH - 2 - note.length, redact);
  const beginning: Piece = { ...first, text: `${first.text}\n\n${note}` };
  const file: MatrixPart = { body: FILE_CAPTION, file: fileOf(message, name), ...everywhere(message, address) };
  return [...toParts([beginning], message, address), file];
}

/** What doesn't fit under it is left out: a caption is short. */
function renderFile(message: OutMessage, attachment: Attachment, { address, redact }: { address: Address; redact: Redact }): Part {
  const [piece = { text: "", entities: [] }] = cutWords(message.markdown, MAX_CAPTION, redact);
  const part: MatrixPart = { ...toWords(piece), attachment, ...everywhere(message, address) };
  return part;
}

function cutWords(markdown: string, maxLength: number, redact: Redact): Piece[] {
  const rendered = toTelegram(markdown);
  const named = redact(rendered.text);
  // Markup stood inside a secret, which is whole only now. Its name has another length: no range would stand where it belongs.
  const { text, entities } = named === rendered.text ? rendered : { text: named, entities: [] };
  return splitEntities(text, entities, maxLength);
}

function toWords({ text, entities }: Piece, stats?: Stats): Pick<MatrixPart, "body" | "html"> {
  const body = stats === undefined ? text : `${text.trimEnd()}\n\n${statsLine(stats)}`;
  if (entities.length === 0 && stats === undefined) return { body };
  const html = toHtml(text, entities) + (stats === undefined ? "" : foldedStats(stats));
  return Buffer.byteLength(JSON.stringify([body, html])) > MAX_BYTES ? { body } : { body, html };
}

/** The figures, and behind a tap what names the run (AN9). */
const foldedStats = ({ figures, names }: Stats): string =>
  `<details><summary>Stats: ${escapeHtml(figures.join(" • "))}</summary>${names.map(escapeHtml).join("<br/>")}</details>`;

function toParts(pieces: readonly Piece[], message: OutMessage, address: Address): Part[] {
  const { stats, buttons = [], replyTo } = message;
  const isRoomLeft = (pieces.at(-1)?.text.length ?? 0) + (stats === undefined ? 0 : statsLine(stats).length) + 2 <= MAX_LENGTH;
  const all = isRoomLeft ? pieces : [...pieces, { text: "", entities: [] }];
  return all.map((piece, n) => {
    const isLast = n === all.length - 1;
    const part: MatrixPart = {
      ...toWords(piece, isLast ? stats : undefined),
      ...(isLast && buttons.length > 0 ? { buttons } : {}),
      ...(n === 0 && replyTo !== undefined ? { replyTo } : {}),
      ...everywhere(message, address),
    };
    return part;
  });
}

const everywhere = (message: OutMessage, address: Address): Pick<MatrixPart, "quiet" | "thread" | "onlyDrafted"> => ({
  ...(message.quiet === true ? { quiet: true } : {}),
  ...(address.thread === undefined ? {} : { thread: address.thread }),
  ...(message.onlyDrafted === undefined ? {} : { onlyDrafted: message.onlyDrafted }),
});

/** A file that is refused for good: nobody is left with a promise (AN10). */
export const withoutFile = ({ file: _file, attachment, html: _html, ...rest }: MatrixPart, reason: string): MatrixPart => ({
  ...rest,
  body: cutText(
    attachment === undefined
      ? `⚠️ The whole text could not be sent as a file (${reason}). It stands on the page and in the transcript of the run.`
      : `⚠️ The file “${attachment.name}” could not be sent (${reason}).`,
    MAX_LENGTH,
  ),
});

export type Content = Readonly<Record<string, unknown>>;

export interface Shown {
  readonly choices: Choices;
  readonly own: Own;
  readonly isMoved: boolean;
}

/** The words of a part with its choices below them, as an event's content. Says whom it calls: nobody, whatever names stand in it. */
export function contentOf(part: MatrixPart, { choices, own, isMoved }: Shown): Content {
  const lines = choices.shown.map(({ n, label }) => `${signOf(n)} ${label}`);
  const below = lines.length === 0 ? [] : [[...lines, HINT].join("\n")];
  const body = [...(isMoved ? [MOVED] : []), part.body, ...below].join("\n\n");
  const html = [
    ...(isMoved ? [`<em>${MOVED}</em><br/><br/>`] : []),
    part.html ?? escapeHtml(part.body).replaceAll("\n", "<br/>"),
    ...(lines.length === 0 ? [] : [`<br/><br/>${lines.map(escapeHtml).join("<br/>")}<br/><em>${HINT}</em>`]),
  ].join("");
  return {
    ...{ msgtype: part.quiet === true ? "m.notice" : "m.text", body, "m.mentions": {} },
    ...(part.html === undefined ? {} : { format: "org.matrix.custom.html", formatted_body: html }),
    [OWN_FIELD]: { ...own, ...(choices.numbered.length === 0 ? {} : { buttons: choices.numbered }) },
  };
}

/** What an event says that stands in the place of another. */
export const editOf = (content: Content, ref: string): Content => ({
  ...{ msgtype: content.msgtype, body: `* ${shortText(String(content.body), MAX_FALLBACK)}`, "m.mentions": {} },
  [OWN_FIELD]: content[OWN_FIELD],
  "m.new_content": content,
  "m.relates_to": { rel_type: "m.replace", event_id: ref },
});

/** In a thread its first message is named to those that know no threads. */
export function relationTo({ thread }: Address, replyTo: string | undefined): Content {
  const reply = replyTo ?? thread;
  if (reply === undefined) return {};
  const inReply = { "m.in_reply_to": { event_id: reply } };
  if (thread === undefined) return { "m.relates_to": inReply };
  return { "m.relates_to": { rel_type: "m.thread", event_id: thread, is_falling_back: true, ...inReply } };
}
