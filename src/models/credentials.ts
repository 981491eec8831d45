// Provider keys by agent id (MO7): the agent's own auth.json, the main agent's, the environment, the config.
// ai-sdk.ts / router.ts → find(provider, agentId) → key or null. Read per call, so that a rotated key is used at once.
import { chmodSync, readdirSync, readFileSync, type Stats, statSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { AppError, errorText } from "../core/errors.ts";
import { isAgentId } from "../core/ids.ts";
import { findBuiltIn, isProviderName, type ProviderDefinition } from "./provider.ts";

/** Where a key was found: a file below the state folder, a variable, or a setting. Never the key itself. */
interface KeySource {
  readonly kind: "file" | "env" | "config";
  readonly name: string;
}

export interface Credential {
  readonly apiKey: string;
  readonly source: KeySource;
}

export interface Credentials {
  /** The key this agent uses for the provider, or null. Throws AppError("config") on a damaged auth.json, naming the file only. */
  find(provider: string, agentId: string): Credential | null;
}

export interface CredentialsOptions {
  readonly stateDir: string;
  /** The settings of this moment. */
  settings(): {
    readonly mainAgentId: string;
    readonly env: Readonly<Record<string, string | undefined>>;
    readonly configProviders: Readonly<Record<string, Pick<ProviderDefinition, "apiKey">>>;
    /** Uses nothing but its own file: neither the main agent's keys nor those all agents share. */
    isIsolated(agentId: string): boolean;
  };
  /** Hears of every key in every auth.json, used or not, before anybody can print it. */
  onSecret?(name: string, value: string): void;
  /** An auth.json others could read was found and tightened, or could not be. */
  onWarning?(text: string): void;
}

const MAX_BYTES = 256 * 1024;
const AuthFile = z.record(z.string(), z.strictObject({ apiKey: z.string().trim().min(1) }));
export type AuthKeys = ReadonlyMap<string, string>;

interface Cached {
  readonly stamp: string;
  readonly keys: AuthKeys;
}

/** `<state>/agents/<agentId>/auth.json`. Throws AppError("invalid") on an id that isn't one, so no path is ever built from it. */
export function authPath(stateDir: string, agentId: string): string {
  if (!isAgentId(agentId)) throw new AppError("invalid", `${JSON.stringify(agentId.slice(0, 80))} is no agent id.`);
  return `${stateDir}/agents/${agentId}/auth.json`;
}

/** Provider → key as the text of an auth.json holds them. Throws AppError("config") that names `path` and never shows content. */
export function parseAuth(text: string, path: string): AuthKeys {
  const damaged = (what: string): AppError =>
    new AppError(
      "config",
      `${path} ${what}; it must look like {"anthropic": {"apiKey": "…"}}. Correct it, or delete it and set the keys again.`,
    );
  let json: unknown;
  try {
    json = JSON.parse(text.replace(/^\uFEFF/, ""));
  } catch {
    // Without a cause on purpose: the parser's message quotes the text, and the text is keys.
    throw damaged("is not valid JSON");
  }
  const parsed = AuthFile.safeParse(json);
  if (!parsed.success) throw damaged("has the wrong shape");
  const names = Object.keys(parsed.data);
  if (!names.every(isProviderName)) throw damaged("has a provider name that is not one");
  return new Map(Object.entries(parsed.data).map(([name, entry]) => [name, entry.apiKey]));
}

const TICK_MS = 1_000;

export function createCredentials(options: CredentialsOptions): Credentials {
  const cache = new Map<string, Cached>();
  const seen = new Set<string>();

  const learn = (name: string, apiKey: string): void => {
    if (seen.has(apiKey)) return;
    seen.add(apiKey);
    options.onSecret?.(name, apiKey);
  };
  const keep = (apiKey: string, source: KeySource): Credential => {
    learn(source.name, apiKey);
    return { apiKey, source };
  };

  const keysOf = (agentId: string): AuthKeys => {
    const keys = readAuth(authPath(options.stateDir, agentId), cache, options.onWarning);
    // By its agent: under one name a file that holds the keys of two agents would be written back with the one in the other's place.
    for (const [provider, apiKey] of keys) learn(`${provider} key of ${agentId}`, apiKey);
    return keys;
  };

  const folders = agentFolders(options.stateDir);
  // A key nobody has used yet can be read by a tool or pasted into a chat all the same.
  const learnAll = (): ReadonlyMap<string, AuthKeys | { readonly error: unknown }> =>
    new Map(
      folders().map((agentId): [string, AuthKeys | { readonly error: unknown }] => {
        try {
          return [agentId, keysOf(agentId)];
        } catch (error) {
          // Its own agent hears of a damaged file, when it needs a key.
          return [agentId, { error }];
        }
      }),
    );
  learnAll();

  /** `all`: as they were read a moment ago, so that no file is looked at twice. */
  const fromFile = (all: ReturnType<typeof learnAll>, provider: string, agentId: string): Credential | null => {
    const keys = all.get(agentId) ?? keysOf(agentId);
    if ("error" in keys) throw keys.error;
    const apiKey = keys.get(provider);
    return apiKey === undefined ? null : { apiKey, source: { kind: "file", name: `agents/${agentId}/auth.json` } };
  };

  const fromEnv = (provider: string): Credential | null => {
    for (const name of findBuiltIn(provider)?.envKeys ?? []) {
      const value = options.settings().env[name]?.trim();
      if (value) return keep(value, { kind: "env", name });
    }
    return null;
  };

  const fromConfig = (provider: string): Credential | null => {
    const { configProviders } = options.settings();
    const value = Object.hasOwn(configProviders, provider) ? configProviders[provider]?.apiKey?.trim() : undefined;
    return value ? keep(value, { kind: "config", name: `models.providers.${provider}.apiKey` }) : null;
  };

  return {
    find(provider, agentId) {
      if (!isProviderName(provider)) throw new AppError("invalid", `${JSON.stringify(provider.slice(0, 80))} is no provider name.`);
      const { mainAgentId, isIsolated } = options.settings();
      const all = learnAll();
      const own = fromFile(all, provider, agentId);
      if (own !== null || isIsolated(agentId)) return own;
      return fromFile(all, provider, mainAgentId) ?? fromEnv(provider) ?? fromConfig(provider);
    },
  };
}

/** Asked before every model call; listed again only when the folder has changed, or just had. */
function agentFolders(stateDir: string): () => readonly string[] {
  const path = join(stateDir, "agents");
  let known: { readonly changedAt: number; readonly names: readonly string[] } | null = null;
  return () => {
    try {
      const { mtimeMs } = statSync(path);
      if (known?.changedAt === mtimeMs) return known.names;
      const names = readdirSync(path).filter(isAgentId);
      // Two changes within one tick of the clock leave the same time.
      known = Date.now() - mtimeMs > TICK_MS ? { changedAt: mtimeMs, names } : null;
      return names;
    } catch {
      // No agent has left anything there yet.
      return [];
    }
  };
}

/** The file's keys; an absent file has none. Parsed again only when the file changed. */
function readAuth(path: string, cache: Map<string, Cached>, onWarning: CredentialsOptions["onWarning"]): AuthKeys {
  let stats: Stats | undefined;
  try {
    stats = statSync(path, { throwIfNoEntry: false });
    if (stats === undefined) {
      cache.delete(path);
      return new Map();
    }
    // A write within one tick of the clock keeps mtime, but an atomic replace always has a new inode.
    const stamp = `${stats.ino}:${stats.size}:${stats.mtimeMs}:${stats.ctimeMs}`;
    const cached = cache.get(path);
    if (cached?.stamp === stamp) return cached.keys;
    if (!stats.isFile() || stats.size > MAX_BYTES)
      throw new AppError("config", `${path} is no regular file of at most ${MAX_BYTES} bytes.`);
    tighten(path, stats, onWarning);
    const keys = parseAuth(readFileSync(path, "utf8"), path);
    cache.set(path, { stamp, keys });
    return keys;
  } catch (error) {
    if (error instanceof AppError) throw error;
    throw new AppError("config", `${path} can't be read: ${errorText(error)}.`, { cause: error });
  }
}

function tighten(path: string, stats: Stats, onWarning: CredentialsOptions["onWarning"]): void {
  if ((stats.mode & 0o077) === 0) return;
  try {
    chmodSync(path, 0o600);
    onWarning?.(`${path} could be read by others; its mode is now 0600. If other people use this machine, replace its keys.`);
  } catch (error) {
    onWarning?.(`${path} can be read by others and its mode can't be changed: ${errorText(error)}. Run: chmod 600 ${path}`);
  }
}
