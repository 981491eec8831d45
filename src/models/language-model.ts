// The library's objects, one for each model of an endpoint and kept: to make one costs as much as a twelfth of a short turn.
// Provider packages are imported on first use. attempt.ts → createLanguageModels → @ai-sdk/* | ollama-ai-provider-v2
import type { LanguageModelV4, LanguageModelV4CallOptions } from "@ai-sdk/provider";
import { filterNdjson } from "./ndjson.ts";
import { type ModelSettings, OLLAMA_WINDOW } from "./prices.ts";
import type { ProviderApi } from "./provider.ts";

/** A provider as one agent may use it right now: where it is and with which key. */
export interface Endpoint {
  readonly api: ProviderApi;
  readonly baseUrl?: string;
  readonly apiKey?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly models?: readonly ModelSettings[];
}

export interface ModelTarget {
  readonly provider: string;
  readonly id: string;
  readonly endpoint: Endpoint;
}

const OFFICIAL_URL: Readonly<Record<ProviderApi, string>> = {
  anthropic: "https://api.anthropic.com/v1",
  openai: "https://api.openai.com/v1",
  google: "https://generativelanguage.googleapis.com/v1beta",
  ollama: "http://127.0.0.1:11434/api",
  "openai-compatible": "http://127.0.0.1:8080/v1",
};

/** More than anybody uses at a time; keys may rotate every hour, and each is another object. */
const MAX_KEPT = 100;

/** The object for a target. Rejects only when the endpoint's URL is no URL. */
export type LanguageModels = (target: ModelTarget) => Promise<LanguageModelV4>;

/** `fetch` serves all calls of all objects: whose call it is, it knows by the signal. */
export function createLanguageModels(fetch: typeof globalThis.fetch): LanguageModels {
  const kept = new Map<string, LanguageModelV4>();
  return async (target) => {
    const { provider, id, endpoint } = target;
    const { api, baseUrl, apiKey, headers } = endpoint;
    // All that an object is made of: a rotated key or another address counts with the next call.
    const key = JSON.stringify([provider, id, api, baseUrl, apiKey, headers]);
    const model = kept.get(key) ?? (await createLanguageModel(target, fetch));
    if (kept.size >= MAX_KEPT) kept.clear();
    kept.set(key, model);
    return model;
  };
}

async function createLanguageModel(target: ModelTarget, fetch: typeof globalThis.fetch): Promise<LanguageModelV4> {
  const { endpoint, provider, id } = target;
  const headers = { ...endpoint.headers };
  const baseURL = apiUrl(endpoint);
  // Explicit always: left out, the packages would take keys and addresses from the environment, past the agent's own.
  const settings = { baseURL, apiKey: endpoint.apiKey ?? "none", headers, fetch };
  switch (endpoint.api) {
    case "anthropic":
      return (await import("@ai-sdk/anthropic")).createAnthropic(settings)(id);
    case "openai":
      return (await import("@ai-sdk/openai")).createOpenAI(settings).responses(id);
    case "google":
      return (await import("@ai-sdk/google")).createGoogle(settings)(id);
    case "ollama": {
      const bearer: Record<string, string> = endpoint.apiKey === undefined ? {} : { authorization: `Bearer ${endpoint.apiKey}` };
      const { createOllama } = await import("ollama-ai-provider-v2");
      return createOllama({ baseURL, headers: { ...bearer, ...headers }, fetch: filterNdjson(fetch) })(id);
    }
    case "openai-compatible": {
      const { createOpenAICompatible } = await import("@ai-sdk/openai-compatible");
      const key = endpoint.apiKey === undefined ? {} : { apiKey: endpoint.apiKey };
      return createOpenAICompatible({ name: provider, baseURL, ...key, headers, fetch, includeUsage: true }).chatModel(id);
    }
  }
}

/** A bare host gets the path its API lives under: `http://gpu:11434` means `http://gpu:11434/api`. */
function apiUrl(endpoint: Endpoint): string {
  const official = OFFICIAL_URL[endpoint.api];
  const url = new URL(endpoint.baseUrl ?? official);
  if (url.pathname === "/") url.pathname = new URL(official).pathname;
  return url.href.replace(/\/$/, "");
}

/** The same call with an answer of at most so many tokens; null: as it is. */
export function withLimit(
  call: LanguageModelV4CallOptions,
  { endpoint }: ModelTarget,
  maxOutput: number | null,
): LanguageModelV4CallOptions {
  if (maxOutput === null) return call;
  if (endpoint.api !== "ollama") return { ...call, maxOutputTokens: maxOutput };
  const { ollama } = call.providerOptions as { ollama?: { options?: Record<string, number> } };
  return { ...call, providerOptions: { ollama: { options: { ...ollama?.options, num_predict: maxOutput } } } };
}

/** Below this Anthropic takes no budget for thoughts. */
const LEAST_THOUGHTS = 1_024;

/**
 * The library sends Anthropic a maximum with the thoughts on top of the answer, several times what was asked for; what is paid for is both
 * together. Of that the thoughts get half at most, so that there is an answer; where that is too little there are none.
 */
export function withinLimit(body: string, maxOutput: number): string {
  const sent = JSON.parse(body) as { max_tokens?: number; thinking?: { type?: string; budget_tokens?: number } };
  if (sent.max_tokens === undefined || sent.max_tokens <= maxOutput) return body;
  const thoughts = Math.min(sent.thinking?.budget_tokens ?? 0, Math.floor(maxOutput / 2));
  const hasBudget = sent.thinking?.budget_tokens !== undefined;
  const thinking = thoughts < LEAST_THOUGHTS ? { type: "disabled" } : { ...sent.thinking, budget_tokens: thoughts };
  return JSON.stringify({ ...sent, max_tokens: maxOutput, ...(hasBudget ? { thinking } : {}) });
}

/** What each API needs besides the standard call options. */
export function endpointOptions(target: ModelTarget): Pick<LanguageModelV4CallOptions, "providerOptions" | "maxOutputTokens"> {
  const settings = target.endpoint.models?.find((model) => model.id === target.id);
  const limit = settings?.maxTokens === undefined ? {} : { maxOutputTokens: settings.maxTokens };
  switch (target.endpoint.api) {
    case "openai":
      // Otherwise the next step refers to items kept on the provider's side, which no other provider can read.
      return { ...limit, providerOptions: { openai: { store: false } } };
    case "ollama": {
      const predict = settings?.maxTokens === undefined ? {} : { num_predict: settings.maxTokens };
      return { providerOptions: { ollama: { options: { num_ctx: settings?.contextWindow ?? OLLAMA_WINDOW, ...predict } } } };
    }
    default:
      return limit;
  }
}
