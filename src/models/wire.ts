// Our messages → the library's prompt, for one model of one provider. What a history lost (a result that was never
// written, a call that was compacted away) is made whole here, because providers refuse such a conversation for good.
// attempt.ts → toPrompt, toTools; reply-draft.ts → Extras, the opaque part that only the same model gets back.
import { createHash } from "node:crypto";
import type { LanguageModelV4CallOptions, LanguageModelV4Message, LanguageModelV4Prompt, SharedV4ProviderOptions } from "@ai-sdk/provider";
import type { Thinking } from "../core/thinking.ts";
import type { ModelTarget } from "./language-model.ts";
import type { ChatMessage, ModelRequest, ToolCall, ToolSpec } from "./model.ts";
import { type LoadedPictures, unseenNote } from "./vision.ts";

type UserMessage = Extract<ChatMessage, { role: "user" }>;
type AssistantMessage = Extract<ChatMessage, { role: "assistant" }>;
type ToolMessage = Extract<ChatMessage, { role: "tool" }>;
type UserPart = Extract<LanguageModelV4Message, { role: "user" }>["content"][number];
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
export const wellFormed = (text: string): string => text.replaceAll("\0", "").toWellFormed();

/** One assistant message on its way out: its calls by their ids in the prompt. */
interface Outgoing {
  readonly message: AssistantMessage;
  readonly target: ModelTarget;
  readonly ids: ReadonlyMap<string, string>;
}

export function toPrompt(request: ModelRequest, target: ModelTarget, pictures: LoadedPictures = new Map()): LanguageModelV4Prompt {
  const prompt: LanguageModelV4Prompt = [];
  const usedIds = new Set<string>();
  if (request.system !== "") prompt.push({ role: "system", content: wellFormed(request.system) });
  for (const [index, message] of request.messages.entries()) {
    if (message.role === "user") prompt.push({ role: "user", content: userParts(message, target, pictures) });
    if (message.role !== "assistant") continue;
    const outgoing = { message, target, ids: new Map(message.toolCalls.map(({ id }) => [id, wireId(id, target, usedIds)])) };
    const content = assistantParts(outgoing);
    if (content.length === 0) continue;
    prompt.push({ role: "assistant", content });
    if (message.toolCalls.length > 0) prompt.push({ role: "tool", content: resultParts(outgoing, resultsAfter(request.messages, index)) });
  }
  if (target.endpoint.api === "anthropic") markCache(prompt);
  return prompt;
}

/** The words last: a mark for the cache goes to the last part, and models look at a picture before they read what is asked of it. */
function userParts({ text, pictures = [] }: UserMessage, target: ModelTarget, loaded: LoadedPictures): UserPart[] {
  const shown = pictures.map((picture): UserPart => {
    const data = loaded.get(picture.id);
    if (data === undefined) return { type: "text", text: `${unseenNote(picture, target)}\n` };
    return { type: "file", mediaType: picture.type, data: { type: "data", data } };
  });
  return [...shown, { type: "text", text: wellFormed(text) || "(empty)" }];
}

/** The results that belong to the assistant message at `index`, by call id: everything before the next answer. */
function resultsAfter(messages: readonly ChatMessage[], index: number): ReadonlyMap<string, ToolMessage> {
  const results = new Map<string, ToolMessage>();
  for (let at = index + 1; at < messages.length; at++) {
    const message = messages[at];
    if (message === undefined || message.role === "assistant") break;
    if (message.role === "tool") results.set(message.callId, message);
  }
  return results;
}

function resultParts({ message, ids }: Outgoing, results: ReadonlyMap<string, ToolMessage>): ToolPart[] {
  return message.toolCalls.map((call) => {
    const result = results.get(call.id);
    const value = result === undefined ? NO_RESULT : wellFormed(result.text) || "(empty)";
    const type = result === undefined || result.isError ? "error-text" : "text";
    return { type: "tool-result", toolCallId: ids.get(call.id) ?? call.id, toolName: call.name, output: { type, value } };
  });
}

