// What the page knows of runs. The source is an argument (the run store adapted by app.ts), so the page depends on
// this short view and not on the record.
import { type DeliveryState, isUnfinished, type RunState } from "../core/run.ts";

export interface RunView {
  readonly id: string;
  readonly shortId: string;
  readonly label: string;
  readonly state: RunState;
  readonly delivery: DeliveryState;
  readonly requesterKey: string;
  /** The page's chat that asked for it; null when another channel did: then the page can watch it but not steer it. */
  readonly chat: string | null;
  readonly depth: number;
  readonly createdAt: number;
  readonly startedAt: number | null;
  readonly endedAt: number | null;
  readonly doing: string | null;
  readonly tokens: number | null;
  readonly costUsd: number | null;
  /** Place in the queue, from 1; null when it does not wait. */
  readonly position: number | null;
}

export interface Board {
  listRuns(options: { limit: number }): readonly RunView[];
}

/** Those that need a person first, then unfinished ones, then the rest; newest first within each. */
export function orderRuns(runs: readonly RunView[]): RunView[] {
  const rank = (run: RunView) => (run.delivery === "blocked" ? 0 : isUnfinished(run.state) ? 1 : 2);
  return [...runs].sort((a, b) => rank(a) - rank(b) || b.createdAt - a.createdAt);
}
