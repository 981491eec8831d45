// What providers do wrong, over every wire format: each fault ends as MO4 and AG3 say, with the right words and the
// usage counted. Time runs fast; the waits are real.
import { afterEach, describe, expect, it } from "vitest";
import { systemClock } from "../../../src/core/clock.ts";
import { silentLogger } from "../../../src/core/logger.ts";
import { createSdkModels } from "../../../src/models/ai-sdk.ts";
import type { Endpoint } from "../../../src/models/language-model.ts";
import { createPrices } from "../../../src/models/prices.ts";
import { type FakeModelServer, inOrder, type Respond } from "../../support/fake-model-server.ts";
import { createFakeOpenAi } from "../../support/fake-openai.ts";
import { createFastClock } from "../../support/fast-clock.ts";
import { createSubject, FORMATS, type ModelFormat, type Subject, type SubjectOptions } from "../../support/model-formats.ts";
import { waitFor } from "../../support/wait.ts";

const servers: FakeModelServer[] = [];
afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => server.close()));
});

const SECRET = "sk-very-secret-key";
const USAGE = { input: 100, output: 10 };
const GOOD = { text: "All is well.", usage: USAGE };
const TOOLS = [{ name: "read", description: "Reads a file.", parameters: { type: "object", properties: { path: { type: "string" } } } }];
const [CHAT, RESPONSES, ANTHROPIC] = FORMATS as [ModelFormat, ModelFormat, ModelFormat];
const providerOf = (format: ModelFormat): string => format.model.slice(0, format.model.indexOf("/"));

interface Started {
  server: FakeModelServer;
  endpoint: Endpoint;
  subject: Subject;
}

async function start(format: ModelFormat, respond: Respond, rest: Pick<SubjectOptions, "limits" | "clock"> = {}): Promise<Started> {
  const server = await format.create({ respond });
  servers.push(server);
  const endpoint = { api: format.api, baseUrl: server.url, apiKey: SECRET };
  const endpoints = { [providerOf(format)]: endpoint };
  return { server, endpoint, subject: createSubject({ endpoints, request: { model: format.model, tools: TOOLS }, ...rest }) };
}

const retryWaits = (subject: Subject): number[] => subject.events.flatMap((event) => (event.type === "retry" ? [event.afterMs] : []));

