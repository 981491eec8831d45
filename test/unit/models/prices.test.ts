import { describe, expect, it } from "vitest";
import { systemClock } from "../../../src/core/clock.ts";
import { createPrices, OLLAMA_WINDOW } from "../../../src/models/prices.ts";

const prices = createPrices({ clock: { ...systemClock, now: () => Date.parse("2026-10-01T00:00:00Z") } });
const usage = { input: 1_000_000, output: 100_000, cacheRead: 400_000, cacheWrite: 100_000 };

describe("costUsd", () => {
  it("[MO3] takes the configured price first, cached tokens apart from the rest", () => {
    const models = [{ id: "gpt-4o", cost: { input: 3, output: 15, cacheRead: 0.3, cacheWrite: 3.75 } }];
    const cost = prices.costUsd({ provider: "openai", id: "gpt-4o", definition: { api: "openai", models } }, usage);
    // 0.5 M × 3 + 0.4 M × 0.3 + 0.1 M × 3.75 + 0.1 M × 15
    expect(cost).toBeCloseTo(1.5 + 0.12 + 0.375 + 1.5, 10);
  });

  it("[MO3] counts cached tokens as plain input when only two prices are configured", () => {
    const models = [{ id: "m", cost: { input: 1, output: 2 } }];
    expect(prices.costUsd({ provider: "proxy", id: "m", definition: { api: "openai-compatible", models } }, usage)).toBeCloseTo(1.2, 10);
  });

  it("[MO3] then the catalogue, by provider name or by address", () => {
    // gpt-4o: 2.5 in, 1.25 cached, 10 out; it has no price for cache writes.
    const byHand = 0.6 * 2.5 + 0.4 * 1.25 + 0.1 * 10;
    expect(prices.costUsd({ provider: "openai", id: "gpt-4o" }, usage)).toBeCloseTo(byHand, 10);
    const definition = { api: "openai-compatible" as const, baseUrl: "https://api.openai.com/v1" };
    expect(prices.costUsd({ provider: "work", id: "gpt-4o", definition }, usage)).toBeCloseTo(byHand, 10);
  });

  it("[MO3] else it is unknown, never zero: other models, other endpoints, local ones with a paid name", () => {
    expect(prices.costUsd({ provider: "openai", id: "nobody-knows-this" }, usage)).toBeNull();
    expect(prices.costUsd({ provider: "work", id: "gpt-4o" }, usage)).toBeNull();
    expect(prices.costUsd({ provider: "ollama", id: "gpt-4o" }, usage)).toBeNull();
    expect(
      prices.costUsd({ provider: "gpu", id: "gpt-4o", definition: { api: "ollama", baseUrl: "https://api.openai.com/v1" } }, usage),
    ).toBeNull();
  });

  it("[MO3] figures that contradict each other give no price and no error", () => {
    expect(prices.costUsd({ provider: "openai", id: "gpt-4o" }, { input: 10, output: 1, cacheRead: 20, cacheWrite: 0 })).toBeNull();
  });
});

describe("windowOf", () => {
  it("[SE6] is the configured one, else the catalogue's, else unknown", () => {
    const definition = { api: "anthropic" as const, models: [{ id: "claude-sonnet-4-5", contextWindow: 12_345 }] };
    expect(prices.windowOf({ provider: "anthropic", id: "claude-sonnet-4-5", definition })).toBe(12_345);
    expect(prices.windowOf({ provider: "anthropic", id: "claude-sonnet-4-5" })).toBe(200_000);
    expect(prices.windowOf({ provider: "proxy", id: "claude-sonnet-4-5" })).toBeNull();
  });

  it("[SE6] of an Ollama model is what Ollama is told to read", () => {
    expect(prices.windowOf({ provider: "ollama", id: "qwen3:8b" })).toBe(OLLAMA_WINDOW);
  });
});
