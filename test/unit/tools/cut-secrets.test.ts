// Text is cut in many places; a part of a secret is no known value, so it must be a name before the cut (SC4).
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createSecrets } from "../../../src/core/secrets.ts";
import { createExecTool } from "../../../src/tools/exec.ts";
import { createFileTools } from "../../../src/tools/files.ts";
import { createOutputWindow } from "../../../src/tools/output.ts";
import { createSearchTool } from "../../../src/tools/search.ts";
import { createToolBench, EXEC_DEFAULTS, type ToolBench } from "../../support/tool-bench.ts";

const KEY = "ghp_lab_key_000111222333abcdef";
const secrets = createSecrets();
secrets.add("KEY", KEY);
const sandbox = { available: false, reason: "", howTo: "" } as const;
const exec = createExecTool({ sandbox, ...EXEC_DEFAULTS, unsandboxed: true });
const search = createSearchTool({ sandbox });
const [read] = createFileTools();

let bench: ToolBench;
beforeEach(async () => {
  bench = await createToolBench();
});
afterEach(() => bench.remove());

const put = (name: string, content: string): void => writeFileSync(join(bench.workspace, name), content);
const call = (tool: typeof exec, args: object, over = {}) => bench.call(tool, args, { secrets, ...over });
/** Whatever of it can be recognised, from the front or from behind. */
const PART = /gh(?:p|$| |\n)|hp_|abcde|bcdef/;
/** What of the key lies before a place in a text: nothing, its first character, half of it, all but one. */
const SHIFTS = [0, 1, 15, KEY.length - 1];

describe("no part of a secret shows", () => {
  it.each(SHIFTS)("[SC4] in a line that search cuts in it (%i characters before the cut)", async (before) => {
    put("a.txt", `needle ${"x".repeat(300 - 7 - before)}${KEY} tail\n`);
    const { text } = await call(search, { pattern: "needle" });
    expect(text).not.toMatch(PART);
    expect(text).toMatch(/x \[… the line goes on\]$/);
  });

  it("[SC4] in a line that read cuts in it", async () => {
    for (const before of SHIFTS) {
      put("a.txt", `${"x".repeat(48 * 1024 - before)}${KEY} tail`);
      const { text } = await call(read ?? null, { path: "a.txt" });
      expect(text).not.toMatch(PART);
      expect(text).toContain("is too long and was cut");
    }
  });

  it("[SC4] at either end of what a long output leaves out", async () => {
    for (const shift of SHIFTS) {
      put("a.txt", "x".repeat(shift) + `${KEY} `.repeat(20_000));
      const { text } = await call(exec, { command: "cat a.txt" });
      expect(text).toContain("left out here");
      expect(text).not.toMatch(PART);
    }
  });

  it("[SC4] in what a command printed until it was ended", async () => {
    const { text } = await call(exec, { command: `printf 'so: ${KEY.slice(0, 20)}'; sleep 20`, timeoutSeconds: 0.5 });
    expect(text).toMatch(/^so:\n\n\[ended because it ran longer/);
    expect((await call(exec, { command: "printf 'so: ghp'" })).text).toMatch(/^so: ghp\n/);
  });

  it("[SC4] in the line that says what a command does, also one that is not finished", async () => {
    const doing: string[] = [];
    put("a.txt", `${"p".repeat(200 - 15)}${KEY}\n`);
    const command = `cat a.txt; sleep 0.6; printf '${KEY.slice(0, 18)}'; sleep 0.6; printf '${KEY.slice(18, 29)}'; sleep 0.6; printf '${KEY.slice(29)} done'; sleep 0.6; echo .`;
    await call(exec, { command }, { progress: (line: string) => doing.push(line) });
    expect(doing.length).toBeGreaterThan(2);
    expect(doing.filter((line) => PART.test(line))).toEqual([]);
    expect(doing).toContain("[KEY] done");
  });

  it("[SC4] when its pieces come on one stream and other words on the other", () => {
    const output = createOutputWindow(1000, secrets);
    output.push(Buffer.from(`a ${KEY.slice(0, 9)}`), "stdout");
    output.push(Buffer.from("careful\n"), "stderr");
    output.push(Buffer.from(`${KEY.slice(9)} b`), "stdout");
    expect(output.text(false)).toBe("a careful\n[KEY] b");
  });
});
