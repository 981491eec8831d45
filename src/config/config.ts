// A settings file and the environment → one frozen Config, or one error that lists everything wrong with it.
// .env + environment → find the file → parse (text.ts) → ${NAME} (variables.ts) → check (schema.ts) → freeze.
// main.ts calls it at start, watch.ts again on every change; it reads and does nothing else.
import { lstatSync, readFileSync, realpathSync, statSync } from "node:fs";
import { homedir } from "node:os";
import { join, resolve } from "node:path";
import { parseEnv } from "node:util";
import { AppError, errorText } from "../core/errors.ts";
import { safeParse } from "../core/safe-parse.ts";
import { configError, showPath, toProblems } from "./problems.ts";
import { type Config, configSchema } from "./schema.ts";
import { MAX_BYTES, parseConfigText } from "./text.ts";
import { idleEntries } from "./tools.ts";
import { storeUrl } from "./values.ts";
import { collectSecrets, fillChannelTokens, fillStore, looksSecret, type NamedSecret, storeSecrets, substitute } from "./variables.ts";
import { inHome, withWorkspaces } from "./workspaces.ts";

export interface LoadConfigOptions {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  /** Read in the files' places: what they would hold after a change, to know whether that could be taken (edit.ts). */
  readonly instead?: { readonly settings: Uint8Array | null; readonly dotEnv: Uint8Array };
}

export interface LoadedConfig {
  /** Deeply frozen. */
  readonly config: Config;
  /** The file read, links resolved; with `found: false` the one that would be read. */
  readonly path: string;
  readonly found: boolean;
  /** `HERALD_STATE_DIR`, else `~/.herald`; absolute, not created. */
  readonly stateDir: string;
  /** The environment with `.env` under it: where provider keys are looked up. */
  readonly env: Readonly<Record<string, string>>;
  /** Values that must never be shown, with the names to show instead (SC4). */
  readonly secrets: readonly NamedSecret[];
  /** Sentences for the operator. */
  readonly warnings: readonly string[];
}

interface Source {
  readonly path: string;
  readonly bytes: Uint8Array | null;
  /** Others on this machine can read it. */
  readonly isOpen: boolean;
}

/** Throws AppError("config") with one line per problem, and nothing else. */
export function loadConfig(options: LoadConfigOptions): LoadedConfig {
  const warnings: string[] = [];
  const env = readEnvironment(options, warnings);
  const source = { ...readSource(env, options.cwd, warnings), ...(options.instead && { bytes: options.instead.settings }) };
  const { tree = {}, problems: textProblems } = source.bytes === null ? { problems: [] } : parseConfigText(source.bytes);
  const { value, missing, used } = substitute(tree, env);
  const filled = fillStore(fillChannelTokens(value, env, warnings), env);
  const parsed = safeParse(configSchema, filled);
  // What stands where a variable is missing is wrong because of that.
  const unset = new Set(missing.map(({ path }) => showPath(path)));
  const wrong = parsed.success ? [] : toProblems(parsed.error.issues, filled).filter(({ path }) => !unset.has(showPath(path)));
  const problems = [...textProblems, ...missing, ...wrong];
  if (!parsed.success || problems.length > 0) throw configError(source.path, problems);
  const stateDir = stateDirOf(env, options.cwd);
  const config = withWorkspaces(parsed.data, {
    home: () => homeOf(env),
    stateDir,
    settings: source.path,
    envFile: join(options.cwd, ".env"),
  });
  const secrets = [...collectSecrets(value, env, used), ...storeSecrets(config.store.url)];
  if (source.isOpen && secrets.some(({ isLiteral }) => isLiteral)) {
    warnings.push(`${source.path} holds secrets and others on this machine can read it: chmod 600 it, or move them to .env`);
  }
  warnings.push(...idleEntries(config).map(({ path, text }) => `${source.path}: ${showPath(path)}: ${text}`));
  warnings.push(...riskySettings(config));
  return { config: freeze(config), path: source.path, found: source.bytes !== null, stateDir, env: freeze(env), secrets, warnings };
}

/** The `stateDir` that loadConfig would give, whatever stands in the settings file. For the scripts beside the gateway. */
export const findStateDir = (options: LoadConfigOptions): string => stateDirOf(readEnvironment(options, []), options.cwd);

/**
 * The `store.url` that loadConfig would give, whatever else stands in the settings file. For the scripts beside the gateway. Throws
 * AppError("config") when the file can't be read at all.
 */
