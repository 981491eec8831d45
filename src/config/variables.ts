// The environment inside the settings: `${NAME}` in a string takes the variable, a channel without tokens takes the usual
// ones, and whatever is secret is collected with a name, so that it can be kept out of logs and chats (SC4).
// parsed tree → substitute → fillChannelTokens → config.ts checks it.
import { LOCAL_PORTS } from "../models/local-servers.ts";
import { BUILT_IN_PROVIDERS, KEYLESS_PROVIDERS } from "../models/provider.ts";
import { showPath } from "./problems.ts";
import { AUTH_CHOICES } from "./schema.ts";
import { isReservedKey, type Path, type Problem } from "./text.ts";

export interface NamedSecret {
  readonly name: string;
  readonly value: string;
  /** Written out in the settings file itself. */
  readonly isLiteral: boolean;
}

type Env = Readonly<Record<string, string>>;
type Tree = Record<string, unknown>;

/** Set and not empty: an empty secret is no secret. */
const lookUp = (env: Env, name: string): string | undefined => (Object.hasOwn(env, name) && env[name] ? env[name] : undefined);
const isTree = (value: unknown): value is Tree => typeof value === "object" && value !== null && !Array.isArray(value);

const SECRET_NAME = /(?:token|secret|passw(?:or)?d|passphrase|credentials?|apikey|authorization|cookie|(?:^|[_-])(?:key|pat|pass|auth))$/i;
/** Does the name of a key or variable say that its value is nobody's business? */
export const looksSecret = (name: string): boolean => SECRET_NAME.test(name);

/** A long word of letters and digits, a UUID, padded base64; an address with a password in it. */
const TOKEN = /(?=\w*\d)(?=\w*[A-Za-z])\w{16,}|[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}|^[\w+/-]{16,}={1,2}$|:\/\/[^/\s:@]*:[^/\s@]+@/i;
const CREDENTIALS = /^(?:bearer|basic|token|apikey)\s+\S+$/i;
const FILE_PATH = /^(?:~|\.{1,2})?\//;

/**
 * Headers and variables of an MCP server are named by whoever made it, so few names tell: there a value is secret by its form
 * as well. Not everything there is, or an `X-Toolset: issues` would take a plain word out of every text. `text` holds `value`.
 */
function isSecret(path: Path, value: string, text = value): boolean {
  if (looksSecret(String(path.at(-1)))) return true;
  const [first, second, , block] = path;
  const isNamedByOthers = first === "mcp" && second === "servers" && (block === "headers" || block === "env");
  return isNamedByOthers && (CREDENTIALS.test(text) || (TOKEN.test(value) && !FILE_PATH.test(value) && !/\s/.test(value)));
}

interface Substitution {
  readonly env: Env;
  readonly missing: Problem[];
  readonly used: { path: Path; name: string }[];
}

/**
 * A copy of the tree with every `${NAME}` replaced; `$${` stands for `${`. A missing variable is a problem, unless a block
 * around it has `enabled: false`: then its key is left out.
 */
export function substitute(tree: unknown, env: Env): { value: unknown } & Omit<Substitution, "env"> {
  const state: Substitution = { env, missing: [], used: [] };
  return { value: walk(tree, [], state, false), missing: state.missing, used: state.used };
}

function walk(value: unknown, path: Path, state: Substitution, isOff: boolean): unknown {
  if (typeof value === "string") return replaceVariables(value, path, state, isOff);
  if (Array.isArray(value)) return value.map((item, i) => walk(item, [...path, i], state, isOff)).filter((item) => item !== undefined);
  if (!isTree(value)) return value;
  const off = isOff || value.enabled === false;
  const copy: Tree = {};
  for (const [key, inner] of Object.entries(value)) {
    const replaced = isReservedKey(key) ? undefined : walk(inner, [...path, key], state, off);
    if (replaced !== undefined) copy[key] = replaced;
  }
  return copy;
}

function replaceVariables(text: string, path: Path, { env, missing, used }: Substitution, isOff: boolean): string | undefined {
  let isComplete = true;
  const replaced = text.replace(/\$\$\{|\$\{([^}]*)\}?/g, (whole, name: string | undefined) => {
    if (name === undefined) return "${";
    const value = lookUp(env, name);
    if (value !== undefined) {
      used.push({ path, name });
      return value;
    }
    isComplete = false;
    const isName = /^\$\{[A-Za-z_]\w*\}$/.test(whole);
    if (!isName) missing.push({ path, text: "has a ${ that names no variable; write $${ for the characters themselves" });
    else if (!isOff) missing.push({ path, text: `the environment variable ${name} is not set` });
    return whole;
  });
  return isComplete || !isOff ? replaced : undefined;
}

const CHANNEL_TOKENS = {
  telegram: () => ({ botToken: "TELEGRAM_BOT_TOKEN" }),
  discord: () => ({ botToken: "DISCORD_BOT_TOKEN" }),
  slack: ({ mode }: Tree) => ({
    botToken: "SLACK_BOT_TOKEN",
    ...(mode === "http" ? { signingSecret: "SLACK_SIGNING_SECRET" } : { appToken: "SLACK_APP_TOKEN" }),
  }),
  matrix: () => ({ homeserver: "MATRIX_HOMESERVER", accessToken: "MATRIX_ACCESS_TOKEN" }),
};

