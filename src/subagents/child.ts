// What a child may do and starts with: its tools (policy ∩ role ∩ list ∩ the requester's own, asked at every call) and its
// first message. It starts blank: nothing of the requester's history comes along (SP3). What it is told: child-prompt.ts.

import type { Agent } from "../agents/agent.ts";
import { effectiveTools } from "../agents/policy.ts";
import type { Attachment } from "../core/attachment.ts";
import type { Run, SpawnParams } from "../core/run.ts";
import type { Tool } from "../core/tool.ts";
import { FINISH_TOOL, SESSION_TOOLS } from "../core/tool-names.ts";
import type { NewEntry } from "../stores/transcript-entry.ts";

import { PLAN_TOOL } from "./plan-tool.ts";
import { parseRole, type Role } from "./roles.ts";
import { isTyped } from "./typed-result.ts";

/** The stored role; it was checked at spawn, so a name this version doesn't know falls back to the weakest reading. */
export function roleOf(params: SpawnParams): Role | null {
  const parsed = parseRole(params.role, params.allowedTools);
  return parsed.ok ? parsed.role : null;
}

/** What a run's tools follow from. */
export type ToolScope = Pick<Run, "params" | "depth" | "toolCeiling">;

/** Tools of a run under the config of this moment; the ceiling stored at spawn holds whatever the config says now. */
export function childTools(tools: readonly Tool[], agent: Agent, run: ToolScope): Tool[] {
  const role = roleOf(run.params);
  const allowed = effectiveTools(tools, agent.policies, {
    maySpawn: maySpawn(agent, run),
    policies: agent.subagents.policies,
    capabilities: new Set(role?.capabilities ?? ["read"]),
    allowed: run.params.allowedTools ?? null,
    // No requester of its own has the plan tool, and it gives a child nothing its requester lacks.
    ceiling: [...run.toolCeiling, ...agent.subagents.grant, PLAN_TOOL],
  });
  const denied = [...(role?.deniedTools ?? []), ...(agent.subagents.planning ? [] : [PLAN_TOOL]), FINISH_TOOL];
  // Whatever the policies say: without it such a run could only fail. A requester that has it hands it on to nobody.
  const finish = isTyped(run.params) ? tools.filter((tool) => tool.name === FINISH_TOOL) : [];
  return [...allowed.filter((tool) => !denied.includes(tool.name)), ...finish];
}

const maySpawn = (agent: Agent, { depth }: ToolScope): boolean => depth < agent.subagents.maxSpawnDepth;

/** Null, or which of its `allowedTools` a child would not have, and why: left out silently, it would fail at its task instead. */
export function toolsOutOfReach(tools: readonly Tool[], agent: Agent, run: ToolScope): string | null {
  const { allowedTools } = run.params;
  if (allowedTools === undefined) return null;
  const within = childTools(tools, agent, run).map((tool) => tool.name);
  const beyond = allowedTools.filter((name) => !within.includes(name));
  if (beyond.length === 0) return null;
  const why = (name: string): string => {
    const tool = tools.find((one) => one.name === name);
    if (tool === undefined) return "there is no such tool";
    if (SESSION_TOOLS.has(name) && !maySpawn(agent, run)) return `it works at depth ${run.depth}, the maximum delegation depth`;
    const role = roleOf(run.params);
    if (role !== null && (role.deniedTools.includes(name) || !role.capabilities.includes(tool.capability)))
      return `role ${role.name} has no such tools`;
    return run.toolCeiling.includes(name) ? "the settings keep it from sub-agents" : "you don't have it yourself";
  };
  const every = { ...run, params: { ...run.params, allowedTools: tools.map((tool) => tool.name) } };
  const could = childTools(tools, agent, every).map((tool) => tool.name);
  const named = beyond.map((name) => `${name.slice(0, 100)} (${why(name)})`).join(", ");
  return `allowedTools names what this sub-agent can't have: ${named}. It can have: ${could.join(", ") || "nothing"}.`;
}

/** What a run falls back on: the list beside its model in the settings of sub-agents, else its agent's own (MO4). */
export function childFallbacks(agent: Agent, model: string): readonly string[] {
  const { model: own, defaultModel } = agent.subagents;
  return [own, defaultModel].find((choice) => choice?.primary === model)?.fallbacks ?? agent.fallbacks;
}

/** How a child's transcript begins. `pictures`: those its task names, which it sees as its requester did (CH2). */
export const taskEntries = (requesterKey: string, text: string, pictures: readonly Attachment[] = []): NewEntry[] => [
  { type: "message", role: "user", text, from: requesterKey, id: "task", ...(pictures.length === 0 ? {} : { files: pictures }) },
];

/** The child's first message: context and task apart (NV1). */
export function firstMessage(task: string, params: SpawnParams, transfer: string): string {
  const context = [params.briefing ?? "", transfer].filter((part) => part.trim() !== "").join("\n\n");
  return joinMessage({ context, task });
}

const CONTEXT = "## Context\n";
const TASK = "\n\n## Task\n";

export const joinMessage = ({ context, task }: { context: string; task: string }): string =>
  context === "" ? task : `${CONTEXT}${context}${TASK}${task}`;

/** Taken apart again. The briefing is known, so that a heading like ours inside it doesn't count. */
export function splitMessage(text: string, briefing: string): { context: string; task: string } {
  const at = text.startsWith(CONTEXT) ? text.indexOf(TASK, CONTEXT.length + briefing.length) : -1;
  return at === -1 ? { context: "", task: text } : { context: text.slice(CONTEXT.length, at), task: text.slice(at + TASK.length) };
}
