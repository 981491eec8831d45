// Where a standing yes counts: in one chat, or as long as one run or turn goes on. Names only.
import type { Question } from "../core/question.ts";

export const chatScope = ({ rootKey }: Pick<Question, "rootKey">): string => `chat:${rootKey}`;

/** Of one generation: what goes on after its end asks anew. */
export const runScope = ({ runId, generation, turnId }: Pick<Question, "runId" | "generation" | "turnId">): string =>
  runId === null ? turnId : `run:${runId}:${generation}`;
