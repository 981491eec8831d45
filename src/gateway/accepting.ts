// One incoming message: decoded, past the gate, then a command, the answer to a question, or something for the session's lane. A command
// is done together with its answer; a message waits for its turn. gateway.ts → here → answering, replying, the lane
import type { Agents } from "../agents/agent.ts";
import type { Clock } from "../core/clock.ts";
import type { HitFailpoint } from "../core/failpoints.ts";
import type { Logger } from "../core/logger.ts";
import type { Channel, Inbound, Wake } from "../core/message.ts";
import { commandWords } from "../core/own-files.ts";
import { createRateLimit, type RateLimit } from "../core/rate-limit.ts";
import { visibleText } from "../core/visible-text.ts";
import type { Lane } from "../lanes/lanes.ts";
import type { Database } from "../stores/database.ts";
import type { Inbox, InboxRow } from "../stores/inbox.ts";
import { lock } from "../stores/lock-keys.ts";
import type { Outbox } from "../stores/outbox.ts";
import { MAX_DEATHS } from "../stores/tries.ts";
import type { Access } from "./access.ts";
import { type Answering, createAnswering, type Item } from "./answering.ts";
import { parseCommandLine } from "./command-line.ts";
import type { Answer, Commands } from "./commands.ts";
import { FUTILE_PRESS } from "./pressing.ts";
import { meantQuestion, type ReplyingDeps, replyAnswer, waitingText } from "./replying.ts";
import { type Route, routeOf } from "./route.ts";

export interface AcceptingDeps extends ReplyingDeps {
  readonly db: Database;
  readonly inbox: Inbox;
  readonly outbox: Outbox;
  readonly agents: Agents;
  readonly access: Access;
  readonly commands: Commands;
  readonly commandLimit: RateLimit;
  readonly lane: Lane;
  readonly clock: Clock;
  readonly log: Logger;
  readonly failpoint: HitFailpoint;
  channel(name: string, account: string): Channel | null;
  /** Among several processes: what a message waits for whose agent nobody alive can run; null: somebody can. */
  whyStranded?(agentId: string): Promise<string | null>;
}

/** How often processes have ended at a row, and who hears when it is over. */
export interface Trying {
  readonly deaths: number;
  onOver(): Promise<void>;
}

export interface Accepting {
  /** `later`: a slow command, which is answered whenever it is done. */
  accept(row: InboxRow, trying: Trying): Promise<"over" | "later">;
  /** Without a word. */
  drop(row: InboxRow): Promise<"over">;
  /** Resolves when the commands under way are answered. */
  idle(): Promise<void>;
}

interface State extends AcceptingDeps {
  /** Who was told lately that their commands are too many. */
  readonly warned: RateLimit;
  readonly answering: Answering;
}

const UNUSED = "_📎 What was attached was not used: commands take no files._";
const TOO_MANY = "Too many commands at once: this one was not carried out. Wait a moment, then send it again.";

export function createAccepting(deps: AcceptingDeps, stopped: AbortSignal): Accepting {
  const state: State = {
    ...deps,
    warned: createRateLimit({ burst: 1, refillMs: 60_000, clock: deps.clock }),
    answering: createAnswering(deps, stopped),
  };
  return {
    accept: (row, trying) => accept(state, row, trying),
    drop: (row) => drop(state, row),
    idle: () => state.answering.idle(),
  };
}

async function accept(state: State, row: InboxRow, { deaths, onOver }: Trying): Promise<"over" | "later"> {
  const channel = state.channel(row.channel, row.account);
  // Its channel is off: it stays as it is.
  if (channel === null) return "over";
  const inbound = decode(state, channel, row);
  // Nobody said it, so there is nobody to let in: it goes to the session that sent the runs out, whatever the address leads to by now.
  if (inbound?.wake !== undefined) return queueWake(state, row, inbound.wake);
  const route = inbound === null ? null : routeOf(inbound.address, state.agents.defaultId());
  if (inbound === null || route === null) return drop(state, row);

  const item = { row, channel, inbound, sessionKey: route.sessionKey };
  if (!(await admit(state, item))) return "over";
  if (inbound.unreadable !== undefined) return say(state, item, inbound.unreadable);
  const line = parseCommandLine(inbound.words ?? inbound.text, state.commands.isKnown);
  const isFutile = inbound.kind === "button" && (line === null || !state.commands.isKnown(line.name));
  if (line === null && !isFutile) return take(state, item, route, onOver);
  // Somebody must be able to stop at any time.
  if (line?.name !== "stop" && !state.commandLimit.take(`${route.sessionKey} ${inbound.sender.id}`)) return refuse(state, item);
  if (line === null || isFutile) return say(state, item, FUTILE_PRESS);
  if (deaths >= MAX_DEATHS) return say(state, item, `⚠️ This was not carried out: the gateway ended ${deaths} times at it.`);
  return state.answering.carryOut(item, {
    isSlow: state.commands.isSlow(line.name),
    run: async () => withUnused(inbound, await state.commands.run(line, { ...route, inboxId: row.id, inbound })),
    onOver,
  });
}

