// Arguments of sessions_spawn that no requester should get away with, called as a turn calls them, on real stores.
import { mkdirSync, readdirSync, rmSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import { silentLogger } from "../../src/core/logger.ts";
import type { Run } from "../../src/core/run.ts";
import type { ModelReply, ModelRequest } from "../../src/models/model.ts";
import { checkModelName } from "../../src/models/resolve.ts";
import { createExecTool } from "../../src/tools/exec.ts";
import { createFileTools } from "../../src/tools/files.ts";
import { detectSandbox } from "../../src/tools/sandbox.ts";
import { createDoor } from "../support/channel-scene.ts";
import { createManualClock } from "../support/manual-clock.ts";
import { CHAT_KEY } from "../support/runs.ts";
import { createStage, makeStateDir, okReply, type Stage, type StageOptions } from "../support/stage.ts";
import { EXEC_DEFAULTS } from "../support/tool-bench.ts";
import { createToolDesk, type Outcome, type ToolDesk } from "../support/tool-desk.ts";
import { allOf, waitFor } from "../support/wait.ts";

let stateDir: string;
let stage: Stage;
let desk: ToolDesk;

const open = async (options: Partial<StageOptions> = {}): Promise<void> => {
  const tools = createFileTools();
  stage = await createStage({ clock: systemClock, stateDir, idle: true, tools, call: async () => okReply("done"), ...options });
  desk = createToolDesk(stage);
};
const reopen = async (options: Partial<StageOptions>): Promise<void> => {
  await stage[Symbol.asyncDispose]();
  await open(options);
};
beforeEach(() => {
  stateDir = makeStateDir();
});
afterEach(async () => {
  await stage[Symbol.asyncDispose]();
  rmSync(stateDir, { recursive: true, force: true });
});

const spawn = (args: unknown, as?: Run): Promise<Outcome> => desk.call("sessions_spawn", args, as);
const count = async (): Promise<number> => (await stage.stores.db.get<{ n: number }>("SELECT count(*) AS n FROM runs"))?.n ?? -1;
const files = (): number => readdirSync(stateDir, { recursive: true }).filter((name) => String(name).includes(".jsonl")).length;
const accepted = async (args: Record<string, unknown>, as?: Run): Promise<Run> => {
  const { text, isError } = await spawn(args, as);
  if (isError) throw new Error(text);
  return stage.get((JSON.parse(text) as { runId: string }).runId);
};

/** Refused with these words, and nothing is left of it. */
async function refused(args: unknown, ...words: (string | RegExp)[]): Promise<void> {
  const before = [await count(), files()];
  const { text, isError } = await spawn(args);
  expect(isError, text.slice(0, 200)).toBe(true);
  for (const word of words) expect(text).toMatch(word);
  expect([await count(), files()]).toEqual(before);
}

describe("parameters", () => {
  beforeEach(async () => {
    await open();
    await accepted({ task: "the folder is there" });
  });

  it("[SP1] SPAWN-001 without a task there is no run", async () => {
    for (const args of [{}, undefined, { label: "x" }, { task: " \n" }])
      await refused(args, /task is required/, /Accepted: task,.*\btasks\b/);
    await refused({ task: 7 }, /expected string/);
  });

  it("[SP1] SPAWN-015 an unknown thinking level is refused, naming those there are", () =>
    refused({ task: "x", model: "scripted/x", thinking: "ultra-max" }, /thinking/, /"off"\|.*"high"/));

  it("[SP1] SPAWN-017 a task of 5 MB is refused, naming the cap", async () => {
    const task = "x".repeat(5 * 1024 * 1024);
    const before = process.memoryUsage().heapUsed;
    await refused({ task }, /task is longer than 256 KB/);
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(50e6);
    expect((await spawn({ task: "x".repeat(256 * 1024) })).isError).toBe(false);
  });

  it("[SP1] SPAWN-022 there are no attachments: a path can't be handed over, whatever it names", async () => {
    const paths = ["/root/.ssh/id_rsa", "~/.ssh/id_rsa", "link"];
    for (const path of paths) await refused({ task: "x", attachments: [{ path }] }, /Unrecognized key: "attachments"/, /Accepted: task/);
  });

  it("[TL7] SPAWN-016 a child works in its agent's workspace: cwd is no parameter, and exec leaves it by no path or link", async () => {
    for (const cwd of ["/etc", "~", "workspace/../.."]) await refused({ task: "x", cwd }, /Unrecognized key: "cwd"/);
    const workspace = stage.agents.find("main")?.workspace ?? "";
    mkdirSync(workspace, { recursive: true });
    symlinkSync("/", join(workspace, "root"));
    const sandbox = await detectSandbox({ log: silentLogger });
    const exec = createExecTool({ sandbox, ...EXEC_DEFAULTS, unsandboxed: true });
    await reopen({ tools: exec === null ? [] : [exec] });
    for (const cwd of ["/etc", "~", "workspace/../..", "root", "root/etc"]) {
      const { isError, text } = await desk.call("exec", { command: ["touch", "made"], cwd });
      expect([isError, text.includes("exit code")], cwd).toEqual([true, false]);
    }
  });

  it("[MO2] SPAWN-014 an unknown model is skipped with a warning that names the known ones; the run is whole", async () => {
    await reopen({ checkName: (name) => checkModelName(name, ["scripted"]) });
    const { text } = await spawn({ task: "x", model: "provider/unknown" });
    const { runId, warning } = JSON.parse(text) as { runId: string; warning: string };
    expect(warning).toMatch(/^Unknown provider provider: known are anthropic, .*scripted.* Using scripted\/model-1 instead\.$/);
    expect(await stage.get(runId)).toMatchObject({ state: "queued", model: "scripted/model-1" });
  });
});

describe("what it may do", () => {
  it("[TL2] SPAWN-009 wildcards and misspelt names widen nothing and are listed", async () => {
    await open();
    await accepted({ task: "the folder is there" });
    for (const name of ["*", "group:all", "EXEC", "read ", "sessions", "__proto__"]) {
      await refused(
        { task: "x", allowedTools: ["read", name] },
        `allowedTools names what this sub-agent can't have: ${name} (there is no such tool). It can have: read, write, `,
      );
    }
    await refused({ task: "x", tools: ["*"] }, /Unrecognized key: "tools"/);
    const narrow = await accepted({ task: "x", allowedTools: ["read"] });
    expect(desk.tools(narrow).map(({ name }) => name)).toEqual(["read"]);
  });

  it("[SP4] SPAWN-005 a blank agent id is the requester's own agent and passes no list", async () => {
    const list = [{ id: "main", default: true, subagents: { allowAgents: [] } }, { id: "strong" }];
    const config = { agents: { list } };
    await open({ config });
    for (const agentId of ["", " ", null, undefined]) expect((await accepted({ task: "x", agentId })).agentId).toBe("main");
    await refused({ task: "x", agentId: "strong" }, /"status":"forbidden"/, /can't be used here\. Allowed: main/);
    await refused({ task: "x", agentId: " strong " }, /"status":"forbidden"/);
  });

  it("[TL2] SPAWN-006 a child is never less confined than its requester, whatever agent or role it runs under", async () => {
    const seen = new Map<string, boolean>();
    const exec = createExecTool({
      sandbox: { available: false, reason: "none", howTo: "none" },
      ...EXEC_DEFAULTS,
      unsandboxed: true,
      timeoutSeconds: 60,
      envAllow: [],
    });
    if (exec === null) throw new Error("no exec");
    const spy = {
      ...exec,
      run: async (args: unknown, context: { sessionKey: string; readOnly: boolean }) => {
        seen.set(context.sessionKey, context.readOnly);
        return { text: String(args) };
      },
    };
    const list = [{ id: "main", default: true, tools: { deny: ["write", "edit"] }, subagents: { allowAgents: ["*"] } }, { id: "strong" }];
    const call = async ({ messages }: ModelRequest): Promise<ModelReply> =>
      messages.some(({ role }) => role === "tool")
        ? okReply("done")
        : { ...okReply(""), toolCalls: [{ id: "c", name: "exec", args: { command: "true" } }], finish: "tool-calls" };
    const tools = [...createFileTools(), spy];
    await open({ config: { agents: { list } }, subagents: { maxSpawnDepth: 3 }, tools, call, idle: false });
    const strong = await accepted({ task: "x", agentId: "strong" });
    expect(desk.tools(strong).map(({ name }) => name)).not.toEqual(expect.arrayContaining(["write"]));
    // A reader's child gets the reader's shell, whatever its own role says.
    const reader = await accepted({ task: "x", agentId: "strong", role: "explore" });
    const below = await accepted({ task: "x", role: "general" }, reader);
    const deeper = await accepted({ task: "x", role: "implementer" }, below);
    await waitFor("all to end", () => allOf([strong, reader, below, deeper], async (run) => (await stage.get(run.id)).endedAt !== null));
    expect([strong, reader, below, deeper].map((run) => seen.get(run.childKey))).toEqual([false, true, true, true]);
  });

  it("[SP5] SPAWN-011 a child taken up after a restart meets the same depth, from the record", async () => {
    await open({ subagents: { maxSpawnDepth: 2 } });
    const first = await accepted({ task: "x" });
    const second = await accepted({ task: "x" }, first);
    const before = await spawn({ task: "x" }, second);
    expect(before).toEqual({ isError: true, text: expect.stringContaining('There is no tool "sessions_spawn"') });
    const direct = () => stage.parts.spawn.now({ ...requesterOf(second), tools: ["read"] }, { task: "x" });
    expect(await direct()).toMatchObject({ status: "forbidden", error: expect.stringContaining("depth 2 can't spawn") });
    await reopen({ subagents: { maxSpawnDepth: 2 }, bootId: "boot-2" });
    expect(await spawn({ task: "x" }, await stage.get(second.id))).toEqual(before);
    expect(await direct()).toMatchObject({ status: "forbidden", error: expect.stringContaining("depth 2 can't spawn") });
    expect((await spawn({ task: "x" }, await stage.get(first.id))).isError).toBe(false);
  });
});

let keys = 0;
const requesterOf = (run: Run) => ({
  person: null,
  turnId: "turn",
  ...{ sessionKey: run.childKey, sessionId: run.sessionId, agentId: run.agentId, runId: run.id, address: run.address },
  spawnKey: `direct:${++keys}`,
});

describe("many and early", () => {
  it("[SP6] SPAWN-020 fifty spawns in one step: exactly the cap is accepted, each once, the rest hears why", async () => {
    const started = new Map<string, number>();
    // None ends and frees its place before all fifty are answered.
    const door = createDoor();
    const call = async ({ system, messages }: ModelRequest): Promise<ModelReply> => {
      const task = messages[0]?.role === "user" ? messages[0].text : "";
      const isAnnounce = messages.at(-1)?.text.startsWith("Your work is over.");
      if (system.startsWith("You are a sub-agent") && !isAnnounce) started.set(task, (started.get(task) ?? 0) + 1);
      await door.opened;
      return okReply("done");
    };
    await open({ subagents: { maxChildrenPerSession: 7 }, call, idle: false });
    const results = await desk.step(Array.from({ length: 50 }, (_, n): [string, unknown] => ["sessions_spawn", { task: `task ${n}` }]));
    door.open();
    const answers = results.map(({ text }) => JSON.parse(text) as { status: string; runId: string; error: string });
    const taken = answers.filter(({ status }) => status === "accepted");
    expect(taken).toHaveLength(7);
    for (const { status, error } of answers.filter((one) => !taken.includes(one))) {
      expect(status).toBe("forbidden");
      expect(error).toMatch(/maxChildrenPerSession 7.*stop one/);
    }
    await waitFor("all to end", () => allOf(taken, async ({ runId }) => (await stage.get(runId)).state === "done"));
    expect([...started.values()]).toEqual(Array(7).fill(1));
    expect(await stage.stores.runs.listOf(CHAT_KEY, 100)).toHaveLength(7);
  });

  it("[AR3] SPAWN-013 cleanup delete keeps the transcript until the announcement has arrived", async () => {
    const clock = createManualClock();
    // Idle: nothing is delivered before the second opening.
    await open({ clock, idle: true });
    const run = await accepted({ task: "x", cleanup: "delete" });
    await stage.stores.runs.start(run.id);
    const names = (): string[] => readdirSync(join(stateDir, "agents/main/sessions")).filter((name) => name.startsWith(run.sessionId));
    await stage.parts.runner.work(run.id);
    expect(await stage.get(run.id)).toMatchObject({ state: "done", delivery: "pending", settledAt: null });
    const over = new AbortController();
    const looking = stage.parts.archiver.run(over.signal);
    await clock.advance(10 * 60_000);
    over.abort();
    await looking;
    expect(names()).toContain(`${run.sessionId}.jsonl`);
    await reopen({ clock, idle: false });
    await waitFor("the archive", async () => (await stage.get(run.id)).archivedAt !== null);
    expect((await stage.get(run.id)).delivery).toBe("delivered");
    expect(names().some((name) => name.startsWith(`${run.sessionId}.jsonl.deleted.`))).toBe(true);
    expect(names()).not.toContain(`${run.sessionId}.jsonl`);
  });
});
