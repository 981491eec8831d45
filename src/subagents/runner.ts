// Handler of the lane `subagent`: one run from claim to end. queued → running → the child's turn → announce step →
// ended. A run found `running` at boot is taken up the same way: its transcript says how far it came. So is one that waited.
import type { TurnEnd } from "../agents/turn.ts";
import { abortAfter } from "../core/clock.ts";
import { errorText, isStorageError, publicErrorText } from "../core/errors.ts";
import { type Run, SUSPENDED, type Wait } from "../core/run.ts";
import { RELAXED } from "../stores/database.ts";
import { lock } from "../stores/lock-keys.ts";
import { childTurn } from "./child-turn.ts";
import { claim } from "./claiming.ts";
import { complete } from "./completion.ts";
import type { SubagentDeps } from "./deps.ts";
import { finishRun } from "./ending.ts";
import { duration } from "./figures.ts";
import { land, landedBefore } from "./landing.ts";
import type { Ending } from "./outcome.ts";
import { isAnswered } from "./recover.ts";
import { isDue, unfinishedChildren, waitingText } from "./waits.ts";

export interface Runner {
  /** For Lane.serve. */
  work(runId: string): Promise<void>;
  /** Ends all work without settling it: it is taken up at the next start. */
  suspend(): Promise<void>;
}

const STORAGE_RETRY_MS = 5_000;
const MAX_RETRY_MS = 5 * 60_000;
/** A run that fails this often on a disk that works has a broken file: it ends without it. */
const MAX_TRIES = 10;

/** A run at work in its slot, or one that waits for the disk without it: a disk that refuses takes no row that says so. */
interface Job {
  readonly runId: string;
  /** Aborts on a stop and on a shutdown. */
  readonly abort: AbortController;
  readonly signal: AbortSignal;
  isStarted: boolean;
  /** How often it failed on a disk that works. */
  tries: number;
}

export function createRunner(deps: SubagentDeps): Runner {
  const active = new Map<string, Job>();
  // Whoever stopped it has settled the row; from the commit on nothing of it may start any more (ST2).
  deps.bus.on((event) => {
    // Killed before it is rung, the row is found by recover.ts.
    if (event.type === "run.queued") {
      deps.failpoint("spawn.recorded");
      if (!event.isPlaced) deps.lane.ring(event.runId, event.requesterKey);
    }
    if (event.type === "bells.missed") void lookAfter(deps, active);
    if (event.type !== "run.ended" || event.state !== "stopped") return;
    deps.failpoint("stop.recorded");
    deps.lane.drop(event.runId);
    active.get(event.runId)?.abort.abort("stop");
  });
  return {
    async work(runId) {
      const known = active.get(runId);
      // One that was stopped while it waited for the disk may be another generation by now, which nobody has stopped.
      const job = known === undefined || known.signal.aborted ? createJob(runId) : known;
      active.set(runId, job);
      try {
        const waitMs = await carryOut(deps, job);
        if (waitMs !== null && !job.signal.aborted) {
          void comeBack(deps, job, waitMs);
          return;
        }
      } catch (error) {
        deps.log.error({ err: error, runId }, "a run can't be worked on");
      }
      active.delete(runId);
    },
    async suspend() {
      const left = [...active.keys()];
      // First: what one that goes on says it does would hide that it was put aside.
      for (const { abort } of active.values()) abort.abort("suspend");
      for (const id of left) {
        try {
          await deps.runs.setDoing(id, SUSPENDED);
        } catch (error) {
          deps.log.warn({ runId: id, reason: errorText(error) }, "a run is put aside without a note; it counts as a crash");
        }
      }
    },
  };
}

/** Stopped by another process whose bell was lost: then the row alone says so. */
async function lookAfter({ runs, log }: SubagentDeps, active: ReadonlyMap<string, Job>): Promise<void> {
  const jobs = [...active.values()];
  try {
    const stopped = await runs.stoppedAmong(jobs.map(({ runId }) => runId));
    for (const job of jobs) if (stopped.has(job.runId) && active.get(job.runId) === job) job.abort.abort("stop");
  } catch (error) {
    log.debug({ reason: errorText(error) }, "whether a run was stopped can't be looked at");
  }
}

