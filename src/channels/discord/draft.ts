// An answer while it is written: a message of ours that is edited on, at the pace of edits. It stands there from its first word, so
// whatever happens it becomes the answer, and nothing else does (LV6): by an edit, in which the answer is whole. Until then its last line
// says that it is being written. By that line it is found again when a process died between Discord's taking it and its being recorded:
// no other message of ours ends so.
// drafting.ts → show → Discord;  outbox row with the draft's place → send.ts → complete
import type { API } from "@discordjs/core/http-only";
import type { Address } from "../../core/address.ts";
import type { Clock } from "../../core/clock.ts";
import { type DraftRequest, type DraftResult, type Drafts, draftBegunAt, type SendRequest, type SendResult } from "../../core/message.ts";
import { type ApiFailure, explainFailure } from "./api.ts";
import { contentOf, type Editor, isMessageGone, rewrite, THREAD_ARCHIVED } from "./edit.ts";
import { channelOf, findMessage } from "./history.ts";
import { type DiscordPart, MAX_LENGTH, renderMessage } from "./render.ts";

export interface DraftOptions extends Editor {
  readonly clock: Clock;
  readonly me: string;
  /** No request of ours is still under way so long after it was begun. */
  readonly settleMs: number;
}

type Placed = SendRequest & { readonly ref: string };

export interface Drafting extends Required<Drafts> {
  /** Makes the answer of what stands there. Null: nothing does, so it is posted like any other. */
  complete(request: Placed, toResult: (failure: ApiFailure) => Promise<SendResult>): Promise<SendResult | null>;
}

interface Draft {
  /** Null: Discord has surely taken none, or is being asked. */
  id: string | null;
  /** What is under way, or was last. */
  call: Promise<unknown>;
  readonly startedAt: number;
}

interface State extends DraftOptions {
  /** Those this process has begun, by the key of the part they will be. */
  readonly drafts: Map<string, Draft>;
}

type Body = Parameters<API["channels"]["createMessage"]>[1];

const WRITING = "-# ✍️ writing…";
/** Edits of a channel count like messages: there must be room for those. */
const EVERY_MS = 2_000;
/** Of the fifty calls a second in all, drafts take no more than ten. */
const SHARE_MS = 100;
const RETRY_MS = 5_000;
const FORGET_MS = 30 * 60_000;

export function createDrafts(options: DraftOptions): Drafting {
  const state: State = { ...options, drafts: new Map() };
  return {
    stands: true,
    fits: () => true,
    show(request) {
      const call = show(state, request);
      const draft = state.drafts.get(request.key);
      if (draft !== undefined) draft.call = call;
      return call;
    },
    async remove({ address, key, ref }) {
      try {
        await options.api.channels.deleteMessage(channelOf(address), ref);
      } catch (error) {
        if (!isMessageGone(explainFailure(error))) return false;
      }
      state.drafts.delete(key);
      return true;
    },
    complete: (request, toResult) => complete(state, request, toResult),
  };
}

/** No more than one message holds: the others are posted when the answer is whole. */
function draftPart({ markdown, address }: DraftRequest): DiscordPart {
  const { content } = renderMessage({ markdown: markdown.slice(0, 2 * MAX_LENGTH).toWellFormed() }, address)[0] as DiscordPart;
  return { content: `${content.trimEnd()}\n${WRITING}` };
}

async function show(state: State, request: DraftRequest): Promise<DraftResult> {
  const id = state.drafts.get(request.key)?.id ?? request.ref;
  if (id === null) return begin(state, request);
  const failure = await rewrite(state, request.address, id, draftPart(request));
  return failure === null ? { status: "shown", ref: id, againMs: paceOf(state) } : later(failure);
}

async function begin(state: State, request: DraftRequest): Promise<DraftResult> {
  const { address, key } = request;
  const now = state.clock.now();
  for (const [other, { startedAt }] of state.drafts) if (Math.abs(now - startedAt) > FORGET_MS) state.drafts.delete(other);
  const draft: Draft = { id: null, call: Promise.resolve(), startedAt: now };
  state.drafts.set(key, draft);
  try {
    const body = contentOf(draftPart(request)) as unknown as Body;
    const { id } = await state.api.channels.createMessage(channelOf(address), body);
    if (typeof id !== "string") return notBegun(state, key, { kind: "lost", reason: "the answer named no message" });
    draft.id = id;
    return { status: "shown", ref: id, againMs: paceOf(state) };
  } catch (error) {
    return notBegun(state, key, explainFailure(error));
  }
}

