// Text for Matrix: formatting as HTML that always nests, parts within the size of an event, choices with their numbers.
import { describe, expect, it } from "vitest";
import { giveNumbers, numberOf, signOf } from "../../../src/channels/matrix/buttons.ts";
import { toHtml } from "../../../src/channels/matrix/html.ts";
import { joinParts } from "../../../src/channels/matrix/join.ts";
import { contentOf, editOf, type MatrixPart, renderMessage } from "../../../src/channels/matrix/render.ts";
import type { Address } from "../../../src/core/address.ts";

const address: Address = { channel: "matrix", account: "@herald:home.test", chat: "!a:home.test", kind: "dm" };
const render = (markdown: string, more = {}): MatrixPart[] => renderMessage({ markdown, ...more }, address) as MatrixPart[];
const shown = { choices: giveNumbers([]), own: {}, isMoved: false };

describe("formatting", () => {
  it("[MX1] Markdown comes as HTML and, for whoever shows none, as plain words", () => {
    const [part] = render("**Bold** and *it*, `a<b`, [link](https://x.test/?a=1&b=2)\n\n> quoted\n\n```js\nlet a = 1;\nb\n```");
    expect(part).toEqual({
      body: "Bold and it, a<b, link\n\nquoted\n\nlet a = 1;\nb",
      html: '<strong>Bold</strong> and <em>it</em>, <code>a&lt;b</code>, <a href="https://x.test/?a=1&amp;b=2">link</a><br/><br/><blockquote>quoted</blockquote><br/><br/><pre><code class="language-js">let a = 1;\nb</code></pre>',
    });
    expect(render("plain words")).toEqual([{ body: "plain words" }]);
  });

  it("[MX1] tags nest, however ranges overlap; nobody's words become markup", () => {
    const ranges = [
      { type: "bold", offset: 0, length: 4 },
      { type: "italic", offset: 2, length: 4 },
      { type: "unknown", offset: 0, length: 6 },
    ];
    expect(toHtml('ab"<ef', ranges)).toBe("<strong>ab<em>&quot;&lt;</em></strong><em>ef</em>");
    expect(toHtml("", ranges)).not.toContain("undefined");
    const [part] = render("**x** <script>alert(1)</script> [y](javascript:alert(1))");
    expect(part?.html).not.toMatch(/<script|href="javascript/);
  });

  it("[MX1] nobody is called by what stands in a message, and it carries the row it is", () => {
    const content = contentOf(render("@room hello **@ann:home.test**")[0] as MatrixPart, { ...shown, own: { key: "k" } });
    expect(content).toMatchObject({ msgtype: "m.text", "m.mentions": {}, "io.herald": { key: "k" }, format: "org.matrix.custom.html" });
    expect(contentOf({ body: "x", quiet: true }, shown)).toMatchObject({ msgtype: "m.notice" });
  });
});

describe("size", () => {
  it("[DL2][MX1] whatever it is made of, an event and its edit stay below 65,536 bytes", () => {
    for (const sign of ["x", "&", "**é** ", "`<` ", "🦊", '"', "> a\n\n"]) {
      const parts = render(sign.repeat(30_000 / sign.length));
      expect(parts.length).toBeGreaterThan(1);
      for (const part of parts) {
        const content = contentOf(part, { ...shown, choices: giveNumbers(many(30)) });
        expect(Buffer.byteLength(JSON.stringify(editOf(content, "$x")))).toBeLessThan(60_000);
      }
    }
  });

  it("[AN10] what takes more than four messages is its beginning and a file; stats stand once, folded", () => {
    const stats = { figures: ["runtime 1s", "tokens n/a"], names: ["sessionKey agent:main:x", "sessionId <1>"] };
    const parts = render("word ".repeat(20_000), { fileName: "r.md", stats });
    expect(parts).toHaveLength(2);
    expect(parts[0]?.body).toMatch(/the whole text is in the file below\)\n\nStats: runtime 1s • tokens n\/a • sessionKey/);
    expect(parts[0]?.html).toContain(
      "<details><summary>Stats: runtime 1s • tokens n/a</summary>sessionKey agent:main:x<br/>sessionId &lt;1&gt;</details>",
    );
    expect(parts[1]?.file?.name).toBe("r.md");
  });

  it("[DL7] announcements go out together where they fit, each whole", () => {
    const parts = ["**one**", "two <2>"].flatMap((markdown) => renderMessage({ markdown }, address));
    expect(joinParts(parts)).toEqual({ body: "one\n\n――――――――――\n\ntwo <2>", html: "<strong>one</strong><hr/>two &lt;2&gt;" });
    expect(joinParts([...parts, { body: "x", buttons: many(1) }])).toBeNull();
    expect(joinParts([{ body: "x".repeat(5_000) }, { body: "y".repeat(5_000) }])).toBeNull();
  });
});

const many = (count: number) => Array.from({ length: count }, (_, n) => ({ label: `Choice ${n}`, command: `/subagents stop ${n}@1` }));

describe("choices", () => {
  it("[LV4][MX1] a number keeps its command for as long as the message stands; new ones get new numbers", () => {
    const [a, b, c] = many(3) as [
      { label: string; command: string },
      { label: string; command: string },
      { label: string; command: string },
    ];
    const first = giveNumbers([a, b]);
    expect(first.shown).toEqual([
      { n: 1, label: "Choice 0" },
      { n: 2, label: "Choice 1" },
    ]);
    const second = giveNumbers([b, c], first.numbered);
    expect(second.shown.map(({ n }) => n)).toEqual([2, 3]);
    expect(second.numbered.map(({ n, isOver }) => [n, isOver])).toEqual([
      [1, true],
      [2, false],
      [3, false],
    ]);
    expect(giveNumbers([a], second.numbered).shown).toEqual([{ n: 1, label: "Choice 0" }]);
    expect(giveNumbers(many(150)).shown).toHaveLength(99);
  });

  it("[MX1] they are listed below the words, with a hint, and not in a message without any", () => {
    const content = contentOf({ body: "Which?", html: "<strong>Which?</strong>" }, { ...shown, choices: giveNumbers(many(2)) });
    expect(content.body).toBe("Which?\n\n1\ufe0f\u20e3 Choice 0\n2\ufe0f\u20e3 Choice 1\nReact with a number, or reply with it.");
    expect(content.formatted_body).toContain("1\ufe0f\u20e3 Choice 0<br/>2\ufe0f\u20e3 Choice 1<br/><em>");
    expect(contentOf({ body: "x" }, shown)).not.toHaveProperty("formatted_body");
  });

  it("[MX1] MTX-005 signs: variants of one are the same, everything else is none", () => {
    for (const n of [1, 2, 9, 10, 11]) expect(numberOf(signOf(n))).toBe(n);
    expect(["1\u20e3", "1\ufe0e\u20e3", " 1 ", "1.", "1)"].map(numberOf)).toEqual([1, 1, 1, 1, 1]);
    for (const sign of ["", "0", "0\u20e3", "👍", "①", "1\u20e3🏽", "1\u20e32\u20e3", "-1", "1.5", "100", "one", "١"])
      expect(numberOf(sign)).toBeNull();
  });
});
