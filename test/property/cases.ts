// What the property tests share: how many cases, and how valid input is damaged. Plain noise dies at a parser's first
// check; damaged valid input gets past it.
import fc from "fast-check";

const DEFAULT_CASES = 10_000;

/** HERALD_TEST_CASES cases per property, or a `divisor`th of them where one is slow. HERALD_TEST_SEED repeats a run. */
export function cases(divisor = 1): { numRuns: number; seed?: number } {
  const { HERALD_TEST_CASES: count, HERALD_TEST_SEED: seed } = process.env;
  const numRuns = Math.max(1, Math.round(Number(count || DEFAULT_CASES) / divisor));
  if (!Number.isFinite(numRuns)) throw new Error(`HERALD_TEST_CASES=${count} is no number`);
  return { numRuns, ...(seed ? { seed: Number(seed) } : {}) };
}

/** Pieces that have broken parsers before: NUL, controls, half characters, invisible ones, prototypes, delimiters, numbers. */
const PIECES = [
  ..."\0 \u0007 \u001b[2J \u007f \u0085 \u2028 \ufeff \u200b \u202e \ud800 \udc00 \ud83d 😀 e\u0301".split(" "),
  ..."__proto__ constructor toString prototype hasOwnProperty null undefined NaN".split(" "),
  ..."0 -1 1e999 9007199254740993 0x10 ../ %00 $& : :: / \\ \" ' ` { } [ ] , - # * < > @ ! |".split(" "),
  ...["\n", "\r\n", "\t", " ", "---\n", "1".repeat(400), "[".repeat(200), " ".repeat(3_000), "a".repeat(3_000), "\ud800".repeat(50)],
];

const piece = fc.oneof(
  { arbitrary: fc.constantFrom(...PIECES), weight: 4 },
  { arbitrary: fc.string({ unit: "binary", maxLength: 4 }), weight: 1 },
);

/** Any text: hostile pieces in a row, mostly few, now and then one that is very long. */
export const hostileText: fc.Arbitrary<string> = fc.oneof(
  { arbitrary: fc.array(piece, { maxLength: 4 }).map((parts) => parts.join("")), weight: 400 },
  { arbitrary: fc.string({ maxLength: 30 }), weight: 100 },
  { arbitrary: piece.map((text) => text.repeat(Math.ceil(20_000 / Math.max(1, text.length)))), weight: 1 },
);

interface Edit {
  readonly how: number;
  /** Where, as a share of the whole. */
  readonly from: number;
  readonly to: number;
  readonly piece: string;
}

const share = fc.nat(1_000).map((n) => n / 1_000);
const edit: fc.Arbitrary<Edit> = fc.record({ how: fc.nat(6), from: share, to: share, piece });

/** One valid text with up to three edits; none leaves it as it is, so that acceptance is exercised as well. */
export const damagedText = (valid: fc.Arbitrary<string>): fc.Arbitrary<string> =>
  fc.tuple(valid, fc.array(edit, { maxLength: 3 })).map(([text, edits]) => edits.reduce(damageText, text));

function damageText(text: string, { how, from, to, piece: inserted }: Edit): string {
  const a = Math.floor(from * text.length);
  // Half of the time the stretch is short: a wide cut leaves nothing to look at.
  const b = Math.min(text.length, how % 2 === 0 ? a + Math.ceil(to * 8) : Math.floor(to * text.length));
  const [start, end] = a < b ? [a, b] : [b, a];
  const [head, middle, tail] = [text.slice(0, start), text.slice(start, end), text.slice(end)];
  switch (how) {
    case 0:
      return head + tail;
    case 1:
      return head;
    case 2:
    case 3:
      return head + middle + middle + tail;
    case 4:
      return head + inserted + tail;
    case 5:
      return head + inserted + middle + tail;
    default:
      return tail + head + inserted;
  }
}

/** Bytes of a text with some of them flipped, cut, doubled or overwritten: no longer UTF-8, as a rule. */
export const damagedBytes = (valid: fc.Arbitrary<string>): fc.Arbitrary<Buffer> =>
  fc.tuple(damagedText(valid), fc.array(fc.tuple(share, fc.nat(255)), { maxLength: 3 })).map(([text, hits]) => {
    const bytes = Buffer.from(text);
    for (const [at, value] of hits) if (bytes.length > 0) bytes[Math.min(bytes.length - 1, Math.floor(at * bytes.length))] = value;
    return bytes;
  });

