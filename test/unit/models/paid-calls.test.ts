// Calls that are paid for, over every wire format: the longest answer reaches the provider, thoughts included, and what a call that was
// refused, cut or ended is charged.
import { afterEach, describe, expect, it } from "vitest";
import type { Outlay, Purse, Took } from "../../../src/core/usage.ts";
import { type FakeModelServer, inOrder, type Respond } from "../../support/fake-model-server.ts";
import { createSubject, FORMATS, type ModelFormat, type Subject } from "../../support/model-formats.ts";

const servers: FakeModelServer[] = [];
afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => server.close()));
});

const USAGE = { input: 100, output: 10 };
const MAX = 3_000;
const ANTHROPIC = FORMATS.find(({ api }) => api === "anthropic") as ModelFormat;

interface Paid {
  readonly server: FakeModelServer;
  readonly subject: Subject;
  readonly took: Took[];
  readonly asked: Outlay[];
}

async function start(format: ModelFormat, respond: Respond, maxOutput = MAX): Promise<Paid> {
  const server = await format.create({ respond });
  servers.push(server);
  const took: Took[] = [];
  const asked: Outlay[] = [];
  const purse: Purse = {
    async open(outlay) {
      asked.push(outlay);
      return { maxOutput, settle: async (what) => void took.push(what) };
    },
  };
  const endpoints = { [format.model.split("/")[0] ?? ""]: { api: format.api, baseUrl: server.url, apiKey: "k" } };
  return { server, took, asked, subject: createSubject({ endpoints, request: { model: format.model, purse } }) };
}

// biome-ignore lint/suspicious/noExplicitAny: each format has its own body
const sentMax = (body: any): unknown =>
  body.max_tokens ?? body.max_output_tokens ?? body.generationConfig?.maxOutputTokens ?? body.options?.num_predict;

describe.each(FORMATS)("$name", (format) => {
  it.each(["off", "high"] as const)(
    "[BG2] the longest answer that is paid for is what the provider is told, thinking %s",
    async (thinking) => {
      const { server, subject, took } = await start(format, inOrder({ text: "fine", usage: USAGE }));
      expect(await subject.call({ thinking })).toMatchObject({ outcome: "ok" });
      expect(server.calls.map(({ body }) => sentMax(body))).toEqual([MAX]);
      expect(took).toMatchObject([{ usage: USAGE }]);
    },
  );

  it("[BG2] BUD-011 each attempt is a call of its own; refused without work it takes nothing", async () => {
    const { subject, took } = await start(format, inOrder({ status: 429, message: "slow down" }, { status: 503 }, { status: 401 }));
    await subject.call();
    expect(took).toEqual(["nothing", "nothing", "nothing"]);
  });

  it("[BG2] an answer that breaks off, or ends in an error event, is never charged for less than it may have taken", async () => {
    for (const fault of [{ cut: "after-text" }, { errorEvent: "overloaded" }] as const) {
      const { subject, took } = await start(format, inOrder({ text: "All is well, or so it seemed.", usage: USAGE, ...fault }));
      await subject.call();
      expect(took.length).toBeGreaterThan(0);
      for (const one of took) if (one !== null) expect(one).toMatchObject({ usage: { output: MAX } });
    }
  });

  it.each([
    ["an input of nothing", { input: 0, output: 10 }],
    ["an input below nothing", { input: -100, output: 10 }],
    ["an input nobody can have sent", { input: 9e15, output: 10 }],
    ["an output of nothing for an answer that has words", { input: 100, output: 0 }],
    ["an output below nothing", { input: 100, output: -10 }],
    ["an output nobody can have read", { input: 100, output: 9e15 }],
  ])("[BG2] %s is no count: that side is charged as the most it may have been", async (_, usage) => {
    const { subject, took } = await start(format, inOrder({ text: "fine, all of it", usage }));
    await subject.call();
    for (const one of took) {
      if (one === null || one === "nothing") expect(one).toBeNull();
      else expect(one.usage).toMatchObject({ input: 100, output: MAX });
    }
    expect(took.length).toBeGreaterThan(0);
  });

  it("[BG2] the next hold begins from what the provider counted, of the attempt that answered; another model's from its bytes", async () => {
    const usage = { input: 2_000, output: 10, cacheRead: 500 };
    const paid = await start(
      format,
      inOrder({ status: 503 }, { text: "fine", usage }, { text: "again", usage: { ...usage, input: 2_100 } }),
    );
    const first = { role: "user", text: "x".repeat(8_000) } as const;
    const held = (): number => paid.asked.at(-1)?.inputTokens() ?? 0;
    const { counted, text } = await paid.subject.call({ messages: [first], purse: countingPurse(paid.asked) });
    expect(counted).toMatchObject({ model: format.model, messages: 1, tokens: 2_000 });
    const answer = { role: "assistant", text, toolCalls: [], ...(counted === undefined ? {} : { counted }) } as const;
    const messages = [first, answer, { role: "user", text: "y".repeat(100) } as const];
    await paid.subject.call({ messages, purse: countingPurse(paid.asked) });
    expect(held()).toBeGreaterThan(2_100);
    expect(held()).toBeLessThan(2_300);
    await paid.subject.call({ messages, model: `${format.model}-other`, purse: countingPurse(paid.asked) });
    expect(held()).toBeGreaterThan(8_100);
  });
});

