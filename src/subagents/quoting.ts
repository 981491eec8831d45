// What models and people wrote, made fit to stand among our own lines: no line of theirs can pass for one of ours, and what a
// model says to the runtime alone never reaches a chat. Pure.
import { visibleText } from "../core/visible-text.ts";
import { codeLines } from "./markdown-blocks.ts";

/** The whole answer of an announce step that has nothing to post. */
export const ANNOUNCE_SKIP = "ANNOUNCE_SKIP";
/** The whole answer, or the whole Result, of one whose last message is to be posted as it stands (AN8). */
export const ANNOUNCE_AS_IS = "ANNOUNCE_AS_IS";

/** One line: labels come from models and people. */
export const oneLine = (text: string): string =>
  visibleText(text)
    .replace(CONTROL_TOKENS, "")
    .replace(/[\s\p{Cc}]+/gu, " ")
    .trim();

/** Marks of chat templates: a model may write them, nobody should meet them. */
const CONTROL_TOKENS = /<\|[a-z_]{1,40}\|>/gi;

/** A line that could pass for one of ours. */
const OUR_HEADING = /^(?:[^\S\n]|[*_#])*(?:status|result|notes|checks|stats)(?:[^\S\n]|[*_])*:/im;

/** Control tokens and chat-template marks never reach a chat; lines that look like our own headings are quoted. */
export function quotable(text: string): string {
  const clean = text.replaceAll(ANNOUNCE_SKIP, "").replaceAll(ANNOUNCE_AS_IS, "").replace(CONTROL_TOKENS, "").trim();
  // A result may be megabytes of lines: which are code is only asked where one needs quoting.
  if (!OUR_HEADING.test(clean)) return clean;
  const code = codeLines(clean);
  return clean
    .split("\n")
    .map((line, n) => (OUR_HEADING.test(line) && !code.has(n) ? `> ${line.trimStart()}` : line))
    .join("\n");
}
