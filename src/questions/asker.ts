// Is whoever asked still there to read the answer? A run in the generation that asked, a turn whose message is not answered yet.
// Looked at in the transaction that rests on it, under the lock of the tree: a stop in between would be overlooked otherwise.
import type { Question } from "../core/question.ts";
import { isUnfinished, type Run } from "../core/run.ts";
import type { Runs } from "../stores/runs.ts";

export interface AskerDeps {
  readonly runs: Pick<Runs, "get">;
  /** The message this turn answers is still being worked on, or the process of this call is alive. */
  isTurnOpen(turnId: string): Promise<boolean>;
}

/** Who asks, and in which of its generations. */
export type Asker = Pick<Question, "runId" | "generation" | "turnId">;

/** Of what an open call asks: it lives no longer than its process. */
export const callTurn = (bootId: string, turnId: string): string => `call:${bootId}:${turnId}`;
/** The boot id in it; null: it is a turn. */
export const bootOfCall = (turnId: string): string | null => /^call:([^:]+):/.exec(turnId)?.[1] ?? null;

export async function isAskerThere({ runs, isTurnOpen }: AskerDeps, { runId, generation, turnId }: Asker): Promise<boolean> {
  if (runId === null || bootOfCall(turnId) !== null) {
    if (!(await isTurnOpen(turnId))) return false;
    if (runId === null) return true;
  }
  const run = await runs.get(runId);
  return run !== null && isUnfinished(run.state) && run.generation === generation;
}

/** So is what it sends out: it was not to be seen in the chat at all. */
export async function isSilent({ runs }: Pick<AskerDeps, "runs">, asker: Run | null): Promise<boolean> {
  for (let run = asker; run !== null; run = run.requesterRunId === null ? null : await runs.get(run.requesterRunId))
    if (run.announce === "silent") return true;
  return false;
}
