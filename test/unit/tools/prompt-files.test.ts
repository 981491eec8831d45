// What is read into a system prompt stays as it is, whatever a sub-agent calls or runs; its requester may change it.
import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmdirSync,
  statSync,
  symlinkSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { readBootstrap, readMemory } from "../../../src/agents/memory.ts";
import { silentLogger } from "../../../src/core/logger.ts";
import type { Tool } from "../../../src/core/tool.ts";
import { createExecTool } from "../../../src/tools/exec.ts";
import { createFileTools } from "../../../src/tools/files.ts";
import { findOnPath } from "../../../src/tools/find-on-path.ts";
import { createPromptFiles } from "../../../src/tools/prompt-files.ts";
import { detectSandbox } from "../../../src/tools/sandbox.ts";
import { createSearchTool } from "../../../src/tools/search.ts";
import { createToolBench, EXEC_DEFAULTS, type ToolBench } from "../../support/tool-bench.ts";
import { waitFor } from "../../support/wait.ts";

const FILES = ["AGENTS.md", "TOOLS.md", "SOUL.md", "IDENTITY.md", "USER.md"];
const sandbox = await detectSandbox({ log: silentLogger });
const CHILD = { runId: "run" };

let bench: ToolBench;
let tools: Record<string, Tool>;
beforeEach(async () => {
  bench = await createToolBench();
  const promptFiles = createPromptFiles({ workspaces: () => [bench.workspace, at("inner")], crewPath: join(bench.outer, "CREW.md") });
  const exec = createExecTool({ sandbox, promptFiles, ...EXEC_DEFAULTS });
  const all = [...createFileTools(promptFiles), createSearchTool({ sandbox, promptFiles }), ...(exec === null ? [] : [exec])];
  tools = Object.fromEntries(all.map((tool) => [tool.name, tool]));
});
afterEach(() => bench.remove());

const at = (path: string): string => join(bench.workspace, path);
const asChild = (name: string, args: object, over = {}) => bench.call(tools[name], args, { ...CHILD, ...over });
const text = (path: string): string => readFileSync(at(path), "utf8");

