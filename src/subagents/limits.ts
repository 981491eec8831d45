// May this spawn happen? Depth, children and allowed agents, decided from the record alone (never from memory of the
// process), so a child that was resumed after a restart meets the same answer. Pure.
import type { Agent } from "../agents/agent.ts";

export interface SpawnAttempt {
  readonly requester: Agent;
  /** 0 in a main session. */
  readonly requesterDepth: number;
  readonly unfinishedChildren: number;
  /** What the caller asked for; undefined = its own agent. */
  readonly agentId: string | undefined;
  readonly knownAgents: readonly string[];
}

export type Admission =
  | { readonly ok: true; readonly agentId: string }
  | { readonly ok: false; readonly status: "forbidden" | "error"; readonly error: string };

/** The ids `agentId` may name: exactly what `agents_list` shows (SP4). */
export function allowedAgents(requester: Agent, known: readonly string[]): string[] {
  const { allowAgents } = requester.subagents;
  return known.filter((id) => id === requester.id || allowAgents.includes("*") || allowAgents.includes(id));
}

export function admit(attempt: SpawnAttempt): Admission {
  const { requester, requesterDepth } = attempt;
  const { maxSpawnDepth, maxChildren } = requester.subagents;
  if (requesterDepth >= maxSpawnDepth) {
    return forbid(
      `A sub-agent at depth ${requesterDepth} can't spawn: maximum delegation depth is ${maxSpawnDepth} (agents.defaults.subagents.maxSpawnDepth).`,
    );
  }
  const agentId = attempt.agentId ?? requester.id;
  const allowed = allowedAgents(requester, attempt.knownAgents);
  if (!allowed.includes(agentId)) {
    return forbid(
      `Agent "${agentId.slice(0, 80)}" can't be used here. Allowed: ${allowed.join(", ")} (agents.list[].subagents.allowAgents).`,
    );
  }
  if (attempt.unfinishedChildren >= maxChildren) {
    return forbid(
      `This session has ${attempt.unfinishedChildren} unfinished sub-agents, the most it may have (maxChildrenPerSession ${maxChildren}). Wait for one to end, or stop one with /subagents stop.`,
    );
  }
  return { ok: true, agentId };
}

const forbid = (error: string): Admission => ({ ok: false, status: "forbidden", error });
