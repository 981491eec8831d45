// A lane: a named queue with a concurrency, on p-queue.
//
// Who goes next. First come, first served would let a chat with fifty runs hold up another chat's first one until all fifty
// are through; taking the chat with the fewest unfinished runs would change places whenever one ends, and order within a chat
// with it. So every ring gets a tag in virtual time: one more than its group's last tag, but never less than the present,
// which is the tag of what was started last. The lowest tag starts. A backlog of fifty thus stands at fifty different times,
// a newcomer at the present one, and whoever just had a turn behind it; within a group tags only rise, so order holds.
//
// What is worked on. The store is the truth and a lane only a doorbell: ring(id) says "look at id", the handler claims the row
// and works from it. A ring that is lost is made good by recovery, one too many is harmless: an id is never worked on by two
// handlers at once, and a ring during its work makes it be looked at once more afterwards (without that, what was written
// between the handler's last look and its end would wait for ever).
import PQueue from "p-queue";
import { createTurnstile } from "../core/turnstile.ts";

export interface Slot {
  /**
   * Gives the slot back while `work` waits, and takes one again before it returns: a parent waiting for its children
   * must not hold the place they need. Once `signal` has aborted it returns without one: ending never queues.
   */
  outside<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T>;
}

export interface Lane {
  readonly name: string;
  /** `group` is who asked: groups take turns, within a group it is first come, first served. */
  ring(id: string, group: string): void;
  /** Doesn't wait any more: what stands behind it moves up. Changes nothing for what runs. */
  drop(id: string): void;
  /** Sets the handler and starts working. The handler settles its own row; what it throws goes to `onError`. */
  serve(handler: (id: string, slot: Slot) => Promise<void>): void;
  /** 1 = next to start; null when it is not waiting. */
  position(id: string): number | null;
  depth(): { waiting: number; running: number };
  setConcurrency(count: number): void;
  /** Starts nothing new; resolves when the running handlers have returned. */
  drain(): Promise<void>;
}

interface Waiting {
  readonly group: string;
  /** Virtual start time: lower goes first. */
  readonly tag: number;
  readonly seq: number;
  readonly rungAt: number;
}

interface LaneState {
  readonly name: string;
  readonly queue: PQueue;
  readonly waiting: Map<string, Waiting>;
  readonly running: Set<string>;
  /** Of the running ones, those that gave their slot back for a while. */
  readonly outside: Set<string>;
  /** Rung while being worked on: to be rung for this group when that is over. */
  readonly rungMeanwhile: Map<string, string>;
  /** How much of a group waits, and its last virtual start time. Kept until virtual time has passed that, or nobody waits. */
  readonly groups: Map<string, { waiting: number; lastTag: number }>;
  /** Virtual time: the tag of what was started last. A group that comes anew starts here, before everybody's backlog. */
  now: number;
  seq: number;
  handler: ((id: string, slot: Slot) => Promise<void>) | null;
  passTurnstile(): Promise<void>;
  /** Resolved when nothing runs any more; set once drain() was called. */
  drained: PromiseWithResolvers<void> | null;
  onError(id: string, error: unknown): void;
  onStart?: ((waitedMs: number) => void) | undefined;
}

export interface LaneOptions {
  readonly name: string;
  readonly concurrency: number;
  onError(id: string, error: unknown): void;
  /** Told at each start how long it had waited. */
  onStart?(waitedMs: number): void;
}

export function createLane(options: LaneOptions): Lane {
  const state: LaneState = {
    name: options.name,
    queue: new PQueue({ concurrency: options.concurrency, autoStart: false }),
    waiting: new Map(),
    running: new Set(),
    outside: new Set(),
    rungMeanwhile: new Map(),
    groups: new Map(),
    now: 0,
    seq: 0,
    handler: null,
    passTurnstile: createTurnstile(),
    drained: null,
    onError: options.onError,
    onStart: options.onStart,
  };
  return {
    name: options.name,
    ring: (id, group) => ring(state, id, group),
    drop(id) {
      // Its job in the queue finds nothing and ends.
      takeOut(state, id);
    },
    serve(handler) {
      state.handler = handler;
      state.queue.start();
    },
    position: (id) => position(state, id),
    depth: () => ({ waiting: state.waiting.size, running: state.running.size - state.outside.size }),
    setConcurrency(count) {
      state.queue.concurrency = count;
    },
    drain() {
      state.drained ??= Promise.withResolvers<void>();
      // Their jobs find nothing and end; clearing the queue would also strand who waits to come back from outside.
      state.waiting.clear();
      if (state.running.size === 0) state.drained.resolve();
      return state.drained.promise;
    },
  };
}

