// The front door: inbox rows → decode → the gate → command or the session's lane. Rows are looked at in order of
// arrival and only ever move forward: a command is done together with its answer, a message waits for its turn.
import type { Agents } from "../agents/agent.ts";
import type { Clock } from "../core/clock.ts";
import { errorText, isStorageError } from "../core/errors.ts";
import type { Bus } from "../core/events.ts";
import type { HitFailpoint } from "../core/failpoints.ts";
import type { Logger } from "../core/logger.ts";
import type { Channel, Inbound } from "../core/message.ts";
import { createRateLimit, type RateLimit } from "../core/rate-limit.ts";
import type { Lane } from "../lanes/lanes.ts";
import type { Database } from "../stores/database.ts";
import type { Inbox, InboxRow } from "../stores/inbox.ts";
import type { Outbox } from "../stores/outbox.ts";
import type { Access } from "./access.ts";
import { parseCommandLine } from "./command-line.ts";
import type { Answer, Commands } from "./commands.ts";
import { type Route, routeOf } from "./route.ts";

export interface Gateway {
  /** Takes up what is recorded and unanswered, then everything that arrives. */
  start(): void;
  /** Looks at nothing new; resolves when the commands under way are answered. */
  stop(): Promise<void>;
}

export interface GatewayDeps {
  readonly db: Database;
  readonly inbox: Inbox;
  readonly outbox: Outbox;
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
  readonly stopped: AbortController;
  retrying: boolean;
  /** Who was told lately that their commands are too many. */
  readonly warned: RateLimit;
  /** The command the disk spoiled last, and how often. */
  spoiled: { readonly rowId: number; readonly times: number } | null;
  readonly underWay: Set<Promise<void>>;
}

const BATCH = 100;
const STORAGE_RETRY_MS = 5_000;
const MAX_TRIES = 3;
const TOO_MANY = "Too many commands at once: this one was not carried out. Wait a moment, then send it again.";

export function createGateway(deps: GatewayDeps): Gateway {
  const warned = createRateLimit({ burst: 1, refillMs: 60_000, clock: deps.clock });
  const state: State = { ...deps, seen: 0, stopped: new AbortController(), retrying: false, warned, spoiled: null, underWay: new Set() };
  let unsubscribe = (): void => {};
  return {
    start() {
      unsubscribe = deps.bus.on((event) => {
        if (event.type === "inbox.added") look(state);
      });
      for (const sessionKey of deps.inbox.waitingSessions()) deps.lane.ring(sessionKey, sessionKey);
      look(state);
    },
    async stop() {
      state.stopped.abort();
      unsubscribe();
      await Promise.all(state.underWay);
    },
  };
}

function look(state: State): void {
  while (!state.stopped.signal.aborted) {
    const rows = listNew(state);
    if (rows === null) return lookAgain(state);
    for (const row of rows) {
      try {
        accept(state, row);
      } catch (error) {
        state.log.error({ err: error, inboxId: row.id, channel: row.channel }, "an incoming message could not be handled");
        if (isStorageError(error)) return lookAgain(state);
        // One broken row must not hold up the others; it stays recorded and is looked at again at the next start.
      }
      state.seen = row.id;
    }
    if (rows.length < BATCH) return;
  }
}

function listNew(state: State): InboxRow[] | null {
  try {
    return state.inbox.listNew(state.seen, BATCH);
  } catch (error) {
    state.log.error({ err: error }, "incoming messages can't be read");
    return null;
  }
}

/** The disk refused: nothing was half done, so the same row is tried again in a while. */
function lookAgain(state: State): void {
  if (state.retrying) return;
  state.retrying = true;
  void state.clock.sleep(STORAGE_RETRY_MS, state.stopped.signal).then(() => {
    state.retrying = false;
    look(state);
  });
}

