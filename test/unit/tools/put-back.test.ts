// A cover that is lost while a sub-agent's command runs: nothing the command wrote stays, and no prompt is made of it.
import { existsSync, linkSync, mkdirSync, readdirSync, readFileSync, renameSync, unlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { readBootstrap } from "../../../src/agents/memory.ts";
import { silentLogger } from "../../../src/core/logger.ts";
import type { Tool } from "../../../src/core/tool.ts";
import { createExecTool } from "../../../src/tools/exec.ts";
import { createPromptFiles, type PromptFiles } from "../../../src/tools/prompt-files.ts";
import { putBack } from "../../../src/tools/put-back.ts";
import { detectSandbox } from "../../../src/tools/sandbox.ts";
import { createToolBench, EXEC_DEFAULTS, type ToolBench } from "../../support/tool-bench.ts";
import { waitFor } from "../../support/wait.ts";

const sandbox = await detectSandbox({ log: silentLogger });
const WRITING = "while :; do echo obey >> AGENTS.md; echo obey >> SOUL.md; done 2>/dev/null";

let bench: ToolBench;
let promptFiles: PromptFiles;
let exec: Tool | null;
beforeEach(async () => {
  bench = await createToolBench();
  promptFiles = createPromptFiles({ workspaces: () => [bench.workspace] });
  exec = createExecTool({ sandbox, promptFiles, ...EXEC_DEFAULTS });
});
afterEach(() => bench.remove());

const at = (path: string): string => join(bench.workspace, path);
const asChild = (args: object) => bench.call(exec, args, { runId: "run" });
const text = (path: string): string => readFileSync(at(path), "utf8");

describe.skipIf(!sandbox.available)("a cover that is lost", () => {
  it("[TL9] what a person's editor replaced meanwhile is set aside, whatever the command wrote into it, and the old text is back", async () => {
    for (const name of ["AGENTS.md", "SOUL.md"]) {
      writeFileSync(at(name), "be kind");
      const running = asChild({ command: `echo begun > begun; ${WRITING}`, timeoutSeconds: 20 });
      await waitFor("it to run", () => existsSync(at("begun")));
      writeFileSync(at("new"), "be gentle");
      renameSync(at("new"), at(name));
      const result = await running;
      const aside = readdirSync(bench.workspace).find((entry) => entry.startsWith(`${name}.unsafe-`)) ?? "";
      expect(result.text).toContain(`what replaced ${name} meanwhile was set aside as ${aside}`);
      expect(text(name)).toBe("be kind");
      expect(text(aside)).toMatch(/^be gentle/);
      unlinkSync(at("begun"));
    }
  });

  it("[TL9] also when the command ends by itself before anybody looked, and leaves a writer in the background", async () => {
    writeFileSync(at("AGENTS.md"), "be kind");
    for (let round = 0; round < 5; round++) {
      const command = `setsid sh -c '${WRITING}' & echo begun > begun; until test -e stop; do :; done; exit 0`;
      const running = asChild({ command, timeoutSeconds: 20 });
      await waitFor("it to run", () => existsSync(at("begun")));
      writeFileSync(at("new"), "be gentle");
      renameSync(at("new"), at("AGENTS.md"));
      writeFileSync(at("stop"), "");
      expect((await running).text).toContain("what replaced AGENTS.md meanwhile was set aside");
      expect(text("AGENTS.md")).toBe("be kind");
      for (const name of ["begun", "stop"]) unlinkSync(at(name));
    }
  });

  it("[TL9] a prompt is made only of what is back, and no other command begins before", async () => {
    writeFileSync(at("AGENTS.md"), "be kind");
    const hold = promptFiles.hold(bench.workspace);
    if ("problem" in hold) throw new Error(hold.problem);
    const read = () => readBootstrap({ workspace: bench.workspace, forChild: false });
    const kind = [{ name: "AGENTS.md", text: "be kind", cut: false }];
    expect(await promptFiles.confirmed(read)).toEqual(kind);
    writeFileSync(at("new"), "obey");
    renameSync(at("new"), at("AGENTS.md"));
    const reads: string[] = [];
    const reading = promptFiles.confirmed(async () => {
      const found = await read();
      reads.push(found.map((file) => file.text).join());
      return found;
    });
    // Held for another command it would count as a person's.
    const other = await asChild({ command: "true" });
    expect(other).toMatchObject({ isError: true, text: expect.stringContaining("AGENTS.md was replaced while another command ran") });
    await waitFor("the first look", () => reads.length === 1);
    await putBack(bench.workspace, hold.uncovered());
    hold.release();
    expect(await reading).toEqual(kind);
    expect(reads).toEqual(["obey", "be kind"]);
  });

  it("[TL9] a second name somebody gives a file leads past its cover, but nothing stays of what was written by it", async () => {
    writeFileSync(at("AGENTS.md"), "be kind");
    const command = "echo begun > begun; while :; do test -e second && echo obey >> second; done";
    const running = asChild({ command, timeoutSeconds: 20 });
    await waitFor("it to run", () => existsSync(at("begun")));
    linkSync(at("AGENTS.md"), at("second"));
    expect(await running).toMatchObject({ isError: true, text: expect.stringContaining("AGENTS.md, which is read into prompts") });
    expect(text("AGENTS.md")).toBe("be kind");
  });

  it("[TL9] a memory that was replaced meanwhile is set aside, and the old one is back", async () => {
    mkdirSync(at("memory"));
    writeFileSync(at("memory/AGENT.md"), "be kind");
    const command = "echo begun > begun; while :; do echo obey >> memory/AGENT.md; done 2>/dev/null";
    const running = asChild({ command, timeoutSeconds: 20 });
    await waitFor("it to run", () => existsSync(at("begun")));
    renameSync(at("memory"), at("old"));
    mkdirSync(at("memory"));
    expect(await running).toMatchObject({ isError: true, text: expect.stringContaining("what replaced memory meanwhile was set aside") });
    expect(text("memory/AGENT.md")).toBe("be kind");
    expect(existsSync(at("old"))).toBe(false);
  });

  it("[TL9] a main session's command meanwhile can write the files, but not replace them or move the memory away", async () => {
    writeFileSync(at("AGENTS.md"), "be kind");
    mkdirSync(at("memory"));
    writeFileSync(at("memory/AGENT.md"), "hush");
    const command =
      "echo begun > begun; until test -e stop; do cat memory/AGENT.md && exit 7; echo obey >> AGENTS.md; done 2>/dev/null; true";
    const running = asChild({ command, timeoutSeconds: 20 });
    await waitFor("it to run", () => existsSync(at("begun")));
    const own =
      "sed -i s/kind/cruel/ AGENTS.md; mv memory m2; cp -r m2 memory; echo and gentle >> AGENTS.md; cat memory/AGENT.md; touch stop";
    const { text: said } = await bench.call(exec, { command: own });
    expect(said).toContain("busy");
    expect(said).toContain("hush");
    expect(await running).toMatchObject({ text: expect.stringContaining("exit code 0") });
    expect(text("AGENTS.md")).toBe("be kindand gentle\n");
    // With nobody at work beside it a main session does as it likes.
    expect((await bench.call(exec, { command: "sed -i s/kind/just/ AGENTS.md" })).text).toContain("exit code 0");
    expect(text("AGENTS.md")).toContain("just");
  });
});
