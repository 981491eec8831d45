// Something for each cover of the sandbox to lie on (sandbox.ts, Covers): a mount needs a file or a folder below it, so an
// empty one is made where there is none, and what no mount holds is refused. prompt-files.ts → here.
import { closeSync, constants, futimesSync, lstatSync, mkdirSync, openSync, type Stats, statSync, unlinkSync } from "node:fs";
import { join } from "node:path";
import { AppError } from "../core/errors.ts";

/** Names below a workspace, one for each step. Empty: the workspace itself. */
export type Names = readonly string[];

export interface PromptNames {
  readonly files: readonly Names[];
  readonly folders: readonly Names[];
}

/** All of it is there, and none of it a link. */
export interface MountPoints extends PromptNames {
  /** Folders on the way to them: renamed, they would take the covered file along and leave its name free. */
  readonly pinned: readonly Names[];
  /** Of the files, those that only stand there to be covered. */
  readonly empty: readonly Names[];
  /**
   * One that somebody outside the sandbox replaced meanwhile, a person's editor for example; null while all stand. The
   * kernel takes a mount away with the file it lies on, so the command could write the new one and must be ended.
   */
  lost(): string | null;
}

interface Standing {
  readonly names: Names;
  readonly stats: Stats;
}

/** All in one go, without waiting in between: two commands that start together see each other's work or none of it. */
export function createMountPoints(root: string, { files, folders }: PromptNames): MountPoints | { readonly problem: string } {
  const onTheWay = new Map([...files, ...folders].flatMap(foldersOnTheWay).map((names) => [names.join("/"), names] as const));
  try {
    const stand = (all: readonly Names[], one: typeof standFile): Standing[] => all.flatMap((names) => one(root, names) ?? []);
    const pinned = stand([...onTheWay.values()], standFolder);
    const covered = { folders: stand(folders, standFolder), files: stand(files, standFile) };
    const all = [...pinned, ...covered.folders, ...covered.files];
    return {
      pinned: pinned.map(toNames),
      folders: covered.folders.map(toNames),
      files: covered.files.map(toNames),
      empty: covered.files.filter(({ stats }) => isPlaceholder(stats)).map(toNames),
      lost: () => all.find((standing) => !stillStands(root, standing))?.names.join("/") ?? null,
    };
  } catch (error) {
    if (error instanceof AppError) return { problem: error.message };
    const { code = "unknown error" } = error as NodeJS.ErrnoException;
    return { problem: `what is read into prompts can't be covered (${code})` };
  }
}

const toNames = ({ names }: Standing): Names => names;

const foldersOnTheWay = (names: Names): Names[] => names.slice(1).map((_, n) => names.slice(0, n + 1));

const refuse = (message: string): AppError => new AppError("invalid", message);

/** Null where nobody can make it, the command included. */
function standFolder(root: string, names: Names): Standing | null {
  const path = join(root, ...names);
  if (names.length === 0) throw refuse("the workspace lies in the memory of an agent");
  if (look(path) === undefined && !make(root, () => mkdirSync(path, { mode: 0o700 }))) return null;
  const stats = look(path);
  // A link can't be covered, and a command could put something else in its place.
  if (stats?.isDirectory() !== true) throw refuse(`${names.join("/")} is read into prompts and must be a plain folder, not a link`);
  return { names, stats };
}

function standFile(root: string, names: Names): Standing | null {
  const path = join(root, ...names);
  if (look(path) === undefined && !make(root, () => makePlaceholder(path))) return null;
  const stats = look(path);
  // A second name lies where no cover is; for a link see above.
  if (stats?.isFile() !== true || stats.nlink > 1)
    throw refuse(`${names.join("/")} is read into prompts and must be a plain file, not a link or one with a second name`);
  return { names, stats };
}

/** False on a disk that is read-only, or in a folder of somebody else's where neither we nor the command may write. */
function make(root: string, work: () => void): boolean {
  try {
    work();
    return true;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "EROFS" || (code === "EACCES" && statSync(root).uid !== process.getuid?.())) return false;
    throw error;
  }
}

const { O_CREAT, O_EXCL, O_WRONLY } = constants;

/** By its size and age a later start knows it again. */
function makePlaceholder(path: string): void {
  const file = openSync(path, O_WRONLY | O_CREAT | O_EXCL, 0o600);
  futimesSync(file, 0, 0);
  closeSync(file);
}

const isPlaceholder = (stats: Stats): boolean => stats.isFile() && stats.size === 0 && stats.mtimeMs === 0;

/** Only if it is one, and still empty. */
export function removePlaceholder(path: string): void {
  const stats = look(path);
  if (stats === undefined || !isPlaceholder(stats)) return;
  try {
    unlinkSync(path);
  } catch {
    // Somebody else was faster, or the folder is closed to us by now: an empty file says nothing to anybody.
  }
}

/** Some file systems number their files anew now and then; then the time of the last change tells. */
function stillStands(root: string, { names, stats }: Standing): boolean {
  const now = look(join(root, ...names));
  return now !== undefined && (now.ino === stats.ino || now.ctimeMs === stats.ctimeMs);
}

export const look = (path: string): Stats | undefined => lstatSync(path, { throwIfNoEntry: false });
