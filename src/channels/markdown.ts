// One GFM tree for the chat platforms: Markdown → Telegram's text + entities (nothing to escape, nothing that can fail
// to parse, so a cut can't break markup), and Markdown → the subset Slack's markdown block shows.
// OutMessage.markdown → Channel.render → here → split.ts → parts. The web page renders by itself.
import { createMarkdownBudget, type MarkdownBudget } from "../core/markdown-cost.ts";
import { type MarkdownRoot, markdownParser } from "../core/markdown-parser.ts";
import { type FormattedText, splitMarkdown, type TextRange } from "./split.ts";
import { drawTable } from "./table.ts";

/** A formatted range in Telegram's words. */
export interface TelegramEntity extends TextRange {
  readonly type: "bold" | "italic" | "strikethrough" | "code" | "pre" | "text_link" | "blockquote";
  readonly url?: string;
  readonly language?: string;
}

export type MarkdownNode = MarkdownRoot["children"][number];
type Node = MarkdownNode;
type Table = Extract<Node, { type: "table" }>;
type List = Extract<Node, { type: "list" }>;
type Style = Omit<TelegramEntity, "offset" | "length">;

interface Writer {
  text: string;
  readonly entities: TelegramEntity[];
  /** Styles around what is written next, outermost first, each with where it began. */
  readonly open: { style: Style; start: number }[];
  /** Stands at the start of each further line inside a list item. */
  indent: string;
  readonly urls: ReadonlyMap<string, string>;
  readonly source: string;
}

/** Parsing costs more than the length in proportion: longer texts are parsed piece by piece, … */
const PARSE_LENGTH = 8_000;
/** … and beyond this not at all: nobody reads so much in a chat, and the event loop must go on. */
export const TOO_LONG = 48_000;
/** Quotes in quotes in lists, forty deep on one line: nothing to render, and a tree too deep to walk. */
const TOO_DEEP = /^(?:[ \t]{0,3}(?:>|[-*+][ \t]|\d{1,9}[.)][ \t])){40}/m;

/** Never throws and loses no words; text that has no visible form at all comes back as it is. */
export function toTelegram(markdown: string): FormattedText<TelegramEntity> {
  const source = markdown.toWellFormed();
  if (source.length > TOO_LONG) return { text: source, entities: [] };
  let text = "";
  const entities: TelegramEntity[] = [];
  const budget = createMarkdownBudget(source.length);
  for (const piece of toPieces(source)) {
    const rendered = renderPiece(piece, budget);
    if (text !== "" && rendered.text !== "") text += "\n\n";
    for (const entity of rendered.entities) entities.push({ ...entity, offset: entity.offset + text.length });
    text += rendered.text;
  }
  return text.trim() === "" ? { text: source, entities: [] } : { text, entities };
}

export const toPieces = (source: string): string[] =>
  source.length <= PARSE_LENGTH ? [source] : splitMarkdown(source, { maxLength: PARSE_LENGTH });

function renderPiece(source: string, budget: MarkdownBudget): FormattedText<TelegramEntity> {
  const tree = parseMarkdown(source, budget);
  if (tree === null) return { text: source, entities: [] };
  const writer: Writer = { text: "", entities: [], open: [], indent: "", urls: readDefinitions(tree), source };
  try {
    writeBlocks(writer, tree.children);
  } catch (error) {
    if (error instanceof RangeError) return { text: source, entities: [] };
    throw error;
  }
  const entities = writer.entities.sort((a, b) => a.offset - b.offset || b.length - a.length);
  return { text: writer.text, entities };
}

/** Null for what is too deeply nested, too dear to parse, or trips the parser: such text is shown as it was written. */
export function parseMarkdown(source: string, budget: MarkdownBudget): MarkdownRoot | null {
  if (TOO_DEEP.test(source) || !budget.affords(source)) return null;
  try {
    const { fromMarkdown, gfm, gfmFromMarkdown } = markdownParser();
    return fromMarkdown(source, { extensions: [gfm()], mdastExtensions: [gfmFromMarkdown()] });
  } catch {
    // Not only RangeError: a parser's own mistake would otherwise keep the reply from ever being recorded.
    return null;
  }
}

function readDefinitions(tree: MarkdownRoot): Map<string, string> {
  const urls = new Map<string, string>();
  const visit = (nodes: readonly Node[]): void => {
    for (const node of nodes) {
      if (node.type === "definition" && !urls.has(node.identifier)) urls.set(node.identifier, node.url);
      else if ("children" in node) visit(node.children);
    }
  };
  visit(tree.children);
  return urls;
}

