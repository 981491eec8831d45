// An agent as the rest of the code sees it: a persona with a model, a workspace and a tool policy. app.ts makes
// these from the config; parts ask for them by id at the moment of use, so a reloaded config applies at once.
import type { Thinking } from "../models/model.ts";

export interface ToolPolicy {
  /** Once set, only these. */
  readonly allow?: readonly string[];
  /** Always wins. */
  readonly deny?: readonly string[];
}

export interface Agent {
  readonly id: string;
  readonly name: string;
  readonly model: string;
  readonly fallbacks: readonly string[];
  readonly thinking: Thinking;
  readonly workspace: string;
  readonly maxIterations: number;
  /** 0 = none. */
  readonly timeoutMs: number;
  /** `tools` of the gateway and of the agent: both must agree. */
  readonly policies: readonly ToolPolicy[];
  readonly subagents: SubagentSettings;
}

/** What holds for the sub-agents this agent spawns. */
export interface SubagentSettings {
  readonly allowAgents: readonly string[];
  readonly model: string | null;
  readonly defaultModel: string | null;
  readonly thinking: Thinking | null;
  readonly announce: "post" | "silent";
  readonly planning: boolean;
  readonly runTimeoutMs: number;
  readonly maxIterations: number;
  readonly maxSpawnDepth: number;
  readonly maxChildren: number;
  readonly announceTimeoutMs: number;
  /** Policies for a child that runs under this agent. */
  readonly policies: readonly ToolPolicy[];
}

export interface Agents {
  find(id: string): Agent | null;
  list(): readonly Agent[];
  /** Who answers a chat that names nobody. */
  defaultId(): string;
}
