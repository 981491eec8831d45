// Waiting is a row: what a waiting run waits for, whether that has come, and who rings it then. A ring too many is harmless
// (the runner looks again), one that is lost with its process is made good by recover.ts.
import type { Clock } from "../core/clock.ts";
import type { AppEvent } from "../core/events.ts";
import { isUnfinished, type Run, type Wait } from "../core/run.ts";
import type { RunGlance } from "../stores/runs.ts";
import { haveEnded } from "./dependencies.ts";
import type { SubagentDeps } from "./deps.ts";

type WaitDeps = Pick<SubagentDeps, "runs" | "mail" | "clock" | "questions">;

/** Any of them: the others are asked again when the run goes on. */
export async function isDue(deps: WaitDeps, run: Run): Promise<boolean> {
  for (const wait of run.waits) if (await hasCome(deps, run, wait)) return true;
  return false;
}

async function hasCome(deps: WaitDeps, run: Run, wait: Wait): Promise<boolean> {
  if (wait.for === "after") return haveEnded(deps.runs, wait.ids);
  return wait.for === "children" ? (await newsOf(deps, run)) !== "later" : await isOver(deps, wait);
}

/** Is there something for the run to read, may something still come from its children, or neither? */
export async function newsOf({ runs, mail }: Pick<WaitDeps, "runs" | "mail">, run: Run): Promise<"mail" | "later" | "over"> {
  if ((await mail.listForRun(run.id)).length > 0 || (await mail.listNotes(run.sessionId)).length > 0) return "mail";
  return (await unfinishedChildren(runs, run)) > 0 ? "later" : "over";
}

export const unfinishedChildren = async (runs: WaitDeps["runs"], { id }: Run): Promise<number> =>
  (await runs.childrenOf(id)).filter((child) => isUnfinished(child.state)).length;

export interface OverDeps {
  readonly runs: Pick<SubagentDeps["runs"], "get">;
  readonly questions: Pick<SubagentDeps["questions"], "get">;
  readonly clock: Clock;
}

/** What a call waits for, at the latest until some time. */
export type TimedWait = Extract<Wait, { until: number }>;

/** Has what it waits for come, or is its time over? A run or a question that is on record no more will not come either. */
export async function isOver({ runs, questions, clock }: OverDeps, wait: TimedWait): Promise<boolean> {
  const now = clock.now();
  if (now >= wait.until) return true;
  if (wait.for === "answer") return (await questions.get(wait.id))?.state !== "open";
  // Before it began: the clock was set back, and nobody knows how much of its time is left.
  if (now < wait.since) return true;
  const ended: boolean[] = [];
  for (const id of wait.ids) ended.push(!isUnfinished((await runs.get(id))?.state ?? "done"));
  return wait.mode === "any" ? ended.includes(true) : !ended.includes(false);
}

/** As lists and the page show it. */
export async function waitingText({ runs }: Pick<WaitDeps, "runs">, run: Run, waits: readonly Wait[]): Promise<string> {
  if (waits.some((wait) => wait.for === "answer")) return WAITING_FOR_ANSWER;
  const awaited = new Set(waits.flatMap((wait) => (wait.for === "runs" ? wait.ids : [])));
  const count = awaited.size > 0 ? awaited.size : await unfinishedChildren(runs, run);
  return `waiting for ${count} sub-agent${count === 1 ? "" : "s"}`;
}

const WAITING_FOR_ANSWER = "waiting for an answer";

/** Somebody is asked: nothing goes on without a person (QA2). */
export const needsPerson = ({ state, waits }: Pick<Run, "state" | "waits">): boolean =>
  state === "waiting" && waits.some((wait) => wait.for === "answer");

export interface Waker {
  /** From now on whoever waits is rung when something ended or was sent that it may wait for, and when its time is over. */
  start(): void;
  stop(): void;
}

export function createWaker(deps: Pick<SubagentDeps, "runs" | "bus" | "clock" | "lane" | "log">): Waker {
  const stopped = new AbortController();
  let alarm = new AbortController();
  const ring = ({ id, requesterKey }: Pick<Run, "id" | "requesterKey">): void => deps.lane.ring(id, requesterKey, "front");
  /** Whoever may wait for this one: those above it, and what was to begin after it. */
  const ringAround = async (runId: string): Promise<void> => {
    // What anybody above sent out, too: a run further down may be named by its id.
    for (let run = await deps.runs.glance(runId); run !== null; run = await requesterOf(deps, run)) {
      if (run.id !== runId && run.state === "waiting") ring(run);
      // It has had no turn yet, so it takes its place behind the others.
      for (const { id, waits, requesterKey } of await deps.runs.listWaitingOf(run.requesterKey))
        if (waits.some((wait) => wait.for === "after" && wait.ids.includes(runId))) deps.lane.ring(id, requesterKey);
    }
  };
  /** One timer for all of them: the rows know the times. It never sleeps long: a look may fail. */
  const setAlarm = async (): Promise<void> => {
    alarm.abort();
    alarm = new AbortController();
    const signal = AbortSignal.any([alarm.signal, stopped.signal]);
    while (!signal.aborted) await deps.clock.sleep(await wakeDue(), signal);
  };
  /** Rings those whose time has come; returns how long until it is worth another look. */
  const wakeDue = async (): Promise<number> => {
    try {
      const { due, nextAt } = await deps.runs.listWakeDue(deps.clock.now());
      for (const run of due) ring(run);
      return nextAt === null ? MAX_SLEEP_MS : lookAgainMs(nextAt - deps.clock.now());
    } catch (error) {
      deps.log.error({ err: error }, "waiting runs could not be looked at");
      return MAX_SLEEP_MS;
    }
  };
  return {
    start() {
      const ringWaiting = async (runId: string | null): Promise<void> => {
        const run = runId === null ? null : await deps.runs.get(runId);
        if (run?.state === "waiting") ring(run);
      };
      const look = (event: AppEvent): Promise<void> | null => {
        if (event.type === "run.changed" && event.state === "waiting") void setAlarm();
        if (event.type === "run.mail" || event.type === "question.changed") return ringWaiting(event.runId);
        return event.type === "run.ended" ? ringAround(event.runId) : null;
      };
      // Its stores may be closed by now; at the next start everybody is looked at.
      const unlessStopped = (error: unknown): void => {
        if (!stopped.signal.aborted) throw error;
      };
      const off = deps.bus.on((event) => look(event)?.catch(unlessStopped), "here");
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

const requesterOf = async ({ runs }: Pick<WaitDeps, "runs">, { requesterRunId }: RunGlance): Promise<RunGlance | null> =>
  requesterRunId === null ? null : await runs.glance(requesterRunId);
