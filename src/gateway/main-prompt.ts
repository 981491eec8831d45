// The prompt of a main session, read anew before every step: workspace files and memory as the session first read them, and
// as topics what changed since (SE8).
import type { Agent } from "../agents/agent.ts";
import { type Confirmed, formatMemory, readBootstrap, readMemory } from "../agents/memory.ts";
import type { MemoryViews } from "../agents/memory-view.ts";
import { mainSystem, type Prompt } from "../agents/prompt.ts";
import type { SeenFiles } from "../agents/workspace-file.ts";
import type { Clock } from "../core/clock.ts";
import { peerNameOf } from "../core/ids.ts";
import type { Tool } from "../core/tool.ts";
import type { Runs } from "../stores/runs.ts";
import type { Session } from "../stores/sessions.ts";
import { renderMemoryBlock } from "../subagents/documents/brief-params.ts";
import { liveTopic } from "../subagents/live-runs.ts";

export interface MainPromptDeps {
  readonly runs: Pick<Runs, "unfinishedBelow">;
  readonly memoryViews: MemoryViews;
  readonly clock: Clock;
  readonly crewPath: string;
  readonly confirmed: Confirmed;
  memoryEnabled(): boolean;
}

export type MainPrompt = (agent: Agent, session: Pick<Session, "id" | "key">, tools: readonly Tool[]) => Promise<Prompt>;

export function createMainPrompt(deps: MainPromptDeps): MainPrompt {
  const seen: SeenFiles = new Map();
  return async (agent, session, tools) => {
    const { name: agentName, workspace } = agent;
    const files = await deps.confirmed(() => readBootstrap({ workspace, forChild: false, seen }));
    const options = {
      workspace,
      forChild: false,
      crewPath: deps.crewPath,
      peer: peerNameOf(session.key) ?? undefined,
      now: deps.clock.now(),
      seen,
    };
    const memory = deps.memoryEnabled() ? await deps.confirmed(() => readMemory(options)) : [];
    const { settled, added } = deps.memoryViews.of(session.id, memory);
    const block = (text: string): string => (text === "" ? "" : renderMemoryBlock("", text));
    const canSpawn = tools.some((tool) => tool.name === "sessions_spawn");
    return {
      system: mainSystem({ agentName, files, memory: block(formatMemory(settled)), canSpawn }),
      topics: [{ name: "memory", text: block(formatMemory(added)) }, liveTopic(await deps.runs.unfinishedBelow(session.key), session.id)],
    };
  };
}
