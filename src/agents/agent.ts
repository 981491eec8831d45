// An agent as the rest of the code sees it: a persona with a model, a workspace and a tool policy. app/agents.ts makes
// these from the config; parts ask for them by id at the moment of use, so a reloaded config applies at once.

import type { Address } from "../core/address.ts";
import type { Cap } from "../core/budget.ts";
import type { Announcing } from "../core/run.ts";
import type { Thinking } from "../core/thinking.ts";

export interface ToolPolicy {
  /** Once set, only these. `*` stands for any characters, here and below. */
  readonly allow?: readonly string[];
  /** Always wins. */
  readonly deny?: readonly string[];
  /** These need a person's yes before each call (QA4). */
  readonly approve?: readonly string[];
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

/** A model and what stands in for it, in this order, when it keeps failing. */
export interface ModelChoice {
  readonly primary: string;
  readonly fallbacks: readonly string[];
}

/** When and where results are announced, as the settings say it (AP1); what of it becomes of one run: subagents/announcing.ts. */
export interface AnnouncePolicy extends Pick<Announcing, "when" | "everyMinutes"> {
  /** Without an account: the only one of that channel. */
  readonly to: "thread" | "dm" | (Omit<Address, "account"> & { readonly account?: string });
}

/** Two agents may be concerned: the one that spawns, and the one the child runs under (`agentId` of the spawn). */
export interface SubagentSettings {
  // For what this agent spawns, whatever agent it runs under.
  readonly allowAgents: readonly string[];
  readonly announce: "post" | "silent";
  readonly announcing: AnnouncePolicy;
  readonly maxChildren: number;

  // For what runs under this agent, whoever spawned it.
  readonly model: ModelChoice | null;
  readonly defaultModel: ModelChoice | null;
  readonly thinking: Thinking | null;
  readonly planning: boolean;
  /** What a run and all below it may spend, unless its spawn says otherwise; null: no limit. */
  readonly budget: Cap | null;
  readonly runTimeoutMs: number;
  readonly maxIterations: number;
  readonly maxSpawnDepth: number;
  readonly announceTimeoutMs: number;
  readonly policies: readonly ToolPolicy[];
  /** Tools it may have although its requester has not (TL2). */
  readonly grant: readonly string[];
}

export interface Agents {
  find(id: string): Agent | null;
  list(): readonly Agent[];
  /** Who answers a chat that names nobody. */
  defaultId(): string;
}
