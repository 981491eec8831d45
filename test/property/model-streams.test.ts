// Model streams: damaged in every wire format through the real adapter, and the pure parts behind it alone. Whatever a
// provider sends, a call ends with a reply that can be written down, shown and counted.
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { LanguageModelV4StreamPart } from "@ai-sdk/provider";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import type { ModelReply } from "../../src/models/model.ts";
import { explain, toFailure } from "../../src/models/model-error.ts";
import { filterNdjson } from "../../src/models/ndjson.ts";
import { createReplyDraft, type ReplyDraft } from "../../src/models/reply-draft.ts";
import { createFastClock } from "../support/fast-clock.ts";
import { createSubject, FORMATS, type ModelFormat } from "../support/model-formats.ts";
import { cases, checkPrototype, damagedBytes, damagedText, damagedTree } from "./cases.ts";

const KINDS = ["auth", "rate", "overload", "context", "network", "bad-request", "timeout", "unknown"];
const SECRET = "sk-very-secret-key";
const target = { provider: "proxy", id: "m", endpoint: { api: "openai-compatible", apiKey: SECRET } } as const;

it("[MO4] any error is classified, says when to come back and becomes one sentence without the key", () => {
  const body = JSON.stringify({ error: { message: "slow down", type: "rate_limit_error", details: [{ retryDelay: "3.5s" }] } });
  const errors = [
    {
      statusCode: 429,
      responseBody: body,
      responseHeaders: { "retry-after": "5", "retry-after-ms": "100", "x-should-retry": "true" },
      message: "m",
    },
    { statusCode: 503, responseBody: "<html>", responseHeaders: { "retry-after": "Wed, 21 Oct 2026 07:28:00 GMT" } },
    { type: "error", error: { type: "overloaded_error", code: 529, message: `try ${SECRET} at https://x/y` } },
    { message: "fetch failed", cause: { code: "ECONNRESET", cause: { code: "X" } } },
    { statusCode: 400, responseBody: '{"error":"context length exceeded"}', error: null },
  ];
  fc.assert(
    fc.property(damagedTree(fc.constantFrom(...errors)), fc.boolean(), (thrown, isError) => {
      const error = isError && typeof thrown === "object" ? Object.assign(new Error("x"), { ...thrown }) : thrown;
      const failure = toFailure(error, Date.UTC(2026, 0));
      checkPrototype();
      expect(KINDS).toContain(failure.kind);
      expect(failure.afterMs === null || failure.afterMs >= 0).toBe(true);
      expect(failure.status === null || (failure.status >= 400 && failure.status < 600)).toBe(true);
      if ([400, 401, 403].includes(failure.status ?? 0)) expect(failure.isPassing).toBe(false);
      const { message, remedy = "" } = explain(failure, target, "main");
      for (const words of [message, remedy])
        expect(words.length < 700 && words.isWellFormed() && !words.includes(SECRET) && !/[\n\0]/.test(words)).toBe(true);
    }),
    cases(),
  );
});

/** What holds of every answer, whole or broken. */
function checkReply({ text, toolCalls, usage, finish }: Pick<ModelReply, "text" | "toolCalls" | "usage" | "finish">): void {
  checkPrototype();
  expect(text.isWellFormed() && !text.includes("\0") && text.length < 1.1e6).toBe(true);
  expect(new Set(toolCalls.map((call) => call.id)).size).toBe(toolCalls.length);
  for (const { name, invalid } of toolCalls) expect(invalid !== undefined || name === "read").toBe(true);
  if (usage !== null) for (const count of Object.values(usage)) expect(Number.isSafeInteger(count) && count >= 0).toBe(true);
  expect(["stop", "tool-calls", "length", "filter", "other"]).toContain(finish);
  JSON.stringify(toolCalls);
}

const PARTS: LanguageModelV4StreamPart[] = [
  { type: "text-start", id: "1" },
  { type: "text-delta", id: "1", delta: "All is \ud83d" },
  { type: "text-delta", id: "1", delta: "\ude00 well" },
  { type: "text-end", id: "1", providerMetadata: { p: { signature: "s" } } },
  { type: "reasoning-start", id: "2" },
  { type: "reasoning-delta", id: "2", delta: "hm" },
  { type: "tool-input-start", id: "c1", toolName: "read" },
  { type: "tool-input-delta", id: "c1", delta: '{"path":' },
  { type: "tool-call", toolCallId: "c1", toolName: "read", input: '{"path":"a.txt"}' },
  {
    type: "custom",
    kind: "anthropic.message_start",
    providerMetadata: { anthropic: { usage: { input_tokens: 3, cache_read_input_tokens: 1 } } },
  },
  {
    type: "finish",
    finishReason: { unified: "stop", raw: "stop" },
    usage: { inputTokens: { total: 5, noCache: 4, cacheRead: 1, cacheWrite: 0 }, outputTokens: { total: 2, text: 2, reasoning: 0 } },
  },
  { type: "error", error: { type: "overloaded_error" } },
];

