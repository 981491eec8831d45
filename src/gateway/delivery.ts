// outbox → channel.send. One sender per address; another address never waits for it (DL5). Within an address messages go in
// order, but one that fails or hangs steps aside: otherwise everybody in that chat, and the answer to /stop first of all,
// would wait for as long as one announcement meets a 503 (DL6). Parts of one message stay in order. Nobody sends faster than the
// platform takes it, and what has to wait for that anyway goes out together (DL7). What an attempt does is in attempt.ts.
import { addressKey } from "../core/address.ts";
import { type Clock, callAfter } from "../core/clock.ts";
import type { Bus } from "../core/events.ts";
import type { OutboxRow } from "../stores/outbox-row.ts";
import { type AttemptDeps, attempt, FIRST_RETRY_MS } from "./attempt.ts";
import { createPacer, type Pacer, type Place } from "./pace.ts";

interface DeliveryDeps extends AttemptDeps {
  readonly bus: Bus;
  /** Shared with whoever else sends (painter.ts); left out: nobody does. */
  readonly pacer?: Pacer;
}

export interface Delivery {
  /** Takes up everything that is open; returns at once. What failed at its beginning may be begun again. */
  start(): Promise<void>;
  /** What was being sent by a process that is not alive any more. */
  takeUp(): Promise<void>;
  /** Starts no further send; resolves when those under way are over. */
  stop(): Promise<void>;
}

interface State extends AttemptDeps {
  readonly senders: Map<string, Promise<void>>;
  /** Rung while its sender was busy: a row added just as the sender found nothing more must not be left lying. */
  readonly rung: Set<string>;
  /** Addresses whose next part is not due yet, and who sleeps until it is. */
  readonly deferred: Map<string, { readonly at: number; readonly sleep: AbortController }>;
  /** Attempts by delivery. Nobody else touches such a delivery, also when its address has gone on without it. */
  readonly underWay: Map<string, UnderWay>;
  readonly pacer: Pacer;
  readonly stopped: AbortController;
}

interface UnderWay {
  readonly key: string;
  readonly parts: number;
  readonly over: Promise<unknown>;
}

/** How long what comes behind it waits for one attempt; the answer to a command no longer than the step in which it is noticed. */
const PATIENCE_MS = 2_000;
const PATIENCE_STEP_MS = 200;
/** The longest a timer can be set for. */
const MAX_SLEEP_MS = 2 ** 31 - 1;
/** No platform counts further back. */
const PACE_MEMORY_MS = 60_000;

export const pacerOf = ({ clock, channel }: Pick<AttemptDeps, "clock" | "channel">): Pacer =>
  createPacer(clock, (address) => channel(address.channel, address.account)?.pace);

export function createDelivery(deps: DeliveryDeps): Delivery {
  const pacer = deps.pacer ?? pacerOf(deps);
  const state: State = {
    ...{ ...deps, pacer, senders: new Map(), rung: new Set(), deferred: new Map(), underWay: new Map() },
    stopped: new AbortController(),
  };
  let unsubscribe = (): void => {};
  let isBegun = false;
  // From now on: what is posted at once (at-once.ts) doesn't wait for the start.
  deps.bus.on((event) => {
    if (event.type === "outbox.settled") deps.failpoint("delivery.settled");
  }, "here");
  return {
    async start() {
      // First: what this process is sending must not be taken for what the one before it left.
      await deps.outbox.recover();
      // The platform remembers what the process before this one sent.
      const sent = await deps.outbox.listSentSince(deps.clock.now() - PACE_MEMORY_MS);
      if (!isBegun) for (const { address, at } of sent) pacer.remember(address, at);
      isBegun = true;
      unsubscribe();
      unsubscribe = deps.bus.on((event) => {
        if (event.type === "outbox.added") pump(state, event.addressKey);
        return event.type === "bells.missed" ? pumpAll(state) : undefined;
      });
      await pumpAll(state);
    },
    async takeUp() {
      for (const key of await deps.outbox.recover()) pump(state, key);
    },
    async stop() {
      unsubscribe();
      state.stopped.abort();
      const attempts = [...state.underWay.values()].map((attempt) => attempt.over);
      await Promise.allSettled([...state.senders.values(), ...attempts]);
    },
  };
}

