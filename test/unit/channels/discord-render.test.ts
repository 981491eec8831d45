// Our Markdown as Discord shows it, cut at its limit; stats, buttons, files, several in one.
import { describe, expect, it } from "vitest";
import { joinParts } from "../../../src/channels/discord/join.ts";
import { toDiscord } from "../../../src/channels/discord/markdown.ts";
import { type DiscordPart, MAX_LENGTH, renderMessage } from "../../../src/channels/discord/render.ts";
import type { Address } from "../../../src/core/address.ts";
import type { OutMessage } from "../../../src/core/message.ts";

const ROOM: Address = { channel: "discord", account: "1", chat: "500", kind: "channel" };
const render = (message: OutMessage, address = ROOM): DiscordPart[] => renderMessage(message, address) as DiscordPart[];

describe("Markdown", () => {
  it("[DL2] what Discord knows stays as it is; tables become code, deep headings the deepest it has", () => {
    const same = "# One\n\n**bold** _it_ ~~no~~ `code`\n\n- a\n  - b\n\n> quote\n\n```ts\n<@1> | x\n```";
    expect(toDiscord(same)).toBe(same);
    expect(toDiscord("~~~js\nlet a;\n~~~\n\nthen\n\n    set in")).toBe("```\nlet a;\n```\n\nthen\n\n```\nset in\n```");
    expect(toDiscord("##### Deep **down**")).toBe("### Deep **down**");
    expect(toDiscord("| a | b |\n|---|---|\n| 1 | 2 |")).toBe("```\na | b\n--|--\n1 | 2\n```");
  });

  it("[IN4] a link shows where it leads; what would come alive is written out", () => {
    expect(toDiscord("[your bank](https://evil.example/login)")).toBe("[your bank](<https://evil.example/login>) (evil.example)");
    expect(toDiscord("[bank.example](https://evil.example)")).toBe("[bank.example](<https://evil.example>) (evil.example)");
    expect(toDiscord("[x](javascript:alert(1))")).toBe("x (javascript:alert(1))");
    expect(toDiscord("https://a.example/b and <https://c.example>")).toBe("https://a.example/b and https://c.example");
    expect(toDiscord("![cat](https://a.example/c.png)")).toBe("[🖼 cat](<https://a.example/c.png>) (a.example)");
    expect(toDiscord("<@42> <@&7> <#5> </stop:1> <:e:1> 1 < 2")).toBe("\\<@42> \\<@&7> \\<#5> \\</stop:1> \\<:e:1> 1 < 2");
  });
});

describe("parts", () => {
  it("[AN9] figures stand small below the words, names open at a tap", () => {
    const stats = { figures: ["runtime 5s", "tokens 3"], names: ["sessionKey agent:main:x", "transcript /a_b_c"] };
    const [part] = render({ markdown: "Done.", stats });
    expect(part?.content).toBe("Done.\n\n-# Stats: runtime 5s • tokens 3\n-# ||`sessionKey agent:main:x • transcript /a_b_c`||");
    const parts = render({ markdown: "x".repeat(MAX_LENGTH - 10), stats });
    expect(parts.map(({ content }) => content.length <= MAX_LENGTH)).toEqual([true, true]);
    expect(parts[1]?.content).toMatch(/^-# Stats: /);
  });

  it("[AN10] a long result is its beginning and a file; a short one is whole", () => {
    const markdown = "word ".repeat(4_000);
    const parts = render({ markdown, fileName: "result.md", stats: { figures: ["runtime 1s"], names: ["n"] } });
    expect(parts).toHaveLength(2);
    expect(parts[0]?.content).toContain("the whole text is in the file below");
    expect(parts[0]?.content.length).toBeLessThanOrEqual(MAX_LENGTH);
    expect(parts[1]?.file?.content).toContain(markdown.trimEnd());
    expect(render({ markdown: "word ".repeat(1_000), fileName: "result.md" })).toHaveLength(3);
  });

  it("[LV1] buttons in rows of five, no two alike, none longer than Discord carries; below the last part only", () => {
    const buttons = [
      ...Array.from({ length: 7 }, (_, n) => ({ label: `B${n}`, command: `/subagents stop ${n}`, danger: n === 0 })),
      { label: "again", command: "/subagents stop 1" },
      { label: "long", command: `/x ${"y".repeat(100)}` },
    ];
    const parts = render({ markdown: `${"a ".repeat(1_000)}\n\n${"b ".repeat(200)}`, buttons });
    expect(parts[0]?.components).toBeUndefined();
    const rows = parts.at(-1)?.components ?? [];
    expect(rows.map(({ components }) => components.length)).toEqual([5, 2]);
    expect(rows[0]?.components[0]).toMatchObject({ style: 4, custom_id: "/subagents stop 0" });
  });

  it("[DL7] announcements go together while they fit; what has buttons or a file goes alone", () => {
    const part = (content: string, more = {}): DiscordPart => ({ content, thread: "7", ...more });
    expect(joinParts([part("one"), part("two")])).toEqual({ content: "one\n\n――――――――――\n\ntwo", thread: "7" });
    expect(joinParts([part("x".repeat(1_000)), part("y".repeat(1_000))])).toBeNull();
    expect(joinParts([part("one"), part("two", { components: [] })])).toBeNull();
  });

  it("[DL2] never nothing, and a reply only to a message there can be", () => {
    for (const markdown of ["", " \n", "\0"]) expect(render({ markdown })[0]?.content, markdown).toBe("(empty message)");
    expect(render({ markdown: "a", replyTo: "900" })[0]?.message_reference).toEqual({ message_id: "900", fail_if_not_exists: false });
    expect(render({ markdown: "a", replyTo: "x" })[0]?.message_reference).toBeUndefined();
  });
});