describe.each(FORMATS)("$name", (format) => {
  it("[MO4] PROV-001 waits as long as retry-after says, in every form, then goes on", async () => {
    const forms: ((now: number) => Record<string, string>)[] = [
      () => ({ "retry-after": "5" }),
      () => ({ "retry-after-ms": "4500" }),
      (now) => ({ "retry-after": new Date(now + 50_000).toUTCString() }),
    ];
    for (const form of forms) {
      const clock = createFastClock(200);
      let isFirst = true;
      const respond: Respond = () => {
        if (!isFirst) return GOOD;
        isFirst = false;
        return { status: 429, headers: form(clock.now()), message: "slow down" };
      };
      const { server, subject } = await start(format, respond, { clock });
      expect(await subject.call()).toMatchObject({ outcome: "ok", text: GOOD.text });
      expect(server.calls).toHaveLength(2);
      expect(retryWaits(subject)).toHaveLength(1);
      expect(retryWaits(subject)[0]).toBeGreaterThan(4000);
      expect(retryWaits(subject)[0]).toBeLessThan(51_000);
      expect(subject.reports.map((report) => report.outcome)).toEqual(["error", "ok"]);
    }
  });

  it("[MO4] backs off without retry-after and gives up after three tries", async () => {
    for (const status of [500, 503, 529]) {
      const { server, subject } = await start(format, inOrder({ status, message: "out of order" }));
      const reply = await subject.call();
      expect(reply).toMatchObject({ outcome: "error", error: { kind: "overload" }, usage: null, costUsd: null });
      expect(reply.error?.message).toContain(`failed to answer`);
      expect(reply.error?.message).toContain(`(${status})`);
      expect(server.calls).toHaveLength(3);
      expect(retryWaits(subject)).toEqual([500, 1000]);
    }
  });

  it.each([301, 302, 303, 307, 308])(
    "[SC4] a redirect (%i) is not followed: key and conversation stay where they were sent",
    async (status) => {
      const elsewhere = await start(format, inOrder(GOOD));
      const location = `${elsewhere.server.url}/steal?token=1`;
      const { server, endpoint } = await start(format, inOrder({ status, headers: { location } }));
      const other = await start(CHAT, inOrder(GOOD));
      const endpoints = { [providerOf(format)]: endpoint, other: other.endpoint };
      const subject = createSubject({ endpoints, request: { model: format.model, tools: TOOLS, fallbacks: ["other/model"] } });
      const reply = await subject.call();
      expect(reply).toMatchObject({ outcome: "error", error: { kind: "redirect" } });
      expect(reply.error?.message).toContain(new URL(location).host);
      expect(reply.error?.message).not.toContain("steal");
      expect(reply.error?.remedy).toContain(`models.providers.${providerOf(format)}.baseUrl`);
      expect([server.calls.length, elsewhere.server.calls.length, other.server.calls.length]).toEqual([1, 0, 0]);
    },
  );

  it("[SC4] a redirect that says nowhere, or nonsense, is refused as well", async () => {
    for (const headers of [{}, { location: "http://[not-a-host" }] as Record<string, string>[]) {
      const { server, subject } = await start(format, inOrder({ status: 302, headers }));
      expect(await subject.call()).toMatchObject({ outcome: "error", error: { kind: "redirect" } });
      expect(server.calls).toHaveLength(1);
    }
  });

  it("[MO4] PROV-001 leaves a model that asks for an hour and says when to come back", async () => {
    const { server, subject } = await start(format, inOrder({ status: 429, headers: { "retry-after": "3600" }, message: "slow down" }));
    const reply = await subject.call();
    expect(reply).toMatchObject({ outcome: "error", error: { kind: "rate" } });
    expect(reply.error?.message).toContain("Try again in 60 minutes");
    expect(server.calls).toHaveLength(1);
  });

  it("[MO4] starts again after a cut stream; the text never doubles and both calls are counted", async () => {
    const half = { text: "All is well, or so it seemed.", usage: USAGE, cut: "after-text" as const };
    const { server, subject } = await start(format, inOrder({ cut: "after-head" }, half, GOOD));
    const reply = await subject.call();
    expect(reply).toMatchObject({ outcome: "ok", text: GOOD.text });
    expect(server.calls).toHaveLength(3);
    expect(subject.reports.map((report) => report.outcome)).toEqual(["error", "error", "ok"]);
    // Only Anthropic says at the start what the input was.
    expect(reply.usage?.input).toBe(format.api === "anthropic" ? 200 : 100);
  });

  it("[MO4] keeps the partial text when every try is cut", async () => {
    const { subject } = await start(format, inOrder({ text: "All is well, or so it seemed.", cut: "after-text" }));
    const reply = await subject.call();
    expect(reply).toMatchObject({ outcome: "error", error: { kind: "network" }, toolCalls: [] });
    expect(reply.text).toMatch(/^All is well/);
    expect(reply.error?.message).toContain(`connection to the provider ${providerOf(format)} failed`);
  });

  it("[MO4] PROV-013 takes an end without a reason for a broken answer", async () => {
    const { server, subject } = await start(format, inOrder({ text: "half an", finish: "none", usage: null }, GOOD));
    expect(await subject.call()).toMatchObject({ outcome: "ok", text: GOOD.text });
    expect(server.calls).toHaveLength(2);
  });

  it("[MO4] survives a junk line", async () => {
    const { subject } = await start(format, inOrder({ ...GOOD, junk: true }, GOOD));
    expect(await subject.call()).toMatchObject({ outcome: "ok", text: GOOD.text });
  });

  it("[MO4] an error event in the stream is retried like the status it stands for", async () => {
    const { server, subject } = await start(format, inOrder({ text: "All is", errorEvent: "overloaded" }, GOOD));
    expect(await subject.call()).toMatchObject({ outcome: "ok", text: GOOD.text });
    expect(server.calls).toHaveLength(2);
    const retry = subject.events.find((event) => event.type === "retry");
    expect(retry?.type === "retry" ? retry.reason : "").toMatch(/overloaded/);
  });

  it("[MO4] PROV-006 gives up a silent stream after the idle limit, before the head, after it and in the text", async () => {
    const silences = [{ hang: "before-head" as const }, { hang: true }, { text: "All is well", hang: "after-text" as const }];
    const { server, subject } = await start(format, inOrder(...silences), {
      clock: createFastClock(50),
      limits: { idleMs: 15_000, stepMs: 1_200_000 },
    });
    const reply = await subject.call();
    expect(reply).toMatchObject({ outcome: "error", error: { kind: "timeout" } });
    expect(reply.error?.message).toContain("sent nothing for 15 seconds");
    expect(reply.text).toMatch(/^All/);
    await waitFor("three closed calls", () => server.calls.length === 3 && server.open === 0);
    expect(server.calls.every((call) => call.clientClosed)).toBe(true);
  });

  it("[MO4] ends the whole step when its time is over, retries or not", async () => {
    const { server, subject } = await start(format, inOrder({ hang: true }), {
      clock: createFastClock(50),
      limits: { idleMs: 600_000, stepMs: 10_000 },
    });
    const reply = await subject.call();
    expect(reply).toMatchObject({ outcome: "error", error: { kind: "timeout" } });
    expect(reply.error?.message).toContain("took longer than 10 seconds");
    expect(server.calls).toHaveLength(1);
    await waitFor("the closed connection", () => server.open === 0);
  });

  it("[MO4] PROV-011 cuts an endless and a 10 MB answer with a note and closes the connection", async () => {
    const { server, subject } = await start(format, inOrder({ endless: true, text: "" }, { text: "x".repeat(10 * 1024 * 1024) }));
    for (const _ of ["endless", "10 MB"]) {
      const reply = await subject.call();
      expect(reply).toMatchObject({ outcome: "ok", finish: "length" });
      expect(reply.text.length).toBeLessThan(1024 * 1024 + 100);
      expect(reply.text).toMatch(/\[Cut here: the answer went past 1 MB\.\]$/);
      await waitFor("the closed connection", () => server.open === 0);
    }
  });

  it("[MO4] a refused key, request or model is not retried, falls back to nothing and shows no secret", async () => {
    const message = `Incorrect key ${SECRET} at https://api.example.com/?key=${SECRET}`;
    for (const [status, kind, words] of [
      [401, "auth", `refused the key of agent main (401)`],
      [403, "auth", `npm run auth -- set main ${providerOf(format)}`],
      [400, "bad-request", "refused the request"],
      [404, "bad-request", "knows no model"],
    ] as const) {
      const { server, subject } = await start(format, inOrder({ status, message }));
      const reply = await subject.call({ fallbacks: [format.model] });
      expect(reply).toMatchObject({ outcome: "error", error: { kind } });
      expect(`${reply.error?.message} ${reply.error?.remedy}`).toContain(words);
      expect(JSON.stringify([reply, subject.events])).not.toContain(SECRET);
      expect(server.calls).toHaveLength(1);
    }
  });

  it("[MO4] recognises a context overflow by each provider's words", async () => {
    const words = {
      "openai-compatible": "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens.",
      openai: "Your input exceeds the context window of this model. Please adjust your input and try again.",
      anthropic: "prompt is too long: 210000 tokens > 200000 maximum",
      google: "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
      ollama: "the prompt is too long: input length exceeds the context length",
    };
    const { server, subject } = await start(format, inOrder({ status: 400, message: words[format.api] }));
    const reply = await subject.call();
    expect(reply).toMatchObject({ outcome: "error", error: { kind: "context" } });
    expect(reply.error?.message).toMatch(/^The conversation no longer fits into the context window of \S+\.$/);
    expect(server.calls).toHaveLength(1);
  });

  it("[AG3] PROV-008 an unknown tool comes back as a call the loop can answer", async () => {
    const toolCalls = ["rm_all", "READ", "constructor", "x".repeat(10_000)].map((name) => ({ name, args: { path: "a" } }));
    const { subject } = await start(format, inOrder({ toolCalls }));
    const reply = await subject.call();
    expect(reply).toMatchObject({ outcome: "ok", finish: "tool-calls" });
    expect(reply.toolCalls.map((call) => call.name)).toEqual(["rm_all", "READ", "constructor", "x".repeat(64)]);
    expect(reply.toolCalls.every((call) => call.invalid?.endsWith("Tools you can call: read."))).toBe(true);
  });

  it("[MO4] a model that can't think is asked again without, and from then on", async () => {
    const respond: Respond = (request) => {
      const asks = request.thinking !== undefined && request.thinking !== false && request.thinking !== null;
      return asks ? { status: 400, message: "this model does not support thinking" } : GOOD;
    };
    const { server, subject } = await start(format, respond);
    expect(await subject.call({ thinking: "high" })).toMatchObject({ outcome: "ok", text: GOOD.text });
    expect(await subject.call({ thinking: "high" })).toMatchObject({ outcome: "ok", text: GOOD.text });
    expect(server.calls).toHaveLength(3);
  });
});

