// Random documents and random edits: what json5 reads afterwards is what was meant, and no other character has moved.
import { parseEnv } from "node:util";
import fc from "fast-check";
import JSON5 from "json5";
import { expect, it } from "vitest";
import { setVariable } from "../../src/config/edit-env.ts";
import { removeValue, setValue } from "../../src/config/edit-json5.ts";
import { scanJson5 } from "../../src/config/json5-nodes.ts";

const KEYS = ["a", "b", "model", "über", "with-dash", "x y", 'quo"te', "it's"];
const scalar = fc.oneof(
  fc.string(),
  fc.integer(),
  fc.boolean(),
  fc.constant(null),
  fc.constantFrom("// no comment", "{", "}", ",", "/*", "\u2028"),
);
const value: fc.Arbitrary<unknown> = fc.letrec((tie) => ({
  any: fc.oneof({ depthSize: "small" }, scalar, tie("list"), tie("block")),
  list: fc.array(tie("any"), { maxLength: 3 }),
  block: fc.dictionary(fc.constantFrom(...KEYS), tie("any"), { maxKeys: 4 }),
})).block;

/** Writes a value as people do: comments, blanks, quotes and trailing commas by a random stream. */
function write(tree: unknown, pick: (n: number) => number): string {
  const gap = (): string => ["", " ", "\n  ", " /* , } */ ", "\n  // a comment, {\n  ", "\t", "\r\n "][pick(7)] ?? "";
  const text = (one: string): string => {
    const plain = JSON.stringify(one).replace(/[\u2028\u2029]/g, (sign) => `\\u${sign.charCodeAt(0).toString(16)}`);
    return pick(2) === 0 || /['\\]/.test(plain) ? plain : `'${plain.slice(1, -1).replaceAll('\\"', '"')}'`;
  };
  const key = (one: string): string => (/^[a-z]\w*$/.test(one) && pick(2) === 0 ? one : text(one));
  const tail = (isEmpty: boolean): string => (!isEmpty && pick(2) === 0 ? `,${gap()}` : "");
  const go = (one: unknown): string => {
    if (Array.isArray(one)) return `[${one.map((item) => gap() + go(item) + gap()).join(",")}${tail(one.length === 0)}]`;
    if (typeof one === "string") return text(one);
    if (typeof one !== "object" || one === null) return JSON.stringify(one);
    const inner = Object.entries(one).map(([name, item]) => `${gap()}${key(name)}${gap()}:${gap()}${go(item)}${gap()}`);
    return `{${gap()}${inner.join(",")}${tail(inner.length === 0)}}`;
  };
  return `${gap()}${go(tree)}${gap()}`;
}

const document = fc.tuple(value, fc.array(fc.nat(), { minLength: 50, maxLength: 50 })).map(([tree, stream]) => {
  let n = 0;
  return { tree, text: write(tree, (max) => (stream[n++ % stream.length] ?? 0) % max) };
});

type Tree = Record<string, unknown>;
const isBlock = (one: unknown): one is Tree => typeof one === "object" && one !== null && !Array.isArray(one);

/** The tree after the edit, or null where there is no block to set it in. */
function meant(tree: unknown, path: readonly string[], put: unknown): unknown {
  const [key, ...rest] = path;
  if (key === undefined) return put;
  if (!isBlock(tree)) return undefined;
  const inner = rest.length === 0 ? put : meant(Object.hasOwn(tree, key) ? tree[key] : {}, rest, put);
  if (inner === undefined) return undefined;
  return { ...tree, [key]: inner };
}

function without(tree: unknown, path: readonly string[]): unknown {
  const [key = "", ...rest] = path;
  if (!isBlock(tree) || !Object.hasOwn(tree, key)) return tree;
  if (rest.length > 0) return { ...tree, [key]: without(tree[key], rest) };
  return Object.fromEntries(Object.entries(tree).filter(([name]) => name !== key));
}

const path = fc.array(fc.constantFrom(...KEYS), { minLength: 1, maxLength: 3 });
/** Every comment of a text, in order. */
const commentsOf = (text: string): string[] => text.match(/\/\/ a comment, \{|\/\* , \} \*\//g) ?? [];

it("[WB7] a value set in any JSON5 document is what json5 reads there, and all around it is as it was", () => {
  fc.assert(
    fc.property(document, path, fc.oneof(scalar, value), ({ tree, text }, at, put) => {
      expect(JSON5.parse(text)).toEqual(tree);
      const wanted = meant(tree, at, put);
      if (wanted === undefined) return;
      const next = setValue(text, at, put);
      expect(JSON5.parse(next)).toEqual(wanted);
      const old = at.reduce<unknown>((one, key) => (isBlock(one) && Object.hasOwn(one, key) ? one[key] : undefined), tree);
      // Nothing but the value is touched, or nothing is taken away.
      if (old === undefined) expect(commentsOf(next)).toEqual(commentsOf(text));
      else {
        const node = at.reduce((one, key) => one.members.find((member) => member.key === key)?.value ?? one, scanJson5(text));
        expect(next.startsWith(text.slice(0, node.start)) && next.endsWith(text.slice(node.end))).toBe(true);
      }
    }),
    { numRuns: 1000 },
  );
});

it("[WB7] a value removed from any JSON5 document is gone, and no comment outside of it is", () => {
  fc.assert(
    fc.property(document, path, ({ tree, text }, at) => {
      const next = removeValue(text, at);
      expect(JSON5.parse(next)).toEqual(without(tree, at));
      if (isBlock(tree) && without(tree, at) === tree) expect(next).toBe(text);
    }),
    { numRuns: 1000 },
  );
});

it("[WB7] an item of any list is added, changed and taken away by its number", () => {
  fc.assert(
    fc.property(document, fc.nat(4), scalar, ({ tree, text }, n, put) => {
      const list = Object.entries(tree as Tree).find(([, one]) => Array.isArray(one)) as [string, unknown[]] | undefined;
      if (list === undefined) return;
      const [key, items] = list;
      const at = Math.min(n, items.length);
      expect(JSON5.parse<Tree>(setValue(text, [key, at], put))[key]).toEqual(items.toSpliced(at, 1, put));
      expect(JSON5.parse<Tree>(removeValue(text, [key, at]))[key]).toEqual(items.toSpliced(at, 1));
    }),
    { numRuns: 1000 },
  );
});

it("[WB7] PAGE-002 any one-line secret is read back from .env as it was typed, beside lines that stay as they are", () => {
  const secret = fc.oneof(
    fc.string({ unit: fc.constantFrom("#", "$", `$\{HOME}`, "'", '"', "\\", "\\n", "=", " ", "🔑", "a", "1", ",") }),
    fc.constantFrom("  leading", "trailing  ", `$\{HOME}`, "$$", "a#b", " # ", 'say "hi"', "it's", "\\", "a=b=c", "🔑 clé"),
  );
  const line = fc.constantFrom(
    "# a comment",
    "",
    "OTHER=1",
    "export SHELL_STYLE='x # y'",
    'TWO="first\nsecond"',
    "KEY=old # note",
    "  SPACED = yes ",
    "KEY='old'",
  );
  fc.assert(
    fc.property(fc.array(line, { maxLength: 6 }), fc.constantFrom("\n", "\r\n"), fc.boolean(), secret, (lines, newline, isEnded, typed) => {
      const text = lines.join(newline) + (isEnded ? newline : "");
      let next: string;
      try {
        next = setVariable(text, "KEY", typed);
      } catch {
        // All three kinds of quotes, or an unreadable rest: said, and nothing written.
        expect(["'", '"', "`"].every((quote) => typed.includes(quote)) || /["'`\\]|\r/.test(typed + text)).toBe(true);
        return;
      }
      expect(parseEnv(next)).toEqual({ ...parseEnv(text), KEY: typed });
      for (const one of lines) if (!/KEY/.test(one)) expect(next).toContain(one);
      expect(parseEnv(setVariable(next, "KEY", null))).toEqual(
        Object.fromEntries(Object.entries(parseEnv(text)).filter(([name]) => name !== "KEY")),
      );
    }),
    { numRuns: 1000 },
  );
});
