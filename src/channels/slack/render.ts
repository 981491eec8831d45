// OutMessage → parts, and part → plainer part. A part holds Slack's own field names and is stored as it is; where it goes,
// its key and what must be said about the sending itself are added at the call (send.ts).
import type { KnownBlock } from "@slack/web-api";
import type { Address } from "../../core/address.ts";
import type { Attachment } from "../../core/attachment.ts";
import { createMarkdownBudget, type MarkdownBudget } from "../../core/markdown-cost.ts";
import { type Button, type OnlyReader, type OutMessage, type Part, type Stats, statsLine } from "../../core/message.ts";
import { shortText } from "../../core/visible-text.ts";
import { beginningOf, FILE_CAPTION, fileOf, MAX_MESSAGES, restNote, type TextFile } from "../long-text.ts";
import { disarmMentions, escapeSlackText, toSlackMarkdown } from "../markdown.ts";
import { splitMarkdown } from "../split.ts";
import { unescapeSlackText } from "./mrkdwn.ts";

/** What the outbox keeps of one message. */
export type SlackPart = {
  /** For notifications and screen readers, escaped. */
  readonly text: string;
  readonly blocks: readonly KnownBlock[];
  /** Instead of blocks; the text stands above it. */
  readonly file?: TextFile;
  /** Instead of blocks, too: a stored file; its bytes are read when it is sent. */
  readonly attachment?: Attachment;
  /** The thread it was meant for; when it has to go elsewhere, it says so. */
  readonly thread?: string;
  /** For one person alone: who, and the address their command came with. */
  readonly onlyTo?: OnlyReader;
  /** It belongs in the place of its draft, or nowhere. */
  readonly onlyDrafted?: true;
  /** Set once the formatting was refused: there is nothing plainer than this. */
  readonly plain?: true;
};

/** Slack takes 12,000 in all markdown blocks of a message; the rest is room for the note a later attempt may put in front. */
export const MAX_MARKDOWN = 10_000;
/** Slack counts each paragraph, heading, list, fence against its 50 blocks. */
export const MAX_ELEMENTS = 40;
export const MAX_TEXT = 4_000;
const MAX_SECTION = 3_000;
const MAX_BUTTONS = 25;
const MAX_LABEL = 75;
const MAX_VALUE = 2_000;
const EMPTY = "(empty message)";

/** Never empty. Stats and buttons stand under the last part that is no file. */
export function renderMessage(message: OutMessage, address: Address): Part[] {
  const { fileName, markdown, file } = message;
  if (file !== undefined) return [renderFile(message, file, address)];
  if (fileName !== undefined && markdown.length > MAX_MESSAGES * MAX_MARKDOWN) return renderWithFile(message, fileName, address);
  const budget = createMarkdownBudget(markdown.length);
  const texts = cutWords(markdown + figuresOf(message), MAX_MARKDOWN, budget);
  if (fileName !== undefined && texts.length > MAX_MESSAGES) return renderWithFile(message, fileName, address);
  return toParts(texts.length === 0 ? [EMPTY] : texts, message, { address, budget });
}

/** One message, and the file: the beginning alone says that there is more, and where. */
function renderWithFile(message: OutMessage, name: string, address: Address): Part[] {
  const below = `\n\n${restNote(message)}${figuresOf(message)}`;
  const beginning = beginningOf(message);
  const budget = createMarkdownBudget(beginning.length);
  const [first = ""] = cutWords(beginning, MAX_MARKDOWN - below.length, budget);
  const file: SlackPart = { text: FILE_CAPTION, blocks: [], file: fileOf(message, name), ...everywhere(message, address) };
  return [...toParts([first.trimEnd() + below], message, { address, budget }), file];
}

/** Above it stand the words as they are: no markup is read there. */
function renderFile(message: OutMessage, attachment: Attachment, address: Address): Part {
  const words = disarmMentions(message.markdown, createMarkdownBudget(message.markdown.length));
  const part: SlackPart = { text: toFallback(words), blocks: [], attachment, ...everywhere(message, address) };
  return part;
}

