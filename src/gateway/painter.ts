// Messages that change while they stand (LV): what a message should show is worked out from the rows it is about, compared with what
// it shows, and edited in. First posted through the outbox like any text; from then on here. An edit is never urgent: it keeps a pace of
// its own below the platform's (strokes.ts), goes after whatever waits in the outbox for its chat, and what it shows is the present, so of
// ten changes in a second one is painted. After kill -9 every open message is looked at once and edited on.

import { errorText } from "../core/errors.ts";
import type { AppEvent, Bus } from "../core/events.ts";
import type { HitFailpoint } from "../core/failpoints.ts";
import type { Channel, EditResult, Part } from "../core/message.ts";
import type { Database } from "../stores/database.ts";
import { type LiveMessage, type LiveMessages, liveDelivery, shownDigest } from "../stores/live-messages.ts";
import { lock } from "../stores/lock-keys.ts";
import type { Outbox } from "../stores/outbox.ts";
import { createStrokes, type StrokeDeps, type Strokes } from "./strokes.ts";

/** What a message should show now. */
export interface Sketch {
  /** When it is posted; the last of them is what is edited. Never empty. */
  readonly parts: readonly Part[];
  /** It changes no more after this. */
  readonly isFinal: boolean;
  /** When it looks different by itself; null: only when something happens. */
  readonly nextAt: number | null;
}

export interface PainterDeps extends StrokeDeps {
  readonly db: Database;
  readonly live: LiveMessages;
  readonly outbox: Pick<Outbox, "add" | "hasWaiting">;
  readonly bus: Bus;
  readonly failpoint: HitFailpoint;
  channel(name: string, account: string): Channel | null;
  /** Among other processes: this one has not lost its work to one of them. Left out: there are no others. */
  isValid?(): boolean;
  /** Null: there is nothing to show any more. */
  sketch(message: LiveMessage, channel: Channel): Promise<Sketch | null>;
  /** Which messages an event is about. */
  concerns(event: AppEvent): Promise<readonly string[]> | null;
  /** Of those that only change when something happens: to which it has since that time. */
  changedSince(at: number): Promise<readonly string[]>;
}

export interface Painter {
  /** Looks at every open message, then at what changes. What failed at its beginning may be begun again. */
  start(): Promise<void>;
  /** Begins no further edit; resolves when those under way are over. */
  stop(): Promise<void>;
}

/** The runs of one answer are accepted one after the other: posted at the first, the message would say "1" and be edited at once. */
const GATHER_MS = 700;
const FIRST_RETRY_MS = 2_000;
const MAX_RETRY_MS = 5 * 60_000;
/** So many are looked at side by side: at a start there may be thousands, and others wait for the database too. */
const MAX_LOOKS = 8;
/** A doorbell may have been lost so long ago, by another machine's clock. */
const MISSED_MS = 60_000;

interface State extends PainterDeps {
  /** When to look at a message next. */
  readonly due: Map<string, number>;
  /** Messages that are being painted: never one twice at once, or the older words could arrive last. */
  readonly busy: Map<string, Promise<void>>;
  /** Looked at, and up to date until something happens. */
  readonly resting: Set<string>;
  readonly failures: Map<string, number>;
  readonly strokes: Strokes;
  readonly stopped: AbortController;
  looks: number;
  alarm: AbortController;
}

export function createPainter(deps: PainterDeps): Painter {
  const state: State = {
    ...deps,
    ...{ due: new Map(), busy: new Map(), resting: new Set(), failures: new Map(), looks: 0 },
    strokes: createStrokes(deps),
    stopped: new AbortController(),
    alarm: new AbortController(),
  };
  let unsubscribe = (): void => {};
  const lookAtAll = (ids: readonly string[]): void => ids.forEach((id) => void lookAt(state, id, deps.clock.now()));
  return {
    async start() {
      await state.strokes.remember(deps.live);
      unsubscribe();
      unsubscribe = deps.bus.on((event) => {
        if (event.type === "live.changed") return lookAtAll([event.id]);
        const ids = event.type === "bells.missed" ? missed(state) : deps.concerns(event);
        return ids?.then(lookAtAll);
      });
      lookAtAll(await deps.live.listOpen());
    },
    async stop() {
      unsubscribe();
      state.stopped.abort();
      await Promise.allSettled(state.busy.values());
    },
  };
}

/** Two queries, however many stand open: those nobody has looked at, and those at rest that something happened to. */
async function missed({ live, resting, due, changedSince, clock }: State): Promise<string[]> {
  const open = await live.listOpen();
  const changed = new Set(await changedSince(clock.now() - MISSED_MS));
  return open.filter((id) => (resting.has(id) ? changed.has(id) : !due.has(id)));
}

/** The earlier of two times counts. */
function lookAt(state: State, id: string, at: number): void {
  if (state.stopped.signal.aborted) return;
  state.resting.delete(id);
  const known = state.due.get(id);
  if (known !== undefined && known <= at) return;
  state.due.set(id, at);
  setAlarm(state);
}

/** One sleep for all of them. Who is being painted, or finds all places taken, is woken by whoever is done. */
function setAlarm(state: State): void {
  state.alarm.abort("over");
  const times = state.looks >= MAX_LOOKS ? [] : [...state.due].filter(([id]) => !state.busy.has(id)).map(([, at]) => at);
  if (times.length === 0) return;
  state.alarm = new AbortController();
  const signal = AbortSignal.any([state.alarm.signal, state.stopped.signal]);
  const ms = Math.max(0, Math.min(...times) - state.clock.now());
  void state.clock.sleep(ms, signal).then(() => {
    if (!signal.aborted) paintDue(state);
  });
}

