// After a restart, or the end of another process: queued runs ring again; running ones are taken up from their transcripts, or
// given up after the second crash (or by config), which is announced too. At a start it runs before the lanes do, so it sees the
// rows as they were.
// Whatever is tried here may be what ended the last process. So every crash is on record before anything of the run is
// touched, and each further one makes the attempt smaller: go on → end it from its last words → end the row and say so → the
// row alone.
import { standingOf } from "../agents/context.ts";
import { isUnbegun, isUnfinished, type Run, SUSPENDED } from "../core/run.ts";
import { MAX_DEATHS, MAX_WORDLESS } from "../stores/tries.ts";
import { type SubagentDeps, transcriptOfRun } from "./deps.ts";
import { endNow, endUnread } from "./ending.ts";
import { isTyped } from "./typed-result.ts";
import { isDue } from "./waits.ts";

/** Of a run that has not said its last word. */
const MAX_CRASHES = 2;

/** How many were requeued, resumed and given up. */
export interface Recovered {
  queued: number;
  resumed: number;
  interrupted: number;
}

/**
 * At a start: all that is unfinished. Among other processes it is nobody's start: what waits or is queued has lost nothing but perhaps
 * a ring, with whoever was to ring.
 */
export async function recoverRuns(deps: SubagentDeps): Promise<Recovered> {
  const left = await deps.runs.listUnfinished();
  if (deps.isShared !== true) return takeUp(deps, left);
  for (const run of left) await ring(deps, run);
  return recoverOrphans(deps);
}

/** Later: what the end of another process left running. */
export const recoverOrphans = async (deps: SubagentDeps): Promise<Recovered> => takeUp(deps, await deps.runs.listOrphaned());

/** Of several processes, at any time: a ring is a row of its own there, and may be lost with whoever was to write it. */
export async function ringUnrung(deps: SubagentDeps): Promise<void> {
  for (const id of (await deps.lane.unrung?.()) ?? []) {
    const run = await deps.runs.get(id);
    if (run === null || (run.state !== "queued" && run.state !== "waiting")) continue;
    await ring(deps, run);
  }
}

async function takeUp(deps: SubagentDeps, left: readonly Run[]): Promise<Recovered> {
  const counts = { queued: 0, resumed: 0, interrupted: 0 };
  const own = new Set<string>();
  // One transaction: a thousand unfinished runs must not cost a thousand syncs before the gateway is ready.
  await deps.db.transaction([], async (tx) => {
    for (const run of left) if (run.state !== "running" || (await deps.runs.putAside(tx, run.id, hasCrashed(run)))) own.add(run.id);
  });
  const goesOn: Run[] = [];
  for (const run of left.filter(({ id }) => own.has(id))) {
    const counted = await deps.runs.get(run.id);
    // A requester that was given up has taken it along.
    if (counted === null || !isUnfinished(counted.state)) continue;
    // What waits has lost nothing: only its process is another one now.
    if (!isUnbegun(run) && (await giveUp(deps, counted, run.state === "running" && hasCrashed(run)))) counts.interrupted++;
    else goesOn.push(run);
  }
  await deps.db.transaction([], async (tx) => {
    for (const run of goesOn) {
      // Only now: what was given up was not resumed, and its announcement must not say so.
      if (!isUnbegun(run)) await deps.runs.countResume(tx, run.id);
      counts[isUnbegun(run) ? "queued" : "resumed"]++;
    }
  });
  for (const run of goesOn) await ring(deps, run);
  return counts;
}

async function ring(deps: SubagentDeps, { ...run }: Run): Promise<void> {
  if (run.state === "running" && deps.isShared === true && !(await deps.runs.isOwn(run.id))) return;
  if (run.state === "waiting" && !(await isDue(deps, run))) return;
  if (run.state !== "waiting" || isUnbegun(run)) deps.lane.ring(run.id, run.requesterKey);
  else deps.lane.ring(run.id, run.requesterKey, "front");
}

const hasCrashed = ({ doing }: Run): boolean => doing !== SUSPENDED;

/** False: it goes on. Work whose last word stands in the transcript is not thrown away, however often the process died. */
async function giveUp(deps: SubagentDeps, run: Run, crashed: boolean): Promise<boolean> {
  const byConfig = deps.settings().onRestart === "interrupt";
  if (!byConfig && !(crashed && run.crashes >= MAX_CRASHES)) return false;
  // No longer put aside: if the process ends at what follows, that is one more crash of this run.
  await deps.runs.setDoing(run.id, "being ended");
  if (run.crashes > MAX_DEATHS) {
    const reason = `the gateway ended ${run.crashes} times at its end`;
    deps.log.error({ runId: run.id }, `a run is ended without a look at what it wrote: ${reason}`);
    await endUnread(deps, run, { reason, says: run.crashes <= MAX_WORDLESS });
    return true;
  }
  const answer = await lastWord(deps, run);
  const answered = answer !== "none";
  if (answered && run.crashes < MAX_DEATHS) {
    await deps.runs.setDoing(run.id, SUSPENDED);
    return false;
  }
  const times = run.crashes === MAX_CRASHES ? "twice" : `${run.crashes} times`;
  // Its word alone makes no success where it was to be checked (EV2), nor where data was to be handed in (TR1).
  const isProven = run.params.checks === undefined && (!isTyped(run.params) || run.data !== null);
  if (answered && isProven) {
    const isCut = answer === "cut";
    const words = isCut ? "these are the sub-agent's own last words, and they were cut short" : "these are the sub-agent's own last words";
    const reason = `The gateway ended ${times} while this was announced; ${words}.`;
    return endNow(deps, run, { as: "done", reason, incomplete: isCut, isLost: true });
  }
  const at = answered ? "it was checked" : "it ran";
  const reason = byConfig ? "the gateway restarted" : `the gateway ended ${times} while ${at}`;
  return endNow(deps, run, { as: "interrupted", reason, incomplete: false });
}

/** Its last word stands in the transcript, or its data in the row. */
export const isAnswered = async (deps: SubagentDeps, run: Run): Promise<boolean> => (await lastWord(deps, run)) !== "none";

/** `cut`: the provider ended it before it was whole. */
async function lastWord(deps: SubagentDeps, run: Run): Promise<"whole" | "cut" | "none"> {
  if (run.data !== null) return "whole";
  try {
    const standing = standingOf(await deps.transcripts.tail(transcriptOfRun(run), 200));
    if (standing.kind !== "answered") return "none";
    return standing.cut === undefined ? "whole" : "cut";
  } catch (error) {
    deps.log.error({ err: error, runId: run.id }, "the transcript can't be read");
    return "none";
  }
}
