// An answer while it is written, in threads: Slack's own streaming. A stream is a message from its first word on, so whatever happens it
// becomes the answer, and nothing else does (LV6): by the call that ends it, when Slack has taken exactly the beginning of the answer; by
// an edit otherwise. A stream takes only what goes behind what it has, and dies after about five minutes. When the answer begins anew
// (after a tool), or lasts longer, the stream is ended and the same message is edited on, at the pace of edits.
// drafting.ts → show → Slack;  outbox row with the draft's place → send.ts → stream-end.ts
import type { Address } from "../../core/address.ts";
import type { DraftRequest, DraftResult, Drafts, SendResult } from "../../core/message.ts";
import { type ApiFailure, explainFailure } from "./api.ts";
import { MAX_MARKDOWN, renderMessage, type SlackPart } from "./render.ts";
import { CLOSED, close, completeStream, GONE, type Placed, type Stream, type Streaming, tried, wordsOf } from "./stream-end.ts";

export interface StreamOptions extends Omit<Streaming, "streams"> {
  /** The workspace's id, or the organisation's. */
  account(): string;
}

export interface Streams extends Required<Drafts> {
  /** Makes the answer of what stands there. Null: nothing does, so it is posted like any other. */
  complete(request: Placed, toResult: (failure: ApiFailure) => SendResult): Promise<SendResult | null>;
}

interface State extends StreamOptions, Streaming {
  /** When streams were begun in the last minute. */
  starts: number[];
  /** Slack doesn't stream for this app. */
  isOff: boolean;
  /** Nor in these channels, whatever the reason. */
  readonly without: Set<string>;
}

/** Slack closes one at about five minutes. */
const LIFE_MS = 4 * 60_000;
const MINUTE_MS = 60_000;
/** Slack takes twenty starts and as many ends a minute: of the ends each is somebody's answer, so that there is room for all of them. */
const MAX_STARTS = 15;
/** A hundred pieces a minute and fifty edits, all threads together. */
const PIECES = { everyMs: 1_000, shareMs: 700 };
const EDITS = { everyMs: 3_000, shareMs: 1_500 };
const RETRY_MS = 5_000;
const FORGET_MS = 30 * 60_000;
/** Refusals that concern this one place, not the app. */
const PLACE = /channel|thread|archived|message|user|recipient|team/;

export function createStreams(options: StreamOptions): Streams {
  const state: State = { ...options, streams: new Map(), starts: [], isOff: false, without: new Set() };
  return {
    stands: true,
    fits: (address) => fits(state, address),
    show(request) {
      const call = show(state, request);
      const stream = state.streams.get(request.key);
      if (stream !== undefined) stream.call = call;
      return call;
    },
    async remove({ address, key, ref }) {
      const place = { channel: address.chat, ts: ref };
      const failure = (await close(state, place)) ?? (await tried(() => options.client.chat.delete(place)));
      const isGone = failure === null || (failure.kind === "refused" && GONE.has(failure.code));
      if (isGone) state.streams.delete(key);
      return isGone;
    },
    complete: (request, toResult) => completeStream(state, request, toResult),
  };
}

/** Everywhere but in a direct chat Slack wants to know for whom; an organisation's app can't say of which workspace they are. */
const fits = ({ isOff, without, account }: State, { thread, kind, chat }: Address): boolean =>
  !isOff && thread !== undefined && !without.has(chat) && (kind === "dm" || account().startsWith("T"));

/** No more than one message holds: the others are posted when the answer is whole. */
const draftPart = ({ markdown, address }: DraftRequest): SlackPart =>
  renderMessage({ markdown: markdown.slice(0, 2 * MAX_MARKDOWN).toWellFormed() }, address)[0] as SlackPart;

function show(state: State, request: DraftRequest): Promise<DraftResult> {
  const stream = state.streams.get(request.key);
  const ts = stream?.ts ?? request.ref;
  if (ts === null) return start(state, request);
  const taken = stream?.taken ?? null;
  const words = steadyPart(wordsOf(draftPart(request)));
  const isOld = state.clock.now() - (stream?.startedAt ?? 0) > LIFE_MS;
  if (stream === undefined || taken === null || isOld || !words.startsWith(taken)) return edit(state, request, stream, ts);
  return append(state, request, stream, { ts, taken, words });
}

/** A line that may still become a table looks different once it is one, and a stream takes nothing back. */
function steadyPart(words: string): string {
  const at = words.lastIndexOf("\n") + 1;
  return words.slice(at).trimStart().startsWith("|") ? words.slice(0, at) : words;
}

