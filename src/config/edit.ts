// Settings and secrets changed by the program itself (WB7): read → change the text → load it as a start would → write both files, each at
// once or not at all. Whoever changes them says which ones they saw, so that nobody's work is written over: not that of an editor, not
// that of another tab. From the comparison to the renames nothing waits, so no other call of this process can come in between.
import { createHmac, randomBytes } from "node:crypto";
import {
  chmodSync,
  chownSync,
  closeSync,
  copyFileSync,
  fsyncSync,
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from "node:fs";
import { basename, dirname } from "node:path";
import { parseEnv } from "node:util";
import { AppError, errorText } from "../core/errors.ts";
import { findFiles, type LoadConfigOptions, type LoadedConfig, loadConfig } from "./config.ts";
import { ENV_HEADER, setVariable } from "./edit-env.ts";
import { removeValue, setValue } from "./edit-json5.ts";
import { configError } from "./problems.ts";
import { type Path, parseConfigText } from "./text.ts";

export interface SettingsNow {
  readonly settings: { readonly path: string; readonly isFound: boolean };
  readonly dotEnv: { readonly path: string; readonly isFound: boolean };
  /** Of both files; another one after any change. */
  readonly version: string;
  /** The settings as they are written, variables as `${NAME}`; none when the file can't be read as JSON5. */
  readonly tree: unknown;
  /** Why the file can't be taken as it is; null when it can. */
  readonly problem: string | null;
  /** Where a variable comes from; null when it is not set, or empty. */
  sourceOf(name: string): "environment" | "file" | null;
}

export interface SettingsChange {
  /** Of what was seen. */
  readonly version: string;
  readonly set: readonly { readonly path: Path; readonly value: unknown }[];
  readonly remove: readonly Path[];
  /** By their variable; null removes it. */
  readonly secrets: Readonly<Record<string, string | null>>;
}

export interface SettingsEditor {
  /** Throws AppError when a file can't be read. */
  now(): SettingsNow;
  /** What would be in force after the change. Throws AppError("config" | "invalid") in words when it can't be taken. */
  check(change: SettingsChange): LoadedConfig;
  /** Checks, writes, and returns what is in force from now on. `stale`: somebody has changed them since. Throws AppError in words. */
  write(change: SettingsChange): LoadedConfig | "stale";
}

const NEW_SETTINGS = `// Herald's settings: what is not here stands at its default (config/herald.json5 of the program lists everything).
// Secrets stay in .env; "\${NAME}" takes one from there. What stood here before the last change from the page is kept
// beside this file, with .bak behind its name.
{
}
`;

type Files = ReturnType<typeof findFiles>;
const textOf = (bytes: Uint8Array | null): string => (bytes === null ? "" : new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes));

export function createSettingsEditor(options: Pick<LoadConfigOptions, "env" | "cwd">): SettingsEditor {
  // What others could try guesses on must not be made of secrets alone.
  const salt = randomBytes(32);
  const versionOf = ({ settings, dotEnv }: Files): string => {
    const hash = createHmac("sha256", salt);
    for (const { bytes } of [settings, dotEnv]) hash.update(`${bytes?.length ?? -1}:`).update(bytes ?? "");
    return hash.digest("base64url");
  };
  const load = (texts: Texts): LoadedConfig =>
    loadConfig({
      ...options,
      instead: { settings: texts.settings === null ? null : Buffer.from(texts.settings), dotEnv: Buffer.from(texts.dotEnv) },
    });
  const changed = (files: Files, change: SettingsChange): Texts => {
    const texts = applyChange(files, change);
    load(texts);
    return texts;
  };

  return {
    now() {
      const files = findFiles(options);
      const { settings, dotEnv } = files;
      const inFile = parseEnv(textOf(dotEnv.bytes)) as Record<string, string>;
      return {
        settings: { path: settings.path, isFound: settings.bytes !== null },
        dotEnv: { path: dotEnv.path, isFound: dotEnv.bytes !== null },
        version: versionOf(files),
        tree: settings.bytes === null ? {} : (parseConfigText(settings.bytes).tree ?? {}),
        problem: problemOf(() => loadConfig(options)),
        // A variable that is set but empty still hides the file's.
        sourceOf: (name) => (options.env[name] !== undefined ? (options.env[name] ? "environment" : null) : inFile[name] ? "file" : null),
      };
    },
    check: (change) => load(applyChange(findFiles(options), change)),
    write(change) {
      const files = findFiles(options);
      if (versionOf(files) !== change.version) return "stale";
      const texts = changed(files, change);
      writeBoth(files, texts);
      return loadConfig(options);
    },
  };
}

