// Waiting is a row: what a waiting run waits for, whether that has come, and who rings it then. A ring too many is harmless
// (the runner looks again), one that is lost with its process is made good by recover.ts.
import type { Clock } from "../core/clock.ts";
import { isUnfinished, type Run, type Wait } from "../core/run.ts";
import type { SubagentDeps } from "./deps.ts";

type WaitDeps = Pick<SubagentDeps, "runs" | "mail" | "clock">;

/** Any of them: the others are asked again when the run goes on. */
export const isDue = (deps: WaitDeps, run: Run): boolean => run.waits.some((wait) => hasCome(deps, run, wait));

function hasCome(deps: WaitDeps, run: Run, wait: Wait): boolean {
  return wait.for === "children" ? newsOf(deps, run) !== "later" : isOver(deps, wait);
}

/** Is there something for the run to read, may something still come from its children, or neither? */
export function newsOf({ runs, mail }: Pick<WaitDeps, "runs" | "mail">, run: Run): "mail" | "later" | "over" {
  if (mail.listForRun(run.id).length > 0 || mail.listNotes(run.sessionId).length > 0) return "mail";
  return unfinishedChildren(runs, run) > 0 ? "later" : "over";
}

export const unfinishedChildren = (runs: WaitDeps["runs"], { id }: Run): number =>
  runs.childrenOf(id).filter((child) => isUnfinished(child.state)).length;

export interface OverDeps {
  readonly runs: Pick<SubagentDeps["runs"], "get">;
  readonly clock: Clock;
}

/** Have those it waits for ended, or is its time over? A run that is on record no more will not end either. */
export function isOver({ runs, clock }: OverDeps, wait: Extract<Wait, { for: "runs" }>): boolean {
  const now = clock.now();
  // Before it began: the clock was set back, and nobody knows how much of its time is left.
  if (now >= wait.until || now < wait.since) return true;
  const ended = wait.ids.map((id) => !isUnfinished(runs.get(id)?.state ?? "done"));
  return wait.mode === "any" ? ended.includes(true) : !ended.includes(false);
}

/** As lists and the page show it. */
export function waitingText({ runs }: Pick<WaitDeps, "runs">, run: Run, waits: readonly Wait[]): string {
  const awaited = new Set(waits.flatMap((wait) => (wait.for === "runs" ? wait.ids : [])));
  const count = awaited.size > 0 ? awaited.size : unfinishedChildren(runs, run);
  return `waiting for ${count} sub-agent${count === 1 ? "" : "s"}`;
}

export interface Waker {
  /** From now on whoever waits is rung when something ended or was sent that it may wait for, and when its time is over. */
  start(): void;
  stop(): void;
}

export function createWaker(deps: Pick<SubagentDeps, "runs" | "bus" | "clock" | "lane" | "log">): Waker {
  const stopped = new AbortController();
  let alarm = new AbortController();
  const ring = ({ id, requesterKey }: Pick<Run, "id" | "requesterKey">): void => deps.lane.ring(id, requesterKey, "front");
  const ringAncestors = (runId: string): void => {
    for (let run = requesterOf(deps, runId); run !== null; run = requesterOf(deps, run.id)) if (run.state === "waiting") ring(run);
  };
  /** One timer for all of them: the rows know the times. It never sleeps long: a look may fail. */
  const setAlarm = async (): Promise<void> => {
    alarm.abort();
    alarm = new AbortController();
    const signal = AbortSignal.any([alarm.signal, stopped.signal]);
    while (!signal.aborted) await deps.clock.sleep(wakeDue(), signal);
  };
  /** Rings those whose time has come; returns how long until it is worth another look. */
  const wakeDue = (): number => {
    try {
      const { due, nextAt } = deps.runs.listWakeDue(deps.clock.now());
      for (const run of due) ring(run);
      return nextAt === null ? MAX_SLEEP_MS : lookAgainMs(nextAt - deps.clock.now());
    } catch (error) {
      deps.log.error({ err: error }, "waiting runs could not be looked at");
      return MAX_SLEEP_MS;
    }
  };
  return {
    start() {
      const off = deps.bus.on((event) => {
        if (event.type === "run.ended") ringAncestors(event.runId);
        if (event.type === "run.mail") {
          const run = deps.runs.get(event.runId);
          if (run?.state === "waiting") ring(run);
        }
        if (event.type === "run.changed" && event.state === "waiting") void setAlarm();
      });
      stopped.signal.addEventListener("abort", off, { once: true });
      void setAlarm();
    },
    stop: () => stopped.abort("over"),
  };
}

/** A timer may be a millisecond early, and what is not taken up must not keep the process busy. */
const MIN_SLEEP_MS = 50;
/** The clock may be set meanwhile. */
const MAX_SLEEP_MS = 60_000;

/** How long to sleep when the time that is waited for is so far away. */
export const lookAgainMs = (leftMs: number): number => Math.min(MAX_SLEEP_MS, Math.max(MIN_SLEEP_MS, leftMs));

function requesterOf({ runs }: Pick<WaitDeps, "runs">, runId: string): Run | null {
  const requester = runs.get(runId)?.requesterRunId ?? null;
  return requester === null ? null : runs.get(requester);
}