/** A channel that isn't turned off takes the tokens it doesn't state from the usual variables, all or none. */
export function fillChannelTokens(tree: unknown, env: Env, warnings: string[]): unknown {
  if (!isTree(tree)) return tree;
  const channels = tree.channels === undefined ? {} : tree.channels;
  if (!isTree(channels)) return tree;
  const filled: Tree = { ...channels };
  for (const [channel, tokensOf] of Object.entries(CHANNEL_TOKENS)) {
    const settings = channels[channel] ?? {};
    if (!isTree(settings) || settings.enabled === false) continue;
    const wanted = Object.entries(tokensOf(settings)).filter(([key]) => settings[key] === undefined);
    const [absent, present] = [wanted.filter(([, name]) => !lookUp(env, name)), wanted.filter(([, name]) => lookUp(env, name))];
    if (absent.length === 0) {
      filled[channel] = { ...settings, ...Object.fromEntries(present.map(([key, name]) => [key, lookUp(env, name)])) };
    } else if (present.length > 0) {
      const names = (list: [string, string][]) => list.map(([, name]) => name).join(" and ");
      warnings.push(`${channel} stays off: ${names(present)} is set, but ${names(absent)} is not`);
    }
  }
  return { ...tree, channels: filled };
}

/** The usual variable of a PostgreSQL address, and the name of this machine, where the settings name none. */
export function fillStore(tree: unknown, env: Env): unknown {
  if (!isTree(tree)) return tree;
  const store = tree.store === undefined ? {} : tree.store;
  if (!isTree(store)) return tree;
  const url = lookUp(env, "DATABASE_URL");
  const node = lookUp(env, "HERALD_NODE");
  const filled = {
    ...(url === undefined || !/^postgres(?:ql)?:/.test(url) ? {} : { url }),
    ...(node === undefined ? {} : { node }),
    ...store,
  };
  return { ...tree, store: filled };
}

/** What of the address nobody may see. */
export function storeSecrets(url: string | undefined): NamedSecret[] {
  if (url === undefined) return [];
  const { password, searchParams } = new URL(url);
  // The library takes it from either place.
  const passwords = [password, decoded(password), ...searchParams.getAll("password")].filter((value) => value !== "");
  return passwords.length === 0 ? [] : [url, ...passwords].map((value) => ({ name: "store.url", value, isLiteral: false }));
}

/** As the library does: a lone % stands for itself. */
const decoded = (text: string): string => {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
};

/** Local servers take any key, and people write the server's name there. Replacing that would break every `lmstudio/model`. */
const NAMES = [BUILT_IN_PROVIDERS, LOCAL_PORTS, CHANNEL_TOKENS].flatMap(Object.keys).concat(KEYLESS_PROVIDERS, AUTH_CHOICES);

function* keysOf(value: unknown): Generator<string> {
  if (Array.isArray(value)) for (const item of value) yield* keysOf(item);
  if (!isTree(value)) return;
  for (const [key, inner] of Object.entries(value)) {
    yield key;
    yield* keysOf(inner);
  }
}

const idsOf = (tree: unknown): string[] => [...strings(tree, [])].filter(({ path }) => path.at(-1) === "id").map(({ text }) => text);

/** Secrets written in the file by their path, and those of the environment by their variable. `tree` has its variables. */
export function collectSecrets(tree: unknown, env: Env, used: Substitution["used"]): NamedSecret[] {
  const found = new Map<string, NamedSecret>();
  const ours = new Set([...NAMES, ...keysOf(tree), ...idsOf(tree)]);
  const add = (name: string, value: string | undefined, isLiteral: boolean) => {
    if (value && !ours.has(value) && !found.has(value)) found.set(value, { name, value, isLiteral });
  };
  for (const [name, value] of Object.entries(env)) if (looksSecret(name)) add(name, value, false);
  const texts = new Map([...strings(tree, [])].map(({ path, text }) => [showPath(path), text]));
  for (const { path, name } of used) {
    const value = lookUp(env, name) ?? "";
    if (isSecret(path, value, texts.get(showPath(path)))) add(name, value, false);
  }
  const fromEnv = new Set(used.map(({ path }) => showPath(path)));
  for (const { path, text } of strings(tree, [])) {
    if (!isSecret(path, text) || fromEnv.has(showPath(path))) continue;
    add(showPath(path), text, true);
    add(showPath(path), text.split(" ").at(-1), true); // "Bearer abc" leaks as "abc", too
  }
  return [...found.values()];
}

function* strings(value: unknown, path: Path): Generator<{ path: Path; text: string }> {
  if (typeof value === "string") yield { path, text: value };
  else if (Array.isArray(value)) for (const [i, item] of value.entries()) yield* strings(item, [...path, i]);
  else if (isTree(value)) for (const [key, inner] of Object.entries(value)) yield* strings(inner, [...path, key]);
}
