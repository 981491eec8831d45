import { describe, expect, it } from "vitest";
import {
  DocumentError,
  decodeDocument,
  MAX_DOCUMENT_BYTES,
  MAX_HEADER_BYTES,
  parseDocument,
  serializeDocument,
} from "../../../src/brief/document.ts";

const withHeader = (header: string, body = "Body.") => `---\n${header}\n---\n\n${body}`;

function refusal(content: string | Uint8Array): string {
  const startedAt = performance.now();
  try {
    parseDocument(content);
  } catch (error) {
    expect(error).toBeInstanceOf(DocumentError);
    expect(performance.now() - startedAt).toBeLessThan(1000);
    return (error as Error).message;
  }
  throw new Error("the document was accepted");
}

describe("parseDocument", () => {
  it("[BP2] reads front matter of several types and the body", () => {
    const { meta, body } = parseDocument<{ name: string; count: number; on: boolean }>(
      withHeader('name: "test"\ncount: 42\non: true\nat: 2026-02-06T10:00:00Z', "# Hello\n\nText.\n"),
    );
    expect(meta).toEqual({ name: "test", count: 42, on: true, at: "2026-02-06T10:00:00Z" });
    expect(body).toBe("# Hello\n\nText.\n");
    expect(parseDocument('---\nid: "test"\n---\n').body).toBe("");
    expect(parseDocument('---\nid: "test"\n---').body).toBe("");
  });

  it("[BP2] names what is wrong with the header", () => {
    expect(refusal("No front matter here")).toContain("missing YAML frontmatter delimiters");
    expect(refusal("")).toContain("missing YAML frontmatter delimiters");
    expect(refusal(withHeader(": invalid: yaml: ["))).toContain("Invalid YAML frontmatter");
    expect(refusal(withHeader("just a string"))).toContain("must be a mapping");
    expect(refusal(withHeader("- a\n- b"))).toContain("must be a mapping");
    expect(refusal("---\n---\nBody")).toContain("must be a mapping");
    expect(refusal(withHeader("a: 1\n...\nb: 2"))).toContain("must be a mapping");
  });

  it("[BP3] FM-013 accepts CRLF, a byte order mark and trailing blanks, and finds the body exactly", () => {
    expect(parseDocument("\uFEFF---\r\nid: x\r\nb: y\r\n---  \r\n\r\nBody\r\nmore")).toEqual({
      meta: { id: "x", b: "y" },
      body: "Body\r\nmore",
    });
    expect(parseDocument(Buffer.from("\uFEFF---\nid: ü\n---\nBödy")).body).toBe("Bödy");
  });

  it("[BP2] passes over blank lines before the front matter, and nothing else", () => {
    expect(parseDocument("\n \t\r\n\n---\nid: x\n---\n\nBody")).toEqual({ meta: { id: "x" }, body: "Body" });
    expect(parseDocument("\uFEFF\n---\nid: x\n---\n").meta).toEqual({ id: "x" });
    for (const text of ["\n #\n---\nid: x\n---\n", " ---\nid: x\n---\n", "\n\uFEFF---\nid: x\n---\n"])
      expect(refusal(text)).toContain("missing YAML frontmatter delimiters");
    for (const blank of ["\n", " ", " \n", "\r\n"])
      expect(refusal(blank.repeat(1_000_000))).toContain("missing YAML frontmatter delimiters");
  });

  it("[BP3] takes only whole lines --- as delimiters", () => {
    expect(parseDocument(withHeader("a: |\n  ---\n  x\nb: y --- z", "---\nforged: true\n---\n")).meta).toEqual({
      a: "---\nx\n",
      b: "y --- z",
    });
    expect(refusal("----\na: 1\n---\n")).toContain("missing YAML frontmatter delimiters");
    expect(refusal("---js\nprocess.exit(1)\n---\n")).toContain("missing YAML frontmatter delimiters");
  });

  it("[BP3] FM-002 stops after 64 KB when the front matter isn't closed, also in 100 MB", () => {
    const bytes = Buffer.alloc(100 * 1024 * 1024, "a: b\n");
    bytes.write("---\n");
    const memory = (): number => process.memoryUsage().heapUsed + process.memoryUsage().arrayBuffers;
    const before = memory();
    expect(refusal(bytes)).toContain("front matter not closed");
    expect(memory() - before).toBeLessThan(20 * 1024 * 1024);
    expect(refusal(`---\n${"a: b\n".repeat(1_000_000)}`)).toContain("front matter not closed");
    expect(refusal(`---\na: b${" ".repeat(MAX_HEADER_BYTES + 100)}\n---\n`)).toContain("front matter not closed");
  });

  it("[BP3] holds the size limits at their edges", () => {
    // The line break before the closing --- counts.
    const header = (length: number) => withHeader(`a: ${"x".repeat(length - 4)}`);
    expect(parseDocument(header(MAX_HEADER_BYTES)).body).toBe("Body.");
    expect(refusal(header(MAX_HEADER_BYTES + 1))).toContain("64 KB");
    // 40 000 characters, but 80 000 bytes.
    expect(refusal(withHeader(`a: ${"é".repeat(40_000)}`))).toContain("larger than 64 KB");
    expect(refusal(withHeader("a: 1", "x".repeat(MAX_DOCUMENT_BYTES)))).toContain("larger than 16 MB");
    expect(refusal(Buffer.from(withHeader("a: 1", "x".repeat(MAX_DOCUMENT_BYTES))))).toContain("larger than 16 MB");
    const keys = (count: number) => Array.from({ length: count }, (_, n) => `k${n}: ${n}`).join("\n");
    expect(Object.keys(parseDocument(withHeader(keys(100))).meta)).toHaveLength(100);
    expect(refusal(withHeader(keys(101)))).toContain("more than 100 keys");
    expect(refusal(withHeader(keys(5000)))).toContain("more than 100 keys");
    expect(parseDocument(withHeader("a: {b: {c: {d: {e: 1}}}}")).meta).toEqual({ a: { b: { c: { d: { e: 1 } } } } });
    expect(refusal(withHeader("a: {b: {c: {d: {e: {f: 1}}}}}"))).toContain("nesting");
  });

  it("[BP3] FM-004 FM-006 FM-007 FM-009 FM-010 refuses everything that isn't plain data", () => {
    const laughs = ["a0: &a0 [x, x]", ...Array.from({ length: 10 }, (_, n) => `a${n + 1}: &a${n + 1} [${`*a${n},`.repeat(9)}]`)].join("\n");
    expect(refusal(withHeader(laughs))).toContain("anchors and aliases are not allowed");
    expect(refusal(withHeader(`a: ${"[".repeat(2000)}${"]".repeat(2000)}`))).toContain("nesting");
    expect(refusal(withHeader(`a: ${"[".repeat(30_000)}`))).toContain("nesting");
    expect(refusal(withHeader(`a: ${"{b: ".repeat(10_000)}`))).toContain("nesting");
    expect(refusal(withHeader(`${"- ".repeat(10_000)}a`))).toContain("nesting");
    expect(refusal(withHeader("status: done\nstatus: failed"))).toContain('duplicate key "status"');
    expect(refusal(withHeader('1: a\n"1": b'))).toContain('duplicate key "1"');
    for (const tag of [
      "!!js/function 'function(){}'",
      "!!python/object:os.system x",
      "!!binary aGk=",
      "!custom x",
      "!!str 1",
      "!!set {a}",
      "! x",
    ]) {
      expect(refusal(withHeader(`a: ${tag}`)), tag).toContain("Invalid YAML frontmatter");
    }
    expect(refusal(withHeader("base: &base {a: 1}\n<<: *base"))).toContain("not allowed");
    expect(refusal(withHeader("<<: {a: 1}"))).toContain("merge keys are not allowed");
    expect(refusal(withHeader("? [a, b]\n: 1"))).toContain("keys must be text");
    expect(refusal("---\n%TAG ! tag:x,2000:\n--- \na: 1\n---\n")).toContain("Invalid YAML frontmatter");
  });

  it("[BP3] changes no prototype", () => {
    for (const key of ["__proto__: {polluted: 1}", '"__proto__": {polluted: 1}', "a: {__proto__: {polluted: 1}}", '"\\u005f_proto__": 1']) {
      expect(refusal(withHeader(key))).toContain("__proto__ is not allowed");
    }
    const { meta } = parseDocument(withHeader("constructor: {prototype: {polluted: 1}}\ntoString: x"));
    expect(Object.getPrototypeOf(meta)).toBe(Object.prototype);
    expect(({} as Record<string, unknown>).polluted).toBeUndefined();
  });

  it("[BP3] FM-014 refuses bytes that aren't UTF-8 and names the offset", () => {
    const document = (...bytes: number[]) => Buffer.concat([Buffer.from("---\nid: \uFFFDé\n---\n"), Buffer.from(bytes), Buffer.from("x")]);
    const offset = document().length - 1;
    for (const bytes of [
      [0xff, 0xfe],
      [0xc0, 0xaf],
      [0xed, 0xa0, 0x80],
      [0xef, 0xbf],
      [0xf4, 0x90, 0x80, 0x80],
    ]) {
      expect(refusal(document(...bytes)), bytes.join()).toContain(`not UTF-8: invalid byte at offset ${offset}`);
    }
    expect(refusal(Buffer.from(withHeader("id: x"), "utf16le"))).toContain("missing YAML frontmatter delimiters");
    expect(refusal(Buffer.concat([Buffer.from([0xff, 0xfe]), Buffer.from(withHeader("id: x"), "utf16le")]))).toContain(
      "not UTF-8: invalid byte at offset 0",
    );
    expect(decodeDocument(Buffer.from("\uFEFFok \uFFFD"))).toBe("ok \uFFFD");
  });
});

