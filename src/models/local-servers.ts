// Model servers on this machine: asks the usual loopback ports once, in parallel, and gives up quickly.
// resolve.ts → findLocalServers → what answers, with the models that can be used. Never leaves 127.0.0.1.

import { z } from "zod";
import { readBytes } from "../core/read-bytes.ts";
import { OLLAMA_WINDOW } from "./prices.ts";
import type { ProviderDefinition } from "./provider.ts";

/** By provider name. */
export interface LocalPorts {
  readonly ollama: number;
  readonly lmstudio: number;
  readonly llamacpp: number;
}

export interface LocalServer {
  /** Provider name in a model name. */
  readonly provider: string;
  /** The name people know. */
  readonly title: string;
  readonly address: string;
  /** `models` may be empty: it answers, but has nothing that fits. */
  readonly definition: ProviderDefinition & { readonly models: readonly LocalModel[] };
}

interface LocalModel {
  readonly id: string;
  readonly contextWindow?: number;
  readonly images?: boolean;
}

export interface LocalServersOptions {
  readonly ports?: LocalPorts;
  /** For each request. */
  readonly timeoutMs?: number;
}

export const LOCAL_PORTS: LocalPorts = { ollama: 11434, lmstudio: 1234, llamacpp: 8080 };
const TIMEOUT_MS = 300;
const MAX_BYTES = 1024 * 1024;
const MAX_MODELS = 20;

const OllamaTags = z.object({ models: z.array(z.object({ name: z.string().min(1) })) });
const OllamaShow = z.object({
  capabilities: z.array(z.string()).default([]),
  model_info: z.record(z.string(), z.unknown()).default({}),
});
const ModelList = z.object({
  data: z.array(z.object({ id: z.string().min(1), meta: z.object({ n_ctx: z.number().int().positive().optional() }).nullish() })),
});

/** Every server that answers, Ollama first. Never rejects; an unexpected answer counts as none. */
export async function findLocalServers(options: LocalServersOptions = {}): Promise<LocalServer[]> {
  const ports = options.ports ?? LOCAL_PORTS;
  const timeoutMs = options.timeoutMs ?? TIMEOUT_MS;
  const found = await Promise.all([
    probeOllama(ports.ollama, timeoutMs),
    probeOpenAiLike("lmstudio", "LM Studio", ports.lmstudio, timeoutMs),
    probeOpenAiLike("llamacpp", "llama.cpp", ports.llamacpp, timeoutMs),
  ]);
  return found.filter((server) => server !== null);
}

async function probeOllama(port: number, timeoutMs: number): Promise<LocalServer | null> {
  const base = `http://127.0.0.1:${port}/api`;
  const tags = OllamaTags.safeParse(await getJson(`${base}/tags`, timeoutMs));
  if (!tags.success) return null;
  const names = tags.data.models.slice(0, MAX_MODELS).map((model) => model.name);
  const models = await Promise.all(names.map((name) => showOllamaModel(base, name, timeoutMs)));
  return {
    provider: "ollama",
    title: "Ollama",
    address: `127.0.0.1:${port}`,
    definition: { api: "ollama", baseUrl: base, models: models.filter((model) => model !== null) },
  };
}

/** The model when it can call tools, else null: an agent without tools would only pretend to work. */
async function showOllamaModel(base: string, name: string, timeoutMs: number): Promise<LocalModel | null> {
  const shown = OllamaShow.safeParse(await getJson(`${base}/show`, timeoutMs, { model: name }));
  if (!shown.success || !shown.data.capabilities.includes("tools")) return null;
  const window = Object.entries(shown.data.model_info).find(([key]) => key.endsWith(".context_length"))?.[1];
  // What is asked for is allocated at once, and the longest window of a model takes more memory than most machines have.
  const model = { id: name, images: shown.data.capabilities.includes("vision") };
  return typeof window === "number" && window > 0 ? { ...model, contextWindow: Math.min(window, OLLAMA_WINDOW) } : model;
}

async function probeOpenAiLike(provider: string, title: string, port: number, timeoutMs: number): Promise<LocalServer | null> {
  const baseUrl = `http://127.0.0.1:${port}/v1`;
  const list = ModelList.safeParse(await getJson(`${baseUrl}/models`, timeoutMs));
  if (!list.success) return null;
  const models = list.data.data
    .filter((model) => !/embed/i.test(model.id))
    .slice(0, MAX_MODELS)
    .map((model): LocalModel => (model.meta?.n_ctx === undefined ? { id: model.id } : { id: model.id, contextWindow: model.meta.n_ctx }));
  return { provider, title, address: `127.0.0.1:${port}`, definition: { api: "openai-compatible", baseUrl, models } };
}

/** The JSON answer, or null for anything else: nobody there, slow, a redirect, an error status, too long, no JSON. */
async function getJson(url: string, timeoutMs: number, body?: unknown): Promise<unknown> {
  try {
    const response = await fetch(url, {
      method: body === undefined ? "GET" : "POST",
      // A redirect could lead off this machine.
      redirect: "error",
      signal: AbortSignal.timeout(timeoutMs),
      ...(body === undefined ? {} : { body: JSON.stringify(body), headers: { "content-type": "application/json" } }),
    });
    if (!response.ok) {
      await response.body?.cancel();
      return null;
    }
    return JSON.parse(await readText(response));
  } catch {
    // Not being there is the usual case, and not an error.
    return null;
  }
}

async function readText(response: Response): Promise<string> {
  const bytes = response.body === null ? Buffer.of() : await readBytes(response.body, MAX_BYTES);
  if (bytes === null) throw new RangeError("answer too long");
  return bytes.toString("utf8");
}
