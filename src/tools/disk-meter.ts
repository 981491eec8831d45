// What commands add to the disks they may write to. usage.ts asks ten times a second and gets the last answer: the disk
// itself is asked beside it, because one that answers slowly must not hold the gateway.
import { existsSync, readdirSync, readFileSync, type StatsFs, statSync } from "node:fs";
import { stat, statfs } from "node:fs/promises";
import { createFileCount } from "./file-count.ts";
import { formatBytes } from "./output.ts";

export interface DiskLimits {
  /** Files one command may make where it may write. */
  readonly files: number;
  /** Below this much free disk no command writes. */
  readonly freeDiskBytes: number;
  /** What all running commands together may add. */
  readonly diskBytes: number;
}

export interface DiskMeter {
  measure(pids: readonly number[]): void;
  takenBytes(): number;
  /** Why the command can't begin, or has to end, in a clause, or null. */
  refusal(): string | null;
  problem(): string | null;
  end(): void;
}

/** A disk somebody writes to. */
interface Disk {
  now: StatsFs;
  isBusy: boolean;
  readonly writers: Set<Writer>;
}

interface Writer {
  writtenBytes: number;
  /** Written in this look and the one before it, and not yet found on the disk. */
  fresh: number;
  stale: number;
  takenBytes: number;
  /** What the disk lost while it ran, and nobody wrote as far as the counts say. */
  unclaimedBytes: number;
}

/** Some file systems count no files; on the others this many must be left. */
const FREE_FILES = 10_000;
const HAS_IO_COUNTS = existsSync("/proc/self/io");
/** Unclaimed bytes are looked into after this part of the limit. */
const STEPS = 8;
/** The gateway waits while they are looked at; who opens more is taken at the disk's word. */
const MAX_FDS = 2000;
/** While files are counted, what was counted before is held against a command; in a large folder that takes too long. */
const MAX_COUNTING_MS = 1000;
/** More than any disk holds: bounds nothing. */
const UNKNOWN_BYTES = 2 ** 60;

/**
 * What a disk loses from one look to the next is put down to those who wrote meanwhile, in proportion and no more than
 * they wrote, and no more than is found: neither what others write nor a file written a hundred times is held against a
 * command. (A file system that gives space away long after the writing is seen too late for that; there the floor of free
 * disk is what holds.)
 * A process whose parent doesn't wait for it takes its count along when it ends. So what nobody claims is put down to a
 * command too, but no more than is found in files it made or holds: the machine's other programs write as well.
 */
export function createDiskMeters(limits: DiskLimits): (folder: string) => Promise<DiskMeter> {
  const disks = new Map<number, Disk>();
  return async (folder) => {
    const [{ dev }, now] = await Promise.all([stat(folder), statfs(folder)]);
    const disk = disks.get(dev) ?? { now, isBusy: false, writers: new Set() };
    disks.set(dev, disk);
    const own: Writer = { writtenBytes: 0, fresh: 0, stale: 0, takenBytes: 0, unclaimedBytes: 0 };
    disk.writers.add(own);
    const stepBytes = limits.diskBytes / STEPS;
    const files = createFileCount({ folder, maxFiles: limits.files, freeFilesAtStart: now.ffree, stepBytes });
    let removedBytes = 0;
    let countedBytes = 0;
    let countingUntil = 0;
    const takenNow = (): number =>
      own.takenBytes + Math.min(own.unclaimedBytes, Math.max(0, files.bytes() + removedBytes - own.takenBytes));
    return {
      measure(pids) {
        const written = Math.max(own.writtenBytes, writtenBy(pids));
        own.fresh += written - own.writtenBytes;
        own.writtenBytes = written;
        const { takenBytes, unclaimedBytes } = own;
        removedBytes = takenBytes + unclaimedBytes > stepBytes ? bytesOfRemoved(pids, dev) : 0;
        const counted = files.measure({ freeFiles: disk.now.ffree, takenBytes, unclaimedBytes });
        if (counted !== null) {
          countingUntil = performance.now() + MAX_COUNTING_MS;
          counted
            .then(() => takeBack(own, takenBytes - files.bytes() - removedBytes))
            // The disk fails or there is no handle left: what was put down to it stands until the next look.
            .catch(() => undefined)
            .finally(() => {
              countingUntil = 0;
              // Not what came during the walk: on a disk others fill, that may be a file written again.
              countedBytes = Math.min(takenNow(), files.bytes() + removedBytes);
            });
        }
        void look(disk, folder);
      },
      takenBytes: () => (performance.now() < countingUntil ? countedBytes : takenNow()),
      refusal: () => shortOf(now, limits),
      // The floor holds for all of them: what one has taken is known too late, or not at all.
      problem: () => files.problem() ?? shortOf(disk.now, limits),
      end() {
        disk.writers.delete(own);
        if (disk.writers.size === 0) disks.delete(dev);
      },
    };
  };
}

