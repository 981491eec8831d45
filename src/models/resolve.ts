// Which model, and why: config → a key → a model server on this machine → the built-in offline model (RN2),
// and the order for a sub-agent (MO2). app/models.ts → resolveDefaultModel at start; subagents/spawn.ts → pickSubagentModel.
import type { Credential } from "./credentials.ts";
import { findLocalServers, type LocalPorts, type LocalServer } from "./local-servers.ts";
import { BUILT_IN_PROVIDERS, findBuiltIn, KEYLESS_PROVIDERS, malformedModel, type ProviderDefinition, parseModelName } from "./provider.ts";

export const OFFLINE_MODEL = "offline/rules";

export interface ResolveOptions {
  /** `agents.defaults.model` (its primary), when set. */
  readonly configured?: string | undefined;
  /** Names in `models.providers`. */
  readonly configProviders: readonly string[];
  /** The main agent's key for a provider, wherever it stands. */
  findKey(provider: string): Credential | null;
  /** False: don't ask local servers. */
  readonly probe: boolean;
  readonly ports?: LocalPorts;
  readonly timeoutMs?: number;
}

export interface ResolvedModel {
  readonly model: string;
  /** One line for the operator. */
  readonly why: string;
  /** Definitions the chosen model needs and the config may not have: a discovered local server, or OpenRouter's address. The config's own win. */
  readonly providers: Readonly<Record<string, ProviderDefinition>>;
}

/** Never rejects for want of a model: the offline model is always there. A malformed configured name is kept, and `why` says so. */
export async function resolveDefaultModel(options: ResolveOptions): Promise<ResolvedModel> {
  if (options.configured !== undefined) {
    const problem = checkModelName(options.configured, options.configProviders);
    return {
      model: options.configured,
      why: problem ?? "set in the config (agents.defaults.model)",
      providers: definitionOf(options.configured),
    };
  }
  for (const [provider, { defaultModel }] of Object.entries(BUILT_IN_PROVIDERS)) {
    const key = options.findKey(provider);
    const model = `${provider}/${defaultModel}`;
    if (key !== null) return { model, why: keyReason(provider, key), providers: definitionOf(model) };
  }
  const servers = options.probe ? await findLocalServers(options) : [];
  for (const server of servers) {
    const model = server.definition.models[0];
    if (model === undefined) continue;
    return {
      model: `${server.provider}/${model.id}`,
      why: `${server.title} answers on ${server.address}`,
      providers: { [server.provider]: server.definition },
    };
  }
  return { model: OFFLINE_MODEL, why: offlineReason(options.probe, servers), providers: {} };
}

/** Providers that are built in only as an address, like OpenRouter; the others need no definition. */
function definitionOf(model: string): ResolvedModel["providers"] {
  const provider = parseModelName(model)?.provider ?? "";
  const { api, baseUrl } = findBuiltIn(provider) ?? {};
  return api === undefined || baseUrl === undefined ? {} : { [provider]: { api, baseUrl } };
}

const keyReason = (provider: string, key: Credential): string =>
  key.source.kind === "file" ? `${key.source.name} has a key for ${provider}` : `${key.source.name} is set`;

function offlineReason(probed: boolean, servers: readonly LocalServer[]): string {
  const remedy = "set ANTHROPIC_API_KEY or OPENAI_API_KEY, start Ollama, or set agents.defaults.model for a real one";
  const useless = servers.map(
    (server) => `${server.title} answers but has no model that can ${server.provider === "ollama" ? "call tools" : "chat"}`,
  );
  if (useless.length > 0) return `no key found and ${useless.join(", ")}: ${remedy}`;
  return probed ? `no key and no local server found: ${remedy}` : `no key found and local servers were not asked: ${remedy}`;
}

/** Null when the name is well formed and its provider known, else one sentence. Says nothing about keys. */
export function checkModelName(model: string, configProviders: readonly string[]): string | null {
  const name = parseModelName(model);
  if (name === null) return malformedModel(model);
  if (name.provider === "offline") return model === OFFLINE_MODEL ? null : `The offline model has one name: ${OFFLINE_MODEL}.`;
  const known = [...new Set([...Object.keys(BUILT_IN_PROVIDERS), ...KEYLESS_PROVIDERS, ...configProviders])];
  if (known.includes(name.provider)) return null;
  return `Unknown provider ${name.provider}: known are ${known.join(", ")}.`;
}

export interface SubagentModelOptions {
  /** `sessions_spawn.model`. */
  readonly requested?: string | undefined;
  /** The agent's `subagents.model`. */
  readonly agentModel?: string | undefined;
  /** `agents.defaults.subagents.model`. */
  readonly defaultsModel?: string | undefined;
  readonly callerModel: string;
  /** Null when the name is valid. A missing key is no reason here: MO7 wants the run to fail with it, not another provider. */
  check(model: string): string | null;
}

/** The first valid one in the order of MO2; `warning` names each that was skipped, why, and what is used instead. */
export function pickSubagentModel(options: SubagentModelOptions): { model: string; warning?: string } {
  const skipped: string[] = [];
  for (const model of [options.requested, options.agentModel, options.defaultsModel]) {
    if (model === undefined) continue;
    const problem = options.check(model);
    if (problem === null) return withWarning(model, skipped);
    skipped.push(problem);
  }
  // Not checked: the caller itself runs on it.
  return withWarning(options.callerModel, skipped);
}

const withWarning = (model: string, skipped: readonly string[]): { model: string; warning?: string } =>
  skipped.length === 0 ? { model } : { model, warning: `${skipped.join(" ")} Using ${model} instead.` };
