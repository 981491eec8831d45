// A failing disk for a process: builds io-faults.c, gives the environment that puts it into the process, and arms it while
// the process runs. The shared file's layout stands in io-faults.c.
import { execFileSync, spawnSync } from "node:child_process";
import { closeSync, mkdtempSync, openSync, readSync, rmSync, writeFileSync, writeSync } from "node:fs";
import { constants, tmpdir } from "node:os";
import { join } from "node:path";

const { EIO, ENOSPC, EACCES, EMFILE } = constants.errno;
const DATA = 1;
const SYNC = 2;
const OPEN = 4;
const NAME = 8;

/** What can go wrong, and with which calls. `torn`: half of a write goes through before the disk is full. */
export const FAULTS = {
  EIO: { errno: EIO, classes: DATA | SYNC | OPEN | NAME },
  ENOSPC: { errno: ENOSPC, classes: DATA | SYNC | NAME },
  EACCES: { errno: EACCES, classes: OPEN | NAME },
  EMFILE: { errno: EMFILE, classes: OPEN },
  unsynced: { errno: EIO, classes: SYNC },
  torn: { errno: ENOSPC, classes: DATA },
} as const;

export type FaultName = keyof typeof FAULTS;

export interface Fault {
  readonly name: FaultName;
  /** So many calls that it could hit go through first. */
  readonly skip: number;
  readonly lasts: "once" | "until disarmed";
  /** The process dies there instead (kill -9). */
  readonly kills?: boolean;
}

interface Tally {
  readonly failed: number;
  /** The first call that failed, with its path: `fdatasync …/x.jsonl`. */
  readonly first: string;
  /** Writes, those that failed included. */
  readonly writes: number;
  /** How many calls each fault could have hit. */
  readonly reach: Readonly<Record<FaultName, number>>;
}

export interface FaultControl {
  arm(fault: Fault): void;
  /** From here on nothing fails. */
  disarm(): void;
  /** Since it was armed. */
  tally(): Tally;
  close(): void;
}

export interface IoFaults extends FaultControl, Disposable {
  /** For the process that is to meet them; HERALD_STATE_DIR says below which folder. */
  readonly env: Readonly<Record<string, string>>;
}

const COMPILER = process.env.CC ?? "cc";
const FOR_EVER = 0xffff_ffff;
const FAILED_AT = 24;
const SEEN_AT = 28;
const FIRST_AT = 44;
const SIZE = FIRST_AT + 256;

/** In words why this machine can't have a failing disk; null when it can. */
export function whyNoIoFaults(): string | null {
  if (process.platform !== "linux") return "calls can be made to fail on Linux only";
  return spawnSync(COMPILER, ["--version"]).status === 0 ? null : `there is no C compiler (${COMPILER})`;
}

export function createIoFaults(): IoFaults {
  const folder = mkdtempSync(join(tmpdir(), "herald-io-faults-"));
  const library = join(folder, "io-faults.so");
  const path = join(folder, "control");
  execFileSync(COMPILER, ["-shared", "-fPIC", "-O1", "-Wall", "-o", library, join(import.meta.dirname, "io-faults.c"), "-ldl"]);
  writeFileSync(path, Buffer.alloc(SIZE));
  const control = openFaultControl(path);
  return {
    ...control,
    env: { LD_PRELOAD: library, IO_FAULTS_CONTROL: path },
    [Symbol.dispose]() {
      control.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** For a process that runs under the library itself: its control is at IO_FAULTS_CONTROL. */
export function openFaultControl(path: string): FaultControl {
  const fd = openSync(path, "r+");
  const put = (at: number, ...words: readonly number[]): void => {
    const bytes = Buffer.alloc(words.length * 4);
    for (const [i, word] of words.entries()) bytes.writeUInt32LE(word >>> 0, i * 4);
    writeSync(fd, bytes, 0, bytes.length, at);
  };
  return {
    arm({ name, skip, lasts, kills = false }) {
      writeSync(fd, Buffer.alloc(SIZE), 0, SIZE, 0);
      const isTorn = name === "torn";
      // The first call of a torn write succeeds by half, the second is refused.
      const calls = isTorn ? 2 : 1;
      put(4, skip, lasts === "once" ? calls : FOR_EVER, kills ? -1 : FAULTS[name].errno, isTorn ? 1 : 0);
      // Last: this is what arms it.
      put(0, FAULTS[name].classes);
    },
    disarm: () => put(0, 0),
    tally() {
      const bytes = Buffer.alloc(SIZE);
      readSync(fd, bytes, 0, SIZE, 0);
      return toTally(bytes);
    },
    close: () => closeSync(fd),
  };
}

function toTally(bytes: Buffer): Tally {
  const seen = [DATA, SYNC, OPEN, NAME].map((bit, i) => ({ bit, count: bytes.readUInt32LE(SEEN_AT + i * 4) }));
  const reachOf = (classes: number): number => seen.reduce((sum, { bit, count }) => sum + ((classes & bit) === 0 ? 0 : count), 0);
  const reach = Object.fromEntries(Object.entries(FAULTS).map(([name, { classes }]) => [name, reachOf(classes)]));
  const first = bytes.toString("utf8", FIRST_AT, bytes.indexOf(0, FIRST_AT));
  return { failed: bytes.readUInt32LE(FAILED_AT), first, writes: reachOf(DATA), reach: reach as Record<FaultName, number> };
}