describe.each([CHAT, RESPONSES, ANTHROPIC])("$name, where arguments are text", (format) => {
  it("[AG3] PROV-007 arguments that don't parse come back with what was written and why", async () => {
    const garbage = `{"path": "${"x".repeat(200_000)}`;
    const toolCalls = ['{"path": "x', "null", "[]", garbage].map((args, index) => ({ name: "read", args, id: `call_${index}` }));
    const { subject } = await start(format, inOrder({ toolCalls }));
    const reply = await subject.call();
    expect(reply).toMatchObject({ outcome: "ok", finish: "tool-calls" });
    expect(reply.toolCalls.map((call) => call.args)).toEqual(['{"path": "x', "null", "[]", `${garbage.slice(0, 2000)}…`]);
    expect(reply.toolCalls.map((call) => /not valid JSON|must be one JSON object/.test(call.invalid ?? ""))).toEqual([
      true,
      true,
      true,
      true,
    ]);
    const history = [{ role: "assistant" as const, text: "", toolCalls: reply.toolCalls }];
    expect(await subject.call({ messages: [{ role: "user", text: "go" }, ...history] })).toMatchObject({ outcome: "ok" });
  });

  it("[AG3] arguments without end are cut and answered", async () => {
    const args = `{"path": "${"x".repeat(3 * 1024 * 1024)}"}`;
    const { subject } = await start(format, inOrder({ toolCalls: [{ name: "read", args }] }));
    const reply = await subject.call();
    expect(reply.toolCalls).toHaveLength(1);
    expect(reply.toolCalls[0]?.invalid).toContain("went past 1 MB");
    expect(JSON.stringify(reply).length).toBeLessThan(10_000);
  });

  it("[AG3] no arguments at all mean an empty object, and repeated ids are told apart", async () => {
    const toolCalls = [1, 2].map(() => ({ name: "read", args: "", id: "same" }));
    const { subject } = await start(format, inOrder({ toolCalls }));
    const reply = await subject.call();
    expect(reply.toolCalls.map((call) => call.args)).toEqual([{}, {}]);
    expect(new Set(reply.toolCalls.map((call) => call.id)).size).toBe(2);
  });
});

