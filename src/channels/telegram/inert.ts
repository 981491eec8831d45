// Telegram reads every text once more and makes things live that nobody marked: `@name` calls somebody, `/stop` is a command
// at a tap, `#word` and `$WORD` are searches, `tg://…` opens what it says. Text of ours is mostly written by models, who
// must neither call people nor hand out buttons. So what would come alive is shown as code, which Telegram leaves alone:
// the characters stay as they are, can be read and copied, and nothing invisible is put between them.
// toTelegram → inert → splitEntities → inert again: a cut can leave a sign at the start of a part.
import type { FormattedText, TextRange } from "../split.ts";

/** Rather more than Telegram finds: what it leaves alone is only set in another type. */
const LIVE = new RegExp(
  [
    "(?<![A-Za-z0-9_])@[A-Za-z0-9_]+",
    "(?<![A-Za-z0-9_/<>])/[A-Za-z0-9_]+(?:@[A-Za-z0-9_]+)?(?![A-Za-z0-9_/<>])",
    String.raw`(?<![\p{L}\p{N}_])#(?=[\p{N}_\u200c\u00b7]*\p{L})[\p{L}\p{M}\p{N}_\u200c\u00b7]+(?:@[A-Za-z0-9_]+)?`,
    String.raw`(?<![\p{L}\p{N}_])\$(?:1INCH|[A-Z]+)(?:@[A-Za-z0-9_]+)?`,
    String.raw`(?:[Tt][Gg]|[Tt][Oo][Nn](?:[Ss][Ii][Tt][Ee])?)://\S+`,
  ].join("|"),
  "gu",
);

/** What code can't stand in, or where nothing comes alive anyway. */
const CLOSED = new Set(["code", "pre", "text_link"]);
/** May hold code, but neither of its ends may fall into one. */
const isQuote = (type: string): boolean => type.endsWith("blockquote");

const isFixed = ({ type }: TextRange): boolean => CLOSED.has(type) || isQuote(type);

/** A text of nothing but names must not need a message for every hundred of them: from this density on … */
const isCrowded = (count: number, length: number): boolean => count > 20 + length / 100;
/** … those that stand this close are one range, with what is between them. */
const NEAR = 100;

export interface CodeRange extends TextRange {
  readonly type: "code";
}

interface Span {
  readonly start: number;
  readonly end: number;
}

/** The same text with no word in it that Telegram would make live; ranges stay legal and in order. */
export function inert<R extends TextRange>({ text, entities }: FormattedText<R>): FormattedText<R | CodeRange> {
  const words = [...text.matchAll(LIVE)].map(({ index, 0: word }): Span => ({ start: index, end: index + word.length }));
  if (words.length === 0) return { text, entities: [...entities] };
  const fixed = entities.filter(isFixed);
  const open = without(words, union(fixed.filter(({ type }) => CLOSED.has(type)).map(toSpan)));
  const code = isCrowded(open.length, text.length) ? together(open, fixed.map(toSpan)) : open;
  const styles = entities.filter((range) => !isFixed(range));
  const cut = styles.flatMap((range) =>
    without([toSpan(range)], code).map(({ start, end }) => ({ ...range, offset: start, length: end - start })),
  );
  const added = code.map(({ start, end }): CodeRange => ({ type: "code", offset: start, length: end - start }));
  return { text, entities: [...fixed, ...cut, ...added].sort((a, b) => a.offset - b.offset || b.length - a.length) };
}

/** For a server that takes no ranges at all: an unseen character behind each sign is the last way there is. */
export const spellApart = (text: string): string => text.replace(LIVE, (word) => word.replace(/[@/#$:]/g, "$&\u2060"));

const toSpan = ({ offset, length }: TextRange): Span => ({ start: offset, end: offset + length });

/** In order and apart from each other. */
function union(spans: readonly Span[]): Span[] {
  const apart: Span[] = [];
  for (const span of [...spans].sort((a, b) => a.start - b.start)) {
    const last = apart.at(-1);
    if (last === undefined || span.start > last.end) apart.push(span);
    else apart[apart.length - 1] = { start: last.start, end: Math.max(last.end, span.end) };
  }
  return apart;
}

/** What of the spans lies in no hole; the holes are in order and apart. */
function without(spans: readonly Span[], holes: readonly Span[]): Span[] {
  return spans.flatMap(({ start, end }) => {
    const left: Span[] = [];
    let from = start;
    for (let n = firstAfter(holes, start); n < holes.length; n++) {
      const hole = holes[n] as Span;
      if (hole.start >= end) break;
      if (hole.start > from) left.push({ start: from, end: hole.start });
      from = Math.max(from, hole.end);
    }
    if (from < end) left.push({ start: from, end });
    return left;
  });
}

/** Near ones become one, unless another range begins or ends on the way. */
function together(spans: readonly Span[], others: readonly Span[]): Span[] {
  const borders = union(others.flatMap(({ start, end }) => [start, end].map((at) => ({ start: at - 0.5, end: at + 0.5 }))));
  const joined: Span[] = [];
  for (const span of spans) {
    const last = joined.at(-1);
    const isFree = last !== undefined && (borders[firstAfter(borders, last.end)]?.start ?? Number.POSITIVE_INFINITY) > span.start;
    if (last !== undefined && isFree && span.start - last.end < NEAR) joined[joined.length - 1] = { start: last.start, end: span.end };
    else joined.push(span);
  }
  return joined;
}

/** The first of them that ends behind `at`. */
function firstAfter(spans: readonly Span[], at: number): number {
  let low = 0;
  for (let high = spans.length; low < high; ) {
    const middle = (low + high) >> 1;
    if ((spans[middle] as Span).end > at) high = middle;
    else low = middle + 1;
  }
  return low;
}
