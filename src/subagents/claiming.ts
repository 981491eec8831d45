// May this run be worked on now, and is it ours? Claimed in its row, begun after what it comes after, taken up where its transcript ends.
// runner.ts → here
import { isUnbegun, isUnfinished, type Run } from "../core/run.ts";
import { lock } from "../stores/lock-keys.ts";
import { RUNTIME } from "./completion.ts";
import { afterText, haveEnded, quoteBefore, whyNotBegun } from "./dependencies.ts";
import { type SubagentDeps, transcriptOfRun } from "./deps.ts";
import { finishRun } from "./ending.ts";
import { isAnswered } from "./recover.ts";
import { isDue } from "./waits.ts";

/** Null: there is nothing to do for it, or not yet. What is put aside meanwhile is left as it is: it counted as a crash otherwise. */
export async function claim(
  deps: SubagentDeps,
  { runId, signal }: { readonly runId: string; readonly signal: AbortSignal },
): Promise<Run | null> {
  const run = await deps.runs.get(runId);
  if (run === null || !isUnfinished(run.state) || signal.aborted) return null;
  if (isUnbegun(run) && run.params.after !== undefined && !(await mayBegin(deps, run, signal))) return null;
  if (run.state === "waiting" && !((await isDue(deps, run)) && !signal.aborted && (await deps.runs.wake(runId)))) return null;
  // First of all: from here on a process that ends at it is counted against it (recover.ts).
  if (run.state === "queued" && !(await deps.runs.start(runId))) return null;
  await deps.transcripts.ensure(transcriptOfRun(run));
  if (signal.aborted) return null;
  if (run.state === "running") await takeUp(deps, run);
  // Also of one that was begun: its process may have ended right here.
  await quoteBefore(deps, run);
  deps.failpoint("run.started");
  return deps.runs.get(runId);
}

/** One that comes after others: false as long as they work, or when one of them failed, which ends it. */
async function mayBegin(deps: SubagentDeps, run: Run, signal: AbortSignal): Promise<boolean> {
  if (run.state === "waiting" ? !(await isDue(deps, run)) : await isPutOff(deps, run)) return false;
  const reason = await whyNotBegun(deps, run);
  if (reason !== null) await deps.transcripts.ensure(transcriptOfRun(run));
  if (reason !== null) await finishRun(deps, run, { as: "error", reason, incomplete: false }, signal);
  return reason === null;
}

/**
 * All had ended when it was queued, and one of them was sent on since: begun now it would miss what it is to read. Under the lock of
 * whatever ends that one, or nobody would ring again.
 */
const isPutOff = async (deps: SubagentDeps, { id, rootKey, generation, params: { after } }: Run): Promise<boolean> =>
  after !== undefined &&
  generation === 1 &&
  !(await haveEnded(deps.runs, after.ids)) &&
  deps.db.transaction(
    [lock.tree(rootKey)],
    async (tx) =>
      !(await haveEnded(deps.runs, after.ids)) &&
      deps.runs.putOff(tx, id, [{ for: "after", ids: after.ids }], await afterText(deps.runs, after.ids)),
  );

/**
 * Again, after a restart, a disk that refused, or its own last word. Whoever wrote to it after that word was told that it
 * is read: its limits may be used up by then, so what it reads is new work, as it is for a run that has ended (SP10).
 */
async function takeUp(deps: SubagentDeps, run: Run): Promise<void> {
  await deps.runs.own(run.id);
  // What the runtime itself sent back belongs to the work that is under way.
  const isWrittenTo = (await deps.mail.listForRun(run.id)).some(({ from }) => from !== RUNTIME);
  if (isWrittenTo && (await isAnswered(deps, run))) await deps.runs.renewLimits(run.id);
}