/** A file that is refused for good: nobody is left with a promise (AN10). */
export function withoutFile({ file: _file, attachment, ...rest }: SlackPart, reason: string): SlackPart {
  const words =
    attachment === undefined
      ? `⚠️ The whole text could not be sent as a file (${reason}). It stands on the page and in the transcript of the run.`
      : `⚠️ The file “${attachment.name}” could not be sent (${reason}).`;
  const text = escapeSlackText(shortText(words, MAX_SECTION / 2));
  return { ...rest, text, blocks: [{ type: "section", text: { type: "plain_text", text: shortText(words, MAX_SECTION) } }], plain: true };
}

const figuresOf = ({ stats }: OutMessage): string => (stats === undefined ? "" : `\n\n${statsLine({ ...stats, names: [] })}`);

const cutWords = (markdown: string, maxLength: number, budget: MarkdownBudget): string[] =>
  splitMarkdown(toSlackMarkdown(markdown, budget), { maxLength, maxBlocks: MAX_ELEMENTS });

function toParts(texts: readonly string[], message: OutMessage, { address, budget }: { address: Address; budget: MarkdownBudget }): Part[] {
  const last = [...toContext(message.stats), ...toActions(message.buttons ?? [])];
  return texts.map((text, n) => {
    const words = disarmMentions(text, budget);
    const part: SlackPart = {
      text: toFallback(words),
      blocks: [{ type: "markdown", text: words }, ...(n === texts.length - 1 ? last : [])],
      ...everywhere(message, address),
    };
    return part;
  });
}

const everywhere = (message: OutMessage, address: Address): Pick<SlackPart, "thread" | "onlyTo" | "onlyDrafted"> => ({
  ...(address.thread === undefined ? {} : { thread: address.thread }),
  ...(message.onlyTo === undefined ? {} : { onlyTo: message.onlyTo }),
  ...(message.onlyDrafted === undefined ? {} : { onlyDrafted: message.onlyDrafted }),
});

/** Small and grey below the words, which is as far as Slack folds: what names the run, not what it took (AN9). */
function toContext(stats: Stats | undefined): KnownBlock[] {
  if (stats === undefined) return [];
  const text = shortText(stats.names.join(" • "), MAX_SECTION);
  return [{ type: "context", elements: [{ type: "plain_text", text, emoji: false }] }];
}

/** A press comes back as the command itself, through the same gate as if it were typed. */
function toActions(buttons: readonly Button[]): KnownBlock[] {
  const fitting = buttons.filter(({ command }) => command.length <= MAX_VALUE).slice(0, MAX_BUTTONS);
  if (fitting.length === 0) return [];
  const elements = fitting.map(({ label, command, danger }, n) => ({
    type: "button" as const,
    action_id: `herald_${n}`,
    text: { type: "plain_text" as const, text: shortText(label, MAX_LABEL) || "…" },
    value: command,
    ...(danger === true ? { style: "danger" as const } : {}),
  }));
  return [{ type: "actions", elements }];
}

/**
 * The words of a part, escaped once: some are escaped in its Markdown already, where it means the same character. Escaping
 * makes text longer, so it is cut until it fits.
 */
function toFallback(markdown: string): string {
  const text = unescapeSlackText(markdown);
  let escaped = escapeSlackText(text);
  for (let room = MAX_TEXT; escaped.length > MAX_TEXT; room = Math.floor(room * 0.8)) escaped = escapeSlackText(shortText(text, room));
  return escaped;
}

/** The same words without any formatting, or null when that was refused already. */
export function plainer(part: SlackPart): SlackPart | null {
  if (part.plain === true) return null;
  const texts = part.blocks.flatMap(wordsOf);
  const pieces = (texts.length === 0 ? [part.text] : texts).flatMap((text) => splitMarkdown(text, { maxLength: MAX_SECTION }));
  const blocks = pieces.map((text) => ({ type: "section" as const, text: { type: "plain_text" as const, text } }));
  return { ...part, blocks, plain: true };
}

function wordsOf(block: KnownBlock): string[] {
  if (block.type === "markdown") return [block.text];
  return block.type === "context" ? block.elements.flatMap((element) => (element.type === "plain_text" ? [element.text] : [])) : [];
}

/** The part as it is said in another place than it was meant for: it begins with a note. */
export function withNote(part: SlackPart, note: string): SlackPart {
  return { ...part, text: `${note} ${part.text}`.slice(0, MAX_TEXT), blocks: [{ type: "markdown", text: `_${note}_` }, ...part.blocks] };
}
