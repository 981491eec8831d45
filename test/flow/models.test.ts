// Models through the whole program: what the provider receives, what the chat reads when it fails, usage and cost in
// the stats line, a session that changes provider, compaction with sub-agents at work.
import { mkdirSync, writeFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { FakeModelServer, FakeRequest, Respond, Script } from "../support/fake-model-server.ts";
import { createHarness, type Harness } from "../support/harness.ts";
import { FORMATS } from "../support/model-formats.ts";
import { reload } from "../support/reload.ts";
import { waitFor } from "../support/wait.ts";

const isAnnounceStep = (request: FakeRequest): boolean => request.messages.at(-1)?.text.includes("ANNOUNCE_SKIP") === true;
const isChild = (request: FakeRequest): boolean => request.system.includes("You are a sub-agent");
const newest = (request: FakeRequest): string => request.messages.findLast((message) => message.role === "user")?.text ?? "";

/** One server per wire format; `respond` can be changed by each test. */
const state: { respond: Respond } = { respond: () => ({ text: "ok" }) };
const servers = new Map<string, FakeModelServer>();
let herald: Harness;

interface Settings {
  readonly defaults?: Record<string, unknown>;
  readonly list?: Record<string, unknown>[];
  readonly idleTimeoutSeconds?: number;
}

function settings({ defaults, list, idleTimeoutSeconds = 1 }: Settings = {}): Record<string, unknown> {
  const provider = (name: string, api: string, more: object = {}) => ({
    api,
    baseUrl: servers.get(name)?.url,
    apiKey: "key-of-a-fake-0123456789",
    ...more,
  });
  const models = [
    { id: "priced", contextWindow: 128000, cost: { input: 3, output: 15, cacheRead: 0.3, cacheWrite: 3.75 } },
    { id: "tiny", contextWindow: 3000 },
  ];
  const providers = {
    chat: provider("chat completions", "openai-compatible", { models }),
    responses: provider("responses", "openai"),
    claude: provider("anthropic", "anthropic"),
    gemini: provider("google", "google"),
    local: provider("ollama", "ollama"),
  };
  return {
    agents: { defaults: { model: "chat/priced", subagents: { maxConcurrent: 1 }, ...defaults }, ...(list && { list }) },
    models: { idleTimeoutSeconds, providers },
  };
}

/** Other settings, until what it returns is disposed. */
async function configure(changes: Settings): Promise<AsyncDisposable> {
  await reload(herald, settings(changes));
  return { [Symbol.asyncDispose]: () => reload(herald, settings()) };
}

beforeAll(async () => {
  for (const format of FORMATS) servers.set(format.name, await format.create({ respond: (request, call) => state.respond(request, call) }));
  herald = await createHarness({ expectsErrors: true, config: settings() });
});

afterAll(async () => {
  await herald[Symbol.asyncDispose]();
  for (const server of servers.values()) await server.close();
});

const MODELS = ["chat/priced", "responses/gpt-5.6", "claude/claude-opus-5-5", "gemini/gemini-3.8-flash", "local/qwen3:8b"];
const serverOf = (model: string): FakeModelServer => servers.get(FORMATS[MODELS.indexOf(model)]?.name ?? "") as FakeModelServer;
let chats = 0;
const newChat = (): string => `00000000-0000-4000-8000-${String(++chats).padStart(12, "0")}`;

describe("models through the whole program", () => {
  it.each(MODELS)("[MO5] %s: /stop closes the provider's connection", async (model) => {
    const chat = newChat();
    await herald.say(`/model ${model}`, { chat });
    await herald.reply(/from the next message on/, chat);
    state.respond = () => ({ text: "half an answer", hang: "after-text" });
    const server = serverOf(model);
    const before = server.calls.length;
    await herald.say("talk for ever", { chat });
    const call = await waitFor("the request to arrive", () => server.calls[before]);
    await herald.say("/stop", { chat });
    await waitFor("the provider to see the connection closed", () => call.clientClosed);
    await herald.reply(/Agent was aborted/, chat);
    expect(server.calls.length).toBe(before + 1);
  });

  it("[MO1] the provider receives the model, thinking level, system prompt and tools", async () => {
    const chat = newChat();
    state.respond = () => ({ text: "done" });
    const server = serverOf("chat/priced");
    await herald.say("what do you get?", { chat });
    await herald.reply(/^done$/, chat);
    const call = server.calls.at(-1);
    expect(call?.model).toBe("priced");
    expect(call?.system).toContain("an agent people talk to");
    expect(call?.tools).toEqual(expect.arrayContaining(["read", "write", "sessions_spawn", "subagents"]));
  });

  it("[MO3] usage and cost of all calls of a run stand in its stats line, to the cent", async () => {
    const chat = newChat();
    state.respond = (request) => {
      if (!isChild(request) && !isAnnounceStep(request)) {
        return request.messages.at(-1)?.role === "tool"
          ? { text: "sent out" }
          : { toolCalls: [{ name: "sessions_spawn", args: { task: "count", label: "counter" } }] };
      }
      if (isAnnounceStep(request)) return { text: "Result:\n42\n\nNotes:\n- (none)", usage: { input: 1_000, output: 500, cacheRead: 800 } };
      return { text: "SUMMARY: 42", usage: { input: 10_000, output: 1_000, cacheRead: 4_000, cacheWrite: 2_000 } };
    };
    await herald.say("count in the background", { chat });
    const announced = await herald.reply(/Sub-agent: counter/, chat);
    // 4 000 fresh × $3 + 4 000 read × $0.30 + 2 000 written × $3.75 + 1 000 out × $15, then 200 × $3 + 800 × $0.30 + 500 × $15, per million.
    const usd = (4_000 * 3 + 4_000 * 0.3 + 2_000 * 3.75 + 1_000 * 15 + 200 * 3 + 800 * 0.3 + 500 * 15) / 1e6;
    expect(announced.text).toContain(`tokens 12.5k (in 11k / out 1.5k) • est $${usd.toFixed(2)} •`);
    await herald.say("/usage", { chat });
    const usage = await herald.reply(/^\*\*Usage\*\*/, chat);
    expect(usage.text).toContain(`Its sub-agents (1): tokens 12.5k (in 11k / out 1.5k) • est $${usd.toFixed(2)}`);
  });

  const FAULTS: [string, Script, RegExp][] = [
    ["401", { status: 401, message: "bad key" }, /refused the key|has no valid key|401/],
    ["400", { status: 400, message: "no such parameter" }, /400|refused the request/],
    ["silence after the head", { hang: true }, /^⚠️ .*(said nothing|silent|no answer|stopped sending|nothing for)/i],
    ["an error event", { text: "half", errorEvent: "invalid" }, /^⚠️ /],
  ];
  it.each(FAULTS)("[AG3] %s: one clear sentence in the chat, and the lane goes on", { timeout: 60_000 }, async (_name, script, words) => {
    const chat = newChat();
    state.respond = () => script;
    await herald.say("hello?", { chat });
    const sorry = await herald.reply(words, chat, 40_000);
    expect(sorry.text).toMatch(/^⚠️ /);
    expect(sorry.text.split("\n")).toHaveLength(1);
    expect(sorry.text).not.toContain("key-of-a-fake");
    state.respond = () => ({ text: "back again" });
    await herald.say("and now?", { chat });
    await herald.reply(/^back again$/, chat);
  });

  it("[MO4] 429 with retry-after is waited out, then answered", { timeout: 60_000 }, async () => {
    const chat = newChat();
    let tries = 0;
    state.respond = () => (++tries === 1 ? { status: 429, headers: { "retry-after": "1" }, message: "slow down" } : { text: "second try" });
    await herald.say("quick", { chat });
    await herald.reply(/^second try$/, chat);
    expect(tries).toBe(2);
  });

  it("[SE6] a provider that finds the context too long gets it once more, summed up", async () => {
    const chat = newChat();
    let summed = false;
    state.respond = (request) => {
      if (request.system.includes("[COMPACTION]")) {
        summed = true;
        return { text: "- they counted words" };
      }
      if (newest(request) === "too much?" && !summed) {
        return { status: 400, message: "This model's maximum context length is 128000 tokens. Please reduce the length of the messages." };
      }
      return { text: `reply to ${newest(request).slice(0, 20)}: ${request.messages[0]?.text.slice(0, 12)}` };
    };
    // Long enough that something lies beyond the share that is kept as it is.
    for (const n of [1, 2, 3]) {
      await herald.say(`part ${n} ${"words ".repeat(9_000)}`, { chat });
      await herald.reply(new RegExp(`^reply to part ${n} `), chat);
    }
    await herald.say("too much?", { chat });
    const answer = await herald.reply(/^reply to too much\?/, chat);
    expect(summed).toBe(true);
    expect(answer.text).toBe("reply to too much?: [Summary of ");
  });

  it("[MO2] an invalid model in sessions_spawn runs on the default with a warning, and info shows what the provider received", async () => {
    const chat = newChat();
    let warning = "";
    state.respond = (request) => {
      if (isAnnounceStep(request)) return { text: "Result:\nfine\n\nNotes:\n- (none)" };
      if (isChild(request)) return { text: "SUMMARY: fine" };
      const last = request.messages.at(-1);
      if (last?.role !== "tool")
        return { toolCalls: [{ name: "sessions_spawn", args: { task: "x", label: "odd model", model: "nobody/knows-this" } }] };
      warning = last.text;
      return { text: "sent out" };
    };
    await herald.say("spawn it", { chat });
    await herald.reply(/Sub-agent: odd model/, chat);
    expect(JSON.parse(warning)).toMatchObject({ status: "accepted", model: "chat/priced", warning: expect.stringContaining("nobody") });
    await herald.say("/subagents info last", { chat });
    const info = await herald.reply(/\*\*Model:\*\*/, chat);
    expect(info.text).toContain("**Model:** chat/priced");
    expect(serverOf("chat/priced").calls.at(-1)?.model).toBe("priced");
  });

  it("[MO1] a session goes on with another provider, history and tool calls included", async () => {
    const chat = newChat();
    state.respond = (request) =>
      newest(request) === "look around" && request.messages.at(-1)?.role === "user"
        ? { text: "looking", toolCalls: [{ name: "list", args: { path: "." } }] }
        : { text: `seen ${request.messages.length}` };
    await herald.say("look around", { chat });
    await herald.reply(/^seen/, chat);
    for (const model of MODELS.slice(1)) {
      await herald.say(`/model ${model}`, { chat });
      await herald.reply(new RegExp(`Model of this chat: \`${model.replace(/[.]/g, "\\.")}\``), chat);
      await herald.say(`still there, ${model}?`, { chat });
      const server = serverOf(model);
      const call = await waitFor("the other provider to be asked", () =>
        server.calls.findLast((one) => newest(one) === `still there, ${model}?`),
      );
      expect(call.messages[0]).toMatchObject({ role: "user", text: "look around" });
      expect(call.messages.flatMap((message) => message.toolCalls.map((one) => one.name))).toContain("list");
      expect(call.messages.some((message) => message.role === "tool")).toBe(true);
    }
  });
});

describe("[MO7] keys by agent id", () => {
  it("[MO7] a missing key is said at once, naming provider and agent, and nothing else is tried", async () => {
    await using _settings = await configure({ defaults: { model: "anthropic/claude-sonnet-5" } });
    const chat = newChat();
    const calls = (): number => [...servers.values()].reduce((sum, server) => sum + server.calls.length, 0);
    const before = calls();
    await herald.say("hello", { chat });
    const sorry = await herald.reply(/^⚠️ /, chat);
    expect(sorry.text).toMatch(/anthropic/);
    expect(sorry.text).toMatch(/main/);
    expect(calls()).toBe(before);
  });

  it("[MO7] a sub-agent uses the key of the agent id it runs under", async () => {
    const list = [{ id: "main", default: true, subagents: { allowAgents: ["other"] } }, { id: "other" }];
    await using _settings = await configure({ list });
    const chat = newChat();
    const keys: string[] = [];
    state.respond = (request, call) => {
      if (isChild(request)) keys.push(String(call.headers.authorization));
      if (isAnnounceStep(request)) return { text: "Result:\nx\n\nNotes:\n- (none)" };
      if (isChild(request)) return { text: "SUMMARY: x" };
      return request.messages.at(-1)?.role === "tool"
        ? { text: "ok" }
        : { toolCalls: [{ name: "sessions_spawn", args: { task: "x", label: "x", agentId: "other" } }] };
    };
    mkdirSync(`${herald.stateDir}/agents/other`, { recursive: true });
    const keyFile = `${herald.stateDir}/agents/other/auth.json`;
    writeFileSync(keyFile, JSON.stringify({ chat: { apiKey: "key-of-other-111111111" } }), { mode: 0o600 });
    await herald.say("go", { chat });
    await herald.reply(/Sub-agent: x/, chat);
    expect(new Set(keys)).toEqual(new Set(["Bearer key-of-other-111111111"]));
  });

  it('[MO7] under an agent with auth: "own" no call goes out without a key of its own, not even with one of the settings', async () => {
    const list = [
      { id: "main", default: true, subagents: { allowAgents: ["guest"] } },
      { id: "guest", auth: "own" },
    ];
    await using _settings = await configure({ list });
    const chat = newChat();
    let children = 0;
    state.respond = (request) => {
      if (isChild(request)) children++;
      return request.messages.at(-1)?.role === "tool"
        ? { text: "ok" }
        : { toolCalls: [{ name: "sessions_spawn", args: { task: "y", label: "y", agentId: "guest" } }] };
    };
    await herald.say("go", { chat });
    const { text } = await herald.reply(/Sub-agent: y/, chat);
    expect(text).toContain("Agent guest has no key for the provider chat.");
    expect(children).toBe(0);
  });
});

describe("compaction", () => {
  it("[SE6] 60 turns with compaction keep a live sub-agent in view and never lose the thread", { timeout: 120_000 }, async () => {
    // The sub-agent says nothing for as long as the turns take.
    await using _settings = await configure({ defaults: { model: "chat/tiny" }, idleTimeoutSeconds: 600 });
    const chat = newChat();
    const held = Promise.withResolvers<void>();
    const prompts: string[] = [];
    let compactions = 0;
    state.respond = async (request) => {
      if (request.system.includes("[COMPACTION]")) {
        compactions++;
        return { text: `- summary ${compactions}` };
      }
      if (isAnnounceStep(request)) return { text: "Result:\nat last\n\nNotes:\n- (none)" };
      if (isChild(request)) {
        await held.promise;
        return { text: "SUMMARY: at last" };
      }
      prompts.push(request.messages.map((message) => message.text).join("\n"));
      if (newest(request) === "start" && request.messages.at(-1)?.role === "user")
        return { toolCalls: [{ name: "sessions_spawn", args: { task: "long work", label: "long work" } }] };
      return { text: `reply to ${newest(request)}` };
    };
    await herald.say("start", { chat });
    await herald.reply(/reply to start/, chat);
    const filler = "many words that fill the window ".repeat(20);
    for (let i = 0; i < 60; i++) await herald.say(`turn ${i} ${filler}`, { chat });
    await herald.reply(/^reply to turn 59 /, chat, 100_000);
    expect(compactions).toBeGreaterThan(10);
    // From the spawn on: in its call, then in what the gateway tells.
    expect(prompts.slice(1).filter((prompt) => !prompt.includes("long work"))).toEqual([]);
    expect(prompts.at(-1)).toMatch(
      /at work; don't spawn these tasks again:\n<untrusted [0-9a-f]{12} from="labels of sub-agents">\n- long work \(run /,
    );
    expect(herald.rows("SELECT id FROM runs WHERE label = 'long work'")).toHaveLength(1);
    held.resolve();
    await herald.reply(/Sub-agent: long work/, chat);
  });
});