/**
 * Who writes while others do is held to have taken their part too, up to all it wrote: a file written again and again while the
 * machine is busy would be counted as often. What a walk doesn't find was never there; what came during it stays.
 */
function takeBack(own: Writer, notFoundBytes: number): void {
  own.takenBytes = Math.max(0, own.takenBytes - Math.max(0, notFoundBytes));
}

function shortOf(now: StatsFs, { freeDiskBytes }: DiskLimits): string | null {
  if (now.bavail * now.bsize < freeDiskBytes)
    return `less than ${formatBytes(freeDiskBytes)} of the disk is free (tools.exec.freeDiskMegabytes); remove what nobody needs`;
  if (now.files > 0 && now.ffree < FREE_FILES) return `the disk has room for fewer than ${FREE_FILES} more files; remove what nobody needs`;
  return null;
}

async function look(disk: Disk, folder: string): Promise<void> {
  if (disk.isBusy) return;
  disk.isBusy = true;
  const before = disk.now;
  try {
    disk.now = await statfs(folder);
    settle(disk, (before.bfree - disk.now.bfree) * before.bsize);
  } catch {
    // The folder is gone or its disk fails: the command will notice by itself.
  } finally {
    disk.isBusy = false;
  }
}

function settle({ writers }: Disk, lostBytes: number): void {
  const sum = (of: (writer: Writer) => number): number => [...writers].reduce((total, writer) => total + of(writer), 0);
  const open = (writer: Writer): number => writer.fresh + writer.stale;
  const allOpen = sum(open);
  const allTaken = sum((writer) => writer.takenBytes);
  const unclaimed = lostBytes > 0 ? Math.max(0, lostBytes - allOpen) : lostBytes;
  for (const writer of writers) {
    const part = lostBytes > 0 && allOpen > 0 ? (Math.min(lostBytes, allOpen) * open(writer)) / allOpen : 0;
    // Space given back is everybody's gain, in proportion to what they hold.
    const kept = lostBytes < 0 && allTaken > 0 ? writer.takenBytes * Math.max(0, 1 + lostBytes / allTaken) : writer.takenBytes;
    writer.takenBytes = kept + part;
    writer.stale = Math.max(0, writer.fresh - part);
    writer.fresh = 0;
    writer.unclaimedBytes = Math.max(0, writer.unclaimedBytes + unclaimed);
  }
}

/** What these processes hold open of files that have no name any more, so that no walk finds them. */
function bytesOfRemoved(pids: readonly number[], dev: number): number {
  const sizes = new Map<number, number>();
  let looked = 0;
  for (const pid of pids) {
    for (const fd of readFds(pid)) {
      looked += 1;
      if (looked > MAX_FDS) return UNKNOWN_BYTES;
      const stats = statSync(`/proc/${pid}/fd/${fd}`, { throwIfNoEntry: false });
      if (stats?.dev === dev && stats.isFile() && stats.nlink === 0) sizes.set(stats.ino, stats.blocks * 512);
    }
  }
  return [...sizes.values()].reduce((total, size) => total + size, 0);
}

function readFds(pid: number): string[] {
  try {
    return readdirSync(`/proc/${pid}/fd`);
  } catch {
    return []; // It ended.
  }
}

/**
 * What these processes, and those of their children that ended, have written to files on a disk. Some file systems don't
 * keep that count; there all that was written to anything stands for it.
 */
function writtenBy(pids: readonly number[]): number {
  if (!HAS_IO_COUNTS) return UNKNOWN_BYTES;
  const counts = pids.map(readCounts);
  const toDisk = counts.reduce((total, one) => total + one.toDisk, 0);
  return toDisk > 0 ? toDisk : counts.reduce((total, one) => total + one.toAnything, 0);
}

function readCounts(pid: number): { toDisk: number; toAnything: number } {
  try {
    const text = readFileSync(`/proc/${pid}/io`, "latin1");
    const field = (name: string): number => Number(new RegExp(`^${name}: (\\d+)`, "m").exec(text)?.[1] ?? 0);
    return { toDisk: field("write_bytes"), toAnything: field("wchar") };
  } catch {
    return { toDisk: 0, toAnything: 0 }; // It ended, and its parent's count has it.
  }
}
