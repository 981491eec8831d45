// The AI SDK's providers behind the model seam: one call = one model step, with retries, fallbacks, limits, usage and
// cost. The provider objects are driven directly (doStream): the loop over tools is agents/turn.ts's, not the library's.
// router.ts → createSdkModels → attempt.ts per HTTP call → provider. Loaded on first use.
import type { LanguageModelV4CallOptions } from "@ai-sdk/provider";
import { abortAfter, type Clock } from "../core/clock.ts";
import { publicErrorText } from "../core/errors.ts";
import type { Logger } from "../core/logger.ts";
import { addSpend, type InputCount, NO_SPEND, type Spend, type Usage } from "../core/usage.ts";
import { type Attempt, type AttemptEnd, createAttempt } from "./attempt.ts";
import { type InputBound, inputBound } from "./input-bound.ts";
import { type Endpoint, endpointOptions, type ModelTarget, withLimit } from "./language-model.ts";
import type { ModelErrorKind, ModelEvent, ModelProblem, ModelReply, ModelRequest, Models } from "./model.ts";
import { explain, type Failure, missingKey } from "./model-error.ts";
import { openPurse, tookOf } from "./paying.ts";
import type { Prices } from "./prices.ts";
import { malformedModel, needsKey, parseModelName } from "./provider.ts";
import { createReplyDraft, type ReplyDraft } from "./reply-draft.ts";
import { loadPictures } from "./vision.ts";
import { toPrompt, toReasoning, toTools } from "./wire.ts";

/** Why an agent can't use a provider. */
interface EndpointProblem {
  readonly problem: ModelProblem;
  /** `auth` unless said otherwise. */
  readonly kind?: ModelErrorKind;
}

/** One concrete HTTP call, also a failed, retried or aborted one. */
export interface CallReport {
  readonly model: string;
  readonly agentId: string;
  readonly outcome: ModelReply["outcome"];
  readonly usage: Usage | null;
  readonly costUsd: number | null;
  readonly ms: number;
}

export interface SdkModelsOptions {
  /** Asked anew for every attempt, so that a rotated key counts at once. */
  provider(name: string, agentId: string): Endpoint | EndpointProblem;
  readonly prices: Prices;
  readonly clock: Clock;
  readonly log: Logger;
  /** `idleMs`: silence on one HTTP call, head included. `stepMs`: the whole call with its retries, waits and fallbacks. */
  readonly limits: { readonly idleMs: number; readonly stepMs: number };
  onCall?(report: CallReport): void;
  /** The bytes of a picture; null: they are gone. Never rejects. Left out: there are none. */
  readPicture?(id: string): Promise<Uint8Array | null>;
  /** 0..1, for the jitter. */
  random?(): number;
}

const ATTEMPTS = 3;
const FIRST_WAIT_MS = 1000;
/** A longer wait is not ours to sit out: the next model is tried, or the chat hears when to come back. */
const LONGEST_WAIT_MS = 60_000;

const THINKING_WORDS = /reasoning|thinking|\bthink\b|\beffort\b/i;

interface Call {
  readonly options: SdkModelsOptions;
  readonly attempt: Attempt;
  readonly request: ModelRequest;
  /** Aborts with the request or when `stepMs` are over. */
  readonly signal: AbortSignal;
  readonly emit: (event: ModelEvent) => void;
  /** Models that refused a thinking level: asked without one from then on. */
  readonly plain: Set<string>;
  spend: Spend;
  /** What the provider that answered counted as its input. */
  counted: InputCount | undefined;
  /** The last text any attempt brought, for a reply that fails in the end. */
  text: string;
}

/** Why a call can't be paid for. */
interface Unpaid {
  readonly outcome: "unpaid";
  readonly reason: string;
}

type ModelEnd =
  | Unpaid
  | { readonly outcome: "ok"; readonly draft: ReplyDraft; readonly target: ModelTarget }
  | { readonly outcome: "aborted" }
  | { readonly outcome: "error"; readonly failure: Failure; readonly problem: ModelProblem };

