// The front door: inbox rows → decode → the gate → command or the session's lane. Rows are looked at in order of
// arrival and only ever move forward: a command is done together with its answer, a message waits for its turn.
import type { Agents } from "../agents/agent.ts";
import type { Clock } from "../core/clock.ts";
import { isStorageError } from "../core/errors.ts";
import type { Bus } from "../core/events.ts";
import type { HitFailpoint } from "../core/failpoints.ts";
import type { Logger } from "../core/logger.ts";
import type { Channel, Inbound } from "../core/message.ts";
import { createRateLimit, type RateLimit } from "../core/rate-limit.ts";
import { visibleText } from "../core/visible-text.ts";
import type { Lane } from "../lanes/lanes.ts";
import type { Database } from "../stores/database.ts";
import type { Inbox, InboxRow } from "../stores/inbox.ts";
import { lock } from "../stores/lock-keys.ts";
import type { Outbox } from "../stores/outbox.ts";
import { MAX_DEATHS, MAX_WORDLESS, type Tries } from "../stores/tries.ts";
import type { Access } from "./access.ts";
import { type Answering, createAnswering, type Item } from "./answering.ts";
import { parseCommandLine } from "./command-line.ts";
import type { Commands } from "./commands.ts";
import { type Route, routeOf } from "./route.ts";

export interface Gateway {
  /** Takes up what is recorded and unanswered, then everything that arrives. What failed at its beginning may be begun again. */
  start(): Promise<void>;
  /** What was being answered by a process that is not alive any more. */
  takeUp(): Promise<void>;
  /** Looks at nothing new; resolves when the commands under way are answered. */
  stop(): Promise<void>;
}

export interface GatewayDeps {
  readonly db: Database;
  readonly inbox: Inbox;
  readonly outbox: Outbox;
  readonly tries: Tries;
  readonly agents: Agents;
  readonly access: Access;
  readonly commands: Commands;
  readonly commandLimit: RateLimit;
  readonly lane: Lane;
  readonly clock: Clock;
  readonly bus: Bus;
  readonly log: Logger;
  readonly failpoint: HitFailpoint;
  channel(name: string, account: string): Channel | null;
  /** Among several processes: what a message waits for whose agent nobody alive can run; null: somebody can. */
  whyStranded?(agentId: string): Promise<string | null>;
}

interface State extends GatewayDeps {
  /** Rows up to here were looked at in this process; what stayed `new` behind it waits for its channel. */
  seen: number;
  /** Rows up to here were left by an earlier process. */
  leftTo: number;
  /** Of those, what is being tried here, and how many processes have ended at it. */
  readonly deaths: Map<number, number>;
  readonly stopped: AbortController;
  /** The look under way. */
  looking: Promise<void> | null;
  isRung: boolean;
  retrying: boolean;
  /** Who was told lately that their commands are too many. */
  readonly warned: RateLimit;
  readonly answering: Answering;
}

const BATCH = 100;
const STORAGE_RETRY_MS = 5_000;
const TOO_MANY = "Too many commands at once: this one was not carried out. Wait a moment, then send it again.";

export function createGateway(deps: GatewayDeps): Gateway {
  const stopped = new AbortController();
  const state: State = {
    ...{ ...deps, stopped, seen: 0, leftTo: 0, deaths: new Map(), looking: null, isRung: false, retrying: false },
    warned: createRateLimit({ burst: 1, refillMs: 60_000, clock: deps.clock }),
    answering: createAnswering(deps, stopped.signal),
  };
  let unsubscribe = (): void => {};
  return {
    async start() {
      for (const sessionKey of await deps.inbox.waitingSessions()) deps.lane.ring(sessionKey, sessionKey);
      state.leftTo = await deps.inbox.lastId();
      unsubscribe();
      unsubscribe = deps.bus.on((event) => {
        if (event.type === "bells.missed") return look(state);
        if (event.type !== "inbox.added") return;
        deps.failpoint("inbox.put");
        return look(state);
      });
      await look(state);
    },
    async takeUp() {
      for (const sessionKey of await deps.inbox.orphanedSessions()) deps.lane.ring(sessionKey, sessionKey);
      // Somebody laid it down in an orderly way, or ended between writing a row and ringing for it.
      for (const sessionKey of (await deps.lane.unrung?.()) ?? []) deps.lane.ring(sessionKey, sessionKey);
    },
    async stop() {
      state.stopped.abort();
      unsubscribe();
      await state.looking;
      await state.answering.idle();
    },
  };
}

/** One look at a time: two would take up the same rows. What arrives during one is seen by it, or by the next. */
function look(state: State): Promise<void> {
  state.isRung = true;
  state.looking ??= lookWhileRung(state);
  return state.looking;
}

async function lookWhileRung(state: State): Promise<void> {
  try {
    while (state.isRung && !state.stopped.signal.aborted) {
      state.isRung = false;
      await lookOnce(state);
    }
  } finally {
    state.looking = null;
  }
}

