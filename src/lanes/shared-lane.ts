// A lane that several processes work on: its jobs are rows (stores/postgres/lane-jobs.ts), in the order lanes.ts tells of. A ring is
// anonymous here: it says that the lane has work, and whoever has room takes the best row. So a ring that is lost or doubled changes
// no order and loses nothing: the next look, two seconds later at the latest, finds the row.

import type { Clock } from "../core/clock.ts";
import { errorText, isStorageError } from "../core/errors.ts";
import type { Bus } from "../core/events.ts";
import { createInTurn } from "../core/in-turn.ts";
import type { Logger } from "../core/logger.ts";
import { createTurnstile } from "../core/turnstile.ts";
import type { Database } from "../stores/database.ts";
import type { Claimed, LaneJobs } from "../stores/postgres/lane-jobs.ts";
import type { Lane } from "./lanes.ts";

export interface SharedLaneOptions {
  readonly name: string;
  /** How many this process works on at a time; for all together the rows count. */
  readonly concurrency: number;
  readonly db: Pick<Database, "transaction">;
  readonly jobs: LaneJobs;
  readonly bus: Bus;
  readonly clock: Clock;
  readonly log: Logger;
  /** The agents that can be run here, now. */
  agents(): readonly string[];
  /** What somebody waits for whose agent nobody alive can run. */
  whereIs(agentId: string): string;
  onError(id: string, error: unknown): void;
  onStart?(waitedMs: number): void;
  /** The settings of this process changed. */
  onConcurrency?(count: number): void;
}

interface State extends SharedLaneOptions {
  room: number;
  handler: ((id: string) => Promise<void>) | null;
  /** Ids by the claim under which they are worked on: an id whose end comes late may be at work again here. */
  readonly running: Map<number, string>;
  readonly held: Map<string, number>;
  /** The look under way, and that it was asked for another. */
  looking: boolean;
  isRung: boolean;
  drained: PromiseWithResolvers<void> | null;
  passTurnstile(): Promise<void>;
  /** Rings of this process reach the rows in the order they were rung. */
  readonly inTurn: ReturnType<typeof createInTurn>;
  /** What is held, and what is taken for a claim that nobody knows of: the one between the other's commit and its answer would undo it. */
  readonly oneByOne: ReturnType<typeof createInTurn>;
}

const RETRY_MS = 1_000;

export function createSharedLane(options: SharedLaneOptions): Lane {
  const state: State = {
    ...options,
    room: options.concurrency,
    handler: null,
    running: new Map(),
    held: new Map(),
    looking: false,
    isRung: false,
    drained: null,
    passTurnstile: createTurnstile(),
    inTurn: createInTurn(),
    oneByOne: createInTurn(),
  };
  const off = options.bus.on((event) => {
    if (event.type === "lane.rung" && event.lane === options.name) look(state);
    if (event.type === "bells.missed") void lookAfter(state);
  });
  return {
    name: options.name,
    ring(id, group, place) {
      if (state.drained === null) void ring(state, id, group, place === "front");
    },
    drop: (id) =>
      void options.jobs.drop(id).catch((error: unknown) => options.log.debug({ err: error, id }, "a job of a lane could not be dropped")),
    serve(handler) {
      state.handler = handler;
      look(state);
    },
    positions: options.jobs.positions,
    depth: options.jobs.depth,
    setConcurrency(count) {
      state.room = count;
      options.onConcurrency?.(count);
      look(state);
    },
    unrung: options.jobs.unrung,
    async stranded(ids) {
      const agents = await options.jobs.stranded(ids);
      return new Map([...agents].map(([id, agent]) => [id, options.whereIs(agent)]));
    },
    async hold(id) {
      return state.oneByOne(async () => {
        const claim = await options.jobs.hold(id);
        if (claim === null) return false;
        state.running.set(claim, id);
        state.held.set(id, claim);
        return true;
      });
    },
    async letGo(id) {
      const claim = state.held.get(id);
      if (claim === undefined) return;
      state.held.delete(id);
      await giveBack(state, id, () => options.jobs.finish(id, claim));
      state.running.delete(claim);
    },
    drain() {
      off();
      state.drained ??= Promise.withResolvers<void>();
      // What waits is for the others, or for the next start.
      if (state.running.size === 0) state.drained.resolve();
      return state.drained.promise;
    },
  };
}

/**
 * A server that is away is waited for: of what runs nobody would know that it was to be rung. Lost with its process it is made good from
 * the row it is for (app/life.ts).
 */
async function ring(state: State, id: string, group: string, isFront: boolean): Promise<void> {
  const { db, jobs, log, inTurn, clock } = state;
  await inTurn(async () => {
    while (state.drained === null) {
      try {
        return await db.transaction([], (tx) => jobs.ring(tx, { id, group, isFront }), { relaxed: true });
      } catch (error) {
        if (!isStorageError(error)) return log.error({ err: error, id }, "a ring failed");
        log.debug({ id, reason: errorText(error) }, "a ring waits for the server");
        await clock.sleep(RETRY_MS);
      }
    }
  });
}

/** One look at a time: what is rung during one is seen by it, or by the next. */
function look(state: State): void {
  state.isRung = true;
  if (state.looking) return;
  state.looking = true;
  void (async () => {
    try {
      while (state.isRung && state.handler !== null && state.drained === null) {
        state.isRung = false;
        while (state.running.size < state.room && state.drained === null && (await takeNext(state)));
      }
    } catch (error) {
      state.log.debug({ lane: state.name, reason: errorText(error) }, "a lane can't be looked at");
    } finally {
      state.looking = false;
    }
  })();
}

async function takeNext(state: State): Promise<boolean> {
  const claimed = await state.jobs.claim(state.agents());
  if (claimed === null) return false;
  state.running.set(claimed.claim, claimed.id);
  state.onStart?.(Math.max(0, state.clock.now() - claimed.rungAt));
  void work(state, claimed);
  return true;
}

async function work(state: State, { id, claim }: Claimed): Promise<void> {
  let isBegun = false;
  try {
    await state.passTurnstile();
    isBegun = state.drained === null;
    if (isBegun) await state.handler?.(id);
  } catch (error) {
    state.onError(id, error);
  }
  // What it rang for is in its place before its own is free: work half done goes before what waits.
  await state.inTurn(async () => {});
  // What was drained before it began waits again, for the others.
  const { finish, putBack } = state.jobs;
  await giveBack(state, id, () => (isBegun ? finish : putBack)(id, claim));
  state.running.delete(claim);
  if (state.running.size === 0) state.drained?.resolve();
  look(state);
}

/** Its place is free only then. A server that is away is asked until it is back, or until this process has lost its lease and ends. */
async function giveBack(state: State, id: string, give: () => Promise<void>): Promise<void> {
  for (;;) {
    try {
      return await give();
    } catch (error) {
      state.log.debug({ id, reason: errorText(error) }, "a job of a lane could not be given back yet");
      await state.clock.sleep(RETRY_MS);
    }
  }
}

/**
 * A claim whose answer was lost holds a place that nobody works in. Never during a look: what is being claimed just then would be taken
 * for such a one, and be worked on twice.
 */
async function lookAfter(state: State): Promise<void> {
  if (state.looking || state.drained !== null) return;
  state.looking = true;
  try {
    await state.oneByOne(() => state.jobs.forget([...state.running.keys()]));
  } catch (error) {
    state.log.debug({ lane: state.name, reason: errorText(error) }, "a lane can't be looked after");
  } finally {
    state.looking = false;
  }
  look(state);
}
