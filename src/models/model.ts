// The seam between an agent and whatever answers it. One call = one model step: messages and tools in, text and
// tool calls out; agents/turn.ts owns the loop, so that every step is on disk before the next one starts.
// agents/turn.ts → Models.call → ai-sdk.ts | offline/offline.ts. Messages are our own JSON: a transcript outlives a library.
import type { Thinking } from "../core/thinking.ts";
import type { InputCount, Purse, Usage } from "../core/usage.ts";

export interface ToolCall {
  readonly id: string;
  readonly name: string;
  /** Parsed arguments; when the model wrote none that parse, `invalid` says why and `args` is what it wrote, as text. */
  readonly args: unknown;
  readonly invalid?: string;
}

/** A picture beside the words; its bytes are read when a request is made. */
export interface PictureRef {
  readonly id: string;
  readonly name: string;
  readonly type: string;
  readonly size: number;
}

export type ChatMessage =
  | { readonly role: "user"; readonly text: string; readonly pictures?: readonly PictureRef[] }
  | {
      readonly role: "assistant";
      readonly text: string;
      readonly toolCalls: readonly ToolCall[];
      /** What one provider needs back verbatim (signatures, reasoning items), keyed by provider; others ignore it. */
      readonly extras?: Readonly<Record<string, unknown>>;
      /** Of the request it answered; nobody is sent it. */
      readonly counted?: InputCount;
    }
  | { readonly role: "tool"; readonly callId: string; readonly name: string; readonly text: string; readonly isError: boolean };

export interface ToolSpec {
  readonly name: string;
  readonly description: string;
  /** JSON Schema of the arguments. */
  readonly parameters: Record<string, unknown>;
}

export interface ModelRequest {
  /** `provider/model-id`, tried first; then the fallbacks in order. */
  readonly model: string;
  readonly fallbacks: readonly string[];
  readonly thinking: Thinking;
  readonly system: string;
  readonly messages: readonly ChatMessage[];
  readonly tools: readonly ToolSpec[];
  /** Whose credentials are used (MO7). */
  readonly agentId: string;
  /** Abort reaches the HTTP request. */
  readonly signal: AbortSignal;
  /** Asked before each HTTP call; left out: nothing limits them. */
  readonly purse?: Purse;
}

/** `refused`: not by the provider, the call was not made. */
export type ModelErrorKind =
  | "refused"
  | "auth"
  | "rate"
  | "overload"
  | "context"
  | "network"
  | "bad-request"
  | "redirect"
  | "timeout"
  | "unknown";

export interface ModelError {
  readonly kind: ModelErrorKind;
  /** For whoever reads the chat: what went wrong, and what they can do about it, if anything. No secrets, no stack. */
  readonly message: string;
  /** For whoever runs the gateway: what to set or to look at. */
  readonly remedy?: string;
}

/** What a model error says, and to whom. */
export type ModelProblem = Pick<ModelError, "message" | "remedy">;

export interface ModelReply {
  readonly outcome: "ok" | "aborted" | "error";
  /** The text so far, also when aborted or failed in the middle. */
  readonly text: string;
  readonly toolCalls: readonly ToolCall[];
  readonly extras?: Readonly<Record<string, unknown>>;
  /** Left out where nobody asked, or the provider said nothing that can be true. */
  readonly counted?: InputCount;
  /** `length`: the provider cut the answer. */
  readonly finish: "stop" | "tool-calls" | "length" | "filter" | "other";
  /** What the provider reported for all attempts of this call, or null when it said nothing. */
  readonly usage: Usage | null;
  readonly costUsd: number | null;
  /** The `provider/model-id` that really answered. */
  readonly model: string;
  readonly error?: ModelError;
}

export type ModelEvent =
  /** `text` is the whole text of this call so far, so a retried stream never shows doubled words. */
  | { readonly type: "text"; readonly text: string }
  /** What it thinks before it answers, as far as its provider tells; all of it so far. */
  | { readonly type: "thoughts"; readonly text: string }
  | { readonly type: "retry"; readonly model: string; readonly reason: string; readonly afterMs: number }
  | { readonly type: "fallback"; readonly from: string; readonly to: string; readonly reason: string };

export interface Models {
  /** Never throws, always settles soon after an abort. */
  call(request: ModelRequest, onEvent: (event: ModelEvent) => void): Promise<ModelReply>;
  /** Null when the name can be used by this agent, else why not (unknown provider, no key, malformed). */
  check(model: string, agentId: string): ModelProblem | null;
  /** Tokens the model can read, for compaction; a cautious default when unknown. */
  contextWindow(model: string): number;
}