function paintDue(state: State): void {
  const now = state.clock.now();
  for (const [id, at] of [...state.due].sort(([, one], [, other]) => one - other)) {
    if (at > now || state.looks >= MAX_LOOKS) break;
    if (state.busy.has(id)) continue;
    state.due.delete(id);
    const over = paint(state, id)
      .catch((error: unknown) => {
        state.log.warn({ live: id, reason: errorText(error) }, "a message could not be brought up to date; trying again");
        lookAt(state, id, state.clock.now() + FIRST_RETRY_MS);
      })
      .finally(() => {
        state.busy.delete(id);
        setAlarm(state);
      });
    state.busy.set(id, over);
  }
  setAlarm(state);
}

interface Looked {
  readonly message: LiveMessage;
  readonly channel: Channel;
  readonly sketch: Sketch | null;
}

async function paint(state: State, id: string): Promise<void> {
  const looked = await look(state, id);
  if (looked === null) return;
  const { message, channel, sketch } = looked;
  if (sketch === null) return close(state, looked, message.shown);
  if (message.state === "new") return post(state, message, sketch);
  await edit(state, message, sketch, channel);
}

/** Null: there is nothing to do about it, now or ever. */
async function look(state: State, id: string): Promise<Looked | null> {
  state.looks++;
  try {
    const message = await state.live.get(id);
    if (message === null || (message.state !== "new" && message.state !== "shown")) return null;
    const channel = state.channel(message.address.channel, message.address.account);
    // Off: it is looked at when it is on again, at the next start.
    return channel === null ? null : { message, channel, sketch: await state.sketch(message, channel) };
  } finally {
    state.looks--;
  }
}

async function post(state: State, message: LiveMessage, sketch: Sketch): Promise<void> {
  const { id, address, createdAt } = message;
  const dueAt = createdAt + GATHER_MS;
  const now = state.clock.now();
  if (now < dueAt && now >= createdAt) return lookAt(state, id, dueAt);
  await state.db.transaction([lock.chat(address)], async (tx) => {
    await state.live.markPosted(tx, id, shownDigest(sketch.parts));
    await state.outbox.add(tx, { delivery: liveDelivery(id), address, parts: sketch.parts });
  });
  state.failpoint("live.posted");
}

async function edit(state: State, message: LiveMessage, sketch: Sketch, channel: Channel): Promise<void> {
  const { id, address, ref } = message;
  const digest = shownDigest(sketch.parts);
  if (digest === message.shown || channel.edit === undefined || ref === null) return rest(state, message, sketch, channel);
  // What somebody waits for goes first, in any thread there: they share the platform's patience. Asked before the pace, which is taken
  // without an await in between: two messages of one chat would both find the same place free.
  const isOthersTurn = await state.outbox.hasWaiting(address);
  const stroke = state.strokes.take(message, { pace: channel.pace, isOthersTurn });
  if ("waitMs" in stroke) return lookAt(state, id, state.clock.now() + stroke.waitMs);
  if (state.isValid?.() === false) return stroke.giveBack();
  state.failpoint("live.before-edit");
  const result = await channel.edit({ address, ref, part: sketch.parts.at(-1) ?? {} }).finally(stroke.over);
  state.failpoint("live.edited");
  if (await conclude(state, message, digest, result)) await rest(state, message, sketch, channel);
}

/** False: it is tried again, or never. */
async function conclude(state: State, { id, address }: LiveMessage, digest: string, result: EditResult): Promise<boolean> {
  const { log, live, failures, clock } = state;
  if (result.status === "retry") {
    const failed = failures.get(id) ?? 0;
    failures.set(id, failed + 1);
    const waitMs = Math.max(result.afterMs ?? 0, Math.min(FIRST_RETRY_MS * 2 ** failed, MAX_RETRY_MS));
    log.debug({ live: id, reason: result.reason, waitMs }, "an edit did not succeed; trying again");
    // The platform means all edits there. It has said nothing about messages: they are not held up by what nobody waits for.
    if (result.afterMs !== undefined) state.strokes.silence(address, waitMs);
    await live.putOff(id, clock.now() + waitMs);
    lookAt(state, id, clock.now() + waitMs);
    return false;
  }
  failures.delete(id);
  if (result.status === "gone") {
    log.info({ live: id, reason: result.reason }, "a message that changes was removed; it is not made again");
    await live.end(id, "gone");
    return false;
  }
  // Refused words are not tried again: the next change brings others.
  if (result.status === "refused") log.warn({ live: id, reason: result.reason }, "the platform refused an edit");
  await live.markShown(id, digest);
  return true;
}

/** It shows what it should, until something happens. */
async function rest(state: State, message: LiveMessage, { parts, isFinal, nextAt }: Sketch, channel: Channel): Promise<void> {
  const { id } = message;
  if (nextAt !== null) return lookAt(state, id, nextAt);
  // Something happened to it meanwhile, and it is looked at again.
  if (state.due.has(id)) return;
  if (!isFinal) return void state.resting.add(id);
  await close(state, { message, channel }, shownDigest(parts));
}

/**
 * A run that goes on, or joins, opens its message again, but finds it open when that falls between the sketch and the closing. Whoever comes
 * after the closing has opened it; whoever came before is seen here. `shown`: what it shows.
 */
async function close(state: State, { message, channel }: Omit<Looked, "sketch">, shown: string | null): Promise<void> {
  await state.live.end(message.id, "closed");
  const now = await state.sketch(message, channel);
  if (now === null || (now.isFinal && shownDigest(now.parts) === shown)) return;
  await state.live.reopen(message.id);
  lookAt(state, message.id, state.clock.now());
}
