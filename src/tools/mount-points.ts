// Something for each cover of the sandbox to lie on (sandbox.ts, Covers): a mount needs a file or a folder below it, so an
// empty one is made where there is none, and what no mount holds is refused. prompt-files.ts → here.
import {
  closeSync,
  constants,
  fstatSync,
  futimesSync,
  lstatSync,
  mkdirSync,
  openSync,
  readFileSync,
  type Stats,
  statSync,
  unlinkSync,
} from "node:fs";
import { join } from "node:path";
import { AppError } from "../core/errors.ts";

/** A prompt shows far less of it, and its text is kept in memory while a command runs. */
const MAX_FILE_BYTES = 1024 ** 2;

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
   * One that somebody outside the sandbox replaced meanwhile, a person's editor for example, or linked to; null while all
   * stand. The kernel takes a mount away with the file it lies on, so the command could write the new one and must be ended.
   */
  lost(): string | null;
  /** Files and folders whose cover is lost, for put-back.ts. */
  uncovered(): readonly Covered[];
  close(): void;
}

export interface Covered {
  readonly names: Names;
  readonly stats: Stats;
  /** Leads to the very one, whatever becomes of its name, and keeps its number from being given to another. */
  readonly handle: number;
  /**
   * Of a file. Not to be had later, not even by the handle: while a rename replaces it there is a moment when the cover is
   * gone already and the name still leads to the old file, and a command wrote into it in that moment.
   */
  readonly text: Buffer | null;
}

/** All in one go, without waiting in between: two commands that start together see each other's work or none of it. */
export function createMountPoints(root: string, { files, folders }: PromptNames): MountPoints | { readonly problem: string } {
  const handles: number[] = [];
  const close = (): void => handles.splice(0).forEach(closeSync);
  const onTheWay = new Map([...files, ...folders].flatMap(foldersOnTheWay).map((names) => [names.join("/"), names] as const));
  try {
    const stand = (all: readonly Names[], ensure: typeof ensureFile): Covered[] =>
      all.flatMap((names) => {
        if (!ensure(root, names)) return [];
        // Looked at by its handle: what was checked is what is watched.
        const handle = openSync(join(root, ...names), O_PATH | O_NOFOLLOW);
        handles.push(handle);
        const stats = fstatSync(handle);
        requirePlain(names, stats, ensure === ensureFile);
        return [{ names, stats, handle, text: stats.isFile() ? readText(handle) : null }];
      });
    const pinned = stand([...onTheWay.values()], ensureFolder);
    const covered = { folders: stand(folders, ensureFolder), files: stand(files, ensureFile) };
    const all = [...pinned, ...covered.folders, ...covered.files];
    return {
      pinned: pinned.map(toNames),
      folders: covered.folders.map(toNames),
      files: covered.files.map(toNames),
      empty: covered.files.filter(({ stats }) => isPlaceholder(stats)).map(toNames),
      lost: () => all.find((standing) => !stillStands(root, standing))?.names.join("/") ?? null,
      uncovered: () => [...covered.folders, ...covered.files].filter((standing) => !stillStands(root, standing)),
      close,
    };
  } catch (error) {
    close();
    if (error instanceof AppError) return { problem: error.message };
    const { code = "unknown error" } = error as NodeJS.ErrnoException;
    return { problem: `what is read into prompts can't be covered (${code})` };
  }
}

const toNames = ({ names }: Covered): Names => names;

const foldersOnTheWay = (names: Names): Names[] => names.slice(1).map((_, n) => names.slice(0, n + 1));

const refuse = (message: string): AppError => new AppError("invalid", message);

/** False where nobody can make it, the command included. */
function ensureFolder(root: string, names: Names): boolean {
  const path = join(root, ...names);
  if (names.length === 0) throw refuse("the workspace lies in the memory of an agent");
  return look(path) !== undefined || make(root, () => mkdirSync(path, { mode: 0o700 }));
}

function ensureFile(root: string, names: Names): boolean {
  const path = join(root, ...names);
  return look(path) !== undefined || make(root, () => makePlaceholder(path));
}

/** A link can't be covered, and a command could put something else in its place; a second name lies where no cover is. */
function requirePlain(names: Names, stats: Stats, isFile: boolean): void {
  const name = names.join("/");
  if (!isFile && !stats.isDirectory()) throw refuse(`${name} is read into prompts and must be a plain folder, not a link`);
  if (stats.isFile() && stats.size > MAX_FILE_BYTES) throw refuse(`${name} is read into prompts and must be shorter than 1 MB`);
  if (isFile && (!stats.isFile() || stats.nlink > 1))
    throw refuse(`${name} is read into prompts and must be a plain file, not a link or one with a second name`);
}

/** Null when nobody can read it, so no prompt does. */
function readText(handle: number): Buffer | null {
  try {
    return readFileSync(`/proc/self/fd/${handle}`);
  } catch {
    return null;
  }
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

const { O_CREAT, O_EXCL, O_NOFOLLOW, O_WRONLY } = constants;
/** Linux; Node has no name for it. Opens a link itself, and needs no right to read. */
const O_PATH = 0o10000000;

/** By its size and age a later start knows it again. */
function makePlaceholder(path: string): void {
  const file = openSync(path, O_WRONLY | O_CREAT | O_EXCL, 0o600);
  futimesSync(file, 0, 0);
  closeSync(file);
}

export const isPlaceholder = (stats: Stats): boolean => stats.isFile() && stats.size === 0 && stats.mtimeMs === 0;

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

/**
 * Some file systems number their files anew now and then; then the time of the last change tells. With a second name it
 * could be written past its cover.
 */
function stillStands(root: string, { names, stats }: Covered): boolean {
  const now = look(join(root, ...names));
  if (now === undefined || (now.isFile() && now.nlink > 1)) return false;
  return now.ino === stats.ino || now.ctimeMs === stats.ctimeMs;
}

export const look = (path: string): Stats | undefined => lstatSync(path, { throwIfNoEntry: false });
