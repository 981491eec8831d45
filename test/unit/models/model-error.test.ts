import { describe, expect, it } from "vitest";
import type { ModelTarget } from "../../../src/models/language-model.ts";
import { explain, messageFor, toFailure } from "../../../src/models/model-error.ts";

const NOW = Date.parse("2026-10-21T07:28:00Z");
const target: ModelTarget = { provider: "work", id: "m", endpoint: { api: "openai-compatible", apiKey: "sk-12345678" } };
const limited = (responseHeaders: Record<string, string>, responseBody = "") =>
  toFailure({ statusCode: 429, message: "slow", responseHeaders, responseBody }, NOW);

describe("toFailure", () => {
  it.each([
    [{ "retry-after": "5" }, 5000],
    [{ "retry-after": "1.5" }, 1500],
    [{ "retry-after": "Wed, 21 Oct 2026 07:28:30 GMT" }, 30_000],
    [{ "retry-after": "Wed, 21 Oct 2026 07:00:00 GMT" }, 0],
    [{ "retry-after-ms": "250", "retry-after": "9" }, 250],
    [{ "retry-after": "soon" }, null],
    [{}, null],
    [{ "x-should-retry": "false" }, Number.POSITIVE_INFINITY],
  ])("[MO4] reads %j", (headers, afterMs) => {
    expect(limited(headers as Record<string, string>).afterMs).toBe(afterMs);
  });

  it("[MO4] reads Google's retryDelay", () => {
    expect(limited({}, '{"error":{"details":[{"retryDelay": "34.5s"}]}}').afterMs).toBe(34_500);
  });

  it.each([
    [{ statusCode: 402, message: "pay" }, "rate", true],
    [{ statusCode: 408, message: "" }, "network", true],
    [{ statusCode: 413, message: "too big" }, "context", false],
    [{ statusCode: 422, message: "no" }, "bad-request", false],
    [{ statusCode: 200, message: "Failed to process successful response" }, "network", true],
    [{ type: "overloaded_error", message: "Overloaded" }, "overload", true],
    [{ error: { type: "rate_limit_error", message: "tokens per minute" } }, "rate", true],
    [{ code: "context_length_exceeded", message: "too many" }, "context", false],
    [{ code: 503, message: "busy", status: "UNAVAILABLE" }, "overload", true],
    ["plain text", "network", true],
    [undefined, "network", true],
    [null, "network", true],
  ])("[MO4] takes %j for %s", (error, kind, isPassing) => {
    expect(toFailure(error, NOW)).toMatchObject({ kind, isPassing });
  });

  it("[MO4] a rate limit that speaks of tokens is no context overflow", () => {
    expect(toFailure({ statusCode: 429, message: "Request too large: too many tokens per minute" }, NOW).kind).toBe("rate");
  });
});

describe("explain", () => {
  it("[AG3] tells the chat what a person there can do, and what is to be set only those who can", () => {
    for (const status of [400, 401, 402, 404, 413, 429, 503, 408]) {
      const { message, remedy } = explain(toFailure({ statusCode: status, message: "no", responseHeaders: {} }, NOW), target, "main");
      expect(message, String(status)).not.toMatch(/npm run|models\.|agents\.|model\.fallbacks|API_KEY|billing|\/compact/);
      expect([message.length > 20, remedy === undefined || /npm run|models\.|model\.fallbacks|quota|settings/.test(remedy)]).toEqual([
        true,
        true,
      ]);
    }
    const refused = explain(toFailure({ statusCode: 401, message: "no" }, NOW), { ...target, provider: "openai" }, "coder");
    expect(refused).toEqual({
      message: "The provider openai refused the key of agent coder (401). Only whoever runs this gateway can change that.",
      remedy: "Run `npm run auth -- set coder openai`, or set OPENAI_API_KEY for all agents that share keys.",
    });
    expect(messageFor(refused, false)).toBe(refused.message);
    expect(messageFor(refused, true)).toBe(`${refused.message} ${refused.remedy}`);
  });

  it("[SC4] is one short line without keys and addresses, whatever the provider wrote", () => {
    const responseBody = JSON.stringify({
      error: `bad key sk-12345678\n\u0007see https://x.example/?key=sk-12345678 ${"long ".repeat(500)}`,
    });
    const { message: text } = explain(toFailure({ statusCode: 400, message: "Bad Request", responseBody }, NOW), target, "main");
    expect(text).toMatch(/^The provider work refused the request to m \(400\): bad key \(key\) see \(address\) long/);
    expect(text.length).toBeLessThan(400);
    expect(text).not.toMatch(/sk-1|https|\p{Cc}/u);
  });
});