export function findStoreUrl(options: LoadConfigOptions): string | undefined {
  const env = readEnvironment(options, []);
  const source = readSource(env, options.cwd, []);
  const { tree = {}, problems } = source.bytes === null ? { problems: [] } : parseConfigText(source.bytes);
  const { value, missing } = substitute(tree, env);
  const wrong = [...problems, ...missing.filter(({ path }) => path[0] === "store")];
  if (wrong.length > 0) throw configError(source.path, wrong);
  const { store } = fillStore(value, env) as { store?: { url?: unknown } };
  if (store?.url === undefined) return undefined;
  const parsed = storeUrl().safeParse(store.url);
  if (!parsed.success) throw new AppError("config", `${source.path}: store.url: ${parsed.error.issues[0]?.message ?? "is wrong"}`);
  return parsed.data;
}

type Env = Record<string, string>;

/** Asked only where it is needed: a user that the system doesn't know has none. Throws AppError("config"). */
function homeOf({ HOME }: Env): string {
  if (HOME) return HOME;
  try {
    return homedir();
  } catch (error) {
    throw new AppError("config", "There is no home folder: set HERALD_STATE_DIR to the folder Herald shall keep its state in, or HOME.", {
      cause: error,
    });
  }
}

/** Where the settings and the secrets are read from, links resolved, and what stands there; null: no such file. */
export function findFiles({ env, cwd }: LoadConfigOptions): Record<"settings" | "dotEnv", { path: string; bytes: Uint8Array | null }> {
  const settings = readSource(readEnvironment({ env, cwd }, []), cwd, []);
  const dotEnv = resolveLink(join(cwd, ".env"));
  return { settings, dotEnv: { path: dotEnv, bytes: readRegularFile(dotEnv)?.bytes ?? null } };
}

const stateDirOf = (env: Env, cwd: string): string =>
  resolve(
    cwd,
    inHome(env.HERALD_STATE_DIR || "~/.herald", () => homeOf(env)),
  );

/** `.env` never overrides a variable that is really set, not even an empty one. */
function readEnvironment({ env, cwd, instead }: LoadConfigOptions, warnings: string[]): Env {
  const path = join(cwd, ".env");
  const file = instead === undefined ? readRegularFile(path) : { bytes: instead.dotEnv, isOpen: false };
  const fromFile = file === null ? {} : (parseEnv(new TextDecoder().decode(file.bytes)) as Env);
  if (file?.isOpen && Object.entries(fromFile).some(([name, value]) => value !== "" && looksSecret(name))) {
    warnings.push(`${path} holds secrets and others on this machine can read it: chmod 600 it`);
  }
  const merged = { ...fromFile };
  for (const [name, value] of Object.entries(env)) if (value !== undefined) merged[name] = value;
  return merged;
}

function readSource(env: Env, cwd: string, warnings: string[]): Source {
  const asked = resolve(cwd, env.HERALD_CONFIG || join("config", "herald.json5"));
  const path = resolveLink(asked);
  if (path !== asked) warnings.push(`${asked} is a link; settings are read from ${path}`);
  const file = readRegularFile(path);
  if (file !== null) return { path, ...file };
  if (env.HERALD_CONFIG) throw new AppError("config", `${asked}: there is no such file; HERALD_CONFIG names it`);
  warnings.push(`no settings file: running on defaults; create ${asked} to change them`);
  return { path, bytes: null, isOpen: false };
}

/** The file a link to a file ends at; a path through linked folders stays as people know it. */
function resolveLink(path: string): string {
  try {
    return lstatSync(path).isSymbolicLink() ? realpathSync(path) : path;
  } catch {
    return path; // not there, or a link to nothing: reading it says so
  }
}

/** Null when there is nothing at `path`. A pipe or device would block or never end. */
function readRegularFile(path: string): { bytes: Uint8Array; isOpen: boolean } | null {
  try {
    const stat = statSync(path, { throwIfNoEntry: false });
    if (stat === undefined) return null;
    if (!stat.isFile()) throw new AppError("config", `${path}: is not a regular file`);
    if (stat.size > MAX_BYTES) throw new AppError("config", `${path}: file is larger than ${MAX_BYTES} bytes`);
    return { bytes: readFileSync(path), isOpen: (stat.mode & 0o077) !== 0 };
  } catch (error) {
    if (error instanceof AppError) throw error;
    if ((error as NodeJS.ErrnoException).code === "ENOTDIR") return null;
    throw new AppError("config", `${path}: can't be read: ${errorText(error)}`, { cause: error });
  }
}

function riskySettings({ web, tools }: Config): string[] {
  const warnings: string[] = [];
  if (web.enabled && !/^(?:127\.\d+\.\d+\.\d+|::1|localhost)$/.test(web.host)) {
    warnings.push(`web.host is ${web.host}: the page can be reached from the network, guarded by its token only`);
  }
  if (tools.exec.unsandboxed) warnings.push("tools.exec.unsandboxed is on: without a sandbox, commands run with all rights of this user");
  return warnings;
}

function freeze<T>(value: T): T {
  if (typeof value === "object" && value !== null) {
    for (const inner of Object.values(value)) freeze(inner);
    Object.freeze(value);
  }
  return value;
}
