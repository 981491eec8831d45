// Text with formatted ranges → the HTML that Matrix clients show. Ranges may touch and stand inside each other; where they end in
// another order than they began, the inner one is closed and opened again, so that the tags always nest.
import type { TextRange } from "../split.ts";

export interface HtmlRange extends TextRange {
  readonly url?: string;
  readonly language?: string;
}

const TAGS: Readonly<Record<string, string>> = {
  bold: "strong",
  italic: "em",
  strikethrough: "del",
  code: "code",
  blockquote: "blockquote",
};

export const escapeHtml = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");

/** Lines keep apart; inside a block of code they are what they are. */
export function toHtml(text: string, ranges: readonly HtmlRange[]): string {
  const known = ranges.filter(({ type, length }) => length > 0 && (type in TAGS || type === "pre" || type === "text_link"));
  const cuts = [...new Set([0, text.length, ...known.flatMap(({ offset, length }) => [offset, offset + length])])].sort((a, b) => a - b);
  let html = "";
  let open: HtmlRange[] = [];
  for (const [i, at] of cuts.entries()) {
    const over = open.findIndex((range) => range.offset + range.length <= at);
    if (over !== -1) {
      const closed = open.slice(over);
      html += closed.reverse().map(closing).join("");
      const again = closed.reverse().filter((range) => range.offset + range.length > at);
      html += again.map(opening).join("");
      open = [...open.slice(0, over), ...again];
    }
    const begun = known.filter((range) => range.offset === at).sort((a, b) => b.length - a.length);
    html += begun.map(opening).join("");
    open.push(...begun);
    const piece = text.slice(at, cuts[i + 1] ?? at);
    const isCode = open.some(({ type }) => type === "pre");
    html += isCode ? escapeHtml(piece) : escapeHtml(piece).replaceAll("\n", "<br/>");
  }
  return html;
}

function opening({ type, url = "", language }: HtmlRange): string {
  if (type === "text_link") return `<a href="${escapeHtml(url)}">`;
  if (type === "pre") return language === undefined ? "<pre><code>" : `<pre><code class="language-${escapeHtml(language)}">`;
  return `<${TAGS[type]}>`;
}

function closing({ type }: HtmlRange): string {
  if (type === "text_link") return "</a>";
  return type === "pre" ? "</code></pre>" : `</${TAGS[type]}>`;
}
