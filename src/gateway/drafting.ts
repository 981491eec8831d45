// Answers of main sessions as they are written (LV6), for channels that can show that (`Channel.drafts`): what the turn says so far is
// handed on at the pace the channel names. Nobody waits for it: the turn doesn't know of it, the answer itself goes through the outbox as
// ever, and ends what is shown here. Where a draft vanishes by itself that is all. Where it stands, a process that dies would leave half
// an answer: so that one is begun is on record before the platform hears of it, and where it stands after it; the answer's row in the
// outbox is given that place, and is put there instead of being posted (channels/slack/stream.ts).
// bus (turn.*) → see → channel.drafts.show;  inbox row (draft) → conversation.ts → outbox row (ref) → delivery → channel.send
import { type Address, addressKey } from "../core/address.ts";
import type { Clock } from "../core/clock.ts";
import { errorText } from "../core/errors.ts";
import type { AppEvent, Bus } from "../core/events.ts";
import type { HitFailpoint } from "../core/failpoints.ts";
import type { Logger } from "../core/logger.ts";
import type { Channel, DraftResult, Drafts } from "../core/message.ts";
import { createThrottle } from "../core/throttle.ts";
import type { Inbox } from "../stores/inbox.ts";
import type { Outbox } from "../stores/outbox.ts";
import { rowOfTurn } from "./main-turn.ts";
import type { Pacer } from "./pace.ts";
import { replyDelivery } from "./reply.ts";

export interface DraftingDeps {
  readonly inbox: Pick<Inbox, "beginDraft" | "placeDraft">;
  readonly outbox: Pick<Outbox, "head" | "listAside">;
  readonly clock: Clock;
  readonly bus: Bus;
  readonly log: Logger;
  readonly failpoint: HitFailpoint;
  readonly pacer: Pick<Pacer, "waitMs">;
  channel(name: string, account: string): Channel | null;
  /** Among other processes: this one has not lost its work to one of them. Left out: there are no others. */
  isValid?(): boolean;
}

export interface Drafting {
  /** Follows the turns that begin from now on. What was begun may be begun again. */
  start(): void;
  /** Shows nothing more; resolves when what is under way is over. */
  stop(): Promise<void>;
}

/** An answer that is whole by then is not worth a draft; and nobody reads faster than once a second. */
const EVERY_MS = 1_000;

interface Draft {
  readonly id: number;
  readonly sessionKey: string;
  readonly address: Address;
  readonly channel: Channel;
  readonly drafts: Drafts;
  /** Its end: nothing of it is shown any more. */
  readonly over: AbortController;
  text: string;
  shown: string;
  /** Its turn waits: what stands there is no beginning of an answer that comes soon. */
  isWaiting: boolean;
  /** Begun on the platform, or about to be. */
  isBegun: boolean;
  reader: string | null;
  ref: string | null;
  ring(): void;
}

interface State extends DraftingDeps {
  readonly drafts: Map<string, Draft>;
  readonly busy: Set<Promise<unknown>>;
}

export function createDrafting(deps: DraftingDeps): Drafting {
  const state: State = { ...deps, drafts: new Map(), busy: new Set() };
  let unsubscribe = (): void => {};
  return {
    start() {
      unsubscribe();
      unsubscribe = deps.bus.on((event) => see(state, event));
    },
    async stop() {
      unsubscribe();
      for (const turnId of [...state.drafts.keys()]) end(state, turnId);
      await Promise.allSettled(state.busy);
    },
  };
}

function see(state: State, event: AppEvent): void {
  switch (event.type) {
    case "turn.started":
      return begin(state, event);
    case "turn.text": {
      const draft = state.drafts.get(event.turnId);
      if (draft === undefined) return;
      Object.assign(draft, { text: event.text, isWaiting: false });
      return draft.ring();
    }
    case "turn.waits": {
      const draft = state.drafts.get(event.turnId);
      if (draft === undefined) return;
      draft.isWaiting = true;
      return draft.ring();
    }
    case "turn.halted":
      for (const [turnId, { sessionKey }] of state.drafts) if (sessionKey === event.sessionKey) end(state, turnId);
      return;
    case "turn.ended":
      return end(state, event.turnId);
  }
}

