// Settings → the Agent objects the other parts use. Asked anew each time, so a reloaded file applies at once.
import { join } from "node:path";
import type { Agent, Agents, ToolPolicy } from "../agents/agent.ts";
import type { Config } from "../config/schema.ts";

export interface AgentSource {
  config(): Config;
  readonly stateDir: string;
  /** For agents without a model of their own: what was found at start. */
  defaultModel(): string;
}

type AgentConfig = Config["agents"]["list"][number];

export function createAgents(source: AgentSource): Agents {
  const list = (): Agent[] => source.config().agents.list.map((agent) => toAgent(source, agent));
  return {
    list,
    find(id) {
      const agent = source.config().agents.list.find((one) => one.id === id);
      return agent === undefined ? null : toAgent(source, agent);
    },
    defaultId: () => source.config().agents.list.find((one) => one.default)?.id ?? "main",
  };
}

function toAgent(source: AgentSource, agent: AgentConfig): Agent {
  const config = source.config();
  const { defaults } = config.agents;
  const children = defaults.subagents;
  const model = agent.model ?? defaults.model;
  return {
    id: agent.id,
    name: agent.name ?? agent.id,
    model: model.primary ?? source.defaultModel(),
    fallbacks: model.fallbacks,
    thinking: defaults.thinking,
    workspace: agent.workspace ?? defaults.workspace ?? join(source.stateDir, agent.default ? "workspace" : `workspace-${agent.id}`),
    maxIterations: defaults.maxIterations,
    timeoutMs: defaults.timeoutSeconds * 1000,
    policies: [policy(config.tools), policy(agent.tools)],
    subagents: {
      allowAgents: agent.subagents.allowAgents,
      model: agent.subagents.model?.primary ?? null,
      defaultModel: children.model?.primary ?? null,
      thinking: agent.subagents.thinking ?? children.thinking ?? null,
      announce: agent.subagents.announce,
      planning: agent.subagents.planning,
      runTimeoutMs: children.runTimeoutSeconds * 1000,
      maxIterations: children.maxIterations,
      maxSpawnDepth: children.maxSpawnDepth,
      maxChildren: children.maxChildrenPerSession,
      announceTimeoutMs: children.announceTimeoutSeconds * 1000,
      policies: [policy(config.tools.subagents.tools), policy(agent.subagents.tools)],
    },
  };
}

const policy = ({ allow, deny }: { allow?: readonly string[] | undefined; deny?: readonly string[] | undefined }): ToolPolicy => ({
  ...(allow === undefined ? {} : { allow }),
  ...(deny === undefined ? {} : { deny }),
});
