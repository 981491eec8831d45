// What may happen to the process itself: errors nobody caught, a stop in the middle of many runs, a log that can't be
// written, a tree of runs that wants more places than there are. It goes on, or starts again, with everything it had.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, mkdirSync, mkdtempSync, openSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { describe, expect, it } from "vitest";
import { calls, child, plan, spawns } from "../support/brain.ts";
import { createHarness, NODE, START } from "../support/harness.ts";
import { createScene } from "../support/scene.ts";
import { waitFor } from "../support/wait.ts";

const isLinux = process.platform === "linux";

/** Processes whose command line has this text. */
function processes(text: string): string[] {
  return readdirSync("/proc").filter((pid) => {
    try {
      return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ").includes(text);
    } catch {
      return false; // it ended meanwhile
    }
  });
}

describe("errors nobody caught", () => {
  /** Loaded before the program: SIGUSR2 breaks something inside it, once as a promise and then as an exception. */
  const BREAKER = `let n = 0; process.on("SIGUSR2", () => {
    if (n++ === 0) Promise.reject(new Error("planted rejection"));
    else throw new Error("planted exception");
  });`;

  it("[RC1] PROC-011 a rejection is logged and work goes on; an exception ends it, and the next start has everything", async () => {
    const preload = `data:text/javascript,${encodeURIComponent(BREAKER)}`;
    await using herald = await createHarness({ env: { NODE_OPTIONS: `--import=${preload}` }, expectsErrors: true });
    process.kill(herald.pid(), "SIGUSR2");
    await waitFor("the report", () => /planted rejection.*nobody listened/.test(herald.output()));
    await herald.say("hello");
    await herald.reply(/offline model/);
    await herald.say("wait 60 seconds");
    await waitFor("the turn", () => herald.rows("SELECT id FROM inbox WHERE attempts = 1 AND state <> 'done'").length === 1);
    await herald.say("what is 6 * 7?");
    process.kill(herald.pid(), "SIGUSR2");
    // Not half dead: it is gone, and said why.
    await herald.exited();
    await waitFor("its last words", () => /planted exception[^\n]*uncaught/.test(herald.output()));
    await herald.restart();
    await waitFor("the turn again", () => herald.rows("SELECT id FROM inbox WHERE attempts = 2 AND state <> 'done'").length === 1);
    expect(herald.rows("SELECT id FROM inbox WHERE state = 'waiting'").length).toBeGreaterThanOrEqual(1);
    await herald.say("/stop");
    await herald.reply(/^⚙️ Agent was aborted/);
  });
});

describe.skipIf(!isLinux)("a stop in the middle of many runs", () => {
  it("[RN4] PROC-005 twenty at work, some in a tool: no process stays, and each announces once after the next start", async () => {
    await using scene = await createScene({
      subagents: { maxConcurrent: 20, maxChildrenPerSession: 20 },
      config: { tools: { exec: { unsandboxed: true } } },
    });
    const chat = scene.chat();
    const seconds = 4_000 + Math.floor(Math.random() * 1_000_000) / 1_000;
    const inTool = [calls(["exec", { command: ["sleep", String(seconds)], timeoutSeconds: 600 }]), { text: "after the tool" }];
    const children = Array.from({ length: 20 }, (_, n) => child(`run ${n}`, n < 2 ? inTool : [{ text: `result ${n}`, hold: "go" }]));
    await chat.act([spawns(...children)]);
    await waitFor("all at work", () => scene.model.open === 18 && processes(`sleep ${seconds}`).length >= 2);
    expect(await scene.herald.stop()).toBe(0);
    await waitFor("the tools to be gone", () => processes(`sleep ${seconds}`).length === 0);
    expect(new Set(chat.runs().map((run) => run.state))).toEqual(new Set(["running"]));
    scene.release("go");
    await scene.herald.restart();
    await waitFor("every announcement", async () => (await chat.announcements()).length === 20, 60_000);
    const heads = (await chat.announcements()).map(({ text }) => text.split("\n")[0]).sort();
    expect(heads).toEqual(children.map((one) => `**Sub-agent: ${one.label}**`).sort());
    expect(scene.herald.rows("SELECT DISTINCT state, crashes FROM runs")).toEqual([{ state: "done", crashes: 0 }]);
  });
});

