// Settings → the models: credentials, which default and why, and the router over the offline model and the AI SDK.
import type { LoadedConfig } from "../config/config.ts";
import type { Config } from "../config/schema.ts";
import type { Secrets } from "../core/secrets.ts";
import { visibleText } from "../core/visible-text.ts";
import type { SdkModelsOptions } from "../models/ai-sdk.ts";
import { createCredentials } from "../models/credentials.ts";
import type { ModelReply, ModelRequest, ToolSpec } from "../models/model.ts";
import { missingKey, unreadableKeys } from "../models/model-error.ts";
import { createOfflineModel } from "../models/offline/offline.ts";
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
}

export interface ModelDeps extends Pick<Base, "clock" | "bus" | "log" | "secrets"> {
  loaded(): LoadedConfig;
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
    clock: deps.clock,
    log: deps.log,
    get limits() {
      return { idleMs: deps.loaded().config.models.idleTimeoutSeconds * 1000, stepMs: STEP_MS };
    },
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
  const redacted = createRedaction(deps.secrets);
  const call: ModelRouter["call"] = async (request, onEvent) =>
    withoutBeginning(await models.call(redacted(request), onEvent), deps.secrets);
  return { models: { ...models, call }, resolved };
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
function createRedaction(secrets: Pick<Secrets, "redact">): (request: ModelRequest) => ModelRequest {
  // The same objects call after call: only what became known as a secret since has to be looked for in them again.
  const written = new WeakMap<ToolSpec, string>();
  const redactTool = (tool: ToolSpec): ToolSpec => {
    const text = written.get(tool) ?? JSON.stringify(tool);
    written.set(tool, text);
    const shown = secrets.redact(text);
    return shown === text ? tool : (JSON.parse(shown) as ToolSpec);
  };
  return (request) => ({ ...request, system: secrets.redact(request.system), tools: request.tools.map(redactTool) });
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
