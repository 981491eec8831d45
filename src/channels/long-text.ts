// A result is complete (AN10): what would take more than four messages is posted as its beginning, with the stats, and whole
// as a Markdown file. The file's content is part of the outbox row: no path that somebody might move until it is sent.

import { type OutMessage, statsLine } from "../core/message.ts";
import { cutText } from "../core/visible-text.ts";
import { splitMarkdown } from "./split.ts";

export interface TextFile {
  readonly name: string;
  readonly content: string;
}

export const MAX_MESSAGES = 4;
/** What the person sees before they open the file. */
const BEGINNING = 3_000;
export const FILE_CAPTION = "The whole text";

/** The whole text as a file. */
export function fileOf({ markdown, stats }: OutMessage, name: string): TextFile {
  return { name, content: `${[markdown, ...(stats === undefined ? [] : [statsLine(stats)])].join("\n\n")}\n` };
}

/** What is posted of it beside its file; nothing is left open at the cut. A platform may have to cut it once more. */
export const beginningOf = ({ markdown }: OutMessage): string =>
  splitMarkdown(cutText(markdown, 2 * BEGINNING), { maxLength: BEGINNING })[0]?.trimEnd() ?? "";

/** Stands below the beginning. */
export const restNote = ({ markdown }: OutMessage): string =>
  `… (${markdown.length} characters in all: the whole text is in the file below)`;
