// Bytes of a settings file → a plain tree, or every reason why not. json5 silently keeps the last of two equal keys and
// puts no limit on size or depth, so a small scan of the text looks for those first.
// file → parseConfigText → config.ts.
import JSON5 from "json5";
import { errorText } from "../core/errors.ts";

export type Path = readonly (string | number)[];

/** One thing wrong with the file; the path is where in it. */
export interface Problem {
  readonly path: Path;
  readonly text: string;
}

export const MAX_BYTES = 1_000_000;
const MAX_DEPTH = 50;
/** Keys, values and brackets together. zod collects issues by the argument, and a call takes some 100 000 of those. */
const MAX_TOKENS = 50_000;
/** Names that reach an object's prototype; no setting is called like that. */
export const isReservedKey = (key: string): boolean => key === "__proto__" || key === "constructor" || key === "prototype";

/** Never throws. `tree` is undefined when the text can't be read at all. */
export function parseConfigText(bytes: Uint8Array): { tree?: unknown; problems: Problem[] } {
  if (bytes.length > MAX_BYTES) return fatal(`file is larger than ${MAX_BYTES} bytes`);
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(bytes); // drops a byte order mark
  } catch {
    return fatal("file is not UTF-8");
  }
  if (text.includes("\0")) return fatal("file is not UTF-8"); // UTF-16 without a mark often decodes, with a NUL in each pair
  const problems = scan(text);
  if (typeof problems === "string") return fatal(problems);
  try {
    return { tree: JSON5.parse(text), problems };
  } catch (error) {
    return fatal(`not valid JSON5: ${errorText(error).replace(/^JSON5: /, "")}`);
  }
}

const fatal = (text: string) => ({ problems: [{ path: [], text }] });

/** One open `{` or `[`. `at` is the key or index of the value being read. */
interface Level {
  keys: Set<string> | null;
  at: string | number;
  expectsKey: boolean;
}

/** Looks only at strings, comments and brackets: whatever else is wrong, json5 says it better. Text: not worth parsing. */
function scan(text: string): Problem[] | string {
  const problems: Problem[] = [];
  const levels: Level[] = [];
  let count = 0;
  for (const token of tokens(text)) {
    if (++count > MAX_TOKENS) return "holds too many values";
    const level = levels.at(-1);
    if (token === "{" || token === "[") {
      if (levels.length === MAX_DEPTH) return `nested deeper than ${MAX_DEPTH} levels`;
      levels.push(token === "{" ? { keys: new Set(), at: "", expectsKey: true } : { keys: null, at: 0, expectsKey: false });
    } else if (token === "}" || token === "]") {
      levels.pop();
    } else if (level !== undefined && token === ",") {
      if (typeof level.at === "number") level.at++;
      else level.expectsKey = true;
    } else if (level?.keys && level.expectsKey) {
      const key = keyOf(token);
      level.at = key;
      level.expectsKey = false;
      const path = levels.map(({ at }) => at);
      if (isReservedKey(key)) problems.push({ path, text: "this key is not allowed" });
      else if (level.keys.has(key)) problems.push({ path, text: "this key is given twice; remove one" });
      level.keys.add(key);
    }
  }
  return problems;
}

/** `"a"`, `'a'`, `a` and `\u0061` are the same key. */
function keyOf(token: string): string {
  if (!token.includes("\\")) return /^["']/.test(token) ? token.slice(1, -1) : token;
  try {
    return Object.keys(JSON5.parse<object>(`{${token}:0}`))[0] ?? token;
  } catch {
    return token; // not a key at all: json5 will refuse the file
  }
}

/** Brackets, commas, strings and words; blanks, colons and comments are left out. Linear in the length of the text. */
function* tokens(text: string): Generator<string> {
  const token =
    /[{}[\],]|"[^"\\]*(?:\\[\s\S][^"\\]*)*"?|'[^'\\]*(?:\\[\s\S][^'\\]*)*'?|\/\/[^\n\r\u2028\u2029]*|\/\*|[^\s\ufeff{}[\],:"'/]+/g;
  for (let match = token.exec(text); match !== null; match = token.exec(text)) {
    const [found] = match;
    if (found === "/*") {
      const end = text.indexOf("*/", token.lastIndex);
      if (end === -1) return;
      token.lastIndex = end + 2;
    } else if (!found.startsWith("//")) yield found;
  }
}
