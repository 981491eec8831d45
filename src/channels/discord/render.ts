// OutMessage → parts. A part holds Discord's own field names, beside a few for the sending, and is stored as it is; where it goes, its
// nonce and what must be said about the sending itself are added at the call (send.ts).
import type { Address } from "../../core/address.ts";
import type { Attachment } from "../../core/attachment.ts";
import type { Button, OnlyReader, OutMessage, Part, Stats } from "../../core/message.ts";
import { cutText, shortText } from "../../core/visible-text.ts";
import { beginningOf, FILE_CAPTION, fileOf, MAX_MESSAGES, restNote, type TextFile } from "../long-text.ts";
import { splitMarkdown } from "../split.ts";
import { toDiscord } from "./markdown.ts";
import { SNOWFLAKE } from "./snowflake.ts";

interface DiscordButton {
  readonly type: 2;
  readonly style: 2 | 4;
  readonly label: string;
  readonly custom_id: string;
}

interface ButtonRow {
  readonly type: 1;
  readonly components: readonly DiscordButton[];
}

/** What the outbox keeps of one message. */
export type DiscordPart = {
  /** Of a file: what stands above it. */
  readonly content: string;
  readonly components?: readonly ButtonRow[];
  readonly message_reference?: { readonly message_id: string; readonly fail_if_not_exists: false };
  /** Nobody needs to be woken for it. */
  readonly quiet?: true;
  readonly file?: TextFile;
  /** A stored file; its bytes are read when it is sent. */
  readonly attachment?: Attachment;
  /** The thread it was meant for; when it has to go elsewhere, it says so. */
  readonly thread?: string;
  /** The command or press this answers, and whether it is the first part of the answer. */
  readonly onlyTo?: OnlyReader;
  readonly isFirst?: true;
  /** It belongs in the place of its draft, or nowhere. */
  readonly onlyDrafted?: true;
};

/** Discord takes 2000; the rest is room for the notes a later attempt may have to put in front. */
export const MAX_LENGTH = 1_900;
/** Markup takes room that isn't shown, but not this much. */
const SURELY_LONG = 1.5 * MAX_MESSAGES * MAX_LENGTH;
const MAX_LABEL = 80;
const MAX_CUSTOM_ID = 100;
const BUTTONS_PER_ROW = 5;
const MAX_ROWS = 5;
const EMPTY = "(empty message)";

/** Never empty. The reply mark goes to the first part, stats and buttons under the last that is no file. */
export function renderMessage(message: OutMessage, address: Address): Part[] {
  const { fileName, markdown, file } = message;
  if (file !== undefined) return [renderFile(message, file, address)];
  if (fileName !== undefined && markdown.length > SURELY_LONG) return renderWithFile(message, fileName, address);
  const texts = cutWords(markdown, MAX_LENGTH);
  const parts = withStats(texts.length === 0 ? [EMPTY] : texts, message.stats);
  return fileName !== undefined && parts.length > MAX_MESSAGES
    ? renderWithFile(message, fileName, address)
    : toParts(parts, message, address);
}

/** Blank pieces are left out: Discord takes none. */
const cutWords = (markdown: string, maxLength: number): string[] =>
  splitMarkdown(toDiscord(markdown), { maxLength })
    .map((text) => text.replaceAll("\0", "").trimEnd())
    .filter((text) => text.trim() !== "");

/** One message, and the file: the beginning alone says that there is more, and where. */
function renderWithFile(message: OutMessage, name: string, address: Address): Part[] {
  const note = restNote(message);
  const stats = message.stats === undefined ? "" : statsLines(message.stats);
  const room = MAX_LENGTH - note.length - stats.length - 4;
  const [first = ""] = cutWords(beginningOf(message), Math.max(room, MAX_LENGTH / 2));
  const file: DiscordPart = { content: FILE_CAPTION, file: fileOf(message, name), ...everywhere(message, address) };
  return [...toParts(withStats([`${first.trimEnd()}\n\n${note}`], message.stats), message, address), file];
}