function notBegun(state: State, key: string, failure: ApiFailure): DraftResult {
  const { kind, reason } = failure;
  // Only the channel can tell, when the answer is there: nothing is known here.
  if (kind === "lost") state.drafts.delete(key);
  if (kind === "lost") return { status: "unknown", reason };
  if (kind === "limited") return { status: "retry", afterMs: failure.afterMs, reason };
  return kind === "offline" ? { status: "retry", afterMs: RETRY_MS, reason } : { status: "refused", reason };
}

/** So many answers are being written. */
const paceOf = ({ drafts }: State): number => Math.max(EVERY_MS, [...drafts.values()].filter(({ id }) => id !== null).length * SHARE_MS);

/** It stands there, whatever this was: the answer will say all of it. */
function later(failure: ApiFailure): DraftResult {
  const { kind, reason } = failure;
  if (kind === "limited") return { status: "retry", afterMs: Math.max(failure.afterMs, EVERY_MS), reason };
  return kind === "refused" || kind === "auth" ? { status: "unknown", reason } : { status: "retry", afterMs: RETRY_MS, reason };
}

async function complete(state: State, request: Placed, toResult: (failure: ApiFailure) => Promise<SendResult>): Promise<SendResult | null> {
  const known = state.drafts.get(request.key);
  // An edit that came behind the answer would undo it.
  if (known !== undefined) await known.call;
  const id = await placeOf(state, request);
  if (id === null) return null;
  if (typeof id !== "string") return id;
  const failure = await rewrite(state, request.address, id, request.part as DiscordPart);
  if (failure === null) {
    state.drafts.delete(request.key);
    return { status: "sent", ref: id };
  }
  // Somebody removed it: then the answer is a message of its own.
  if (isMessageGone(failure)) return null;
  if (failure.kind === "refused" && failure.code === THREAD_ARCHIVED && (await reopen(state, request.address)))
    return { status: "retry", reason: failure.reason };
  // Done twice it shows once: nobody has to be asked whether it arrived.
  return failure.kind === "lost" ? { status: "retry", reason: failure.reason } : toResult(failure);
}

/** Whoever may speak in a thread may open it again, unless it is locked. False: it stays closed. */
async function reopen({ api }: State, address: Address): Promise<boolean> {
  try {
    await api.channels.edit(channelOf(address), { archived: false });
    return true;
  } catch (error) {
    // It can't be asked right now: whether it is open shows at the next attempt.
    return explainFailure(error).kind !== "refused";
  }
}

/** Where the draft stands; null: nowhere; a result: not known yet. */
async function placeOf(state: State, { key, ref, address }: Placed): Promise<string | SendResult | null> {
  const known = state.drafts.get(key);
  if (known !== undefined) return known.id;
  const begunAt = draftBegunAt(ref);
  if (begunAt === null) return ref;
  const lookedAt = state.clock.now();
  try {
    const found = await findDraft(state, address, begunAt);
    if (found !== null) return found;
  } catch (error) {
    const failure = explainFailure(error);
    // A place that is gone takes no message either: posting says so.
    if (failure.kind === "refused") return null;
    return { status: "retry", ...(failure.kind === "limited" ? { afterMs: failure.afterMs } : {}), reason: failure.reason };
  }
  // A start of the process that died may still be on its way.
  return lookedAt - begunAt < state.settleMs ? { status: "retry", reason: "it is not known yet whether its draft stands" } : null;
}

/** A draft of ours in this place that never became an answer. */
function findDraft({ api, me, drafts }: State, address: Address, since: number): Promise<string | null> {
  const others = new Set([...drafts.values()].map(({ id }) => id));
  const isDraft = ({ id, author, content }: { id: string; author: { id: string }; content: string }): boolean =>
    author.id === me && content.endsWith(WRITING) && !others.has(id);
  return findMessage(api, { address, since }, isDraft);
}
