// Where everything stands in a JSON5 text: a scanner that keeps positions, for whoever changes one value and leaves the rest as it is.
// Only for texts that json5 has read: what it says of others means nothing.
import JSON5 from "json5";

export interface Member {
  readonly key: string;
  /** Where its key begins; of an item of a list, where its value does. */
  readonly start: number;
  readonly value: Node;
}

export interface Node {
  readonly kind: "object" | "array" | "scalar";
  readonly start: number;
  /** Behind its last character. */
  readonly end: number;
  /** Of a list its items, by their numbers. */
  readonly members: readonly Member[];
}

/** A comment, a bracket, comma or colon, a text, a word; what lies between is blank. */
const TOKEN = /\/\/[^\n\r\u2028\u2029]*|\/\*[\s\S]*?\*\/|[{}[\],:]|"(?:[^"\\]|\\[\s\S])*"|'(?:[^'\\]|\\[\s\S])*'|[^\s\ufeff{}[\],:"'/]+/g;

interface Token {
  readonly text: string;
  readonly start: number;
  readonly end: number;
}

const isComment = (text: string): boolean => text.startsWith("//") || text.startsWith("/*");

export function scanJson5(text: string): Node {
  const tokens = [...text.matchAll(TOKEN)]
    .map(({ 0: found, index }) => ({ text: found, start: index, end: index + found.length }))
    .filter((token) => !isComment(token.text));
  let at = 0;
  const next = (): Token => {
    const token = tokens[at++];
    if (token === undefined) throw new RangeError("the text ends in the middle");
    return token;
  };
  const value = (): Node => {
    const token = next();
    if (token.text === "{") return container(token, "object", "}");
    if (token.text === "[") return container(token, "array", "]");
    return { kind: "scalar", start: token.start, end: token.end, members: [] };
  };
  const container = ({ start }: Token, kind: "object" | "array", close: string): Node => {
    const members: Member[] = [];
    for (;;) {
      const token = next();
      if (token.text === close) return { kind, start, end: token.end, members };
      if (token.text === ",") continue;
      if (kind === "object")
        at += 1; // the colon
      else at -= 1; // it was the value itself
      members.push({ key: kind === "object" ? keyOf(token.text) : String(members.length), start: token.start, value: value() });
    }
  };
  return value();
}

/** `"a"`, `'a'`, `a` and `\u0061` are the same key. */
const keyOf = (token: string): string =>
  token.includes("\\") || /^["']/.test(token) ? (Object.keys(JSON5.parse<object>(`{${token}:0}`))[0] ?? "") : token;

/** Where the comma behind this place stands; null when a bracket comes first. Comments are skipped. */
export function commaAfter(text: string, from: number): number | null {
  // A pattern of its own: its place in the text is kept in it.
  const token = new RegExp(TOKEN);
  token.lastIndex = from;
  for (let match = token.exec(text); match !== null; match = token.exec(text)) {
    if (isComment(match[0])) continue;
    return match[0] === "," ? match.index : null;
  }
  return null;
}

/** The end of the line when nothing but blanks and comments follow on it, else the place itself. */
export function restOfLine(text: string, from: number): number {
  const rest = /^(?:[^\S\n\r]|\/\*(?:(?!\*\/)[^\n\r])*\*\/)*(?:\/\/[^\n\r]*)?(?=[\n\r]|$)/.exec(text.slice(from));
  return rest === null ? from : from + rest[0].length;
}
