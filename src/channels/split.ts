// Cuts long text at a platform's limit without breaking anything (DL2): splitMarkdown for channels that take
// Markdown (a fence cut in two is closed and opened again), splitEntities for Telegram's text + ranges.
// OutMessage → Channel.render → here → one outbox row per part.

/** A formatted range of a text, counted in UTF-16 units as Telegram does. */
export interface TextRange {
  readonly type: string;
  readonly offset: number;
  readonly length: number;
}

export interface SplitOptions {
  /** UTF-16 units per part, added fence lines included; at least 32. */
  readonly maxLength: number;
  /** Structural elements (paragraph, heading, list, table, fence …) per part; at least 2. */
  readonly maxBlocks?: number;
}

interface Fence {
  /** What stands before the marker: quote signs, and spaces where a list marker was. */
  readonly prefix: string;
  readonly marker: string;
  readonly reopen: string;
  readonly close: string;
}

interface Line {
  readonly start: number;
  /** The fence that is open where this line starts. */
  readonly fence: Fence | null;
  /** How well the text can be cut right before this line. */
  readonly border: "none" | "line" | "paragraph";
  /** Structural elements that begin before this line. */
  readonly blocks: number;
}

const OPENER = /^((?:[ \t]|>|[-*+][ \t]|\d{1,9}[.)][ \t])*)(`{3,}|~{3,})(.*)$/;
const CLOSER = /^([ \t>]*)(`{3,}|~{3,})[ \t\r]*$/;
/** An earlier cut than this share of the room would make a needlessly short part; it also keeps the work linear. */
const MIN_SHARE = 0.25;
const GRAPHEME_WINDOW = 64;
/** Telegram ignores the formatting of a message beyond 100 ranges; the rest is room for those added to a part later. */
const MAX_RANGES = 95;

/**
 * Parts in order, each within the limits and none blank; blank text gives no part. Joined they are the text again, but for
 * added fence lines and for white space that would have filled a part alone. Prefers paragraph, then line, then word borders.
 */
export function splitMarkdown(markdown: string, options: SplitOptions): string[] {
  const max = Math.max(32, options.maxLength);
  const maxBlocks = Math.max(2, options.maxBlocks ?? Number.POSITIVE_INFINITY);
  const lines = readLines(markdown, max);
  const parts: string[] = [];
  let from: Cut = { at: 0, index: 0, fence: null };
  while (from.at < markdown.length) {
    const head = from.fence?.reopen ?? "";
    const cut = findCut(markdown, { lines, from, limit: from.at + max - head.length, maxBlocks });
    const body = markdown.slice(from.at, cut.at);
    const tail = cut.fence === null ? "" : `${body.endsWith("\n") ? "" : "\n"}${cut.fence.close}`;
    if (body.trim() !== "") parts.push(head + body + tail);
    from = cut;
  }
  return parts;
}

/** A place in the text: the line it stands in, and the fence that is open there. */
interface Cut {
  readonly at: number;
  readonly index: number;
  readonly fence: Fence | null;
}

interface Window {
  readonly lines: readonly Line[];
  readonly from: Cut;
  readonly limit: number;
  readonly maxBlocks: number;
}

/** The end of the longest good beginning of what is left. */
function findCut(text: string, window: Window): Cut {
  const { lines, from, limit } = window;
  const blocks = (lines[from.index] as Line).blocks + window.maxBlocks - (from.fence === null ? 0 : 1);
  const end = lines[lines.length - 1] as Line;
  if (end.start <= limit && end.blocks <= blocks) return { at: end.start, index: lines.length - 1, fence: null };
  const best: { paragraph?: Cut; line?: Cut; fenced?: Cut } = {};
  let index = from.index + 1;
  for (; ; index++) {
    // The last line of the table is the text's end, which was out of reach above: the loop always breaks.
    const line = lines[index] as Line;
    if (line.start + closing(line.fence) > limit || line.blocks > blocks) break;
    if (line.border === "none") continue;
    const cut = { at: line.start, index, fence: line.fence };
    if (line.fence !== null) best.fenced = cut;
    else best[line.border] = cut;
  }
  const reached = Math.min(limit, (lines[index] as Line).start);
  const least = from.at + (reached - from.at) * MIN_SHARE;
  const good = [best.paragraph, best.line, best.fenced].find((cut) => cut !== undefined && cut.at >= least);
  return good ?? cutInLine(text, window, index - 1);
}

