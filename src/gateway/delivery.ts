// outbox → channel.send. One sender per address; another address never waits for it (DL5). Within an address messages go in
// order, but one that fails or hangs steps aside: otherwise everybody in that chat, and the answer to /stop first of all,
// would wait for as long as one announcement meets a 503 (DL6). Parts of one message stay in order.
// A part is marked `sending` before the call, so a crash leaves a trace: at boot it is `unknown` and the channel is asked
// whether it arrived (Slack, web), or it is sent once more, marked (Telegram). No model call stands between a row and its retries.
import { addressKey } from "../core/address.ts";
import type { Clock } from "../core/clock.ts";
import type { Bus } from "../core/events.ts";
import type { HitFailpoint } from "../core/failpoints.ts";
import type { Logger } from "../core/logger.ts";
import type { Channel, SendResult } from "../core/message.ts";
import type { Database } from "../stores/database.ts";
import type { Outbox, OutboxRow, Standing } from "../stores/outbox.ts";
import { MAX_DEATHS, type Tries } from "../stores/tries.ts";

export interface Delivery {
  /** Takes up everything that is open; returns at once. */
  start(): void;
  /** Starts no further send; resolves when those under way are over. */
  stop(): Promise<void>;
}

export interface DeliveryDeps {
  readonly db: Database;
  readonly outbox: Outbox;
  readonly tries: Tries;
  readonly clock: Clock;
  readonly bus: Bus;
  readonly log: Logger;
  readonly failpoint: HitFailpoint;
  channel(name: string, account: string): Channel | null;
  /** Called in the transaction that moves a delivery: when its sending begins and when it is over. */
  recordDelivery(row: OutboxRow, state: "sending" | "delivered" | "blocked", reason?: string): void;
}

interface State extends DeliveryDeps {
  readonly senders: Map<string, Promise<void>>;
  /** Rung while its sender was busy: a row added just as the sender found nothing more must not be left lying. */
  readonly rung: Set<string>;
  /** Addresses whose next part is not due yet, and who sleeps until it is. */
  readonly deferred: Map<string, { readonly at: number; readonly sleep: AbortController }>;
  /** Attempts by delivery. Nobody else touches such a delivery, also when its address has gone on without it. */
  readonly underWay: Map<string, Attempt>;
  /** Rows whose sending an earlier process began: one of them may be what ended it. */
  readonly left: Set<number>;
  readonly stopped: AbortController;
}

interface Attempt {
  readonly key: string;
  readonly parts: number;
  readonly over: Promise<void>;
}

const FIRST_RETRY_MS = 1_000;
const MAX_RETRY_MS = 5 * 60_000;
const GIVE_UP_MS = 24 * 3_600_000;
/** How long what comes behind it waits for one attempt. */
const PATIENCE_MS = 2_000;
/** The longest a timer can be set for. */
const MAX_SLEEP_MS = 2 ** 31 - 1;

export function createDelivery(deps: DeliveryDeps): Delivery {
  const state: State = {
    ...deps,
    ...{ senders: new Map(), rung: new Set(), deferred: new Map(), underWay: new Map(), left: new Set(), stopped: new AbortController() },
  };
  let unsubscribe = (): void => {};
  return {
    start() {
      unsubscribe = deps.bus.on((event) => {
        if (event.type === "outbox.added") pump(state, event.addressKey);
      });
      for (const id of deps.outbox.recover()) state.left.add(id);
      for (const key of deps.outbox.openAddresses()) pump(state, key);
    },
    async stop() {
      unsubscribe();
      state.stopped.abort();
      const attempts = [...state.underWay.values()].map((attempt) => attempt.over);
      await Promise.allSettled([...state.senders.values(), ...attempts]);
    },
  };
}

/** `reached`: the time somebody slept for. The clock may be behind it, because it was set back meanwhile. */
function pump(state: State, key: string, reached = 0): void {
  if (state.stopped.signal.aborted) return;
  if (state.senders.has(key)) return void state.rung.add(key);
  const work = drainAddress(state, key, reached)
    .catch((error: unknown) => pause(state, key, error))
    .finally(() => {
      state.senders.delete(key);
      if (state.rung.delete(key)) pump(state, key);
    });
  state.senders.set(key, work);
}

/** The disk refused: the rows are as they were, so look again later. */
function pause(state: State, key: string, error: unknown): void {
  state.log.error({ err: error, address: key }, "delivery is paused");
  defer(state, key, state.clock.now() + FIRST_RETRY_MS);
}

