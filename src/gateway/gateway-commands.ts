// The commands that concern the gateway as a whole: /stop, /new, /status, /model, /compact, /usage. Here because they touch
// several parts at once; the table itself and /help are in gateway/commands.ts.
import type { Agents } from "../agents/agent.ts";
import { notSummedUpText } from "../agents/model-step.ts";
import { ensureSessionIn, prepareSession } from "../agents/open-session.ts";
import type { Payments } from "../budgets/payments.ts";
import { spentText } from "../budgets/words.ts";
import type { Clock } from "../core/clock.ts";
import type { Channel } from "../core/message.ts";
import { createRateLimit } from "../core/rate-limit.ts";
import type { Run } from "../core/run.ts";
import type { Spend } from "../core/usage.ts";
import type { Models } from "../models/model.ts";
import { messageFor } from "../models/model-error.ts";
import type { Tx } from "../stores/database.ts";
import type { Inbox } from "../stores/inbox.ts";
import type { Runs } from "../stores/runs.ts";
import type { Session, Sessions } from "../stores/sessions.ts";
import type { Transcripts } from "../stores/transcripts.ts";
import { cost, tokens } from "../subagents/figures.ts";
import type { Steering } from "../subagents/steering.ts";
import { type Command, type CommandContext, plural } from "./commands.ts";
import type { CompactAnswer, Conversations } from "./conversation.ts";
import { threadHint } from "./threads.ts";

export interface CommandDeps {
  readonly inbox: Inbox;
  readonly sessions: Sessions;
  readonly transcripts: Transcripts;
  readonly runs: Runs;
  readonly agents: Agents;
  readonly models: Models;
  readonly clock: Clock;
  readonly conversations: Conversations;
  readonly steering: Steering;
  readonly payments: Pick<Payments, "levelsOf">;
  channel(name: string, account: string): Channel | null;
  /** `session.reset.subagents`. */
  keepsSubagents(): boolean;
  statusText(isOperator: boolean): Promise<string>;
}

/** With the id of the message that is answered: only of that answer. A platform's own button says it so. */
const STOP_ANSWER = /^answer(?:\s+(\d{1,15}))?$/i;
/** A /stop that finds nothing to stop is answered, but not a thousand of them. */
const IDLE_STOPS = { burst: 10, refillMs: 10_000 };

export function createGatewayCommands(deps: CommandDeps): Command[] {
  const idleStops = createRateLimit({ ...IDLE_STOPS, clock: deps.clock });
  return [
    {
      name: "stop",
      usage: "/stop [answer]",
      summary: "end the running turn and all sub-agents of this chat (also: stop, abort, esc); with answer only what is being written",
      run: (context) => ({
        act: async (tx) => {
          const [isAnswer, id] = STOP_ANSWER.exec(context.args.trim()) ?? [];
          if (isAnswer !== undefined) return stopAnswer(deps, tx, context, id === undefined ? undefined : Number(id));
          return (await stop(deps, tx, context)) ?? (idleStops.take(context.sessionKey) ? await nothingToStop(deps, context) : null);
        },
      }),
    },
    {
      name: "new",
      usage: "/new",
      summary: "start a new conversation; the old one is kept",
      run: (context) => ({ act: (tx) => reset(deps, tx, context) }),
    },
    { name: "reset", usage: "", summary: "the same as /new", run: (context) => ({ act: (tx) => reset(deps, tx, context) }) },
    {
      name: "status",
      usage: "/status",
      summary: "version, model, channels, lanes, sandbox",
      run: async (context) => ({ text: await deps.statusText(isOperator(deps, context)) }),
    },
    {
      name: "model",
      usage: "/model [provider/id|default]",
      summary: "show or set this chat's model",
      run: (context) => ({ act: (tx) => model(deps, tx, context) }),
    },
    {
      name: "compact",
      usage: "/compact",
      summary: "sum up the older part of this conversation to make room",
      isSlow: true,
      run: async (context) => ({ text: compactText(await deps.conversations.compact(context.sessionKey)) }),
    },
    {
      name: "usage",
      usage: "/usage",
      summary: "tokens and cost of this chat, its sub-agents and today",
      run: async (context) => ({ text: await usage(deps, context) }),
    },
  ];
}

/** What is spent of the limits this chat is under (BG5). */
async function budgetLines({ payments }: CommandDeps, { sessionKey, agentId, inbound }: CommandContext): Promise<string[]> {
  const { address, sender: person } = inbound;
  const levels = await payments.levelsOf({ message: "", sessionKey, agentId, address, person });
  return levels.map((level) => `- Budget of ${level.name}: ${spentText(level)}`);
}

const COMPACTED = {
  busy: "The agent is at work; it makes room by itself when its window fills. Try again when it is done.",
  nothing: "There is nothing to sum up yet.",
  stopped: "Summing up was stopped; nothing was changed.",
  done: "🗜️ The older part of this conversation is summed up; the transcript keeps every line.",
};

function compactText(answer: CompactAnswer): string {
  if (typeof answer === "string") return COMPACTED[answer];
  if ("leftOut" in answer) return `${COMPACTED.done}\n\n_⚠️ ${notSummedUpText(answer.leftOut)}_`;
  return `⚠️ Summing up failed, and nothing was changed: ${answer.failed}`;
}