async function pumpAll(state: State): Promise<void> {
  // What is put off until a time is left alone: it has an alarm of its own.
  for (const key of await state.outbox.openAddresses()) if (!state.deferred.has(key)) pump(state, key);
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
    const row = await nextInLine(state, key);
    if (row === null || state.stopped.signal.aborted) return;
    const now = state.clock.now();
    // It has not failed yet, by a clock that was set back: then its time says nothing either.
    const isSetBack = now < (row.firstAt ?? 0);
    if (row.notBefore > Math.max(now, since) && !isSetBack) return defer(state, key, row.notBefore);
    // Whoever is in front when the time has come goes first: by then it may be the answer to a command.
    const waitMs = isUncounted(state, row) ? 0 : state.pacer.waitMs(row.address, row.isAnswer);
    if (waitMs > 0) return defer(state, key, now + waitMs);
    await attemptPatiently(state, key, row);
  }
}

/**
 * Those that never failed first: a message that keeps failing takes no turn from the others. One that has to wait although it
 * is in line was told to by the platform, and that goes for everybody there.
 */
async function nextInLine({ db, outbox, underWay }: State, key: string): Promise<OutboxRow | null> {
  const head = await outbox.head(key);
  if (head !== null && !underWay.has(head.delivery)) return head;
  // Its attempt takes long, and the disk refused to record that it stepped aside: nobody may send it a second time meanwhile.
  if (head !== null) await db.transaction([], (tx) => outbox.stepAside(tx, head.delivery));
  const here = [...underWay.values()].filter((attempt) => attempt.key === key);
  const aside = await outbox.listAside(key, 1 + here.reduce((sum, { parts }) => sum + parts, 0));
  return aside.find((row) => !underWay.has(row.delivery)) ?? null;
}

/** One sleep for each address: what is slept off passes whatever becomes of the time of day. */
function defer(state: State, key: string, at: number): void {
  const known = state.deferred.get(key);
  if (known?.at === at) return;
  known?.sleep.abort("over");
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
  const isLast = state.pacer.isLast(row.address);
  const place = isUncounted(state, row) ? NO_PLACE : state.pacer.take(row.address);
  let isOver = false;
  const over = attempt(state, row, { place, isLast })
    .finally(() => {
      state.underWay.delete(row.delivery);
      isOver = true;
    })
    // The new address may have no sender yet; before, nobody could take the message up, because it was under way.
    .then((movedTo) => movedTo !== null && pump(state, addressKey(movedTo)));
  // Whoever waits for it below hears of it.
  over.catch(() => undefined);
  state.underWay.set(row.delivery, { key, parts: row.parts, over });
  // Asked after a step, not before the first: an answer that is there already stands in front of this message, and most attempts
  // are over by then.
  for (let waited = 0; waited < PATIENCE_MS && !isOver; waited += PATIENCE_STEP_MS) {
    await waitAtMost(state.clock, PATIENCE_STEP_MS, over);
    if (!isOver && (await hasAnswer(state, key, row))) break;
  }
  if (isOver) return void (await over);
  place.over();
  over.then(
    () => pump(state, key),
    (error: unknown) => pause(state, key, error),
  );
  await state.db.transaction([], (tx) => state.outbox.stepAside(tx, row.delivery));
}

const NO_PLACE: Place = { over() {}, giveBack() {} };

const isUncounted = ({ channel }: State, { address, part }: OutboxRow): boolean =>
  channel(address.channel, address.account)?.isUncounted?.(part) === true;

/** Until it is over or so much time is; rejects as it does. */
const waitAtMost = (clock: Clock, ms: number, work: Promise<unknown>): Promise<void> =>
  new Promise((resolve, reject) => {
    const endWait = callAfter(clock, ms, resolve);
    work.then(() => resolve(), reject).finally(endWait);
  });

/** The answer to a command waits behind this attempt: whoever says /stop must not wait for somebody's announcement. */
const hasAnswer = async ({ outbox }: State, key: string, row: OutboxRow): Promise<boolean> =>
  !row.isAnswer && (await outbox.head(key))?.isAnswer === true;
