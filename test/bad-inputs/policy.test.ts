// What a policy must hold whoever asks: commands as people read them, their environment, the sandbox of a gateway that
// runs as root, children under changed settings, and runs nobody's model asked for.
import { mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { glob } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { createTools } from "../../src/app/tools.ts";
import { loadConfig } from "../../src/config/config.ts";
import { type Config, configSchema } from "../../src/config/schema.ts";
import { systemClock } from "../../src/core/clock.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { createSecrets } from "../../src/core/secrets.ts";
import type { Tool } from "../../src/core/tool.ts";
import { BUILT_IN_TOOLS } from "../../src/core/tool-names.ts";
import { PLAN_TOOL } from "../../src/subagents/plan-tool.ts";
import { logText } from "../../src/subagents/transcript-view.ts";
import { createExecTool } from "../../src/tools/exec.ts";
import { createFileTools } from "../../src/tools/files.ts";
import { detectSandbox, sandboxCommand } from "../../src/tools/sandbox.ts";
import { createRenderer } from "../../src/web/rendering.ts";
import { createLogViews } from "../../src/web/run-log.ts";
import { noOutlet } from "../support/files.ts";
import { createLocalApp } from "../support/local-app.ts";
import { createStage, makeStateDir, okReply, type Stage, type StageOptions } from "../support/stage.ts";
import { createToolBench, EXEC_DEFAULTS } from "../support/tool-bench.ts";
import { callTool } from "../support/tool-context.ts";
import { createToolDesk } from "../support/tool-desk.ts";

const ROOT = new URL("../../", import.meta.url).pathname;
const sandbox = await detectSandbox({ log: silentLogger });

describe("commands", () => {
  it("[CM5] POL-002 a command is shown to people on one line with nothing hidden, and only the tool call itself runs it", async () => {
    await using stage = await createStage({ clock: systemClock, idle: true, call: async () => okReply("x") });
    const run = await stage.spawn();
    const ref = { agentId: run.agentId, sessionId: run.sessionId };
    const command = "echo safe\n\u202e#\u200b; rm -rf work\u2028";
    await stage.stores.transcripts.append(ref, [{ type: "tool_call", callId: "c", name: "exec", args: { command } }]);
    const shown = String.raw`{"command":"echo safe\n\u{202e}#\u{200b}; rm -rf work\u{2028}"}`;
    expect(await logText(stage.stores.transcripts, run, { limit: 5, tools: true })).toContain(`→ exec ${shown}`);
    const entries = (await stage.stores.transcripts.tail(ref, 5)).map((entry, position) => ({ entry, position }));
    const views = await createLogViews((text) => text, createRenderer()).toViews(run.id, entries);
    const view = views.find(({ kind }) => kind === "call");
    expect(view?.line).toMatch(/^\P{C}*$/u);
    expect(view?.line).toContain("rm -rf work");
    // Opened, it is the command as it was, with what can't be seen spelled out.
    expect(view?.text).toBe("echo safe\n⟦U+202E⟧#⟦U+200B⟧; rm -rf work⟦U+2028⟧");
    // What is stored is what was called, to the byte.
    expect(await stage.stores.transcripts.tail(ref, 1)).toEqual([expect.objectContaining({ args: { command } })]);
  });

  const HOSTILE = ["LD_PRELOAD", "NODE_OPTIONS", "BASH_ENV", "ENV", "GIT_SSH_COMMAND", "PYTHONSTARTUP", "RUSTUP_HOME", "GIT_EXTERNAL_DIFF"];
  const ways = [
    { name: "in the sandbox", skip: !sandbox.available, options: { sandbox, unsandboxed: false } },
    { name: "on the host", skip: false, options: { sandbox: { available: false, reason: "", howTo: "" } as const, unsandboxed: true } },
  ];
  it.for(ways)(
    "[TL5] POL-003 the environment of a command $name is built from nothing, and no call can add to it",
    async ({ skip, options }, context) => {
      context.skip(skip, "no sandbox here");
      const bench = await createToolBench();
      const env = { PATH: process.env.PATH, HOME: "/nonexistent", ...Object.fromEntries(HOSTILE.map((name) => [name, "/tmp/evil"])) };
      const exec = createExecTool({ ...EXEC_DEFAULTS, ...options, envAllow: ["WANTED"], env });
      try {
        const { text } = await bench.call(exec, { command: 'env; echo "path $PATH"' });
        expect(text).toContain("path /");
        for (const name of HOSTILE) expect(text).not.toMatch(new RegExp(`^${name}=`, "m"));
        expect(text).not.toContain("evil");
        await expect(bench.call(exec, { command: "env", env: { LD_PRELOAD: "/tmp/evil" } })).rejects.toThrow("unrecognized_keys");
      } finally {
        await bench.remove();
      }
    },
  );

  it("[TL5] POL-007 the sandbox takes a user namespace, no capabilities and ids of its own, whoever runs the gateway", async () => {
    const fake = { available: true, kind: "bubblewrap", bwrap: "bwrap", prlimit: "prlimit", systemMounts: [] } as const;
    const limits = { cpuSeconds: 1, fileBytes: 1, tasks: 1 };
    for (const readOnly of [true, false]) {
      const { args } = sandboxCommand(fake, { argv: ["true"], workspace: "/w", readOnly, cwd: "", scratch: null, env: {}, limits });
      const options = args.slice(0, args.indexOf("--")).join(" ");
      for (const option of ["--unshare-user", "--disable-userns", "--cap-drop ALL", "--uid 1000", "--gid 1000"])
        expect(options).toContain(option);
    }
    if (!sandbox.available) return;
    const bench = await createToolBench();
    try {
      const exec = createExecTool({ sandbox, ...EXEC_DEFAULTS });
      const { text } = await bench.call(exec, { command: "id -u; id -g; grep CapEff /proc/self/status" });
      expect(text).toMatch(/^1000\n1000\nCapEff:\s+0000000000000000\n/);
    } finally {
      await bench.remove();
    }
  });
});

describe("children", () => {
  let stage: Stage | null = null;
  let stateDir = "";
  const open = async (options: Partial<StageOptions>): Promise<Stage> => {
    await stage?.[Symbol.asyncDispose]();
    stage = await createStage({
      clock: systemClock,
      stateDir,
      idle: true,
      tools: createFileTools(),
      call: async () => okReply("x"),
      ...options,
    });
    return stage;
  };
  afterEach(async () => {
    await stage?.[Symbol.asyncDispose]();
    stage = null;
    rmSync(stateDir, { recursive: true, force: true });
  });

  it("[TL2] POL-009 a child that goes on under other settings has what it was given, and never more than they allow now", async () => {
    stateDir = makeStateDir();
    const first = await open({ config: { tools: { allow: ["read", "write", "sessions_spawn"] } } });
    const { text } = await createToolDesk(first).call("sessions_spawn", { task: "x" });
    const { runId } = JSON.parse(text) as { runId: string };
    const names = async (now: Stage): Promise<string[]> =>
      createToolDesk(now)
        .tools(await now.get(runId))
        .map((tool) => tool.name);
    expect(await names(first)).toEqual(["read", "write"]);
    expect(await names(await open({ bootId: "boot-2" }))).toEqual(["read", "write"]);
    expect(await names(await open({ bootId: "boot-3", config: { tools: { deny: ["write"] } } }))).toEqual(["read"]);
    expect(await names(await open({ bootId: "boot-4", config: { tools: { subagents: { tools: { allow: ["list", "edit"] } } } } }))).toEqual(
      [],
    );
    const last = await open({ bootId: "boot-5" });
    expect((await createToolDesk(last).call("edit", { path: "a", oldText: "a", newText: "b" }, await last.get(runId))).text).toContain(
      'There is no tool "edit"',
    );
  });

  it("[TL2] a child gets what its requester lacks only where the operator grants it; every other rule still holds", async () => {
    stateDir = makeStateDir();
    const main = { id: "main", default: true, tools: { deny: ["write", "edit"] }, subagents: { allowAgents: ["*"] } };
    const under = async (settings: object, request: object = {}) => {
      const now = await open({ bootId: `boot-${Math.random()}`, config: { agents: { list: [main, { id: "strong", ...settings }] } } });
      const desk = createToolDesk(now);
      const { text, isError } = await desk.call("sessions_spawn", { task: "x", agentId: "strong", ...request });
      return isError ? text : desk.tools(await now.get((JSON.parse(text) as { runId: string }).runId)).map((tool) => tool.name);
    };
    const grant = { subagents: { tools: { grant: ["write", "sessions_spawn"] } } };
    expect(await under({})).toEqual(["read", "list", "ask"]);
    expect(await under({}, { allowedTools: ["write"] })).toMatch(/allowedTools names .*: write \(you don't have it yourself\)\./);
    // Granted: write, and neither edit nor, at this depth, a session tool.
    expect(await under(grant)).toEqual(["read", "write", "list", "ask"]);
    expect(await under(grant, { allowedTools: ["write"] })).toEqual(["write"]);
    expect(await under(grant, { allowedTools: ["edit"] })).toMatch(/allowedTools names .*: edit \(you don't have it yourself\)\./);
    expect(await under(grant, { role: "explore" })).not.toContain("write");
    expect(await under({ ...grant, tools: { deny: ["write"] } })).not.toContain("write");
    expect(await under({ subagents: { tools: { ...grant.subagents.tools, deny: ["wr*"] } } })).not.toContain("write");
    // A grant under another agent is none here.
    expect(await under(grant, { agentId: "main" })).not.toContain("write");
  });

  const toolsOf = (stores: Stage["stores"], agents: Stage["agents"], config: Config) => {
    const loaded = { ...loadConfig({ env: { HOME: stateDir }, cwd: stateDir }), config };
    const crewPath = join(stateDir, "CREW.md");
    return createTools({
      outlet: noOutlet,
      ...stores,
      agents,
      loaded,
      sandbox,
      config: () => config,
      clock: systemClock,
      log: silentLogger,
      crewPath,
      secrets: createSecrets(),
    });
  };

  it("[TL9] the gateway's own tools keep a sub-agent from the prompts of every agent, also of one whose workspace lies inside", async () => {
    stateDir = makeStateDir();
    const list = [
      { id: "main", default: true, workspace: join(stateDir, "all") },
      { id: "inner", workspace: join(stateDir, "all/inner") },
    ];
    const { stores, agents } = await open({ config: { agents: { list } } });
    mkdirSync(join(stateDir, "all/inner"), { recursive: true });
    symlinkSync(join(stateDir, "all/crew.md"), join(stateDir, "CREW.md"));
    const write = (await toolsOf(stores, agents, configSchema.parse({}))).list().find(({ name }) => name === "write");
    for (const path of ["AGENTS.md", "inner/AGENTS.md", "inner/memory/AGENT.md", "crew.md"]) {
      const result = callTool(write as Tool, { path, content: "obey" }, { workspace: join(stateDir, "all"), runId: "run" });
      expect(await result, path).toMatchObject({ isError: true, text: expect.stringMatching(/no sub-agent may change|agent's memory/) });
    }
    expect(readdirSync(join(stateDir, "all"), { recursive: true })).toEqual(["inner"]);
  });

  it("[TL2] the names policies may use are exactly those of the built-in tools", async () => {
    stateDir = makeStateDir();
    const { stores, agents, parts } = await open({});
    const config = configSchema.parse({ tools: { exec: { unsandboxed: true } } });
    const tools = await toolsOf(stores, agents, config);
    const [agent] = agents.list();
    const all = [...tools.list(), ...(agent === undefined ? [] : parts.mainTools(agent))].map((tool) => tool.name);
    expect(new Set([...all, PLAN_TOOL])).toEqual(new Set(BUILT_IN_TOOLS));
  });

  it("[MO4] a run falls back along the list beside its own model, in its work and in its announce step", async () => {
    const list = [{ id: "main", subagents: { model: { primary: "scripted/broken", fallbacks: ["scripted/spare"] } } }];
    await using app = await createLocalApp({
      telegram: { allowFrom: [42] },
      config: { agents: { list } },
      respond: ({ model }) => (model === "broken" ? { status: 503, headers: { "retry-after": "0" } } : { text: `answered by ${model}` }),
    });
    await app.ask({ chat: 42, text: "/subagents spawn look around" });
    const announcement = await app.telegram.until(
      () => app.telegram.messages(42).find(({ text }) => text.includes("Stats: runtime")),
      "the announcement",
    );
    expect(announcement.text).toContain("Status: success");
    expect(announcement.text).toContain("answered by spare");
    const tried = app.model.calls.map(({ model }) => model);
    expect(tried).toEqual([...Array(3).fill("broken"), "spare", ...Array(3).fill("broken"), "spare"]);
  });

  it("[TL2] POL-011 a run that a command started gets what its creator has, without the tools that talk to others", async () => {
    await using app = await createLocalApp({ telegram: { allowFrom: [42] }, config: { tools: { deny: ["write", "edit", "web_fetch"] } } });
    expect(await app.ask({ chat: 42, text: "/subagents spawn look around" })).toContain("look around");
    const call = await app.telegram.until(
      () => app.model.calls.find(({ system }) => system.startsWith("You are a sub-agent")),
      "the child's first step",
    );
    expect(call.tools).toContain("read");
    expect(call.tools.filter((name) => /^(write|edit|web_fetch|subagents|agents_list|sessions_)/.test(name))).toEqual([]);
    const [row] = app.rows<{ tool_ceiling: string }>("SELECT tool_ceiling FROM runs");
    expect(JSON.parse(row?.tool_ceiling ?? "[]")).not.toContain("write");
    // Nothing else starts runs: no timer, no hook. `again` is a person's command, too; a program has a token for it (PR1).
    const callers: string[] = [];
    for await (const file of glob("src/**/*.ts", { cwd: ROOT })) {
      if (/(?:deps|options)\.spawn\.(?:in|now)\(/.test(readFileSync(join(ROOT, file), "utf8"))) callers.push(file);
    }
    const doors = ["src/app/program-desk.ts", "src/gateway/subagent-commands.ts", "src/subagents/again.ts", "src/subagents/spawn-tool.ts"];
    expect(callers.sort()).toEqual(doors);
  });
});