/** The library checks what it parsed, so strings are strings; numbers and metadata can be anything JSON has. */
const isTyped = (value: unknown): value is LanguageModelV4StreamPart => {
  const given = value as Record<string, unknown> | null;
  const model: object | undefined = PARTS.find((known) => known.type === given?.type);
  if (typeof given !== "object" || given === null || model === undefined) return false;
  const isSame = (name: string) => typeof given[name] === typeof Reflect.get(model, name) && given[name] !== null;
  if (!Object.keys(model).every((name) => name === "providerMetadata" || isSame(name))) return false;
  if (given.type !== "finish") return true;
  const { finishReason, usage } = given as { finishReason: unknown; usage: Record<string, unknown> };
  return [finishReason, usage.inputTokens, usage.outputTokens].every((inner) => typeof inner === "object" && inner !== null);
};

it("[MO3][AG3] any order of parts, doubled, damaged or missing, is a draft whose text, calls and figures hold", () => {
  const parts = fc.array(damagedTree(fc.constantFrom(...PARTS)), { maxLength: 12 });
  const read = (list: readonly unknown[], seen: string[]): ReplyDraft => {
    const draft = createReplyDraft(new Set(["read"]), { onText: (text) => seen.push(text) });
    for (const part of list) if (isTyped(part)) draft.take(part);
    return draft;
  };
  fc.assert(
    fc.property(parts, (list) => {
      const seen: string[] = [];
      const draft = read(list, seen);
      checkReply(draft);
      // What people saw grow is what stays.
      for (const [n, text] of seen.entries()) expect(text.startsWith(seen[n - 1] ?? "")).toBe(true);
      expect(draft.text).toBe(seen.at(-1) ?? "");
      if (draft.incomplete() === null)
        expect(list.some((part) => isTyped(part) && part.type === "finish") || draft.finish !== "other").toBe(true);
      expect(draft.extras("m")?.parts.length ?? 1).toBeGreaterThan(0);
    }),
    cases(4), // up to twelve parts each
  );
});

const OLLAMA_LINE = '{"model":"m","created_at":"2026-01-01T00:00:00Z","message":{"role":"assistant","content":"ä😀"},"done":false}\n';

it("[MO4] any chunking of Ollama's lines gives the same usable lines, and an error line ends the stream", async () => {
  const stream = damagedText(
    fc.constantFrom(OLLAMA_LINE.repeat(3), `${OLLAMA_LINE}{"error":"out of memory"}\n`, `${OLLAMA_LINE}{not json\n${OLLAMA_LINE}`),
  );
  const filter = (chunks: Uint8Array[]) => {
    return filterNdjson(async () => new Response(ReadableStream.from(chunks)))("http://127.0.0.1").then((response) =>
      response.text().catch((error: unknown) => {
        expect(error).toMatchObject({ name: "StreamError" });
        return null;
      }),
    );
  };
  await fc.assert(
    fc.asyncProperty(stream, fc.array(fc.nat(400), { maxLength: 3 }), async (text, cuts) => {
      const bytes = Buffer.from(text);
      const ends = [0, ...cuts.toSorted((a, b) => a - b), bytes.length];
      const whole = await filter([bytes]);
      expect(await filter(ends.slice(1).map((end, n) => bytes.subarray(ends[n], end)))).toBe(whole);
      for (const line of whole?.trimEnd().split("\n") ?? []) if (line !== "") expect(JSON.parse(line)).toHaveProperty("done");
    }),
    cases(10), // two streams each
  );
});

it("[MO4] a line of Ollama's that never ends is read in linear time", async () => {
  const chunk = Buffer.alloc(64 * 1024, "x");
  let left = 1_000;
  const source = new ReadableStream<Uint8Array>({ pull: (controller) => (left-- > 0 ? controller.enqueue(chunk) : controller.close()) });
  const startedAt = process.cpuUsage();
  const response = await filterNdjson(async () => new Response(source))("http://127.0.0.1");
  expect(await response.text()).toBe("");
  expect(process.cpuUsage(startedAt).user / 1e6).toBeLessThan(5);
});

