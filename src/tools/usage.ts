// What running commands take of the machine's memory and disk, all of them together (TL10). exec asks before a command
// starts and ten times a second while it runs (process.ts); when the sum is too much, the one that took the most ends.
// No kernel limit does this for an ordinary user: rlimits count each process alone, and control groups are the
// system's to give. What could not be counted is refused by seccomp.ts.
import { writeFileSync } from "node:fs";
import { freemem } from "node:os";
import { createDiskMeters, type DiskLimits } from "./disk-meter.ts";
import { createHiddenMemory } from "./hidden-memory.ts";
import { formatBytes } from "./output.ts";
import type { Seen } from "./process.ts";

export interface UsageLimits extends DiskLimits {
  /** Of all running commands together. */
  readonly memoryBytes: number;
  /** Less than this and the system would soon end processes by itself, perhaps the gateway. */
  readonly freeMemoryBytes: number;
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
      const hidden = isSandboxed ? createHiddenMemory() : null;
      running.add(own);
      return {
        look({ pids, memoryBytes }) {
          if (memoryBytes !== null) {
            if (own.memoryBytes === 0) offerToKernel(pids);
            own.memoryBytes = memoryBytes + (hidden?.measure(pids) ?? 0);
            disk?.measure(pids);
            own.diskBytes = disk?.takenBytes() ?? 0;
          }
          if (isTooMuch(own, "memoryBytes")) return tooMuch("took", limits.memoryBytes, "of memory", "memoryMegabytes");
          if (isTooMuch(own, "diskBytes")) return tooMuch("added", limits.diskBytes, "to the disk", "diskMegabytes");
          // What no count shows, full sockets for example, shows here.
          if (freemem() < limits.freeMemoryBytes && isMost(own))
            return `the machine had less than ${formatBytes(limits.freeMemoryBytes)} of memory left; use less at a time`;
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

/** When memory runs out all the same, the kernel ends a command first, and not the gateway. Children inherit it. */
function offerToKernel(pids: readonly number[]): void {
  for (const pid of pids) {
    try {
      writeFileSync(`/proc/${pid}/oom_score_adj`, "1000");
    } catch {
      // It ended, or this system doesn't have it.
    }
  }
}
