import { link, mkdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { silentLogger } from "../../../src/core/logger.ts";
import { findOnPath } from "../../../src/tools/find-on-path.ts";
import { isIgnored, parseGlob, parseIgnoreFile } from "../../../src/tools/glob.ts";
import { detectSandbox } from "../../../src/tools/sandbox.ts";
import { createSearchTool } from "../../../src/tools/search.ts";
import { createToolBench, type ToolBench } from "../../support/tool-bench.ts";

const sandbox = await detectSandbox({ log: silentLogger });
const none = { available: false, reason: "none", howTo: "none" } as const;
const hasRipgrep = findOnPath("rg", process.env.PATH ?? "") !== null;

let bench: ToolBench;
beforeEach(async () => {
  bench = await createToolBench();
});
afterEach(() => bench.remove());

async function put(files: Record<string, string | Buffer>): Promise<void> {
  for (const [path, content] of Object.entries(files)) {
    await mkdir(join(bench.workspace, path, ".."), { recursive: true });
    await writeFile(join(bench.workspace, path), content);
  }
}

const ENGINES = [
  {
    name: `ripgrep in the sandbox${hasRipgrep && sandbox.available ? "" : " (skipped: not installed)"}`,
    skip: !hasRipgrep || !sandbox.available,
    options: { sandbox },
  },
  { name: `ripgrep on the host${hasRipgrep ? "" : " (skipped: not installed)"}`, skip: !hasRipgrep, options: { sandbox: none } },
  { name: "the built-in search", skip: false, options: { sandbox: none, path: "/nonexistent" } },
];

describe.each(ENGINES)("search with $name", ({ skip, options }) => {
  const test = it.skipIf(skip);
  const tool = createSearchTool(options);
  const search = (args: object, over = {}) => bench.call(tool, args, over);

  test("[TL1] finds lines by pattern, path, glob and case", async () => {
    await put({ "a.ts": "one\nNeedle 1\n", "src/b.ts": "needle 2", "src/deep/c.md": "x needle-3 y", ".hidden/d.md": "needle 4" });
    expect((await search({ pattern: "needle.\\d" })).text).toBe(
      ".hidden/d.md:1: needle 4\nsrc/b.ts:1: needle 2\nsrc/deep/c.md:1: x needle-3 y",
    );
    expect((await search({ pattern: "^NEEDLE", ignoreCase: true, glob: "*.ts" })).text).toBe("a.ts:2: Needle 1\nsrc/b.ts:1: needle 2");
    expect((await search({ pattern: "needle", path: "src/deep" })).text).toBe("src/deep/c.md:1: x needle-3 y");
    expect((await search({ pattern: "needle", path: "src/b.ts" })).text).toBe("src/b.ts:1: needle 2");
    expect((await search({ pattern: "needle", glob: "src/**/*.{md,txt}" })).text).toBe("src/deep/c.md:1: x needle-3 y");
    expect(await search({ pattern: "haystack" })).toEqual({ text: 'No line in "." matches.' });
  });

  test("[TL1] respects .gitignore, and leaves out .git and binary files", async () => {
    await put({
      ".gitignore": "build/\n*.log\n!keep.log\n/top.txt\n",
      "sub/.gitignore": "local.txt\n",
      "build/a.txt": "needle",
      "x.log": "needle",
      "keep.log": "needle",
      "top.txt": "needle",
      "sub/top.txt": "needle",
      "sub/local.txt": "needle",
      "sub/y.log": "needle",
      ".git/config": "needle",
      "image.bin": Buffer.from("needle\0needle"),
    });
    expect((await search({ pattern: "needle" })).text).toBe("keep.log:1: needle\nsub/top.txt:1: needle");
    expect((await search({ pattern: "needle", path: "sub" })).text).toBe("sub/top.txt:1: needle");
  });

  test("[TL7] never shows what lies outside: paths, links, hard links", async () => {
    const secret = join(bench.outer, "secret.txt");
    await writeFile(secret, "needle outside");
    await symlink(secret, join(bench.workspace, "link.txt"));
    await symlink(bench.outer, join(bench.workspace, "out"));
    await link(secret, join(bench.workspace, "second-name.txt"));
    expect((await search({ pattern: "needle" })).text).toBe('No line in "." matches.');
    for (const path of ["..", "/etc", "out", "link.txt", "~", "none"])
      expect((await search({ pattern: "needle", path })).isError).toBe(true);
  });

  test("[TL1] is bounded: matches, line length, and it says that there is more", async () => {
    await put({ "many.txt": "needle\n".repeat(5000), "wide.txt": `needle ${"x".repeat(100_000)}` });
    const { text } = await search({ pattern: "needle", limit: 20, path: "many.txt" });
    expect(text.split("\n\n")[0]?.split("\n")).toHaveLength(20);
    expect(text).toMatch(/\n\n\[There are more than 20 matches[^\n]*\]$/);
    expect((await search({ pattern: "needle", path: "wide.txt" })).text.length).toBeLessThan(400);
  });

  test("[AG3] a pattern that can't be read is an error the model can act on; options can't be smuggled in", async () => {
    await put({ "a.txt": "--files foo( x" });
    expect(await search({ pattern: "foo(" })).toMatchObject({ isError: true, text: expect.stringContaining("not accepted") });
    expect((await search({ pattern: "--files" })).text).toBe("a.txt:1: --files foo( x");
    expect((await search({ pattern: "x\\-?$" })).text).toBe("a.txt:1: --files foo( x");
  });

  test("[ST2] a stopped search settles at once", async () => {
    await put({ "a.txt": "needle" });
    expect(await search({ pattern: "needle" }, { signal: AbortSignal.abort() })).toMatchObject({
      isError: true,
      text: expect.stringContaining("Stopped"),
    });
  });
});

describe("the built-in search", () => {
  const catastrophe = { pattern: "^(a+)+$", path: "b.txt" };

  it("[TL1] ends a pattern that backtracks for ever at its deadline, without blocking the gateway", async () => {
    await put({ "b.txt": `${"a".repeat(60)}!` });
    const tool = createSearchTool({ sandbox: none, path: "", timeoutMs: 700 });
    let ticks = 0;
    const timer = setInterval(() => {
      ticks += 1;
    }, 10);
    const result = await bench.call(tool, catastrophe);
    clearInterval(timer);
    expect(result).toMatchObject({ isError: true, text: expect.stringContaining("the search was ended") });
    expect(ticks).toBeGreaterThan(5);
  });

  it("[ST2] abort ends it within 2 s", async () => {
    await put({ "b.txt": `${"a".repeat(60)}!` });
    const stop = new AbortController();
    const running = bench.call(createSearchTool({ sandbox: none, path: "" }), catastrophe, { signal: stop.signal });
    setTimeout(() => stop.abort(), 200);
    const startedAt = Date.now();
    expect((await running).isError).toBe(true);
    expect(Date.now() - startedAt).toBeLessThan(2200);
  });
});

describe("glob", () => {
  it.each([
    ["*.ts", "src/a.ts", true],
    ["*.ts", "a.tsx", false],
    ["src/*.ts", "src/a.ts", true],
    ["src/*.ts", "src/b/a.ts", false],
    ["/a", "a", true],
    ["/a", "b/a", false],
    ["**/a.ts", "x/y/a.ts", true],
    ["src/**", "src/x/y", true],
    ["a?c", "abc", true],
    ["[!a]b", "ab", false],
    ["[a-c]b", "bb", true],
    ["a.b", "axb", false],
    ["\\#a", "#a", true],
    ["{a,b*}.ts", "bcd.ts", true],
  ])("[TL1] %s on %s: %s", (glob, path, expected) => {
    expect(parseGlob(glob)?.matches(path)).toBe(expected);
  });

  it("[TL1] blank lines, comments and unreadable patterns are no rules; the last match wins", () => {
    for (const line of ["", "   ", "# x", "[z-a]"]) expect(parseGlob(line)).toBeNull();
    const files = [parseIgnoreFile("", "*.log\n!a.log\nout/"), parseIgnoreFile("sub", "a.log")];
    expect(isIgnored("a.log", false, files.slice(0, 1))).toBe(false);
    expect(isIgnored("sub/a.log", false, files)).toBe(true);
    expect(isIgnored("out", true, files.slice(0, 1))).toBe(true);
    expect(isIgnored("out", false, files.slice(0, 1))).toBe(false);
  });
});
