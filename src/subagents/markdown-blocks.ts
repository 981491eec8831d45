// What a Markdown reader makes of a model's text, at block level: which lines are code, and whether the text leaves
// something open that would swallow what stands behind it. announcement.ts and quoting.ts ask, so that no result can hide our own lines.
import { hasCostlyBlocks } from "../core/markdown-cost.ts";
import { type MarkdownRoot, markdownParser } from "../core/markdown-parser.ts";

type Block = MarkdownRoot | MarkdownRoot["children"][number];

// Only blocks matter here, and inline syntax is what makes hostile text slow to parse.
const INLINE = ["attention", "autolink", "codeText", "htmlText", "labelEnd", "labelStartImage", "labelStartLink", "characterReference"];
const parse = (text: string): MarkdownRoot => markdownParser().fromMarkdown(text, { extensions: [{ disable: { null: INLINE } }] });

const HEAD = "Result:";
const AFTER = "what follows";
const MAX_FENCES = 500;
/** The parser's time grows with the square of the length: a longer text is only read line by line. */
const MAX_PARSED = 20_000;

/** Numbers (from 0) of the lines of `text`, standing below a heading line, that are shown as code. */
export function codeLines(text: string): Set<number> {
  const lines = new Set<number>();
  if (text.length > MAX_PARSED) {
    scanLines(text, (line) => lines.add(line));
    return lines;
  }
  if (!/`{3}|~{3}|^ {4}|^\t/m.test(text) || isHostile(text)) return lines;
  const visit = (node: Block): void => {
    if (node.type === "code") {
      // One line above is the heading, and positions count from 1.
      for (let line = node.position?.start.line ?? 1; line <= (node.position?.end.line ?? 0); line++) lines.add(line - 2);
    }
    if ("children" in node) for (const child of node.children) visit(child as Block);
  };
  visit(parse(`${HEAD}\n${text}`));
  return lines;
}

/** The text with nothing left open: a fence gets its closing line; where that doesn't help, the whole text is quoted. */
export function closed(text: string): string {
  if (!/`{3}|~{3}|</.test(text)) return text;
  if (text.length > MAX_PARSED) return [text, ...scanLines(text)].join("\n");
  const marks = [...new Set(fencesOf(text))].sort((a, b) => b.length - a.length);
  const candidates = isHostile(text) ? [] : [text, ...marks.slice(0, 4).map((mark) => `${text}\n${mark}`)];
  return candidates.find(endsClean) ?? text.replace(/^/gm, "> ");
}

const fencesOf = (text: string): string[] => [...text.matchAll(/^ {0,3}(`{3,}|~{3,})/gm)].map((match) => match[1] ?? "");

/** Nobody writes this for a reader, and parsing it takes long: it is quoted as a whole, and no line of it counts as code. */
const isHostile = (text: string): boolean => fencesOf(text).length > MAX_FENCES || hasCostlyBlocks(text);

function endsClean(text: string): boolean {
  const last = parse(`${HEAD}\n${text}\n\n${AFTER}`).children.at(-1);
  return (
    last?.type === "paragraph" && last.position?.end.column === AFTER.length + 1 && last.position.start.line === last.position.end.line
  );
}

/** Blocks of raw HTML that only their own end closes, whatever stands on the lines between. */
const HTML_BLOCKS = [
  [/^ {0,3}<!--/, "-->"],
  [/^ {0,3}<\?/, "?>"],
  [/^ {0,3}<!\[CDATA\[/, "]]>"],
  [/^ {0,3}<pre(?=[\s>]|$)/i, "</pre>"],
  [/^ {0,3}<script(?=[\s>]|$)/i, "</script>"],
  [/^ {0,3}<style(?=[\s>]|$)/i, "</style>"],
  [/^ {0,3}<textarea(?=[\s>]|$)/i, "</textarea>"],
] as const;

/** Where a fence, or raw HTML, can begin or a fence can end. */
const SIGN = /^ {0,3}[`~<]/;
const FENCE = /^ {0,3}(`{3,}|~{3,})(.*)$/;

/**
 * The same questions answered in one pass, for fences and raw HTML in no other block: what a long text is most likely to leave
 * open. Returns the line that closes it, if any. A result may have lines by the hundred thousand: most are only glanced at.
 */
function scanLines(text: string, onCode?: (line: number) => void): string[] {
  let open: { readonly end: string; readonly isFence: boolean } | null = null;
  const lines = text.split("\n");
  for (let n = 0; n < lines.length; n++) {
    const line = lines[n] ?? "";
    if (open?.isFence === true) onCode?.(n);
    if (open?.isFence === false) {
      if (line.includes(open.end)) open = null;
      continue;
    }
    if (!SIGN.test(line)) continue;
    const [, mark = "", info = ""] = FENCE.exec(line) ?? [];
    if (open !== null) {
      if (mark.startsWith(open.end) && info.trim() === "") open = null;
      continue;
    }
    open = openedBy(line, mark, info);
    if (open?.isFence === true) onCode?.(n);
  }
  return open === null ? [] : [open.end];
}

function openedBy(line: string, mark: string, info: string): { readonly end: string; readonly isFence: boolean } | null {
  if (mark !== "") return mark.startsWith("`") && info.includes("`") ? null : { end: mark, isFence: true };
  const html = HTML_BLOCKS.find(([opener, end]) => opener.test(line) && !line.includes(end));
  return html === undefined ? null : { end: html[1], isFence: false };
}
