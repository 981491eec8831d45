// Wires the gateway folder: conversations in the lane `main`, commands, the gate.
import type { Agent, Agents } from "../agents/agent.ts";
import { mainPrompt } from "../agents/context.ts";
import { formatMemory, readBootstrap, readMemory } from "../agents/memory.ts";
import { ensureSession } from "../agents/open-session.ts";
import type { Turns } from "../agents/turn.ts";
import type { Config } from "../config/schema.ts";
import type { Clock } from "../core/clock.ts";
import type { Bus } from "../core/events.ts";
import type { HitFailpoint } from "../core/failpoints.ts";
import { shortId } from "../core/ids.ts";
import type { Logger } from "../core/logger.ts";
import { createRateLimit } from "../core/rate-limit.ts";
import { createAccess } from "../gateway/access.ts";
import { type CommandContext, createCommands } from "../gateway/commands.ts";
import { type Conversations, createConversations } from "../gateway/conversation.ts";
import { createGateway, type Gateway } from "../gateway/gateway.ts";
import { createGatewayCommands } from "../gateway/gateway-commands.ts";
import { createSubagentsCommand } from "../gateway/subagent-commands.ts";
import type { Lane } from "../lanes/lanes.ts";
import type { Models } from "../models/model.ts";
import { renderMemoryBlock } from "../subagents/brief-params.ts";
import { oneLine } from "../subagents/report.ts";
import type { Requester } from "../subagents/spawn.ts";
import { type Channels, rulesOf } from "./channels.ts";
import type { Stores } from "./stores.ts";
import type { SubagentParts } from "./subagents.ts";

export interface FrontDoor {
  readonly gateway: Gateway;
  readonly conversations: Conversations;
}

export interface FrontDoorWiring {
  config(): Config;
  readonly stores: Stores;
  readonly agents: Agents;
  readonly models: Models;
  readonly turns: Turns;
  readonly lanes: { readonly main: Lane; readonly subagent: Lane };
  readonly channels: Channels;
  readonly subagents: SubagentParts;
  readonly clock: Clock;
  readonly bus: Bus;
  readonly log: Logger;
  readonly failpoint: HitFailpoint;
  readonly bootId: string;
  readonly crewPath: string;
  statusText(): string;
}

/** Nobody types this fast; a flood of commands must not hold up everybody else's. */
const COMMANDS = { burst: 60, refillMs: 12_000 };

export function createFrontDoor(wiring: FrontDoorWiring): FrontDoor {
  const { stores, agents, subagents, clock, lanes, channels } = wiring;
  const shared = { ...wiring, ...stores, channel: channels.find, lane: lanes.main };
  const conversations = createConversations({
    ...shared,
    tools: subagents.mainTools,
    prompt: (agent, sessionKey, tools) =>
      prompt(
        wiring,
        agent,
        sessionKey,
        tools.some((tool) => tool.name === "sessions_spawn"),
      ),
  });
  const commands = createCommands([
    createSubagentsCommand({
      ...stores,
      ...subagents,
      lane: lanes.subagent,
      clock,
      bootId: wiring.bootId,
      requester: (context) => requester(wiring, context),
    }),
    ...createGatewayCommands({
      ...stores,
      ...subagents,
      agents,
      models: wiring.models,
      clock,
      conversations,
      keepsSubagents: () => wiring.config().session.reset.subagents === "keep",
      statusText: wiring.statusText,
    }),
  ]);
  const access = createAccess({ pairing: stores.pairing, rules: (channel) => rulesOf(wiring.config(), channel) });
  const gateway = createGateway({ ...shared, access, commands, commandLimit: createRateLimit({ ...COMMANDS, clock }) });
  return { gateway, conversations };
}

async function prompt(wiring: FrontDoorWiring, agent: Agent, sessionKey: string, canSpawn: boolean): Promise<string> {
  const files = await readBootstrap({ workspace: agent.workspace, forChild: false });
  const memory = wiring.config().memory.enabled
    ? formatMemory(await readMemory({ workspace: agent.workspace, forChild: false, crewPath: wiring.crewPath, now: wiring.clock.now() }))
    : "";
  const live = wiring.stores.runs
    .unfinishedBelow(sessionKey)
    .map((run) => `- ${run.state}: ${oneLine(run.label)} (run ${shortId(run.id)})`);
  return mainPrompt({ agentName: agent.name, files, memory: memory === "" ? "" : renderMemoryBlock("", memory), canSpawn, live });
}

/** The chat itself as a requester, for `/subagents spawn`. */
function requester({ stores, agents, subagents }: FrontDoorWiring, context: CommandContext): Requester {
  const { sessionKey, agentId, inbound } = context;
  const session = ensureSession(stores, { key: sessionKey, agentId, address: inbound.address, parentKey: null });
  const agent = agents.find(agentId);
  return {
    sessionKey,
    sessionId: session.id,
    agentId,
    runId: null,
    address: inbound.address,
    spawnKey: `command:${context.inboxId}`,
    tools: agent === null ? [] : subagents.mainTools(agent).map((tool) => tool.name),
  };
}
