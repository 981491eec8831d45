// Formulas in Markdown: `$…$` within a line, `$$…$$` in a line or as a block, drawn by KaTeX as MathML, which needs no style and no font.
// Loaded by the rendering thread with the first text that has one (rich-text.ts).
import { math, mathHtml } from "micromark-extension-math";

type Extension = ReturnType<typeof math>;
type Construct = Exclude<NonNullable<NonNullable<Extension["text"]>["36"]>, readonly unknown[]>;
type Tokenizer = Construct["tokenize"];
type State = ReturnType<Tokenizer>;
type Code = Parameters<Extract<State, (...args: never[]) => unknown>>[0];

const DOLLAR = 36;
/** Longest formula within a line. */
const MAX_LENGTH = 500;

/** micromark has negative numbers for line breaks and tabs. */
const isBlank = (code: Code): boolean => code === null || code < 0 || code === 32;
const isWord = (code: Code): boolean => code !== null && code > 0 && /[\p{L}\p{N}_]/u.test(String.fromCodePoint(code));

/**
 * One dollar begins a formula only where no word stands before it and no blank behind it, and the next one ends it only where no blank
 * stands before it and no word behind it: `$5 and $10`, `US$5` and `$HOME:$PATH` stay text.
 */
const tokenizeRule: Tokenizer = function (effects, ok, nok) {
  const { previous } = this;
  let length = 0;
  let last: Code = null;
  const begin: State = (code) => {
    effects.enter("data");
    effects.consume(code);
    return first;
  };
  const first: State = (code) => {
    if (code === DOLLAR) return end(ok)(code);
    return isWord(previous) || isBlank(code) ? end(nok)(code) : inside(code);
  };
  const inside: State = (code) => {
    if (code === null || (code < 0 && code !== -1 && code !== -2) || ++length > MAX_LENGTH) return end(nok)(code);
    if (code === DOLLAR && isBlank(last)) return end(nok)(code);
    effects.consume(code);
    if (code === DOLLAR) return behind;
    last = code;
    return inside;
  };
  const behind: State = (code) => end(isWord(code) || code === DOLLAR ? nok : ok)(code);
  const end = (state: State) => (code: Code) => {
    effects.exit("data");
    return (state as (code: Code) => State)(code);
  };
  return begin;
};

function withRule(construct: Construct): Construct {
  return {
    ...construct,
    tokenize(effects, ok, nok) {
      return effects.check({ tokenize: tokenizeRule, partial: true }, construct.tokenize.call(this, effects, ok, nok), nok);
    },
  };
}

const syntax = math();

export const mathSyntax: Extension = { ...syntax, text: { [DOLLAR]: withRule(syntax.text?.["36"] as Construct) } };

/** No links and no pictures, whatever a formula asks for; one that is none is shown as it was written. */
export const mathToHtml = mathHtml({
  ...{ output: "mathml", trust: false, throwOnError: false, strict: "ignore", maxExpand: 200, maxSize: 20 },
});

/** Of KaTeX's own tags: the page's policy allows no style in an attribute. */
export const withoutStyles = (html: string): string => html.replace(/(<[a-z]+\b[^<>]*?) style="[^"]*"/g, "$1");
