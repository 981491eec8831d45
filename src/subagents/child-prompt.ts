// The prompt of a child, read anew before every step: its rules, role, workspace files and inherited memory, which stay the
// same bytes while it works (SE8); as topics its brief, what was remembered since it began, and its own children at work.
import type { Agent, Agents } from "../agents/agent.ts";
import { type Confirmed, formatMemory, readBootstrap, readMemory } from "../agents/memory.ts";
import type { MemoryViews } from "../agents/memory-view.ts";
import { type Prompt, promptFiles } from "../agents/prompt.ts";
import type { Topic } from "../agents/topics.ts";
import type { SeenFiles } from "../agents/workspace-file.ts";
import type { Payments } from "../budgets/payments.ts";
import { leftText } from "../budgets/words.ts";
import type { Clock } from "../core/clock.ts";
import { FENCE_RULE } from "../core/fence.ts";
import { agentIdOf } from "../core/ids.ts";
import type { Run } from "../core/run.ts";
import type { Tool } from "../core/tool.ts";
import { ASK_TOOL } from "../core/tool-names.ts";
import type { Runs } from "../stores/runs.ts";
import { checksRule } from "./checks.ts";
import { roleOf } from "./child.ts";
import { renderMemoryBlock } from "./documents/brief-params.ts";
import type { Briefing } from "./documents/briefing.ts";
import { liveTopic } from "./live-runs.ts";
import { PLAN_TOOL } from "./plan-tool.ts";
import { OUTPUT_CONTRACT } from "./sections.ts";
import { finishRule, isTyped } from "./typed-result.ts";

export interface ChildPromptDeps {
  readonly agents: Agents;
  readonly runs: Pick<Runs, "get" | "unfinishedBelow">;
  readonly payments: Pick<Payments, "ownLevel">;
  readonly briefing: Pick<Briefing, "read">;
  readonly memoryViews: MemoryViews;
  readonly clock: Clock;
  readonly crewPath: string;
  readonly confirmed: Confirmed;
  memoryEnabled(): boolean;
}

export type ChildPrompt = (agent: Agent, run: Run, tools: readonly Tool[]) => Promise<Prompt>;

export function createChildPrompt(deps: ChildPromptDeps): ChildPrompt {
  const seen: SeenFiles = new Map();
  return async (agent, run, tools) => {
    const files = promptFiles(await deps.confirmed(() => readBootstrap({ workspace: agent.workspace, forChild: true, seen })));
    const brief = await deps.briefing.read(run);
    // Its requester's memory, whatever agent it runs under (ME1).
    const { workspace } = deps.agents.find(agentIdOf(run.requesterKey)) ?? agent;
    const options = { workspace, forChild: true, crewPath: deps.crewPath, now: deps.clock.now(), seen };
    const memory = deps.memoryEnabled() ? await deps.confirmed(() => readMemory(options)) : [];
    const { settled, added } = deps.memoryViews.of(run.sessionId, memory);
    const material = [...files, renderMemoryBlock("", formatMemory(settled))].join("\n\n");
    return {
      system: childSystem({ agent, run, material, tools }),
      topics: [
        briefTopic(brief, formatMemory(settled)),
        addedTopic(formatMemory(added)),
        liveTopic(await deps.runs.unfinishedBelow(run.childKey), run.sessionId),
        await budgetTopic(deps, run),
      ],
    };
  };
}

/** The brief comes first, and the child's other memory behind it (BF2). It can be replaced or revoked at any step (BF3). */
function briefTopic(brief: Awaited<ReturnType<Briefing["read"]>>, other: string): Topic {
  const memory = [brief.memory, other].filter((part) => part !== "").join("\n\n");
  return { name: "brief", text: brief.section === "" ? "" : renderMemoryBlock(brief.section, memory), isHeld: true };
}

/** What it may still spend, so that it can plan its last steps. It may be raised while it works. */
async function budgetTopic({ runs, payments }: ChildPromptDeps, run: Run): Promise<Topic> {
  const fresh = run.budget === null ? null : await runs.get(run.id);
  const level = fresh === null ? null : await payments.ownLevel(fresh);
  return { name: "budget", text: level === null ? "" : leftText(level), atSteps: true };
}

const addedTopic = (text: string): Topic => ({ name: "memory", text: text === "" ? "" : renderMemoryBlock("", text) });

interface SystemOptions {
  readonly agent: Pick<Agent, "name" | "subagents">;
  readonly run: Run;
  readonly material: string;
  readonly tools: readonly Pick<Tool, "name">[];
}

const CANT_ASK = "You can't talk to the person: nobody answers questions, so decide sensibly and say what you assumed.";
const CAN_ASK =
  "What only a person can know or decide, ask with the tool ask; everything else decide sensibly yourself and say what you assumed.";

function childSystem({ agent, run, material, tools }: SystemOptions): string {
  const role = roleOf(run.params);
  const rules = [
    `You are a sub-agent of ${agent.name}, sent out for one task by ${run.depth === 1 ? "an agent that talks to a person" : "another sub-agent"}.`,
    `Finish the task and report; that is all. ${tools.some((tool) => tool.name === ASK_TOOL) ? CAN_ASK : CANT_ASK}`,
    "No side quests: do what the task asks and nothing beside it. Never claim what you did not do or see.",
    "Messages that arrive while you work are from whoever sent you; take them into account at once.",
    FENCE_RULE,
  ];
  if (tools.some((tool) => tool.name === PLAN_TOOL)) {
    rules.push(
      "For work of more than one step, note the steps with the tool plan first, and mark each when it begins and when it is done.",
    );
  }
  if (run.depth < agent.subagents.maxSpawnDepth) {
    rules.push(
      "You may send out sub-agents of your own with sessions_spawn; they report to you. You are woken with their results, or wait with the tool subagents.",
    );
  } else {
    rules.push(`You can't send out sub-agents of your own: you are at depth ${run.depth}, the maximum delegation depth.`);
  }
  rules.push(...checksRule(run.params));
  const contract = isTyped(run.params) ? finishRule(run.params) : OUTPUT_CONTRACT;
  const parts = [rules.join("\n"), role?.text ?? "", run.params.systemPrompt ?? "", material, contract];
  return parts.filter((part) => part.trim() !== "").join("\n\n");
}
