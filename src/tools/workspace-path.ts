// Where a path from a model may lead: into the workspace and nowhere else (TL7).
// text → names (no "..", no absolute path, no URL) → real names with links resolved → Place, which
// workspace-files.ts then opens name by name without following any link that appears in between.
import { lstat, realpath } from "node:fs/promises";
import { isAbsolute, join, relative, sep } from "node:path";
import { AppError } from "../core/errors.ts";
import type { ToolContext } from "../core/tool.ts";
import type { Names } from "./mount-points.ts";
import { escapeName } from "./output.ts";
import type { PromptFiles } from "./prompt-files.ts";

/** Where the workspace stands inside the sandbox; file tools accept it too, because a model reads it in a command's output. */
export const SANDBOX_WORKSPACE = "/workspace";

const MAX_PATH_LENGTH = 4096;
const RULE = 'only paths inside the workspace are allowed, written like "src/app.ts"';

/** A checked spot in the workspace. */
export interface Place {
  /** Real path of the workspace. */
  readonly root: string;
  /** Names below the root, links resolved. Empty: the workspace itself. */
  readonly parts: Names;
  /** The path as an answer may show it. */
  readonly shown: string;
  /** Folders the caller may not enter, and files it may only read. */
  readonly closed: readonly Names[];
  readonly locked: readonly Names[];
}

export const refuse = (message: string, cause?: unknown): AppError => new AppError("invalid", message, { cause });

/** Text → names below the workspace, by spelling alone. Throws an AppError that says what is allowed. */
function parsePath(path: string, bases: readonly string[]): string[] {
  const bad = (why: string) => refuse(`The path "${escapeName(path.slice(0, 200))}" ${why}: ${RULE}.`);
  if (path.length > MAX_PATH_LENGTH) throw bad("is too long");
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are exactly what is looked for
  if (/[\u0000-\u001f\u007f]/.test(path)) throw bad("holds a control character");
  if (/^[a-z][a-z0-9+.-]*:\/\//i.test(path)) throw bad("is a URL");
  if (/^[a-z]:[\\/]/i.test(path) || path.includes("\\")) throw bad("is a Windows path");
  if (path.startsWith("~")) throw bad("points to a home folder");
  const inside = isAbsolute(path) ? withoutBase(path, bases) : path;
  if (inside === null) throw bad("is outside the workspace");
  const parts = inside.split("/").filter((part) => part !== "" && part !== ".");
  // "...." is no way up, only a trick against filters that strip dots; nobody names a file so.
  if (parts.some((part) => /^\.{2,}$/.test(part))) throw bad('holds ".."');
  return parts;
}

function withoutBase(path: string, bases: readonly string[]): string | null {
  for (const base of bases) {
    if (path === base) return "";
    const prefix = base.endsWith("/") ? base : `${base}/`;
    if (path.startsWith(prefix)) return path.slice(prefix.length);
  }
  return null;
}

/**
 * Resolves links and checks that the target, or for something new its nearest existing folder, lies in the workspace.
 * Throws an AppError otherwise. What it returns may be stale a moment later: open it through workspace-files.ts only.
 */
async function resolvePlace(workspace: string, path: string): Promise<Place> {
  const root = await realpath(workspace).catch((cause: unknown) => {
    throw refuse("The workspace folder does not exist; the operator has to create it.", cause);
  });
  const names = parsePath(path, [workspace, root, SANDBOX_WORKSPACE]);
  const shown = names.length === 0 ? "." : escapeName(names.join("/"));
  const missing: string[] = [];
  for (let existing = names; ; existing = existing.slice(0, -1)) {
    const real = await realIfPresent(join(root, ...existing), shown);
    if (real !== null) return { root, parts: [...namesBelow(root, real, shown), ...missing], shown, closed: [], locked: [] };
    const last = existing.at(-1);
    if (last === undefined) throw refuse("The workspace folder was removed during the call.");
    missing.unshift(last);
  }
}

/**
 * resolvePlace for a tool call. The agent's memory is closed to a sub-agent: it inherits AGENT.md and reads what its
 * briefs name, both in its prompt, and nothing else of it (BF4).
 */
export async function resolveFor(
  promptFiles: PromptFiles,
  { workspace, runId }: Pick<ToolContext, "workspace" | "runId">,
  path: string,
): Promise<Place> {
  const place = await resolvePlace(workspace, path);
  if (runId === null) return place;
  const { folders: closed, files: locked } = promptFiles.below(place.root);
  if (isBelow(place.parts, closed))
    throw refuse(`"${place.shown}" is the agent's memory; a sub-agent sees of it what stands in its prompt, and adds to it with remember.`);
  return { ...place, closed, locked };
}

/** resolveFor for a call that changes the file (TL9). */
export async function resolveToChange(...args: Parameters<typeof resolveFor>): Promise<Place> {
  const place = await resolveFor(...args);
  if (isBelow(place.parts, place.locked))
    throw refuse(
      `"${place.shown}" is read into the agent's prompt, which no sub-agent may change; report what should stand there instead.`,
    );
  return place;
}

/** Are these names one of the places, or something in it? */
export const isBelow = (parts: Names, places: readonly Names[]): boolean =>
  places.some((place) => place.every((name, n) => fold(parts[n] ?? "") === fold(name)));

// Some file systems find a file under other spellings of its name: in another case, with marks nobody sees, with a dot or
// a space behind it. Where they don't, a sub-agent has a few names less to choose from.
const fold = (name: string): string =>
  name
    .normalize("NFKC")
    .replace(/\p{Default_Ignorable_Code_Point}/gu, "")
    .toUpperCase()
    .replace(/[. ]+$/, "");

async function realIfPresent(path: string, shown: string): Promise<string | null> {
  try {
    return await realpath(path);
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    if (code === "ELOOP") throw refuse(`"${shown}" is a loop of links.`, error);
    if (code === "ENOTDIR") throw refuse(`"${shown}" leads through something that is not a folder.`, error);
    if (code !== "ENOENT") throw error;
    // Something stands there but leads nowhere: creating the target of a dangling link could create it outside.
    const dangling = await lstat(path).then(
      () => true,
      () => false,
    );
    if (dangling) throw refuse(`"${shown}" is a link whose target does not exist; links that leave the workspace are not followed.`, error);
    return null;
  }
}

function namesBelow(root: string, real: string, shown: string): string[] {
  const below = relative(root, real);
  if (below === "") return [];
  const parts = below.split(sep);
  if (isAbsolute(below) || parts[0] === "..") throw refuse(`"${shown}" is a link that leaves the workspace; ${RULE}.`);
  return parts;
}
