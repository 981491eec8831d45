// What a Markdown reader makes of a model's text, at block level: which lines are code, and whether the text leaves
// something open that would swallow what stands behind it. report.ts asks, so that no result can hide our own lines.
import { createRequire } from "node:module";

type Root = ReturnType<typeof import("mdast-util-from-markdown").fromMarkdown>;
type Block = Root | Root["children"][number];

// Only blocks matter here, and inline syntax is what makes hostile text slow to parse.
const INLINE = ["attention", "autolink", "codeText", "htmlText", "labelEnd", "labelStartImage", "labelStartLink", "characterReference"];
// Few texts need it, and it is a tenth of the program's start: loaded with the first one.
const require = createRequire(import.meta.url);
function parse(text: string): Root {
  const { fromMarkdown }: typeof import("mdast-util-from-markdown") = require("mdast-util-from-markdown");
  return fromMarkdown(text, { extensions: [{ disable: { null: INLINE } }] });
}

const HEAD = "Result:";
const AFTER = "what follows";
const MAX_FENCES = 500;

/** Numbers (from 0) of the lines of `text`, standing below a heading line, that are shown as code. */
export function codeLines(text: string): Set<number> {
  const lines = new Set<number>();
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
  const marks = [...new Set(fencesOf(text))].sort((a, b) => b.length - a.length);
  const candidates = isHostile(text) ? [] : [text, ...marks.slice(0, 4).map((mark) => `${text}\n${mark}`)];
  return candidates.find(endsClean) ?? text.replace(/^/gm, "> ");
}

const fencesOf = (text: string): string[] => [...text.matchAll(/^ {0,3}(`{3,}|~{3,})/gm)].map((match) => match[1] ?? "");

/** Nobody writes this for a reader, and parsing it takes long: it is quoted as a whole, and no line of it counts as code. */
const isHostile = (text: string): boolean => fencesOf(text).length > MAX_FENCES;

function endsClean(text: string): boolean {
  const last = parse(`${HEAD}\n${text}\n\n${AFTER}`).children.at(-1);
  return (
    last?.type === "paragraph" && last.position?.end.column === AFTER.length + 1 && last.position.start.line === last.position.end.line
  );
}
