// What `herald doctor` looks at in the settings: keys, channels, PostgreSQL; and with --online whether those who gave them take them.
import { channelWords } from "../app/status.ts";
import { type Account, accountsOf, type Platform } from "../config/accounts.ts";
import type { LoadedConfig } from "../config/config.ts";
import { storeSecrets } from "../config/variables.ts";
import { errorText } from "../core/errors.ts";
import { silentLogger } from "../core/logger.ts";
import { createSecrets } from "../core/secrets.ts";
import { createCredentials } from "../models/credentials.ts";
import { BUILT_IN_PROVIDERS } from "../models/provider.ts";
import type { ChannelStanding } from "../web/live.ts";
import { type Finding, fail, ok, warn } from "./finding.ts";

const ONLINE_MS = 10_000;
/** What a provider says to a key it does not take. */
const REFUSED = new Set([400, 401, 403]);

interface Key {
  readonly provider: string;
  readonly apiKey: string;
  readonly from: string;
}

function keysOf({ config, stateDir, env }: LoadedConfig): Key[] {
  const main = config.agents.list.find((agent) => agent.default)?.id ?? "main";
  const { providers } = config.models;
  const settings = () => ({ mainAgentId: main, env, configProviders: providers, isIsolated: () => false });
  const credentials = createCredentials({ stateDir, settings });
  const names = new Set([...Object.keys(BUILT_IN_PROVIDERS), ...Object.keys(providers)]);
  return [...names].flatMap((provider) => {
    const found = credentials.find(provider, main);
    return found === null ? [] : [{ provider, apiKey: found.apiKey, from: found.source.name }];
  });
}

function readKeys(loaded: LoadedConfig): Key[] | Finding {
  try {
    return keysOf(loaded);
  } catch (error) {
    return fail("keys", errorText(error), "Remove that file and set its keys anew: herald auth set.");
  }
}

export async function checkKeys(loaded: LoadedConfig, isOnline: boolean): Promise<Finding[]> {
  const keys = readKeys(loaded);
  if (!Array.isArray(keys)) return [keys];
  if (keys.length === 0)
    return [
      warn(
        "keys",
        "no key of a model provider",
        "Set one with herald setup, or in .env; without, a local server or the offline model answers.",
      ),
    ];
  if (!isOnline) return [ok("keys", keys.map(({ provider, from }) => `${provider} (${from})`).join(", "))];
  return Promise.all(keys.map((key) => tryKey(key, loaded)));
}

async function tryKey({ provider, apiKey, from }: Key, { config }: LoadedConfig): Promise<Finding> {
  const name = `key ${provider}`;
  const known = config.models.providers[provider] ?? BUILT_IN_PROVIDERS[provider];
  const official = {
    anthropic: "https://api.anthropic.com/v1",
    openai: "https://api.openai.com/v1",
    google: "https://generativelanguage.googleapis.com/v1beta",
  };
  const base = known?.baseUrl ?? official[known?.api as keyof typeof official];
  if (base === undefined) return ok(name, `set (${from}); not tried`);
  const headers = {
    anthropic: { "x-api-key": apiKey, "anthropic-version": "2023-06-01" },
    google: { "x-goog-api-key": apiKey },
    other: { authorization: `Bearer ${apiKey}` },
  };
  const path = provider === "openrouter" ? "/key" : "/models";
  const own = known?.api === "anthropic" ? headers.anthropic : known?.api === "google" ? headers.google : headers.other;
  const answer = await ask(`${base.replace(/\/+$/, "")}${path}`, { headers: own });
  if (typeof answer === "string")
    return warn(name, `${from}; not reached: ${answer}`, "Look at the network, and at models.providers if it has another address.");
  if (REFUSED.has(answer.status))
    return fail(
      name,
      `${from}; the provider does not take it (${answer.status})`,
      `Make a new key there, then: herald auth set main ${provider}.`,
    );
  return answer.ok
    ? ok(name, `${from}; the provider takes it`)
    : warn(name, `${from}; the provider answered ${answer.status}`, "Try again later.");
}

/** What the platforms say of a token. */
interface Said {
  readonly ok?: boolean;
  readonly error?: string;
  readonly user_id?: string;
  readonly errcode?: string;
}

async function ask(url: string, init: RequestInit): Promise<{ status: number; ok: boolean; body: Said } | string> {
  try {
    const response = await fetch(url, { ...init, signal: AbortSignal.timeout(ONLINE_MS) });
    return { status: response.status, ok: response.ok, body: (await response.json().catch(() => ({}))) as object };
  } catch (error) {
    return errorText((error as Error).cause ?? error);
  }
}

