// Documents with front matter: any text is read or refused with a DocumentError; what was written reads back exactly.
import fc from "fast-check";
import { expect, it } from "vitest";
import { Brief } from "../../src/brief/brief.ts";
import { DocumentError, parseDocument, serializeDocument } from "../../src/brief/document.ts";
import { BriefResponse } from "../../src/brief/response.ts";
import { cases, checkPrototype, damagedBytes, damagedText, hostileText } from "./cases.ts";

/** Undefined when it is refused as declared. */
function read<T>(work: () => T): T | undefined {
  try {
    return work();
  } catch (error) {
    if (!(error instanceof DocumentError) || error.message === "") throw error;
    return undefined;
  }
}

const BRIEF = Brief.create({ delegator: "main", delegatee: "helper", body: "# Do it\n\n---\n\nwith `care`\n", maxDepth: 3 });
const DOCUMENTS = [
  BRIEF.content,
  BRIEF.createResponse({ status: "success", body: "Done." }).content,
  `\uFEFF${BRIEF.content.replaceAll("\n", "\r\n")}`,
  "---\na: [1, {b: c}, 'd']\ne: |\n  text\n  more\n2026-01-01: ~\n---\nbody",
  "---\nbase: &a {x: 1}\nuse: *a\n<<: *a\n---\n",
];
const line = fc.constantFrom(
  "---",
  "a: b",
  "- x",
  "a: [",
  "b: {c: d}",
  "e: |",
  "  f",
  "? g",
  ": h",
  "...",
  "&i j",
  "%YAML 1.2",
  "'k",
  "!!js/x y",
);
const lines = fc.array(fc.oneof(line, hostileText), { maxLength: 10 }).map((all) => `---\n${all.join("\n")}\n---\n`);

it("[BP3] any document is read into plain data or refused, the same from text and from bytes", () => {
  let accepted = 0;
  fc.assert(
    fc.property(fc.oneof({ arbitrary: damagedText(fc.constantFrom(...DOCUMENTS)), weight: 3 }, { arbitrary: lines, weight: 2 }), (text) => {
      const document = read(() => parseDocument(text));
      checkPrototype();
      if (document === undefined) return;
      accepted++;
      expect(Object.getPrototypeOf(document.meta) === Object.prototype && !Object.hasOwn(document.meta, "__proto__")).toBe(true);
      expect(text.endsWith(document.body)).toBe(true);
      if (text.isWellFormed() && !text.startsWith("\uFEFF")) expect(parseDocument(Buffer.from(text))).toStrictEqual(document);
      const again = read(() => serializeDocument(document.meta, document.body));
      if (again !== undefined) expect(parseDocument(again)).toStrictEqual(document);
    }),
    cases(),
  );
  expect(accepted).toBeGreaterThan(0);
});

it("[BP2][BP3] any bytes are a brief or a response with well-formed fields, or refused in words", () => {
  fc.assert(
    fc.property(damagedBytes(fc.constantFrom(...DOCUMENTS.slice(0, 3))), (bytes) => {
      const brief = read(() => Brief.parse(bytes));
      const response = read(() => BriefResponse.parse(bytes));
      for (const id of [brief?.id, brief?.parentId, response?.id]) if (id != null) expect(id).toMatch(/^[A-Za-z0-9][\w.:-]{0,127}$/);
      if (brief !== undefined) expect(Brief.parse(brief.content)).toStrictEqual(brief);
      if (response !== undefined) expect(["success", "failure", "partial", "rejected"]).toContain(response.status);
    }),
    cases(4), // two readers per case
  );
});

const SCALARS = ["---", "yes", "null", "~", "1e3", "0x1f", "2026-02-06", "__proto__", "<<", "...", "=", ".inf", "1_000", "012", "12:30:45"];
const text = fc.oneof(
  fc.string({ unit: "binary", maxLength: 30 }),
  fc.string({ unit: fc.constantFrom(..."-`\n\r: #'\"|>&*![{\ta\uFEFF\u2028"), maxLength: 12 }),
  fc.constantFrom(...SCALARS),
);
const { value } = fc.letrec((tie) => ({
  value: fc.oneof(
    { depthSize: "small", maxDepth: 4 },
    text,
    fc.integer(),
    fc.double(),
    fc.boolean(),
    fc.constant(null),
    tie("list"),
    tie("map"),
  ),
  list: fc.array(tie("value"), { maxLength: 3 }),
  map: fc.dictionary(text, tie("value"), { maxKeys: 3, noNullPrototype: true }),
}));

it("[BP3] parse(serialise(x)) = x, or a clear error", () => {
  const meta = fc.dictionary(text, value, { minKeys: 1, maxKeys: 5, noNullPrototype: true });
  let [written, tried] = [0, 0];
  fc.assert(
    fc.property(meta, text, (randomMeta, body) => {
      tried++;
      const document = read(() => serializeDocument(randomMeta, body));
      if (document === undefined) return;
      written++;
      expect(parseDocument(document)).toStrictEqual({ meta: randomMeta, body });
      expect(parseDocument(Buffer.from(document))).toStrictEqual({ meta: randomMeta, body });
    }),
    cases(5), // each is written once and read three times
  );
  expect(written / tried).toBeGreaterThan(0.8);
});

it("[BP3] a header of short plain lines, which is not read back when it is written, reads back all the same", () => {
  const sign = fc.constantFrom(..."- :#'\"|>&*![{\\,?%@`~ab1=<");
  const plain = fc.oneof(fc.string({ unit: sign, maxLength: 12 }), fc.constantFrom(...SCALARS), fc.integer());
  const name = fc.oneof(fc.constantFrom("y", "yes", "null", "true", "NaN", "id", "e1"), fc.stringMatching(/^[A-Za-z]\w{0,8}$/));
  fc.assert(
    fc.property(fc.dictionary(name, plain, { minKeys: 1, maxKeys: 5, noNullPrototype: true }), text, (meta, body) => {
      const document = read(() => serializeDocument(meta, body));
      if (document !== undefined) expect(parseDocument(document)).toStrictEqual({ meta, body });
      if (body.isWellFormed()) expect(document).toBeDefined();
    }),
    cases(5),
  );
});

it("[BP3] any names and body of a brief survive, or are refused in words; half a surrogate pair costs no document", () => {
  fc.assert(
    fc.property(hostileText, hostileText, hostileText, (delegator, delegatee, body) => {
      const brief = read(() => Brief.create({ delegator, delegatee, body }));
      if (brief !== undefined) expect(Brief.parse(brief.content)).toStrictEqual(brief);
      expect(Brief.create({ delegator: "a", delegatee: "b", body }).body).toBe(body.toWellFormed());
    }),
    cases(20), // each is written and read three times
  );
});
