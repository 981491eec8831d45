// What is read into a system prompt, and how a sub-agent is kept from changing it (TL9): the bootstrap files and the
// memory of every agent whose workspace overlaps its own, and CREW.md. Its memory it may not even read (BF4).
// A file tool asks for the names and refuses them. A command can't be asked: the sandbox covers the names with mounts it
// can't remove (sandbox.ts), and a mount needs something to stand on. So an empty file stands where there is none for as
// long as a command runs; readers of prompts take an empty file for none (agents/memory.ts).
import {
  closeSync,
  constants,
  futimesSync,
  lstatSync,
  mkdirSync,
  openSync,
  readlinkSync,
  realpathSync,
  type Stats,
  unlinkSync,
} from "node:fs";
import { basename, dirname, isAbsolute, join, relative, resolve, sep } from "node:path";
import { BOOTSTRAP_FILES, MEMORY_FOLDER } from "../agents/memory.ts";
import { errorText } from "../core/errors.ts";

/** As many links in a row as the kernel follows. */
const MAX_HOPS = 40;

/** Names below a workspace, one for each step. Empty: the workspace itself. */
export type Names = readonly string[];

export interface PromptNames {
  readonly files: readonly Names[];
  readonly folders: readonly Names[];
}

export interface PromptFiles {
  /** Where they lie below `root`, a real path: by name and, where that is a link, where it leads. */
  below(root: string): PromptNames;
  /** Those folders below `root` that are there, for commands that only read. */
  foldersIn(root: string): readonly Names[];
  /** Makes all of them ready to be covered until `release`, or says why that can't be done. */
  hold(root: string): Hold | { readonly problem: string };
  /** Is a command running whose cover lies on this file? Then it must be written in place (see `Hold.lost`). */
  isHeld(path: string): boolean;
  /** Removes what a gateway that was killed left standing. */
  tidy(): void;
}

export interface Hold extends PromptNames {
  /** Folders on the way to them: renamed, they would take the covered file along and leave its name free. */
  readonly pinned: readonly Names[];
  /** Of the files, those that only stand there to be covered. */
  readonly empty: readonly Names[];
  /**
   * One that somebody outside the sandbox replaced meanwhile, a person's editor for example; null while all stand. The
   * kernel takes a mount away with the file it lies on, so the command could write the new one and must be ended.
   */
  lost(): string | null;
  release(): void;
}

export interface PromptFilesOptions {
  /** Workspaces of all agents: one may lie inside another. */
  readonly workspaces?: () => readonly string[];
  readonly crewPath?: string;
}

export function createPromptFiles({ workspaces = () => [], crewPath }: PromptFilesOptions = {}): PromptFiles {
  /** How many commands have a cover on a path. */
  const held = new Map<string, number>();
  const below = (root: string): PromptNames => {
    // Most gateways have many agents and no workspace inside another: only those that overlap are looked at.
    const others = workspaces().map((path) => endOf(path));
    const homes = [...new Set([root, ...others.filter((path) => isInside(root, path) || isInside(path, root))])];
    const files = homes.flatMap((home) => BOOTSTRAP_FILES.map((name) => join(home, name)));
    return {
      files: namesBelow(root, [...files, ...(crewPath === undefined ? [] : [crewPath])]),
      folders: namesBelow(
        root,
        homes.map((home) => join(home, MEMORY_FOLDER)),
      ),
    };
  };
  const drop = (paths: readonly string[]): void => {
    for (const path of paths) {
      const left = (held.get(path) ?? 1) - 1;
      if (left > 0) held.set(path, left);
      else {
        held.delete(path);
        removeIfEmpty(path);
      }
    }
  };
  return {
    below,
    foldersIn: (root) => below(root).folders.filter((names) => names.length > 0 && look(join(root, ...names))?.isDirectory() === true),
    hold(root) {
      const names = below(root);
      const paths = names.files.map((file) => join(root, ...file));
      for (const path of paths) held.set(path, (held.get(path) ?? 0) + 1);
      const made = prepare(root, names);
      if ("problem" in made) {
        drop(paths);
        return made;
      }
      return { ...names, ...made, lost: () => findLost(root, made.inodes), release: () => drop(paths) };
    },
    isHeld: (path) => held.has(path),
    tidy() {
      for (const home of workspaces()) for (const name of BOOTSTRAP_FILES) removeIfEmpty(join(home, name));
    },
  };
}