interface Call {
  /** Left out: POST. */
  readonly method?: "GET";
  readonly url: string;
  readonly headers: Record<string, string>;
}

/** By which a platform says whose token it is. */
const WHO_AM_I: { readonly [P in Platform]: (settings: Extract<Account<P>["settings"], { enabled: true }>) => Call } = {
  telegram: ({ apiRoot, botToken }) => ({ url: `${apiRoot}/bot${botToken}/getMe`, headers: {} }),
  slack: ({ apiUrl, botToken }) => ({ url: `${apiUrl}auth.test`, headers: { authorization: `Bearer ${botToken}` } }),
  matrix: ({ homeserver, accessToken }) => ({
    method: "GET",
    url: `${homeserver}/_matrix/client/v3/account/whoami`,
    headers: { authorization: `Bearer ${accessToken}` },
  }),
  discord: ({ apiUrl, botToken }) => ({ method: "GET", url: `${apiUrl}/v10/users/@me`, headers: { authorization: `Bot ${botToken}` } }),
};

/** None for an account that is off. */
function callOf<P extends Platform>({ platform, channel: name, settings }: Account<P>): (Call & { readonly name: string })[] {
  type On = Extract<Account<P>["settings"], { enabled: true }>;
  return settings.enabled ? [{ name, ...(WHO_AM_I[platform as P] as (settings: On) => Call)(settings as On) }] : [];
}

/** `standings`: what a gateway that runs says of its channels; empty when none runs. */
export async function checkChannels(
  { config }: LoadedConfig,
  { isOnline, standings }: { isOnline: boolean; standings: readonly ChannelStanding[] },
): Promise<Finding[]> {
  const set = accountsOf(config.channels).flatMap((account) => callOf(account));
  const troubles = standings.flatMap(troubleOf);
  if (set.length === 0) return [...troubles, ok("channels", "only the page; a token in .env turns on Telegram, Slack, Matrix or Discord")];
  if (isOnline) return [...troubles, ...(await tryTokens(set))];
  const others = set.map(({ name }) => name).filter((name) => !troubles.some((trouble) => trouble.name === name));
  return [...troubles, ...(others.length === 0 ? [] : [ok("channels", others.join(", "))])];
}

function troubleOf(standing: ChannelStanding): Finding[] {
  const { name, state, detail } = standing;
  const words = channelWords(standing);
  if (state === "failed") return [fail(name, words, "Correct what it names in .env or the settings, then start Herald again.")];
  if (state === "retrying" || (state === "on" && detail !== null))
    return [warn(name, words, "It is tried again by itself; if it stays so, look at what it names.")];
  return [];
}

function tryTokens(set: readonly (Call & { readonly name: string })[]): Promise<Finding[]> {
  return Promise.all(
    set.map(async ({ name, url, headers, method = "POST" }) => {
      const answer = await ask(url, { method, headers });
      // The address may hold the token: only the reason is said.
      if (typeof answer === "string")
        return warn(name, `not reached: ${answer.replaceAll(url, "…")}`, "Look at the network and at the address in the settings.");
      // Matrix and Discord say it by their status alone.
      if (answer.body.ok ?? answer.ok) return ok(name, "its token is taken");
      const reason = answer.body.error ?? answer.body.errcode ?? answer.status;
      return fail(name, `its token is not taken (${reason})`, `Copy the token of the bot anew into .env.`);
    }),
  );
}

export async function checkPostgres({ config }: LoadedConfig): Promise<Finding[]> {
  const { url } = config.store;
  if (url === undefined) return [];
  const secrets = createSecrets();
  for (const { name, value } of storeSecrets(url)) secrets.add(name, value);
  const { openPostgres } = await import("../stores/postgres/database.ts");
  try {
    const db = await openPostgres({ url, poolSize: 1, name: "herald doctor", log: silentLogger, steady: () => performance.now() });
    try {
      const row = await db.get<{ version: string }>("SELECT current_setting('server_version') AS version");
      return [ok("PostgreSQL", `reached, version ${row?.version ?? "unknown"}`)];
    } finally {
      await db.close();
    }
  } catch (error) {
    return [
      fail(
        "PostgreSQL",
        secrets.redact(errorText(error)),
        "Start it, and look at store.url or DATABASE_URL; it needs version 15 or newer.",
      ),
    ];
  }
}
