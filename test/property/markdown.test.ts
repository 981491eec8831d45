// Markdown that no person writes: whatever pieces it repeats, no renderer holds the gateway for long, and none loses words.
import fc from "fast-check";
import { expect, it } from "vitest";
import { toSlackMarkdown, toTelegram } from "../../src/channels/markdown.ts";
import { splitEntities, splitMarkdown } from "../../src/channels/split.ts";
import { createMarkdownBudget, isCostly } from "../../src/core/markdown-cost.ts";
import { parseAnnounceReply } from "../../src/subagents/announce.ts";
import { closed } from "../../src/subagents/markdown-blocks.ts";
import { quotable } from "../../src/subagents/quoting.ts";
import { recordSections } from "../../src/subagents/sections.ts";
import { renderMarkdown } from "../../src/web/markdown.ts";
import { cases } from "./cases.ts";

const PIECES = [
  ...[
    "- ",
    "+ ",
    "* ",
    "1. ",
    "1) ",
    ">",
    "> ",
    "#",
    "# ",
    "=\n",
    "---\n",
    "-\n",
    ">\n",
    "- a\n",
    "[ ] ",
    "    ",
    "\t",
    "  ",
    "\n",
    "\n\n",
  ],
  ...[
    "*",
    "**",
    "_",
    "~",
    "~~",
    "`",
    "```\n",
    "~~~\n",
    "[",
    "]",
    "![",
    "](",
    "[a](",
    "[a]: b\n",
    "[a][",
    "[^a]",
    "[^a]: ",
    "(",
    ")",
    "<",
    ">",
  ],
  ...[
    "<a ",
    "<!--",
    "<?",
    "</",
    "<b>\n",
    "<![CDATA[",
    "<http:",
    "<a@",
    "&",
    "&#",
    "&amp;",
    "&a;",
    "\\",
    "\\\n",
    "  \n",
    "www.",
    "www.a_",
    "http://a",
  ],
  ...["a@b.", "@", "://", "|", "|a", "a|b\n-|-\n", "|-", '"', "'", "a", "a ", "1", ".", ":", "é", "😀", "status: ", "Result:\n"],
];

const piece = fc.constantFrom(...PIECES);
const unit = fc.array(piece, { minLength: 1, maxLength: 4 }).map((parts) => parts.join(""));
const fill = (text: string, length: number): string => text.repeat(Math.ceil(length / text.length)).slice(0, length);
/** Whole messages: the longest the page renders, and the longest a chat does, in several pieces. */
const length = fc.constantFrom(12_000, 24_000, 48_000);
const opener = fc.constantFrom("[", "![", "*", "`", "<", "(");
const words = fc
  .array(fc.constantFrom("a ", "- ", "1, ", "a", "-", " ", "h", "a@", "\n"), { minLength: 1, maxLength: 3 })
  .map((parts) => parts.join(""));
const text = fc.oneof(
  fc.tuple(unit, length).map(([part, max]) => fill(part, max)),
  // What one sign at the start leaves open, for all that follows.
  { arbitrary: fc.tuple(opener, words).map(([head, part]) => head + fill(part, 23_990)), weight: 3 },
  fc.tuple(unit, fc.nat(80), piece, length).map(([part, times, end, max]) => fill(part.repeat(times + 1) + end, max)),
  fc
    .tuple(unit, fc.nat(100), length)
    .map(([part, step, max]) => fill(Array.from({ length: 40 }, (_, n) => `${" ".repeat((n * step) % 97)}${part}\n`).join(""), max)),
  fc.tuple(unit, unit, length).map(([one, other, max]) => fill(one, max / 2) + fill(other, max / 2)),
);

const RENDERERS: Readonly<Record<string, (markdown: string) => unknown>> = {
  Telegram(markdown) {
    const { text: shown, entities } = toTelegram(markdown);
    return splitEntities(shown, entities, 4_000);
  },
  Slack: (markdown) => splitMarkdown(toSlackMarkdown(markdown), { maxLength: 10_000, maxBlocks: 40 }),
  page: renderMarkdown,
  announcement: (markdown) => [closed(quotable(markdown)), parseAnnounceReply(markdown), recordSections(markdown)],
};

/** Of this thread's own work: other tests run beside it. */
function cpuMs(work: () => unknown): number {
  const before = process.threadCpuUsage();
  work();
  const { user, system } = process.threadCpuUsage(before);
  return (user + system) / 1000;
}

