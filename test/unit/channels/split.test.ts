import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { splitEntities, splitMarkdown } from "../../../src/channels/split.ts";

const isFenceLine = (line: string) => /^[ >]*(`{3,}|~{3,})/.test(line);
/** The text without fence lines and white space: what must survive a cut. */
const substance = (text: string) =>
  text
    .split("\n")
    .filter((line) => !isFenceLine(line))
    .join("")
    .replace(/\s+/g, "");
const fenceLines = (text: string) => text.split("\n").filter((line) => isFenceLine(line)).length;
const halfPair = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/;

const piece = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.string({ unit: fc.constantFrom("a", "é", "ß", " ", "🙂", "漢", "👩‍👩‍👧", "א", ".", "<", "&"), maxLength: 120 }),
  },
  fc.constantFrom("\n", "\n\n", "# Head\n", "- item\n", "| a | b |\n|---|---|\n| 1 | 2 |\n", "> quote\n"),
  fc
    .tuple(
      fc.constantFrom("```", "~~~", "````"),
      fc.constantFrom("", "js", "python title"),
      fc.array(fc.constantFrom("x = 1;", "  deep();", ""), { maxLength: 12 }),
    )
    .map(([mark, info, code]) => `\n${mark}${info}\n${code.join("\n")}\n${mark}\n`),
);
const markdown = fc.array(piece, { maxLength: 40 }).map((pieces) => pieces.join(""));

describe("splitMarkdown", () => {
  it("[DL2] leaves a text within the limit as it is, and gives no part for blank text", () => {
    expect(splitMarkdown("hello", { maxLength: 100 })).toEqual(["hello"]);
    expect(splitMarkdown(" \n\n ", { maxLength: 100 })).toEqual([]);
    expect(splitMarkdown("", { maxLength: 100 })).toEqual([]);
  });

  it("[DL2] cuts at paragraphs first, then lines, then words", () => {
    expect(splitMarkdown(`${"a".repeat(20)}\n\n${"b".repeat(20)}`, { maxLength: 36 })).toEqual([`${"a".repeat(20)}\n\n`, "b".repeat(20)]);
    expect(splitMarkdown(`${"a".repeat(20)}\n${"b".repeat(20)}`, { maxLength: 36 })).toEqual([`${"a".repeat(20)}\n`, "b".repeat(20)]);
    expect(splitMarkdown(`${"a".repeat(20)} ${"b".repeat(20)}`, { maxLength: 36 })).toEqual([`${"a".repeat(20)} `, "b".repeat(20)]);
  });

  it("[DL2] closes a cut code fence and opens it again with the same info string", () => {
    const code = Array.from({ length: 12 }, (_, n) => `line ${n}`).join("\n");
    const parts = splitMarkdown(`\`\`\`ts title\n${code}\n\`\`\``, { maxLength: 60 });
    expect(parts.length).toBeGreaterThan(1);
    for (const part of parts) {
      expect(part.startsWith("```ts title\n")).toBe(true);
      expect(part.endsWith("\n```")).toBe(true);
      expect(part.length).toBeLessThanOrEqual(60);
    }
    expect(substance(parts.join("\n"))).toBe(code.replaceAll(/\s/g, ""));
  });

  it("[DL2] keeps fences inside quotes and lists in place, and one long code line whole but for its cuts", () => {
    const quoted = splitMarkdown(`> \`\`\`py\n${"> print(1)\n".repeat(10)}> \`\`\`\n\nend`, { maxLength: 64 });
    expect(quoted[1]?.startsWith("> ```py\n> print")).toBe(true);
    expect(quoted[0]?.endsWith("\n> ```")).toBe(true);
    const listed = splitMarkdown(`1. \`\`\`sh\n${"   ls\n".repeat(20)}   \`\`\``, { maxLength: 64 });
    expect(listed[1]?.startsWith("   ```sh\n   ls")).toBe(true);
    const long = splitMarkdown(`\`\`\`\n${"x".repeat(9000)}\n\`\`\``, { maxLength: 4000 });
    expect(long).toHaveLength(3);
    expect(long.every((part) => part.startsWith("```\n") && part.endsWith("\n```"))).toBe(true);
  });

  it("[DL2] never cuts inside a surrogate pair or a grapheme cluster", () => {
    const family = "👩‍👩‍👧";
    const parts = splitMarkdown(family.repeat(40), { maxLength: 50 });
    expect(parts.join("")).toBe(family.repeat(40));
    expect(parts.every((part) => part.length % family.length === 0)).toBe(true);
    expect(splitMarkdown("🙂".repeat(100), { maxLength: 33 }).some((part) => halfPair.test(part))).toBe(false);
  });

  it("[DL2] cuts one endless cluster between code points", () => {
    const chain = "👩\u200d".repeat(500);
    for (const maxLength of [40, 41, 43]) {
      const parts = splitMarkdown(chain, { maxLength });
      expect(parts.join("")).toBe(chain);
      expect(parts.some((part) => halfPair.test(part) || part.length > maxLength)).toBe(false);
    }
    const marks = `🙂${"\ufe0f".repeat(300)}${"🙂".repeat(3)}`;
    expect(splitMarkdown(marks, { maxLength: 64 }).some((part) => halfPair.test(part))).toBe(false);
  });

  it("[DL2] keeps within the number of structural elements", () => {
    const text = Array.from({ length: 100 }, (_, n) => `## Head ${n}\n\ntext ${n}\n`).join("\n");
    const parts = splitMarkdown(text, { maxLength: 10_000, maxBlocks: 40 });
    expect(parts.join("")).toBe(text);
    expect(parts.length).toBe(5);
    for (const part of parts) expect(part.split("\n").filter((line) => line.trim() !== "").length).toBeLessThanOrEqual(40);
  });

  it("[DL2] holds for any text: limits kept, fences paired, nothing lost, nothing blank", () => {
    fc.assert(
      fc.property(
        markdown,
        fc.integer({ min: 48, max: 400 }),
        fc.option(fc.integer({ min: 2, max: 10 }), { nil: undefined }),
        (text, maxLength, maxBlocks) => {
          const parts = splitMarkdown(text, { maxLength, ...(maxBlocks === undefined ? {} : { maxBlocks }) });
          for (const part of parts) {
            expect(part.length).toBeLessThanOrEqual(maxLength);
            expect(part.trim()).not.toBe("");
            expect(fenceLines(part) % 2).toBe(0);
            expect(halfPair.test(part)).toBe(false);
          }
          expect(substance(parts.join("\n"))).toBe(substance(text));
          if (fenceLines(text) === 0 && !/\s{12}/.test(text)) expect(parts.join("").trimEnd()).toBe(text.trimEnd());
        },
      ),
      { numRuns: 500 },
    );
  });

  it("[DL2] survives hostile shapes in linear time: 1 MB without a border, of line breaks, of fences, of one huge info string", () => {
    const shapes = [
      "x".repeat(1e6),
      "\n".repeat(1e6),
      "```\n".repeat(250_000),
      `\`\`\`${"i".repeat(1e6)}`,
      "`".repeat(1e6),
      "> ".repeat(5e5),
      "e\u0301".repeat(5e5),
      "a\n".repeat(5e5),
      `z${"\u0301".repeat(1e6)}`,
    ];
    const startedAt = performance.now();
    for (const shape of shapes) {
      const parts = splitMarkdown(shape, { maxLength: 4000, maxBlocks: 40 });
      expect(parts.every((part) => part.length <= 4000 && part.trim() !== "")).toBe(true);
    }
    // Seconds where quadratic work would take minutes.
    expect(performance.now() - startedAt).toBeLessThan(20_000);
  });
});

