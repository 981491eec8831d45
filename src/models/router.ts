// The one Models object everybody uses: `offline/…` goes to the built-in model, everything else to the AI SDK adapter. Either is
// loaded at its first call because it costs start-up time. agents/turn.ts → router → offline/offline.ts | ai-sdk.ts
import { publicErrorText } from "../core/errors.ts";
import { onFirstUse } from "../core/first-use.ts";
import type { Credential } from "./credentials.ts";
import type { ModelErrorKind, ModelEvent, ModelProblem, ModelReply, ModelRequest, Models } from "./model.ts";
import { missingKey, unreadableKeys } from "./model-error.ts";
import { needsKey, type ProviderDefinition, parseModelName } from "./provider.ts";
import { checkModelName, OFFLINE_MODEL } from "./resolve.ts";

export interface ModelRouter extends Models {
  /** Like `check`, without asking for a key: what MO2 calls an invalid model. */
  checkName(model: string): string | null;
}

export interface RouterOptions {
  /** Called at its first use; again after a failure. */
  loadOffline(): Promise<Pick<Models, "call">>;
  /** The same of real providers. */
  loadSdk(): Promise<Pick<Models, "call">>;
  /** From config and discovery, as they are now. */
  providers(): Readonly<Record<string, ProviderDefinition>>;
  findKey(provider: string, agentId: string): Credential | null;
  /** Tokens by catalogue, null when it doesn't know the model. */
  windowOf?(model: string): number | null;
}

const OFFLINE_WINDOW = 128_000;
const CAUTIOUS_WINDOW = 32_000;
/** What another model may help with (MO4); a wrong key or a refused request must be seen, not papered over. */
const PASSING: ReadonlySet<ModelErrorKind> = new Set(["rate", "overload", "network", "timeout"]);

const isOffline = (model: string): boolean => model.startsWith("offline/");

export function createRouter(options: RouterOptions): ModelRouter {
  const sdk = onFirstUse(options.loadSdk);
  const offline = onFirstUse(options.loadOffline);
  const checkName = (model: string): string | null => checkModelName(model, Object.keys(options.providers()));
  return {
    checkName,
    check(model, agentId) {
      const message = checkName(model);
      if (message === null) return checkKey(options, model, agentId);
      return parseModelName(model) === null ? { message } : { message, remedy: "Others are added under models.providers in the settings." };
    },
    call: async (request, onEvent) => {
      try {
        if (isOffline(request.model)) return await callOffline(offline, request, onEvent);
        return await callSdk({ sdk: await sdk(), offline }, request, onEvent);
      } catch (error) {
        return failed(request.model, `The model layer failed: ${publicErrorText(error)}`);
      }
    },
    contextWindow: (model) => contextWindow(options, model),
  };
}

type Loading = () => Promise<Pick<Models, "call">>;

async function callOffline(offline: Loading, request: ModelRequest, onEvent: (event: ModelEvent) => void): Promise<ModelReply> {
  const problem = checkModelName(request.model, []);
  return problem === null ? (await offline()).call(request, onEvent) : failed(request.model, problem);
}

/** The SDK walks the fallbacks it can reach; an offline one, if configured, answers when those are down. */
async function callSdk(
  { sdk, offline }: { readonly sdk: Pick<Models, "call">; readonly offline: Loading },
  request: ModelRequest,
  onEvent: (event: ModelEvent) => void,
): Promise<ModelReply> {
  const reply = await sdk.call({ ...request, fallbacks: request.fallbacks.filter((model) => !isOffline(model)) }, onEvent);
  const rescue = reply.outcome === "error" && reply.error !== undefined && PASSING.has(reply.error.kind);
  if (!rescue || !request.fallbacks.includes(OFFLINE_MODEL)) return reply;
  onEvent({ type: "fallback", from: request.model, to: OFFLINE_MODEL, reason: reply.error?.message ?? "" });
  const rescued = await (await offline()).call({ ...request, model: OFFLINE_MODEL }, onEvent);
  // The tokens the failed attempts used were still used.
  return { ...rescued, usage: reply.usage, costUsd: reply.costUsd };
}

function checkKey(options: RouterOptions, model: string, agentId: string): ModelProblem | null {
  const provider = parseModelName(model)?.provider;
  if (provider === undefined || !needsKey(provider, ownDefinition(options, provider))) return null;
  try {
    if (options.findKey(provider, agentId) !== null) return null;
  } catch (error) {
    return unreadableKeys(agentId, error);
  }
  return missingKey(provider, agentId);
}

function contextWindow(options: RouterOptions, model: string): number {
  if (isOffline(model)) return OFFLINE_WINDOW;
  const name = parseModelName(model);
  if (name === null) return CAUTIOUS_WINDOW;
  const listed = ownDefinition(options, name.provider)?.models?.find((entry) => entry.id === name.id)?.contextWindow;
  return listed ?? options.windowOf?.(model) ?? CAUTIOUS_WINDOW;
}

function ownDefinition(options: RouterOptions, provider: string): ProviderDefinition | undefined {
  const providers = options.providers();
  return Object.hasOwn(providers, provider) ? providers[provider] : undefined;
}

const failed = (model: string, message: string): ModelReply => ({
  outcome: "error",
  text: "",
  toolCalls: [],
  finish: "other",
  usage: null,
  costUsd: null,
  model,
  error: { kind: "unknown", message },
});
