// Wires the sub-agents folder: what the child sees, the tools of requesters, and the parts that run and steer them.
import type { Agent, Agents } from "../agents/agent.ts";
import type { Confirmed } from "../agents/memory.ts";
import type { MemoryViews } from "../agents/memory-view.ts";
import { effectiveTools } from "../agents/policy.ts";
import type { Turns } from "../agents/turn.ts";
import type { Payments } from "../budgets/payments.ts";
import type { Config } from "../config/schema.ts";
import type { Judge, RunCheck } from "../core/check.ts";
import type { Tool, ToolContext } from "../core/tool.ts";
import { FINISH_TOOL } from "../core/tool-names.ts";
import { isTurnOver } from "../gateway/main-turn.ts";
import type { Lane } from "../lanes/lanes.ts";
import type { ModelRouter } from "../models/router.ts";
import { createAskTool } from "../questions/ask-tool.ts";
import { type Again, createAgain } from "../subagents/again.ts";
import { type Archiver, createArchiver } from "../subagents/archive.ts";
import { childTools } from "../subagents/child.ts";
import { createChildPrompt } from "../subagents/child-prompt.ts";
import { createChildWords } from "../subagents/child-words.ts";
import type { SubagentDeps } from "../subagents/deps.ts";
import { createDigester, type Digester } from "../subagents/digests.ts";
import { createBriefSummary } from "../subagents/documents/brief-summary.ts";
import { type Briefing, createBriefing } from "../subagents/documents/briefing.ts";
import { createDocuments, type Documents } from "../subagents/documents/documents.ts";
import { createFinishTool } from "../subagents/finish-tool.ts";
import { createPlanTool, PLAN_TOOL } from "../subagents/plan-tool.ts";
import { type Recovered, recoverOrphans, recoverRuns, ringUnrung } from "../subagents/recover.ts";
import { createRunner, type Runner } from "../subagents/runner.ts";
import { createSessionTools } from "../subagents/session-tools.ts";
import { createSpawn, type Spawn } from "../subagents/spawn.ts";
import { createSpawnTool } from "../subagents/spawn-tool.ts";
import { createSteering, type Steering } from "../subagents/steering.ts";
import { createSubagentsTool } from "../subagents/subagents-tool.ts";
import { createWaker, type Waker } from "../subagents/waits.ts";
import { progressOf } from "./accounts.ts";
import type { Base } from "./base.ts";
import type { Channels } from "./channels.ts";
import type { QuestionParts } from "./questions.ts";
import type { Stores } from "./store-parts.ts";

export interface SubagentParts {
  readonly spawn: Spawn;
  readonly again: Again;
  readonly steering: Steering;
  readonly runner: Runner;
  readonly archiver: Archiver;
  readonly digester: Digester;
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
  readonly payments: Payments;
  readonly people: QuestionParts;
  readonly judge: Judge;
  readonly runCheck: RunCheck;
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
    gate: wiring.people.gate,
    needsYes: wiring.people.needsYes,
    isShared: stores.installation !== null,
    words: createChildWords(wiring),
    channel: channels.find,
    tools: allTools,
    childPrompt: createChildPrompt({ ...wiring, ...stores, briefing, memoryEnabled }),
    settings: () => settingsOf(wiring.config()),
  };
  const briefSummary = createBriefSummary({ ...deps, redact });
  const turnIsOver = (turnId: string): Promise<boolean> => isTurnOver(stores, turnId);
  const spawn = createSpawn({
    ...deps,
    ...{ briefing, briefSummary, redact, attachments: stores.attachments },
    isTurnOver: turnIsOver,
    contextTransfer: async (sessionKey) => (await stores.scratchpad.read(sessionKey, "context_transfer")) ?? "",
    soleAccount: (name) => channels.list().find((channel) => channel.name === name)?.account ?? null,
    checkModelName: models.checkName,
    progress: (channel) => progressOf(wiring.config(), channel),
  });
  const runner = createRunner(deps);
  const waker = createWaker(deps);
  const steering = createSteering(deps);
  const mainTools = (agent: Agent): readonly Tool[] =>
    effectiveTools(allTools(), agent.policies, null).filter(({ name }) => name !== PLAN_TOOL && name !== FINISH_TOOL);
  const toolNames = async (context: ToolContext): Promise<readonly string[]> => {
    const agent = agents.find(context.agentId);
    const run = context.runId === null ? null : await stores.runs.get(context.runId);
    if (agent === null) return [];
    return (run === null ? mainTools(agent) : childTools(allTools(), agent, run)).map((tool) => tool.name);
  };
  const control = { ...deps, steering, briefing, briefSummary, isTurnOver: turnIsOver };
  own.push(createSpawnTool({ spawn, toolNames, judge: wiring.judge }), createSubagentsTool(control), ...createSessionTools(control));
  own.push(createPlanTool(stores), createFinishTool({ ...deps, judge: wiring.judge }), createAskTool(wiring.people.asking));
  return {
    spawn,
    again: createAgain({ ...deps, spawn, briefing }),
    steering,
    runner,
    waker,
    archiver: createArchiver({ ...deps, ...stores }),
    digester: createDigester({ ...deps, learnAccounts: channels.learnAccounts }),
    briefing,
    documents,
    async start() {
      documents.start();
      waker.start();
    },
    ...recovery(wiring, deps, documents),
    mainTools,
  };
}

function recovery(
  { stores, people }: SubagentPartsDeps,
  deps: SubagentDeps,
  documents: Documents,
): Pick<SubagentParts, "recover" | "recoverOrphans"> {
  const closeLeft = async (): Promise<void> => {
    await people.closeLeft();
    // What a process held that is gone is spent: nobody knows what its call took.
    await stores.budgets.recover();
  };
  return {
    async recover() {
      await documents.takeUp();
      await closeLeft();
      return recoverRuns(deps);
    },
    async recoverOrphans() {
      await closeLeft();
      const recovered = await recoverOrphans(deps);
      await ringUnrung(deps);
      return recovered;
    },
  };
}

function settingsOf({ agents, archive, web }: Config): ReturnType<SubagentDeps["settings"]> {
  const { archiveAfterMinutes, onRestart } = agents.defaults.subagents;
  return { archiveAfterMinutes, onRestart, purgeAfterDays: archive.purgeAfterDays ?? null, publicUrl: web.publicUrl ?? null };
}