async function lookOnce(state: State): Promise<void> {
  while (!state.stopped.signal.aborted) {
    const rows = await listNew(state);
    if (rows === null) return lookAgain(state);
    for (const row of rows) {
      // What is left is looked at when the gateway starts again.
      if (state.stopped.signal.aborted) return;
      try {
        await takeUp(state, row);
      } catch (error) {
        state.log.error({ err: error, inboxId: row.id, channel: row.channel }, "an incoming message could not be handled");
        if (isStorageError(error)) return lookAgain(state);
        // One broken row must not hold up the others; it stays recorded and is looked at again at the next start.
        await survived(state, row.id);
      }
      state.seen = row.id;
    }
    if (rows.length < BATCH) return;
  }
}

async function listNew(state: State): Promise<InboxRow[] | null> {
  try {
    return await state.inbox.listNew(state.seen, BATCH);
  } catch (error) {
    state.log.error({ err: error }, "incoming messages can't be read");
    return null;
  }
}

/** The disk refused: nothing was half done, so the same row is tried again in a while. */
function lookAgain(state: State): void {
  if (state.retrying) return;
  state.retrying = true;
  void state.clock.sleep(STORAGE_RETRY_MS, state.stopped.signal).then(async () => {
    state.retrying = false;
    await look(state);
  });
}

/**
 * What an earlier process left may be what ended it, so the try is on record before anything of the row is read. Given up
 * in words first; if those end the process again and again, without a word.
 */
async function takeUp(state: State, row: InboxRow): Promise<void> {
  if (row.id <= state.leftTo && !state.deaths.has(row.id)) state.deaths.set(row.id, await state.tries.begin(workOf(row.id)));
  const deaths = state.deaths.get(row.id) ?? 0;
  if (deaths > MAX_WORDLESS) {
    state.log.error(
      { inboxId: row.id, channel: row.channel, deaths },
      "an incoming message ends the gateway whenever it is read; it is dropped",
    );
    await settle(state, row);
    return survived(state, row.id);
  }
  if ((await accept(state, row)) === "over") await survived(state, row.id);
}

const workOf = (rowId: number): string => `inbox:${rowId}`;

async function survived(state: State, rowId: number): Promise<void> {
  if (state.deaths.delete(rowId)) await state.tries.end(workOf(rowId));
}

/** `later`: a slow command, which is answered whenever it is done. */
async function accept(state: State, row: InboxRow): Promise<"over" | "later"> {
  const channel = state.channel(row.channel, row.account);
  // Its channel is off: it stays as it is.
  if (channel === null) return "over";
  const inbound = decode(state, channel, row);
  const route = inbound === null ? null : routeOf(inbound.address, state.agents.defaultId());
  if (inbound === null || route === null) return drop(state, row);

  const item = { row, channel, inbound, sessionKey: route.sessionKey };
  if (!(await admit(state, item))) return "over";
  const line = parseCommandLine(inbound.text, state.commands.isKnown);
  // Nor what nobody can see: a model would get an empty message.
  if (line === null) return visibleText(inbound.text).trim() === "" ? drop(state, row) : queue(state, item, route);
  // Somebody must be able to stop at any time.
  if (line.name !== "stop" && !state.commandLimit.take(`${route.sessionKey} ${inbound.sender.id}`)) return refuse(state, item);
  const deaths = state.deaths.get(row.id) ?? 0;
  if (deaths >= MAX_DEATHS) return say(state, item, `⚠️ This was not carried out: the gateway ended ${deaths} times at it.`);
  return state.answering.carryOut(item, {
    isSlow: state.commands.isSlow(line.name),
    run: () => state.commands.run(line, { ...route, inboxId: row.id, inbound }),
    onOver: () => survived(state, row.id),
  });
}

async function drop(state: State, row: InboxRow): Promise<"over"> {
  await settle(state, row);
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
  const { address, ref } = inbound;
  const markdown = `_⏳ This ${why}, which is not there at the moment. It is answered when it is back._`;
  const parts = channel.render({ markdown, ...(ref === undefined ? {} : { replyTo: ref }) }, address);
  await state.db.transaction([lock.chat(address)], (tx) => state.outbox.add(tx, { delivery: `stranded:${row.id}`, address, parts }));
}

function decode(state: State, channel: Channel, row: InboxRow): Inbound | null {
  try {
    return channel.decode(row.raw);
  } catch (error) {
    state.log.warn({ err: error, channel: row.channel, inboxId: row.id }, "an update could not be read; it is dropped");
    return null;
  }
}

const settle = (state: State, { id }: InboxRow): Promise<boolean> => state.db.transaction([], (tx) => state.inbox.finish(tx, id));

const pairingText = (code: string): string =>
  `I don't know you yet. Your pairing code is **${code}** (valid for one hour, or for less if many ask). Whoever runs this gateway can let you in on its page or with \`npm run pair -- ${code}\`.`;