/** Never throws; settles soon after an abort; keeps nothing between calls but the library's objects and which models can't think. */
export function createSdkModels(options: SdkModelsOptions): Pick<Models, "call"> {
  const plain = new Set<string>();
  const attempt = createAttempt();
  return {
    call: async (request, onEvent) => {
      const stop = new AbortController();
      const abort = () => stop.abort("over");
      request.signal.addEventListener("abort", abort, { once: true });
      if (request.signal.aborted) abort();
      const endWatch = abortAfter(options.clock, options.limits.stepMs, stop, "over");
      const emit = (event: ModelEvent) => guarded(options.log, () => onEvent(event));
      const call: Call = { options, attempt, request, signal: stop.signal, emit, plain, spend: NO_SPEND, counted: undefined, text: "" };
      try {
        return await walkModels(call);
      } catch (error) {
        // Unreadable credentials, a package that can't be loaded: the turn ends with a sentence like any other failure.
        options.log.error({ err: error, model: request.model }, "model call failed");
        return { ...brokenReply(call, request.model), outcome: "error", error: { kind: "unknown", message: publicErrorText(error) } };
      } finally {
        request.signal.removeEventListener("abort", abort);
        endWatch();
      }
    },
  };
}

/** The model, then its fallbacks, as long as what fails is of the passing kind. */
async function walkModels(call: Call): Promise<ModelReply> {
  const models = [call.request.model, ...call.request.fallbacks];
  let last = { model: call.request.model, end: await askModel(call, call.request.model) };
  for (const next of models.slice(1)) {
    if (last.end.outcome !== "error" || !last.end.failure.isPassing || call.signal.aborted) break;
    const target = findTarget(call, next);
    if ("problem" in target) {
      call.options.log.warn({ model: next, problem: target.problem }, "fallback model skipped");
      continue;
    }
    call.emit({ type: "fallback", from: last.model, to: next, reason: last.end.problem.message });
    last = { model: next, end: await askModel(call, next) };
  }
  return toReply(call, last.model, last.end);
}

/** One model, up to three times. */
async function askModel(call: Call, model: string): Promise<ModelEnd> {
  for (let tries = 1; ; tries++) {
    if (call.signal.aborted) return { outcome: "aborted" };
    const target = findTarget(call, model);
    if ("problem" in target) {
      const failure: Failure = { kind: target.kind ?? "auth", status: null, isPassing: false, afterMs: null, detail: "" };
      return { outcome: "error", failure, problem: target.problem };
    }
    const draft = createReplyDraft(new Set(call.request.tools.map((tool) => tool.name)), {
      onText: (text) => call.emit({ type: "text", text }),
      onThoughts: (text) => call.emit({ type: "thoughts", text }),
    });
    const reasoning = call.plain.has(model) ? undefined : toReasoning(call.request, target);
    const end = await meteredAttempt(call, target, draft, reasoning);
    if (draft.text !== "") call.text = draft.text;
    if (end.outcome === "ok") return { outcome: "ok", draft, target };
    if (end.outcome === "aborted" || end.outcome === "unpaid") return end;
    const { failure } = end;
    if (reasoning !== undefined && failure.kind === "bad-request" && THINKING_WORDS.test(failure.detail)) {
      call.plain.add(model);
      continue;
    }
    const waitMs = waitBefore(tries, failure, call.options.random?.() ?? Math.random());
    const problem = explain(failure, target, call.request.agentId);
    if (waitMs === null) return { outcome: "error", failure, problem };
    call.emit({ type: "retry", model, reason: problem.message, afterMs: waitMs });
    await call.options.clock.sleep(waitMs, call.signal);
    // The step's time ran out while waiting: what we waited for is the better explanation.
    if (call.signal.aborted) return { outcome: "error", failure: { ...failure, isPassing: false }, problem };
  }
}

/** How long until the next try, or null when there is none. */
function waitBefore(tries: number, failure: Failure, random: number): number | null {
  if (!failure.isPassing || tries >= ATTEMPTS) return null;
  const backoffMs = FIRST_WAIT_MS * 2 ** (tries - 1);
  // Jitter only ever adds to what the provider asked for.
  const waitMs = failure.afterMs === null ? backoffMs * (0.5 + random / 2) : failure.afterMs + 250 * random;
  return waitMs > LONGEST_WAIT_MS ? null : Math.round(waitMs);
}

