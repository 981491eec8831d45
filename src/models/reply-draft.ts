// One answer while it streams in: text, tool calls, usage and the provider's extras, cleaned and capped as they come.
// attempt.ts feeds it the library's stream parts and reads it at any time, also when the stream was cut.

import type { LanguageModelV4StreamPart, LanguageModelV4Usage, SharedV4ProviderMetadata } from "@ai-sdk/provider";
import type { Usage } from "../core/usage.ts";
import { cutText } from "../core/visible-text.ts";
import type { ModelReply, ToolCall } from "./model.ts";
import { toToolCall, unfinishedCall } from "./tool-call.ts";
import { type ExtraPart, type Extras, wellFormed } from "./wire.ts";

const MAX_CHARS = 1024 * 1024;
/** Far above what is carried out of one answer; every call up to here still gets a result. */
const MAX_CALLS = 1_000;

type Part<T extends LanguageModelV4StreamPart["type"]> = Extract<LanguageModelV4StreamPart, { type: T }>;

/** What is left of a call that the library could not read for want of a name. */
export const NAMELESS_CALL: Part<"tool-call"> = { type: "tool-call", toolCallId: "", toolName: "", input: "" };

interface Block {
  readonly type: ExtraPart["type"];
  readonly id: string;
  text: string;
  meta?: SharedV4ProviderMetadata;
}

interface State {
  readonly tools: ReadonlySet<string>;
  text: string;
  /** What was thought, block after block. */
  thoughts: string;
  /** First half of a character whose second half comes with the next piece. */
  carry: string;
  reasoningChars: number;
  argsChars: number;
  /** Call id → tool name, from the first sign of a call. */
  readonly openCalls: Map<string, string>;
  readonly calls: ToolCall[];
  readonly blocks: Block[];
  usage: Usage | null;
  hasBegun: boolean;
  finish: Part<"finish"> | null;
  error: unknown;
  /** Which cap ended the reading. */
  cut: string | null;
}

export interface ReplyDraft {
  /** False when a cap was reached and nothing more should be read. */
  take(part: LanguageModelV4StreamPart): boolean;
  readonly text: string;
  readonly toolCalls: readonly ToolCall[];
  readonly usage: Usage | null;
  /** `usage` is of the whole answer, not of its beginning. */
  readonly isCounted: boolean;
  /** Something of an answer has come: whatever became of it, the provider has worked. */
  readonly hasBegun: boolean;
  readonly finish: ModelReply["finish"];
  /** Null for a whole answer, else what went wrong: the provider's own error if it sent one. */
  incomplete(): { readonly error: unknown } | null;
  /** What this model needs back with the next request, as JSON, or null. */
  extras(modelId: string): Extras | null;
}

/** Each gets the whole text so far. */
export interface DraftListener {
  onText(text: string): void;
  onThoughts?(text: string): void;
}

/** `tools` are the names the model may call. */
export function createReplyDraft(tools: ReadonlySet<string>, { onText, onThoughts }: DraftListener): ReplyDraft {
  const empty = {
    text: "",
    thoughts: "",
    carry: "",
    reasoningChars: 0,
    argsChars: 0,
    usage: null,
    finish: null,
    error: undefined,
    cut: null,
    hasBegun: false,
  };
  const state: State = { ...empty, tools, openCalls: new Map(), calls: [], blocks: [] };
  return {
    take(part) {
      const before = { text: state.text.length, thoughts: state.thoughts.length };
      if (state.cut === null) takePart(state, part);
      if (state.text.length > before.text) onText(state.text);
      if (state.thoughts.length > before.thoughts) onThoughts?.(state.thoughts);
      return state.cut === null;
    },
    get text() {
      return state.text;
    },
    get toolCalls() {
      return state.calls;
    },
    get usage() {
      return state.usage;
    },
    get isCounted() {
      const usage = state.finish === null ? null : toUsage(state.finish.usage);
      return usage !== null && (usage.output > 0 || !state.hasBegun) && incomplete(state) === null && state.cut === null;
    },
    get hasBegun() {
      return state.hasBegun;
    },
    get finish() {
      return finishOf(state);
    },
    incomplete: () => incomplete(state),
    extras: (modelId) => extrasOf(state, modelId),
  };
}

