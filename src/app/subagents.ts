// Wires the sub-agents folder: what the child sees, the tools of requesters, and the parts that run and steer them.
import type { Agent, Agents } from "../agents/agent.ts";
import type { Confirmed } from "../agents/memory.ts";
import type { MemoryViews } from "../agents/memory-view.ts";
import { effectiveTools } from "../agents/policy.ts";
import type { Turns } from "../agents/turn.ts";
import type { Tool, ToolContext } from "../core/tool.ts";
import type { Lane } from "../lanes/lanes.ts";
import type { ModelRouter } from "../models/router.ts";
import { type Archiver, createArchiver } from "../subagents/archive.ts";
import { childTools } from "../subagents/child.ts";
import { createChildPrompt } from "../subagents/child-prompt.ts";
import type { SubagentDeps } from "../subagents/deps.ts";
import { type Briefing, createBriefing } from "../subagents/documents/briefing.ts";
import { createDocuments, type Documents } from "../subagents/documents/documents.ts";
import { createPlanTool, PLAN_TOOL } from "../subagents/plan-tool.ts";
import { type Recovered, recoverOrphans, recoverRuns, ringUnrung } from "../subagents/recover.ts";
import { createRunner, type Runner } from "../subagents/runner.ts";
import { createSessionTools } from "../subagents/session-tools.ts";
import { createSpawn, type Spawn } from "../subagents/spawn.ts";
import { createSpawnTool } from "../subagents/spawn-tool.ts";
import { createSteering, type Steering } from "../subagents/steering.ts";
import { createSubagentsTool } from "../subagents/subagents-tool.ts";
import { createWaker, type Waker } from "../subagents/waits.ts";
import type { Base } from "./base.ts";
import type { Channels } from "./channels.ts";
import type { Stores } from "./store-parts.ts";

export interface SubagentParts {
  readonly spawn: Spawn;
  readonly steering: Steering;
  readonly runner: Runner;
  readonly archiver: Archiver;
  readonly briefing: Briefing;
  /** Stop it before the stores are closed. */
  readonly documents: Documents;
  readonly waker: Waker;
  /** From now on its runs are followed here. */
  start(): Promise<void>;
  /** At the start, before the lane works; among others, whoever takes up what they left. */
  recover(): Promise<Recovered>;
  recoverOrphans(): Promise<Recovered>;
  /** The tools a main session of this agent has, sub-agent tools included. */
  mainTools(agent: Agent): readonly Tool[];
}

export interface SubagentPartsDeps extends Omit<Base, "stateDir"> {
  readonly stores: Stores;
  readonly agents: Agents;
  readonly models: ModelRouter;
  readonly turns: Turns;
  readonly memoryViews: MemoryViews;
  readonly confirmed: Confirmed;
  readonly lane: Lane;
  readonly channels: Channels;
  /** All tools but those of this folder. */
  tools(): readonly Tool[];
}

export function createSubagentParts(wiring: SubagentPartsDeps): SubagentParts {
  const { stores, agents, models, channels } = wiring;
  const own: Tool[] = [];
  const allTools = (): readonly Tool[] => [...wiring.tools(), ...own];
  const redact = (text: string): string => wiring.secrets.redact(text);
  const memoryEnabled = (): boolean => wiring.config().memory.enabled;
  const briefing = createBriefing({ ...wiring, ...stores, redact, memoryEnabled });
  const documents = createDocuments({ ...wiring, ...stores, briefing, redact });
  const deps: SubagentDeps = {
    ...wiring,
    ...stores,
    isShared: stores.installation !== null,
    channel: channels.find,
    tools: allTools,
    childPrompt: createChildPrompt({ ...wiring, ...stores, briefing, memoryEnabled }),
    settings() {
      const { agents: section, archive } = wiring.config();
      const { archiveAfterMinutes, onRestart } = section.defaults.subagents;
      return { archiveAfterMinutes, onRestart, purgeAfterDays: archive.purgeAfterDays ?? null };
    },
  };
  const spawn = createSpawn({
    ...deps,
    briefing,
    redact,
    contextTransfer: async (sessionKey) => (await stores.scratchpad.read(sessionKey, "context_transfer")) ?? "",
    checkModelName: models.checkName,
  });
  const runner = createRunner(deps);
  const waker = createWaker(deps);
  const steering = createSteering(deps);
  const mainTools = (agent: Agent): readonly Tool[] =>
    effectiveTools(allTools(), agent.policies, null).filter((tool) => tool.name !== PLAN_TOOL);
  const toolNames = async (context: ToolContext): Promise<readonly string[]> => {
    const agent = agents.find(context.agentId);
    const run = context.runId === null ? null : await stores.runs.get(context.runId);
    if (agent === null) return [];
    return (run === null ? mainTools(agent) : childTools(allTools(), agent, run)).map((tool) => tool.name);
  };
  const control = { ...deps, steering, briefing };
  own.push(createSpawnTool({ spawn, toolNames }), createSubagentsTool(control), ...createSessionTools(control), createPlanTool(stores));
  const recover = async (): Promise<Recovered> => {
    await documents.takeUp();
    return recoverRuns(deps);
  };
  return {
    spawn,
    steering,
    runner,
    waker,
    archiver: createArchiver({ ...deps, ...stores }),
    briefing,
    documents,
    async start() {
      documents.start();
      waker.start();
    },
    recover,
    async recoverOrphans() {
      const recovered = await recoverOrphans(deps);
      await ringUnrung(deps);
      return recovered;
    },
    mainTools,
  };
}
