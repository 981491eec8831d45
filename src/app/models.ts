// Settings → the models: credentials, which default and why, and the router over the offline model and the AI SDK.
import type { LoadedConfig } from "../config/config.ts";
import type { Config } from "../config/schema.ts";
import { errorText } from "../core/errors.ts";
import type { Secrets } from "../core/secrets.ts";
import type { Usage } from "../core/usage.ts";
import { visibleText } from "../core/visible-text.ts";
import type { SdkModelsOptions } from "../models/ai-sdk.ts";
import { createCredentials } from "../models/credentials.ts";
import type { ModelErrorKind, ModelReply, ModelRequest, ToolSpec } from "../models/model.ts";
import { missingKey, unreadableKeys } from "../models/model-error.ts";
import { createPrices } from "../models/prices.ts";
import { builtInDefinition, type ProviderDefinition, parseModelName } from "../models/provider.ts";
import { type ResolvedModel, resolveDefaultModel } from "../models/resolve.ts";
import { createRouter, type ModelRouter } from "../models/router.ts";
import { defaultAgent } from "./agents.ts";
import type { Base } from "./base.ts";

export interface ModelParts {
  readonly models: ModelRouter;
  /** For agents whose settings name none: what was found at start. */
  readonly resolved: ResolvedModel;
  /** What a use of this model would cost; null: no price is known. */
  priceOf(model: string): (usage: Usage) => number | null;
}

export interface ModelDeps extends Pick<Base, "clock" | "bus" | "log" | "secrets"> {
  loaded(): LoadedConfig;
  readPicture(id: string): Promise<Uint8Array | null>;
}

/** A call with all its retries and fallbacks may not take longer than this. */
const STEP_MS = 30 * 60_000;

export async function createModelParts(deps: ModelDeps): Promise<ModelParts> {
  const { config, stateDir } = deps.loaded();
  const credentials = createCredentials({
    stateDir,
    settings() {
      const now = deps.loaded();
      const { list } = now.config.agents;
      return {
        mainAgentId: defaultAgent(now.config).id,
        env: now.env,
        configProviders: now.config.models.providers,
        isIsolated: (agentId) => list.find(({ id }) => id === agentId)?.auth === "own",
      };
    },
    onSecret: (name, value) => deps.secrets.add(name, value),
    onWarning: (text) => deps.log.warn({}, text),
  });
  const resolved = await resolveDefaultModel({
    configured: config.agents.defaults.model.primary,
    configProviders: Object.keys(config.models.providers),
    findKey: (provider) => credentials.find(provider, defaultAgent(config).id),
    probe: config.models.probeLocal,
  });
  const providers = (): Record<string, ProviderDefinition> => ({ ...resolved.providers, ...deps.loaded().config.models.providers });
  const prices = createPrices({ clock: deps.clock });
  const options: SdkModelsOptions = {
    provider(name, agentId) {
      const own = providers();
      const definition = Object.hasOwn(own, name) ? own[name] : builtInDefinition(name);
      if (definition === undefined) return { problem: { message: `There is no provider "${name}".` }, kind: "bad-request" };
      let key: string | undefined;
      try {
        key = credentials.find(name, agentId)?.apiKey;
      } catch (error) {
        return { problem: unreadableKeys(agentId, error) };
      }
      const { apiKey: shared, ...endpoint } = definition;
      if (key !== undefined) return { ...endpoint, apiKey: key };
      // The settings have one, and this agent may not use it: without any, a stranger's refusal would be all it gets to read.
      return shared === undefined ? endpoint : { problem: missingKey(name, agentId) };
    },
    prices,
    readPicture: (id) =>
      deps.readPicture(id).catch((error: unknown) => {
        deps.log.warn({ reason: errorText(error) }, "a picture could not be read; the model is told that it is not shown");
        return null;
      }),
    clock: deps.clock,
    log: deps.log,
    get limits() {
      return { idleMs: deps.loaded().config.models.idleTimeoutSeconds * 1000, stepMs: STEP_MS };
    },
    onCall: ({ agentId: _, ...report }) => deps.bus.emit({ type: "model.called", ...report }),
  };
  const models = createRouter({
    loadOffline: async () => (await import("../models/offline/offline.ts")).createOfflineModel({ clock: deps.clock }),
    loadSdk: async () => (await import("../models/ai-sdk.ts")).createSdkModels(options),
    providers,
    findKey: (provider, agentId) => credentials.find(provider, agentId),
    windowOf(model) {
      const name = parseModelName(model);
      return name === null ? null : prices.windowOf({ ...name, definition: providers()[name.provider] });
    },
  });
  const redacted = createRedaction(deps.secrets);
  const call: ModelRouter["call"] = async (request, onEvent) =>
    withoutBeginning(await models.call(redacted(request), onEvent), deps.secrets);
  const priceOf: ModelParts["priceOf"] = (model) => (usage) => {
    const name = parseModelName(model);
    return name === null
      ? null
      : prices.costUsd({ ...name, definition: providers()[name.provider] ?? builtInDefinition(name.provider) }, usage);
  };
  return { models: { ...models, call }, resolved, priceOf };
}