async function start(state: State, request: DraftRequest): Promise<DraftResult> {
  const { address, reader, key } = request;
  const now = state.clock.now();
  const words = steadyPart(wordsOf(draftPart(request)));
  if (words === "") return { status: "retry", afterMs: PIECES.everyMs, reason: "nothing to show yet" };
  if (address.kind !== "dm" && reader === null) return { status: "refused", reason: "nobody knows for whom" };
  const waitMs = startsIn(state, now);
  if (waitMs > 0) return { status: "retry", afterMs: waitMs, reason: "many streams at a time" };
  state.starts.push(now);
  const stream: Stream = { ts: null, taken: null, isClosed: false, call: Promise.resolve(), startedAt: now };
  state.streams.set(key, stream);
  const recipient = address.kind === "dm" ? {} : { recipient_user_id: reader ?? "", recipient_team_id: state.account() };
  try {
    const place = { channel: address.chat, thread_ts: address.thread ?? "" };
    const { ts } = await state.client.chat.startStream({ ...place, ...recipient, markdown_text: words });
    if (ts === undefined) return notStarted(state, request, { kind: "lost", reason: "the answer named no message" });
    Object.assign(stream, { ts, taken: words });
    return { status: "shown", ref: ts, againMs: paceOf(state, PIECES) };
  } catch (error) {
    return notStarted(state, request, explainFailure(error));
  }
}

/** 0: one may be begun now. Forgets what no answer will ask for; of one that stands its row knows as much as is needed. */
function startsIn(state: State, now: number): number {
  for (const [key, { startedAt }] of state.streams) if (Math.abs(now - startedAt) > FORGET_MS) state.streams.delete(key);
  // One still to come was counted by a clock that has been set back since.
  state.starts = state.starts.filter((at) => at <= now && now - at < MINUTE_MS);
  const [first = now] = state.starts;
  return state.starts.length < MAX_STARTS ? 0 : first + MINUTE_MS - now;
}

function notStarted(state: State, { key, address }: DraftRequest, failure: ApiFailure): DraftResult {
  const { kind, reason } = failure;
  switch (kind) {
    case "lost":
      // Only the thread can tell, when the answer is there: nothing is known here.
      state.streams.delete(key);
      return { status: "unknown", reason };
    case "limited":
      return { status: "retry", afterMs: failure.afterMs, reason };
    case "offline":
      return { status: "retry", afterMs: RETRY_MS, reason };
    case "refused":
      if (PLACE.test(failure.code)) state.without.add(address.chat);
      else state.isOff = true;
      return { status: "refused", reason };
    case "auth":
      return { status: "refused", reason };
  }
}

/** So many threads are being written to. */
const paceOf = ({ streams }: State, { everyMs, shareMs }: typeof PIECES): number =>
  Math.max(everyMs, [...streams.values()].filter(({ ts }) => ts !== null).length * shareMs);

interface Growth {
  readonly ts: string;
  readonly taken: string;
  readonly words: string;
}

async function append(state: State, request: DraftRequest, stream: Stream, { ts, taken, words }: Growth): Promise<DraftResult> {
  const piece = words.slice(taken.length);
  const shown: DraftResult = { status: "shown", ref: ts, againMs: paceOf(state, PIECES) };
  if (piece === "") return shown;
  const failure = await tried(() => state.client.chat.appendStream({ channel: request.address.chat, ts, markdown_text: piece }));
  if (failure === null) {
    stream.taken = words;
    return shown;
  }
  // Perhaps taken, perhaps not: from here on only an edit says what stands there.
  if (failure.kind === "lost" || (failure.kind === "refused" && failure.code === CLOSED)) stream.taken = null;
  return later(failure);
}

async function edit(state: State, request: DraftRequest, stream: Stream | undefined, ts: string): Promise<DraftResult> {
  const place = { channel: request.address.chat, ts };
  if (stream !== undefined) stream.taken = null;
  // As long as it is a stream, Slack takes no edit of it.
  const open = stream?.isClosed === true ? null : await close(state, place);
  if (stream !== undefined && open === null) stream.isClosed = true;
  const { text, blocks } = draftPart(request);
  const failure = open ?? (await tried(() => state.client.chat.update({ ...place, text, blocks: [...blocks] })));
  return failure === null ? { status: "shown", ref: ts, againMs: paceOf(state, EDITS) } : later(failure);
}

/** It stands there, whatever this was: the answer will say all of it. */
function later(failure: ApiFailure): DraftResult {
  const { kind, reason } = failure;
  if (kind === "limited") return { status: "retry", afterMs: failure.afterMs, reason };
  if (kind === "refused" && failure.code !== CLOSED) return { status: "unknown", reason };
  return kind === "auth" ? { status: "unknown", reason } : { status: "retry", afterMs: EDITS.everyMs, reason };
}
