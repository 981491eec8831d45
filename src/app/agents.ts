// Settings → the Agent objects the other parts use. Asked anew each time, so a reloaded file applies at once.
import { join } from "node:path";
import type { Agent, Agents, ToolPolicy } from "../agents/agent.ts";
import type { Config } from "../config/schema.ts";
import type { Base } from "./base.ts";

export interface AgentDeps extends Pick<Base, "config" | "stateDir"> {
  /** For agents without a model of their own: what was found at start. */
  defaultModel(): string;
}

type AgentConfig = Config["agents"]["list"][number];

export function createAgents(deps: AgentDeps): Agents {
  const list = (): Agent[] => deps.config().agents.list.map((agent) => toAgent(deps, agent));
  return {
    list,
    find(id) {
      const agent = deps.config().agents.list.find((one) => one.id === id);
      return agent === undefined ? null : toAgent(deps, agent);
    },
    defaultId: () => defaultAgent(deps.config()).id,
  };
}

/** Who answers a chat that names nobody. */
export function defaultAgent(config: Config): AgentConfig {
  const agent = config.agents.list.find((one) => one.default);
  if (agent === undefined) throw new Error("the settings have no default agent");
  return agent;
}

function toAgent(deps: AgentDeps, agent: AgentConfig): Agent {
  const config = deps.config();
  const { defaults } = config.agents;
  const children = defaults.subagents;
  return {
    id: agent.id,
    name: agent.name ?? agent.id,
    model: agent.model?.primary ?? defaults.model.primary ?? deps.defaultModel(),
    fallbacks: (agent.model ?? defaults.model).fallbacks,
    thinking: defaults.thinking,
    workspace: agent.workspace ?? defaults.workspace ?? join(deps.stateDir, agent.default ? "workspace" : `workspace-${agent.id}`),
    maxIterations: defaults.maxIterations,
    timeoutMs: defaults.timeoutSeconds * 1000,
    policies: [policy(config.tools), policy(agent.tools)],
    subagents: {
      allowAgents: agent.subagents.allowAgents,
      model: agent.subagents.model ?? null,
      defaultModel: children.model ?? null,
      thinking: agent.subagents.thinking ?? children.thinking ?? null,
      announce: agent.subagents.announce,
      planning: agent.subagents.planning,
      runTimeoutMs: children.runTimeoutSeconds * 1000,
      maxIterations: children.maxIterations,
      maxSpawnDepth: children.maxSpawnDepth,
      maxChildren: children.maxChildrenPerSession,
      announceTimeoutMs: children.announceTimeoutSeconds * 1000,
      policies: [policy(config.tools.subagents.tools), policy(agent.subagents.tools)],
      grant: agent.subagents.tools.grant,
    },
  };
}

const policy = ({ allow, deny }: { allow?: readonly string[] | undefined; deny?: readonly string[] | undefined }): ToolPolicy => ({
  ...(allow === undefined ? {} : { allow }),
  ...(deny === undefined ? {} : { deny }),
});