function begin(state: State, { turnId, address, sessionKey }: { turnId: string; address: Address; sessionKey: string }): void {
  const channel = state.channel(address.channel, address.account);
  const drafts = channel?.drafts;
  const id = rowOfTurn(turnId);
  if (channel === null || drafts === undefined || id === null || !drafts.fits(address)) return;
  end(state, turnId);
  const over = new AbortController();
  const work = (): Promise<number | undefined> => {
    const done = bringUpToDate(state, draft);
    state.busy.add(done);
    return done.finally(() => state.busy.delete(done));
  };
  // Only what is on record has failed, and nothing depends on a draft: the answer comes whole, as if there had been none.
  const onError = (error: unknown): void => {
    over.abort();
    state.log.debug({ address, reason: errorText(error) }, "a draft could not be recorded; the answer is shown when it is whole");
  };
  const { ring } = createThrottle({ clock: state.clock, signal: over.signal, everyMs: EVERY_MS, work, onError });
  const fresh = { text: "", shown: "", isWaiting: false, isBegun: false, reader: null, ref: null };
  const draft: Draft = { id, sessionKey, address, channel, drafts, over, ...fresh, ring };
  state.drafts.set(turnId, draft);
}

function end(state: State, turnId: string): void {
  state.drafts.get(turnId)?.over.abort();
  state.drafts.delete(turnId);
}

/** Returns how long the next time has to wait at least. */
async function bringUpToDate(state: State, draft: Draft): Promise<number | undefined> {
  if (state.isValid?.() === false) return undefined;
  if (draft.isWaiting) return takeAway(state, draft);
  const { text, drafts, address, id, ref } = draft;
  if (text.trim() === "" || text === draft.shown) return undefined;
  if (!(await mayShow(state, draft))) {
    draft.ring();
    return EVERY_MS;
  }
  if (drafts.stands === true && !draft.isBegun && !(await record(state, draft))) return undefined;
  const result = await drafts.show({ address, id, key: `${replyDelivery(id)}#0`, markdown: text, reader: draft.reader, ref });
  state.failpoint("draft.shown");
  if (result.status === "shown") draft.shown = text;
  return conclude(state, draft, result);
}

/**
 * Never before what waits to be said there (LV2). The first of a draft that stands goes behind everything there, also what steps aside
 * after a failure: it may be the answer before this one, whose own place is only told from this one's by being filled.
 */
async function mayShow({ pacer, outbox }: State, { address, drafts, isBegun }: Draft): Promise<boolean> {
  if (pacer.waitMs(address, false) > 0) return false;
  const key = addressKey(address);
  if ((await outbox.head(key)) !== null) return false;
  return drafts.stands !== true || isBegun || (await outbox.listAside(key, 1)).length === 0;
}

/** False: nothing of this answer can be shown here; an earlier process has begun a draft of it, or it is whole. */
async function record(state: State, draft: Draft): Promise<boolean> {
  const row = await state.inbox.beginDraft(draft.id, draft.sessionKey);
  if (row === null) {
    draft.over.abort();
    return false;
  }
  draft.isBegun = true;
  draft.reader = draft.channel.decode(row.raw)?.sender.id ?? null;
  state.failpoint("draft.begun");
  return true;
}

async function conclude(state: State, draft: Draft, result: DraftResult): Promise<number | undefined> {
  switch (result.status) {
    case "shown":
      if (result.ref === undefined || draft.ref !== null) return result.againMs;
      draft.ref = result.ref;
      // Whatever became of the turn meanwhile: without it the answer has to look for this place.
      await state.inbox.placeDraft(draft.id, result.ref);
      state.failpoint("draft.placed");
      return result.againMs;
    case "retry":
      await unrecord(state, draft);
      draft.ring();
      return result.afterMs;
    case "refused":
      await unrecord(state, draft);
      draft.over.abort();
      break;
    case "unknown":
      draft.over.abort();
  }
  state.log.debug({ address: draft.address, reason: result.reason }, "an answer can't be shown before it is whole");
  return undefined;
}

/** Nothing came of it. */
async function unrecord(state: State, draft: Draft): Promise<void> {
  if (!draft.isBegun || draft.ref !== null) return;
  draft.isBegun = false;
  await state.inbox.placeDraft(draft.id, null);
}

/**
 * What was said before a question is no part of the answer, which may come in days, below the question. Taken away before that is on
 * record: killed in between, the answer finds its place gone and is posted.
 */
async function takeAway(state: State, draft: Draft): Promise<undefined> {
  const { address, id, ref, drafts } = draft;
  draft.shown = "";
  if (ref === null || drafts.remove === undefined) return undefined;
  if (!(await drafts.remove({ address, key: `${replyDelivery(id)}#0`, ref }))) return undefined;
  await state.inbox.placeDraft(id, null);
  Object.assign(draft, { ref: null, isBegun: false });
  return undefined;
}
