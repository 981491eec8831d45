// Markdown → HTML that is safe to put on the page: raw HTML is shown as text, javascript: links lose their target,
// pictures become links that name their host (nothing is ever fetched from elsewhere), links open in a new tab.
// whole messages and the pieces of a draft → rendering.ts → here (a long one in a worker) → page
import { createRequire } from "node:module";
import { isCostly } from "../core/markdown-cost.ts";
import type { MoreMarkdown } from "./gfm.ts";

// Nobody may open the page, and the parser is a tenth of the program's start: loaded with the first text.
const require = createRequire(import.meta.url);
function toHtml(markdown: string, more: MoreMarkdown | null): string {
  const { gfmToHtml }: typeof import("./gfm.ts") = require("./gfm.ts");
  return gfmToHtml(markdown, more);
}

/** Nobody reads more formatted text at a stretch, and rendering costs milliseconds per kilobyte. */
export const MAX_RENDERED_LENGTH = 24_000;
/** A table's rows are filled up to the width of its head: a wide one over thousands of short rows would be megabytes. */
const MAX_CELLS = 30_000;
/** A formula of three characters is two hundred as MathML. */
const MAX_DOLLARS = 800;
/** A draft that is longer shows its end. */
const MAX_DRAFT_LENGTH = 24_000;
const DRAFT_STEP = 8_000;

/** Never throws, whatever the text; beyond 24 000 characters, with too large a table or too dear to parse, it stays plain text. */
export function renderMarkdown(markdown: string, more: MoreMarkdown | null = null): string {
  if (markdown.length > MAX_RENDERED_LENGTH || mostCells(markdown) > MAX_CELLS || isCostly(markdown)) return renderPlain(markdown);
  // micromark escapes every < and " of the text itself, so these patterns meet only tags it wrote.
  return toHtml(markdown, more)
    .replace(/<img src="([^"]*)" alt="([^"]*)"(?: title="[^"]*")? \/>/g, (_tag, url: string, alt: string) => pictureLink(url, alt))
    .replace(/<a href="([^"]*)"/g, (_tag, url: string) =>
      url === "" ? "<a" : `<a href="${url}" target="_blank" rel="noopener noreferrer"`,
    );
}

/** Is there code that names its language, or what may be a formula? Such a text is rendered in the thread (rendering.ts). */
export const hasCode = (markdown: string): boolean => /^[ \t>*+\d.-]*(?:`{3,}|~{3,})[ \t]*[\w+#]/m.test(markdown);
export const hasMath = (markdown: string): boolean => countDollars(markdown) <= MAX_DOLLARS && /\$\$|\$[^\s$][^\n$]*\$/.test(markdown);

const countDollars = (text: string): number => text.split("$").length - 1;

export const renderPlain = (text: string): string => `<pre class="plain">${escapeHtml(text)}</pre>`;

/** As if all lines were rows of the widest table. */
function mostCells(markdown: string): number {
  const lines = markdown.split("\n");
  const widths = lines.filter((line) => line.includes("|") && /^[\s>|:-]*$/.test(line)).map((line) => line.split("|").length);
  return Math.max(0, ...widths) * lines.length;
}

function pictureLink(url: string, alt: string): string {
  const host = /^https?:\/\/([^/?#]+)/i.exec(url)?.[1] ?? "no address";
  return `<a href="${url}">${alt === "" ? "picture" : alt} (${host})</a>`;
}

const ESCAPES: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
const escapeHtml = (text: string): string => text.replace(/[&<>"]/g, (char) => ESCAPES[char] ?? char);

/**
 * Renders a text that grows: paragraphs that can't change any more are rendered once, only the end again.
 * A list may fall into two while it streams; the finished message is rendered as a whole. One call at a time.
 */
export function createDraft(render: (markdown: string) => Promise<string>): (text: string) => Promise<string> {
  let settled = "";
  let html = "";
  return async (whole) => {
    const text = draftPart(whole);
    if (!text.startsWith(settled)) {
      settled = "";
      html = "";
    }
    const end = settledEnd(text, settled.length);
    if (end > settled.length) {
      html += await render(text.slice(settled.length, end));
      settled = text.slice(0, end);
    }
    return html + (await render(text.slice(end)));
  };
}

/** Begins with a line, and moves on in steps: between two of them nothing has to be rendered again. */
function draftPart(text: string): string {
  if (text.length <= MAX_DRAFT_LENGTH) return text;
  const least = Math.ceil((text.length - MAX_DRAFT_LENGTH) / DRAFT_STEP) * DRAFT_STEP;
  const line = text.indexOf("\n", least) + 1;
  return text.slice(line === 0 || line > least + DRAFT_STEP ? least : line).toWellFormed();
}

/** Where the last finished block ends: after a blank line outside a code fence, before a line that is not indented. */
function settledEnd(text: string, from: number): number {
  let end = from;
  let fence: string | null = null;
  let blankBefore = false;
  for (let at = from; at < text.length; ) {
    const next = text.indexOf("\n", at);
    const line = text.slice(at, next === -1 ? text.length : next);
    if (fence === null && blankBefore && /^\S/.test(line)) end = at;
    const mark = /^ {0,3}(`{3,}|~{3,})/.exec(line)?.[1];
    if (fence === null && mark !== undefined) fence = mark;
    else if (fence !== null && mark?.startsWith(fence) && line.trim() === mark) fence = null;
    blankBefore = line.trim() === "";
    if (next === -1) break;
    at = next + 1;
  }
  return end;
}