function createJob(runId: string): Job {
  const abort = new AbortController();
  return { runId, abort, signal: abort.signal, isStarted: false, tries: 0 };
}

/**
 * Works until it is over or waits. A disk that refuses leaves the row as it was: the run waits in memory, without its slot, for
 * so many ms and until there is room, and is taken up again.
 */
async function carryOut(deps: SubagentDeps, job: Job): Promise<number | null> {
  for (;;) {
    try {
      if ((await workOnce(deps, job)) === "over") return null;
    } catch (error) {
      deps.log.error({ err: error, runId: job.runId }, "a run broke off");
      if (job.signal.aborted) return null;
      if (!isStorageError(error) && (await giveUp(deps, job, error))) return null;
      const waitMs = Math.min(STORAGE_RETRY_MS * 2 ** job.tries, MAX_RETRY_MS);
      if (await isWritable(deps, job)) job.tries++;
      if (job.tries >= MAX_TRIES && (await giveUp(deps, job, error, true))) return null;
      if (job.isStarted) return waitMs;
      // What never began keeps its place: else all that stands behind it would leave the lane, one after the other.
      await waitForDisk(deps, job, waitMs);
      if (job.signal.aborted) return null;
    }
  }
}

async function comeBack(deps: SubagentDeps, job: Job, waitMs: number): Promise<void> {
  await waitForDisk(deps, job, waitMs);
  // Also when it was stopped: whoever works on it then finds it ended, and lets go of it.
  deps.lane.ring(job.runId, job.runId, "front");
}

/**
 * Its last call is kept for before its first one. Not only by who starts it: killed in between it would have none. And not later: once
 * it has made a step nobody can tell a reserve that was never there from one that a last call has used up.
 */
async function workOn(deps: SubagentDeps, run: Run, signal: AbortSignal): Promise<TurnEnd> {
  if (run.steps === 0) await deps.payments.reserve(run, signal);
  return childTurn(deps, run, signal);
}

/** `again`: it waits no more, has something to put right, or there is something to read before it ends, which is new work. */
async function workOnce(deps: SubagentDeps, job: Job): Promise<"over" | "again"> {
  const run = await claim(deps, job);
  if (run === null) return "over";
  job.isStarted = true;
  const limit = await limitOf(deps, run);
  const ending = await workToEnd(deps, run, job, limit.signal).finally(limit.clear);
  if (typeof ending === "string") return ending;
  const left = await finishRun(deps, run, ending, job.signal);
  // Its steps may be used up, and its time: read without a further step it would never be answered.
  if (left === "over") return "over";
  await deps.runs.renewLimits(run.id);
  return "again";
}

/** Up to its end, which is not on record yet. */
async function workToEnd(deps: SubagentDeps, run: Run, job: Job, limit: AbortSignal): Promise<Ending | "over" | "again"> {
  const signal = AbortSignal.any([job.signal, limit]);
  const end = await workOn(deps, run, signal);
  if (job.signal.aborted) return "over";
  // Not by its own time: whoever ended it elsewhere has said so.
  if (end.outcome === "aborted" && !limit.aborted) return "over";
  if (end.outcome === "waiting") return rest(deps, run, end.waits ?? []);
  deps.failpoint("run.worked");
  // Without a step of its own: its last word was there.
  const isTakenUp = end.outcome === "done" && end.steps === run.steps;
  const landed = end.error?.kind === "refused" ? await land(deps, run, end, job.signal) : isTakenUp ? await landedBefore(deps, run) : null;
  const ending = landed ?? { ...endingOf(run, end), words: end.text, notice: end.notice, error: end.error };
  const completed = await complete(deps, run, ending, signal);
  if (job.signal.aborted) return "over";
  if (completed === "returned") return "again";
  // Its time ran out while it was checked: nobody knows whether they all pass.
  return limit.aborted && completed.as === "done" && completed.checks === undefined && run.params.checks !== undefined
    ? { ...completed, ...timedOut(run) }
    : completed;
}

