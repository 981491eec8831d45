// What becomes of a stream: the answer, and nothing else. By the call that ends it, when Slack has taken exactly the beginning of the
// answer; otherwise it is ended as it is and the whole answer edited in. Only then it carries its outbox key, so that it counts as said.
//
// Of a process that died between Slack's taking a stream and its being recorded, only the thread can tell: a stream of ours that has no
// outbox key is that one. Everything else of ours has one, also a stream that became an answer.
import type { WebClient } from "@slack/web-api";
import type { Address } from "../../core/address.ts";
import { type Clock, callAfter } from "../../core/clock.ts";
import { draftBegunAt, type SendRequest, type SendResult } from "../../core/message.ts";
import { type ApiFailure, explainFailure } from "./api.ts";
import { findMessage, keyOf, metadataOf } from "./history.ts";
import type { SlackPart } from "./render.ts";

export interface Streaming {
  readonly client: WebClient;
  readonly clock: Clock;
  /** No request of ours is still under way so long after it was begun. */
  readonly settleMs: number;
  /** Those this process has begun, by the key of the part they will be. */
  readonly streams: Map<string, Stream>;
}

export interface Stream {
  /** Null: Slack has surely taken none, or is being asked. */
  ts: string | null;
  /** What Slack has taken of it; null: only Slack knows, or it is a stream no more. */
  taken: string | null;
  /** It is a stream no more. */
  isClosed: boolean;
  /** What is under way, or was last. */
  call: Promise<unknown>;
  readonly startedAt: number;
}

export type Placed = SendRequest & { readonly ref: string };

/** It is closed already: Slack has its own time for it. */
export const CLOSED = "message_not_in_streaming_state";
export const GONE: ReadonlySet<string> = new Set(["message_not_found", "no_such_message"]);
const NO_EDIT = new Set(["cant_update_message", "edit_window_closed"]);
/** How long an answer waits for a piece of it that is on its way. */
const GRACE_MS = 1_000;

export const wordsOf = ({ blocks }: SlackPart): string =>
  blocks.flatMap((block) => (block.type === "markdown" ? [block.text] : []))[0] ?? "";

/** Null: it was done. */
export async function tried(call: () => Promise<unknown>): Promise<ApiFailure | null> {
  try {
    await call();
    return null;
  } catch (error) {
    return explainFailure(error);
  }
}

type Spot = { readonly channel: string; readonly ts: string };

/** Ends a stream as it is. Null: it is none any more. */
export async function close({ client }: Pick<Streaming, "client">, place: Spot): Promise<ApiFailure | null> {
  const failure = await tried(() => client.chat.stopStream(place));
  return failure?.kind === "refused" && failure.code === CLOSED ? null : failure;
}

export async function completeStream(
  state: Streaming,
  request: Placed,
  toResult: (failure: ApiFailure) => SendResult,
): Promise<SendResult | null> {
  await settled(state, state.streams.get(request.key));
  const ts = await placeOf(state, request);
  if (ts === null) return null;
  if (typeof ts !== "string") return ts;
  const place = { channel: request.address.chat, ts };
  const part = request.part as SlackPart;
  const failure = (await endWith(state, request, place)) ? null : await rewrite(state, place, part, request.key);
  if (failure === null) {
    state.streams.delete(request.key);
    return { status: "sent", ref: ts };
  }
  // Somebody removed it, or Slack takes no edit of it any more: then the answer is a message of its own, and no half one beside it.
  if (failure.kind === "refused" && NO_EDIT.has(failure.code)) await tried(() => state.client.chat.delete(place));
  if (failure.kind === "refused" && (GONE.has(failure.code) || NO_EDIT.has(failure.code))) return null;
  // Done twice it shows once: nobody has to be asked whether it arrived.
  return failure.kind === "lost" ? { status: "retry", reason: failure.reason } : toResult(failure);
}

/**
 * A start that is on its way tells where the answer belongs, so it is waited for. A piece is not, for long: the stream is ended before
 * the answer is written there, and takes no piece behind its end.
 */
async function settled({ clock }: Streaming, stream: Stream | undefined): Promise<void> {
  if (stream === undefined) return;
  if (stream.ts === null) return void (await stream.call);
  await new Promise<void>((resolve) => {
    const endWait = callAfter(clock, GRACE_MS, () => {
      stream.taken = null;
      resolve();
    });
    void stream.call.finally(() => {
      endWait();
      resolve();
    });
  });
}

/** Where the draft stands; null: nowhere; a result: not known yet. */
async function placeOf(state: Streaming, { key, ref, address }: Placed): Promise<string | SendResult | null> {
  const known = state.streams.get(key);
  if (known !== undefined) return known.ts;
  const begunAt = draftBegunAt(ref);
  if (begunAt === null) return ref;
  const lookedAt = state.clock.now();
  try {
    const found = await findStream(state, address, begunAt);
    if (found !== null) return found;
  } catch (error) {
    return { status: "retry", reason: explainFailure(error).reason };
  }
  // A start of the process that died may still be on its way.
  return lookedAt - begunAt < state.settleMs ? { status: "retry", reason: "it is not known yet whether its draft stands" } : null;
}

/** A stream of ours in this thread that never became an answer. */
async function findStream({ client, streams }: Streaming, address: Address, since: number): Promise<string | null> {
  const { user_id: user, bot_id: bot } = await client.auth.test();
  const others = new Set([...streams.values()].map((stream) => stream.ts));
  return findMessage(client, { address, since }, (message) => {
    const isOwn = (user !== undefined && message.user === user) || (bot !== undefined && message.bot_id === bot);
    return isOwn && message.streaming_state !== undefined && keyOf(message) === undefined && !others.has(message.ts ?? "");
  });
}

/**
 * Ends the stream with what is missing, in one call: whoever reads along sees it go on, and no mark of an edit. With the key, which says
 * that the answer is whole. False: that can't be, or nobody knows whether it was; then it is written anew.
 */
async function endWith({ client, streams }: Streaming, request: Placed, place: Spot): Promise<boolean> {
  const taken = streams.get(request.key)?.taken ?? null;
  const part = request.part as SlackPart;
  const words = wordsOf(part);
  if (taken === null || part.plain === true || !words.startsWith(taken)) return false;
  const rest = words.slice(taken.length);
  const below = part.blocks.slice(1);
  const end = {
    ...(rest === "" ? {} : { markdown_text: rest }),
    ...(below.length === 0 ? {} : { blocks: below }),
    metadata: metadataOf(request.key),
  };
  return (await tried(() => client.chat.stopStream({ ...place, ...end }))) === null;
}

/** The key comes with the whole text, never before: by it the answer counts as said. */
async function rewrite(state: Streaming, place: Spot, { text, blocks }: SlackPart, key: string): Promise<ApiFailure | null> {
  const stream = state.streams.get(key);
  if (stream !== undefined) stream.taken = null;
  const closed = await close(state, place);
  return closed ?? tried(() => state.client.chat.update({ ...place, text, blocks: [...blocks], metadata: metadataOf(key) }));
}
