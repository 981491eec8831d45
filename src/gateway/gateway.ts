// The front door: inbox rows → decode → the gate → command or the session's lane. Rows are looked at in order of
// arrival and only ever move forward: a command is done together with its answer, a message waits for its turn.
import type { Agents } from "../agents/agent.ts";
import type { Clock } from "../core/clock.ts";
import { isStorageError, publicErrorText } from "../core/errors.ts";
import type { Bus } from "../core/events.ts";
import type { HitFailpoint } from "../core/failpoints.ts";
import type { Logger } from "../core/logger.ts";
import type { Channel, Inbound } from "../core/message.ts";
import { createRateLimit, type RateLimit } from "../core/rate-limit.ts";
import { visibleText } from "../core/visible-text.ts";
import type { Lane } from "../lanes/lanes.ts";
import type { Database, Tx } from "../stores/database.ts";
import type { Inbox, InboxRow } from "../stores/inbox.ts";
import { lock } from "../stores/locks.ts";
import type { Outbox } from "../stores/outbox.ts";
import { MAX_DEATHS, MAX_WORDLESS, type Tries } from "../stores/tries.ts";
import type { Access } from "./access.ts";
import { parseCommandLine } from "./command-line.ts";
import type { Answer, Commands } from "./commands.ts";
import { type Route, routeOf } from "./route.ts";

export interface Gateway {
  /** Takes up what is recorded and unanswered, then everything that arrives. */
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
  /** The command the disk spoiled last, and how often. */
  spoiled: { readonly rowId: number; readonly times: number } | null;
  /** Commands that wait for something, by their row. */
  readonly underWay: Map<number, Promise<void>>;
}

const BATCH = 100;
const STORAGE_RETRY_MS = 5_000;
const MAX_TRIES = 3;
const TOO_MANY = "Too many commands at once: this one was not carried out. Wait a moment, then send it again.";

