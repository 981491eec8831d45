// What a model costs and how much it can read: the operator's own figures first, then the catalogue that ships with
// @pydantic/genai-prices, else unknown (null, never $0). ai-sdk.ts → costUsd per HTTP call; router.ts → windowOf.
import { createRequire } from "node:module";
import type { Clock } from "../core/clock.ts";
import type { Usage } from "../core/usage.ts";
import type { ProviderApi } from "./provider.ts";

/** USD per million tokens. A cache price that isn't given counts as plain input. */
interface ModelCost {
  readonly input: number;
  readonly output: number;
  readonly cacheRead?: number;
  readonly cacheWrite?: number;
}

/** One entry of `models.providers.<name>.models`. */
export interface ModelSettings {
  readonly id: string;
  readonly contextWindow?: number;
  readonly maxTokens?: number;
  /** It sees pictures, or doesn't; left out: by its name. */
  readonly images?: boolean;
  readonly cost?: ModelCost;
}

interface PricedModel {
  readonly provider: string;
  readonly id: string;
  /** Where the provider is and what its config says about its models, if anything. */
  readonly definition?:
    | { readonly api: ProviderApi; readonly baseUrl?: string; readonly models?: readonly ModelSettings[] | undefined }
    | undefined;
}

export interface Prices {
  /** Null when no price is known. */
  costUsd(model: PricedModel, usage: Usage): number | null;
  /** Tokens the model can read, or null when neither config nor catalogue knows. */
  windowOf(model: PricedModel): number | null;
}

/** Ollama reads 4096 tokens unless told otherwise, and cuts the rest away without a word: so it is told, always. */
export const OLLAMA_WINDOW = 16_384;

const require = createRequire(import.meta.url);

type Catalogue = typeof import("@pydantic/genai-prices");
type CatalogueProvider = NonNullable<ReturnType<Catalogue["findProvider"]>>;

export function createPrices(options: { readonly clock: Clock }): Prices {
  let catalogue: Catalogue | null = null;
  // Loaded at the first question (60 ms), and synchronously because compaction asks between two steps.
  const load = (): Catalogue => {
    catalogue ??= require("@pydantic/genai-prices") as Catalogue;
    return catalogue;
  };
  // Kept: that a local server stands in no list, all patterns have to say, with each call and each look at the window.
  const providers = new Map<string, CatalogueProvider | null>();
  const findProvider = ({ provider, definition }: PricedModel): CatalogueProvider | null => {
    const key = `${provider} ${definition?.baseUrl}`;
    const found = providers.get(key);
    if (found !== undefined) return found;
    const { findProvider: find } = load();
    const named = find({ providerId: provider });
    const known = named ?? (definition?.baseUrl === undefined ? null : (find({ providerApiUrl: definition.baseUrl }) ?? null));
    providers.set(key, known);
    return known;
  };
  const lookUp = (model: PricedModel, usage: Usage | null) => {
    // A local server's model may carry the name of a paid one.
    const provider = isOllama(model) ? null : findProvider(model);
    return provider === null ? null : priceOf(load(), provider, model.id, usage, options.clock.now());
  };
  return {
    costUsd: (model, usage) => {
      const own = settingsOf(model)?.cost;
      return own === undefined ? (lookUp(model, usage)?.total_price ?? null) : ownCost(own, usage);
    },
    windowOf: (model) => {
      const known = settingsOf(model)?.contextWindow ?? (isOllama(model) ? OLLAMA_WINDOW : undefined);
      return known ?? lookUp(model, null)?.model.context_window ?? null;
    },
  };
}

const settingsOf = (model: PricedModel): ModelSettings | undefined => model.definition?.models?.find((entry) => entry.id === model.id);

const isOllama = (model: PricedModel): boolean => (model.definition?.api ?? model.provider) === "ollama";

function ownCost(cost: ModelCost, usage: Usage): number {
  const uncached = Math.max(0, usage.input - usage.cacheRead - usage.cacheWrite);
  const total =
    uncached * cost.input +
    usage.cacheRead * (cost.cacheRead ?? cost.input) +
    usage.cacheWrite * (cost.cacheWrite ?? cost.input) +
    usage.output * cost.output;
  return total / 1_000_000;
}

function priceOf({ calcPrice }: Catalogue, provider: CatalogueProvider, id: string, usage: Usage | null, now: number) {
  try {
    return calcPrice(usage === null ? {} : toCatalogueUsage(usage), id, { provider, timestamp: new Date(now) });
  } catch (error) {
    // The catalogue refuses figures that contradict each other; a provider's slip must not end the turn.
    if (error instanceof Error) return null;
    throw error;
  }
}

const toCatalogueUsage = (usage: Usage) => ({
  input_tokens: usage.input,
  output_tokens: usage.output,
  cache_read_tokens: usage.cacheRead,
  cache_write_tokens: usage.cacheWrite,
});
