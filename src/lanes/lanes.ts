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

export interface Lane {
  readonly name: string;
  /**
   * `group` is who asked: groups take turns, within a group it is first come, first served. `front`: before everything that
   * waits, because it is work half done.
   */
  ring(id: string, group: string, place?: "front"): void;
  /** Doesn't wait any more: what stands behind it moves up. Changes nothing for what runs. */
  drop(id: string): void;
  /** Sets the handler and starts working. The handler settles its own row; what it throws goes to `onError`. */
  serve(handler: (id: string) => Promise<void>): void;
  /** 1 = next to start; those that don't wait are not among them. */
  positions(ids: readonly string[]): Promise<ReadonlyMap<string, number>>;
  depth(): Promise<{ waiting: number; running: number }>;
  setConcurrency(count: number): void;
  /**
   * In a lane of several processes: nobody works on this id until it is let go of, though it is none of the lane's jobs. False:
   * somebody does. Left out where whoever asks knows it himself.
   */
  hold?(id: string): Promise<boolean>;
  letGo?(id: string): Promise<void>;
  /** There, too: why these can't start, whatever their place: no living process can run their agent. In words, by id. */
  stranded?(ids: readonly string[]): Promise<ReadonlyMap<string, string>>;
  /** And ids that wait to be worked on although nobody has rung for them. */
  unrung?(): Promise<string[]>;
  /** Starts nothing new; resolves when the running handlers have returned. */
  drain(): Promise<void>;
}

interface Waiting {
  readonly group: string;
  /** Virtual start time: lower goes first. */
  readonly tag: number;
  readonly seq: number;
  readonly rungAt: number;
  /** Outside of virtual time: it had its turn when it began. */
  readonly isFront: boolean;
}

interface LaneState {
  readonly name: string;
  readonly queue: PQueue;
  readonly waiting: Map<string, Waiting>;
  readonly running: Set<string>;
  /** Rung while being worked on: to be rung so when that is over. */
  readonly rungMeanwhile: Map<string, { readonly group: string; readonly place: "front" | undefined }>;
  /** How much of a group waits, and its last virtual start time. Kept until virtual time has passed that, or nobody waits. */
  readonly groups: Map<string, { waiting: number; lastTag: number }>;
  /** Virtual time: the tag of what was started last. A group that comes anew starts here, before everybody's backlog. */
  now: number;
  seq: number;
  handler: ((id: string) => Promise<void>) | null;
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
    ring: (id, group, place) => ring(state, id, group, place),
    drop(id) {
      // Its job in the queue finds nothing and ends.
      takeOut(state, id);
    },
    serve(handler) {
      state.handler = handler;
      state.queue.start();
    },
    async positions(ids) {
      const places = ids.map((id) => [id, position(state, id)] as const);
      return new Map(places.filter((place): place is [string, number] => place[1] !== null));
    },
    depth: async () => ({ waiting: state.waiting.size, running: state.running.size }),
    setConcurrency(count) {
      state.queue.concurrency = count;
    },
    drain() {
      state.drained ??= Promise.withResolvers<void>();
      // Their jobs find nothing and end.
      state.waiting.clear();
      if (state.running.size === 0) state.drained.resolve();
      return state.drained.promise;
    },
  };
}

function ring(state: LaneState, id: string, group: string, place?: "front"): void {
  if (state.drained !== null || state.waiting.has(id)) return;
  if (state.running.has(id)) {
    state.rungMeanwhile.set(id, { group, place });
    return;
  }
  const isFront = place === "front";
  const tag = isFront ? state.now : tagFor(state, group);
  state.waiting.set(id, { group, tag, isFront, seq: state.seq++, rungAt: performance.now() });
  // p-queue starts the highest priority first and keeps the order of equals.
  const priority = isFront ? Number.MAX_SAFE_INTEGER : -tag;
  void state.queue.add(() => work(state, id), { priority }).catch((error: unknown) => state.onError(id, error));
}

function tagFor(state: LaneState, group: string): number {
  const known = state.groups.get(group);
  const tag = known === undefined ? state.now : Math.max(known.lastTag + 1, state.now);
  state.groups.set(group, { waiting: (known?.waiting ?? 0) + 1, lastTag: tag });
  return tag;
}

function takeOut(state: LaneState, id: string): Waiting | null {
  const entry = state.waiting.get(id);
  if (entry === undefined) return null;
  state.waiting.delete(id);
  if (entry.isFront) return entry;
  const group = state.groups.get(entry.group);
  if (group !== undefined && --group.waiting === 0) state.groups.delete(entry.group);
  return entry;
}

/** A group that just had its turn doesn't start at the present time with its next one: what waits of others goes first. */
function moveOn(state: LaneState, { group, tag, isFront }: Waiting): void {
  if (isFront) return;
  if (!state.groups.has(group)) state.groups.set(group, { waiting: 0, lastTag: tag });
  if (tag > state.now) for (const [name, known] of state.groups) if (known.lastTag < tag) state.groups.delete(name);
  if (state.waiting.size === 0) state.groups.clear();
  state.now = tag;
}

/** One p-queue job = one slot. */
async function work(state: LaneState, id: string): Promise<void> {
  const handler = state.handler;
  const entry = handler === null ? null : takeOut(state, id);
  if (entry === null || handler === null) return;
  state.running.add(id);
  moveOn(state, entry);
  state.onStart?.(performance.now() - entry.rungAt);
  try {
    await state.passTurnstile();
    // What was drained meanwhile is rung again at the next start of the gateway.
    if (state.drained === null) await handler(id);
  } catch (error) {
    state.onError(id, error);
  } finally {
    state.running.delete(id);
    if (state.running.size === 0) state.drained?.resolve();
    const again = state.rungMeanwhile.get(id);
    state.rungMeanwhile.delete(id);
    if (again !== undefined) ring(state, id, again.group, again.place);
  }
}

function position(state: LaneState, id: string): number | null {
  const own = state.waiting.get(id);
  if (own === undefined) return null;
  let before = 0;
  for (const other of state.waiting.values()) {
    if (goesBefore(other, own)) before++;
  }
  return before + 1;
}

function goesBefore(one: Waiting, other: Waiting): boolean {
  if (one.isFront !== other.isFront) return one.isFront;
  return one.isFront || one.tag === other.tag ? one.seq < other.seq : one.tag < other.tag;
}