// Ten times what it takes on a quiet machine, whose cores may be halves of one; the parser alone took up to a minute for some of these.
const DEADLINE_MS = 2_000;

it("[DL2][WB1] messages of any repeated pieces hold nothing up", () => {
  fc.assert(
    fc.property(text, (markdown) => {
      for (const [name, render] of Object.entries(RENDERERS)) {
        const ms = cpuMs(() => render(markdown));
        if (ms > DEADLINE_MS) throw new Error(`${name} took ${Math.round(ms)} ms for ${JSON.stringify(markdown.slice(0, 100))}`);
      }
    }),
    cases(200),
  );
}, 240_000);

it.each([
  ...["- ", "> ", ">", "1. - ", "[^a]: ", "*a ", "*_", "_*a ", "**a", "~a~", "[", "]", "![", "[](", "&amp;]", "<", "<<?", "<a@]x "],
  ...["www.a_", "www._", "a@b.", "http://_", "`", "a|b\n-|-\n", "|a", "- >\n", ">\n\n", "a\n=\n", "-\n", "a\\\n", "# a\n", "\t- "],
])("[DL2][WB1] 24 000 characters of %j hold nothing up", (part) => {
  const markdown = part.repeat(24_000 / part.length);
  for (const render of Object.values(RENDERERS)) expect(cpuMs(() => render(markdown))).toBeLessThan(DEADLINE_MS);
});

it.each(["```\nx\n", "x\n", "status:\n", "summary: x\n", "> - "])(
  "[AN10] a result of 900 000 characters of %j holds nothing up",
  (part) => {
    const { announcement, page } = RENDERERS;
    for (const render of [announcement, page, (text: string) => splitMarkdown(text, { maxLength: 12_000 })])
      expect(cpuMs(() => render?.(fill(part, 900_000)))).toBeLessThan(DEADLINE_MS);
  },
);

it.each(["- ", "a b ", "1, ", "word ", "-\n", "1h"])(
  "[DL2][WB1] an open bracket and 24 000 characters of %j behind it are too dear",
  (part) => {
    expect(isCostly(`[${part.repeat(24_000 / part.length)}`)).toBe(true);
    // As many words without it are not.
    expect(isCostly(fill("a b ", 24_000))).toBe(false);
  },
);

it.each(["www.aa@b.c~aa|b\n-|-\n", "\n\nxmpp:"])("[DL2] a message of %j has one allowance, not one for each of its pieces", (part) => {
  const pieces = splitMarkdown(fill(part, 48_000), { maxLength: 8_000 });
  for (const one of pieces) expect(isCostly(one)).toBe(false);
  const budget = createMarkdownBudget(48_000);
  expect(pieces.map((one) => budget.affords(one))).toContain(false);
  // What is not parsed stands there as it was written.
  expect(toTelegram(fill(part, 48_000)).text).toContain(part.trim());
});

it("[DL2][WB1] what people and models write is parsed, however long", () => {
  const paragraph = "Some **bold** words, a [link](https://a.example/x_y), `code_with_marks` and _more_ of it & so on.\n\n";
  const list = Array.from({ length: 150 }, (_, n) => `- item **${n}** with \`code\` and [link](https://a.example/${n})`).join("\n");
  const table = `| a | b | c |\n|---|---|---|\n${"| 1 | *two* | `a_b_c` |\n".repeat(300)}`;
  const code = `\`\`\`c\n${"  *(p++) = a[i] * b_[j] & MASK_OF_IT; /* <why> */\n".repeat(150)}\`\`\`\n`;
  const steps = Array.from({ length: 40 }, (_, n) => `${n}. Do it:\n\n   \`\`\`sh\n   run --this *.ts | that_${n}\n   \`\`\``).join("\n");
  const outline = "- point number one of many\n  - what belongs to it, in some words\n\n".repeat(200);
  for (const normal of [paragraph.repeat(200), list, table, code, steps, outline, [paragraph, list, table, code, steps].join("\n\n")])
    expect(isCostly(normal)).toBe(false);
});

it("[DL2] the same text is always shown the same way", () => {
  fc.assert(
    fc.property(text, (markdown) => {
      const short = markdown.slice(0, 3_000);
      expect(toTelegram(short)).toEqual(toTelegram(short));
      expect(toSlackMarkdown(short)).toBe(toSlackMarkdown(short));
    }),
    cases(1_000),
  );
});
