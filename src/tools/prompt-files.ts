// What is read into a system prompt, and how a sub-agent is kept from changing it (TL9): the bootstrap files and the
// memory of every agent whose workspace overlaps its own, and CREW.md. Its memory it may not even read (BF4).
// A file tool asks for the names and refuses them. A command can't be asked: the sandbox covers the names with mounts it
// can't remove (sandbox.ts), and a mount needs something to stand on. So an empty file stands where there is none for as
// long as a command runs; readers of prompts take an empty file for none (agents/memory.ts).
import { readlinkSync, realpathSync } from "node:fs";
import { basename, dirname, isAbsolute, join, relative, resolve, sep } from "node:path";
import { BOOTSTRAP_FILES, type Confirmed, MEMORY_FOLDER } from "../agents/memory.ts";
import {
  createMountPoints,
  isPlaceholder,
  look,
  type MountPoints,
  type Names,
  type PromptNames,
  removePlaceholder,
} from "./mount-points.ts";

/** As many links in a row as the kernel follows. */
const MAX_HOPS = 40;

export interface PromptFiles {
  /** Where they lie below `root`, a real path: by name and, where that is a link, where it leads. */
  below(root: string): PromptNames;
  /** Those folders below `root` that are there, for commands that only read. */
  foldersIn(root: string): readonly Names[];
  /** Makes all of them ready to be covered until `release`, or says why that can't be done. */
  hold(root: string): Hold | { readonly problem: string };
  /** What a main session's command below `root` must not rename or replace, or covers that lie on it would be lost. */
  pins(root: string): readonly Names[];
  /** What `read` gives, read again when a cover was lost by then: a command may have written it, and it is put back first. */
  readonly confirmed: Confirmed;
  /** Is a command running whose cover lies on this file? Then it must be written in place (see `Hold.lost`). */
  isHeld(path: string): boolean;
  /** Removes what a gateway that was killed left standing. */
  tidy(): void;
}

export interface Hold extends Omit<MountPoints, "close"> {
  /** When all processes of the command are gone, and what is uncovered is put back. */
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
  const holds = createHolds();
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
        removePlaceholder(path);
      }
    }
  };
  return {
    below,
    foldersIn: (root) => below(root).folders.filter((names) => names.length > 0 && look(join(root, ...names))?.isDirectory() === true),
    hold(root) {
      const turn = workspaces()
        .flatMap((path) => linksTo(path))
        .find((path) => isInside(root, path));
      if (turn !== undefined)
        return { problem: `${relative(root, turn)} is a link on the way to an agent's workspace, which must be named by its real path` };
      // What stands there now may be another command's work, and would be held as if it were a person's.
      const lost = holds.lost();
      if (lost !== null) return { problem: `${lost} was replaced while another command ran, which is being ended; try again` };
      const names = below(root);
      const paths = [...names.files, ...names.folders].map((file) => join(root, ...file));
      for (const path of paths) held.set(path, (held.get(path) ?? 0) + 1);
      const points = createMountPoints(root, names);
      if ("problem" in points) {
        drop(paths);
        return points;
      }
      return holds.add(points, () => drop(paths));
    },
    pins(root) {
      const { files, folders } = below(root);
      return [...folders, ...files].filter((names) => {
        const path = join(root, ...names);
        const stats = held.has(path) ? look(path) : undefined;
        // An empty one may be gone, with the command it stands there for, before this one is mounted.
        return stats !== undefined && !isPlaceholder(stats);
      });
    },
    confirmed: holds.confirmed,
    isHeld: (path) => held.has(path),
    tidy() {
      for (const home of workspaces()) for (const name of BOOTSTRAP_FILES) removePlaceholder(join(home, name));
    },
  };
}

/** What running commands hold, and waiting for those whose cover is lost. */
function createHolds(): {
  add(points: MountPoints, onRelease: () => void): Hold;
  lost(): string | null;
  readonly confirmed: Confirmed;
} {
  /** Each, and when it is no more. */
  const holds = new Map<Hold, Promise<void>>();
  const lostOnes = (): Hold[] => [...holds.keys()].filter((hold) => hold.lost() !== null);
  return {
    add(points, onRelease) {
      const { promise, resolve } = Promise.withResolvers<void>();
      const hold: Hold = {
        ...points,
        release() {
          points.close();
          holds.delete(hold);
          onRelease();
          resolve();
        },
      };
      holds.set(hold, promise);
      return hold;
    },
    lost: () => lostOnes()[0]?.lost() ?? null,
    async confirmed(read) {
      for (;;) {
        const found = await read();
        // After the reading: covers that stand now stood then.
        const lost = lostOnes();
        if (lost.length === 0) return found;
        await Promise.all(lost.map((hold) => holds.get(hold)));
      }
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

/** Links on the way to a path, each where it really stands. */
function linksTo(path: string, hops = 0): string[] {
  let at: string = sep;
  const names = path.split(sep).filter((name) => name !== "");
  for (const [n, name] of names.entries()) {
    const next = join(at, name);
    if (look(next)?.isSymbolicLink() === true && hops < MAX_HOPS)
      return [next, ...linksTo(join(resolve(at, readlinkSync(next)), ...names.slice(n + 1)), hops + 1)];
    at = next;
  }
  return [];
}
