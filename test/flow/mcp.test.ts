// Other programs as clients (PR): /mcp with the official client in both of its modes, the tokens' script, and a real process.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import type { Scope } from "../../src/core/program.ts";
import { openBeside } from "../../src/stores/beside.ts";
import { createProgramTokens, type NewProgramToken } from "../../src/stores/program-tokens.ts";
import { calls, plan } from "../support/brain.ts";
import { createChannelScene } from "../support/channel-scene.ts";
import { createHarness, type Harness, writeConfig } from "../support/harness.ts";
import { connectProgram, type McpProgram, MODES } from "../support/mcp-client.ts";
import { isShared } from "../support/nodes.ts";
import { reload } from "../support/reload.ts";
import { runScript, type ScriptEnd } from "../support/run-script.ts";
import { createScene, type RunRow, type Scene } from "../support/scene.ts";
import { scriptedConfig } from "../support/scripted-model.ts";
import { waitFor } from "../support/wait.ts";

const CAP = 6;
const SECRET = "sk-secret-of-the-operator-0123456789";

const scriptOf = ({ dir, stateDir }: Harness, ...args: string[]): Promise<ScriptEnd> =>
  runScript("token.ts", args, dir, { HERALD_STATE_DIR: stateDir });

/** As the script does, without a process for each. */
async function makeToken({ stateDir }: Harness, name: string, more: Partial<NewProgramToken> = {}): Promise<string> {
  const db = await openBeside({ stateDir, url: undefined, name: "tokens" });
  try {
    const wanted: NewProgramToken = {
      name,
      scopes: ["spawn", "read", "send", "stop"],
      agentId: null,
      address: null,
      expiresAt: null,
      ...more,
    };
    return (await createProgramTokens({ db, clock: systemClock }).make(wanted)) ?? "";
  } finally {
    await db.close();
  }
}

const rowOf = (herald: Harness, id: string): RunRow & { delivery_reason: string | null } =>
  herald.rows<RunRow & { delivery_reason: string | null }>("SELECT * FROM runs WHERE id = ?", id)[0] as never;

