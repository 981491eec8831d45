// What running commands take of the machine's memory and disk, all of them together (TL10). exec asks before a command
// starts and ten times a second while it runs (process.ts); when the sum is too much, the one that took the most ends.
// No kernel limit does this for an ordinary user: rlimits count each process alone, and control groups are the
// system's to give. What could not be counted is refused by seccomp.ts.
import { statfsSync } from "node:fs";
import { freemem, totalmem } from "node:os";
import { createDiskMeters, type DiskLimits } from "./disk-meter.ts";
import { formatBytes } from "./output.ts";
import type { Seen } from "./process.ts";
import { MEMORY_MOUNTS, TMPFS_BYTES } from "./sandbox.ts";

export interface UsageLimits extends DiskLimits {
  /** Of all running commands together: memory, and what they add to the disk. */
  readonly memoryBytes: number;
  readonly diskBytes: number;
}

export interface UsageRequest {
  /** Where on the host the command may write; null for nowhere. */
  readonly folder: string | null;
  readonly isSandboxed: boolean;
}

export interface Usage {
  /** Or a clause that says why the command can't start now. */
  begin(request: UsageRequest): Promise<CommandUsage | { readonly refused: string }>;
}

export interface CommandUsage {
  /** Why the command has to end, in a clause, or null. */
  look(seen: Seen): string | null;
  end(): void;
}

/** Less than this and the system begins to end processes by itself, perhaps the gateway. */
const LOW_MEMORY_BYTES = Math.min(512 * 1024 * 1024, totalmem() / 20);
const TMPFS_TYPE = 0x01021994;
/** What the kernel keeps for each file of a tmpfs beside its content. */
const INODE_BYTES = 1024;

/** What one command takes now. */
interface Taken {
  memoryBytes: number;
  diskBytes: number;
}

export function createUsage(limits: UsageLimits): Usage {
  const running = new Set<Taken>();
  const createDiskMeter = createDiskMeters(limits);
  const isTooMuch = (own: Taken, of: keyof Taken): boolean => {
    const all = [...running].map((one) => one[of]);
    return all.reduce((total, one) => total + one, 0) > limits[of] && own[of] >= Math.max(...all);
  };
  const isMost = (own: Taken): boolean => [...running].every((one) => one.memoryBytes <= own.memoryBytes);
  return {
    async begin({ folder, isSandboxed }) {
      const disk = folder === null ? null : await createDiskMeter(folder);
      const refused = disk?.refusal() ?? null;
      if (refused !== null) {
        disk?.end();
        return { refused };
      }
      const own: Taken = { memoryBytes: 0, diskBytes: 0 };
      running.add(own);
      return {
        look({ pids, memoryBytes }) {
          if (memoryBytes !== null) {
            own.memoryBytes = memoryBytes + (isSandboxed ? bytesOfMemoryFiles(pids) : 0);
            disk?.measure(pids);
            own.diskBytes = disk?.takenBytes() ?? 0;
          }
          if (isTooMuch(own, "memoryBytes")) return tooMuch("took", limits.memoryBytes, "of memory", "memoryMegabytes");
          if (isTooMuch(own, "diskBytes")) return tooMuch("added", limits.diskBytes, "to the disk", "diskMegabytes");
          if (freemem() < LOW_MEMORY_BYTES && isMost(own))
            return `the machine had less than ${formatBytes(LOW_MEMORY_BYTES)} of memory left; use less at a time`;
          return disk?.problem() ?? null;
        },
        end() {
          running.delete(own);
          disk?.end();
        },
      };
    },
  };
}

const tooMuch = (did: string, bytes: number, what: string, setting: string): string =>
  `the running commands together ${did} more than ${formatBytes(bytes)} ${what}, and this one the most; ` +
  `use less at a time, or raise tools.exec.${setting} in the settings`;

/**
 * Files in the sandbox's memory file systems, which no process's own memory shows. The first two processes are bwrap's,
 * of which one sees the host's folders; before there is a third there is no command either.
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