async function drainAddress(state: State, key: string, reached: number): Promise<void> {
  for (let since = reached; !state.stopped.signal.aborted; since = 0) {
    const row = nextInLine(state, key);
    if (row === null) return;
    const now = state.clock.now();
    // It has not failed yet, by a clock that was set back: then its time says nothing either.
    const isSetBack = now < (row.firstAt ?? 0);
    if (row.notBefore > Math.max(now, since) && !isSetBack) return defer(state, key, row.notBefore);
    await attemptPatiently(state, key, row);
  }
}

/**
 * Those that never failed first: a message that keeps failing takes no turn from the others. One that has to wait although it
 * is in line was told to by the platform, and that goes for everybody there.
 */
function nextInLine({ outbox, underWay }: State, key: string): OutboxRow | null {
  const head = outbox.head(key);
  if (head !== null && !underWay.has(head.delivery)) return head;
  // Its attempt takes long, and the disk refused to record that it stepped aside: nobody may send it a second time meanwhile.
  if (head !== null) outbox.stepAside(head.delivery);
  const here = [...underWay.values()].filter((attempt) => attempt.key === key);
  const aside = outbox.listAside(key, 1 + here.reduce((sum, { parts }) => sum + parts, 0));
  return aside.find((row) => !underWay.has(row.delivery)) ?? null;
}

/** One sleep for each address: what is slept off passes whatever becomes of the time of day. */
function defer(state: State, key: string, at: number): void {
  const known = state.deferred.get(key);
  if (known?.at === at) return;
  known?.sleep.abort();
  const sleep = new AbortController();
  state.deferred.set(key, { at, sleep });
  const signal = AbortSignal.any([sleep.signal, state.stopped.signal]);
  void state.clock.sleep(Math.min(at - state.clock.now(), MAX_SLEEP_MS), signal).then(() => {
    if (signal.aborted) return;
    state.deferred.delete(key);
    pump(state, key, at);
  });
}

/**
 * What comes behind it waits for an attempt, so that messages arrive in order, but not for one that hangs. Then the address
 * goes on without it: the attempt is still under way, and its outcome is recorded whenever it comes.
 */
async function attemptPatiently(state: State, key: string, row: OutboxRow): Promise<void> {
  const ended = new AbortController();
  const over = attempt(state, row).finally(() => {
    // Moved to another address, it may be under way there already.
    if (state.underWay.get(row.delivery)?.over === over) state.underWay.delete(row.delivery);
    ended.abort();
  });
  state.underWay.set(row.delivery, { key, parts: row.parts, over });
  await Promise.race([over, state.clock.sleep(PATIENCE_MS, ended.signal)]);
  if (ended.signal.aborted) return over;
  over.then(
    () => pump(state, key),
    (error: unknown) => pause(state, key, error),
  );
  state.outbox.stepAside(row.delivery);
}

async function attempt(state: State, row: OutboxRow): Promise<void> {
  const work = state.left.delete(row.id) ? `send:${row.id}` : null;
  const deaths = work === null ? 0 : state.tries.begin(work);
  const result =
    deaths < MAX_DEATHS
      ? await trySend(state, row)
      : { status: "failed" as const, reason: `the gateway ended ${deaths} times while it was sent` };
  conclude(state, row, result);
  if (work !== null) state.tries.end(work);
  state.failpoint("delivery.settled");
}

async function trySend(state: State, row: OutboxRow): Promise<SendResult> {
  if (row.isDamaged) return { status: "failed", reason: "its row in the database is damaged" };
  const channel = state.channel(row.address.channel, row.address.account);
  if (channel === null) return { status: "retry", reason: `the channel ${row.address.channel} is off`, afterMs: 0 };
  const what = { address: row.address, part: row.part, key: `${row.delivery}#${row.n}`, ...(row.ref === null ? {} : { ref: row.ref }) };
  let repeated = false;
  // `sending` here means that an attempt ended without a word: its outcome could not be recorded.
  if (row.state !== "queued") {
    if (channel.reconcile === undefined) repeated = true;
    else {
      const found = await channel.reconcile({ ...what, since: row.sendingAt ?? 0 });
      repeated = found.status === "untold";
      if (found.status === "found") return { status: "sent", ref: found.ref };
      if (found.status === "unknown") return found;
    }
  }
  record(state, row, () => {
    state.outbox.markSending(row.id);
    if (row.n === 0) state.recordDelivery(row, "sending");
  });
  state.failpoint("delivery.marked");
  const result = await channel.send({ ...what, repeated });
  state.failpoint("delivery.sent");
  return result;
}