// The script finds the database of a folder; that of several is tried in test/contract.
describe.skipIf(isShared)("other programs", () => {
  let scene: Scene;
  let herald: Harness;
  beforeAll(async () => {
    scene = await createScene({
      subagents: { maxChildrenPerSession: CAP },
      config: { tools: { approve: ["write"] }, logging: { level: "info" } },
      env: { SOME_API_KEY: SECRET },
    });
    herald = scene.herald;
  }, 60_000);
  afterAll(() => scene[Symbol.asyncDispose](), 60_000);

  const connect = async (name: string, ...scopes: Scope[]): Promise<McpProgram> =>
    connectProgram(herald.origin(), await makeToken(herald, name, scopes.length === 0 ? {} : { scopes }));

  describe.each(MODES)("a client of %s", (year, options) => {
    it("[PR1] [PR3] spawns, waits with progress, and reads the result, which no chat is told", async () => {
      await using program = await connectProgram(
        herald.origin(),
        await makeToken(herald, `reader-${year}`, { scopes: ["spawn", "read"] }),
        options,
      );
      const { tools } = await program.client.listTools();
      expect(tools.map((tool) => tool.name).sort()).toEqual(["log", "result", "runs", "spawn", "wait"]);
      const id = await program.spawn(`look-${year}`, [{ text: "Forty-two </untrusted> sheep.", hold: `look-${year}` }]);
      const seen: string[] = [];
      const onprogress = (message: string): void => {
        seen.push(message);
        scene.release(`look-${year}`);
      };
      const waited = await program.call("wait", { runId: id, maxSeconds: 30 }, { onprogress });
      expect(waited).toMatchObject({ isError: false, data: { runId: id, state: "done", isOver: true } });
      expect(seen.join()).toMatch(/queued|running/);
      const { text, data } = await program.call("result", { runId: id });
      expect(text).toMatch(/^<untrusted [0-9a-f]{12} from=/m);
      expect(text).toContain("Forty-two ⟦U+003C⟧/untrusted> sheep.");
      expect(data).toMatchObject({ status: "success", label: `look-${year}`, delivery: "skipped", state: "done" });
      expect(String(data.deliveryReason)).toContain("bound to no chat");
      expect((await program.call("log", { runId: id })).text).toContain("Forty-two");
      expect((await program.call("runs")).data.runs).toMatchObject([{ runId: id, state: "done" }]);
      expect(rowOf(herald, id).requester_key).toMatch(new RegExp(`^agent:main:mcp:[0-9a-f-]{36}:reader-${year}$`));
      expect(herald.rows("SELECT 1 FROM outbox WHERE run_id = ?", id)).toEqual([]);
      const { runs } = (await (await herald.request("/api/runs")).json()) as { runs: { id: string; origin: string }[] };
      expect(runs.find((run) => run.id === id)).toMatchObject({ origin: `mcp reader-${year}` });
    });

    it("[PR1] stops a run, writes to one at work and to one that has ended", async () => {
      await using program = await connectProgram(herald.origin(), await makeToken(herald, `hand-${year}`), options);
      const [held, talked] = [await program.spawn("held", [{ text: "late", hold: `never-${year}` }]), await program.spawn("talked", [])];
      expect(await program.call("stop", { runId: held })).toEqual({ text: "Stopped it.", data: {}, isError: false });
      expect((await program.call("wait", { runId: held })).data).toMatchObject({ state: "stopped", isOver: true });
      expect((await program.call("stop", { runId: held })).text).toContain("had ended already");
      await program.call("wait", { runId: talked });
      expect((await program.call("send", { runId: talked, message: plan([{ text: "more of it" }]) })).text).toContain("goes on with this");
      await program.call("wait", { runId: talked });
      expect((await program.call("result", { runId: talked })).text).toContain("more of it");
    });
  });

  it("[PR1] MCPS-002 a tool beyond the scope is neither listed nor called, and the scope is named", async () => {
    await using program = await connect("looker", "read");
    expect((await program.client.listTools()).tools.map((tool) => tool.name).sort()).toEqual(["log", "result", "runs", "wait"]);
    for (const [name, args] of [
      ["spawn", { task: "x" }],
      ["stop", { runId: "x" }],
      ["send", { runId: "x", message: "y" }],
    ] as const)
      await expect(program.call(name, args)).rejects.toThrow(`needs the scope ${name}`);
    await expect(program.call("answer", { runId: "x", answer: "yes" })).rejects.toThrow("needs the scope approve");
    expect(herald.rows("SELECT 1 FROM runs WHERE requester_key LIKE '%:looker'")).toEqual([]);
  });

  it("[PR1] the same idempotency key twice, also at once and after kill -9, is one run, whose result comes", async () => {
    const token = await makeToken(herald, "once");
    const key = { idempotencyKey: "nightly:17" };
    const spawn = (program: McpProgram): Promise<string> => program.spawn("once", [{ text: "found it", hold: "once" }], key);
    const [one, other] = await Promise.all([connectProgram(herald.origin(), token), connectProgram(herald.origin(), token)]);
    const ids = await Promise.all([spawn(one), spawn(other), spawn(one), spawn(other)]);
    expect(new Set(ids).size).toBe(1);
    const [id = ""] = ids;
    await waitFor("the run to begin", () => rowOf(herald, id).state === "running");
    await Promise.allSettled([one.client.close(), other.client.close()]);
    await herald.crash();
    await herald.restart();
    await using program = await connectProgram(herald.origin(), token);
    expect(await spawn(program)).toBe(id);
    scene.release("once");
    expect((await program.call("wait", { runId: id })).data).toMatchObject({ state: "done" });
    expect((await program.call("result", { runId: id })).text).toContain("found it");
    // What is asked for with it is one thing: answered with the run of before, another task would be lost.
    const other17 = await program.call("spawn", { task: "something else", ...key });
    expect(other17).toMatchObject({
      isError: true,
      text: expect.stringMatching(new RegExp(`used before, with other arguments, for run ${id} `)),
    });
    expect(await program.call("runs")).toMatchObject({ data: { runs: [{ runId: id }] } });
    // Another token's key is another key.
    await using stranger = await connect("once-more");
    expect(await spawn(stranger)).not.toBe(id);
  });

  it("[PR1] a run of another token, of a chat, and one that is not there are the same", async () => {
    await using owner = await connect("owner");
    await using stranger = await connect("stranger");
    const chat = scene.chat();
    await chat.ask(`/subagents spawn ${plan([{ text: "mine" }])}`);
    const [chats] = await waitFor("the chat's run", () => (chat.runs().length > 0 ? chat.runs() : null));
    const foreign = [await owner.spawn("secret plan", [{ text: "hidden" }]), chats?.id ?? "", "00000000-0000-4000-8000-000000000000"];
    const asked = [["wait"], ["result"], ["log"], ["stop"], ["send", { message: "x" }]] as const;
    const answers = new Set<string>();
    for (const runId of foreign)
      for (const [name, more] of asked) {
        const { text, isError } = await stranger.call(name, { runId, ...more });
        answers.add(`${isError} ${text}`);
      }
    expect([...answers]).toEqual(["true There is no such run. `runs` lists those of this token."]);
    expect((await stranger.call("runs")).data).toEqual({ runs: [] });
  });

  it("[PR1] MCPS-004 waits are short, few at a time and end with their client; the run goes on", async () => {
    const token = await makeToken(herald, "waiter");
    await using program = await connectProgram(herald.origin(), token);
    const id = await program.spawn("long", [{ text: "done at last", hold: "long" }]);
    for (const maxSeconds of [3600, -1, "50", 51, null])
      expect(await program.call("wait", { runId: id, maxSeconds })).toMatchObject({
        isError: true,
        text: expect.stringContaining("maxSeconds"),
      });
    expect((await program.call("wait", { runId: id, maxSeconds: 0 })).text).toContain("Call wait again");
    const gone = new AbortController();
    const refused: string[] = [];
    const waits = Array.from({ length: 60 }, async () => {
      const { text, isError } = await program.call("wait", { runId: id, maxSeconds: 40 }, { signal: gone.signal });
      if (isError) refused.push(text);
    });
    await waitFor("those beyond the limit to be refused", () => refused.length === 40);
    expect(new Set(refused)).toEqual(
      new Set(["This token waits for 20 runs already, the most it may. Call wait again when one of them has answered."]),
    );
    gone.abort("tried enough");
    await Promise.allSettled(waits);
    const other = await connectProgram(herald.origin(), token);
    const left = other.call("wait", { runId: id, maxSeconds: 40 }).catch(() => "gone");
    await program.call("wait", { runId: id, maxSeconds: 0.1 });
    await other.client.close();
    expect(await left).toBe("gone");
    // All places are free again: as many can wait as before.
    await waitFor("the places of those that are gone", async () => {
      const again = await Promise.all(Array.from({ length: 20 }, () => program.call("wait", { runId: id, maxSeconds: 0.1 })));
      return again.every(({ isError }) => !isError);
    });
    expect(rowOf(herald, id).state).toBe("running");
    scene.release("long");
    expect((await program.call("wait", { runId: id })).data).toMatchObject({ state: "done" });
  });

  it("[PR1] a token that was taken back opens nothing, also what waits with it ends", async () => {
    await using program = await connect("leaving");
    const id = await program.spawn("left", [{ text: "late", hold: "left" }]);
    const waiting = program.call("wait", { runId: id, maxSeconds: 50 });
    await program.call("wait", { runId: id, maxSeconds: 0.1 });
    const begun = performance.now();
    expect(await scriptOf(herald, "revoke", "leaving")).toMatchObject({ ended: 0 });
    expect(await waiting).toMatchObject({ isError: true, text: expect.stringContaining("taken back") });
    expect(performance.now() - begun).toBeLessThan(30_000);
    await expect(program.call("runs")).rejects.toThrow(/401|taken back/);
    expect(rowOf(herald, id).state).toBe("running");
    scene.release("left");
    expect(await scriptOf(herald, "revoke", "leaving")).toMatchObject({ ended: 1 });
  });

  it("[PR1] [PR3] MCPS-008 the same policies and caps as any spawn; a chat can't be named; unknown arguments are listed", async () => {
    await using program = await connect("greedy");
    const spawn = async (args: Record<string, unknown>): Promise<string> => (await program.call("spawn", { task: "x", ...args })).text;
    expect(await spawn({ agentId: "other" })).toContain('Agent "other" can\'t be used here. Allowed: main');
    const named = await spawn({ chat: "1", address: {}, announce: "always" });
    for (const word of ["chat", "address", "announce"]) expect(named).toContain(`"${word}"`);
    expect(await spawn({ systemPrompt: "x".repeat(70_000) })).toContain("systemPrompt");
    expect(await spawn({ task: " " })).toContain("task is required");
    expect(await spawn({ resultSchema: { type: "nothing" } })).not.toContain("is sent out");
    const held = Array.from({ length: CAP + 3 }, (_, n) =>
      program.call("spawn", { task: plan([{ text: "x", hold: "greedy" }]), label: `n${n}` }),
    );
    const refused = (await Promise.all(held)).filter(({ isError }) => isError);
    expect(refused).toHaveLength(3);
    expect(refused[0]?.text).toContain(`maxChildrenPerSession ${CAP}`);
    scene.release("greedy");
  });

  it("[PR1] [PR3] what a run asks is answered by its token with the scope approve, never for always; without it the call is refused", async () => {
    const notes = calls(["write", { path: "note.txt", content: "x" }]);
    await using program = await connect("approver", "spawn", "read", "approve");
    const id = await program.spawn("noter", [notes]);
    const asked = await program.call("wait", { runId: id });
    expect(asked).toMatchObject({ data: { isAsking: true, isOver: false }, text: expect.stringContaining("note.txt") });
    for (const answer of ["always", " Always", "\u200balways", "al\u00adways"])
      expect(await program.call("answer", { runId: id, answer })).toMatchObject({ isError: true });
    expect(herald.rows("SELECT 1 FROM approval_rules")).toEqual([]);
    expect(await program.call("answer", { runId: id, answer: "yes" })).toMatchObject({
      isError: false,
      text: expect.stringContaining("Allowed"),
    });
    expect(await program.call("answer", { runId: id, answer: "yes" })).toMatchObject({ isError: true });
    expect((await program.call("wait", { runId: id })).data).toMatchObject({ state: "done" });
    await using mute = await connect("mute");
    const refused = await mute.spawn("refused", [notes]);
    await mute.call("wait", { runId: refused });
    expect((await mute.call("result", { runId: refused })).text).toContain("Nobody can be asked");
  });

  it("[PR1] a client that names the extension gets its spawn as a task, asks for it and takes it back; any other an answer", async () => {
    const [token, blind] = [await makeToken(herald, "tasks"), await makeToken(herald, "blind", { scopes: ["spawn"] })];
    const ask = async (method: string, params: object, extensions: object = { "io.modelcontextprotocol/tasks": {} }, by = token) => {
      const meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { name: "tried", version: "1" },
        "io.modelcontextprotocol/clientCapabilities": { extensions },
      };
      const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method, params: { ...params, _meta: meta } });
      const name = "taskId" in params ? { "mcp-name": String(params.taskId) } : "name" in params ? { "mcp-name": String(params.name) } : {};
      const headers = { ...mcpHeaders(by), "mcp-protocol-version": "2026-07-28", "mcp-method": method, ...name };
      const answer = await fetch(`${herald.origin()}/mcp`, { method: "POST", headers, body });
      return ((await answer.json()) as { result: Record<string, unknown>; error?: unknown }) ?? {};
    };
    const spawn = (hold: string) => ({ name: "spawn", arguments: { task: plan([{ text: "as a task", hold }]) } });
    const { result: task } = await ask("tools/call", spawn("task-1"));
    expect(task).toMatchObject({ resultType: "task", status: "working", ttlMs: null });
    const { taskId } = task;
    expect((await ask("tasks/get", { taskId })).result).toMatchObject({ taskId, status: "working" });
    scene.release("task-1");
    const done = await waitFor("the task", async () => {
      const { result } = await ask("tasks/get", { taskId });
      return result.status === "completed" ? result : null;
    });
    expect(done.result).toMatchObject({
      content: [{ text: expect.stringContaining("as a task") }],
      structuredContent: { status: "success" },
    });
    const { result: other } = await ask("tools/call", spawn("task-2"));
    expect((await ask("tasks/cancel", { taskId: other.taskId })).error).toBeUndefined();
    expect((await ask("tasks/get", { taskId: other.taskId })).result).toMatchObject({ status: "cancelled" });
    expect((await ask("tasks/get", { taskId: "x" })).error).toMatchObject({ message: "There is no such task." });
    expect((await ask("tasks/get", { taskId }, undefined, blind)).error).toMatchObject({ message: expect.stringContaining("scope read") });
    scene.release("task-3");
    for (const plain of [await ask("tools/call", spawn("task-3"), {}), await ask("tools/call", spawn("task-3"), undefined, blind)])
      expect(plain.result).toMatchObject({ resultType: "complete", structuredContent: { runId: expect.any(String) } });
  });

  it("[PR1] MCPS-006 a thousand hostile requests: each is refused in words, none spawns, nothing leaks", async () => {
    const tokens: string[] = [];
    for (const name of ["h1", "h2", "h3", "h4"]) tokens.push(await makeToken(herald, name));
    const before = herald.rows<{ n: number }>("SELECT count(*) AS n FROM runs")[0]?.n;
    const statuses = new Map<number, number>();
    const send = async (n: number): Promise<void> => {
      const { body, headers } = hostile(n);
      const sent = { method: "POST", headers: { ...mcpHeaders(tokens[n % 4] ?? ""), ...headers }, body };
      const answer = await fetch(`${herald.origin()}/mcp`, sent).catch(() => null);
      // A body far too large is answered before it was read; the connection then ends under the sender.
      const text = answer === null ? "" : await answer.text().catch(() => "");
      statuses.set(answer?.status ?? 413, (statuses.get(answer?.status ?? 413) ?? 0) + 1);
      expect(text).not.toMatch(/\bat \w.*\.ts:\d+|node_modules|sk-secret/);
      if (answer?.status === 200) expect(text).toMatch(/"error"|"isError":true|There is no/);
    };
    for (let n = 0; n < 1000; n += 20) await Promise.all(Array.from({ length: 20 }, (_, k) => send(n + k)));
    expect([...statuses.keys()].filter((status) => status >= 500)).toEqual([]);
    expect(herald.rows<{ n: number }>("SELECT count(*) AS n FROM runs")[0]?.n).toBe(before);
    expect((await herald.request("/healthz")).status).toBe(200);
    expect(herald.output()).not.toMatch(/unhandled|a request failed|a tool call of a program failed/i);
  }, 120_000);
});

