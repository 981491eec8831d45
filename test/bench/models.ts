// One model step through src/models/ai-sdk.ts against a hand-written fetch loop that reads the same stream, and what the
// process weighs before and after the adapter is loaded.
import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { systemClock } from "../../src/core/clock.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { createSdkModels } from "../../src/models/ai-sdk.ts";
import type { ModelRequest, Models } from "../../src/models/model.ts";
import { createPrices } from "../../src/models/prices.ts";
import { createFakeOpenAi } from "../support/fake-openai.ts";
import { createHarness } from "../support/harness.ts";
import { scriptedConfig } from "../support/scripted-model.ts";
import { atMost, interleave, median, type Row, rssMb, type Topic, timed, told, us } from "./measure.ts";

const PER_ROUND = 20;
const ROUNDS = 21;
const REST_MS = 2_000;

export const models: Topic = { name: "models", run: async () => [...(await measureStep()), ...(await measureLoading())] };

async function measureStep(): Promise<Row[]> {
  const worker = new Worker(new URL("./fake-openai-worker.ts", import.meta.url));
  try {
    const [url] = (await once(worker, "message")) as [string];
    const sdk = createSdk(url);
    const cpu = { sdk: [] as number[], fetch: [] as number[] };
    const round = (name: "sdk" | "fetch", step: () => Promise<number>) => async (): Promise<void> => {
      const before = process.threadCpuUsage();
      for (let i = 0; i < PER_ROUND; i++) if ((await step()) === 0) throw new Error("the step brought no text");
      const { user, system } = process.threadCpuUsage(before);
      cpu[name].push((user + system) / 1000);
    };
    const times = await interleave(ROUNDS, {
      sdk: round("sdk", async () => (await sdk.call(REQUEST, () => {})).text.length),
      fetch: round("fetch", async () => (await fetchStep(url)).length),
    });
    const own = { sdk: median(cpu.sdk), fetch: median(cpu.fetch) };
    return [
      atMost(
        "model step through the adapter, against a hand-written fetch loop",
        times.sdk / times.fetch,
        6,
        `${us(times.sdk / PER_ROUND)} against ${us(times.fetch / PER_ROUND)}, server included`,
      ),
      atMost(
        "the same in CPU time of the client alone",
        own.sdk / own.fetch,
        6,
        `${us(own.sdk / PER_ROUND)} against ${us(own.fetch / PER_ROUND)}`,
      ),
    ];
  } finally {
    await worker.terminate();
  }
}

const SYSTEM = "You are a bench. ".repeat(50);
const QUESTION = "What does the fox do?";

const REQUEST: ModelRequest = {
  model: "scripted/model-1",
  fallbacks: [],
  thinking: "off",
  system: SYSTEM,
  messages: [{ role: "user", text: QUESTION }],
  tools: [],
  agentId: "main",
  signal: new AbortController().signal,
};

function createSdk(url: string): Pick<Models, "call"> {
  return createSdkModels({
    provider: () => ({ api: "openai-compatible", baseUrl: url, apiKey: "scripted-key-0123456789" }),
    prices: createPrices({ clock: systemClock }),
    clock: systemClock,
    log: silentLogger,
    limits: { idleMs: 60_000, stepMs: 120_000 },
  });
}

/** The least that gets the same text: one request, lines of the stream, deltas put together. */
async function fetchStep(url: string): Promise<string> {
  const response = await fetch(`${url}/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: "Bearer scripted-key-0123456789" },
    body: JSON.stringify({
      ...{ model: "model-1", stream: true, stream_options: { include_usage: true } },
      messages: [
        { role: "system", content: SYSTEM },
        { role: "user", content: QUESTION },
      ],
    }),
  });
  const decoder = new TextDecoder();
  let text = "";
  let rest = "";
  for await (const chunk of response.body ?? []) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      if (!line.startsWith("data: {")) continue;
      const event = JSON.parse(line.slice(6)) as { choices: { delta: { content?: string } }[] };
      text += event.choices[0]?.delta.content ?? "";
    }
  }
  return text;
}

async function measureLoading(): Promise<Row[]> {
  const server = await createFakeOpenAi({ respond: () => ({ text: "Here I am.", usage: { input: 10, output: 5 } }) });
  try {
    await using harness = await createHarness({ config: scriptedConfig(server.url) });
    // The first start may have had to compile.
    await harness.stop();
    const ready = await timed(() => harness.restart());
    const before = await restingRss(harness.pid());
    const first = await timed(() => ask(harness.say, harness.reply, "one"));
    const after = await restingRss(harness.pid());
    const second = await timed(() => ask(harness.say, harness.reply, "two"));
    return [
      told(
        "a model is configured, the adapter not loaded",
        `${Math.round(before)} MB, ready in ${Math.round(ready)} ms`,
        "idle RSS and time to ready",
      ),
      told(
        "after its first call, the adapter loaded",
        `${Math.round(after)} MB`,
        `first answer after ${Math.round(first)} ms, the second after ${Math.round(second)} ms`,
      ),
    ];
  } finally {
    await server.close();
  }
}

async function ask(
  say: (text: string, to: { chat: string }) => Promise<string>,
  reply: (fits: RegExp, chat: string) => Promise<unknown>,
  which: "one" | "two",
): Promise<void> {
  // Chats of their own, so that a reply is surely the answer to this message.
  const chat = { one: "0b8f7a52-6d0f-4a0e-9a3c-3a1f6f3f5f11", two: "0b8f7a52-6d0f-4a0e-9a3c-3a1f6f3f5f12" }[which];
  await say("Hello", { chat });
  await reply(/Here I am/, chat);
}

async function restingRss(pid: number): Promise<number> {
  await new Promise((resolve) => setTimeout(resolve, REST_MS));
  return rssMb(pid);
}
