// Runs that belong together (GR): sent out by one call, and through when enough of them are.
import type { Address } from "./address.ts";
import type { Person } from "./question.ts";
import { isUnfinished, type Run } from "./run.ts";

export interface Group {
  readonly id: string;
  readonly name: string;
  readonly rootKey: string;
  readonly requesterKey: string;
  readonly requesterSessionId: string;
  /** The run that sent them out; null: a main session did. */
  readonly requesterRunId: string | null;
  readonly address: Address;
  readonly person: Person | null;
  /** So many successes are enough; null: all have to end. */
  readonly enough: number | null;
  readonly announce: "together" | "each";
  /** The requester gets a turn of its own when it is complete (GR4). */
  readonly wakes: boolean;
  readonly state: "open" | "complete";
  readonly createdAt: number;
  readonly completedAt: number | null;
}

/** One that failed is no result: it is waited for the next one, until there is nobody left to wait for. */
export function isThrough({ enough }: Pick<Group, "enough">, members: readonly Pick<Run, "state">[]): boolean {
  const isEnough = enough !== null && members.filter(({ state }) => state === "done").length >= enough;
  return isEnough || members.every(({ state }) => !isUnfinished(state));
}
