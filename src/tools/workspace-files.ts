// Opens and replaces files of the workspace so that nobody can redirect the call while it runs (SR-22).
// Place → folder handle, opened name by name with O_NOFOLLOW → file below that handle. On Linux every step goes
// through /proc/self/fd/<folder>, which is openat(): a folder swapped for a link in between gives an error, not an escape.
import { randomUUID } from "node:crypto";
import { constants, existsSync, type Stats } from "node:fs";
import { type FileHandle, lstat, mkdir, open, rename, unlink } from "node:fs/promises";
import { join } from "node:path";
import { AppError, errorText, isStorageError } from "../core/errors.ts";
import { type ToolResult, toolError } from "../core/tool.ts";
import { escapeName } from "./output.ts";
import { type Place, refuse } from "./workspace-path.ts";

const { O_CREAT, O_DIRECTORY, O_EXCL, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_WRONLY } = constants;

/** An open folder; close it with `await using`. */
export interface Folder extends AsyncDisposable {
  /** Path of the folder itself, good for as long as it is open. */
  readonly path: string;
  at(name: string): string;
}

// Systems without it have no sandbox either, so nothing untrusted runs beside us there that could swap folders.
const HAS_FD_PATHS = existsSync("/proc/self/fd");

async function openOne(path: string): Promise<Folder> {
  const handle = await open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  const anchor = HAS_FD_PATHS ? `/proc/self/fd/${handle.fd}` : path;
  return { path: anchor, at: (name) => join(anchor, name), [Symbol.asyncDispose]: () => handle.close() };
}

/** Opens the folder `parts` below the root; with `create` makes what is missing on the way. */
export async function openFolder(root: string, parts: readonly string[], create = false): Promise<Folder> {
  let folder = await openOne(root);
  for (const part of parts) {
    await using outer = folder;
    if (create) await mkdir(outer.at(part)).catch(ignoreExisting);
    folder = await openOne(outer.at(part));
  }
  return folder;
}

function ignoreExisting(error: NodeJS.ErrnoException): void {
  if (error.code !== "EEXIST") throw error;
}

/** Opens a regular file for reading. Never blocks on a FIFO and never opens a device. */
export async function openRegular(folder: Folder, name: string, shown: string): Promise<{ file: FileHandle; stats: Stats }> {
  requireRegular(await lstat(folder.at(name)), shown);
  // The file can be swapped after the check: O_NONBLOCK keeps a FIFO from hanging us, and the handle is checked again.
  const file = await open(folder.at(name), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  try {
    const stats = await file.stat();
    requireRegular(stats, shown);
    return { file, stats };
  } catch (error) {
    await file.close();
    throw error;
  }
}

/** Throws unless this is a regular file with one name. */
function requireRegular(stats: Stats, shown: string): void {
  if (stats.isDirectory()) throw refuse(`"${shown}" is a folder, not a file; use list to see what it holds.`);
  if (!stats.isFile()) throw refuse(`"${shown}" is not a regular file (a link, FIFO, socket or device); only regular files are allowed.`);
  // A second name may lie outside the workspace: reading would leak that file, writing would change it.
  if (stats.nlink > 1) throw refuse(`"${shown}" has ${stats.nlink} hard links; only files with one name are allowed.`);
}

/** Stats of the file to be replaced, null when it is new. Throws when it may not be replaced. */
export async function findRegular(folder: Folder, name: string, shown: string): Promise<Stats | null> {
  const stats = await lstat(folder.at(name)).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return null;
    throw error;
  });
  if (stats !== null) requireRegular(stats, shown);
  return stats;
}

/** Replaces or creates a file in one step: readers see the old content or the new, never a part. Keeps `mode`'s permissions. */
export async function replaceFile(folder: Folder, name: string, content: string | Buffer, mode: number | null): Promise<void> {
  const temporary = folder.at(`.herald-${randomUUID()}.tmp`);
  try {
    await using file = await open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o666);
    await file.writeFile(content);
    if (mode !== null) await file.chmod(mode & 0o777);
    await file.sync();
    await rename(temporary, folder.at(name));
  } catch (error) {
    // It may never have been made; the first error is the one that counts.
    await unlink(temporary).catch(() => undefined);
    throw error;
  }
}

/** As replaceFile, but the file stays the same one: a reader may see a part of it for a moment. */
export async function overwriteFile(folder: Folder, name: string, content: string | Buffer, mode: number | null): Promise<void> {
  await using file = await open(folder.at(name), O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0o666);
  await file.truncate();
  await file.writeFile(content);
  if (mode !== null) await file.chmod(mode & 0o777);
  await file.sync();
}

/** Splits a place into its folder and its name; the workspace itself is no file. */
export function splitPlace(place: Place): { parents: readonly string[]; name: string } {
  const name = place.parts.at(-1);
  if (name === undefined) throw refuse(`"${place.shown}" is the workspace folder itself; name a file in it.`);
  return { parents: place.parts.slice(0, -1), name };
}

/** Runs a file tool's work; what a model can act on becomes a one-sentence tool error. */
export async function answerFileErrors(path: string, work: () => Promise<ToolResult>): Promise<ToolResult> {
  try {
    return await work();
  } catch (error) {
    const sentence = fileErrorText(path, error);
    if (sentence === null) throw error;
    return toolError(sentence);
  }
}

/** Null: nothing a model can act on. */
export function fileErrorText(path: string, error: unknown): string | null {
  if (error instanceof AppError && error.code === "invalid") return error.message;
  const shown = `"${escapeName(path.slice(0, 200))}"`;
  const sentence = SENTENCES[(error as NodeJS.ErrnoException).code ?? ""];
  if (sentence !== undefined) return `${shown} ${sentence}.`;
  return isStorageError(error) ? `${shown} could not be used: ${withoutPath(errorText(error))}.` : null;
}

// Node's messages quote the /proc/self/fd path, which tells nobody anything.
const withoutPath = (message: string): string => message.split(",")[0] ?? message;

const SENTENCES: Readonly<Record<string, string>> = {
  ENOENT: "does not exist in the workspace; use list to see what does",
  ENOTDIR: "is not a folder, or was changed during the call",
  ELOOP: "was changed to a link during the call, so nothing was done",
  EISDIR: "is a folder, not a file",
  EEXIST: "is in the way of something else with that name",
  ENXIO: "is not a regular file (a FIFO, socket or device); only regular files are allowed",
  ENAMETOOLONG: "has a name that is too long for the file system",
};