const mcpHeaders = (token: string): Record<string, string> => ({
  authorization: `Bearer ${token}`,
  accept: "application/json, text/event-stream",
  "content-type": "application/json",
});

const message = (more: object): string => JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", ...more });
const callOf = (name: unknown, args?: unknown): string => message({ params: { name, arguments: args } });
const deep = (levels: number): string => `${'{"a":'.repeat(levels)}1${"}".repeat(levels)}`;

const HOSTILE: readonly ((n: number) => { body: string; headers?: Record<string, string> })[] = [
  () => ({ body: "" }),
  () => ({ body: "{" }),
  () => ({ body: "null" }),
  (n) => ({
    body: JSON.stringify(
      Array.from({ length: 1000 }, () => ({
        jsonrpc: "2.0",
        id: n,
        method: "tools/call",
        params: { name: "spawn", arguments: { task: "x" } },
      })),
    ),
  }),
  () => ({ body: message({ method: "tools/__proto__" }) }),
  () => ({ body: message({ method: "constructor", params: [] }) }),
  () => ({ body: message({ id: null, params: { name: "runs" } }) }),
  () => ({ body: message({ jsonrpc: "1.0" }) }),
  () => ({ body: callOf("__proto__") }),
  () => ({ body: callOf({ toString: 1 }, {}) }),
  () => ({ body: callOf("spawn", [1]) }),
  () => ({ body: callOf("spawn", "x") }),
  () => ({ body: callOf("spawn", { task: { length: { toString: 1 } } }) }),
  () => ({ body: callOf("spawn", { task: "x", budget: { usd: -1 } }) }),
  () => ({ body: callOf("wait", { runId: "../../etc/passwd" }) }),
  () => ({ body: callOf("result", { runId: "\u0000" }) }),
  () => ({ body: callOf("log", { runId: "x", limit: 1e9 }) }),
  () => ({ body: callOf("spawn", { task: "x" }), headers: { "mcp-name": "runs" } }),
  () => ({ body: callOf("spawn", { task: "x" }), headers: { "mcp-method": "tools/list" } }),
  () => ({ body: callOf("spawn", { task: "x" }), headers: { "content-type": "text/plain" } }),
  () => ({ body: callOf("spawn", { task: "x" }), headers: { "mcp-protocol-version": "1999-01-01" } }),
  () => ({ body: callOf("spawn", { task: "x" }), headers: { accept: "text/html" } }),
  () => ({ body: callOf("spawn", { task: "x", padding: "y".repeat(300_000) }) }),
  () => ({ body: deep(5000) }),
  () => ({ body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"spawn","arguments":{"task":"x"},"_meta":${deep(30)}}}` }),
  () => ({ body: message({ method: "subscriptions/listen", params: { notifications: { toolsListChanged: true } } }) }),
  () => ({ body: message({ method: "tasks/get", params: { taskId: "x" } }) }),
];
const hostile = (n: number): { body: string; headers?: Record<string, string> } =>
  (HOSTILE[n % HOSTILE.length] as (typeof HOSTILE)[number])(n);

describe.skipIf(isShared)("a token bound to no agent", () => {
  it("[PR1] lists what it has sent out also when the default agent is another by now", async () => {
    const settings = (first: string, second: string) => ({
      agents: { list: [{ id: first, default: true }, { id: second }] },
      models: { probeLocal: false },
    });
    await using herald = await createHarness({ config: settings("main", "other") });
    await using program = await connectProgram(herald.origin(), await makeToken(herald, "free"));
    const one = String((await program.call("spawn", { task: "wait 1 seconds" })).data.runId);
    await reload(herald, settings("other", "main"));
    const two = String((await program.call("spawn", { task: "wait 1 seconds" })).data.runId);
    const { runs } = (await program.call("runs")).data as { runs: { runId: string; agentId: string }[] };
    expect(runs).toMatchObject([
      { runId: two, agentId: "other" },
      { runId: one, agentId: "main" },
    ]);
  });
});

describe.skipIf(isShared)("a token bound to a chat", () => {
  it("[PR3] MCPS-008 announces there and nowhere else; with the chat off it is blocked with the reason, and the result is still read", async () => {
    const elsewhere = {
      agents: { list: [{ id: "main", subagents: { announce: { to: { channel: "telegram", chat: "77" } } } }] },
    };
    await using scene = await createChannelScene({ telegram: { allowFrom: ["42"] }, slack: null, config: elsewhere, leavesUnsent: true });
    await scene.connected();
    const { telegram, herald, model } = scene;
    telegram.say({ chat: 42, from: 42, text: plan([{ text: "hello" }]) });
    await telegram.until(() => telegram.messages(42).some(({ text }) => text === "hello"), "an answer");
    const { said } = await scriptOf(herald, "new", "bound", "--chat", "agent:main:telegram:dm:42");
    const token = /herald_[\w-]{43}/.exec(said)?.[0] ?? "";
    const announced = (chat: number): string[] => telegram.messages(chat).flatMap(({ text }) => (text.includes("Status: ") ? [text] : []));
    {
      await using program = await connectProgram(herald.origin(), token);
      const id = await program.spawn("bound", [{ text: "for the chat" }]);
      expect((await program.call("wait", { runId: id })).data).toMatchObject({ state: "done" });
      await telegram.until(() => announced(42).length === 1, "the announcement");
      expect(announced(42)[0]).toContain("for the chat");
      const { runs } = (await (await herald.request("/api/runs")).json()) as { runs: { id: string; origin: string }[] };
      expect(runs.find((run) => run.id === id)).toMatchObject({ origin: "mcp bound" });
    }
    await herald.stop();
    writeConfig(herald, scriptedConfig(model.url, {}, { gateway: { drainSeconds: 0 } }));
    await herald.restart();
    await using program = await connectProgram(herald.origin(), token);
    const id = await program.spawn("unheard", [{ text: "for nobody" }]);
    expect((await program.call("wait", { runId: id })).data).toMatchObject({ state: "done" });
    // It has ended before anybody tries to deliver it.
    const { text, data } = await waitFor("it to be blocked", async () => {
      const result = await program.call("result", { runId: id });
      return result.data.delivery === "blocked" ? result : null;
    });
    expect(text).toContain("for nobody");
    expect(data).toMatchObject({ deliveryReason: expect.stringContaining("the channel telegram is off") });
    expect([announced(42).length, announced(77).length]).toEqual([1, 0]);
  });
});
