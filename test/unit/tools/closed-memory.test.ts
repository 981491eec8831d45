// The agent's memory is closed to the tools of a sub-agent, by whatever path and engine; its requester reads it.
import { existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { silentLogger } from "../../../src/core/logger.ts";
import type { Tool } from "../../../src/core/tool.ts";
import { createExecTool } from "../../../src/tools/exec.ts";
import { createFileTools } from "../../../src/tools/files.ts";
import { detectSandbox, type Sandbox } from "../../../src/tools/sandbox.ts";
import { createSearchTool } from "../../../src/tools/search.ts";
import { EXEC_DEFAULTS } from "../../support/tool-bench.ts";
import { callTool } from "../../support/tool-context.ts";

const NO_SANDBOX: Sandbox = { available: false, reason: "not asked for", howTo: "" };
const files = createFileTools();
const tool = (name: string): Tool => files.find((one) => one.name === name) as Tool;
let dir = "";
let sandbox: Sandbox = NO_SANDBOX;
const asChild = (): { workspace: string; runId: string } => ({ workspace: join(dir, "plain"), runId: "run" });

beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), "herald-memory-"));
  for (const path of ["plain/memory/pins", "plain/src/memory", "linked/notes"]) mkdirSync(join(dir, path), { recursive: true });
  writeFileSync(join(dir, "plain/memory/pins/a.md"), "hush\n");
  writeFileSync(join(dir, "plain/src/memory/b.md"), "hush, but only a folder of that name\n");
  writeFileSync(join(dir, "linked/notes/c.md"), "hush\n");
  symlinkSync("notes", join(dir, "linked/memory"));
  symlinkSync("memory/pins", join(dir, "plain/way-in"));
  sandbox = await detectSandbox({ log: silentLogger });
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

describe("a sub-agent's tools", () => {
  it.each(["memory/pins/a.md", "./memory//pins/a.md", "way-in/a.md", "/workspace/memory/pins/a.md"])(
    "[BF4] read refuses %s",
    async (path) => {
      expect(await callTool(tool("read"), { path }, asChild())).toMatchObject({
        isError: true,
        text: expect.stringContaining("agent's memory"),
      });
      expect(await callTool(tool("read"), { path }, { ...asChild(), runId: null })).toEqual({ text: "hush\n" });
    },
  );

  it("[BF4] write and edit leave it alone, also where there is none yet; a folder of that name further down is free", async () => {
    for (const call of [
      callTool(tool("write"), { path: "memory/pins/a.md", content: "x" }, asChild()),
      callTool(tool("edit"), { path: "memory/pins/a.md", oldText: "hush", newText: "x" }, asChild()),
      callTool(tool("write"), { path: "memory/new.md", content: "x" }, { workspace: join(dir, "linked"), runId: "run" }),
      callTool(tool("write"), { path: "memory/AGENT.md", content: "x" }, { workspace: join(dir, "plain/src/memory"), runId: "run" }),
    ])
      expect(await call).toMatchObject({ isError: true, text: expect.stringContaining("agent's memory") });
    expect(existsSync(join(dir, "linked/notes/new.md"))).toBe(false);
    expect(existsSync(join(dir, "plain/src/memory/memory"))).toBe(false);
    expect(await callTool(tool("read"), { path: "src/memory/b.md" }, asChild())).toMatchObject({
      text: expect.stringContaining("only a folder"),
    });
  });

  it("[BF4] a memory that is a link is closed where it really lies", async () => {
    const context = { workspace: join(dir, "linked"), runId: "run" };
    for (const path of ["memory/c.md", "notes/c.md"])
      expect(await callTool(tool("read"), { path }, context)).toMatchObject({ isError: true });
  });

  it("[BF4] list does not go into it", async () => {
    const { text } = await callTool(tool("list"), { depth: 5 }, asChild());
    expect(text).toContain("src/memory/b.md");
    expect(text).not.toContain("a.md");
  });

  it("[BF4] search finds nothing in it, with each engine and whatever the glob", async () => {
    const engines = [createSearchTool({ sandbox }), createSearchTool({ sandbox: NO_SANDBOX })];
    for (const search of engines) {
      for (const glob of [undefined, "**/*.md", "memory/**"]) {
        const { text } = await callTool(search, { pattern: "hush", ...(glob === undefined ? {} : { glob }) }, asChild());
        expect(text).not.toContain("a.md");
        if (glob !== "memory/**") expect(text).toContain("src/memory/b.md:1");
      }
      const own = await callTool(search, { pattern: "hush" }, { ...asChild(), runId: null });
      expect(own.text).toContain("memory/pins/a.md:1");
    }
  });

  it("[BF4] exec sees an empty folder in its place, which it can't fill", async (test) => {
    if (!sandbox.available) return test.skip();
    const exec = createExecTool({ sandbox, ...EXEC_DEFAULTS }) as Tool;
    const command = "ls -A memory | wc -l; cat way-in/a.md; touch memory/x; ls src/memory";
    for (const readOnly of [false, true]) {
      const { text } = await callTool(exec, { command }, { ...asChild(), readOnly });
      expect(text).toMatch(/^0\n/);
      expect(text).not.toContain("hush");
      expect(text).toContain("Read-only file system");
      expect(text).toContain("b.md");
    }
    expect((await callTool(exec, { command: "cat memory/pins/a.md" }, { ...asChild(), runId: null })).text).toContain("hush");
  });
});
