// The front door: inbox rows, looked at in order of arrival, one look at a time; what the disk refuses is looked at again, and what
// ends the process whenever it is read is given up. Rows only ever move forward. bus → here → accepting.ts
import { isStorageError } from "../core/errors.ts";
import type { Bus } from "../core/events.ts";
import type { InboxRow } from "../stores/inbox.ts";
import { MAX_WORDLESS, type Tries } from "../stores/tries.ts";
import { type Accepting, type AcceptingDeps, createAccepting } from "./accepting.ts";

export interface Gateway {
  /** Takes up what is recorded and unanswered, then everything that arrives. What failed at its beginning may be begun again. */
  start(): Promise<void>;
  /** What was being answered by a process that is not alive any more. */
  takeUp(): Promise<void>;
  /** Looks at nothing new; resolves when the commands under way are answered. */
  stop(): Promise<void>;
}

export interface GatewayDeps extends AcceptingDeps {
  readonly tries: Tries;
  readonly bus: Bus;
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
  readonly accepting: Accepting;
}

const BATCH = 100;
const STORAGE_RETRY_MS = 5_000;

export function createGateway(deps: GatewayDeps): Gateway {
  const stopped = new AbortController();
  const state: State = {
    ...{ ...deps, stopped, seen: 0, leftTo: 0, deaths: new Map(), looking: null, isRung: false, retrying: false },
    accepting: createAccepting(deps, stopped.signal),
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
      await state.accepting.idle();
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
    await state.accepting.drop(row);
    return survived(state, row.id);
  }
  const onOver = (): Promise<void> => survived(state, row.id);
  if ((await state.accepting.accept(row, { deaths, onOver })) === "over") await onOver();
}

const workOf = (rowId: number): string => `inbox:${rowId}`;

async function survived(state: State, rowId: number): Promise<void> {
  if (state.deaths.delete(rowId)) await state.tries.end(workOf(rowId));
}
