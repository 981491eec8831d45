// Our messages → the library's prompt, for one model of one provider. What a history lost (a result that was never
// written, a call that was compacted away) is made whole here, because providers refuse such a conversation for good.
// attempt.ts → toPrompt, toTools; reply-draft.ts → Extras, the opaque part that only the same model gets back.
import { createHash } from "node:crypto";
import type { LanguageModelV4CallOptions, LanguageModelV4Message, LanguageModelV4Prompt, SharedV4ProviderOptions } from "@ai-sdk/provider";
import type { ModelTarget } from "./language-model.ts";
import type { ChatMessage, ModelRequest, Thinking, ToolCall, ToolSpec } from "./model.ts";

type AssistantMessage = Extract<ChatMessage, { role: "assistant" }>;
type ToolMessage = Extract<ChatMessage, { role: "tool" }>;
type AssistantPart = Extract<LanguageModelV4Message, { role: "assistant" }>["content"][number];
type ToolPart = Extract<LanguageModelV4Message, { role: "tool" }>["content"][number];

/** What `extras[provider]` holds, as JSON: the answer's parts in order; text and arguments stay in the message itself. */
export interface Extras {
  readonly v: 1;
  readonly model: string;
  readonly parts: readonly ExtraPart[];
}

export type ExtraPart =
  | { readonly type: "reasoning"; readonly text: string; readonly meta?: SharedV4ProviderOptions }
  | { readonly type: "text"; readonly meta?: SharedV4ProviderOptions }
  | { readonly type: "tool-call"; readonly id: string; readonly meta?: SharedV4ProviderOptions };

const CACHE_HERE = { anthropic: { cacheControl: { type: "ephemeral" } } };
const NO_RESULT = "No result was recorded for this call.";

/** NUL and lone surrogates are refused by providers, and by JSON readers downstream. */
export const cleanText = (text: string): string => text.replaceAll("\0", "").toWellFormed();

export function toPrompt(request: ModelRequest, target: ModelTarget): LanguageModelV4Prompt {
  const prompt: LanguageModelV4Prompt = [];
  if (request.system !== "") prompt.push({ role: "system", content: cleanText(request.system) });
  const { messages } = request;
  for (const [index, message] of messages.entries()) {
    if (message.role === "user") prompt.push({ role: "user", content: [{ type: "text", text: cleanText(message.text) || "(empty)" }] });
    if (message.role !== "assistant") continue;
    const content = assistantParts(message, target);
    if (content.length === 0) continue;
    prompt.push({ role: "assistant", content });
    const results = message.toolCalls.map((call) => resultPart(call, resultsAfter(messages, index), target));
    if (results.length > 0) prompt.push({ role: "tool", content: results });
  }
  if (target.endpoint.api === "anthropic") markCache(prompt);
  return prompt;
}

/** The results that belong to the assistant message at `index`: everything up to the next word of anybody else. */
function resultsAfter(messages: readonly ChatMessage[], index: number): readonly ToolMessage[] {
  const results: ToolMessage[] = [];
  for (const message of messages.slice(index + 1)) {
    if (message.role === "assistant") break;
    if (message.role === "tool") results.push(message);
  }
  return results;
}

function resultPart(call: ToolCall, results: readonly ToolMessage[], target: ModelTarget): ToolPart {
  const result = results.find((message) => message.callId === call.id);
  const value = result === undefined ? NO_RESULT : cleanText(result.text) || "(empty)";
  const type = result === undefined || result.isError ? "error-text" : "text";
  return { type: "tool-result", toolCallId: wireId(call.id, target), toolName: call.name, output: { type, value } };
}

function assistantParts(message: AssistantMessage, target: ModelTarget): AssistantPart[] {
  const text = cleanText(message.text);
  const extras = extrasFor(message, target);
  const parts: AssistantPart[] = [];
  const calls = new Map(message.toolCalls.map((call) => [call.id, call]));
  let textLeft = text.trim() !== "";
  for (const part of extras?.parts ?? []) {
    if (part.type === "reasoning") parts.push({ type: "reasoning", text: part.text, ...options(part.meta) });
    if (part.type === "text" && textLeft) {
      parts.push({ type: "text", text, ...options(part.meta) });
      textLeft = false;
    }
    const call = part.type === "tool-call" ? calls.get(part.id) : undefined;
    if (call === undefined || part.type !== "tool-call") continue;
    parts.push(callPart(call, target, part.meta));
    calls.delete(call.id);
  }
  if (textLeft) parts.push({ type: "text", text });
  for (const call of calls.values()) parts.push(callPart(call, target));
  // Reasoning alone is no message.
  return parts.some((part) => part.type !== "reasoning") ? parts : [];
}

function callPart(call: ToolCall, target: ModelTarget, meta?: SharedV4ProviderOptions): AssistantPart {
  return { type: "tool-call", toolCallId: wireId(call.id, target), toolName: call.name, input: wireArgs(call.args), ...options(meta) };
}

const options = (meta: SharedV4ProviderOptions | undefined) => (meta === undefined ? {} : { providerOptions: meta });

/** Providers take objects only; what the model wrote instead stays readable for it. */
const wireArgs = (args: unknown): unknown => (typeof args === "object" && args !== null && !Array.isArray(args) ? args : { invalid: args });

/** Some servers name calls `functions.exec:0`; Anthropic, OpenAI and Google refuse that from a conversation begun elsewhere. */
function wireId(id: string, target: ModelTarget): string {
  const { api } = target.endpoint;
  if (api === "openai-compatible" || api === "ollama" || /^[\w-]{1,64}$/.test(id)) return id;
  return `call_${createHash("sha256").update(id).digest("hex").slice(0, 24)}`;
}

/** Signatures are bound to the model that made them. */
function extrasFor(message: AssistantMessage, target: ModelTarget): Extras | null {
  const extras = message.extras;
  if (extras === undefined || !Object.hasOwn(extras, target.provider)) return null;
  const own = extras[target.provider] as Extras;
  return own.v === 1 && own.model === target.id ? own : null;
}

/** One mark after tools and system prompt, one at the end: the next step reads everything before it from the cache. */
function markCache(prompt: LanguageModelV4Prompt): void {
  for (const message of new Set([prompt[0], prompt.at(-1)])) if (message !== undefined) message.providerOptions = CACHE_HERE;
}

export const toTools = (tools: readonly ToolSpec[]): NonNullable<LanguageModelV4CallOptions["tools"]> =>
  tools.map(({ name, description, parameters }) => ({ type: "function", name, description, inputSchema: parameters }));

/** The library's word for a thinking level; it rounds to what the model can. */
export function toReasoning(request: ModelRequest, target: ModelTarget): Exclude<Thinking, "off"> | "none" {
  if (request.thinking === "off" || (target.endpoint.api === "anthropic" && isForeignLoop(request, target))) return "none";
  return request.thinking;
}

/** Anthropic refuses to think in the middle of a tool loop whose earlier steps don't carry its own signed thoughts. */
function isForeignLoop(request: ModelRequest, target: ModelTarget): boolean {
  const start = request.messages.findLastIndex((message) => message.role === "user");
  return request.messages.slice(start + 1).some((message) => {
    return message.role === "assistant" && message.toolCalls.length > 0 && extrasFor(message, target) === null;
  });
}
