// Settings → the models: credentials, which default and why, and the router over the offline model and the AI SDK.
import type { LoadedConfig } from "../config/config.ts";
import type { Clock } from "../core/clock.ts";
import type { Bus } from "../core/events.ts";
import type { Logger } from "../core/logger.ts";
import type { Secrets } from "../core/secrets.ts";
import type { SdkModelsOptions } from "../models/ai-sdk.ts";
import { createCredentials } from "../models/credentials.ts";
import { createOfflineModel } from "../models/offline.ts";
import { createPrices } from "../models/prices.ts";
import { findBuiltIn, type ProviderDefinition, parseModelName } from "../models/provider.ts";
import { type ResolvedModel, resolveDefaultModel } from "../models/resolve.ts";
import { createRouter, type ModelRouter } from "../models/router.ts";

export interface ModelParts {
  readonly models: ModelRouter;
  readonly resolved: ResolvedModel;
}

export interface ModelDeps {
  loaded(): LoadedConfig;
  readonly clock: Clock;
  readonly bus: Bus;
  readonly log: Logger;
  readonly secrets: Secrets;
}

/** Built in without a key; where it stands is the library's default, a discovered or configured one wins. */
const OLLAMA: ProviderDefinition = { api: "ollama" };
/** A call with all its retries and fallbacks may not take longer than this. */
const STEP_MS = 30 * 60_000;

export async function createModelParts(deps: ModelDeps): Promise<ModelParts> {
  const { config, stateDir, env } = deps.loaded();
  const mainAgentId = config.agents.list.find((agent) => agent.default)?.id ?? "main";
  const credentials = createCredentials({
    stateDir,
    mainAgentId,
    env,
    configProviders: config.models.providers,
    onSecret: (name, value) => deps.secrets.add(name, value),
    onWarning: (text) => deps.log.warn({}, text),
  });
  const resolved = await resolveDefaultModel({
    configured: config.agents.defaults.model.primary,
    configProviders: Object.keys(config.models.providers),
    findKey: (provider) => credentials.find(provider, mainAgentId),
    probe: config.models.probeLocal,
  });
  const providers = (): Record<string, ProviderDefinition> => ({ ...resolved.providers, ...deps.loaded().config.models.providers });
  const prices = createPrices({ clock: deps.clock });
  const options: SdkModelsOptions = {
    provider(name, agentId) {
      const definition = providers()[name] ?? findBuiltIn(name) ?? (name === "ollama" ? OLLAMA : undefined);
      if (definition === undefined) return { problem: `There is no provider "${name}".`, kind: "bad-request" };
      const key = credentials.find(name, agentId)?.apiKey;
      return { ...definition, ...(key === undefined ? {} : { apiKey: key }) };
    },
    prices,
    clock: deps.clock,
    log: deps.log,
    limits: { idleMs: config.models.idleTimeoutSeconds * 1000, stepMs: STEP_MS },
    onCall: ({ agentId: _, ...report }) => deps.bus.emit({ type: "model.called", ...report }),
  };
  const models = createRouter({
    offline: createOfflineModel({ clock: deps.clock }),
    loadSdk: async () => (await import("../models/ai-sdk.ts")).createSdkModels(options),
    providers,
    findKey: (provider, agentId) => credentials.find(provider, agentId),
    windowOf(model) {
      const name = parseModelName(model);
      return name === null ? null : prices.windowOf({ ...name, definition: providers()[name.provider] });
    },
  });
  return { models, resolved };
}