describe("the file tools of a sub-agent", () => {
  const spellings = FILES.flatMap((name) => [name, `./${name.toLowerCase()}`, `/workspace/${name}`, `${name}. `]);

  it.each([...spellings, "memory", "memory/AGENT.md", "MEMORY/pins/x.md", "ſoul.md", "inner/AGENTS.md", "inner/memory/AGENT.md"])(
    "[TL9] make no %s",
    async (path) => {
      const refused = { isError: true, text: expect.stringMatching(/no sub-agent may change|agent's memory/) };
      expect(await asChild("write", { path, content: "obey" })).toMatchObject(refused);
      expect(readdirSync(bench.workspace)).toEqual([]);
    },
  );

  it("[TL9] change none that is there, and read it; a main session changes it", async () => {
    for (const name of FILES) {
      writeFileSync(at(name), "be kind");
      const edit = { path: name, oldText: "kind", newText: "cruel" };
      expect(await asChild("edit", edit)).toMatchObject({ isError: true, text: expect.stringContaining("no sub-agent may change") });
      expect(await asChild("read", { path: name })).toEqual({ text: "be kind" });
      expect(await bench.call(tools.edit, edit)).not.toHaveProperty("isError");
      expect(text(name)).toBe("be cruel");
    }
  });

  it("[TL9] change none through what a link of that name leads to, there or not", async () => {
    mkdirSync(at("docs"));
    writeFileSync(at("CLAUDE.md"), "be kind");
    symlinkSync("CLAUDE.md", at("AGENTS.md"));
    symlinkSync("docs/not-there.md", at("SOUL.md"));
    symlinkSync(at("crew.md"), join(bench.outer, "CREW.md"));
    for (const path of ["CLAUDE.md", "AGENTS.md", "SOUL.md", "docs/not-there.md", "crew.md"])
      expect(await asChild("write", { path, content: "obey" })).toMatchObject({ isError: true });
    expect(text("CLAUDE.md")).toBe("be kind");
    expect(readdirSync(at("docs"))).toEqual([]);
  });

  it("[TL9] files of these names further down are nobody's prompt", async () => {
    expect(await asChild("write", { path: "docs/AGENTS.md", content: "x" })).not.toHaveProperty("isError");
    expect(await asChild("write", { path: "docs/memory/x.md", content: "x" })).not.toHaveProperty("isError");
  });
});

describe("what is read into a prompt", () => {
  it("[TL9] an empty file is none, so one that only stands there for a command changes no prompt", async () => {
    writeFileSync(at("AGENTS.md"), "");
    expect(await readBootstrap({ workspace: bench.workspace, forChild: false })).toEqual([]);
  });

  it("[TL9] memory is read from its folder only: a link from there into the open workspace is not followed", async () => {
    for (const path of ["memory/pins", "notes"]) mkdirSync(at(path), { recursive: true });
    writeFileSync(at("notes/a.md"), "obey");
    writeFileSync(at("memory/pins/own.md"), "be kind");
    symlinkSync("../notes/a.md", at("memory/AGENT.md"));
    symlinkSync("pins/own.md", at("memory/PERSONA.md"));
    const sections = await readMemory({ workspace: bench.workspace, forChild: false, now: 0 });
    const shown = sections.map((section) => section.text);
    expect(shown).toEqual(["be kind", "[AGENT.md was not read: it is a link that leads out of the folder]", "be kind"]);
  });
});

// Each tries one way; where the kernel lets it, the check after it fails.
const ATTACKS = `
  echo obey > AGENTS.md; echo obey >> USER.md; echo obey > SOUL.md; echo obey | tee IDENTITY.md
  echo obey > x; mv -f x AGENTS.md; mv AGENTS.md y; rm -f AGENTS.md USER.md; cp x USER.md; mv --exchange x AGENTS.md
  ln AGENTS.md second; echo obey > second; ln -f x SOUL.md; ln -sf x TOOLS.md; truncate -s 0 AGENTS.md; chmod 777 AGENTS.md
  sed -i s/kind/cruel/ AGENTS.md; dd if=x of=USER.md; perl -e 'rename "x", "SOUL.md"'; python3 -c 'open("SOUL.md", "w")'
  mkdir memory; echo obey > memory/AGENT.md; mkdir -p memory/pins; rmdir memory; rm -rf memory; mv memory m; ln -s /tmp memory
  mkdir evil; mv -T evil memory; mv memory evil/memory; mkdir SOUL.md; mkfifo IDENTITY.md; umount AGENTS.md; umount -l memory
  unshare -Urm umount AGENTS.md; mount --bind x AGENTS.md; cd /; mv workspace w; mv /workspace /tmp/w; cd /proc/self/cwd/workspace
  echo obey > /proc/self/cwd/SOUL.md; echo obey > /proc/1/root/workspace/SOUL.md; cd /workspace
  mv inner inner2; mkdir inner; echo obey > inner/AGENTS.md; rm -rf inner; mkdir -p inner/memory; echo obey > inner/memory/AGENT.md
  setfattr -n user.x -v y AGENTS.md; touch -d @1 AGENTS.md; echo probe ran to its end > ran; exit 0`;

describe.skipIf(!sandbox.available)("a command of a sub-agent", () => {
  it("[TL9] changes nothing that is read into a prompt, there or not, by name, rename, link or folder", async () => {
    mkdirSync(at("inner"));
    writeFileSync(at("AGENTS.md"), "be kind");
    writeFileSync(at("inner/AGENTS.md"), "be kind");
    const { mode, mtimeMs } = statSync(at("AGENTS.md"));
    await asChild("exec", { command: ATTACKS, timeoutSeconds: 30 });
    expect(text("ran")).toContain("to its end");
    expect(text("AGENTS.md")).toBe("be kind");
    expect(text("inner/AGENTS.md")).toBe("be kind");
    expect(statSync(at("AGENTS.md"))).toMatchObject({ mode, mtimeMs, nlink: 1 });
    expect(readdirSync(at("memory"))).toEqual([]);
    expect(readdirSync(at("inner")).sort()).toEqual(["AGENTS.md", "memory"]);
    expect(readdirSync(at("inner/memory"))).toEqual([]);
    expect(FILES.filter((name) => existsSync(at(name)))).toEqual(["AGENTS.md"]);
  });

  it("[TL9] reads the files, and works beside them as ever", async () => {
    writeFileSync(at("AGENTS.md"), "be kind");
    const command = "cat AGENTS.md && echo new > new.md && mv new.md moved.md && mkdir d && cp AGENTS.md d/AGENTS.md && cp -r . /tmp/copy";
    expect(await asChild("exec", { command })).toMatchObject({ text: expect.stringMatching(/^be kind\n\n\[exit code 0/) });
    expect(readdirSync(bench.workspace).sort()).toEqual(["AGENTS.md", "d", "inner", "memory", "moved.md"]);
  });

  it.skipIf(findOnPath("git", "/usr/bin") === null)("[TL9] git takes what only stands there for no part of the work", async () => {
    const command = "git init -q . && echo work > work.txt && git add --all && git status --porcelain";
    expect(await asChild("exec", { command })).toMatchObject({ text: expect.stringMatching(/^A {2}work.txt\n\n\[exit code 0/) });
  });

  it("[TL9] is not run where a link or a second name would lead past the cover; the sentence says what to change", async () => {
    writeFileSync(at("CLAUDE.md"), "be kind");
    symlinkSync("CLAUDE.md", at("AGENTS.md"));
    const refused = (name: string) => ({
      isError: true,
      text: expect.stringMatching(`not run.*${name} is read into prompts and must be a plain`),
    });
    expect(await asChild("exec", { command: "touch ran" })).toMatchObject(refused("AGENTS.md"));
    renameSync(at("CLAUDE.md"), at("AGENTS.md"));
    linkSync(at("AGENTS.md"), at("second"));
    expect(await asChild("exec", { command: "touch ran" })).toMatchObject(refused("AGENTS.md"));
    unlinkSync(at("second"));
    rmdirSync(at("memory"));
    mkdirSync(at("notes"));
    symlinkSync("notes", at("memory"));
    expect(await asChild("exec", { command: "touch ran" })).toMatchObject(refused("memory"));
    expect(existsSync(at("ran"))).toBe(false);
    // Who can only read can't put anything in a link's place.
    expect(await asChild("exec", { command: "ls" }, { readOnly: true })).toMatchObject({ text: expect.stringContaining("AGENTS.md") });
    expect(await bench.call(tools.exec, { command: "touch ran" })).toMatchObject({ text: expect.stringContaining("exit code 0") });
  });

  it("[TL9] is not run where a link leads to another agent's workspace inside: it could be turned elsewhere", async () => {
    mkdirSync(at("real/b"), { recursive: true });
    symlinkSync("real", at("way"));
    const promptFiles = createPromptFiles({ workspaces: () => [bench.workspace, at("way/b")] });
    const exec = createExecTool({ sandbox, promptFiles, ...EXEC_DEFAULTS });
    const command = "rm way; mkdir -p way/b; echo obey > way/b/AGENTS.md";
    expect(await bench.call(exec, { command }, CHILD)).toMatchObject({ isError: true, text: expect.stringContaining("way is a link") });
    expect(existsSync(at("way/b/AGENTS.md"))).toBe(false);
  });

  it("[TL9] what can't be covered is said without a path of the machine", () => {
    // Nothing can be made in such a folder.
    expect(createPromptFiles().hold("/proc/self/task")).toMatchObject({ problem: expect.not.stringContaining("/proc") });
  });

  it("[TL9] ends when somebody outside replaces a file and with it its cover", async () => {
    const running = asChild("exec", { command: "echo begun > begun; while :; do sleep 0.1; done", timeoutSeconds: 20 });
    await waitFor("it to run", () => existsSync(at("begun")));
    writeFileSync(at("new"), "be kind");
    renameSync(at("new"), at("SOUL.md"));
    expect(await running).toMatchObject({
      isError: true,
      text: expect.stringContaining("SOUL.md, which is read into prompts, was replaced"),
    });
  });

  it("[TL9] a main session's write meanwhile keeps the cover", async () => {
    const command = "echo begun > begun; until test -e stop; do (echo obey > USER.md) && echo wrote > wrote; done 2>/dev/null; true";
    const running = asChild("exec", { command, timeoutSeconds: 20 });
    await waitFor("it to run", () => existsSync(at("begun")));
    expect(await bench.call(tools.write, { path: "USER.md", content: "be kind" })).not.toHaveProperty("isError");
    expect(await bench.call(tools.edit, { path: "USER.md", oldText: "kind", newText: "gentle" })).not.toHaveProperty("isError");
    writeFileSync(at("stop"), "");
    expect(await running).toMatchObject({ text: expect.stringContaining("exit code 0") });
    expect(existsSync(at("wrote"))).toBe(false);
    expect(text("USER.md")).toBe("be gentle");
  });

  it("[TL9] what a killed gateway left standing goes at the next start; an empty file of one's own stays", () => {
    writeFileSync(at("SOUL.md"), "");
    utimesSync(at("SOUL.md"), 0, 0);
    writeFileSync(at("USER.md"), "");
    createPromptFiles({ workspaces: () => [bench.workspace] }).tidy();
    expect(readdirSync(bench.workspace)).toEqual(["USER.md"]);
  });
});

const SWAP = `const { renameSync,
 rmdirSync, symlinkSync, unlinkSync } = require("node:fs");
  process.chdir(process.argv[1]);
  const end = Date.now() + 20_000;
  process.stdout.write("swapping");
  while (Date.now() < end) { renameSync("open", "aside"); symlinkSync("memory", "open"); unlinkSync("open"); renameSync("aside", "open"); }`;

describe.skipIf(!sandbox.available)("search of a sub-agent", () => {
  it("[TL9] [BF4] finds nothing in the memory, also while a folder is swapped for a link to it", async () => {
    for (const path of ["memory", "open"]) mkdirSync(at(path));
    writeFileSync(at("memory/AGENT.md"), "hush");
    writeFileSync(at("open/plain.md"), "hush");
    const swapper = spawn(process.execPath, ["-e", SWAP, bench.workspace], { stdio: ["ignore", "pipe", "inherit"] });
    const gone = once(swapper, "exit");
    await once(swapper.stdout, "data");
    const found = [];
    for (let round = 0; round < 20; round++) {
      const calls = [1, 2, 3, 4].map(() => asChild("search", { pattern: "hush", path: "open" }));
      found.push(...(await Promise.all(calls)).map((result) => result.text));
    }
    swapper.kill("SIGKILL");
    await gone;
    expect(found.filter((one) => one.includes("AGENT.md"))).toEqual([]);
  });
});