/** An attempt that surely did nothing says nothing about the one before it, which may have arrived. */
const standingOf = (row: OutboxRow): Standing => (row.state === "queued" ? "queued" : "unknown");

function conclude(state: State, row: OutboxRow, result: SendResult): void {
  switch (result.status) {
    case "sent":
      return sent(state, row, result.ref);
    case "retry":
    case "unknown":
      return later(state, row, result);
    case "retarget":
      state.log.warn({ delivery: row.delivery, from: row.address, to: result.address, reason: result.reason }, "the chat moved");
      state.db.transaction(() => state.outbox.retarget(row.id, row.address, result.address, standingOf(row)));
      // The new address may have no sender yet, and while the attempt counts as under way nobody takes the message up.
      state.underWay.delete(row.delivery);
      return pump(state, addressKey(result.address));
    case "rerender":
      state.log.warn({ delivery: row.delivery, reason: result.reason }, "the platform refused the formatting; sending it plain");
      return state.outbox.setPart(row.id, result.part, standingOf(row));
    case "reserved":
      // Durable before the edit: from here on a repeat edits the same message and can't double it.
      return state.outbox.reserve(row.id, result.ref);
    case "failed":
      return block(state, row, result.reason, standingOf(row));
  }
}

/** What an attempt leaves is there to be found after a power cut; a channel where a repeat shows nothing needs no wait for the disk. */
function record(state: State, { address }: OutboxRow, work: () => void): void {
  if (state.channel(address.channel, address.account)?.isIdempotent === true) state.db.relaxed(work);
  else state.db.transaction(work);
}

function sent(state: State, row: OutboxRow, ref: string): void {
  const isLast = row.n === row.parts - 1;
  record(state, row, () => {
    state.outbox.markSent(row.id, ref);
    if (isLast) state.recordDelivery(row, "delivered");
    else state.outbox.reopen(row.delivery);
  });
  if (isLast) state.bus.emit({ type: "outbox.settled", delivery: row.delivery, channel: row.address.channel, outcome: "sent" });
}

function block(state: State, row: OutboxRow, reason: string, as: Standing): void {
  const isBlocked = state.db.transaction(() => {
    if (!state.outbox.markBlocked(row.delivery, reason, as)) return false;
    state.recordDelivery(row, "blocked", reason);
    return true;
  });
  if (!isBlocked) return;
  state.log.error({ delivery: row.delivery, address: row.address, reason }, "gave a message up");
  state.bus.emit({ type: "outbox.settled", delivery: row.delivery, channel: row.address.channel, outcome: "blocked" });
}

/** Backs off from 1 s to 5 min, for up to 24 h since it began to fail (DL3). */
function later(state: State, row: OutboxRow, result: Extract<SendResult, { status: "retry" | "unknown" }>): void {
  const { status, reason } = result;
  const afterMs = status === "retry" ? result.afterMs : undefined;
  const now = state.clock.now();
  const as = status === "unknown" ? "unknown" : standingOf(row);
  const firstAt = failsSince(row, now);
  if (now - firstAt > GIVE_UP_MS) return block(state, row, `not delivered within 24 h: ${reason}`, as);
  const backoff = Math.min(FIRST_RETRY_MS * 2 ** row.attempts, MAX_RETRY_MS);
  // What a platform asks for may be anything; a wait beyond the 24 h is cut to one last try at their end.
  const askedMs = Number.isFinite(afterMs) ? Math.min(Number(afterMs), firstAt + GIVE_UP_MS + 1 - now) : 0;
  const waitMs = Math.max(askedMs, backoff);
  state.log.warn({ delivery: row.delivery, part: row.n, reason, waitMs }, "a send did not succeed; trying again");
  // Whatever else is sent there would meet the same: then the order is kept.
  const concernsAll = afterMs !== undefined;
  const next = { notBefore: now + waitMs, firstAt, reason, as, stepsAside: !concernsAll };
  state.db.transaction(() => state.outbox.retryAt(row.id, next));
}

/** A try that comes much too late (the machine slept, the gateway was off) or too early for the clock begins the 24 h anew. */
function failsSince({ firstAt, notBefore }: OutboxRow, now: number): number {
  return firstAt === null || firstAt > now || now - notBefore > MAX_RETRY_MS ? now : firstAt;
}