export type ModelTrial = (trial: LoadedConfig & { readonly model: string; readonly signal: AbortSignal }) => Promise<ModelReply>;

/** One tiny call under settings that are not in force: is the key right, is the model there? A call that would be repeated has failed. */
export function createModelTrial(deps: Pick<Base, "clock" | "log">): ModelTrial {
  return async ({ config, env, stateDir, model, signal }) => {
    const { createSdkModels } = await import("../models/ai-sdk.ts");
    const main = defaultAgent(config).id;
    const settings = { mainAgentId: main, env, configProviders: config.models.providers, isIsolated: () => false };
    const credentials = createCredentials({ stateDir, settings: () => settings });
    const enough = new AbortController();
    let reason: string | null = null;
    const models = createSdkModels({
      ...deps,
      prices: createPrices(deps),
      limits: { idleMs: config.models.idleTimeoutSeconds * 1000, stepMs: STEP_MS },
      provider(name) {
        const own = config.models.providers;
        const definition = Object.hasOwn(own, name) ? own[name] : builtInDefinition(name);
        if (definition === undefined) return { problem: { message: `There is no provider "${name}".` }, kind: "bad-request" };
        const { apiKey: _, ...endpoint } = definition;
        const key = credentials.find(name, main)?.apiKey;
        return key === undefined ? endpoint : { ...endpoint, apiKey: key };
      },
    });
    const asked = { role: "user" as const, text: "Answer with the word: ready" };
    const request = { model, fallbacks: [], thinking: "off" as const, system: "", messages: [asked], tools: [], agentId: main };
    const reply = await models.call({ ...request, signal: AbortSignal.any([signal, enough.signal]) }, (event) => {
      if (event.type !== "retry" || reason !== null) return;
      reason = event.reason;
      enough.abort();
    });
    return reason === null ? reply : { ...reply, outcome: "error", error: { kind: kindOf(reason), message: reason } };
  };
}

/** A repeated call tells its reason only in words. */
function kindOf(reason: string): ModelErrorKind {
  if (/allows no more calls/.test(reason)) return "rate";
  return /failed to answer/.test(reason) ? "overload" : "network";
}

/** An answer that broke off in the middle of a secret ends before it: what there is of it is no known value (SC4). */
function withoutBeginning(reply: ModelReply, secrets: Pick<Secrets, "heldBack">): ModelReply {
  if (reply.outcome === "ok" && reply.finish !== "length") return reply;
  const text = visibleText(reply.text);
  return { ...reply, text: text.slice(0, text.length - secrets.heldBack(text)) };
}

/**
 * Messages come from transcripts, which hold no secret. Prompts and tools are put together from elsewhere: files of the
 * workspace, memory, what MCP servers say of themselves. No provider gets a secret of another through them (SC4).
 */
function createRedaction(secrets: Pick<Secrets, "redact" | "count">): (request: ModelRequest) => ModelRequest {
  // The same objects call after call, and most of what is sent: they are gone through again only when another secret is known.
  let redacted = new WeakMap<ToolSpec, ToolSpec>();
  let count = 0;
  const redactTool = (tool: ToolSpec): ToolSpec => {
    const known = redacted.get(tool);
    if (known !== undefined) return known;
    const text = JSON.stringify(tool);
    const shown = secrets.redact(text);
    const clean = shown === text ? tool : (JSON.parse(shown) as ToolSpec);
    redacted.set(tool, clean);
    return clean;
  };
  return (request) => {
    if (count !== secrets.count()) redacted = new WeakMap();
    count = secrets.count();
    return { ...request, system: secrets.redact(request.system), tools: request.tools.map(redactTool) };
  };
}

/** The default agent's model under these settings, and why it is that one, for the operator (RN2). */
export function modelInUse(config: Config, { models, resolved }: ModelParts): Pick<ResolvedModel, "model" | "why"> {
  const own = defaultAgent(config).model?.primary;
  const model = own ?? config.agents.defaults.model.primary;
  if (model === undefined) return resolved;
  const name = parseModelName(model);
  const provider = Object.entries(config.models.providers).find(([key]) => key === name?.provider)?.[1];
  const title = provider?.models.find(({ id }) => id === name?.id)?.name;
  const why = models.checkName(model) ?? `set in the config (agents.${own === undefined ? "defaults" : "list[]"}.model)`;
  return { model, why: title === undefined ? why : `${title}, ${why}` };
}
