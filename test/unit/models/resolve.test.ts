import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { calcPrice } from "@pydantic/genai-prices";
import { afterEach, describe, expect, it } from "vitest";
import { systemClock } from "../../../src/core/clock.ts";
import { silentLogger } from "../../../src/core/logger.ts";
import { createSdkModels } from "../../../src/models/ai-sdk.ts";
import { LOCAL_PORTS } from "../../../src/models/local-servers.ts";
import { createPrices } from "../../../src/models/prices.ts";
import { BUILT_IN_PROVIDERS, parseModelName } from "../../../src/models/provider.ts";
import { checkModelName, pickSubagentModel, type ResolveOptions, resolveDefaultModel } from "../../../src/models/resolve.ts";
import { createRouter } from "../../../src/models/router.ts";
import { freePort } from "../../support/free-port.ts";

type Routes = Record<string, (body: string) => unknown>;
const servers: Server[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    await new Promise((done) => server.close(done));
  }
});

/** A loopback server that answers JSON on the given paths; a route that returns undefined never answers. */
async function serve(routes: Routes): Promise<number> {
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const route = routes[request.url ?? ""];
      if (route === undefined) return void response.writeHead(404).end();
      const answer = route(Buffer.concat(chunks).toString());
      if (answer === undefined) return;
      if (typeof answer === "string" && answer.startsWith("http")) return void response.writeHead(302, { location: answer }).end();
      response.end(typeof answer === "string" ? answer : JSON.stringify(answer));
    });
  });
  servers.push(server);
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  return (server.address() as AddressInfo).port;
}

const noKey: Pick<ResolveOptions, "findKey" | "configProviders" | "probe"> = { findKey: () => null, configProviders: [], probe: true };
const quiet = async () => {
  const port = await freePort();
  return { ollama: port, lmstudio: port, llamacpp: port };
};
const TIMEOUT_MS = 3000;