/** Parts that come although nothing was written yet; `finish` ends a stream that broke, too. */
const PRELUDE = new Set<LanguageModelV4StreamPart["type"]>(["stream-start", "response-metadata", "error", "finish"]);

function takePart(state: State, part: LanguageModelV4StreamPart): void {
  if (!PRELUDE.has(part.type)) state.hasBegun = true;
  switch (part.type) {
    case "text-start":
      // Blocks are paragraphs of their own; run together they would glue two sentences.
      if (state.text !== "" && findBlock(state, "text", part.id) === undefined) addText(state, "\n\n");
      return noteBlock(state, "text", part);
    case "text-delta":
      return addText(state, part.delta);
    case "text-end":
      return noteBlock(state, "text", part);
    case "reasoning-start":
    case "reasoning-end":
      return noteBlock(state, "reasoning", part);
    case "reasoning-delta":
      return addReasoning(state, part);
    case "tool-input-start":
      state.openCalls.set(part.id, part.toolName);
      return;
    case "tool-input-delta":
      return addArgs(state, part);
    case "tool-call":
      return addCall(state, part);
    case "custom":
      // The only word about tokens that an aborted Anthropic stream ever says.
      if (part.kind === "anthropic.message_start") state.usage = startUsage(part.providerMetadata?.anthropic?.usage);
      return;
    case "finish":
      state.finish = part;
      state.usage = toUsage(part.usage) ?? state.usage;
      // The library drops a call whose name is empty; taken for an empty answer it would end the turn.
      if (part.finishReason.unified === "tool-calls" && state.calls.length === 0 && state.text.trim() === "") addCall(state, NAMELESS_CALL);
      return;
    case "error":
      state.error = part.error;
      return;
    default:
      return;
  }
}

function addText(state: State, delta: string): void {
  const piece = state.carry + delta;
  const isSplit = /[\uD800-\uDBFF]$/.test(piece);
  state.carry = isSplit ? piece.slice(-1) : "";
  state.text += wellFormed(isSplit ? piece.slice(0, -1) : piece);
  if (state.text.length <= MAX_CHARS) return;
  state.cut = "text";
  state.text = `${cutText(state.text, MAX_CHARS)}\n\n[Cut here: the answer went past 1 MB.]`;
}

function addReasoning(state: State, part: Part<"reasoning-delta">): void {
  noteBlock(state, "reasoning", part);
  state.reasoningChars += part.delta.length;
  const block = findBlock(state, "reasoning", part.id);
  if (block === undefined || state.reasoningChars > MAX_CHARS) return;
  state.thoughts += block.text === "" && state.thoughts !== "" ? `\n\n${part.delta}` : part.delta;
  block.text += part.delta;
}

function addArgs(state: State, part: Part<"tool-input-delta">): void {
  state.argsChars += part.delta.length;
  if (state.argsChars <= MAX_CHARS) return;
  state.cut = "arguments";
  state.calls.push(unfinishedCall(part.id, state.openCalls.get(part.id) ?? "", state.calls));
}

function addCall(state: State, part: Part<"tool-call">): void {
  if (part.providerExecuted === true) return;
  const isLast = state.calls.length === MAX_CALLS - 1;
  const written = toToolCall(part, state.tools, state.calls);
  const call = isLast
    ? { ...written, invalid: `Not carried out, and nothing behind it was read: ${MAX_CALLS} calls in one answer.` }
    : written;
  state.calls.push(call);
  const block: Block = { type: "tool-call", id: call.id, text: "" };
  state.blocks.push(part.providerMetadata === undefined ? block : { ...block, meta: part.providerMetadata });
  if (isLast) state.cut = "calls";
}