interface Texts {
  /** Null: there is no such file, and none is needed. */
  readonly settings: string | null;
  readonly dotEnv: string;
  /** The same with what is to be removed still in it. */
  readonly fullEnv: string;
}

function problemOf(load: () => unknown): string | null {
  try {
    load();
    return null;
  } catch (error) {
    return errorText(error);
  }
}

function applyChange({ settings, dotEnv }: Files, { set, remove, secrets }: SettingsChange): Texts {
  const hasEdits = set.length + remove.length > 0;
  let text = settings.bytes === null ? NEW_SETTINGS : textOf(settings.bytes);
  if (hasEdits) {
    // The scanner is for texts that json5 has read; what is wrong with another one is said in the words of a start.
    const { problems, tree } = parseConfigText(Buffer.from(text));
    if (tree === undefined || problems.length > 0) throw configError(settings.path, problems);
  }
  for (const path of remove) text = removeValue(text, path);
  for (const { path, value } of set) text = setValue(text, path, value);
  const names = Object.entries(secrets);
  const header = dotEnv.bytes === null && names.length > 0 ? ENV_HEADER : "";
  const edited = settings.bytes === null && !hasEdits ? null : text;
  const setAll = (env: string, wanted: typeof names): string => wanted.reduce((text, [name, value]) => setVariable(text, name, value), env);
  const added = names.filter(([, value]) => value !== null);
  const removed = names.filter(([, value]) => value === null);
  const fullEnv = setAll(header + textOf(dotEnv.bytes), added);
  return { settings: edited, fullEnv, dotEnv: setAll(fullEnv, removed) };
}

/**
 * New secrets, then the settings, then what is removed: settings that name a variable which isn't there would be refused, wherever this
 * is broken off. Each is whole beside its place before any is put there.
 */
function writeBoth({ settings, dotEnv }: Files, { settings: text, fullEnv, dotEnv: env }: Texts): void {
  const isEdited = text !== null && text !== textOf(settings.bytes);
  const drafts = [
    ...(fullEnv === textOf(dotEnv.bytes) || !isEdited ? [] : [draft(dotEnv.path, fullEnv, { mode: 0o600, n: 0 })]),
    ...(isEdited ? [draft(settings.path, text, { mode: null, n: 1 })] : []),
    ...(env === (isEdited ? fullEnv : textOf(dotEnv.bytes)) ? [] : [draft(dotEnv.path, env, { mode: 0o600, n: 2 })]),
  ];
  const done: string[] = [];
  try {
    for (const one of drafts) one.write();
    if (settings.bytes !== null && isEdited) keepOld(settings.path);
    for (const one of drafts) {
      one.put(done);
      done.push(one.path);
    }
  } catch (error) {
    for (const one of drafts) one.drop();
    throw error;
  }
}

function keepOld(path: string): void {
  attempt(`${path}.bak`, () => copyFileSync(path, `${path}.bak`));
  attempt(`${path}.bak`, () => chmodSync(`${path}.bak`, statSync(path).mode & 0o777));
}

/** `mode` null: that of the file it replaces. */
function draft(path: string, text: string, { mode, n }: { mode: number | null; n: number }) {
  const temporary = `${path}.${process.pid}.${n}.new`;
  return {
    path,
    write: () =>
      attempt(path, () => {
        mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
        rmSync(temporary, { force: true });
        const old = statSync(path, { throwIfNoEntry: false });
        const file = openSync(temporary, "wx", 0o600);
        try {
          writeSync(file, text);
          fsyncSync(file);
        } finally {
          closeSync(file);
        }
        chmodSync(temporary, mode ?? (old === undefined ? 0o600 : old.mode & 0o777));
        if (old !== undefined && (old.uid !== process.getuid?.() || old.gid !== process.getgid?.())) chownSync(temporary, old.uid, old.gid);
      }),
    put: (done: readonly string[]) => attempt(path, () => renameSync(temporary, path), done),
    drop: () => rmSync(temporary, { force: true }),
  };
}

const REFUSED = new Set(["EACCES", "EPERM", "EROFS", "EBUSY"]);

/** Runs a step on the disk; what goes wrong is said with what to do about it, and with what was `done` before. */
function attempt(path: string, step: () => void, done: readonly string[] = []): void {
  try {
    step();
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? "";
    const state = done.length === 0 ? "nothing was changed" : `only ${[...new Set(done)].join(" and ")} was changed so far`;
    const what = REFUSED.has(code)
      ? `Herald may not write in ${dirname(path)} (${code}). Give its user the right to write that folder, or change ${basename(path)} yourself; ${state}.`
      : `${path} can't be written: ${errorText(error)}; ${state}.`;
    throw new AppError("storage", what, { cause: error });
  }
}