describe.skipIf(!isLinux)("a log that can't be written", () => {
  const CONFIG = '{ web: { port: 0 }, models: { probeLocal: false }, logging: { level: "debug" } }';

  interface Logging {
    readonly dir: string;
    readonly origin: string;
    reload(): void;
    stop(): Promise<number | null>;
    kill(): void;
  }

  /** The program with its log on an open file; the rest of its output is read here. */
  async function launch(dir: string, logFd: number): Promise<Logging> {
    mkdirSync(join(dir, "config"));
    writeFileSync(join(dir, "config/herald.json5"), CONFIG, { mode: 0o600 });
    const env = { PATH: process.env.PATH, HOME: dir, HERALD_STATE_DIR: join(dir, "state") };
    const herald = spawn(NODE, [START, "start"], { cwd: dir, env, stdio: ["ignore", "pipe", logFd] });
    const exited = once(herald, "exit");
    let output = "";
    herald.stdout?.on("data", (data: Buffer) => {
      output += data.toString();
    });
    const origin = await waitFor("the page", () => /^Page: +(http:\/\/[^\s/]+)/m.exec(output)?.[1]);
    return {
      dir,
      origin,
      reload: () => void herald.kill("SIGHUP"),
      async stop() {
        herald.kill("SIGTERM");
        return (await exited)[0] as number | null;
      },
      kill: () => void herald.kill("SIGKILL"),
    };
  }

  async function withLog(path: string, work: (herald: Logging) => Promise<void>): Promise<void> {
    const dir = mkdtempSync(join(tmpdir(), "herald-log-"));
    const logFd = openSync(resolve(dir, path), "a");
    const herald = await launch(dir, logFd);
    try {
      for (let n = 0; n < 3; n++) {
        herald.reload();
        expect((await fetch(`${herald.origin}/healthz`)).status).toBe(200);
      }
      await work(herald);
      expect(await herald.stop()).toBe(0);
    } finally {
      herald.kill();
      closeSync(logFd);
      rmSync(dir, { recursive: true, force: true });
    }
  }

  it("[OB1] SCALE-010 on a full disk: the gateway works on and stops well", () => withLog("/dev/full", async () => {}));

  it("[OB1] FS-018 cut by whoever rotates it: it goes on at the start, without a hole", () =>
    withLog("herald.log", async (herald) => {
      const path = join(herald.dir, "herald.log");
      await waitFor("a log", () => readFileSync(path, "utf8").includes("settings reloaded"));
      truncateSync(path, 0);
      herald.reload();
      const text = await waitFor("the log to go on", () => readFileSync(path, "utf8"));
      expect(text).toMatch(/^\{"level":/);
      expect(text).not.toContain("\0");
    }));
});

it("[SP5][SP6] SCALE-007 five levels on one place: what is beyond the limits is refused, and nobody waits for ever", async () => {
  await using scene = await createScene({ subagents: { maxConcurrent: 1, maxSpawnDepth: 5, maxChildrenPerSession: 2 } });
  const chat = scene.chat();
  const leaf = (name: string): Record<string, unknown> => child(name, "leaf");
  /** A level that sends out the next one, a leaf, and one too many; then it waits for both. */
  const level = (depth: number): Record<string, unknown> => {
    const below = depth === 5 ? [leaf("too deep")] : [level(depth + 1), leaf(`leaf ${depth}`), leaf(`one too many ${depth}`)];
    const waits =
      depth === 5 ? [] : [calls(["subagents", { action: "wait", ids: [`level ${depth + 1}`, `leaf ${depth}`], timeoutSeconds: 100 }])];
    return child(`level ${depth}`, [spawns(...below), ...waits, { text: `level ${depth} is done` }]);
  };
  await chat.say(plan([spawns(level(1)), { text: "sent" }]));
  expect(await chat.announced("level 1", 60_000)).toContain("level 1 is done");
  const labels = scene.herald.rows<{ label: string; state: string }>("SELECT label, state FROM runs ORDER BY label");
  const expected = [1, 2, 3, 4].map((n) => `leaf ${n}`).concat([1, 2, 3, 4, 5].map((n) => `level ${n}`));
  expect(labels).toEqual(expected.map((label) => ({ label, state: "done" })));
  expect(await chat.announcements()).toHaveLength(1);
});
