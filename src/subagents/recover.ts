// After a restart: queued runs ring again; running ones are taken up from their transcripts, or given up after the
// second crash (or by config), which is announced too. Runs before the lanes start, so it sees the rows as they were.
import { standingOf } from "../agents/context.ts";
import { type Run, SUSPENDED } from "../core/run.ts";
import { type SubagentDeps, transcriptOfRun } from "./deps.ts";
import { breakOff } from "./ending.ts";

const MAX_CRASHES = 2;

/** Returns how many were requeued, resumed and given up. */
export function recoverRuns(deps: SubagentDeps): { queued: number; resumed: number; interrupted: number } {
  const counts = { queued: 0, resumed: 0, interrupted: 0 };
  // One transaction: a thousand unfinished runs must not cost a thousand syncs before the gateway is ready.
  deps.db.transaction(() => {
    for (const run of deps.runs.listUnfinished()) {
      if (run.state === "queued") {
        deps.lane.ring(run.id, run.requesterKey);
        counts.queued++;
        continue;
      }
      const crashed = run.doing !== SUSPENDED;
      // A requester that was given up has taken it along.
      if (!deps.runs.countResume(run.id, crashed)) continue;
      const reason = givesUp(deps, run, crashed);
      if (reason !== null) {
        breakOff(deps, { ...run, resumes: run.resumes + 1 }, { as: "interrupted", reason, incomplete: false });
        counts.interrupted++;
      } else {
        deps.lane.ring(run.id, run.requesterKey);
        counts.resumed++;
      }
    }
  });
  return counts;
}

/** Null: go on. Work whose last word stands in the transcript is never thrown away, however often the process died. */
function givesUp(deps: SubagentDeps, run: Run, crashed: boolean): string | null {
  const byConfig = deps.settings().onRestart === "interrupt";
  if (!byConfig && !(crashed && run.crashes + 1 >= MAX_CRASHES)) return null;
  if (isAnswered(deps, run)) return null;
  return byConfig ? "the gateway restarted" : "the gateway ended twice while it ran";
}

/** Its last word stands in the transcript. */
export function isAnswered(deps: SubagentDeps, run: Run): boolean {
  try {
    return standingOf(deps.transcripts.tail(transcriptOfRun(run), 200)).kind === "answered";
  } catch (error) {
    deps.log.error({ err: error, runId: run.id }, "the transcript can't be read");
    return false;
  }
}
