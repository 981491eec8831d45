// The wire formats as a table, and the adapter wired to any of them: the same cases run over each.

import type { Clock } from "../../src/core/clock.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { type CallReport, createSdkModels, type SdkModelsOptions } from "../../src/models/ai-sdk.ts";
import type { Endpoint } from "../../src/models/language-model.ts";
import type { ModelEvent, ModelReply, ModelRequest } from "../../src/models/model.ts";
import { createPrices } from "../../src/models/prices.ts";
import type { ProviderApi } from "../../src/models/provider.ts";
import { createFakeAnthropic } from "./fake-anthropic.ts";
import { createFakeGoogle } from "./fake-google.ts";
import type { FakeModelServer, Respond } from "./fake-model-server.ts";
import { createFakeOllama } from "./fake-ollama.ts";
import { createFakeOpenAi } from "./fake-openai.ts";
import { createFastClock } from "./fast-clock.ts";

export interface ModelFormat {
  readonly name: string;
  readonly api: ProviderApi;
  /** A model the library knows to be able to think, so that a thinking level reaches the wire. */
  readonly model: string;
  /** What `thinking: "high"` looks like in the request. */
  readonly highThinking: unknown;
  create(options: { respond: Respond }): Promise<FakeModelServer>;
}

export const FORMATS: readonly ModelFormat[] = [
  { name: "chat completions", api: "openai-compatible", model: "proxy/any-model", highThinking: "high", create: createFakeOpenAi },
  { name: "responses", api: "openai", model: "openai/gpt-5.6", highThinking: "high", create: createFakeOpenAi },
  {
    name: "anthropic",
    api: "anthropic",
    model: "anthropic/claude-opus-5-5",
    highThinking: { type: "adaptive", display: "summarized" },
    create: createFakeAnthropic,
  },
  {
    name: "google",
    api: "google",
    model: "google/gemini-3.8-flash",
    highThinking: { thinkingLevel: "high" },
    create: createFakeGoogle,
  },
  { name: "ollama", api: "ollama", model: "ollama/qwen3:8b", highThinking: true, create: createFakeOllama },
];

export interface Subject {
  readonly reports: CallReport[];
  readonly events: ModelEvent[];
  call(request?: Partial<ModelRequest>): Promise<ModelReply>;
}

export interface SubjectOptions {
  /** Provider name → its endpoint. */
  readonly endpoints: Readonly<Record<string, Endpoint>>;
  readonly clock?: Clock;
  readonly limits?: SdkModelsOptions["limits"];
  readonly request: Pick<ModelRequest, "model"> & Partial<ModelRequest>;
  readonly readPicture?: NonNullable<SdkModelsOptions["readPicture"]>;
}

export function createSubject({ endpoints, request: defaults, ...rest }: SubjectOptions): Subject {
  const clock = rest.clock ?? createFastClock(200);
  const reports: CallReport[] = [];
  const events: ModelEvent[] = [];
  const models = createSdkModels({
    provider: (name) =>
      Object.hasOwn(endpoints, name)
        ? (endpoints[name] as Endpoint)
        : { problem: { message: `No provider ${name}.` }, kind: "bad-request" },
    prices: createPrices({ clock }),
    clock,
    log: silentLogger,
    limits: rest.limits ?? { idleMs: 10_000_000, stepMs: 100_000_000 },
    onCall: (report) => reports.push(report),
    random: () => 0,
    ...(rest.readPicture === undefined ? {} : { readPicture: rest.readPicture }),
  });
  const base: Omit<ModelRequest, "model"> = {
    fallbacks: [],
    thinking: "off",
    system: "You are a test.",
    messages: [{ role: "user", text: "hello" }],
    tools: [],
    agentId: "main",
    signal: new AbortController().signal,
  };
  return {
    reports,
    events,
    call: (request = {}) => models.call({ ...base, ...defaults, ...request }, (event) => events.push(event)),
  };
}
