import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { silentLogger } from "../../../src/core/logger.ts";
import { createExecTool } from "../../../src/tools/exec.ts";
import { runProcess } from "../../../src/tools/process.ts";
import { detectSandbox } from "../../../src/tools/sandbox.ts";
import { createToolBench, EXEC_DEFAULTS, findProcesses, type ToolBench, uniqueSleep } from "../../support/tool-bench.ts";
import { waitFor } from "../../support/wait.ts";

const sandbox = await detectSandbox({ log: silentLogger });
const none = { available: false, reason: "none", howTo: "none" } as const;
const env = { PATH: process.env.PATH, HOME: "/nonexistent", ALLOWED: "seen", SECRET: "unseen" };
const why = sandbox.available ? "" : ` (skipped: ${sandbox.reason})`;

let bench: ToolBench;
beforeEach(async () => {
  bench = await createToolBench();
});
afterEach(() => bench.remove());

// Only commands that are harmless on the host itself: every case below runs there too.
const WAYS = [
  { name: `in the sandbox${why}`, skip: !sandbox.available, options: { sandbox, unsandboxed: false } },
  { name: "on the host", skip: process.platform === "win32", options: { sandbox: none, unsandboxed: true } },
];

describe.each(WAYS)("exec $name", ({ skip, options }) => {
  const exec = skip ? null : createExecTool({ ...EXEC_DEFAULTS, ...options, envAllow: ["ALLOWED"], env });
  const call = (args: object, over = {}) => bench.call(exec, { timeoutSeconds: 20, ...args }, over);
  const test = it.skipIf(skip);

  test("[TL5] runs shell text and argument lists, and reports how they ended", async () => {
    expect(await call({ command: "echo out; echo err >&2; true" })).toMatchObject({
      text: expect.stringMatching(/^(out\nerr|err\nout)\n\n\[exit code 0 after/),
    });
    expect((await call({ command: ["printf", "%s|", "a b", "$HOME", "*"] })).text).toContain("a b|$HOME|*|");
    expect(await call({ command: "exit 7" })).toMatchObject({
      isError: true,
      text: expect.stringMatching(/^\(no output\)\n\n\[exit code 7 after/),
    });
    expect((await call({ command: "kill -TERM $$" })).text).toMatch(/SIGTERM/);
    expect(await call({ command: ["no-such-program"] })).toMatchObject({ isError: true, text: expect.stringContaining("no-such-program") });
    expect(await call({ command: ["echo", "a\0b"] })).toMatchObject({ isError: true, text: expect.stringContaining("NUL") });
  });

  test("[TL5] shows a command only allowed variables", async () => {
    const { text } = await call({ command: "env" });
    expect(text).toContain("ALLOWED=seen");
    expect(text).not.toContain("unseen");
    expect(text).not.toContain("NODE_");
  });

  test("[TL7] starts in the workspace or a folder inside, nowhere else", async () => {
    await mkdir(join(bench.workspace, "sub"));
    expect((await call({ command: "touch here", cwd: "sub" })).isError).toBeUndefined();
    expect(existsSync(join(bench.workspace, "sub/here"))).toBe(true);
    for (const cwd of ["..", "/etc", "none", "sub/here"]) expect((await call({ command: "true", cwd })).isError).toBe(true);
  });

  test("[TL5] keeps the head and the tail of long output", async () => {
    const { text } = await call({ command: "echo first; head -c 1000000 /dev/zero | tr '\\0' x; echo; echo last" });
    expect(text.startsWith("first\n")).toBe(true);
    expect(text).toMatch(/\[… .* left out here …\]/);
    expect(text).toMatch(/\nlast\n\n\[exit code 0/);
    expect(Buffer.byteLength(text)).toBeLessThan(50 * 1024);
  });

  test("[TL5] PROC-010 ends a flood of output without stalling the gateway", async () => {
    const delay = monitorEventLoopDelay({ resolution: 5 });
    delay.enable();
    const result = await call({ command: "yes 'a rather long line that is printed as fast as possible'" });
    delay.disable();
    expect(result).toMatchObject({ isError: true, text: expect.stringContaining("printed more than 10.0 MB") });
    expect(delay.percentile(99) / 1e6).toBeLessThan(500);
  });

  test("[TL5] PROC-010 ends a command at its timeout, with what it printed", async () => {
    const nap = uniqueSleep();
    const result = await call({ command: `echo begun; ${nap} & ${nap}`, timeoutSeconds: 0.5 });
    expect(result).toMatchObject({ isError: true, text: expect.stringMatching(/^begun\n\n\[ended because it ran longer than 0.5 s/) });
    await waitFor("all to be gone", () => findProcesses(nap).length === 0, 2000);
  });

  test("[ST2] abort ends grandchildren and setsid children within 2 s", async () => {
    const nap = uniqueSleep();
    const stop = new AbortController();
    const running = call({ command: `(setsid ${nap} &); setsid sh -c '${nap} & ${nap}' & (${nap} &); ${nap}` }, { signal: stop.signal });
    await waitFor("all to run", () => findProcesses(nap).length >= 5);
    const stoppedAt = Date.now();
    stop.abort();
    expect(await running).toMatchObject({ isError: true, text: expect.stringContaining("[stopped after") });
    expect(Date.now() - stoppedAt).toBeLessThan(2000);
    await waitFor("all to be gone", () => findProcesses(nap).length === 0, 2000);
  });

  test("[ST2] does not start after a stop", async () => {
    const result = await call({ command: "touch made" }, { signal: AbortSignal.abort() });
    expect(result.isError).toBe(true);
    expect(existsSync(join(bench.workspace, "made"))).toBe(false);
  });

  test("[TL5] nothing a command left in the background outlives it", async () => {
    const nap = uniqueSleep();
    expect((await call({ command: `(setsid ${nap} &); ${nap} & echo done` })).text).toMatch(/^done\n\n\[exit code 0/);
    await waitFor("all to be gone", () => findProcesses(nap).length === 0, 2000);
  });

  test("[OB2] passes the last line on as progress, escaped", async () => {
    const seen: string[] = [];
    await call({ command: "printf '\\033[31mtwo\\t\\a end\\n'" }, { progress: (text: string) => seen.push(text) });
    expect(seen[0]).toBe("two\\t\\u{7} end");
  });
});

describe.skipIf(!sandbox.available)(`exec limits${why}`, () => {
  const exec = createExecTool({ sandbox, ...EXEC_DEFAULTS });

  it("[TL5] a command that starts process after process is ended, with all of them", async () => {
    const nap = uniqueSleep();
    // Grows like a fork bomb, from many parents at once, but stops by itself at 1500: a broken limit must not take the machine.
    const command = `for p in $(seq 30); do (for n in $(seq 50); do ${nap} & done; wait) & done; wait`;
    const result = await bench.call(exec, { command, timeoutSeconds: 20 });
    expect(result).toMatchObject({ isError: true });
    expect(result.text).toMatch(/more than 512 processes|Resource temporarily unavailable/);
    await waitFor("all to be gone", () => findProcesses(nap).length === 0, 5000);
  });

  it("[RO2] /scratch of a read-only session lasts from one command to the next, and is its own", async () => {
    const lasting = createExecTool({
      sandbox,
      ...EXEC_DEFAULTS,
      scratchRoot: join(bench.outer, "scratch"),
    });
    await bench.call(lasting, { command: "echo built > /scratch/out" }, { readOnly: true });
    expect((await bench.call(lasting, { command: "cat /scratch/out" }, { readOnly: true })).text).toContain("built");
    const other = { readOnly: true, sessionId: "7c9a1a0e-0000-4000-8000-000000000000" };
    expect((await bench.call(lasting, { command: "cat /scratch/out" }, other)).isError).toBe(true);
  });

  it("[ST2] kill -9 of the gateway takes its commands along", async () => {
    const nap = uniqueSleep();
    const script = `
      import { createExecTool } from ${JSON.stringify(new URL("../../../src/tools/exec.ts", import.meta.url).href)};
      import { callTool } from ${JSON.stringify(new URL("../../support/tool-context.ts", import.meta.url).href)};
      const tool = createExecTool({ sandbox: ${JSON.stringify(sandbox)}, ...${JSON.stringify(EXEC_DEFAULTS)} });
      await callTool(tool, { command: ${JSON.stringify(`setsid ${nap} & ${nap}`)} }, { workspace: ${JSON.stringify(bench.workspace)} });`;
    const gateway = spawn(process.execPath, ["--input-type=module", "-e", script], { stdio: "ignore" });
    const gone = once(gateway, "exit");
    await waitFor("all to run", () => findProcesses(nap).length >= 4);
    gateway.kill("SIGKILL");
    await gone;
    await waitFor("all to be gone", () => findProcesses(nap).length === 0, 2000);
  });
});

describe("limits", () => {
  it("[RO2] on the host a read-only role gets no command", async () => {
    const exec = createExecTool({ sandbox: none, ...EXEC_DEFAULTS, unsandboxed: true });
    const result = await bench.call(exec, { command: "touch made" }, { readOnly: true });
    expect(result).toMatchObject({ isError: true, text: expect.stringContaining("only read") });
    expect(existsSync(join(bench.workspace, "made"))).toBe(false);
  });

  it.skipIf(process.platform !== "linux")("[TL5] a process whose watch finds that it takes too much memory is ended", async () => {
    const result = await runProcess({
      command: process.execPath,
      args: ["-e", "const kept = []; setInterval(() => kept.push(Buffer.alloc(10_000_000, 1)), 5)"],
      env: {},
      cwd: "/",
      timeoutMs: 20_000,
      limits: { processes: 64, outputBytes: 1000 },
      watch: ({ memoryBytes }) => ((memoryBytes ?? 0) > 300_000_000 ? "it holds too much" : null),
      signal: new AbortController().signal,
      onOutput() {},
    });
    expect(result).toMatchObject({ end: "watch", reason: "it holds too much" });
  });
});
