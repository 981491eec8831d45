// Our Markdown as Discord shows it. It knows most of it; what it doesn't is written otherwise: tables as code, deep headings as the
// deepest it has, pictures as links. A link shows where it leads, whatever it calls itself; and what Discord would make live (`<@…>`,
// `</stop:…>`) stands there as it is written. Nobody is called by it in any case: every message says that it mentions nobody.
import { createMarkdownBudget } from "../../core/markdown-cost.ts";
import { drawNode, fenced, type MarkdownNode, parseMarkdown, TOO_LONG, toPieces } from "../markdown.ts";

/** Discord shows three. */
const DEEPEST = 3;
const LIVE = /<(?=[@#/:]|a:|t:|id:)/g;

/** Never throws and loses no words. */
export function toDiscord(markdown: string): string {
  const source = markdown.toWellFormed();
  if (source.length > TOO_LONG) return withFenceClosed(escapeLive(source));
  const budget = createMarkdownBudget(source.length);
  const pieces = toPieces(source).map((piece) => {
    const tree = parseMarkdown(piece, budget);
    return tree === null ? escapeLive(piece) : convert(piece, tree.children);
  });
  return withFenceClosed(pieces.map((piece, n) => (n === pieces.length - 1 || piece.endsWith("\n") ? piece : `${piece}\n`)).join(""));
}

/** Of a fence that nobody closed Discord shows the back-ticks, and all of the code as text. */
function withFenceClosed(text: string): string {
  let open: string | null = null;
  for (const [, marker = "", rest = ""] of text.matchAll(/^[ \t>]*(`{3,})(.*)$/gm)) {
    if (open === null) open = rest.includes("`") ? null : marker;
    else if (marker.startsWith(open) && rest.trim() === "") open = null;
  }
  return open === null ? text : `${text.trimEnd()}\n${open}`;
}

const escapeLive = (text: string): string => text.replace(LIVE, "\\<");

function convert(source: string, nodes: readonly MarkdownNode[]): string {
  let result = "";
  let at = 0;
  const visit = (children: readonly MarkdownNode[]): void => {
    for (const node of children) {
      const start = node.position?.start.offset ?? at;
      const end = node.position?.end.offset ?? at;
      const written = rewritten(node, source, start, end);
      if (written !== null) {
        result += escapeLive(source.slice(at, start)) + written;
        at = end;
      } else if (node.type === "heading" && node.depth > DEEPEST && source.startsWith("####", start)) {
        result += `${escapeLive(source.slice(at, start))}${"#".repeat(DEEPEST)}`;
        at = start + node.depth;
        visit(node.children);
      } else if ("children" in node) visit(node.children);
    }
  };
  visit(nodes);
  return result + escapeLive(source.slice(at));
}

/** Null: it stays as it is, but for what stands in it. */
function rewritten(node: MarkdownNode, source: string, start: number, end: number): string | null {
  switch (node.type) {
    case "code":
      // Discord knows neither tildes nor code that is only set in.
      return source.startsWith("```", start) ? source.slice(start, end) : fenced(node.value, source, start);
    case "inlineCode":
      return source.slice(start, end);
    case "table":
      return fenced(drawNode(node), source, start);
    case "link":
      return toLink(node.url, labelOf(node));
    case "image":
      return toLink(node.url, `🖼 ${node.alt || "image"}`);
    default:
      return null;
  }
}

const labelOf = (node: MarkdownNode): string =>
  "children" in node ? node.children.map(labelOf).join("") : "value" in node && typeof node.value === "string" ? node.value : "";

/** An address that is its own label needs no other; a foreign one is written out, so that nothing is disguised. */
function toLink(url: string, label: string): string {
  const words = escapeLive(label.replace(/[[\]]/g, " ").replace(/\s+/g, " ").trim());
  if (label === url || `mailto:${label}` === url || words === "") return url === "" ? words : escapeLive(label || url);
  const host = /^https?:\/\//i.test(url) && !/[\s<>]/.test(url) ? URL.parse(url)?.host : undefined;
  if (host === undefined) return url === "" ? words : `${words} (${escapeLive(url)})`;
  return words.includes(host) && /^[\w./:-]+$/.test(words) && url.includes(words) ? url : `[${words}](<${url}>) (${host})`;
}
