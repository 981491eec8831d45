// Keeps each run's documents (run-documents.ts) up with its row: an event of a run ⇒ look at the row ⇒ write what is
// missing, a moment later. Doing it again changes nothing, so what a crash left undone is made good at the next look or
// at the next start; a failure is logged and never reaches the run.
import type { TraceEntry } from "../brief/trace.ts";
import type { Clock } from "../core/clock.ts";
import type { Bus } from "../core/events.ts";
import { isUnfinished, type Run } from "../core/run.ts";
import { listTrace, type RunDocumentDeps, writeDocuments } from "./run-documents.ts";

export interface DocumentDeps extends RunDocumentDeps {
  readonly bus: Bus;
  readonly clock: Clock;
}

export interface Documents {
  /** Makes good what a crash left undone and follows the runs from now on, from when they start to work, a moment behind. */
  start(): void;
  /** Follows no more; resolves when all that waited is written. Never rejects. */
  stop(): Promise<void>;
  /** Who did what when, as far as the child's trace tells, in time order: the newest entries. */
  trace(run: Run, limit: number): readonly TraceEntry[];
}

const MAX_BACKLOG = 1_000;
/** A run that ends sooner has all its documents written at once. */
const PATIENCE_MS = 500;

export function createDocuments(deps: DocumentDeps): Documents {
  const queue = createQueue(deps);
  /** Those at work: most events only say what they do now. */
  const working = new Set<string>();
  const stopping = new AbortController();
  let unsubscribe = (): void => {};
  const follow = async (runId: string): Promise<void> => {
    working.add(runId);
    await deps.clock.sleep(PATIENCE_MS, stopping.signal);
    if (working.has(runId) && !stopping.signal.aborted) queue.add(runId);
  };
  return {
    start() {
      for (const run of deps.runs.listUndocumented(MAX_BACKLOG)) queue.add(run.id);
      unsubscribe = deps.bus.on((event) => {
        if (event.type === "run.ended") {
          working.delete(event.runId);
          queue.add(event.runId);
        }
        if (event.type === "run.changed" && event.state === "running" && !working.has(event.runId)) void follow(event.runId);
      });
    },
    stop() {
      unsubscribe();
      stopping.abort();
      for (const runId of working) queue.add(runId);
      return queue.idle();
    },
    trace: (run, limit) => listTrace(deps, run, limit),
  };
}

interface Queue {
  add(runId: string): void;
  /** Resolves when nothing waits. */
  idle(): Promise<void>;
}

/** One run after the other, so that no two write the same trace; what has ended is ticked off once nothing waits. */
function createQueue(deps: DocumentDeps): Queue {
  const waiting = new Set<string>();
  let working: Promise<void> | null = null;

  const work = async (): Promise<void> => {
    const written: { id: string; generation: number }[] = [];
    for (const runId of waiting) {
      waiting.delete(runId);
      const done = await writeOne(deps, runId);
      if (done !== null) written.push(done);
    }
    working = null;
    if (written.length > 0) tickOff(deps, written);
  };
  return {
    add(runId) {
      waiting.add(runId);
      // Not at once: whatever is being committed or answered now goes first.
      working ??= new Promise<void>((resolve) => setImmediate(resolve)).then(work);
    },
    async idle() {
      while (working !== null) await working;
    },
  };
}

/** The run and generation whose last document was written, null when there is more to come or it failed. Never rejects. */
async function writeOne(deps: DocumentDeps, runId: string): Promise<{ id: string; generation: number } | null> {
  try {
    const run = deps.runs.get(runId);
    if (run === null) return null;
    await writeDocuments(deps, run);
    return isUnfinished(run.state) ? null : { id: run.id, generation: run.generation };
  } catch (error) {
    deps.log.error({ err: error, runId }, "the documents of a run could not be written");
    return null;
  }
}

function tickOff(deps: DocumentDeps, written: readonly { id: string; generation: number }[]): void {
  try {
    deps.runs.setDocumented(written);
  } catch (error) {
    deps.log.error(
      { err: error, runs: written.length },
      "written documents could not be ticked off; they are written again at the next start",
    );
  }
}