/** What doesn't fit above it is left out. */
function renderFile(message: OutMessage, attachment: Attachment, address: Address): Part {
  const [content = ""] = cutWords(message.markdown, MAX_LENGTH);
  const part: DiscordPart = { content, attachment, ...everywhere(message, address) };
  return part;
}

/** A file that is refused for good: nobody is left with a promise (AN10). */
export const withoutFile = ({ file: _file, attachment, ...rest }: DiscordPart, reason: string): DiscordPart => ({
  ...rest,
  content: cutText(
    attachment === undefined
      ? `⚠️ The whole text could not be sent as a file (${reason}). It stands on the page and in the transcript of the run.`
      : `⚠️ The file “${attachment.name}” could not be sent (${reason}).`,
    MAX_LENGTH,
  ),
});

/** Under the last words where there is room, else as a message of its own. */
function withStats(texts: readonly string[], stats: Stats | undefined): string[] {
  if (stats === undefined) return [...texts];
  const lines = statsLines(stats);
  const last = texts.at(-1) ?? "";
  const together = `${last.trimEnd()}\n\n${lines}`;
  return together.length <= MAX_LENGTH ? [...texts.slice(0, -1), together] : [...texts, lines];
}

/** Small and grey; what names the run opens at a tap, which is as far as Discord folds (AN9). */
function statsLines({ figures, names }: Stats): string {
  const folded = shortText(names.join(" • ").replaceAll("`", "'"), MAX_LENGTH / 2);
  return [`-# Stats: ${shortText(figures.join(" • "), MAX_LENGTH / 3)}`, ...(folded === "" ? [] : [`-# ||\`${folded}\`||`])].join("\n");
}

function toParts(texts: readonly string[], message: OutMessage, address: Address): Part[] {
  const components = toRows(message.buttons ?? []);
  return texts.map((content, n) => {
    const part: DiscordPart = {
      content,
      ...(n === 0 ? replyMark(message) : {}),
      ...(n === texts.length - 1 && components.length > 0 ? { components } : {}),
      ...(n === 0 && message.onlyTo !== undefined ? { isFirst: true as const } : {}),
      ...everywhere(message, address),
    };
    return part;
  });
}

const everywhere = (message: OutMessage, address: Address): Pick<DiscordPart, "quiet" | "thread" | "onlyTo" | "onlyDrafted"> => ({
  ...(message.quiet === true ? { quiet: true } : {}),
  ...(address.thread === undefined ? {} : { thread: address.thread }),
  ...(message.onlyTo === undefined ? {} : { onlyTo: message.onlyTo }),
  ...(message.onlyDrafted === undefined ? {} : { onlyDrafted: message.onlyDrafted }),
});

/** A question that was deleted meanwhile must not make its answer fail. */
const replyMark = ({ replyTo, onlyTo }: OutMessage): Pick<DiscordPart, "message_reference"> =>
  replyTo === undefined || onlyTo !== undefined || !SNOWFLAKE.test(replyTo)
    ? {}
    : { message_reference: { message_id: replyTo, fail_if_not_exists: false } };

/** A press comes back as the command itself, through the same gate as if it were typed. Discord refuses two that carry the same. */
function toRows(buttons: readonly Button[]): ButtonRow[] {
  const fitting = [...new Map(buttons.map((button) => [button.command, button])).values()].filter(
    ({ command }) => command.length <= MAX_CUSTOM_ID,
  );
  const rows: ButtonRow[] = [];
  for (let n = 0; n < fitting.length && rows.length < MAX_ROWS; n += BUTTONS_PER_ROW)
    rows.push({ type: 1, components: fitting.slice(n, n + BUTTONS_PER_ROW).map(toButton) });
  return rows;
}

const toButton = ({ label, command, danger }: Button): DiscordButton => ({
  type: 2,
  style: danger === true ? 4 : 2,
  label: shortText(label, MAX_LABEL) || "…",
  custom_id: command,
});

/** What Discord finds empty although there are characters in it. */
export const asEmpty = (part: DiscordPart): DiscordPart => ({ ...part, content: EMPTY });