function ring(state: LaneState, id: string, group: string): void {
  if (state.drained !== null || state.waiting.has(id)) return;
  if (state.running.has(id)) {
    state.rungMeanwhile.set(id, group);
    return;
  }
  const known = state.groups.get(group);
  const tag = known === undefined ? state.now : Math.max(known.lastTag + 1, state.now);
  state.groups.set(group, { waiting: (known?.waiting ?? 0) + 1, lastTag: tag });
  state.waiting.set(id, { group, tag, seq: state.seq++, rungAt: performance.now() });
  // p-queue starts the highest priority first and keeps the order of equals.
  void state.queue.add(() => work(state, id), { priority: -tag }).catch((error: unknown) => state.onError(id, error));
}

function takeOut(state: LaneState, id: string): Waiting | null {
  const entry = state.waiting.get(id);
  if (entry === undefined) return null;
  state.waiting.delete(id);
  const group = state.groups.get(entry.group);
  if (group !== undefined && --group.waiting === 0) state.groups.delete(entry.group);
  return entry;
}

/** A group that just had its turn doesn't start at the present time with its next one: what waits of others goes first. */
function moveOn(state: LaneState, { group, tag }: Waiting): void {
  if (!state.groups.has(group)) state.groups.set(group, { waiting: 0, lastTag: tag });
  if (tag > state.now) for (const [name, known] of state.groups) if (known.lastTag < tag) state.groups.delete(name);
  if (state.waiting.size === 0) state.groups.clear();
  state.now = tag;
}

/** One p-queue job = one slot. The handler may leave the slot for a while, so the job ends when the slot is free, not when the work is. */
function work(state: LaneState, id: string): Promise<void> {
  const handler = state.handler;
  const entry = handler === null ? null : takeOut(state, id);
  if (entry === null || handler === null) return Promise.resolve();
  state.running.add(id);
  moveOn(state, entry);
  state.onStart?.(performance.now() - entry.rungAt);
  return new Promise((freeSlot) => {
    const slot = createSlot(state, id, freeSlot);
    state
      .passTurnstile()
      // What was drained meanwhile is rung again at the next start of the gateway.
      .then(() => (state.drained === null ? handler(id, slot) : undefined))
      .catch((error: unknown) => state.onError(id, error))
      .finally(() => {
        state.running.delete(id);
        state.outside.delete(id);
        slot.free();
        if (state.running.size === 0) state.drained?.resolve();
        const group = state.rungMeanwhile.get(id);
        state.rungMeanwhile.delete(id);
        if (group !== undefined) ring(state, id, group);
      });
  });
}

/** Several waits at once have one slot between them: the first to go gives it back, the last to return takes it again. */
function createSlot(state: LaneState, id: string, freeSlot: () => void): Slot & { free(): void } {
  let free = freeSlot;
  let isHeld = true;
  let waits = 0;
  return {
    free: () => free(),
    async outside(wait, signal) {
      waits++;
      if (isHeld) {
        isHeld = false;
        state.outside.add(id);
        free();
      }
      try {
        return await wait();
      } finally {
        waits--;
        if (waits === 0 && !signal.aborted) {
          const taken = await takeSlot(state, signal);
          // Another wait began, or ended first, while this one stood in the queue.
          if (isHeld || waits > 0) taken();
          else {
            free = taken;
            isHeld = true;
            state.outside.delete(id);
          }
        }
      }
    },
  };
}

/** Resolves with the function that frees the slot again. Goes before everything that waits: it holds work half done. */
function takeSlot(state: LaneState, signal: AbortSignal): Promise<() => void> {
  return new Promise((resolve) => {
    const giveUp = (): void => resolve(() => {});
    signal.addEventListener("abort", giveUp, { once: true });
    const hold = (): Promise<void> => {
      signal.removeEventListener("abort", giveUp);
      return signal.aborted ? Promise.resolve() : new Promise<void>((free) => resolve(free));
    };
    void state.queue.add(hold, { priority: Number.MAX_SAFE_INTEGER }).catch((error: unknown) => state.onError("slot", error));
  });
}

function position(state: LaneState, id: string): number | null {
  const own = state.waiting.get(id);
  if (own === undefined) return null;
  let before = 0;
  for (const other of state.waiting.values()) {
    if (other.tag < own.tag || (other.tag === own.tag && other.seq < own.seq)) before++;
  }
  return before + 1;
}
