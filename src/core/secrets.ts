// Known secret values and their names. Whatever leaves the process as text (log, transcript, outbox, page)
// passes through redact(), so a token that ends up in an error URL or a tool's output shows as its name (SC4).

export interface Secrets {
  /**
   * Registers a value; short ones and plain numbers are ignored, they would shred ordinary text and ids. A name that another
   * value has gets a number: restore could only guess which of the two is meant.
   */
  add(name: string, value: string | undefined): void;
  redact(text: string): string;
  /** Grows with every value that becomes known: what was redacted before one has to be again. */
  count(): number;
  /** Where the names stand in what redact makes of a text. */
  namesIn(text: string): readonly Span[];
  /**
   * How many characters at the end of a text may be the beginning of a secret. Whoever cuts a text, or shows one that still
   * grows, leaves them away first: the part of a secret that is left of a cut is no known value, so redact would show it.
   */
  heldBack(text: string): number;
  /**
   * The way back, for a text that is written where `original` stood and was made from what redact showed of it: each name is
   * its value again, as `original` spells it. A name whose value doesn't stand there is never filled in, or a model could
   * have any secret written wherever it likes; it comes back in `unknown`, because the text would be broken with it.
   */
  restore(text: string, original: string): { readonly text: string; readonly unknown: readonly string[] };
}

/** For whoever cuts a text: redact all of it before, and of one that goes on beyond the cut leave away what is held back. */
export type CutSecrets = Pick<Secrets, "redact" | "heldBack">;

/** From the first character to behind the last. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

const MIN_LENGTH = 8;

export function createSecrets(): Secrets {
  const names = new Map<string, string>();
  let pattern: RegExp | null = null;
  /** Whether there is any. Asked of every text that is written, and most hold none: replacing costs several times as much as looking. */
  let any: RegExp | null = null;
  return {
    add(name, value) {
      if (value === undefined || value.length < MIN_LENGTH || /^\d{1,15}$/.test(value) || names.has(value)) return;
      // It will stand inside JSON texts: `headers["x-key"]` must not end a string there.
      const shown = unusedName(name.replace(/["\\\p{Cc}]/gu, "'"), new Set(names.values()));
      for (const spelling of spellingsOf(value)) {
        if (!names.has(spelling)) names.set(spelling, shown);
      }
      const longestFirst = [...names.keys()].sort((a, b) => b.length - a.length);
      pattern = new RegExp(longestFirst.map(escapePattern).join("|"), "g");
      any = new RegExp(pattern.source);
    },
    redact: (text) =>
      pattern === null || text.length < MIN_LENGTH || any?.test(text) !== true
        ? text
        : text.replace(pattern, (value) => `[${names.get(value)}]`),
    count: () => names.size,
    namesIn(text) {
      let longer = 0;
      const values = pattern === null ? [] : [...text.matchAll(pattern)];
      return values.map(({ index, 0: value }) => {
        const start = index + longer;
        const end = start + `[${names.get(value)}]`.length;
        longer += end - start - value.length;
        return { start, end };
      });
    },
    heldBack(text) {
      const at = beginningAtEnd(text, [...names.keys()]);
      // A whole value that reaches past that place would itself be cut there.
      const across =
        pattern === null ? [] : [...text.matchAll(pattern)].filter(({ index, 0: value }) => index < at && index + value.length > at);
      return text.length - (across[0]?.index ?? at);
    },
    restore(text, original) {
      const shown = new Set([...names.values()].map((name) => `[${name}]`).filter((mark) => text.includes(mark)));
      if (shown.size === 0 || pattern === null) return { text, unknown: [] };
      const unknown = new Set<string>();
      const marks = new RegExp([...shown].map(escapePattern).join("|"), "g");
      const stood = spellingsIn(original, new RegExp(`${pattern.source}|${marks.source}`, "g"), names);
      const count = new Map<string, number>();
      for (const [mark] of text.matchAll(marks)) count.set(mark, (count.get(mark) ?? 0) + 1);
      const next = new Map<string, number>();
      const restored = text.replace(marks, (mark) => {
        const spellings = stood.get(mark) ?? [];
        const n = next.get(mark) ?? 0;
        next.set(mark, n + 1);
        // Spelled in several ways, which is meant is only certain while none was added or taken away.
        const isCertain = new Set(spellings).size === 1 || spellings.length === count.get(mark);
        const spelling = isCertain ? (spellings[n] ?? spellings[0]) : undefined;
        if (spelling === undefined) unknown.add(mark);
        return spelling ?? mark;
      });
      return { text: restored, unknown: [...unknown] };
    },
  };
}

function unusedName(name: string, used: ReadonlySet<string>): string {
  let unused = name;
  for (let n = 2; used.has(unused); n++) unused = `${name} ${n}`;
  return unused;
}

/**
 * URL-encoded and JSON-escaped ones leak just as well. Escaped as Markdown it would be whole again once it is rendered, where
 * its name in its place moves whatever is counted from the text's start.
 */
const spellingsOf = (value: string): string[] => [
  ...[value, encodeURIComponent(value), JSON.stringify(value).slice(1, -1)],
  ...[value.replace(/[_*]/g, "\\$&"), value.replace(/[!-/:-@[-`{-~]/g, "\\$&")],
];

const escapePattern = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

/** Where the longest end of the text begins with which one of the values goes on; its length when none does. */
function beginningAtEnd(text: string, values: readonly string[]): number {
  const longest = values.reduce((most, value) => Math.max(most, value.length), 1);
  for (let at = Math.max(0, text.length - longest + 1); at < text.length; at += 1) {
    const end = text.slice(at);
    if (values.some((value) => value.length > end.length && value.startsWith(end))) return at;
  }
  return text.length;
}

/** What redact shows as a name, name by name in order: values in any spelling, and the name itself where the text has it so. */
function spellingsIn(text: string, pattern: RegExp, names: ReadonlyMap<string, string>): Map<string, string[]> {
  const stood = new Map<string, string[]>();
  for (const [found] of text.matchAll(pattern)) {
    const mark = names.has(found) ? `[${names.get(found)}]` : found;
    stood.set(mark, [...(stood.get(mark) ?? []), found]);
  }
  return stood;
}
