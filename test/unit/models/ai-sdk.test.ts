// One streamed step over every wire format, through the real provider packages against servers on loopback.
import { afterEach, describe, expect, it } from "vitest";
import type { Endpoint } from "../../../src/models/language-model.ts";
import type { ChatMessage, ModelReply, ToolSpec } from "../../../src/models/model.ts";
import { type FakeModelServer, inOrder, type Respond, type Script } from "../../support/fake-model-server.ts";
import { createSubject, FORMATS, type ModelFormat, type Subject } from "../../support/model-formats.ts";
import { waitFor } from "../../support/wait.ts";

const servers: FakeModelServer[] = [];
afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => server.close()));
});

const TOOLS: ToolSpec[] = [
  {
    name: "read",
    description: "Reads a file.",
    parameters: { type: "object", properties: { path: { type: "string" } }, required: ["path"] },
  },
  { name: "list", description: "Lists files.", parameters: { type: "object", properties: {} } },
];

async function start(
  format: ModelFormat,
  respond: Respond,
  endpoint: Partial<Endpoint> = {},
): Promise<{ server: FakeModelServer; subject: Subject }> {
  const server = await format.create({ respond });
  servers.push(server);
  const provider = format.model.split("/")[0] as string;
  const endpoints = { [provider]: { api: format.api, baseUrl: server.url, apiKey: "sk-secret-key", ...endpoint } };
  return { server, subject: createSubject({ endpoints, request: { model: format.model, tools: TOOLS } }) };
}

const twoCalls: Script = {
  text: "I will look at both files.",
  reasoning: "Two files, so two calls.",
  toolCalls: [
    { name: "read", args: { path: "a.md" } },
    { name: "read", args: { path: "b.md" } },
  ],
  usage: { input: 1000, output: 100, cacheRead: 200, cacheWrite: 100 },
};

function assistant(reply: ModelReply): ChatMessage {
  const message = { role: "assistant" as const, text: reply.text, toolCalls: reply.toolCalls };
  return reply.extras === undefined ? message : { ...message, extras: JSON.parse(JSON.stringify(reply.extras)) };
}

const results = (reply: ModelReply): ChatMessage[] =>
  reply.toolCalls.map((call, index) => ({ role: "tool", callId: call.id, name: call.name, text: `content ${index}`, isError: false }));