const stopText = (stopped: number): string => `⚙️ Agent was aborted. Stopped ${plural(stopped, "sub-agent")}.`;

/** Null: there was nothing to stop. */
async function stop(deps: CommandDeps, tx: Tx, context: CommandContext): Promise<string | null> {
  let stopped = 0;
  const halted = await deps.conversations.halt(tx, context.sessionKey, async () => {
    stopped = (await deps.steering.stopBelow(tx, context.sessionKey, "by /stop")).length;
  });
  return halted || stopped > 0 ? stopText(stopped) : null;
}

/**
 * A stop button, which has one word for both presses (ST3): the first ends the answer, whose text says so itself; one that
 * follows at once ends the rest. One that comes too late, when the answer was complete, ends nothing: nobody asked for that. A button
 * of one answer only (`id`) never ends more: pressed twice, it is the same press.
 */
async function stopAnswer(deps: CommandDeps, tx: Tx, context: CommandContext, id?: number): Promise<string | null> {
  const { sessionKey } = context;
  if (id === undefined && deps.conversations.isAnswerStopped(sessionKey)) return stop(deps, tx, context);
  const going = (await deps.runs.unfinishedBelow(sessionKey)).length;
  const rest = going === 0 ? "" : ` ${plural(going, "sub-agent")} ${going === 1 ? "goes" : "go"} on.`;
  const buttons = going === 0 ? [] : [{ label: "Stop sub-agents too", command: "/stop", danger: true }];
  await deps.conversations.stopAnswer(tx, sessionKey, { note: `Stopped here.${rest}`, buttons }, id);
  return null;
}

async function nothingToStop(deps: CommandDeps, context: CommandContext): Promise<string> {
  const hint = await threadHint(deps, context, "stop");
  return hint === null ? stopText(0) : `Nothing was stopped: nothing is at work in this chat itself. ${hint}`;
}

const owner = (context: CommandContext) => ({
  key: context.sessionKey,
  agentId: context.agentId,
  address: context.inbound.address,
  parentKey: null,
});

async function reset(deps: CommandDeps, tx: Tx, context: CommandContext): Promise<string> {
  const old = await deps.sessions.find(context.sessionKey);
  const fresh = await prepareSession(deps, owner(context));
  const stopped: Run[] = [];
  await deps.conversations.halt(tx, context.sessionKey, async () => {
    if (!deps.keepsSubagents()) stopped.push(...(await deps.steering.stopBelow(tx, context.sessionKey, "by /new")));
  });
  if (old !== null) await deps.sessions.end(tx, old.id);
  await fresh.insert(tx);
  const told = stopped.length === 0 ? "" : ` Stopped ${plural(stopped.length, "sub-agent")}.`;
  return `✨ New conversation.${told}${old === null ? "" : keptText(deps, context, old)}`;
}

function keptText(deps: CommandDeps, context: CommandContext, { agentId, id }: Session): string {
  // A path on this machine is of no use in a chat elsewhere.
  return isOperator(deps, context) ? ` The old one is kept: ${deps.transcripts.path({ agentId, sessionId: id })}` : " The old one is kept.";
}

const isOperator = (deps: CommandDeps, { inbound: { address } }: CommandContext): boolean =>
  deps.channel(address.channel, address.account)?.isOperators === true;

async function model(deps: CommandDeps, tx: Tx, context: CommandContext): Promise<string> {
  const agent = deps.agents.find(context.agentId);
  if (agent === null) return "This chat's agent is not configured any more.";
  const wanted = context.args.trim();
  const session: Session | null = await deps.sessions.find(context.sessionKey);
  if (wanted === "")
    return `Model of this chat: \`${session?.model ?? agent.model}\`${session?.model == null ? " (the default)" : ` (default: \`${agent.model}\`)`}`;
  const back = wanted.toLowerCase() === "default";
  const problem = back ? null : deps.models.check(wanted, context.agentId);
  if (problem !== null) return `⚠️ ${messageFor(problem, isOperator(deps, context))} Nothing was changed.`;
  await deps.sessions.setModel(tx, (await ensureSessionIn(deps, tx, owner(context))).id, back ? null : wanted);
  return `Model of this chat: \`${back ? agent.model : wanted}\`, from the next message on.`;
}

async function usage(deps: CommandDeps, context: CommandContext): Promise<string> {
  const session = await deps.sessions.find(context.sessionKey);
  const children = (await deps.runs.listOf(context.sessionKey, 1_000)).filter((run) => run.requesterSessionId === session?.id);
  const line = (name: string, spend: Spend): string =>
    `- ${name}: ${[tokens(spend), cost(spend.costUsd)].filter((part) => part !== null).join(" • ")}`;
  return [
    "**Usage**",
    line("This conversation", await deps.sessions.spendOf(session === null ? [] : [session.id])),
    line(`Its sub-agents (${children.length})`, await deps.sessions.spendOf(children.map((run) => run.sessionId))),
    line("Today, everything", await deps.sessions.spendOfDay(deps.clock.now())),
    ...(await budgetLines(deps, context)),
  ].join("\n");
}
