// Which calls need a person's yes, by the settings of this moment: of a chat what its agent's policies name, of a sub-agent also what
// those of sub-agents name, and all that its requester would be asked for. Otherwise a spawn under another agent were a way around it (TL2).
import type { Agents } from "../agents/agent.ts";
import { type ApprovalNames, needsApproval } from "../agents/policy.ts";
import { agentIdOf } from "../core/ids.ts";
import type { ToolContext } from "../core/tool.ts";
import type { Runs } from "../stores/runs.ts";

export interface NeededDeps {
  readonly agents: Agents;
  readonly runs: Pick<Runs, "get">;
}

export function createNeedsYes(deps: NeededDeps): (tool: string, context: Pick<ToolContext, "agentId" | "runId">) => Promise<boolean> {
  return async (tool, { agentId, runId }) => {
    // Most installations name none: nothing is looked up for them.
    const isNamed = deps.agents
      .list()
      .some((agent) => needsApproval(agent.policies, tool) || needsApproval(agent.subagents.policies, tool));
    return isNamed && needsApproval(await namesFor(deps, agentId, runId), tool);
  };
}

async function namesFor(deps: NeededDeps, agentId: string, runId: string | null): Promise<readonly ApprovalNames[]> {
  const agent = deps.agents.find(agentId);
  const own = agent?.policies ?? [];
  const run = runId === null ? null : await deps.runs.get(runId);
  if (run === null) return own;
  const requesters = await namesFor(deps, agentIdOf(run.requesterKey), run.requesterRunId);
  return [...own, ...(agent?.subagents.policies ?? []), ...requesters];
}