describe.each(FORMATS)("$name", (format) => {
  it("[MO1] streams a step with two tool calls and sends model, thinking, system prompt and tools", async () => {
    const { server, subject } = await start(format, inOrder(twoCalls));
    const reply = await subject.call({ thinking: "high" });
    expect(reply).toMatchObject({ outcome: "ok", text: twoCalls.text, finish: "tool-calls", model: format.model });
    expect(reply.toolCalls.map(({ name, args }) => ({ name, args }))).toEqual(twoCalls.toolCalls);
    expect(new Set(reply.toolCalls.map((call) => call.id)).size).toBe(2);
    const texts = subject.events.flatMap((event) => (event.type === "text" ? [event.text] : []));
    expect(texts.length).toBeGreaterThan(2);
    expect(texts.every((text) => twoCalls.text?.startsWith(text))).toBe(true);
    expect(server.calls).toHaveLength(1);
    expect(server.calls[0]).toMatchObject({
      model: format.model.slice(format.model.indexOf("/") + 1),
      thinking: format.highThinking,
      system: "You are a test.",
      tools: ["read", "list"],
      messages: [{ role: "user", text: "hello" }],
    });
  });

  it("[AG3] two hundred calls in one answer all arrive; of more than a thousand the last one says that nothing behind it was read", async () => {
    const many = (count: number) => Array.from({ length: count }, (_, n) => ({ name: "read", args: { path: `${n}` }, id: `call_${n}` }));
    const { subject } = await start(format, inOrder({ toolCalls: many(200) }, { toolCalls: many(1_200) }));
    const reply = await subject.call();
    expect(reply.toolCalls.map((call) => call.args)).toEqual(many(200).map((call) => call.args));
    expect(reply.toolCalls.filter((call) => call.invalid !== undefined)).toEqual([]);
    const flood = await subject.call();
    expect(flood).toMatchObject({ outcome: "ok", finish: "tool-calls" });
    expect(flood.toolCalls).toHaveLength(1_000);
    expect(flood.toolCalls.flatMap((call) => call.invalid ?? [])).toEqual([expect.stringMatching(/nothing behind it was read/)]);
  });

  it("[MO1] carries results and its own extras back with the next step", async () => {
    const { server, subject } = await start(format, inOrder(twoCalls, { text: "Done." }));
    const first = await subject.call({ thinking: "high" });
    const messages: ChatMessage[] = [{ role: "user", text: "hello" }, assistant(first), ...results(first)];
    const second = await subject.call({ thinking: "high", messages });
    expect(second).toMatchObject({ outcome: "ok", text: "Done.", finish: "stop" });
    const sent = server.calls[1];
    expect(sent?.messages.flatMap((message) => message.toolCalls.map((call) => call.args))).toEqual([{ path: "a.md" }, { path: "b.md" }]);
    expect(sent?.messages.filter((message) => message.role === "tool").map((message) => message.text)).toEqual(["content 0", "content 1"]);
    expect(JSON.stringify(sent?.body)).toMatch(/sealed-thoughts|signed-thoughts|Two files, so two calls/);
  });

  it("[MO3] reports usage with cache tokens, and the cost by the configured price", async () => {
    const id = format.model.slice(format.model.indexOf("/") + 1);
    const cost = { input: 2, output: 10, cacheRead: 0.5, cacheWrite: 4 };
    const { subject } = await start(format, inOrder(twoCalls), { models: [{ id, cost }] });
    const reply = await subject.call();
    const hasRead = format.api !== "ollama";
    const hasWrite = format.api === "anthropic";
    expect(reply.usage).toEqual({ input: 1000, output: 100, cacheRead: hasRead ? 200 : 0, cacheWrite: hasWrite ? 100 : 0 });
    // By hand, per million tokens: output 100 × 10 = 1000, then the input as each format splits it.
    const micros = 1000 + (hasWrite ? 700 * 2 + 200 * 0.5 + 100 * 4 : hasRead ? 800 * 2 + 200 * 0.5 : 1000 * 2);
    expect(reply.costUsd).toBeCloseTo(micros / 1_000_000, 12);
    expect(subject.reports).toEqual([
      { model: format.model, agentId: "main", outcome: "ok", usage: reply.usage, costUsd: reply.costUsd, ms: expect.any(Number) },
    ]);
  });

  it("[MO3] leaves usage and cost out when the provider says nothing", async () => {
    const { subject } = await start(format, inOrder({ text: "hi", usage: null, finish: "stop" }));
    const reply = await subject.call();
    expect(reply).toMatchObject({ outcome: "ok", text: "hi", usage: null, costUsd: null });
  });

  it("[MO5] closes the connection within a second of an abort, in the text and before the head", async () => {
    const { server, subject } = await start(
      format,
      inOrder({ text: "a long story begins", hang: "after-text" }, { hang: "before-head" }, { hang: true }),
    );
    for (const round of [0, 1, 2]) {
      const abort = new AbortController();
      const pending = subject.call({ signal: abort.signal });
      await waitFor("the call", () => server.calls.length === round + 1 && (round > 0 || subject.events.length > 0));
      const abortedAt = Date.now();
      abort.abort();
      const reply = await pending;
      expect(reply).toMatchObject({
        outcome: "aborted",
        text: round === 0 ? "a long story".slice(0, reply.text.length) : "",
        toolCalls: [],
      });
      await waitFor("the closed connection", () => server.calls[round]?.clientClosed, 1000);
      expect(Date.now() - abortedAt).toBeLessThan(1000);
      expect(reply.text !== "").toBe(round === 0);
    }
    expect(server.open).toBe(0);
    expect(subject.reports.map((report) => report.outcome)).toEqual(["aborted", "aborted", "aborted"]);
  });

  it("[MO5] an abort before the call sends nothing", async () => {
    const { server, subject } = await start(format, inOrder({ text: "hi" }));
    expect(await subject.call({ signal: AbortSignal.abort() })).toMatchObject({ outcome: "aborted", text: "" });
    expect(server.calls).toEqual([]);
  });

  it("[MO1] maps every end to a known one and keeps a cut answer marked", async () => {
    const { subject } = await start(format, inOrder({ text: "half", finish: "length" }, { text: "no", finish: "filter" }));
    expect(await subject.call()).toMatchObject({ outcome: "ok", text: "half", finish: "length" });
    expect(await subject.call()).toMatchObject({ outcome: "ok", finish: "filter" });
  });

  it("[MO1] cleans NUL and lone surrogates and keeps a character that came in two halves", async () => {
    const { subject } = await start(format, inOrder({ pieces: ["a\0b ", "\ud83d", "\ude00", " c\udc00d"] }));
    const reply = await subject.call();
    // Formats written as UTF-8 can't carry a half at all; JSON escapes can.
    expect(reply.text.isWellFormed()).toBe(true);
    expect(reply.text).toContain("ab ");
    expect(reply.text).not.toContain("\0");
    expect(reply.text).toContain("😀");
  });
});