export function createGateway(deps: GatewayDeps): Gateway {
  const warned = createRateLimit({ burst: 1, refillMs: 60_000, clock: deps.clock });
  const state: State = {
    ...{
      ...deps,
      seen: 0,
      leftTo: 0,
      deaths: new Map(),
      stopped: new AbortController(),
      looking: null,
      isRung: false,
      retrying: false,
      warned,
      spoiled: null,
    },
    underWay: new Map(),
  };
  let unsubscribe = (): void => {};
  return {
    async start() {
      for (const sessionKey of await deps.inbox.waitingSessions()) deps.lane.ring(sessionKey, sessionKey);
      state.leftTo = await deps.inbox.lastId();
      unsubscribe = deps.bus.on((event) => {
        if (event.type !== "inbox.added") return;
        deps.failpoint("inbox.put");
        return look(state);
      });
      await look(state);
    },
    async takeUp() {
      for (const sessionKey of await deps.inbox.orphanedSessions()) deps.lane.ring(sessionKey, sessionKey);
    },
    async stop() {
      state.stopped.abort();
      unsubscribe();
      await state.looking;
      await Promise.all(state.underWay.values());
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
  } else await accept(state, row);
  if (!state.underWay.has(row.id)) await survived(state, row.id);
}

const workOf = (rowId: number): string => `inbox:${rowId}`;

async function survived(state: State, rowId: number): Promise<void> {
  if (state.deaths.delete(rowId)) await state.tries.end(workOf(rowId));
}

async function accept(state: State, row: InboxRow): Promise<void> {
  const channel = state.channel(row.channel, row.account);
  if (channel === null) return;
  const inbound = decode(state, channel, row);
  const route = inbound === null ? null : routeOf(inbound.address, state.agents.defaultId());
  if (inbound === null || route === null) return void (await settle(state, row));

  const item = { row, channel, inbound, sessionKey: route.sessionKey };
  if (!(await admit(state, item))) return;
  const line = parseCommandLine(inbound.text, state.commands.isKnown);
  if (line === null) {
    // Nor what nobody can see: a model would get an empty message.
    if (visibleText(inbound.text).trim() === "") return void (await settle(state, row));
    return queue(state, item, route);
  }
  // Somebody must be able to stop at any time.
  if (line.name !== "stop" && !state.commandLimit.take(`${route.sessionKey} ${inbound.sender.id}`)) return refuse(state, item);
  const deaths = state.deaths.get(row.id) ?? 0;
  if (deaths >= MAX_DEATHS) return answer(state, item, { text: `⚠️ This was not carried out: the gateway ended ${deaths} times at it.` });
  await command(state, item, state.commands.isSlow(line.name), () => state.commands.run(line, { ...route, inboxId: row.id, inbound }));
}

/** The gate. One transaction with its answer: a pairing code that was made is a code that was told. */
async function admit(state: State, item: Item): Promise<boolean> {
  const { row, inbound } = item;
  return state.db.transaction([lock.pairing, lock.chat(inbound.address)], async (tx) => {
    const verdict = await state.access.authorize(tx, inbound);
    if (verdict.allow) return true;
    const { reason, code } = verdict;
    state.log.info({ audit: "denied", channel: row.channel, sender: inbound.sender.id, chat: inbound.address.chat, reason }, "denied");
    state.failpoint("command.before-commit");
    await record(state, tx, item, code === undefined ? { act: async () => null } : { text: pairingText(code) });
    return false;
  });
}

/** Over the limit: one word a minute, or the flood would go on the other way. */
async function refuse(state: State, item: Item): Promise<void> {
  const { row, inbound } = item;
  if (!state.warned.take(`${inbound.address.channel} ${inbound.sender.id}`)) return void (await settle(state, row));
  state.log.warn({ channel: row.channel, sender: inbound.sender.id }, "too many commands; the rest is not carried out");
  await answer(state, item, { text: TOO_MANY });
}

interface Item {
  readonly row: InboxRow;
  readonly channel: Channel;
  readonly inbound: Inbound;
  /** Of the chat it came from: what a command does is done to its tree. */
  readonly sessionKey: string;
}

/**
 * At once wherever it can be: a /stop must take effect before the next row is looked at, or it would drop what came after
 * it in the same batch.
 */
async function command(state: State, item: Item, isSlow: boolean, run: () => Promise<Answer>): Promise<void> {
  if (isSlow) {
    const answered = run()
      .catch((error: unknown) => failed(state, item, error))
      .then((done) => answerInTime(state, item, done));
    return track(state, item.row.id, answered);
  }
  try {
    await answer(state, item, await run());
  } catch (error) {
    // Tried again as a whole: what it has done already it finds done. But not for ever: others wait behind it.
    if (isStorageError(error) && mayTryAgain(state, item.row.id)) throw error;
    await answer(state, item, failed(state, item, error));
  }
}

function mayTryAgain(state: State, rowId: number): boolean {
  const { spoiled } = state;
  state.spoiled = { rowId, times: spoiled?.rowId === rowId ? spoiled.times + 1 : 1 };
  return state.spoiled.times < MAX_TRIES;
}

/** Nobody runs the command again, so its answer waits for the disk. */
async function answerInTime(state: State, item: Item, done: Answer): Promise<void> {
  for (;;) {
    try {
      return await answer(state, item, done);
    } catch (error) {
      if (!isStorageError(error) || state.stopped.signal.aborted) throw error;
      state.log.error({ err: error, inboxId: item.row.id }, "an answer could not be recorded; trying again");
      await state.clock.sleep(STORAGE_RETRY_MS, state.stopped.signal);
    }
  }
}

async function queue(state: State, { row, channel, inbound }: Item, route: Route): Promise<void> {
  await state.inbox.route(row.id, route.sessionKey);
  state.failpoint("gateway.routed");
  state.lane.ring(route.sessionKey, route.sessionKey);
  if (inbound.ref !== undefined) {
    channel.receipt?.(inbound.address, inbound.ref).catch((error: unknown) => state.log.debug({ err: error }, "the receipt failed"));
  }
}

function decode(state: State, channel: Channel, row: InboxRow): Inbound | null {
  try {
    return channel.decode(row.raw);
  } catch (error) {
    state.log.warn({ err: error, channel: row.channel, inboxId: row.id }, "an update could not be read; it is dropped");
    return null;
  }
}

/** Effect, answer and the done row in one transaction. */
async function answer(state: State, item: Item, done: Answer): Promise<void> {
  state.failpoint("command.before-commit");
  await state.db.transaction([lock.tree(item.sessionKey), lock.chat(item.inbound.address)], (tx) => record(state, tx, item, done));
  state.failpoint("command.committed");
}

const settle = (state: State, { id }: InboxRow): Promise<boolean> => state.db.transaction([], (tx) => state.inbox.finish(tx, id));

/** A replayed command finds its row done and does nothing. */
async function record(state: State, tx: Tx, { row, channel, inbound }: Item, done: Answer): Promise<void> {
  if (!(await state.inbox.finish(tx, row.id))) return;
  const markdown = "act" in done ? await done.act(tx) : done.text;
  if (markdown === null) return;
  const { ref, onlyTo, address } = inbound;
  const message = { markdown, ...(ref === undefined ? {} : { replyTo: ref }), ...(onlyTo === undefined ? {} : { onlyTo }) };
  const parts = channel.render(message, address);
  await state.outbox.add(tx, { delivery: `answer:${row.id}`, address, parts, isAnswer: true });
}

function failed(state: State, item: Item, error: unknown): Answer {
  state.log.error({ err: error, inboxId: item.row.id }, "a command failed");
  return { text: `⚠️ That did not work: ${publicErrorText(error)}` };
}

function track(state: State, rowId: number, work: Promise<void>): void {
  const over = async (): Promise<void> => {
    try {
      await work;
      await survived(state, rowId);
    } catch (error) {
      state.log.error({ err: error }, "an answer could not be recorded");
    }
    state.underWay.delete(rowId);
  };
  state.underWay.set(rowId, over());
}

const pairingText = (code: string): string =>
  `I don't know you yet. Your pairing code is **${code}** (valid for one hour, or for less if many ask). Whoever runs this gateway can let you in on its page or with \`npm run pair -- ${code}\`.`;