describe("serializeDocument", () => {
  it("[BP2] writes plain front matter that other readers understand", () => {
    const text = serializeDocument(
      { id: "brief-001", status: "success", at: "2026-02-06T10:00:00Z", none: undefined, yes: "yes", n: "1" },
      "# Hello",
    );
    expect(text).toBe(`---\nid: brief-001\nstatus: success\nat: '2026-02-06T10:00:00Z'\n'yes': 'yes'\n'n': '1'\n---\n\n# Hello`);
  });

  it("[BP3] lets no value or body forge front matter", () => {
    const meta = { id: "x\n---\nadmin: true", "k\n---\nadmin": "a`b\r\n---\r\n", list: ["---", "\u2028---\u0085---\u0000"] };
    const body = "\n\r\n---\nadmin: true\n---\n";
    expect(parseDocument(serializeDocument(meta, body))).toEqual({ meta, body });
  });

  it("[BP3] refuses what could not be read back", () => {
    const cyclic: Record<string, unknown> = {};
    cyclic.self = cyclic;
    const bad: unknown[] = [
      new Date(0),
      () => 1,
      Symbol("x"),
      10n,
      [undefined],
      new Map(),
      new Set([1]),
      { a: undefined },
      cyclic,
      "\n".repeat(70_000),
    ];
    bad.push(Buffer.from("x"), { a: { b: { c: { d: { e: 1 } } } } });
    for (const value of bad) expect(() => serializeDocument({ value }, ""), String(value)).toThrow(DocumentError);
    expect(() => serializeDocument(JSON.parse('{"__proto__": 1}'), "")).toThrow(DocumentError);
    expect(() => serializeDocument({ a: 1 }, "\ud800")).toThrow("body is not well-formed");
  });
});