describe("fallbacks", () => {
  async function pair(first: Respond, second: Respond) {
    const a = await start(CHAT, first);
    const b = await start(ANTHROPIC, second);
    const endpoints = { [providerOf(CHAT)]: a.endpoint, [providerOf(ANTHROPIC)]: b.endpoint };
    const subject = createSubject({ endpoints, request: { model: CHAT.model, fallbacks: [ANTHROPIC.model] } });
    return { a: a.server, b: b.server, subject };
  }

  it("[MO4] follow the tries of the model, in order, and the reply names who answered", async () => {
    const { a, b, subject } = await pair(inOrder({ status: 500 }), inOrder(GOOD));
    const reply = await subject.call();
    expect(reply).toMatchObject({ outcome: "ok", text: GOOD.text, model: ANTHROPIC.model, usage: USAGE });
    expect([a.calls.length, b.calls.length]).toEqual([3, 1]);
    expect(subject.events.filter((event) => event.type === "fallback")).toMatchObject([{ from: CHAT.model, to: ANTHROPIC.model }]);
  });

  it("[MO4] come at once when the model asks for too long a wait or its quota is spent", async () => {
    for (const script of [
      { status: 429, headers: { "retry-after": "3600" } },
      { status: 429, message: "You exceeded your current quota, please check your plan and billing details." },
    ]) {
      const { a, subject } = await pair(inOrder(script), inOrder(GOOD));
      expect(await subject.call()).toMatchObject({ outcome: "ok", model: ANTHROPIC.model });
      expect(a.calls).toHaveLength(1);
    }
  });

  it("[MO3] the spend of all models is summed, and unknown as soon as one has no price", async () => {
    const { subject } = await pair(inOrder({ text: "half", usage: USAGE, finish: "none" }), inOrder(GOOD));
    const reply = await subject.call();
    expect(reply.model).toBe(ANTHROPIC.model);
    expect(subject.reports.map((report) => report.model)).toEqual([CHAT.model, CHAT.model, CHAT.model, ANTHROPIC.model]);
    expect(reply.usage?.input).toBe(400);
    expect(reply.costUsd).toBeNull();
  });

  it("[MO7] a fallback without a provider is passed over, and the first error stands", async () => {
    const { server, subject } = await start(CHAT, inOrder({ status: 500, message: "broken" }));
    const reply = await subject.call({ fallbacks: ["nowhere/model"] });
    expect(reply).toMatchObject({ outcome: "error", model: CHAT.model, error: { kind: "overload" } });
    expect(server.calls).toHaveLength(3);
  });

  it("[MO5] an abort while waiting for the next try ends at once and asks nobody else", async () => {
    const { a, b, subject } = await pair(inOrder({ status: 429, headers: { "retry-after": "60" } }), inOrder(GOOD));
    const abort = new AbortController();
    const pending = subject.call({ signal: abort.signal });
    await waitFor("the wait for the next try", () => retryWaits(subject).length === 1);
    abort.abort();
    expect(await pending).toMatchObject({ outcome: "aborted" });
    expect([a.calls.length, b.calls.length]).toEqual([1, 0]);
  });
});

