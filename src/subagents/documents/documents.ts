// Keeps each run's documents (run-documents.ts) up with its row: an event of a run ⇒ look at the row ⇒ write what is
// missing, a moment later. Doing it again changes nothing, so what a crash left undone is made good at the next look or
// at the next start; what the disk refused is tried again, and a failure never reaches the run.
import type { TraceEntry } from "../../brief/trace.ts";
import { type Clock, callAfter } from "../../core/clock.ts";
import type { Bus } from "../../core/events.ts";
import { onFirstUse } from "../../core/first-use.ts";
import { isUnfinished, type Run } from "../../core/run.ts";
import { MAX_DEATHS, type Tries } from "../../stores/tries.ts";
import type { RunDocumentDeps } from "./run-documents.ts";

export interface DocumentDeps extends RunDocumentDeps {
  readonly bus: Bus;
  readonly clock: Clock;
  readonly tries: Tries;
}

export interface Documents {
  /** Follows the runs of this process from now on, from when they start to work, a moment behind. */
  start(): void;
  /** Makes good what a crash left undone. */
  takeUp(): Promise<void>;
  /**
   * Follows no more; resolves when all that waited is written, or its time is over and the run at hand done: the rows of the
   * others say that they are not documented, so the next start writes them. Never rejects.
   */
  stop(): Promise<void>;
  /** Who did what when, as far as the child's trace tells, in time order: the newest entries. */
  trace(run: Run, limit: number): Promise<readonly TraceEntry[]>;
}

const MAX_BACKLOG = 1_000;
/** A run that ends sooner has all its documents written at once. */
const PATIENCE_MS = 500;
/** Hundreds of runs that a stop ended at once would hold the end of the process up. */
const STOP_MS = 2_000;
const FIRST_RETRY_MS = 5_000;
const MAX_RETRY_MS = 3_600_000;

/** With what writes them: most starts see no run. */
interface WritingDeps extends DocumentDeps {
  writing(): Promise<typeof import("./run-documents.ts")>;
}

export function createDocuments(given: DocumentDeps): Documents {
  const deps: WritingDeps = { ...given, writing: onFirstUse(() => import("./run-documents.ts")) };
  const stopping = new AbortController();
  /** What an earlier process left undone: its files may be what ended it. */
  const left = new Set<string>();
  const queue = createQueue(deps, left, stopping.signal);
  /** Those at work, and what ends their wait: most events only say what they do now. */
  const working = new Map<string, () => void>();
  let unsubscribe = (): void => {};
  const letGo = (runId: string): void => {
    working.get(runId)?.();
    working.delete(runId);
  };
  return {
    async takeUp() {
      for (const run of await deps.runs.listUndocumented(MAX_BACKLOG)) {
        left.add(run.id);
        queue.add(run.id);
      }
    },
    start() {
      unsubscribe = deps.bus.on((event) => {
        if (event.type === "run.ended") {
          letGo(event.runId);
          queue.add(event.runId);
        }
        if (event.type === "run.changed" && event.state === "running" && !working.has(event.runId))
          working.set(
            event.runId,
            callAfter(deps.clock, PATIENCE_MS, () => queue.add(event.runId)),
          );
      }, "here");
    },
    async stop() {
      unsubscribe();
      stopping.abort();
      for (const runId of [...working.keys()]) {
        letGo(runId);
        queue.add(runId);
      }
      const done = new AbortController();
      void deps.clock.sleep(STOP_MS, done.signal).then(queue.drop);
      await queue.idle();
      done.abort();
    },
    async trace(run, limit) {
      const { listTrace } = await deps.writing();
      return listTrace(deps, run, limit);
    },
  };
}

interface Queue {
  add(runId: string): void;
  /** Resolves when nothing waits. */
  idle(): Promise<void>;
  /** Leaves what waits for the next start. */
  drop(): void;
}

/** One run after the other, so that no two write the same trace; what has ended is ticked off once nothing waits. */
function createQueue(deps: WritingDeps, left: Set<string>, stopping: AbortSignal): Queue {
  const waiting = new Set<string>();
  /** How long the next try of a run waits that failed before. */
  const waits = new Map<string, number>();
  let working: Promise<void> | null = null;

  const add = (runId: string): void => {
    // To the end of the queue: a run that has ended comes after those below it.
    waiting.delete(runId);
    waiting.add(runId);
    // Not at once: whatever is being committed or answered now goes first.
    working ??= new Promise<void>((resolve) => setImmediate(resolve)).then(work);
  };
  const tryLater = async (runId: string): Promise<void> => {
    const waitMs = waits.get(runId) ?? FIRST_RETRY_MS;
    waits.set(runId, Math.min(waitMs * 2, MAX_RETRY_MS));
    await deps.clock.sleep(waitMs, stopping);
    if (!stopping.aborted) add(runId);
  };
  const work = async (): Promise<void> => {
    const written: Written[] = [];
    for (const runId of waiting) {
      waiting.delete(runId);
      const done = left.delete(runId) ? await writeLeft(deps, runId) : await writeOne(deps, runId);
      if (done === "failed") void tryLater(runId);
      else waits.delete(runId);
      if (typeof done === "object") written.push(done);
    }
    if (written.length > 0 && !(await tickOff(deps, written))) for (const { id } of written) void tryLater(id);
    // What was added while they were ticked off.
    working = waiting.size === 0 ? null : work();
  };
  return {
    add,
    async idle() {
      while (working !== null) await working;
    },
    drop: () => waiting.clear(),
  };
}

interface Written {
  readonly id: string;
  readonly generation: number;
}

/** The run and generation whose last document was written, `more` when it goes on. Never rejects. */
async function writeOne(deps: WritingDeps, runId: string): Promise<Written | "more" | "failed"> {
  try {
    const run = await deps.runs.get(runId);
    if (run === null) return "more";
    const { writeDocuments } = await deps.writing();
    await writeDocuments(deps, run);
    return isUnfinished(run.state) ? "more" : { id: run.id, generation: run.generation };
  } catch (error) {
    deps.log.error({ err: error, runId }, "the documents of a run could not be written");
    return "failed";
  }
}

/** The try is on record before the files are read. After so many deaths they are left as they are, and ticked off. Never rejects. */
async function writeLeft(deps: WritingDeps, runId: string): ReturnType<typeof writeOne> {
  const work = `documents:${runId}`;
  try {
    const deaths = await deps.tries.begin(work);
    const run = await deps.runs.get(runId);
    if (deaths < MAX_DEATHS || run === null) return await writeOne(deps, runId);
    deps.log.error({ runId, deaths }, "writing the documents of a run ends the gateway; they are left as they are");
    return { id: run.id, generation: run.generation };
  } catch (error) {
    deps.log.error({ err: error, runId }, "the documents of a run could not be written");
    return "failed";
  } finally {
    await forget(deps, work);
  }
}

/** Left standing it counts once too often, which is all. */
async function forget(deps: DocumentDeps, work: string): Promise<void> {
  try {
    await deps.tries.end(work);
  } catch (error) {
    deps.log.warn({ err: error, work }, "a try that came to its end could not be struck off");
  }
}

async function tickOff(deps: DocumentDeps, written: readonly Written[]): Promise<boolean> {
  try {
    await deps.runs.setDocumented(written);
    return true;
  } catch (error) {
    deps.log.error({ err: error, runs: written.length }, "written documents could not be ticked off; they are written again");
    return false;
  }
}
