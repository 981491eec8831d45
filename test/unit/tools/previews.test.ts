// What a person is shown before a tool does something: all of it, and nothing that can't be seen (QA4).
import { existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { codeBlock } from "../../../src/core/code-block.ts";
import { createSecrets } from "../../../src/core/secrets.ts";
import type { Preview, Tool, ToolContext } from "../../../src/core/tool.ts";
import { createExecTool } from "../../../src/tools/exec.ts";
import { createFileTools } from "../../../src/tools/files.ts";
import { callTool, toolContext } from "../../support/tool-context.ts";

let workspace: string;
beforeEach(() => {
  workspace = mkdtempSync(join(tmpdir(), "herald-preview-"));
});
afterEach(() => rmSync(workspace, { recursive: true, force: true }));

const secrets = createSecrets();
secrets.add("API_KEY", "sk-0123456789abcdef");
const toolOf = (name: string): Tool => createFileTools(undefined, secrets).find((tool) => tool.name === name) as Tool;
const previewOf = async (tool: Tool, args: unknown, more: Partial<ToolContext> = {}): Promise<Preview> =>
  (await tool.preview?.(tool.schema.parse(args), toolContext({ workspace, ...more }))) as Preview;
const put = (name: string, text: string): void => writeFileSync(join(workspace, name), text);
const get = (name: string): string => readFileSync(join(workspace, name), "utf8");

describe("write and edit", () => {
  it("[QA4] a new file is shown whole; nothing is made by looking, not even its folder", async () => {
    const { markdown } = await previewOf(toolOf("write"), { path: "new/a.txt", content: "one\ntwo" });
    expect(markdown).toBe("makes the file `new/a.txt`:\n\n```diff\n+one\n+two\n\\ No newline at end of file\n```");
    expect(existsSync(join(workspace, "new"))).toBe(false);
  });

  it("[QA4] an edit is shown as a diff of the whole file, however many places it changes", async () => {
    put("a.txt", Array.from({ length: 400 }, (_, n) => (n % 40 === 0 ? "here" : `line ${n}`)).join("\n"));
    const { markdown } = await previewOf(toolOf("edit"), { path: "a.txt", oldText: "here", newText: "there", replaceAll: true });
    expect(markdown.match(/^\+there$/gm)).toHaveLength(10);
    expect(markdown.match(/^-here$/gm)).toHaveLength(10);
  });

  it("[QA4] a change too large to compare is shown as all that goes and all that comes", async () => {
    const lines = (word: string): string => Array.from({ length: 6_000 }, (_, n) => `${word} ${n * 7}\n`).join("");
    put("a.txt", lines("old"));
    const { markdown } = await previewOf(toolOf("write"), { path: "a.txt", content: lines("new") });
    expect(markdown.match(/^-old /gm)).toHaveLength(6_000);
    expect(markdown.match(/^\+new /gm)).toHaveLength(6_000);
  });

  it("[QA4] its basis is the file as it is: the same while nothing changes, another one afterwards, also through a link that moved", async () => {
    put("a.txt", "one");
    put("b.txt", "one");
    symlinkSync("a.txt", join(workspace, "link.txt"));
    const basis = async (path: string): Promise<string> => (await previewOf(toolOf("write"), { path, content: "two" })).basis ?? "";
    const [first, through] = [await basis("a.txt"), await basis("link.txt")];
    expect(await basis("a.txt")).toBe(first);
    rmSync(join(workspace, "link.txt"));
    symlinkSync("b.txt", join(workspace, "link.txt"));
    expect(await basis("link.txt")).not.toBe(through);
    put("a.txt", "changed");
    expect(await basis("a.txt")).not.toBe(first);
  });

  it("[QA4] APPR-001 a file that changes after the last look and before the tool's own is not written", async () => {
    put("a.txt", "one\n");
    const edit = { path: "a.txt", oldText: "one", newText: "two" };
    const { basis } = await previewOf(toolOf("edit"), edit);
    put("a.txt", "zero\none\n");
    for (const [name, args] of [["edit", edit] as const, ["write", { path: "a.txt", content: "two" }] as const]) {
      const result = await callTool(toolOf(name), args, { workspace, ...(basis === undefined ? {} : { basis }) });
      expect(result).toMatchObject({ isError: true, text: expect.stringContaining("the file changed since you were asked") });
    }
    expect(get("a.txt")).toBe("zero\none\n");
  });

  it("[QA4][SC4] secrets stand there by their names", async () => {
    put("a.env", "KEY=sk-0123456789abcdef\nMODE=a\n");
    const { markdown } = await previewOf(toolOf("edit"), { path: "a.env", oldText: "MODE=a", newText: "MODE=b" });
    expect(markdown).not.toContain("sk-0123456789abcdef");
    expect(markdown).toContain("-MODE=a\n+MODE=b");
  });

  it.each([
    ["edit", { path: "none.txt", oldText: "a", newText: "b" }, /"none\.txt" does not exist/],
    ["edit", { path: "a.txt", oldText: "absent", newText: "b" }, /oldText was not found/],
    ["write", { path: "../out.txt", content: "x" }, /only paths inside the workspace/],
  ])("[QA4] %s %j, which would fail, asks nobody: it says why", async (name, args, why) => {
    put("a.txt", "one");
    await expect(previewOf(toolOf(name), args)).rejects.toThrow(why);
  });
});

describe("exec", () => {
  const exec = createExecTool({
    ...{
      sandbox: { available: false as const, reason: "none", howTo: "" },
      unsandboxed: true,
      timeoutSeconds: 120,
      maxConcurrent: 1,
      envAllow: [],
    },
    limits: { memoryBytes: 1e12, freeMemoryBytes: 0, diskBytes: 1e12, files: 1e6, freeDiskBytes: 0 },
  }) as Tool;

  it("[QA4] the command as it will run, where, and with what rights; what can't be seen is spelled out", async () => {
    const { markdown } = await previewOf(exec, { command: "echo '\u202egone'\r\n# ```\nrm x", timeoutSeconds: 5 });
    expect(markdown).toContain("````sh\necho '⟦U+202E⟧gone'⟦U+000D⟧\n# ```\nrm x\n````");
    expect(markdown).toContain("**On the machine itself, with network and all rights of the gateway's user**; folder `.`; at most 5 s.");
  });

  it("[QA4] a list of words shows which blanks belong to a word", async () => {
    const { markdown } = await previewOf(exec, { command: ["rm", "-rf", "a b", "it's", "--", "x.txt"] });
    expect(markdown).toContain(`rm -rf 'a b' 'it'\\''s' -- x.txt`);
  });
});

it("[QA4] no text can end the block it stands in", () => {
  for (const text of ["```", "````\n```", "a ` b", "~~~"]) {
    const [first = "", ...rest] = codeBlock(text).split("\n");
    const fence = /^`+/.exec(first)?.[0] ?? "";
    expect(rest.filter((line) => line.startsWith(fence))).toEqual([fence]);
  }
});