function accept(state: State, row: InboxRow): void {
  const channel = state.channel(row.channel, row.account);
  if (channel === null) return;
  const inbound = decode(state, channel, row);
  const route = inbound === null ? null : routeOf(inbound.address, state.agents.defaultId());
  if (inbound === null || route === null) return void state.inbox.finish(row.id);

  const item = { row, channel, inbound };
  if (!admit(state, item)) return;
  const line = parseCommandLine(inbound.text, state.commands.isKnown);
  if (line === null) {
    if (inbound.text.trim() === "") return void state.inbox.finish(row.id);
    return queue(state, item, route);
  }
  // Somebody must be able to stop at any time.
  if (line.name !== "stop" && !state.commandLimit.take(`${route.sessionKey} ${inbound.sender.id}`)) return refuse(state, item);
  command(state, item, () => state.commands.run(line, { ...route, inboxId: row.id, inbound }));
}

/** The gate. One transaction with its answer: a pairing code that was made is a code that was told. */
function admit(state: State, item: Item): boolean {
  const { row, inbound } = item;
  return state.db.transaction(() => {
    const verdict = state.access.authorize(inbound);
    if (verdict.allow) return true;
    const { reason, code } = verdict;
    state.log.info({ audit: "denied", channel: row.channel, sender: inbound.sender.id, chat: inbound.address.chat, reason }, "denied");
    state.failpoint("command.before-commit");
    record(state, item, { text: code === undefined ? () => null : pairingText(code) });
    return false;
  });
}

/** Over the limit: one word a minute, or the flood would go on the other way. */
function refuse(state: State, item: Item): void {
  const { row, inbound } = item;
  if (!state.warned.take(`${inbound.address.channel} ${inbound.sender.id}`)) return void state.inbox.finish(row.id);
  state.log.warn({ channel: row.channel, sender: inbound.sender.id }, "too many commands; the rest is not carried out");
  answer(state, item, { text: TOO_MANY });
}

interface Item {
  readonly row: InboxRow;
  readonly channel: Channel;
  readonly inbound: Inbound;
}

/**
 * At once wherever it can be: a /stop must take effect before the next row is looked at, or it would drop what came after
 * it in the same batch.
 */
function command(state: State, item: Item, run: () => Answer | Promise<Answer>): void {
  let done: Answer | Promise<Answer>;
  try {
    done = run();
    if (!(done instanceof Promise)) return answer(state, item, done);
  } catch (error) {
    // Tried again as a whole: what it has done already it finds done. But not for ever: others wait behind it.
    if (isStorageError(error) && mayTryAgain(state, item.row.id)) throw error;
    return answer(state, item, failed(state, item, error));
  }
  const answered = done.catch((error: unknown) => failed(state, item, error)).then((value) => answerInTime(state, item, value));
  track(state, answered);
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
      return answer(state, item, done);
    } catch (error) {
      if (!isStorageError(error) || state.stopped.signal.aborted) throw error;
      state.log.error({ err: error, inboxId: item.row.id }, "an answer could not be recorded; trying again");
      await state.clock.sleep(STORAGE_RETRY_MS, state.stopped.signal);
    }
  }
}

function queue(state: State, { row, channel, inbound }: Item, route: Route): void {
  state.inbox.route(row.id, route.sessionKey);
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
function answer(state: State, item: Item, done: Answer): void {
  state.failpoint("command.before-commit");
  state.db.transaction(() => record(state, item, done));
  state.failpoint("command.committed");
}

/** A replayed command finds its row done and does nothing. */
function record(state: State, { row, channel, inbound }: Item, { text }: Answer): void {
  if (!state.inbox.finish(row.id)) return;
  const markdown = typeof text === "string" ? text : text();
  if (markdown === null) return;
  const parts = channel.render({ markdown, ...(inbound.ref === undefined ? {} : { replyTo: inbound.ref }) }, inbound.address);
  state.outbox.add({ delivery: `answer:${row.id}`, address: inbound.address, parts });
}

function failed(state: State, item: Item, error: unknown): Answer {
  state.log.error({ err: error, inboxId: item.row.id }, "a command failed");
  return { text: `⚠️ That did not work: ${errorText(error)}` };
}

function track(state: State, work: Promise<void>): void {
  const tracked = work
    .catch((error: unknown) => state.log.error({ err: error }, "an answer could not be recorded"))
    .finally(() => state.underWay.delete(tracked));
  state.underWay.add(tracked);
}

const pairingText = (code: string): string =>
  `I don't know you yet. Your pairing code is **${code}** (valid for one hour). Whoever runs this gateway can let you in on its page or with \`npm run pair -- ${code}\`.`;