const findBlock = (state: State, type: Block["type"], id: string): Block | undefined =>
  state.blocks.find((block) => block.type === type && block.id === id);

/** The last metadata of a block is the one that counts: signatures come at its end. */
function noteBlock(state: State, type: Block["type"], part: { id: string; providerMetadata?: SharedV4ProviderMetadata }): void {
  let block = findBlock(state, type, part.id);
  if (block === undefined) {
    block = { type, id: part.id, text: "" };
    state.blocks.push(block);
  }
  if (part.providerMetadata !== undefined) block.meta = part.providerMetadata;
}

function extrasOf(state: State, model: string): Extras | null {
  if (state.cut !== null || state.reasoningChars > MAX_CHARS) return null;
  // Bare thoughts help only inside a tool loop; after the final answer they would just fill the transcript.
  const isKept = (block: Block) => block.meta !== undefined || (block.type === "reasoning" && state.calls.length > 0);
  if (!state.blocks.some(isKept)) return null;
  const parts = state.blocks.filter((block) => block.type !== "reasoning" || isKept(block)).map(toExtraPart);
  return JSON.parse(JSON.stringify({ v: 1, model, parts })) as Extras;
}

function toExtraPart(block: Block): ExtraPart {
  const meta = block.meta === undefined ? {} : { meta: block.meta };
  if (block.type === "reasoning") return { type: "reasoning", text: wellFormed(block.text), ...meta };
  return block.type === "text" ? { type: "text", ...meta } : { type: "tool-call", id: block.id, ...meta };
}

function finishOf(state: State): ModelReply["finish"] {
  const reason = state.finish?.finishReason.unified;
  if (state.calls.length > 0) return "tool-calls";
  if (state.cut !== null || reason === "length") return "length";
  if (reason === "content-filter") return "filter";
  // Some servers say `tool_calls` and send none.
  return reason === "stop" || reason === "tool-calls" ? "stop" : "other";
}

function incomplete(state: State): { readonly error: unknown } | null {
  if (state.cut !== null) return null;
  const reason = state.finish?.finishReason;
  // Ollama's client ends a torn stream like a whole one, only without a reason and without usage.
  const isTorn = reason?.unified === "other" && reason.raw === undefined && state.usage === null;
  const isWhole = reason !== undefined && reason.unified !== "error" && reason.unified !== "interrupted" && !isTorn;
  return isWhole ? null : { error: state.error };
}

function toUsage({ inputTokens, outputTokens }: LanguageModelV4Usage): Usage | null {
  return orNull({
    input: tokens(inputTokens.total),
    output: tokens(outputTokens.total),
    cacheRead: tokens(inputTokens.cacheRead),
    cacheWrite: tokens(inputTokens.cacheWrite),
  });
}

/** Anthropic's own figures: its `input_tokens` leaves the cached ones out. */
function startUsage(raw: unknown): Usage | null {
  if (typeof raw !== "object" || raw === null) return null;
  const figure = (name: string): number => tokens((raw as Record<string, unknown>)[name]);
  const cacheRead = figure("cache_read_input_tokens");
  const cacheWrite = figure("cache_creation_input_tokens");
  return orNull({ input: figure("input_tokens") + cacheRead + cacheWrite, output: figure("output_tokens"), cacheRead, cacheWrite });
}

/** No request is as long. A few counts of any whole number would be a sum that no database gives back. */
const MOST_TOKENS = 1_000_000_000;

/** A server may write anything for a count; what is none would spoil every sum it enters. */
const tokens = (value: unknown): number =>
  Number.isInteger(value) && Number(value) > 0 && Number(value) <= MOST_TOKENS ? Number(value) : 0;

/** All zero is a server that doesn't count, and would show up as free. */
const orNull = (usage: Usage): Usage | null => (usage.input + usage.output > 0 ? usage : null);