type Tree = Record<string, unknown> | unknown[];
const isTree = (value: unknown): value is Tree => typeof value === "object" && value !== null;

const nested = (levels: number): unknown => JSON.parse("[".repeat(levels) + "]".repeat(levels));
/** What JSON can carry and nobody expects; own `__proto__` keys included. */
const ODD_VALUES = [
  ...[null, true, false, 0, -0, -1, 0.5, 1e308, Number.POSITIVE_INFINITY, 2 ** 53, "", " ", [], {}, [[]], [null]],
  JSON.parse('{"__proto__":{"polluted":true}}'),
  JSON.parse('{"toString":1,"valueOf":1,"length":-1}'),
  JSON.parse('{"length":{"toString":1,"valueOf":1}}'),
  ...[nested(100), nested(2_000), Array.from({ length: 300 }, (_, n) => n), "x".repeat(5_000)],
];
const ODD_KEYS = ["__proto__", "constructor", "toString", "", "0", "\0", "\ud800", "length", "id", "type", "text"];

const oddValue = fc.oneof(fc.constantFrom(...ODD_VALUES), hostileText);

interface TreeEdit {
  readonly how: number;
  /** One step each on the way down; as many as the tree has. */
  readonly path: readonly number[];
  readonly key: string;
  readonly value: unknown;
}

const treeEdit: fc.Arbitrary<TreeEdit> = fc.record({
  how: fc.nat(7),
  path: fc.array(fc.nat(30), { minLength: 1, maxLength: 4 }),
  key: fc.oneof(fc.constantFrom(...ODD_KEYS), hostileText),
  value: oddValue,
});

/** A valid JSON value with up to three edits: a value replaced, dropped, wrapped, doubled or exchanged, a key added. */
export const damagedTree = (valid: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> =>
  fc.oneof(
    {
      arbitrary: fc.tuple(valid, fc.array(treeEdit, { maxLength: 3 })).map(([tree, edits]) => edits.reduce(damageTree, copy(tree))),
      weight: 30,
    },
    { arbitrary: oddValue, weight: 1 },
  );

const PLAIN = { writable: true, enumerable: true, configurable: true };

/** A copy of its own, so that no case edits what the next one gets; shared only deeper than an edit can reach. */
function copy(value: unknown, levels = 10): unknown {
  if (!isTree(value) || levels === 0) return value;
  if (Array.isArray(value)) return value.map((item) => copy(item, levels - 1));
  const made: Record<string, unknown> = {};
  for (const [key, item] of Object.entries(value)) Object.defineProperty(made, key, { ...PLAIN, value: copy(item, levels - 1) });
  return made;
}

/** `__proto__` becomes a key of its own, as JSON.parse makes it. */
const put = (tree: Tree, key: string, value: unknown): void => void Object.defineProperty(tree, key, { ...PLAIN, value: copy(value) });

function damageTree(root: unknown, { how, path, key, value }: TreeEdit): unknown {
  if (!isTree(root)) return value;
  let tree: Tree = root;
  let at = pick(tree, path[0] ?? 0);
  for (const step of path.slice(1)) {
    const next: unknown = at === undefined ? undefined : Reflect.get(tree, at);
    if (!isTree(next) || pick(next, step) === undefined) break;
    tree = next;
    at = pick(tree, step);
  }
  if (at === undefined || how === 0) put(tree, Array.isArray(tree) ? String(tree.length) : key, value);
  else if (how === 1) Reflect.deleteProperty(tree, at);
  else if (how === 2) put(tree, at, [Reflect.get(tree, at)]);
  else if (how === 3) put(tree, at, { [key]: Reflect.get(tree, at) });
  else if (how === 4) put(tree, pick(tree, (path[0] ?? 0) + 1) ?? at, Reflect.get(tree, at));
  else if (how === 5 && typeof Reflect.get(tree, at) === "string")
    put(tree, at, `${Reflect.get(tree, at)}${typeof value === "string" ? value : ""}`);
  else put(tree, at, value);
  return root;
}

function pick(tree: Tree, step: number): string | undefined {
  const keys = Object.keys(tree);
  return keys.length === 0 ? undefined : keys[step % keys.length];
}

/** Throws when a case left something on the prototype that every object has: that would reach all later ones. */
export function checkPrototype(): void {
  for (const key in {}) throw new Error(`Object.prototype got ${key}`);
  if (Reflect.get({}, "polluted") !== undefined) throw new Error("Object.prototype was changed");
}
