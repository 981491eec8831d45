import { describe, expect, it } from "vitest";
import { systemClock } from "../../../src/core/clock.ts";
import { AppError } from "../../../src/core/errors.ts";
import type { ModelEvent, ModelReply, ModelRequest, Models } from "../../../src/models/model.ts";
import { createOfflineModel } from "../../../src/models/offline/offline.ts";
import { createRouter, type RouterOptions } from "../../../src/models/router.ts";

const request = (model: string, more: Partial<ModelRequest> = {}): ModelRequest => ({
  model,
  fallbacks: [],
  thinking: "off",
  system: "",
  messages: [{ role: "user", text: "hello" }],
  tools: [],
  agentId: "main",
  signal: new AbortController().signal,
  ...more,
});
const reply = (more: Partial<ModelReply> = {}): ModelReply => ({
  outcome: "ok",
  text: "from the provider",
  toolCalls: [],
  finish: "stop",
  usage: null,
  costUsd: null,
  model: "x",
  ...more,
});
const sdkOf = (call: Models["call"]): Pick<Models, "call"> => ({ call });
const create = (more: Partial<RouterOptions> = {}) =>
  createRouter({
    loadOffline: async () => createOfflineModel({ clock: systemClock }),
    loadSdk: async () => sdkOf(async () => reply()),
    providers: () => ({}),
    findKey: () => null,
    ...more,
  });

describe("call", () => {
  it("[MO6] offline/rules is answered without loading the SDK", async () => {
    let loads = 0;
    const router = create({
      loadSdk: async () => {
        loads++;
        return sdkOf(async () => reply());
      },
    });
    expect((await router.call(request("offline/rules"), () => {})).text).toContain("offline model");
    expect(loads).toBe(0);
    const other = await router.call(request("offline/other"), () => {});
    expect(other).toMatchObject({ outcome: "error", error: { message: "The offline model has one name: offline/rules." } });
  });

  it("[MO1] everything else goes to the SDK as it came, loaded once", async () => {
    const seen: ModelRequest[] = [];
    let loads = 0;
    const router = create({
      loadSdk: async () => {
        loads++;
        return sdkOf(async (received) => {
          seen.push(received);
          return reply();
        });
      },
    });
    const asked = request("openai/gpt", { thinking: "high", system: "be brief", fallbacks: ["google/b", "offline/rules"] });
    await Promise.all([router.call(asked, () => {}), router.call(asked, () => {})]);
    expect(loads).toBe(1);
    expect(seen[0]).toEqual({ ...asked, fallbacks: ["google/b"] });
  });

  it("[MO4] an SDK that can't be loaded or throws is an error reply, and is tried again", async () => {
    let loads = 0;
    const router = create({
      loadSdk: async () => {
        if (++loads === 1) throw new Error("package missing");
        return sdkOf(async () => reply());
      },
    });
    expect(await router.call(request("openai/gpt"), () => {})).toMatchObject({
      outcome: "error",
      error: { message: "The model layer failed: package missing" },
    });
    expect((await router.call(request("openai/gpt"), () => {})).outcome).toBe("ok");
  });

  it("[MO4] a configured offline fallback answers when the providers are down, not when they refuse", async () => {
    const usage = { input: 3, output: 0, cacheRead: 0, cacheWrite: 0 };
    const failing = (kind: "overload" | "auth") =>
      create({
        loadSdk: async () => sdkOf(async () => reply({ outcome: "error", text: "", usage, error: { kind, message: "it is down" } })),
      });
    const events: ModelEvent[] = [];
    const asked = request("openai/gpt", { fallbacks: ["offline/rules"] });
    const rescued = await failing("overload").call(asked, (event) => events.push(event));
    expect(rescued).toMatchObject({ outcome: "ok", model: "offline/rules", usage });
    expect(events[0]).toEqual({ type: "fallback", from: "openai/gpt", to: "offline/rules", reason: "it is down" });
    expect((await failing("auth").call(asked, () => {})).outcome).toBe("error");
    expect((await failing("overload").call(request("openai/gpt"), () => {})).outcome).toBe("error");
  });
});

describe("check", () => {
  it("[MO7] a missing key is a sentence that names provider and agent; the name alone is fine", () => {
    const router = create();
    expect(router.check("anthropic/claude", "coder")).toEqual({
      message: expect.stringContaining("Agent coder has no key for the provider anthropic."),
      remedy: expect.stringContaining("npm run auth -- set coder anthropic"),
    });
    expect(router.checkName("anthropic/claude")).toBeNull();
    expect(router.check("offline/rules", "coder")).toBeNull();
    expect(router.check("ollama/qwen3:8b", "coder")).toBeNull();
    expect(router.check("nobody/x", "coder")?.message).toContain("Unknown provider nobody");
  });

  it("[MO7] asks for the key of the agent it is for", () => {
    const router = create({
      findKey: (_provider, agentId) => (agentId === "coder" ? { apiKey: "k", source: { kind: "env", name: "X" } } : null),
    });
    expect(router.check("openai/gpt", "coder")).toBeNull();
    expect(router.check("openai/gpt", "main")).not.toBeNull();
  });

  it("[MO7] a damaged auth.json is a sentence too; an endpoint of one's own needs no key", () => {
    const findKey = () => {
      throw new AppError("config", "auth.json is not valid JSON");
    };
    const providers = () => ({
      mine: { api: "openai-compatible" as const, baseUrl: "http://127.0.0.1:1/v1" },
      openai: { api: "openai" as const, baseUrl: "http://127.0.0.1:1/v1" },
    });
    expect(create({ findKey }).check("openai/gpt", "main")).toEqual({
      message: "The keys of agent main can't be read. Only whoever runs this gateway can change that.",
      remedy: "auth.json is not valid JSON",
    });
    expect(create({ findKey, providers }).check("openai/gpt", "main")).toBeNull();
    expect(create({ findKey, providers }).check("mine/x", "main")).toBeNull();
  });
});

describe("contextWindow", () => {
  it("[SE6] config first, then the catalogue, else a cautious default", () => {
    const providers = () => ({ mine: { api: "ollama" as const, models: [{ id: "x", contextWindow: 9000 }] } });
    const router = create({ providers, windowOf: (model) => (model === "openai/big" ? 1_000_000 : null) });
    expect(router.contextWindow("mine/x")).toBe(9000);
    expect(router.contextWindow("openai/big")).toBe(1_000_000);
    expect(router.contextWindow("mine/y")).toBe(32_000);
    expect(router.contextWindow("malformed")).toBe(32_000);
    expect(router.contextWindow("offline/rules")).toBeGreaterThan(32_000);
  });
});