/** Below `root`, each once. A root that itself lies in one of the paths is as good as that path: the names are empty. */
function namesBelow(root: string, paths: readonly string[]): Names[] {
  const all = paths.flatMap((path) => [path, endOf(path)]);
  const found = all.flatMap((path) => {
    if (isInside(root, path))
      return [
        relative(root, path)
          .split(sep)
          .filter((name) => name !== ""),
      ];
    return isInside(path, root) ? [[]] : [];
  });
  return [...new Map(found.map((names) => [names.join("/"), names])).values()];
}

/** Is `path` the folder, or below it? */
function isInside(folder: string, path: string): boolean {
  const way = relative(folder, path);
  return way.split(sep)[0] !== ".." && !isAbsolute(way);
}

/** Where links lead, also one whose target isn't there yet: whoever makes the target makes the prompt. */
function endOf(path: string, hops = 0): string {
  const real = realPath(path);
  if (real !== null || hops > MAX_HOPS) return real ?? path;
  if (look(path)?.isSymbolicLink()) return endOf(resolve(dirname(path), readlinkSync(path)), hops + 1);
  return join(realPath(dirname(path)) ?? dirname(path), basename(path));
}

function realPath(path: string): string | null {
  try {
    return realpathSync.native(path);
  } catch {
    return null; // Not there, a link to nothing, or a loop of links.
  }
}

const look = (path: string): Stats | undefined => lstatSync(path, { throwIfNoEntry: false });

type Prepared = Pick<Hold, "pinned" | "empty"> & { readonly inodes: ReadonlyMap<string, number> };

/** All in one go, without waiting in between: two commands that start together see each other's work or none of it. */
function prepare(root: string, { files, folders }: PromptNames): Prepared | { problem: string } {
  const inodes = new Map<string, number>();
  const pinned = new Map([...files, ...folders].flatMap(foldersOnTheWay).map((names) => [names.join("/"), names] as const));
  try {
    for (const names of [...pinned.values(), ...folders]) inodes.set(names.join("/"), standFolder(root, names));
    const standing = files.map((names) => ({ names, ...standFile(root, names) }));
    for (const { names, inode } of standing) inodes.set(names.join("/"), inode);
    return { inodes, pinned: [...pinned.values()], empty: standing.flatMap(({ names, isEmpty }) => (isEmpty ? [names] : [])) };
  } catch (error) {
    return { problem: errorText(error) };
  }
}

const foldersOnTheWay = (names: Names): Names[] => names.slice(1).map((_, n) => names.slice(0, n + 1));

function standFolder(root: string, names: Names): number {
  const path = join(root, ...names);
  if (names.length === 0) throw new Error("the workspace lies in the memory of an agent");
  if (look(path) === undefined) mkdirSync(path, { mode: 0o700 });
  const stats = look(path);
  // A link can't be covered, and a command could put something else in its place.
  if (stats?.isDirectory() !== true) throw new Error(`${names.join("/")} is read into prompts and must be a plain folder, not a link`);
  return stats.ino;
}

const { O_CREAT, O_EXCL, O_WRONLY } = constants;

function standFile(root: string, names: Names): { inode: number; isEmpty: boolean } {
  const path = join(root, ...names);
  if (look(path) === undefined) {
    const file = openSync(path, O_WRONLY | O_CREAT | O_EXCL, 0o600);
    // By size and age a later start knows it again.
    futimesSync(file, 0, 0);
    closeSync(file);
  }
  const stats = look(path);
  // A second name lies where no cover is; for a link see above.
  if (stats?.isFile() !== true || stats.nlink > 1)
    throw new Error(`${names.join("/")} is read into prompts and must be a plain file, not a link or one with a second name`);
  return { inode: stats.ino, isEmpty: isPlaceholder(stats) };
}

const isPlaceholder = (stats: Stats): boolean => stats.isFile() && stats.size === 0 && stats.mtimeMs === 0;

function removeIfEmpty(path: string): void {
  const stats = look(path);
  if (stats === undefined || !isPlaceholder(stats)) return;
  try {
    unlinkSync(path);
  } catch {
    // Somebody else was faster, or the folder is closed to us by now: an empty file says nothing to anybody.
  }
}

function findLost(root: string, inodes: ReadonlyMap<string, number>): string | null {
  for (const [name, inode] of inodes) if (look(join(root, name))?.ino !== inode) return name;
  return null;
}