it("[MO4] PROV-001 a step whose time runs out in a wait says what it waited for", async () => {
  const slow = inOrder({ status: 429, headers: { "retry-after": "50" }, message: "slow down" });
  const { server, subject } = await start(CHAT, slow, { limits: { idleMs: 600_000, stepMs: 20_000 } });
  const reply = await subject.call({ fallbacks: [CHAT.model] });
  expect(reply).toMatchObject({ outcome: "error", error: { kind: "rate" } });
  expect(reply.error?.message).toContain("Try again in 50 seconds.");
  expect(server.calls).toHaveLength(1);
});

it("[AG3] neither a listener that throws nor credentials that can't be read break the promise to answer", async () => {
  const { endpoint } = await start(CHAT, inOrder(GOOD));
  const rest = {
    prices: createPrices({ clock: systemClock }),
    clock: systemClock,
    log: silentLogger,
    limits: { idleMs: 10_000, stepMs: 20_000 },
  };
  const signal = new AbortController().signal;
  const text = { role: "user" as const, text: "hello" };
  const request = {
    model: CHAT.model,
    fallbacks: [],
    thinking: "off" as const,
    system: "",
    messages: [text],
    tools: [],
    agentId: "main",
    signal,
  };
  const throws = (): never => {
    throw new Error("auth.json can't be read");
  };
  const loud = createSdkModels({ ...rest, provider: () => endpoint, onCall: throws });
  expect(await loud.call(request, throws)).toMatchObject({ outcome: "ok", text: GOOD.text });
  const locked = createSdkModels({ ...rest, provider: throws });
  expect(await locked.call(request, () => {})).toMatchObject({ outcome: "error", error: { message: "auth.json can't be read" } });
});

