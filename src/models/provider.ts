// What a provider is: the built-in ones as data, and the shape of a definition from config or from discovery.
// config | local-servers.ts → ProviderDefinition → resolve.ts, credentials.ts, router.ts, ai-sdk.ts

export const PROVIDER_APIS = ["openai-compatible", "openai", "anthropic", "google", "ollama"] as const;
export type ProviderApi = (typeof PROVIDER_APIS)[number];

/** A named endpoint: `models.providers.<name>` of the config, or a server found on loopback. */
export interface ProviderDefinition {
  readonly api: ProviderApi;
  readonly baseUrl?: string;
  readonly apiKey?: string;
  readonly models?: readonly { readonly id: string; readonly contextWindow?: number; readonly images?: boolean }[];
}

export interface BuiltInProvider extends ProviderDefinition {
  /** Environment variables that may hold its key; the first one set wins. */
  readonly envKeys: readonly string[];
  /** Used when a key is all we were given. */
  readonly defaultModel: string;
}

/** In the order in which a key in the environment decides the default model. */
export const BUILT_IN_PROVIDERS: Readonly<Record<string, BuiltInProvider>> = {
  anthropic: { api: "anthropic", envKeys: ["ANTHROPIC_API_KEY"], defaultModel: "claude-sonnet-5" },
  openai: { api: "openai", envKeys: ["OPENAI_API_KEY"], defaultModel: "gpt-6-sol" },
  google: { api: "google", envKeys: ["GEMINI_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY"], defaultModel: "gemini-3.8-flash" },
  openrouter: {
    api: "openai-compatible",
    baseUrl: "https://openrouter.ai/api/v1",
    envKeys: ["OPENROUTER_API_KEY"],
    defaultModel: "anthropic/claude-sonnet-5",
  },
};

/** Built in, but without a key: they answer on this machine. */
export const KEYLESS_PROVIDERS: readonly string[] = ["ollama", "offline"];

const PROVIDER_NAME = /^[a-z0-9][a-z0-9_-]{0,63}$/;
// What providers use in ids: `meta-llama/llama-4:free`, `qwen3:8b`, `~anthropic/claude-opus-latest`, a .gguf path.
const MODEL_ID = /^[\w~./][\w~.:/@+-]{0,199}$/;

export interface ModelName {
  readonly provider: string;
  readonly id: string;
}

export const isProviderName = (text: string): boolean => PROVIDER_NAME.test(text);

/** `provider/model-id` → its parts (the id may hold more slashes), or null when malformed. */
export function parseModelName(text: string): ModelName | null {
  const slash = text.indexOf("/");
  const provider = text.slice(0, slash);
  const id = text.slice(slash + 1);
  return slash > 0 && PROVIDER_NAME.test(provider) && MODEL_ID.test(id) && !id.split("/").includes("..") ? { provider, id } : null;
}

/** The sentence for a malformed name; shows no more than a line of it, control characters escaped. */
export const malformedModel = (text: string): string =>
  `${JSON.stringify(text.slice(0, 80))} is no model name: write provider/model-id, for example anthropic/claude-sonnet-5.`;

/** Does this built-in provider refuse every call without a key? An own baseUrl may lead to a proxy that needs none. */
export function needsKey(provider: string, configured?: ProviderDefinition): boolean {
  const builtIn = findBuiltIn(provider);
  return builtIn !== undefined && (configured?.baseUrl === undefined || configured.baseUrl === builtIn.baseUrl);
}

export const findBuiltIn = (provider: string): BuiltInProvider | undefined =>
  Object.hasOwn(BUILT_IN_PROVIDERS, provider) ? BUILT_IN_PROVIDERS[provider] : undefined;

/** What is known of a provider without any settings. Where Ollama stands is the library's default. */
export const builtInDefinition = (provider: string): ProviderDefinition | undefined =>
  findBuiltIn(provider) ?? (provider === "ollama" ? { api: "ollama" } : undefined);