/**
 * From here on only its row waits. Looked at in the transaction that says so: what ended between the turn's last look and the row
 * would ring a run that doesn't wait yet, and nobody would ring again.
 */
async function rest(deps: SubagentDeps, run: Run, calls: readonly Wait[]): Promise<"over" | "again"> {
  const waits: readonly Wait[] = calls.length > 0 ? calls : [{ for: "children" }];
  const isWaiting = await deps.db.transaction(
    [lock.tree(run.rootKey)],
    async (tx) => !(await isDue(deps, { ...run, waits })) && (await deps.runs.wait(tx, run.id, waits, await waitingText(deps, run, waits))),
    RELAXED,
  );
  if (isWaiting) deps.failpoint("run.waiting");
  return isWaiting ? "over" : "again";
}

/** Aborts when the run's time is over: a time on record, so that it goes on while nobody works on it (SP10). */
async function limitOf(deps: SubagentDeps, run: Run): Promise<{ readonly signal: AbortSignal; clear(): void }> {
  const over = new AbortController();
  if (run.deadlineAt === null) return { signal: over.signal, clear() {} };
  // Never more than the whole of it: the clock may have been set back since.
  const leftMs = Math.min(run.deadlineAt - deps.clock.now(), run.timeoutMs);
  if (leftMs > 0) return { signal: over.signal, clear: abortAfter(deps.clock, leftMs, over) };
  // Its last word came in time; only its end was not recorded before the process died or the disk refused.
  const isRead = (await deps.mail.listForRun(run.id)).length === 0;
  const isOver = isRead && (await isAnswered(deps, run)) && (await unfinishedChildren(deps.runs, run)) === 0;
  if (!isOver) over.abort("timeout");
  return { signal: over.signal, clear() {} };
}

function endingOf(run: Run, end: TurnEnd): Ending {
  switch (end.outcome) {
    case "done":
      return { as: "done", reason: null, incomplete: false };
    case "capped":
      return { as: "done", reason: end.reason, incomplete: true };
    case "error":
      return { as: "error", reason: end.reason, incomplete: false };
    // `waiting` is no end and doesn't come here.
    case "waiting":
    case "aborted":
      return timedOut(run);
  }
}

const timedOut = (run: Run): Ending => ({ as: "timeout", reason: `runTimeoutSeconds ${duration(run.timeoutMs)}`, incomplete: false });

/** Announced as an error. False: not even that could be recorded. */
async function giveUp(deps: SubagentDeps, { runId, signal }: Job, error: unknown, isLost = false): Promise<boolean> {
  try {
    const run = await deps.runs.get(runId);
    if (run !== null) await finishRun(deps, run, { as: "error", reason: publicErrorText(error), incomplete: false, isLost }, signal);
    return true;
  } catch (failure) {
    deps.log.error({ err: failure, runId }, "the end of a run could not be recorded");
    return false;
  }
}

/** Until there is room: before that every model call would be paid for and lost. */
async function waitForDisk(deps: SubagentDeps, job: Job, waitMs: number): Promise<void> {
  let ms = waitMs;
  do {
    await deps.clock.sleep(ms, job.signal);
    ms = STORAGE_RETRY_MS;
  } while (!job.signal.aborted && !(await isWritable(deps, job)));
}

async function isWritable(deps: SubagentDeps, { runId }: Job): Promise<boolean> {
  try {
    await deps.transcripts.probe();
    await deps.runs.setDoing(runId, "waiting for the disk");
    return true;
  } catch (error) {
    deps.log.warn({ runId, reason: errorText(error) }, "the disk still refuses to write; the run waits");
    return false;
  }
}