describe.each(FORMATS)("$name", (format) => {
  let raw: { server: Server; url: string; bytes: Buffer; cuts: number[] };
  let whole: string;
  beforeAll(async () => {
    // Ollama's client prints the lines whose shape it doesn't know.
    vi.spyOn(console, "warn").mockImplementation(() => undefined);
    vi.spyOn(console, "error").mockImplementation(() => undefined);
    whole = await record(format);
    raw = await startRaw(format);
  });
  afterAll(async () => {
    vi.restoreAllMocks();
    raw.server.closeAllConnections();
    raw.server.close();
    await once(raw.server, "close");
  });

  it("[MO4][AG3] a damaged stream, cut into any pieces, ends as a reply: whole, or a failure with a sentence", async () => {
    const [provider = ""] = format.model.split("/");
    const endpoints = { [provider]: { api: format.api, baseUrl: raw.url, apiKey: SECRET } };
    const clock = createFastClock(100_000);
    const outcomes = new Set<string>();
    await fc.assert(
      fc.asyncProperty(damagedBytes(fc.constantFrom(whole)), fc.array(fc.nat(3_000), { maxLength: 3 }), async (bytes, cuts) => {
        Object.assign(raw, { bytes, cuts: cuts.toSorted((a, b) => a - b) });
        const subject = createSubject({
          endpoints,
          clock,
          request: { model: format.model, tools: [TOOL] },
          limits: { idleMs: 1e9, stepMs: 1e10 },
        });
        const reply = await within(10_000, subject.call());
        outcomes.add(reply.outcome);
        checkReply(reply);
        if (reply.outcome === "ok") return;
        expect(reply.outcome).toBe("error");
        expect(KINDS).toContain(reply.error?.kind);
        expect(reply.error?.message).toMatch(/^(?!.*sk-very)[A-Z].{20,600}\.$/);
        expect(reply.toolCalls).toEqual([]);
      }),
      // Up to three HTTP calls each, and the same for every format.
      cases(250),
    );
    expect([...outcomes].sort()).toEqual(["error", "ok"]);
  });
});

const TOOL = { name: "read", description: "Reads a file.", parameters: { type: "object", properties: { path: { type: "string" } } } };

/** What a well-behaved server of this format sends for one answer with text and a call. */
async function record(format: ModelFormat): Promise<string> {
  const fake = await format.create({
    respond: () => ({
      text: "All is well 😀, or so it seemed.",
      reasoning: "hm",
      toolCalls: [{ name: "read", args: { path: "a.txt" } }],
      usage: { input: 100, output: 10 },
    }),
  });
  let seen = "";
  const relay = createServer((request, response) => {
    void (async () => {
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk as Buffer);
      const body = Buffer.concat(chunks);
      const answer = await fetch(new URL(request.url ?? "", fake.url), {
        method: "POST",
        body,
        headers: { "content-type": "application/json" },
      });
      seen = await answer.text();
      response.writeHead(200, { "content-type": answer.headers.get("content-type") ?? "" }).end(seen);
    })();
  });
  const url = await listen(relay, new URL(fake.url).pathname);
  const [provider = ""] = format.model.split("/");
  const subject = createSubject({
    endpoints: { [provider]: { api: format.api, baseUrl: url, apiKey: SECRET } },
    request: { model: format.model, tools: [TOOL] },
  });
  const reply = await subject.call();
  relay.closeAllConnections();
  relay.close();
  await fake.close();
  expect(reply).toMatchObject({ outcome: "ok", toolCalls: [{ name: "read", args: { path: "a.txt" } }] });
  return seen;
}

async function listen(server: Server, path: string): Promise<string> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}${path}`;
}

/** Answers every request with `bytes`, cut at `cuts`. */
async function startRaw(format: ModelFormat) {
  const state = { bytes: Buffer.alloc(0), cuts: [] as number[] };
  const server = createServer((request, response) => {
    request.resume();
    response.writeHead(200, { "content-type": format.api === "ollama" ? "application/x-ndjson" : "text/event-stream" });
    const ends = [0, ...state.cuts, state.bytes.length];
    for (const [n, end] of ends.slice(1).entries()) response.write(state.bytes.subarray(ends[n], end));
    response.end();
  });
  const fake = await format.create({ respond: () => ({}) });
  const { pathname } = new URL(fake.url);
  await fake.close();
  return Object.assign(state, { server, url: await listen(server, pathname) });
}

function within<T>(ms: number, work: Promise<T>): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new Error(`no end within ${ms} ms`)), ms);
  return Promise.race([work, promise]).finally(() => clearTimeout(timer));
}
