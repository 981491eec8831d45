// Code in colour and formulas: what becomes one, and that nothing of it runs, links or styles anything.
import fc from "fast-check";
import { afterAll, describe, expect, it } from "vitest";
import { renderMarkdown } from "../../../src/web/markdown.ts";
import { createRenderer } from "../../../src/web/rendering.ts";
import { renderRich } from "../../../src/web/rich-text.ts";
import { cpuTime } from "../../support/cpu-time.ts";

const renderer = createRenderer();
afterAll(() => renderer.stop());

describe("code", () => {
  it("[WB3] is coloured by classes alone, its text unchanged", async () => {
    const html = await renderer.render("```js\nconst a = '<b>' && \"c\"; // &amp;\n```");
    expect(html).toContain('<span class="hljs-keyword">const</span>');
    expect(html).toContain("&lt;b&gt;");
    expect(html).not.toMatch(/ style=|<b>/);
    const text = html
      .replace(/<[^>]*>/g, "")
      .replace(/&#x27;/g, "'")
      .replace(/&quot;/g, '"')
      .replace(/&lt;/g, "<")
      .replace(/&gt;/g, ">");
    expect(text.replace(/&amp;/g, "&").trimEnd()).toBe("const a = '<b>' && \"c\"; // &amp;");
  });

  it("[WB3] PAGE-008 of a language nobody knows, or that is none, stays plain text", async () => {
    for (const language of ['"><img', "x<script>", "klingon", "__proto__", "constructor"]) {
      const html = await renderer.render(`\`\`\`${language}\nlet a;\n\`\`\``);
      expect(html).toBe(renderMarkdown(`\`\`\`${language}\nlet a;\n\`\`\``));
      expect(html).not.toMatch(/<img|<script|<span/);
    }
  });

  it("[WB3] differences are left to the page, which colours them line by line", async () => {
    expect(await renderer.render("```diff\n-a\n+b\n```")).toBe(renderMarkdown("```diff\n-a\n+b\n```"));
  });
});

describe("tables", () => {
  it("[WB3] keep what their columns are aligned by, without a style", async () => {
    const html = await renderer.render("| a | b | c |\n|:--|:-:|--:|\n| 1 | 2 | 3 |");
    for (const align of ["left", "center", "right"]) expect(html).toMatch(new RegExp(`<td align="${align}">\\d</td>`));
    expect(html).not.toContain("style");
  });
});

describe("formulas", () => {
  it.each(["$x$", "so $a_1 = 2$.", "($\\frac{1}{2}$)", "$$\nx^2\n$$", "a $$x$$ b", "| a |\n|-|\n| $x$ |"])(
    "[WB3] %j is one",
    async (text) => {
      expect(await renderRich(text)).toContain("<math ");
    },
  );

  it.each([
    "$5 and $10",
    "It costs $5.",
    "US$5 or CA$6",
    "$HOME/bin:$PATH",
    "$5-$10",
    "$ x $",
    "a$b$c",
    "`$x$`",
    "\\$x$",
    "$a\nb$",
    "```sh\necho $A $B$\n```",
    "[$x](https://a.example/$y)",
  ])("[WB3] %j stays text", async (text) => {
    const html = await renderRich(text);
    expect(html).not.toContain("<math ");
    expect(html.replace(/<[^>]*>/g, "")).toContain("$");
  });

  it("[WB3] PAGE-008 can't link, load, style or script anything; one that is none is shown as it was written", async () => {
    const asked = ["\\href{javascript:alert(1)}{x}", "\\url{https://a.example}", "\\includegraphics{https://a.example/x.png}"];
    asked.push("\\htmlStyle{color:red}{x}", "\\htmlData{a=b}{x}", "\\htmlId{a}{x}", "\\fbox{x}", "\\pmb{x}", "\\boxed{a}", "\\nope{");
    for (const formula of asked) {
      const html = await renderer.render(`see $${formula}$ here`);
      expect(html, formula).not.toMatch(/<(?:a|img|script|svg|iframe)\b| style=| on\w+=| id=| data-|href=|src=/);
      expect(html, formula).toContain("see ");
    }
    expect(await renderer.render("$\\nope{$")).toContain("\\nope{");
  });

  it("[WB3] the costly ones end: expansion, size, depth, many of them", async () => {
    const bomb = "$$\n\\def\\a{\\b\\b\\b\\b\\b\\b\\b\\b\\b\\b}\\def\\b{\\c\\c\\c\\c\\c\\c\\c\\c\\c\\c}\\def\\c{x}\\a\\a\\a\\a\n$$";
    expect((await renderRich(bomb)).length).toBeLessThan(20_000);
    expect(await renderRich("$$\n\\rule{9999em}{9999em}\n$$")).not.toContain('9999em"');
    const worked = cpuTime();
    for (const text of [
      `$$\n${"{".repeat(11_000)}${"}".repeat(11_000)}\n$$`,
      "$a ".repeat(7_900),
      "$a$ ".repeat(5_900),
      `$$${"a".repeat(23_000)}`,
    ])
      expect((await renderer.render(text)).length).toBeLessThan(500_000);
    expect(worked()).toBeLessThan(8_000);
  });

  it("[SC4] PAGE-008 whatever the text, only known tags come out, and no handler, style or script address", async () => {
    const parts = [
      "$",
      "$$",
      "```js\n",
      "```",
      "\\href{javascript:x}{y}",
      "\\text{<img src=x onerror=1>}",
      '"',
      "<b>",
      "\n",
      "\\color{red}",
      "{",
      "}",
    ];
    const piece = fc.oneof(fc.constantFrom(...parts), fc.string());
    await fc.assert(
      fc.asyncProperty(fc.array(piece, { maxLength: 20 }), async (pieces) => {
        const html = await renderRich(pieces.join(""));
        for (const [tag] of html.matchAll(/<[^>]*>/g)) {
          expect(tag).toMatch(
            /^<\/?(?:p|a|em|strong|del|code|pre|ul|ol|li|h[1-6]|blockquote|hr|br|table|thead|tbody|tr|th|td|input|span|div|math|semantics|annotation|m[a-z]+)\b/,
          );
          expect(tag.replace(/"[^"]*"/g, '""')).not.toMatch(/\son\w+=|\sstyle=|<[^>]*</i);
          expect(tag).not.toMatch(/href="\s*(?:javascript|data|vbscript):/i);
        }
      }),
      { numRuns: 200 },
    );
  });
});