/** As a real one: it asks how much the input may be. */
const countingPurse = (asked: Outlay[]): Purse => ({
  async open(outlay) {
    outlay.inputTokens();
    asked.push(outlay);
    return { maxOutput: MAX, async settle() {} };
  },
});

describe("Anthropic's models whose thoughts have a budget", () => {
  const model = "anthropic/claude-sonnet-4-5";

  it("[BG2] thoughts and answer together are no longer than what is paid for", async () => {
    const { server, subject } = await start({ ...ANTHROPIC, model }, inOrder({ text: "fine", usage: USAGE }));
    await subject.call({ thinking: "high" });
    expect(server.calls[0]?.body).toMatchObject({ max_tokens: MAX, thinking: { type: "enabled", budget_tokens: MAX / 2 } });
  });

  it("[BG2] too little for both: an answer without thoughts", async () => {
    const { server, subject } = await start({ ...ANTHROPIC, model }, inOrder({ text: "fine", usage: USAGE }), 600);
    await subject.call({ thinking: "high" });
    expect(server.calls[0]?.body).toMatchObject({ max_tokens: 600, thinking: { type: "disabled" } });
  });
});

it("[BG2][ST2] stopped, or out of time, while it waits for its budget: aborted, not refused", async () => {
  const { server, subject } = await start(ANTHROPIC, inOrder({ text: "never" }));
  const stop = new AbortController();
  const purse: Purse = {
    open: (_outlay, signal) =>
      new Promise((resolve) => signal.addEventListener("abort", () => resolve({ refused: "It was stopped while it waited." }))),
  };
  const reply = subject.call({ purse, signal: stop.signal });
  stop.abort();
  expect(await reply).toMatchObject({ outcome: "aborted" });
  expect(server.calls).toEqual([]);
});

it("[BG3] a request that can't be put together is not sent, and locks no money", async () => {
  const server = await ANTHROPIC.create({ respond: inOrder({ text: "never" }) });
  servers.push(server);
  const took: Took[] = [];
  const purse: Purse = { open: async () => ({ maxOutput: MAX, settle: async (what) => void took.push(what) }) };
  const subject = createSubject({
    endpoints: { anthropic: { api: ANTHROPIC.api, baseUrl: server.url, apiKey: "k" } },
    request: { model: ANTHROPIC.model, purse },
    readPicture: () => Promise.reject(new Error("no such file")),
  });
  const pictures = [{ id: "1", name: "a.png", type: "image/png", size: 10 }];
  expect(await subject.call({ messages: [{ role: "user", text: "look", pictures }] })).toMatchObject({ outcome: "error" });
  expect(took).toEqual(["nothing"]);
  expect(server.calls).toEqual([]);
});