function assistantParts({ message, target, ids }: Outgoing): AssistantPart[] {
  const text = wellFormed(message.text);
  const parts: AssistantPart[] = [];
  const calls = new Map(message.toolCalls.map((call) => [call.id, call]));
  let textLeft = text.trim() !== "";
  const addCall = (call: ToolCall, meta?: SharedV4ProviderOptions) => {
    const id = ids.get(call.id) ?? call.id;
    parts.push({ type: "tool-call", toolCallId: id, toolName: call.name, input: wireArgs(call.args), ...options(meta) });
    calls.delete(call.id);
  };
  for (const part of extrasFor(message, target)?.parts ?? []) {
    if (part.type === "reasoning") parts.push({ type: "reasoning", text: part.text, ...options(part.meta) });
    if (part.type === "text" && textLeft) {
      parts.push({ type: "text", text, ...options(part.meta) });
      textLeft = false;
    }
    const call = part.type === "tool-call" ? calls.get(part.id) : undefined;
    if (call !== undefined) addCall(call, part.meta);
  }
  if (textLeft) parts.push({ type: "text", text });
  for (const call of [...calls.values()]) addCall(call);
  // Reasoning alone is no message.
  return parts.some((part) => part.type !== "reasoning") ? parts : [];
}

const options = (meta: SharedV4ProviderOptions | undefined) => (meta === undefined ? {} : { providerOptions: meta });

/** Providers take objects only; what the model wrote instead stays readable for it. */
const wireArgs = (args: unknown): unknown => (typeof args === "object" && args !== null && !Array.isArray(args) ? args : { invalid: args });

/** Some servers name calls `functions.exec:0`, or every first call `call_0`: strict providers refuse a history with those. */
function wireId(id: string, target: ModelTarget, used: Set<string>): string {
  const { api } = target.endpoint;
  if (api === "openai-compatible" || api === "ollama") return id;
  const isFine = /^[\w-]{1,64}$/.test(id) && !used.has(id);
  const given = isFine ? id : `call_${createHash("sha256").update(`${used.size} ${id}`).digest("hex").slice(0, 24)}`;
  used.add(given);
  return given;
}

/** Signatures are bound to the model that made them. */
function extrasFor(message: AssistantMessage, target: ModelTarget): Extras | null {
  const extras = message.extras;
  if (extras === undefined || !Object.hasOwn(extras, target.provider)) return null;
  const own = extras[target.provider] as Extras;
  return own.v === 1 && own.model === target.id ? own : null;
}

/**
 * Anthropic serves what stands before a mark of an earlier request, and looks for such marks no further than 20 blocks back.
 * So there is one behind the system prompt (the tools have their own), one at the end, and one where the request before this
 * one ended: a step with thirty results would otherwise be out of its reach.
 */
function markCache(prompt: LanguageModelV4Prompt): void {
  const lastAnswer = prompt.findLastIndex((message) => message.role === "assistant");
  const marked = [prompt[0], prompt[lastAnswer - 1], prompt.at(-1)];
  for (const message of new Set(marked)) if (message !== undefined && canMark(message)) message.providerOptions = CACHE_HERE;
}

/** A mark goes to a message's last part, and on thoughts none is allowed. */
const canMark = ({ content }: LanguageModelV4Message): boolean => typeof content === "string" || content.at(-1)?.type !== "reasoning";

export function toTools(tools: readonly ToolSpec[], target: ModelTarget): NonNullable<LanguageModelV4CallOptions["tools"]> {
  // Left out, OpenAI reads every schema as strict and makes the optional parameters required.
  const strict = target.endpoint.api === "openai" ? { strict: false } : {};
  const mark = target.endpoint.api === "anthropic" ? { providerOptions: CACHE_HERE } : {};
  return tools.map(({ name, description, parameters }, n) => ({
    type: "function",
    name,
    description,
    inputSchema: parameters,
    ...strict,
    ...(n === tools.length - 1 ? mark : {}),
  }));
}

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
