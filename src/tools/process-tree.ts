// The processes below one we started, read from /proc: to watch what a command uses and to end all of it (ST2).
// Only ever reaches descendants, or processes that carry a mark we put into their environment; nothing goes by name.
import { readdirSync, readFileSync } from "node:fs";

const MAX_ROUNDS = 5;
const MAX_PROCESSES = 4096;
/** bwrap, its first process inside, and the command. */
const SANDBOX_PROCESSES = 3;

/** Pids below `pid`, nearest first, at most `limit`. Empty on systems without /proc. */
export function listDescendants(pid: number, limit: number): number[] {
  const found: number[] = [];
  const waiting = [pid];
  for (let next = waiting.shift(); next !== undefined && found.length < limit; next = waiting.shift()) {
    for (const child of childrenOf(next)) {
      found.push(child);
      waiting.push(child);
    }
  }
  return found.slice(0, limit);
}

/** Memory held by these processes, and by the kernel to find it; pages shared between them count for each. */
export function residentBytes(pids: readonly number[]): number {
  // A page read here and there over a huge mapping is one page of zeros, but each time a page of tables.
  const fields = pids.flatMap((pid) => [...readProc(`${pid}/status`).matchAll(/^(?:VmRSS|VmPTE):\s+(\d+) kB/gm)]);
  return fields.reduce((sum, [, kilobytes]) => sum + Number(kilobytes) * 1024, 0);
}

/**
 * Ends a process group and what belongs to it. With a mark: everything below the leader, and whatever carries the mark
 * in its environment (a `setsid` child whose parent is gone is in neither group nor tree). Without: the leader is the
 * sandbox, whose first process takes its whole pid namespace along, so nobody has to be hunted down through a fork bomb.
 * The leader must still be unreaped, or its id could be someone else's.
 */
export function killTree(leader: number, mark: string | undefined): void {
  const targets = mark === undefined ? listDescendants(leader, SANDBOX_PROCESSES) : freezeTree(leader, mark);
  sendSignal(-leader, "SIGKILL");
  for (const pid of targets) sendSignal(pid, "SIGKILL");
}

// Frozen first: while some are killed, others could start new ones.
function freezeTree(leader: number, mark: string): Set<number> {
  const frozen = new Set<number>();
  for (let round = 0; round < MAX_ROUNDS; round += 1) {
    const fresh = [...listDescendants(leader, MAX_PROCESSES), ...listMarked(mark)].filter((pid) => !frozen.has(pid));
    if (fresh.length === 0) break;
    for (const pid of fresh) {
      sendSignal(pid, "SIGSTOP");
      frozen.add(pid);
    }
  }
  return frozen;
}

/** Ends what a finished command left running, found by its mark alone. */
export function killMarked(mark: string): void {
  for (let round = 0; round < MAX_ROUNDS; round += 1) {
    const left = listMarked(mark);
    if (left.length === 0) return;
    for (const pid of left) sendSignal(pid, "SIGKILL");
  }
}

/** Is this the first process of a namespace of its own, and not ended? Its number may be somebody else's by now. */
export function isFirstAlive(pid: string): boolean {
  const status = readProc(`${pid}/status`);
  return /^NSpid:.*\t1$/m.test(status) && !/^State:\s+[ZX]/m.test(status);
}

function listMarked(mark: string): number[] {
  const pids = readFolder("").filter((name) => /^\d+$/.test(name));
  return pids.filter((pid) => readProc(`${pid}/environ`).includes(mark)).map(Number);
}

function childrenOf(pid: number): number[] {
  const children = readFolder(`${pid}/task`).map((thread) => readProc(`${pid}/task/${thread}/children`));
  return children.join(" ").split(" ").filter(Boolean).map(Number);
}

function sendSignal(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    // Already gone, which is what was wanted; or changed its user, and then it is not ours to end.
    const code = (error as NodeJS.ErrnoException).code;
    if (code !== "ESRCH" && code !== "EPERM") throw error;
  }
}

// A process can end between two reads, and another user's can't be read: both simply have nothing to tell.
function readProc(path: string): string {
  try {
    return readFileSync(`/proc/${path}`, "latin1");
  } catch {
    return "";
  }
}

function readFolder(path: string): string[] {
  try {
    return readdirSync(`/proc/${path}`);
  } catch {
    return [];
  }
}
