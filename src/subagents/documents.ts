// Keeps each run's documents (run-documents.ts) up with its row: an event of a run ⇒ look at the row ⇒ write what is
// missing, a moment later. Doing it again changes nothing, so what a crash left undone is made good at the next look or
// at the next start; a failure is logged and never reaches the run.
import type { TraceEntry } from "../brief/trace.ts";
import type { Bus } from "../core/events.ts";
import type { Logger } from "../core/logger.ts";
import { isUnfinished, type Run } from "../core/run.ts";
import { type PaperDeps, readTraceOf, writeDocuments } from "./run-documents.ts";

export interface DocumentDeps extends PaperDeps {
  readonly bus: Bus;
  readonly log: Logger;
}

export interface Documents {
  /** Makes good what a crash left undone and follows the runs from now on, a moment behind them. */
  start(): void;
  /** Writes all that waits and follows no more. Never throws. */
  stop(): void;
  /** Who did what when, as far as the child's trace tells, in time order. */
  trace(run: Run, limit: number): readonly TraceEntry[];
}

const MAX_BACKLOG = 1_000;

export function createDocuments(deps: DocumentDeps): Documents {
  const queue = createQueue(deps);
  /** The state in which an unfinished run was seen last: most events only say what it does now. */
  const seen = new Map<string, string>();
  let unsubscribe = (): void => {};
  return {
    start() {
      for (const run of deps.runs.listUndocumented(MAX_BACKLOG)) queue.add(run.id);
      unsubscribe = deps.bus.on((event) => {
        if (event.type === "run.ended") {
          seen.delete(event.runId);
          queue.add(event.runId);
        }
        if (event.type !== "run.changed") return;
        const run = deps.runs.get(event.runId);
        if (run === null || !isUnfinished(run.state)) return;
        const state = `${run.generation}:${run.state}`;
        if (seen.get(run.id) !== state) queue.add(run.id);
        seen.set(run.id, state);
      });
    },
    stop() {
      unsubscribe();
      queue.flush();
    },
    trace: (run, limit) => readTraceOf(deps, run).getEntries().slice(-limit),
  };
}

interface Queue {
  add(runId: string): void;
  /** Does everything now. */
  flush(): void;
}

/** One run at a time between other work; what is ended is ticked off in one transaction once nothing waits. */
function createQueue(deps: DocumentDeps): Queue {
  const waiting = new Set<string>();
  let written: { id: string; generation: number }[] = [];
  let scheduled: NodeJS.Immediate | null = null;

  const guarded = (about: object, work: () => void): void => {
    try {
      work();
    } catch (error) {
      deps.log.error({ err: error, ...about }, "the documents of a run could not be written");
    }
  };
  const takeOne = (): void => {
    const [runId] = waiting;
    if (runId === undefined) return;
    waiting.delete(runId);
    guarded({ runId }, () => {
      const run = deps.runs.get(runId);
      if (run === null) return;
      writeDocuments(deps, run);
      if (!isUnfinished(run.state)) written.push({ id: run.id, generation: run.generation });
    });
    if (waiting.size > 0 || written.length === 0) return;
    const done = written;
    written = [];
    guarded({ runs: done.length }, () => deps.runs.setDocumented(done));
  };
  const tick = (): void => {
    scheduled = null;
    takeOne();
    if (waiting.size > 0) schedule();
  };
  const schedule = (): void => {
    scheduled ??= setImmediate(tick);
  };
  return {
    add(runId) {
      waiting.add(runId);
      schedule();
    },
    flush() {
      if (scheduled !== null) clearImmediate(scheduled);
      scheduled = null;
      while (waiting.size > 0) takeOne();
    },
  };
}
