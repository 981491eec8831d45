// One value of a JSON5 text set or removed, and every other character as it was: comments, order, quotes and blanks are people's own.
// Whoever writes the outcome reads it first, as json5 does: nothing here is believed unread.
import { commaAfter, type Member, type Node, restOfLine, scanJson5 } from "./json5-nodes.ts";
import type { Path } from "./text.ts";

/** Sets the value at `path`; blocks on the way that are missing are made, a list takes an item at its end. */
export function setValue(text: string, path: Path, value: unknown): string {
  const { node, rest } = descend(scanJson5(text), path);
  const style = styleOf(text);
  if (rest.length === 0) return splice(text, node.start, node.end, print(value, indentAt(text, node.start), style));
  const [key, ...below] = rest;
  if (node.kind === "scalar" || key === undefined) throw new TypeError("there is no block at this place");
  return insert(text, { node, key: node.kind === "array" ? null : String(key), value: nest(below, value) }, style);
}

/** Removes what stands at `path`, with its comma and its line when nothing else is on it; nothing there: the text as it was. */
export function removeValue(text: string, path: Path): string {
  const { node: parent, rest } = descend(scanJson5(text), path.slice(0, -1));
  const member = parent.members.find(({ key }) => key === String(path.at(-1)));
  if (rest.length > 0 || member === undefined) return text;
  const comma = commaAfter(text, member.value.end);
  // The comma may stand behind a comment, which stays.
  const without = comma === null ? text : splice(text, comma, comma + 1, "");
  return dropRange(without, member.start, member.value.end);
}

/** The node at the path, or the last one on the way with what is missing below it. */
function descend(root: Node, path: Path): { node: Node; rest: Path } {
  let node = root;
  for (const [n, part] of path.entries()) {
    const inner = node.members.find(({ key }) => key === String(part));
    if (inner === undefined) return { node, rest: path.slice(n) };
    node = inner.value;
  }
  return { node, rest: [] };
}

const splice = (text: string, start: number, end: number, put: string): string => text.slice(0, start) + put + text.slice(end);

/** A line with nothing left on it goes, too. */
function dropRange(text: string, start: number, end: number): string {
  const lineStart = Math.max(text.lastIndexOf("\n", start - 1), text.lastIndexOf("\r", start - 1)) + 1;
  const before = text.slice(lineStart, start);
  const after = /^[^\S\n\r]*(?:\r\n|\n|\r)/.exec(text.slice(end));
  if (/\S/.test(before) || after === null || lineStart === 0) return splice(text, start, end, "");
  return splice(text, lineStart, end + after[0].length, "");
}

interface Style {
  readonly newline: string;
  /** One step of indentation. */
  readonly step: string;
}

function styleOf(text: string): Style {
  const step = /(?:^|[\n\r])(\t| {2,8})(?=[^\s/*])/.exec(text)?.[1] ?? "  ";
  return { newline: text.includes("\r\n") ? "\r\n" : "\n", step };
}

function indentAt(text: string, at: number): string {
  const line = text.slice(text.lastIndexOf("\n", at - 1) + 1, at);
  return /^[^\S\n\r]*/.exec(line)?.[0] ?? "";
}

const nest = (path: Path, value: unknown): unknown =>
  path.reduceRight<unknown>((inner, part) => (typeof part === "number" ? [inner] : { [part]: inner }), value);

interface Insertion {
  readonly node: Node;
  /** Null in a list. */
  readonly key: string | null;
  readonly value: unknown;
}

/** Behind the last member: on a line of its own where the block has lines, else on the same one. */
function insert(text: string, { node, key, value }: Insertion, style: Style): string {
  const last = node.members.at(-1);
  const written = (indent: string, isFlat: boolean): string =>
    `${key === null ? "" : `${printKey(key, quoteOf(text, node))}: `}${isFlat ? flat(value) : print(value, indent, style)}`;
  if (last === undefined) return insertFirst(text, node, style, written);
  const comma = commaAfter(text, last.value.end);
  const behind = restOfLine(text, comma === null ? last.value.end : comma + 1);
  const isLined = /[\n\r]/.test(text.slice(node.start, last.start));
  if (!isLined) {
    // Not behind a comment that runs to the end of the line.
    const at = comma === null ? last.value.end : comma + 1;
    return splice(text, at, at, `${comma === null ? "," : ""} ${written("", true)}`);
  }
  const indent = indentAt(text, last.start);
  const added = splice(
    text,
    behind,
    behind,
    `${style.newline}${indent}${written(indent, false)},${/^[\n\r]/.test(text.slice(behind)) ? "" : style.newline}`,
  );
  return comma === null ? splice(added, last.value.end, last.value.end, ",") : added;
}

function insertFirst(text: string, node: Node, style: Style, written: (indent: string, isFlat: boolean) => string): string {
  const outer = indentAt(text, node.start);
  const indent = outer + style.step;
  const close = node.end - 1;
  const inside = text.slice(node.start + 1, close);
  const line = `${indent}${written(indent, false)},${style.newline}`;
  if (inside.trim() === "") return splice(text, node.start + 1, close, `${style.newline}${line}${outer}`);
  // Comments stay in front. The last one may run to the end of its line.
  const lineStart = text.lastIndexOf("\n", close - 1) + 1;
  const isAlone = lineStart > node.start && /^[^\S\n\r]*$/.test(text.slice(lineStart, close));
  return isAlone ? splice(text, lineStart, lineStart, line) : splice(text, close, close, `${style.newline}${line}${outer}`);
}

/** As the first key of the block is written: people who quote all of them go on doing so. */
function quoteOf(text: string, { members }: Node): string {
  const first = (members as readonly Member[])[0];
  const sign = first === undefined ? "" : (text[first.start] ?? "");
  return sign === '"' || sign === "'" ? sign : "";
}

function printKey(key: string, quote: string): string {
  if (quote === "" && /^[A-Za-z_$][\w$]*$/.test(key)) return key;
  return quote === "'" && !/['\\\p{Cc}\u2028\u2029]/u.test(key) ? `'${key}'` : scalar(key);
}

/** JSON5 takes both line separators inside a text, editors don't. */
const scalar = (value: unknown): string =>
  JSON.stringify(value).replace(/[\u2028\u2029]/g, (sign) => `\\u${sign.charCodeAt(0).toString(16)}`);

const isList = (value: unknown): value is readonly unknown[] => Array.isArray(value);
const isBlock = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null && !isList(value);

function flat(value: unknown): string {
  if (isList(value)) return `[${value.map(flat).join(", ")}]`;
  if (!isBlock(value)) return scalar(value);
  const inner = Object.entries(value).map(([key, one]) => `${printKey(key, "")}: ${flat(one)}`);
  return inner.length === 0 ? "{}" : `{ ${inner.join(", ")} }`;
}

/** Lists of plain values on one line, blocks on lines of their own. */
function print(value: unknown, indent: string, style: Style): string {
  const isSmall = isList(value) ? !value.some((one) => typeof one === "object" && one !== null) : !isBlock(value);
  if (isSmall || Object.keys(value as object).length === 0) return flat(value);
  const inner = indent + style.step;
  const lines = isList(value)
    ? value.map((one) => `${inner}${print(one, inner, style)},`)
    : Object.entries(value as object).map(([key, one]) => `${inner}${printKey(key, "")}: ${print(one, inner, style)},`);
  const [open, close] = isList(value) ? ["[", "]"] : ["{", "}"];
  return [open, ...lines, `${indent}${close}`].join(style.newline);
}