describe("splitEntities", () => {
  const range = (type: string, offset: number, length: number) => ({ type, offset, length });

  it("[DL2] clips and moves ranges, so code stays code in every part", () => {
    const text = `intro\n${"code line\n".repeat(30)}outro`;
    const parts = splitEntities(text, [{ ...range("pre", 6, 300), language: "ts" }], 100);
    expect(parts.map((part) => part.text).join("")).toBe(text);
    for (const part of parts) {
      expect(part.text.length).toBeLessThanOrEqual(100);
      for (const entity of part.entities) {
        expect(entity.language).toBe("ts");
        expect(entity.offset + entity.length).toBeLessThanOrEqual(part.text.length);
      }
    }
    expect(parts.flatMap((part) => part.entities).reduce((sum, entity) => sum + entity.length, 0)).toBe(300);
  });

  it("[DL2] cuts before a part would hold more ranges than Telegram formats, with some to spare", () => {
    const text = "b ".repeat(250);
    const parts = splitEntities(
      text,
      Array.from({ length: 250 }, (_, n) => range("bold", n * 2, 1)),
      4096,
    );
    expect(parts.map((part) => part.text).join("")).toBe(text);
    expect(parts.map((part) => part.entities.length)).toEqual([95, 95, 60]);
  });

  it("[DL2] holds for any text and ranges", () => {
    const input = markdown.chain((text) =>
      fc.tuple(
        fc.constant(text),
        fc.array(
          fc
            .tuple(fc.constantFrom("pre", "bold", "text_link"), fc.nat(Math.max(0, text.length - 1)), fc.integer({ min: 1, max: 80 }))
            .map(([type, offset, length]) => range(type, offset, Math.min(length, text.length - offset))),
          { maxLength: 20 },
        ),
      ),
    );
    fc.assert(
      fc.property(input, fc.integer({ min: 40, max: 300 }), ([text, ranges], maxLength) => {
        const parts = splitEntities(
          text,
          ranges.filter((r) => r.length > 0),
          maxLength,
        );
        expect(parts.map((part) => part.text.replace(/\s+/g, "")).join("")).toBe(text.replace(/\s+/g, ""));
        for (const part of parts) {
          expect(part.text.length).toBeLessThanOrEqual(maxLength);
          expect(part.text.trim()).not.toBe("");
          expect(halfPair.test(part.text)).toBe(false);
          for (const e of part.entities) expect(e.offset >= 0 && e.length > 0 && e.offset + e.length <= part.text.length).toBe(true);
        }
      }),
      { numRuns: 500 },
    );
  });
});
