// Settings → the Agent objects the other parts use. The settings are looked at each time, so a reloaded file applies at once; the objects
// are made once for each, because every step of every turn asks.
import { join } from "node:path";
import type { Agent, Agents, AnnouncePolicy, ToolPolicy } from "../agents/agent.ts";
import { type AnnouncePlace, channelOf } from "../config/announce.ts";
import type { Config } from "../config/schema.ts";
import type { Address } from "../core/address.ts";
import { toCap } from "../core/budget.ts";
import type { Base } from "./base.ts";

export interface AgentDeps extends Pick<Base, "config" | "stateDir"> {
  /** For agents without a model of their own: what was found at start. */
  defaultModel(): string;
}

type AgentConfig = Config["agents"]["list"][number];

export function createAgents(deps: AgentDeps): Agents {
  let made: { readonly config: Config; readonly model: string; readonly agents: readonly Agent[] } | null = null;
  const list = (): readonly Agent[] => {
    const config = deps.config();
    const model = deps.defaultModel();
    if (made?.config !== config || made.model !== model)
      made = { config, model, agents: config.agents.list.map((agent) => toAgent(deps, agent)) };
    return made.agents;
  };
  return {
    list,
    find: (id) => list().find((one) => one.id === id) ?? null,
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
      ...announcingOf(agent.subagents.announce, config.channels),
      planning: agent.subagents.planning,
      budget: children.budget === undefined ? null : toCap(children.budget),
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

const ALL_IN_THE_THREAD = { when: "always", everyMinutes: undefined, to: "thread" } as const;

function announcingOf(
  chosen: AgentConfig["subagents"]["announce"],
  channels: Config["channels"],
): Pick<Agent["subagents"], "announce" | "announcing"> {
  const { when, everyMinutes, to } = typeof chosen === "string" ? ALL_IN_THE_THREAD : chosen;
  const announcing: AnnouncePolicy = { when, everyMinutes: everyMinutes ?? null, to: typeof to === "string" ? to : toPlace(to, channels) };
  return { announce: chosen === "silent" ? "silent" : "post", announcing };
}

function toPlace(place: AnnouncePlace, channels: Config["channels"]): Exclude<AnnouncePolicy["to"], string> {
  const { channel: platform, account, chat, thread } = place;
  const channel = channelOf(place, channels);
  return {
    ...{ channel, chat, kind: kindOf(platform, chat) },
    // Named, it is the channel's only one; what the platform calls it is the channel's to say.
    ...(account === undefined || channel !== platform ? {} : { account }),
    ...(thread === undefined ? {} : { thread }),
  };
}

/** As the channels' decode tells chats apart. */
function kindOf(channel: AnnouncePlace["channel"], chat: string): Address["kind"] {
  if (channel === "telegram") return chat.startsWith("-") ? "group" : "dm";
  if (channel === "matrix") return chat.startsWith("!") ? "channel" : "dm";
  // A person's id looks like a channel's: who they are shows when it is posted to (channels/discord/send.ts).
  if (channel === "discord") return "channel";
  return channel === "slack" && /^[CG]/.test(chat) ? "channel" : "dm";
}

interface Policy {
  readonly allow?: readonly string[] | undefined;
  readonly deny?: readonly string[] | undefined;
  readonly approve?: readonly string[] | undefined;
}

const policy = ({ allow, deny, approve }: Policy): ToolPolicy => ({
  ...(allow === undefined ? {} : { allow }),
  ...(deny === undefined ? {} : { deny }),
  ...(approve === undefined ? {} : { approve }),
});