function write(writer: Writer, text: string): void {
  writer.text += writer.indent === "" ? text : text.replace(/\n(?!\n)/g, `\n${writer.indent}`);
}

/** Puts a style over whatever `body` writes. Code can't carry or stand inside other inline styles: they pause around it. */
function styled(writer: Writer, style: Style, body: () => void) {
  const isCode = style.type === "code" || style.type === "pre";
  if (writer.open.some(({ style: outer }) => outer.type === style.type || (isCode && outer.type === "text_link"))) return body();
  const paused = isCode ? writer.open.filter((outer) => outer.style.type !== "blockquote") : [];
  for (const outer of paused) endStyle(writer, outer);
  const entry = { style, start: writer.text.length };
  writer.open.push(entry);
  body();
  writer.open.splice(writer.open.indexOf(entry), 1);
  endStyle(writer, entry);
  for (const outer of paused) outer.start = writer.text.length;
}

function endStyle(writer: Writer, { style, start }: { style: Style; start: number }): void {
  const length = writer.text.length - start;
  if (length > 0) writer.entities.push({ ...style, offset: start, length });
}

/** Blocks stand as far apart as they were written: a list right under its heading line stays there. */
function writeBlocks(writer: Writer, nodes: readonly Node[]): void {
  let before: Node | null = null;
  for (const node of nodes) {
    if (node.type === "definition") continue;
    if (before !== null) write(writer, gapBetween(before, node));
    before = node;
    writeNode(writer, node);
  }
}

function gapBetween(before: Node, after: Node): string {
  const lines = (after.position?.start.line ?? 0) - (before.position?.end.line ?? 0);
  return lines === 1 ? "\n" : "\n\n";
}

function writeInline(writer: Writer, nodes: readonly Node[]): void {
  for (const node of nodes) writeNode(writer, node);
}

function writeNode(writer: Writer, node: Node) {
  switch (node.type) {
    case "heading":
    case "strong":
      return styled(writer, { type: "bold" }, () => writeInline(writer, node.children));
    case "emphasis":
      return styled(writer, { type: "italic" }, () => writeInline(writer, node.children));
    case "delete":
      return styled(writer, { type: "strikethrough" }, () => writeInline(writer, node.children));
    case "blockquote":
      return styled(writer, { type: "blockquote" }, () => writeBlocks(writer, node.children));
    case "list":
      return writeList(writer, node);
    case "code":
      return writeCode(writer, node.value, node.lang);
    case "table":
      return writeCode(writer, drawNode(node));
    case "inlineCode":
      return styled(writer, { type: "code" }, () => write(writer, node.value));
    case "link":
      return writeLink(writer, node.url, node.children);
    case "linkReference":
      return writeLink(writer, writer.urls.get(node.identifier) ?? "", node.children);
    case "image":
    case "imageReference":
      return writeImage(writer, node);
    case "footnoteReference":
      return write(writer, `[${node.label ?? node.identifier}]`);
    case "footnoteDefinition":
      write(writer, `[${node.label ?? node.identifier}] `);
      return writeBlocks(writer, node.children);
    case "thematicBreak":
      return write(writer, "———");
    case "break":
      return write(writer, "\n");
    case "text":
      return write(writer, node.value);
    case "html":
      return write(writer, /^<br\s*\/?>$/i.test(node.value) ? "\n" : node.value);
    default:
      if ("children" in node) writeInline(writer, node.children);
  }
}

function writeList(writer: Writer, list: List): void {
  const outer = writer.indent;
  list.children.forEach((item, n) => {
    const before = list.children[n - 1];
    if (before !== undefined) write(writer, gapBetween(before, item));
    const box = item.checked === true ? "☑ " : item.checked === false ? "☐ " : "";
    const bullet = writer.source[item.position?.start.offset ?? 0] === "-" ? "- " : "• ";
    const marker = list.ordered ? `${(list.start ?? 1) + n}. ${box}` : box || bullet;
    write(writer, marker);
    writer.indent = outer + " ".repeat(list.ordered ? 3 : 2);
    writeBlocks(writer, item.children);
    writer.indent = outer;
  });
}

