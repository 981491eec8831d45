import { describe, expect, it } from "vitest";
import type { ModelTarget } from "../../../src/models/language-model.ts";
import type { ChatMessage, ModelRequest, ToolCall } from "../../../src/models/model.ts";
import { toPrompt } from "../../../src/models/wire.ts";

const target = (api: ModelTarget["endpoint"]["api"], id = "m"): ModelTarget => ({ provider: api, id, endpoint: { api } });
const request = (messages: ChatMessage[]): ModelRequest => ({
  model: "openai/m",
  fallbacks: [],
  thinking: "off",
  system: "",
  messages,
  tools: [],
  agentId: "main",
  signal: new AbortController().signal,
});
const call = (id: string): ToolCall => ({ id, name: "read", args: { path: id } });
const result = (callId: string): ChatMessage => ({ role: "tool", callId, name: "read", text: `result ${callId}`, isError: false });

describe("toPrompt", () => {
  it("[AG2] answers a call whose result was never written, so that the provider takes the conversation", () => {
    const prompt = toPrompt(
      request([{ role: "assistant", text: "", toolCalls: [call("a"), call("b")] }, result("a"), { role: "user", text: "go on" }]),
      target("openai"),
    );
    expect(prompt.map((message) => message.role)).toEqual(["assistant", "tool", "user"]);
    expect(prompt[1]?.content).toMatchObject([
      { toolCallId: "a", output: { type: "text", value: "result a" } },
      { toolCallId: "b", output: { type: "error-text", value: "No result was recorded for this call." } },
    ]);
  });

  it("[AG2] keeps a result that came after a word of the user, and drops one whose call is gone", () => {
    const late = [{ role: "assistant" as const, text: "", toolCalls: [call("a")] }, { role: "user" as const, text: "hurry" }, result("a")];
    const prompt = toPrompt(request([result("compacted-away"), ...late]), target("openai"));
    expect(prompt.map((message) => message.role)).toEqual(["assistant", "tool", "user"]);
    expect(JSON.stringify(prompt)).toContain("result a");
    expect(JSON.stringify(prompt)).not.toContain("compacted-away");
  });

  it("[MO1] sends no empty messages, no NUL and no half characters", () => {
    const prompt = toPrompt(
      request([
        { role: "user", text: "" },
        { role: "assistant", text: " ", toolCalls: [] },
        { role: "user", text: "a\0b\ud800" },
      ]),
      target("anthropic"),
    );
    expect(prompt.map((message) => message.content)).toEqual([[{ type: "text", text: "(empty)" }], [{ type: "text", text: "ab\ufffd" }]]);
  });

  it("[MO1] gives strict providers ids they take, the same for call and result, and leaves others theirs", () => {
    const messages: ChatMessage[] = [{ role: "assistant", text: "", toolCalls: [call("functions.read:0")] }, result("functions.read:0")];
    const ids = (api: Parameters<typeof target>[0]) =>
      [...JSON.stringify(toPrompt(request(messages), target(api))).matchAll(/"toolCallId":"([^"]+)"/g)].map((match) => match[1]);
    expect(ids("openai-compatible")).toEqual(["functions.read:0", "functions.read:0"]);
    const [first, second] = ids("anthropic");
    expect(first).toMatch(/^call_[0-9a-f]{24}$/);
    expect(second).toBe(first);
  });

  it("[MO1] tells calls of different steps apart when a server gave both the same id", () => {
    const step: ChatMessage[] = [{ role: "assistant", text: "", toolCalls: [call("call_0")] }, result("call_0")];
    const prompt = JSON.stringify(toPrompt(request([...step, ...step]), target("anthropic")));
    const ids = [...prompt.matchAll(/"toolCallId":"([^"]+)"/g)].map((match) => match[1]);
    expect(ids[0]).toBe(ids[1]);
    expect(ids[2]).toBe(ids[3]);
    expect(ids[0]).not.toBe(ids[2]);
  });

  it("[MO1] gives extras back to the model that made them, in their order, and to no other", () => {
    const meta = { anthropic: { signature: "s" } };
    const extras = {
      anthropic: { v: 1, model: "m", parts: [{ type: "reasoning", text: "hm", meta }, { type: "tool-call", id: "a" }, { type: "text" }] },
    };
    const messages: ChatMessage[] = [{ role: "assistant", text: "I look.", toolCalls: [call("a")], extras }, result("a")];
    const types = (...list: string[]) => list.map((type) => expect.objectContaining({ type }));
    const parts = (to: ModelTarget) => toPrompt(request(messages), to)[0]?.content;
    expect(parts(target("anthropic"))).toEqual(types("reasoning", "tool-call", "text"));
    expect(toPrompt(request(messages), target("anthropic"))[0]?.content[0]).toMatchObject({ text: "hm", providerOptions: meta });
    expect(parts(target("anthropic", "other"))).toEqual(types("text", "tool-call"));
    expect(parts(target("openai"))).toEqual(types("text", "tool-call"));
  });
});