function cutInLine(text: string, window: Window, index: number): Cut {
  const { fence } = window.lines[index] as Line;
  const end = (window.lines[index + 1] as Line).start;
  const at = cutAtWord(text, window.from.at, Math.min(end, window.limit - closing(fence)));
  return at === end ? { at, index: index + 1, fence: (window.lines[index + 1] as Line).fence } : { at, index, fence };
}

/** Room that ending a part inside a fence takes: a line break, if the text has none there, and the closing line. */
const closing = (fence: Fence | null): number => (fence === null ? 0 : fence.close.length + 1);

/** The last word border in the second half of (from, limit], else the last grapheme border; always more than `from`. */
function cutAtWord(text: string, from: number, limit: number): number {
  if (limit >= text.length) return text.length;
  for (let at = limit; at > from + (limit - from) / 2; at--) {
    if (isSpace(text.charCodeAt(at - 1))) return at;
  }
  const start = Math.max(from, limit - GRAPHEME_WINDOW);
  let border = start;
  // Made here: the first one takes long, and most texts need no cut.
  const graphemes = new Intl.Segmenter("und", { granularity: "grapheme" });
  for (const { index } of graphemes.segment(text.slice(start, limit + GRAPHEME_WINDOW))) {
    if (start + index > limit) break;
    border = start + index;
  }
  if (border > start) return border;
  // One endless cluster: at least a code point stays whole.
  return isLowSurrogate(text.charCodeAt(limit)) && limit - 1 > from ? limit - 1 : limit;
}

const isSpace = (unit: number): boolean => unit === 32 || unit === 10 || unit === 9;
const isLowSurrogate = (unit: number): boolean => unit >= 0xdc00 && unit <= 0xdfff;

/** One pass over the text: where lines start, which fence each stands in, how well it can be cut there. Ends with the text's end. */
function readLines(text: string, max: number): Line[] {
  const lines: Line[] = [];
  let fence: Fence | null = null;
  let blocks = 0;
  let before: Kind = "blank";
  for (let start = 0; start < text.length; ) {
    const found = text.indexOf("\n", start);
    const end = found === -1 ? text.length : found + 1;
    const line = text.slice(start, lineEnd(text, start, found));
    if (fence !== null && leavesQuote(fence, line)) fence = null;
    const opens: Fence | null = fence === null ? openFence(line, max) : null;
    const kind: Kind = fence !== null ? "fenced" : opens !== null ? "opener" : kindOf(line);
    // A cut right after the opening line would leave an empty code block behind.
    const border = kind === "blank" || before === "opener" ? "none" : kind !== "fenced" && before === "blank" ? "paragraph" : "line";
    lines.push({ start, fence, border, blocks });
    if (startsBlock(kind, before)) blocks++;
    before = kind;
    fence = fence === null ? opens : closes(fence, line) ? null : fence;
    start = end;
  }
  lines.push({ start: text.length, fence: null, border: "line", blocks });
  return lines;
}

/** Without its line break. */
function lineEnd(text: string, start: number, found: number): number {
  if (found === -1) return text.length;
  return found > start && text.charAt(found - 1) === "\r" ? found - 1 : found;
}

type Kind = "blank" | "heading" | "rule" | "list" | "quote" | "table" | "text" | "opener" | "fenced";

function kindOf(line: string): Kind {
  const text = line.trim();
  if (text === "") return "blank";
  if (/^#{1,6}(\s|$)/.test(text)) return "heading";
  if (/^([-*_])(?:[ \t]*\1){2,}$/.test(text)) return "rule";
  if (/^(?:[-*+]|\d{1,9}[.)])(?:\s|$)/.test(text)) return "list";
  if (text.startsWith(">")) return "quote";
  return text.startsWith("|") ? "table" : "text";
}