function writeCode(writer: Writer, code: string, info?: string | null): void {
  const outer = writer.indent;
  const language = /^[\w+#.-]{1,30}$/.test(info ?? "") ? { language: info as string } : {};
  writer.indent = "";
  styled(writer, { type: "pre", ...language }, () => write(writer, code));
  writer.indent = outer;
}

function writeLink(writer: Writer, url: string, children: readonly Node[]) {
  // Nothing to click on, and often no link at all: a lambda in C++ reads the same.
  if (children.length === 0) return write(writer, url === "" ? "[]()" : url);
  const start = writer.text.length;
  // Any other target is shown, so that nothing is lost or disguised; `tg://user?id=…` would call somebody.
  if (isWebLink(url)) return styled(writer, { type: "text_link", url }, () => writeInline(writer, children));
  writeInline(writer, children);
  const label = writer.text.slice(start);
  if (url !== "" && url !== label && url !== `mailto:${label}`) write(writer, ` (${url})`);
}

const isWebLink = (url: string): boolean => /^https?:\/\/[^\s/]/i.test(url) && url.length <= 2048 && URL.canParse(url);

function writeImage(writer: Writer, node: Extract<Node, { type: "image" | "imageReference" }>): void {
  const url = node.type === "image" ? node.url : (writer.urls.get(node.identifier) ?? "");
  writeLink(writer, url, [{ type: "text", value: `🖼 ${node.alt || "image"}` }]);
}

export function drawNode(table: Table): string {
  return drawTable(
    table.children.map((row) => row.children.map((cell) => cellText(cell))),
    table.align ?? [],
  );
}

function cellText(cell: Table["children"][number]["children"][number]): string {
  const writer: Writer = { text: "", entities: [], open: [], indent: "", urls: new Map(), source: "" };
  writeInline(writer, cell.children);
  return writer.text.replace(/\s+/g, " ").trim();
}

/**
 * Markdown as Slack's markdown block shows it: tables, which it doesn't know, become code fences; outside code `<` can't
 * start a mention (`<!channel>`, `<@U…>`). Everything else stays as it was written.
 */
export function toSlackMarkdown(markdown: string, budget = createMarkdownBudget(markdown.length)): string {
  const source = markdown.toWellFormed();
  if (source.length > TOO_LONG) return escapeMentions(source);
  const pieces = toPieces(source).map((piece) => convertPiece(piece, budget));
  return pieces.map((piece, n) => (n === pieces.length - 1 || piece.endsWith("\n") ? piece : `${piece}\n`)).join("");
}

/**
 * A part of it as it will be posted. What is code may have changed with the cut: a back-tick's partner now stands in another
 * part, or in the same one again. So each part is looked at once more, on its own.
 */
export function disarmMentions(part: string, budget: MarkdownBudget): string {
  if (!MENTION.test(part)) return part;
  const tree = parseMarkdown(part, budget);
  return tree === null ? escapeMentions(part) : convert(part, tree, ["code", "inlineCode"]);
}

function convertPiece(source: string, budget: MarkdownBudget): string {
  const tree = parseMarkdown(source, budget);
  return tree === null ? escapeSlackText(source) : convert(source, tree, ["code", "inlineCode", "table"]);
}

/** Nodes of these types are taken as a whole: code as it is, a table as a fence. */
function convert(source: string, tree: MarkdownRoot, types: readonly Node["type"][]): string {
  let result = "";
  let at = 0;
  const visit = (nodes: readonly Node[]): void => {
    for (const node of nodes) {
      const start = node.position?.start.offset ?? at;
      const end = node.position?.end.offset ?? at;
      if (types.includes(node.type)) {
        result += escapeMentions(source.slice(at, start));
        result += node.type === "table" ? fenced(drawNode(node), source, start) : source.slice(start, end);
        at = end;
      } else if ("children" in node) visit(node.children);
    }
  };
  visit(tree.children);
  return result + escapeMentions(source.slice(at));
}

/** As code; `start`: where it stands in the source. */
export function fenced(drawn: string, source: string, start: number): string {
  const longest = Math.max(2, ...(drawn.match(/`+/g) ?? []).map((run) => run.length));
  const fence = "`".repeat(longest + 1);
  const line = source.slice(source.lastIndexOf("\n", start - 1) + 1, start);
  // Inside a quote or a list item every line of the fence needs the same beginning.
  return [fence, ...drawn.split("\n"), fence].join(`\n${line.replace(/[^> \t]/g, " ")}`);
}

const MENTION = /<(?=[!@#])/;
const escapeMentions = (text: string): string => text.replace(new RegExp(MENTION, "g"), "&lt;");

/** For Slack's plain `text` fields, which read `&`, `<` and `>` as markup. */
export const escapeSlackText = (text: string): string => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