it("[MO7] a key that is changed counts with the next try", async () => {
  const keys: unknown[] = [];
  const server = await createFakeOpenAi({
    respond: (_request, call) => {
      keys.push(call.headers.authorization);
      return keys.length === 1 ? { status: 500 } : GOOD;
    },
  });
  servers.push(server);
  const clock = createFastClock(200);
  const limits = { idleMs: 10_000_000, stepMs: 10_000_000 };
  let asked = 0;
  const provider = () => ({ api: "openai-compatible" as const, baseUrl: server.url, apiKey: `key-${++asked}` });
  const models = createSdkModels({ provider, prices: createPrices({ clock }), clock, log: silentLogger, limits });
  const text = { role: "user" as const, text: "hello" };
  const signal = new AbortController().signal;
  await models.call(
    { model: CHAT.model, fallbacks: [], thinking: "off", system: "", messages: [text], tools: [], agentId: "main", signal },
    () => {},
  );
  expect(keys).toEqual(["Bearer key-1", "Bearer key-2"]);
});

describe("before any request", () => {
  it("[MO7] a missing key is an error that names provider and agent", async () => {
    const subject = createSubject({ endpoints: { openai: { api: "openai" } }, request: { model: "openai/gpt-5.6", agentId: "coder" } });
    const reply = await subject.call({ fallbacks: ["anthropic/claude-opus-5-5"] });
    expect(reply).toMatchObject({ outcome: "error", error: { kind: "auth" } });
    expect(reply.error).toEqual({
      kind: "auth",
      message: "Agent coder has no key for the provider openai. Only whoever runs this gateway can change that.",
      remedy: "Run `npm run auth -- set coder openai`, or set OPENAI_API_KEY for all agents that share keys.",
    });
  });

  it("[MO1] an unknown provider and a malformed name are refused with a sentence", async () => {
    const subject = createSubject({ endpoints: {}, request: { model: "nowhere/model" } });
    expect(await subject.call()).toMatchObject({ outcome: "error", error: { kind: "bad-request", message: "No provider nowhere." } });
    expect((await subject.call({ model: "no-slash" })).error?.kind).toBe("bad-request");
    expect((await subject.call({ model: "google/../../secret" })).error?.message).toContain("is no model name");
  });

  it("[MO4] a server that isn't there is a network error after three tries", async () => {
    const { server, endpoint } = await start(CHAT, inOrder(GOOD));
    await server.close();
    servers.length = 0;
    const subject = createSubject({ endpoints: { proxy: endpoint }, request: { model: CHAT.model } });
    const reply = await subject.call();
    expect(reply).toMatchObject({ outcome: "error", error: { kind: "network" } });
    expect(reply.error?.message).toContain("ECONNREFUSED");
    expect(reply.error?.remedy).toContain("models.providers.proxy.baseUrl");
  });
});
