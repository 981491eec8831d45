// Is this Markdown worth parsing? The parser's worst inputs cost the square of their length, and twelve kilobytes of them
// would hold the whole gateway for seconds. This adds up what a text could cost before anybody parses it; what is too dear
// is shown as it was written. It counts signs, not time: the same text is always shown the same way.
// channels/markdown.ts, web/markdown.ts and subagents/markdown-blocks.ts ask first.
import { type MarkdownRoot, markdownParser } from "./markdown-parser.ts";

// Costs are in steps of some 50 ns, weighed by measuring (test/property/markdown.test.ts looks for what was overlooked).
const PER_CHARACTER = 40;
const PER_SIGN = 60;
const PER_CELL = 400;
const PER_BLOCK = 800;
/** Beyond what plain words cost: so much for any text, and so much for each of its characters. */
const ALLOWANCE = 1_000_000;
const ALLOWED_PER_CHARACTER = 60;
/** However long the text: a fifth of a second. */
const MOST = 4_000_000;

/** Opens a block inside a block: a quote, a bullet, a number, a footnote. */
const CONTAINER = /[ \t]{0,3}(?:>|[-*+](?=[ \t]|$)|\d{1,9}[.)](?=[ \t]|$)|\[\^[^\]\s]+\]:)/y;
/** Ends the paragraph above it. */
const APART = /^[ \t]*(?:$|#{1,6}(?:[ \t]|$)|[-=]+[ \t]*$|(?:[-*_][ \t]*){3,}$)/;
const DEFINITION = /^ {0,3}\[[^\]]{1,1000}\]:/;
const UNDERLINE = /^[ \t]*[-=]+[ \t]*$/;
const BETWEEN_BLOCKS = /\n(?=[ \t]*(?:\n|$|>|#{1,6}[ \t]|[-*+][ \t]|\d{1,9}[.)][ \t]))/;
/** A word with an address in it is tried anew at each place where one could begin, up to its end. */
const LONG_WORD = /\S{80,}/g;
const ADDRESS = /www\.|:\/\/|@/gi;
/** Where an address could begin, the start of every word for one: behind an open bracket each looks back as far as the bracket. */
const ADDRESS_START = /(?<![\w+.-])[\w+.-]|(?<![a-z])h/gi;

/** What one message may cost, in however many pieces it is parsed: each alone would be cheap, and a dozen of them hold everybody up. */
export interface MarkdownBudget {
  /** Whether this piece may be parsed; if so, it is paid for. */
  affords(markdown: string): boolean;
}

export function createMarkdownBudget(length: number): MarkdownBudget {
  let left = Math.min(ALLOWANCE + (PER_CHARACTER + ALLOWED_PER_CHARACTER) * length, MOST);
  return {
    affords(markdown) {
      const text = markdown.replaceAll("\r", "\n");
      const fixed = PER_CHARACTER * text.length + blockCost(text);
      if (fixed > left) return false;
      left -= fixed;
      // As if paragraphs ended nowhere but at blocks: true of all but long code and tables, which then get a closer look.
      let inline = inlineCost(text.split(BETWEEN_BLOCKS));
      if (inline > fixed) {
        // Looking is parsing, too.
        left -= fixed / 4;
        inline = inlineCost(inlineTexts(text));
      }
      if (inline > left) return false;
      left -= inline;
      return true;
    },
  };
}

/** Rendering it would take more than a fifth of a second, or much longer than ordinary text of that length. */
export const isCostly = (markdown: string): boolean => !createMarkdownBudget(markdown.length).affords(markdown);

/** The same for whoever looks at blocks only. */
export const hasCostlyBlocks = (markdown: string): boolean =>
  blockCost(markdown.replaceAll("\r", "\n")) > ALLOWANCE + ALLOWED_PER_CHARACTER * markdown.length;

function blockCost(text: string): number {
  let cost = (text.match(/\|/g)?.length ?? 0) * PER_CELL;
  let lines = 0;
  let endings = 0;
  let open = "";
  for (const line of text.split("\n")) {
    const { depth, kind } = containerOf(line);
    if (DEFINITION.test(line)) cost += PER_BLOCK;
    // Each level is looked for again inside the one before.
    cost += depth * depth * 8;
    if (depth === 0 && !APART.test(line)) {
      if (/^\S/.test(line)) open = "";
      lines++;
      continue;
    }
    // Each line of a paragraph asks whether it ends it.
    cost += (lines > 0 ? PER_BLOCK : 0) + (line === "" ? 0 : PER_BLOCK) + lines * lines;
    lines = 0;
    // One more item of the same list is no container of its own.
    endings += depth > 0 ? depth - (kind === open ? 1 : 0) : UNDERLINE.test(line) ? 1 : 0;
    if (depth > 0) open = kind;
    else if (open.endsWith(">")) open = "";
  }
  // Whatever ends moves all that follows in the parser's one long list.
  return cost + lines * lines + endings * endings * 3;
}

/** How many containers begin on the line, and which is the first: its indent and sign. */
function containerOf(line: string): { depth: number; kind: string } {
  let depth = 0;
  CONTAINER.lastIndex = 0;
  while (CONTAINER.test(line)) depth++;
  return { depth, kind: depth === 0 ? "" : (/^\s*(?:\d+(?=[.)]))?\D?/.exec(line)?.[0].replace(/\d+/, "") ?? "") };
}

function inlineCost(paragraphs: readonly string[]): number {
  let cost = 0;
  for (const text of paragraphs) {
    const marks = text.match(/[*_~]/g)?.length ?? 0;
    const signs = text.match(/[[\]<&`*_~!\\\n]/g)?.length ?? 0;
    // Each mark and each bracket looks back through all that is still open before it.
    cost += signs * PER_SIGN + marks * marks * 8 + signs * signs * 2;
    const bracket = text.indexOf("[");
    const starts = bracket === -1 ? 0 : (text.slice(bracket).match(ADDRESS_START)?.length ?? 0);
    cost += (starts * starts) / 5;
    for (const [word] of text.matchAll(LONG_WORD)) cost += (word.match(ADDRESS)?.length ?? 0) * word.length * 4;
  }
  return cost;
}

type Node = MarkdownRoot | MarkdownRoot["children"][number];

const INLINE = [
  ...["attention", "autolink", "codeText", "htmlText", "labelEnd", "labelStartImage", "labelStartLink", "characterReference"],
  ...["characterEscape", "hardBreakEscape", "strikethrough", "wwwAutolink", "protocolAutolink", "emailAutolink"],
  ...["gfmFootnoteCall", "gfmPotentialFootnoteCall"],
];

/** What would be parsed for signs: paragraphs, headings, cells of tables; not code. */
function inlineTexts(text: string): string[] {
  const { fromMarkdown, gfm, gfmFromMarkdown } = markdownParser();
  const found: string[] = [];
  const visit = (node: Node): void => {
    if (node.type === "paragraph" || node.type === "heading" || node.type === "tableCell")
      found.push(text.slice(node.position?.start.offset, node.position?.end.offset));
    else if ("children" in node) for (const child of node.children) visit(child as Node);
  };
  // Without what it would do to the finished tree: it looks for addresses there once more.
  const mdastExtensions = gfmFromMarkdown().map(({ transforms: _, ...extension }) => extension);
  visit(fromMarkdown(text, { extensions: [gfm(), { disable: { null: INLINE } }], mdastExtensions }));
  return found;
}