/** Counts rather one too many than one too few: a platform refuses the whole message over its limit. */
function startsBlock(kind: Kind, before: Kind): boolean {
  if (kind === "blank" || kind === "fenced") return false;
  if (kind === "heading" || kind === "rule" || kind === "opener") return true;
  return kind !== before && !(kind === "text" && (before === "list" || before === "quote"));
}

function openFence(line: string, max: number): Fence | null {
  // Most lines have none, and this is asked of every one.
  if (!/`{3}|~{3}/.test(line)) return null;
  const match = OPENER.exec(line);
  const [, before = "", marker = "", info = ""] = match ?? [];
  if (match === null || (marker.startsWith("`") && info.includes("`"))) return null;
  const prefix = before.replace(/[^> \t]/g, " ");
  const close = prefix + marker;
  // A marker that would eat the room is no fence to us; an info string that would is left out when the fence is opened again.
  if (close.length > max / 8) return null;
  const reopen = info.length > max / 4 ? `${close}\n` : `${close}${info.trimEnd()}\n`;
  return { prefix, marker, reopen, close };
}

function closes(fence: Fence, line: string): boolean {
  const [, indent = "", marker = ""] = CLOSER.exec(line) ?? [];
  return marker.startsWith(fence.marker) && indent.length <= fence.prefix.length + 3;
}

/** A fence inside a quote ends where the quote does. */
const leavesQuote = (fence: Fence, line: string): boolean => fence.prefix.includes(">") && !/^[ \t]*>/.test(line);

export interface FormattedText<R extends TextRange> {
  readonly text: string;
  readonly entities: R[];
}

/**
 * Cuts a text with formatted ranges at the same kinds of border; ranges are clipped and moved, so code stays code in every
 * part. Parts are in order, at most `maxLength` UTF-16 units, none blank; joined they are the text again.
 */
export function splitEntities<R extends TextRange>(text: string, entities: readonly R[], maxLength: number): FormattedText<R>[] {
  let open = [...entities].sort((a, b) => a.offset - b.offset || b.length - a.length);
  const parts: FormattedText<R>[] = [];
  for (let at = 0; at < text.length; ) {
    open = open.filter((range) => range.offset + range.length > at);
    const crowded = open[MAX_RANGES]?.offset ?? text.length;
    const limit = Math.min(at + maxLength, crowded > at ? crowded : text.length);
    const cut = limit >= text.length ? text.length : cutOutside(text, open, at, limit);
    const body = text.slice(at, cut);
    if (body.trim() !== "") parts.push({ text: body, entities: clip(open, at, cut) });
    at = cut;
  }
  return parts;
}

/** The last good border in (from, limit]: after a blank line, after a line, after a line of code, between words. */
function cutOutside(text: string, ranges: readonly TextRange[], from: number, limit: number): number {
  const blocks = ranges.slice(0, MAX_RANGES).filter((range) => range.type === "pre");
  const inBlock = (at: number) => blocks.some((range) => range.offset < at && at < range.offset + range.length);
  const best: { line?: number; fenced?: number } = {};
  for (let at = limit; at > from + (limit - from) * MIN_SHARE; at--) {
    if (text.charCodeAt(at - 1) !== 10) continue;
    if (inBlock(at)) best.fenced ??= at;
    else if (text.charCodeAt(at - 2) === 10 && text.charCodeAt(at) !== 10) return at;
    else best.line ??= at;
  }
  return best.line ?? best.fenced ?? cutAtWord(text, from, limit);
}

function clip<R extends TextRange>(ranges: readonly R[], from: number, to: number): R[] {
  const clipped: R[] = [];
  for (const range of ranges) {
    if (range.offset >= to) break;
    const start = Math.max(range.offset, from);
    const end = Math.min(range.offset + range.length, to);
    if (end > start) clipped.push({ ...range, offset: start - from, length: end - start });
  }
  return clipped;
}