describe("default model", () => {
  it("[RN2] takes the config first", async () => {
    const resolved = await resolveDefaultModel({
      ...noKey,
      configured: "openai/gpt-6-sol",
      findKey: () => ({ apiKey: "k", source: { kind: "env", name: "X" } }),
    });
    expect(resolved).toEqual({ model: "openai/gpt-6-sol", why: "set in the config (agents.defaults.model)", providers: {} });
    expect((await resolveDefaultModel({ ...noKey, configured: "nobody/x" })).why).toContain("Unknown provider nobody");
  });

  it("[RN2] then a key, in a fixed order, and says which", async () => {
    const findKey: ResolveOptions["findKey"] = (provider) =>
      provider === "google"
        ? { apiKey: "k", source: { kind: "env", name: "GEMINI_API_KEY" } }
        : provider === "openrouter"
          ? { apiKey: "k", source: { kind: "env", name: "OPENROUTER_API_KEY" } }
          : null;
    expect(await resolveDefaultModel({ ...noKey, findKey })).toEqual({
      model: "google/gemini-3.8-flash",
      why: "GEMINI_API_KEY is set",
      providers: {},
    });
    const onlyRouter = await resolveDefaultModel({
      ...noKey,
      findKey: (provider) => (provider === "openrouter" ? findKey(provider) : null),
    });
    expect(onlyRouter.model).toBe("openrouter/anthropic/claude-sonnet-5");
    expect(onlyRouter.providers).toEqual({ openrouter: { api: "openai-compatible", baseUrl: "https://openrouter.ai/api/v1" } });
    const fromFile = await resolveDefaultModel({
      ...noKey,
      findKey: () => ({ apiKey: "k", source: { kind: "file", name: "agents/main/auth.json" } }),
    });
    expect(fromFile.why).toBe("agents/main/auth.json has a key for anthropic");
  });

  it("[RN2] the default ids exist in the price catalogue", () => {
    for (const [provider, { defaultModel }] of Object.entries(BUILT_IN_PROVIDERS)) {
      const found = calcPrice({ input_tokens: 1, output_tokens: 1 }, defaultModel, { providerId: provider });
      expect(found?.model.id, provider).toBe(defaultModel);
    }
  });

  it("[RN2] then Ollama, with the first model that can call tools", async () => {
    const shown: Record<string, unknown> = {
      "embed:latest": { capabilities: ["embedding"] },
      "qwen3:8b": { capabilities: ["completion", "tools"], model_info: { "qwen3.context_length": 40_960 } },
    };
    const ollama = await serve({
      "/api/tags": () => ({ models: [{ name: "embed:latest" }, { name: "qwen3:8b" }] }),
      "/api/show": (body) => shown[(JSON.parse(body) as { model: string }).model],
    });
    const resolved = await resolveDefaultModel({ ...noKey, ports: { ...(await quiet()), ollama }, timeoutMs: TIMEOUT_MS });
    expect(resolved).toEqual({
      model: "ollama/qwen3:8b",
      why: `Ollama answers on 127.0.0.1:${ollama}`,
      providers: {
        ollama: {
          api: "ollama",
          baseUrl: `http://127.0.0.1:${ollama}/api`,
          models: [{ id: "qwen3:8b", images: false, contextWindow: 16_384 }],
        },
      },
    });
  });

  it("[RN2] Ollama is asked for no more context than an ordinary machine has room for, however long the model's own is", async () => {
    const asked: { options: { num_ctx: number } }[] = [];
    const said = (message: object, done: boolean) =>
      `${JSON.stringify({ model: "big", created_at: "2026-01-01T00:00:00Z", message, done, done_reason: "stop" })}\n`;
    const ollama = await serve({
      "/api/tags": () => ({ models: [{ name: "big" }] }),
      "/api/show": () => ({ capabilities: ["tools"], model_info: { "llama.context_length": 131_072 } }),
      "/api/chat": (body) => {
        asked.push(JSON.parse(body));
        return said({ role: "assistant", content: "hi" }, false) + said({ role: "assistant", content: "" }, true);
      },
    });
    const { model, providers } = await resolveDefaultModel({ ...noKey, ports: { ...(await quiet()), ollama }, timeoutMs: TIMEOUT_MS });
    const endpoint = providers.ollama ?? { api: "ollama" as const };
    const sdk = createSdkModels({
      provider: () => endpoint,
      prices: createPrices({ clock: systemClock }),
      clock: systemClock,
      log: silentLogger,
      limits: { idleMs: 10_000, stepMs: 20_000 },
    });
    const router = createRouter({
      loadOffline: async () => sdk,
      loadSdk: async () => sdk,
      providers: () => providers,
      findKey: () => null,
    });
    const request = { model, fallbacks: [], thinking: "off", system: "", tools: [], agentId: "main" } as const;
    const signal = new AbortController().signal;
    const reply = await router.call({ ...request, messages: [{ role: "user", text: "hello" }], signal }, () => {});
    expect(reply).toMatchObject({ outcome: "ok", text: "hi" });
    expect(asked.map(({ options }) => options.num_ctx)).toEqual([16_384]);
    expect(router.contextWindow(model)).toBe(16_384);
  });

  it("[RN2] then LM Studio, then llama.cpp", async () => {
    const lmstudio = await serve({ "/v1/models": () => ({ data: [{ id: "text-embedding-nomic" }, { id: "google/gemma-4" }] }) });
    const llamacpp = await serve({ "/v1/models": () => ({ data: [{ id: "model.gguf", meta: { n_ctx: 8192 } }] }) });
    const ports = { ...(await quiet()), llamacpp };
    const both = await resolveDefaultModel({ ...noKey, ports: { ...ports, lmstudio }, timeoutMs: TIMEOUT_MS });
    expect([both.model, both.why]).toEqual(["lmstudio/google/gemma-4", `LM Studio answers on 127.0.0.1:${lmstudio}`]);
    const one = await resolveDefaultModel({ ...noKey, ports, timeoutMs: TIMEOUT_MS });
    expect(one.model).toBe("llamacpp/model.gguf");
    expect(one.providers.llamacpp).toEqual({
      api: "openai-compatible",
      baseUrl: `http://127.0.0.1:${llamacpp}/v1`,
      models: [{ id: "model.gguf", contextWindow: 8192 }],
    });
  });

  it("[RN2] falls back to the offline model, and says why", async () => {
    const nothing = await resolveDefaultModel({ ...noKey, ports: await quiet(), timeoutMs: TIMEOUT_MS });
    expect(nothing.model).toBe("offline/rules");
    expect(nothing.why).toMatch(/^no key and no local server found: set ANTHROPIC_API_KEY/);
    const ollama = await serve({ "/api/tags": () => ({ models: [] }) });
    const useless = await resolveDefaultModel({ ...noKey, ports: { ...(await quiet()), ollama }, timeoutMs: TIMEOUT_MS });
    expect(useless.why).toContain("Ollama answers but has no model that can call tools");
  });

  it("[RN2] asks nobody when probing is off", async () => {
    let asked = 0;
    const port = await serve({ "/v1/models": () => ++asked && { data: [{ id: "x" }] } });
    const resolved = await resolveDefaultModel({ ...noKey, probe: false, ports: { ollama: port, lmstudio: port, llamacpp: port } });
    expect([resolved.model, asked]).toEqual(["offline/rules", 0]);
    expect(resolved.why).toContain("local servers were not asked");
    expect(LOCAL_PORTS).toEqual({ ollama: 11434, lmstudio: 1234, llamacpp: 8080 });
  });

  it("[RN2] survives silent, broken, redirecting and flooding servers", async () => {
    const silent = await serve({ "/api/tags": () => undefined });
    const junk = await serve({ "/v1/models": () => '{"data": "?"}' });
    let reached = 0;
    const target = await serve({ "/v1/models": () => ++reached && { data: [{ id: "x" }] } });
    const redirecting = await serve({ "/v1/models": () => `http://127.0.0.1:${target}/v1/models` });
    const resolved = await resolveDefaultModel({
      ...noKey,
      ports: { ollama: silent, lmstudio: junk, llamacpp: redirecting },
      timeoutMs: 200,
    });
    expect([resolved.model, reached]).toEqual(["offline/rules", 0]);
    const flooding = await serve({ "/v1/models": () => JSON.stringify({ data: [{ id: "x" }], pad: "x".repeat(3_000_000) }) });
    const flooded = await resolveDefaultModel({ ...noKey, ports: { ...(await quiet()), lmstudio: flooding }, timeoutMs: TIMEOUT_MS });
    expect(flooded.model).toBe("offline/rules");
  });
});

