import { link, mkdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { silentLogger } from "../../../src/core/logger.ts";
import { detectSandbox } from "../../../src/tools/sandbox.ts";
import { createSearchTool } from "../../../src/tools/search.ts";
import { createToolBench, type ToolBench } from "../../support/tool-bench.ts";

const sandbox = await detectSandbox({ log: silentLogger });
const none = { available: false, reason: "none", howTo: "none" } as const;

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

const WAYS = [
  { name: `in the sandbox${sandbox.available ? "" : ` (skipped: ${sandbox.reason})`}`, skip: !sandbox.available, options: { sandbox } },
  { name: "on the host", skip: false, options: { sandbox: none } },
];

describe.each(WAYS)("search $name", ({ skip, options }) => {
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

describe("search", () => {
  // In ripgrep's place a program that finds nothing and takes its time: ripgrep itself may be through before this process has its turn.
  it("[TL1] is ended at its deadline, and says so", async () => {
    const slow = join(bench.workspace, "..", "slow-search");
    await writeFile(slow, "#!/bin/sh\nexec sleep 60\n", { mode: 0o700 });
    const tool = createSearchTool({ sandbox: none, ripgrep: slow, timeoutMs: 100 });
    expect((await bench.call(tool, { pattern: "needle" })).text).toContain("the search was ended after 0.1 s");
  });

  it("[TL1] a pattern that would take others for ever is answered at once", async () => {
    await put({ "b.txt": `${"a".repeat(100_000)}!` });
    const tool = createSearchTool({ sandbox: none });
    expect(await bench.call(tool, { pattern: "^(a+)+$" })).toEqual({ text: 'No line in "." matches.' });
  });

  it("[AG3] without ripgrep it says what is missing", async () => {
    const tool = createSearchTool({ sandbox: none, ripgrep: null });
    expect(await bench.call(tool, { pattern: "x" })).toMatchObject({ isError: true, text: expect.stringContaining("ripgrep is missing") });
  });
});
