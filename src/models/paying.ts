// What one call to a provider is held for before it is made, and charged for afterwards (BG2). ai-sdk.ts → here → the purse of whoever pays
import type { LanguageModelV4CallOptions } from "@ai-sdk/provider";
import type { Outlay, Permit, Took, Usage } from "../core/usage.ts";
import type { AttemptEnd } from "./attempt.ts";
import type { ModelTarget } from "./language-model.ts";
import type { ModelRequest } from "./model.ts";
import type { ReplyDraft } from "./reply-draft.ts";

const FREE: Permit = { maxOutput: null, async settle() {} };

export async function openPurse(
  { request, signal }: { readonly request: Pick<ModelRequest, "purse">; readonly signal: AbortSignal },
  { model, inputTokens, costUsd }: Omit<Outlay, "maxOutput">,
  { endpoint }: ModelTarget,
  { maxOutputTokens }: Pick<LanguageModelV4CallOptions, "maxOutputTokens">,
): Promise<Permit | { readonly refused: string }> {
  if (request.purse === undefined) return FREE;
  const outlay: Outlay = {
    model,
    inputTokens,
    // Nobody is paid for what runs on a machine of one's own.
    costUsd: (usage) => costUsd(usage) ?? (endpoint.api === "ollama" ? 0 : null),
    maxOutput: maxOutputTokens ?? null,
  };
  return request.purse.open(outlay, signal);
}

/**
 * What is charged. An error status before any answer is a refusal without work. An answer that broke off has reported its input at most,
 * and of its output only the beginning: it is charged as the longest it could have become. Nobody sends nothing: who says so doesn't count.
 */
export function tookOf(end: AttemptEnd, draft: ReplyDraft, { maxOutput }: Permit, priceOf: (usage: Usage) => number | null): Took {
  const { usage, hasBegun } = draft;
  if (usage?.input === 0) return null;
  if (usage === null) return end.outcome === "error" && end.failure.status !== null && !hasBegun ? "nothing" : null;
  if (draft.isCounted || maxOutput === null) return { usage, costUsd: priceOf(usage) };
  const most = { ...usage, output: Math.max(usage.output, maxOutput) };
  return { usage: most, costUsd: priceOf(most) };
}