/** The answer to a command, and a sentence on what came with it. */
function withUnused({ words, files = [] }: Inbound, done: Answer): Answer {
  if (words === undefined && files.length === 0) return done;
  const add = (text: string | null): string => (text === null ? UNUSED : `${text}\n\n${UNUSED}`);
  return "act" in done ? { act: async (tx) => add(await done.act(tx)) } : { text: add(done.text) };
}

async function drop(state: State, row: InboxRow): Promise<"over"> {
  await state.db.transaction([], (tx) => state.inbox.finish(tx, row.id));
  return "over";
}

async function say(state: State, item: Item, text: string): Promise<"over"> {
  await state.answering.answer(item, { text });
  return "over";
}

/** The gate. One transaction with its answer: a pairing code that was made is a code that was told. */
async function admit(state: State, item: Item): Promise<boolean> {
  const { row, inbound } = item;
  // Somebody who is known gets no code: there is nothing to record, and a transaction of its own would only be begun and ended.
  if (await state.access.isAllowed(inbound)) return true;
  return state.db.transaction([lock.pairing, lock.chat(inbound.address)], async (tx) => {
    const verdict = await state.access.authorize(tx, inbound);
    if (verdict.allow) return true;
    const { reason, code } = verdict;
    state.log.info({ audit: "denied", channel: row.channel, sender: inbound.sender.id, chat: inbound.address.chat, reason }, "denied");
    state.failpoint("command.before-commit");
    await state.answering.record(tx, item, code === undefined ? { act: async () => null } : { text: pairingText(code) });
    return false;
  });
}

/** Over the limit: one word a minute, or the flood would go on the other way. */
async function refuse(state: State, item: Item): Promise<"over"> {
  const { row, inbound } = item;
  if (!state.warned.take(`${inbound.address.channel} ${inbound.sender.id}`)) return drop(state, row);
  state.log.warn({ channel: row.channel, sender: inbound.sender.id }, "too many commands; the rest is not carried out");
  return say(state, item, TOO_MANY);
}

/** What no command is: the answer to a question, or something for the agent. */
async function take(state: State, item: Item, route: Route, onOver: Trying["onOver"]): Promise<"over" | "later"> {
  const { row, channel, inbound } = item;
  const meant = await meantQuestion(state, item);
  if (meant === null || !("question" in meant)) {
    // Not what nobody can see: a model would get an empty message.
    if (visibleText(inbound.text).trim() === "" && (inbound.files ?? []).length === 0) return drop(state, row);
    await queue(state, item, route);
    if (meant !== null) await tell(state, item, { delivery: `behind:${row.id}`, markdown: waitingText(channel, meant) });
    return "over";
  }
  const { question } = meant;
  // Under the lock of the tree that asks, which need not be this chat's: a thread below the question is another one.
  const asked = { ...item, sessionKey: question.rootKey };
  const run = async () => replyAnswer(state, question, inbound);
  return state.answering.carryOut(asked, { isSlow: false, run, onOver });
}

async function queueWake(state: State, row: InboxRow, { sessionKey }: Wake): Promise<"over"> {
  await state.inbox.route(row.id, sessionKey);
  state.lane.ring(sessionKey, sessionKey);
  return "over";
}

async function queue(state: State, { row, channel, inbound }: Item, route: Route): Promise<"over"> {
  await state.inbox.route(row.id, route.sessionKey);
  state.failpoint("gateway.routed");
  state.lane.ring(route.sessionKey, route.sessionKey);
  await sayStranded(state, { row, channel, inbound }, route);
  if (inbound.ref !== undefined) {
    channel.receipt?.(inbound.address, inbound.ref).catch((error: unknown) => state.log.debug({ err: error }, "the receipt failed"));
  }
  return "over";
}

/** Nobody alive can run its agent: the message waits, perhaps for days, and whoever sent it hears so. */
async function sayStranded(state: State, { row, channel, inbound }: Omit<Item, "sessionKey">, route: Route): Promise<void> {
  const why = await state.whyStranded?.(route.agentId);
  if (why == null) return;
  const markdown = `_⏳ This ${why}, which is not there at the moment. It is answered when it is back._`;
  await tell(state, { channel, inbound }, { delivery: `stranded:${row.id}`, markdown });
}

/** A line beside the answer to come. */
async function tell(
  state: State,
  { channel, inbound }: Pick<Item, "channel" | "inbound">,
  { delivery, markdown }: { delivery: string; markdown: string },
): Promise<void> {
  const { address, ref } = inbound;
  const parts = channel.render({ markdown, ...(ref === undefined ? {} : { replyTo: ref }) }, address);
  await state.db.transaction([lock.chat(address)], (tx) => state.outbox.add(tx, { delivery, address, parts }));
}

function decode(state: State, channel: Channel, row: InboxRow): Inbound | null {
  try {
    return channel.decode(row.raw);
  } catch (error) {
    state.log.warn({ err: error, channel: row.channel, inboxId: row.id }, "an update could not be read; it is dropped");
    return null;
  }
}

const pairingText = (code: string): string =>
  `I don't know you yet. Your pairing code is **${code}** (valid for one hour, or for less if many ask). Whoever runs this gateway can let you in on its page or with \`${commandWords("pair", code)}\`.`;
