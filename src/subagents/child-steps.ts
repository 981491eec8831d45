// What every model call of a child has in common: the steps of its turn and the announce step are made from this one object,
// so that the latter is, byte for byte, one more call of the same conversation (AN8).
import type { Agent } from "../agents/agent.ts";
import type { SteppingTurn } from "../agents/model-step.ts";
import type { Run } from "../core/run.ts";
import type { Account, Purse } from "../core/usage.ts";
import { PASSING } from "../stores/database.ts";
import { childFallbacks, childTools } from "./child.ts";
import { type SubagentDeps, transcriptOfRun } from "./deps.ts";

export type StepDeps = Pick<SubagentDeps, "agents" | "tools" | "childPrompt" | "db" | "sessions" | "runs">;

/** What it pays from; undefined: nothing limits it. */
export interface Paying {
  readonly signal: AbortSignal;
  readonly purse: Purse | undefined;
}
export type ChildSteps = Omit<SteppingTurn, "onText" | "onThoughts" | "onDoing">;

/** `agent` is the one it began under; a changed config counts from the next step on. */
export function childSteps(deps: StepDeps, run: Run, agent: Agent, { signal, purse }: Paying): ChildSteps {
  const now = (): Agent => deps.agents.find(run.agentId) ?? agent;
  const tools = () => childTools(deps.tools(), now(), run);
  return {
    ref: transcriptOfRun(run),
    model: run.model,
    fallbacks: childFallbacks(agent, run.model),
    thinking: run.thinking,
    signal,
    tools,
    prompt: (given) => deps.childPrompt(now(), run, given),
    account: childAccount(deps, run, purse),
  };
}

/** Of all that a child has a model do. */
export const childAccount = (deps: Pick<StepDeps, "db" | "sessions" | "runs">, run: Run, purse: Purse | undefined): Account => ({
  ...(purse === undefined ? {} : { purse }),
  settle: (spend, model) =>
    deps.db.transaction(
      [],
      async (tx) => {
        await deps.sessions.addSpend(tx, { ...run, id: run.sessionId }, model, spend, run.person);
        await deps.runs.addSpend(tx, run.id, spend);
      },
      PASSING,
    ),
});
