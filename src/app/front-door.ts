// Wires the gateway folder: conversations in the lane `main`, commands, the gate.
import type { Agents } from "../agents/agent.ts";
import type { Confirmed } from "../agents/memory.ts";
import type { MemoryViews } from "../agents/memory-view.ts";
import { ensureSessionIn } from "../agents/open-session.ts";
import type { Turns } from "../agents/turn.ts";
import type { Payments } from "../budgets/payments.ts";
import { createRateLimit } from "../core/rate-limit.ts";
import { createAccess } from "../gateway/access.ts";
import { createApprovalsCommand } from "../gateway/approvals-command.ts";
import { type CommandContext, type Commands, createCommands } from "../gateway/commands.ts";
import { type Conversations, createConversations } from "../gateway/conversation.ts";
import { createDoorstep, type Doorstep } from "../gateway/doorstep.ts";
import { createGateway, type Gateway } from "../gateway/gateway.ts";
import { createGatewayCommands } from "../gateway/gateway-commands.ts";
import { createIntroductions, type Introductions } from "../gateway/introductions.ts";
import { createMainPrompt } from "../gateway/main-prompt.ts";
import { createSubagentsCommand } from "../gateway/subagent-commands.ts";
import type { Models } from "../models/model.ts";
import type { Replies } from "../questions/replies.ts";
import type { Tx } from "../stores/database.ts";
import type { Requester } from "../subagents/spawn-request.ts";
import { rulesOf } from "./accounts.ts";
import type { Base, Lanes } from "./base.ts";
import type { Channels } from "./channels.ts";
import type { Files } from "./files.ts";
import type { QuestionParts } from "./questions.ts";
import type { Stores } from "./store-parts.ts";
import type { SubagentParts } from "./subagents.ts";

export interface FrontDoor {
  readonly gateway: Gateway;
  readonly conversations: Conversations;
  readonly doorstep: Doorstep;
  readonly introductions: Introductions;
  readonly replies: Replies;
  readonly commands: Commands;
}

export interface FrontDoorDeps extends Pick<Base, "config" | "clock" | "bus" | "log" | "failpoint" | "bootId" | "crewPath" | "secrets"> {
  readonly stores: Stores;
  readonly agents: Agents;
  readonly models: Models;
  readonly turns: Turns;
  readonly memoryViews: MemoryViews;
  readonly confirmed: Confirmed;
  readonly lanes: Lanes;
  readonly channels: Channels;
  readonly subagents: SubagentParts;
  readonly payments: Payments;
  readonly people: QuestionParts;
  readonly attaching: Pick<Files, "gather">;
  statusText(isOperator: boolean): Promise<string>;
}

/**
 * Nobody types this fast; a flood of commands must not hold up everybody else's. No more than a chat carries away either: the answer
 * to a /stop behind it waits for as many answers, at a message a second on Telegram.
 */
const COMMANDS = { burst: 30, refillMs: 2_000 };

export function createFrontDoor(deps: FrontDoorDeps): FrontDoor {
  const { stores, agents, subagents, clock, lanes, channels } = deps;
  const { gate, replies } = deps.people;
  const shared = { ...deps, ...stores, gate, isShared: stores.installation !== null, channel: channels.find, lane: lanes.main };
  const conversations = createConversations({
    ...shared,
    tools: subagents.mainTools,
    gather: deps.attaching.gather,
    heldBack: deps.secrets.heldBack,
    prompt: createMainPrompt({ ...deps, ...stores, memoryEnabled: () => deps.config().memory.enabled }),
  });
  const commands = createCommands([
    createSubagentsCommand({
      ...stores,
      payments: deps.payments,
      replies,
      ...subagents,
      lane: lanes.subagent,
      clock,
      requester: (tx, context) => requester(deps, tx, context),
    }),
    createApprovalsCommand({ ...stores, clock }),
    ...createGatewayCommands({
      ...stores,
      payments: deps.payments,
      ...subagents,
      agents,
      models: deps.models,
      channel: channels.find,
      clock,
      conversations,
      keepsSubagents: () => deps.config().session.reset.subagents === "keep",
      statusText: deps.statusText,
    }),
  ]);
  const access = createAccess({ pairing: stores.pairing, rules: (channel) => rulesOf(deps.config(), channel) });
  const { installation } = stores;
  const whyStranded = installation === null ? {} : { whyStranded: installation.whyStranded };
  const gateway = createGateway({
    ...shared,
    ...whyStranded,
    replies,
    access,
    commands,
    commandLimit: createRateLimit({ ...COMMANDS, clock }),
  });
  const doorstep = createDoorstep({ access, clock, log: deps.log });
  return { gateway, conversations, doorstep, introductions: createIntroductions(shared), replies, commands };
}

/** The chat itself as a requester, for `/subagents spawn`. */
async function requester({ stores, agents, subagents }: FrontDoorDeps, tx: Tx, context: CommandContext): Promise<Requester> {
  const { sessionKey, agentId, inbound } = context;
  const session = await ensureSessionIn(stores, tx, { key: sessionKey, agentId, address: inbound.address, parentKey: null });
  const agent = agents.find(agentId);
  return {
    sessionKey,
    sessionId: session.id,
    agentId,
    runId: null,
    address: inbound.address,
    person: inbound.sender,
    turnId: `command:${context.inboxId}`,
    spawnKey: `command:${context.inboxId}`,
    tools: agent === null ? [] : subagents.mainTools(agent).map((tool) => tool.name),
  };
}