async function meteredAttempt(
  call: Call,
  target: ModelTarget,
  draft: ReplyDraft,
  reasoning: LanguageModelV4CallOptions["reasoning"],
): Promise<AttemptEnd | Unpaid> {
  const { clock, limits, prices, onCall, log } = call.options;
  const { request, signal } = call;
  const options: Omit<LanguageModelV4CallOptions, "prompt"> = endpointOptions(target);
  if (reasoning !== undefined) options.reasoning = reasoning;
  if (request.tools.length > 0) options.tools = toTools(request.tools, target);
  const priceOf = (usage: Usage): number | null => prices.costUsd({ ...target, definition: target.endpoint }, usage);
  const model = `${target.provider}/${target.id}`;
  // When somebody asks, and once: a long history takes a while.
  const measured: { bound?: InputBound } = {};
  const inputTokens = (): number => {
    measured.bound ??= inputBound({ ...request, model, reasoning });
    return measured.bound.tokens;
  };
  const permit = await openPurse(call, { model, inputTokens, costUsd: priceOf }, target, options);
  // Stopped, or out of time, while it waited for others: that is no want of money, and nothing must land or be said as if it were.
  if ("refused" in permit) return signal.aborted ? { outcome: "aborted" } : { outcome: "unpaid", reason: permit.refused };
  const prompt = await promptOf(call, target).catch(async (error: unknown) => {
    // Nothing was sent. Left to itself, the hold would lock its money for as long as this process lives.
    await permit.settle("nothing");
    throw error;
  });
  const startedAt = clock.now();
  const end = await call.attempt({
    clock,
    target,
    call: withLimit({ ...options, prompt }, target, permit.maxOutput),
    draft,
    maxOutput: permit.maxOutput,
    idleMs: limits.idleMs,
    signal,
  });
  const usage = draft.usage;
  const costUsd = usage === null ? null : priceOf(usage);
  call.spend = addSpend(call.spend, { usage, costUsd });
  call.counted = usage !== null && draft.isCounted ? measured.bound?.counted(usage.input) : undefined;
  await permit.settle(tookOf(end, draft, permit, priceOf));
  const report = {
    model,
    agentId: request.agentId,
    outcome: end.outcome,
    usage,
    costUsd,
    ms: clock.now() - startedAt,
  };
  guarded(log, () => onCall?.(report));
  return end;
}

const promptOf = async ({ request, options: { readPicture = async () => null } }: Call, target: ModelTarget) =>
  toPrompt(request, target, await loadPictures(request.messages, target, readPicture));

function findTarget(call: Call, model: string): ModelTarget | EndpointProblem {
  const name = parseModelName(model);
  if (name === null) return { problem: { message: malformedModel(model) }, kind: "bad-request" };
  const { agentId } = call.request;
  const endpoint = call.options.provider(name.provider, agentId);
  if ("problem" in endpoint) return endpoint;
  if (endpoint.apiKey === undefined && needsKey(name.provider, endpoint)) return { problem: missingKey(name.provider, agentId) };
  return { ...name, endpoint };
}

function toReply(call: Call, model: string, end: ModelEnd): ModelReply {
  if (end.outcome === "ok") {
    const { draft, target } = end;
    const extras = draft.extras(target.id);
    const reply: ModelReply = { outcome: "ok", text: draft.text, toolCalls: draft.toolCalls, finish: draft.finish, ...call.spend, model };
    return {
      ...reply,
      ...(extras === null ? {} : { extras: { [target.provider]: extras } }),
      ...(call.counted === undefined ? {} : { counted: call.counted }),
    };
  }
  const broken = brokenReply(call, model);
  if (end.outcome === "unpaid") return { ...broken, outcome: "error", error: { kind: "refused", message: end.reason } };
  if (call.request.signal.aborted) return { ...broken, outcome: "aborted" };
  if (end.outcome === "error") return { ...broken, outcome: "error", error: { kind: end.failure.kind, ...end.problem } };
  // Not the request's abort, so the step's own time is over.
  const seconds = Math.round(call.options.limits.stepMs / 1000);
  const message = `The model ${model} took longer than ${seconds} seconds. Try again, or choose a faster one.`;
  return { ...broken, outcome: "error", error: { kind: "timeout", message } };
}

const brokenReply = (call: Call, model: string): Omit<ModelReply, "outcome"> => ({
  text: call.text,
  toolCalls: [],
  finish: "other",
  ...call.spend,
  model,
});

/** A listener that throws is a bug of its own and must not end the answer. */
function guarded(log: Logger, work: () => void): void {
  try {
    work();
  } catch (error) {
    log.error({ err: error }, "a listener of a model call failed");
  }
}
