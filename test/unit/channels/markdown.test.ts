import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { escapeSlackText, toSlackMarkdown, toTelegram } from "../../../src/channels/markdown.ts";
import { splitEntities } from "../../../src/channels/split.ts";
import { checkEntities, checkText } from "../../support/fake-telegram-rules.ts";

/** Entities as `type:"covered text"`, easier to read than offsets. */
const marks = (markdown: string) => {
  const { text, entities } = toTelegram(markdown);
  return entities.map((entity) => `${entity.type}:${text.slice(entity.offset, entity.offset + entity.length)}`);
};

describe("toTelegram", () => {
  it("[DL2] turns inline marks into ranges without a trace in the text", () => {
    expect(toTelegram("a **b** _c_ ~~d~~ `e` [f](https://g.example/)").text).toBe("a b c d e f");
    expect(marks("a **b** _c_ ~~d~~ `e` [f](https://g.example/)")).toEqual([
      "bold:b",
      "italic:c",
      "strikethrough:d",
      "code:e",
      "text_link:f",
    ]);
  });

  it("[DL2] pauses other styles around code, which Telegram can't combine", () => {
    expect(marks("**a `b` c**")).toEqual(["bold:a ", "code:b", "bold: c"]);
    expect(marks("[see `x`](https://a.example/)")).toEqual(["text_link:see x"]);
    expect(marks("> **q** `r`\n> > s")).toEqual(["blockquote:q r\ns", "bold:q", "code:r"]);
  });

  it("[DL2] keeps code as code, with its language, and draws tables as code", () => {
    const code = toTelegram("```ts\nconst a = '<b>';\n```");
    expect(code).toEqual({ text: "const a = '<b>';", entities: [{ type: "pre", language: "ts", offset: 0, length: 16 }] });
    expect(toTelegram("| a | long |\n|--:|---|\n| 100 | **x** |").text).toBe("  a | long\n----|-----\n100 | x");
  });

  it("[DL2] draws headings, lists, tasks, rules and images as plain text people can read", () => {
    const { text } = toTelegram("# Title\n\n1. one\n2. two\n   - deep\n\n- [ ] open\n- [x] done\n\n---\n\n![cat](https://a.example/c.png)");
    expect(text).toBe("Title\n\n1. one\n2. two\n   - deep\n\n☐ open\n☑ done\n\n———\n\n🖼 cat");
  });

  it("[DL2] keeps a box that no list item has: behind an empty one", () => {
    expect(toTelegram("-\n[ ] open").text).toBe("- \n[ ] open");
    expect(toTelegram("-\n[X] done\n- [ ] open").text).toBe("- \n[X] done\n☐ open");
  });

  it("[AN2] an announcement keeps its form, line by line", () => {
    const text =
      "Count lines\n\nStatus: success\n\nResult:\nIt has *many* lines.\nAnd more.\n\nNotes:\n- (none)\n\nStats: runtime 5m12s • tokens 11.2k (in 10.7k / out 516) • sessionKey agent:main:subagent:0f • transcript /home/a_b/c_d.jsonl";
    expect(toTelegram(text).text).toBe(text.replaceAll("*", ""));
  });

  it("[DL2] shows HTML and the target of a link that Telegram would not open", () => {
    expect(toTelegram("<b>no</b> & [x](javascript:alert(1)) [y](./file)").text).toBe("<b>no</b> & x (javascript:alert(1)) y (./file)");
    expect(marks("[x](javascript:alert(1)) [y](./file)")).toEqual([]);
  });

  it("[DL2] 30 000 characters of fences, tables, emoji, right-to-left text and HTML pass Telegram's checks with nothing lost", () => {
    const chunk = (n: number) =>
      `## Section ${n}\n\n**bold ${n}** שלום עולם 👩‍👩‍👧 <i>html</i> _*[]()~\`>#+-=|{}.!\n\n\`\`\`js\nconst n${n} = ${"x".repeat(200)};\n\`\`\`\n\n| k | v |\n|---|---|\n| ${n} | 🙂 |\n\n`;
    const markdown = Array.from({ length: 90 }, (_, n) => chunk(n)).join("");
    expect(markdown.length).toBeGreaterThan(30_000);
    const { text, entities } = toTelegram(markdown);
    const parts = splitEntities(text, entities, 4_000);
    for (const part of parts) {
      expect(checkText(part.text)).toBeNull();
      expect(checkEntities(part.text, part.entities)).toBeNull();
    }
    const joined = parts.map((part) => part.text).join("");
    for (let n = 0; n < 90; n++) for (const piece of [`Section ${n}\n`, `bold ${n} `, `const n${n} =`]) expect(joined).toContain(piece);
  });

  it("[DL2] whatever is written, every part passes Telegram's checks", () => {
    const word = fc.constantFrom(
      "a",
      " ",
      "\n",
      "\n\n",
      "*",
      "**",
      "_",
      "`",
      "```",
      "~~",
      "[",
      "](https://a.example/)",
      "> ",
      "- ",
      "1. ",
      "|",
      "|---|\n",
      "# ",
      "🙂",
      "\ud83d",
      "<b>",
      "&amp;",
      "\\",
      "\t",
      "    ",
      "![",
      "[^1]",
    );
    fc.assert(
      fc.property(fc.array(word, { maxLength: 80 }), (words) => {
        const { text, entities } = toTelegram(words.join(""));
        for (const part of splitEntities(text, entities, 60)) {
          expect(checkText(part.text)).toBeNull();
          expect(checkEntities(part.text, part.entities)).toBeNull();
        }
      }),
      { numRuns: 400 },
    );
  });

  it("[DL2] hostile shapes take no more than seconds and come out as text", () => {
    const shapes = [
      "> ".repeat(50_000),
      "[".repeat(50_000),
      "*a ".repeat(30_000),
      "**a".repeat(15_000),
      `|${"a|".repeat(2000)}\n|${"-|".repeat(2000)}\n${"|\n".repeat(2000)}`,
      "x".repeat(1_000_000),
    ];
    const startedAt = performance.now();
    for (const shape of shapes) expect(toTelegram(shape).text.trim()).not.toBe("");
    expect(performance.now() - startedAt).toBeLessThan(25_000);
  });
});

describe("toSlackMarkdown", () => {
  it("[DL2] turns tables into fences, also inside quotes and lists, and leaves the rest", () => {
    expect(toSlackMarkdown("# A\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n**end**")).toBe("# A\n\n```\na | b\n--|--\n1 | 2\n```\n\n**end**");
    expect(toSlackMarkdown("> | a |\n> |---|\n> | 1 |")).toBe("> ```\n> a\n> -\n> 1\n> ```");
    expect(toSlackMarkdown("- x\n\n  | a |\n  |---|\n  | `1` |")).toBe("- x\n\n  ```\n  a\n  -\n  1\n  ```");
  });

  it("[SC4] a text can't call people: mentions are disarmed outside code", () => {
    expect(toSlackMarkdown("hi <!channel> <@U1> a < b `<!here>`\n\n```\n<@U2>\n```")).toBe(
      "hi &lt;!channel> &lt;@U1> a < b `<!here>`\n\n```\n<@U2>\n```",
    );
    expect(escapeSlackText("<!channel> & co")).toBe("&lt;!channel&gt; &amp; co");
  });
});
