// Memory of a sandboxed command that the resident memory of its processes doesn't show. usage.ts adds it to that.
import { readFileSync, statfsSync } from "node:fs";
import { MEMORY_MOUNTS, TMPFS_BYTES } from "./sandbox.ts";

const TMPFS_TYPE = 0x01021994;
/** What the kernel keeps for each file of a tmpfs beside its content. */
const INODE_BYTES = 1024;
/** Below this nobody reads the processes' maps, which can be long. */
const WORTH_A_LOOK_BYTES = 128 * 1024 * 1024;

export interface HiddenMemory {
  /** In bytes; `pids` as process.ts lists them. */
  measure(pids: readonly number[]): number;
}

export function createHiddenMemory(): HiddenMemory {
  const sharedAtStart = sharedOfMachine();
  return {
    measure(pids) {
      const inFiles = bytesOfMemoryFiles(pids);
      // A process can fill a mapping shared with its children and let go of the pages: they stay, and count for nobody.
      // That the machine has so much more shared memory is the sign of it; how much can be theirs, their maps say.
      const grown = sharedOfMachine() - sharedAtStart - inFiles;
      return inFiles + (grown < WORTH_A_LOOK_BYTES ? 0 : Math.min(grown, bytesOfSharedMaps(pids)));
    },
  };
}

/**
 * The first two processes are bwrap's, of which one sees the host's folders; before there is a third there is no command
 * either.
 */
function bytesOfMemoryFiles(pids: readonly number[]): number {
  const inside = pids[2];
  return inside === undefined ? 0 : MEMORY_MOUNTS.reduce((total, mount) => total + tmpfsBytes(`/proc/${inside}/root${mount}`), 0);
}

function tmpfsBytes(path: string): number {
  try {
    const { type, bsize, blocks, bfree, files, ffree } = statfsSync(path);
    // Something else stands there, a folder of the host for example.
    if (type !== TMPFS_TYPE || bsize * blocks !== TMPFS_BYTES) return 0;
    return bsize * (blocks - bfree) + INODE_BYTES * (files - ffree);
  } catch {
    return 0; // The process is gone, or there is no such mount for this command.
  }
}

const sharedOfMachine = (): number => Number(/^Shmem:\s+(\d+) kB/m.exec(read("/proc/meminfo"))?.[1] ?? 0) * 1024;

/** One line of a process's maps: from-to, "rw-s", offset, device, inode, name. */
const SHARED_MAP = /^([0-9a-f]+)-([0-9a-f]+) ..[-x]s [0-9a-f]+ \S+ (\d+) +\/dev\/zero \(deleted\)$/gm;

/** Each mapping once, however many processes have it. */
function bytesOfSharedMaps(pids: readonly number[]): number {
  const sizes = new Map<string, number>();
  for (const pid of pids) {
    for (const [, from = "", to = "", inode = ""] of read(`/proc/${pid}/maps`).matchAll(SHARED_MAP))
      sizes.set(inode, Math.max(sizes.get(inode) ?? 0, Number.parseInt(to, 16) - Number.parseInt(from, 16)));
  }
  return [...sizes.values()].reduce((total, size) => total + size, 0);
}

function read(path: string): string {
  try {
    return readFileSync(path, "latin1");
  } catch {
    return ""; // A process that ended has nothing to tell.
  }
}