it("[MO1] asks OpenAI to store nothing and Anthropic to cache the prompt", async () => {
  const openai = await start(FORMATS[1] as ModelFormat, inOrder({ text: "hi" }));
  await openai.subject.call();
  expect(openai.server.calls[0]?.body.store).toBe(false);
  expect(openai.server.calls[0]?.body.tools[0].strict).toBe(false);
  const anthropic = await start(FORMATS[2] as ModelFormat, inOrder({ text: "hi" }));
  await anthropic.subject.call();
  expect(anthropic.server.calls[0]?.body.system[0].cache_control).toEqual({ type: "ephemeral" });
  expect(anthropic.server.calls[0]?.body.messages[0].content[0].cache_control).toEqual({ type: "ephemeral" });
});

it("[MO3] counts what an aborted Anthropic stream had reported", async () => {
  const script: Script = {
    text: "a long story begins",
    hang: "after-text",
    usage: { input: 900, output: 50, cacheRead: 600, cacheWrite: 200 },
  };
  const { subject } = await start(FORMATS[2] as ModelFormat, inOrder(script));
  const abort = new AbortController();
  const pending = subject.call({ signal: abort.signal });
  await waitFor("the first event", () => subject.events.length > 0);
  abort.abort();
  const reply = await pending;
  expect(reply).toMatchObject({ outcome: "aborted", usage: { input: 900, output: 1, cacheRead: 600, cacheWrite: 200 } });
  // 100 plain at 4, 600 read at 0.2, 200 written at 5, 1 out at 20, in USD per million tokens.
  expect(reply.costUsd).toBeCloseTo((400 + 120 + 1000 + 20) / 1_000_000, 12);
  expect(subject.reports).toMatchObject([{ outcome: "aborted", usage: reply.usage }]);
});

it("[MO1] tells Ollama how much to read, since it would silently read 4096 tokens", async () => {
  const models = [{ id: "qwen3:8b", contextWindow: 40_000, maxTokens: 900 }];
  const { server, subject } = await start(FORMATS[4] as ModelFormat, inOrder({ text: "hi" }), { models });
  await subject.call();
  expect(server.calls[0]?.body.options).toEqual({ num_ctx: 40_000, num_predict: 900 });
});

describe("a conversation that changes its provider", () => {
  const pairs = FORMATS.flatMap((from) =>
    FORMATS.filter((to) => to !== from).map((to) => ({ from, to, title: `${from.name} → ${to.name}` })),
  );
  it.each(pairs)("[MO1] goes on with its history and tool calls: $title", async ({ from, to }) => {
    const first = await start(from, inOrder(twoCalls));
    const reply = await first.subject.call({ thinking: "high" });
    const second = await start(to, inOrder({ text: "I can see both.", usage: { input: 10, output: 5 } }));
    const messages: ChatMessage[] = [{ role: "user", text: "hello" }, assistant(reply), ...results(reply)];
    expect(await second.subject.call({ thinking: "high", messages })).toMatchObject({ outcome: "ok", text: "I can see both." });
    const sent = second.server.calls[0];
    expect(sent?.messages.flatMap((message) => message.toolCalls.map((call) => [call.name, call.args]))).toEqual([
      ["read", { path: "a.md" }],
      ["read", { path: "b.md" }],
    ]);
    expect(sent?.messages.filter((message) => message.role === "tool").map((message) => message.text)).toEqual(["content 0", "content 1"]);
    expect(sent?.messages.some((message) => message.role === "assistant" && message.text === twoCalls.text)).toBe(true);
    expect(JSON.stringify(sent?.body)).not.toMatch(/sealed-thoughts|signed-thoughts|Two files, so two calls/);
  });

  it("[MO1] doesn't ask Anthropic to think in a tool loop another provider began", async () => {
    const first = await start(FORMATS[0] as ModelFormat, inOrder(twoCalls));
    const reply = await first.subject.call();
    const { server, subject } = await start(FORMATS[2] as ModelFormat, inOrder({ text: "ok" }));
    const loop: ChatMessage[] = [{ role: "user", text: "hello" }, assistant(reply), ...results(reply)];
    await subject.call({ thinking: "high", messages: loop });
    await subject.call({
      thinking: "high",
      messages: [...loop, { role: "assistant", text: "Fine.", toolCalls: [] }, { role: "user", text: "And?" }],
    });
    expect(server.calls.map((call) => call.body.thinking?.type)).not.toContain("enabled");
    expect(server.calls[0]?.thinking).not.toEqual(server.calls[1]?.thinking);
  });
});