describe("names", () => {
  it("[MO1] a model is provider/model-id; the id may hold more slashes", () => {
    expect(parseModelName("openrouter/anthropic/claude-sonnet-5")).toEqual({ provider: "openrouter", id: "anthropic/claude-sonnet-5" });
    expect(parseModelName("ollama/qwen3:8b")).toEqual({ provider: "ollama", id: "qwen3:8b" });
  });

  it.each([
    "",
    "gpt",
    "/x",
    "openai/",
    "../../x",
    "openai/../x",
    "$(id)/x",
    "openai/$(id)",
    "OpenAI/x",
    "openai/a b",
    "openai/a\u0000",
    `openai/${"x".repeat(4096)}`,
  ])("[MO1] refuses %j with a clear, short sentence", (name) => {
    const problem = checkModelName(name, []);
    expect(problem).toContain("is no model name");
    expect(problem?.length).toBeLessThan(250);
    expect(problem).not.toContain("\u0000");
  });

  it("[MO1] names the known providers when one is unknown, also one spelled like an object's property", () => {
    expect(checkModelName("mine/x", [])).toContain("known are anthropic, openai, google");
    expect(checkModelName("mine/x", ["mine"])).toBeNull();
    expect(checkModelName("constructor/x", [])).toContain("Unknown provider");
    expect(checkModelName("offline/other", [])).toContain("offline/rules");
    expect(checkModelName("offline/rules", [])).toBeNull();
  });
});

describe("sub-agent model", () => {
  const check = (model: string) => checkModelName(model, []);
  const all = { requested: "openai/a", agentModel: "google/b", defaultsModel: "anthropic/c", callerModel: "ollama/d", check };

  it("[MO2] spawn → agent → defaults → caller", () => {
    expect(pickSubagentModel(all)).toEqual({ model: "openai/a" });
    expect(pickSubagentModel({ ...all, requested: undefined })).toEqual({ model: "google/b" });
    expect(pickSubagentModel({ ...all, requested: undefined, agentModel: undefined })).toEqual({ model: "anthropic/c" });
    expect(pickSubagentModel({ callerModel: "ollama/d", check })).toEqual({ model: "ollama/d" });
  });

  it("[MO2] an invalid one is skipped with a warning that names it and what is used", () => {
    const picked = pickSubagentModel({ ...all, requested: "nobody/x", agentModel: "wrong" });
    expect(picked.model).toBe("anthropic/c");
    expect(picked.warning).toMatch(/Unknown provider nobody.*"wrong" is no model name.*Using anthropic\/c instead\.$/);
    expect(pickSubagentModel({ requested: "wrong", callerModel: "ollama/d", check }).model).toBe("ollama/d");
  });
});
