// An answer while it is written: a message from its first words on, edited as it grows, and at last the answer itself (LV6). Every edit
// is an event that the room keeps, so they keep a slow pace. The first words name the row the answer will be (`draft`), the answer's own
// edit carries that row's key: so of a process that died in between, the room tells where the answer belongs, and whether it is whole.
// drafting.ts → show → homeserver;  outbox row with the draft's place → send.ts → complete
import type { Clock } from "../../core/clock.ts";
import { type DraftRequest, type DraftResult, type Drafts, draftBegunAt, type SendRequest, type SendResult } from "../../core/message.ts";
import { type Api, type ApiFailure, explainFailure, v3 } from "./api.ts";
import { giveNumbers } from "./buttons.ts";
import { findOwn } from "./history.ts";
import { lookAt } from "./looking.ts";
import { post, transactionOf, transactionOfRow } from "./post.ts";
import { type Content, contentOf, editOf, MAX_LENGTH, type MatrixPart, type Redact, relationTo, renderMessage } from "./render.ts";

export interface DraftDeps {
  readonly api: Api;
  readonly clock: Clock;
  /** No request of ours is still under way so long after it was begun. */
  readonly settleMs: number;
  readonly redact: Redact;
  me(): string;
}

export type Placed = SendRequest & { readonly ref: string };

export interface DraftBoard extends Required<Drafts> {
  /** Makes the answer of what stands there. Null: nothing does, so it is sent like any other. */
  complete(request: Placed, content: Content, toResult: (failure: ApiFailure) => SendResult): Promise<SendResult | null>;
}

interface State extends DraftDeps {
  /** What is being shown, by the row it will be: the answer waits for it, or an edit on its way would cover it. */
  readonly calls: Map<string, Promise<unknown>>;
  /** When something was shown of it last, by row. */
  readonly active: Map<string, number>;
  /** Edits nobody heard of again: one that arrives behind the answer would put its beginning in its place. */
  readonly lostAt: Map<string, number>;
}

/** As fast as a server takes them from a user without privileges, all rooms together. */
const EVERY_MS = 5_000;
const RETRY_MS = 5_000;
const ACTIVE_MS = 60_000;
const GONE = new Set(["M_FORBIDDEN", "M_NOT_FOUND"]);

export function createDrafts(deps: DraftDeps): DraftBoard {
  const state: State = { ...deps, calls: new Map(), active: new Map(), lostAt: new Map() };
  return {
    stands: true,
    fits: ({ chat }) => chat.startsWith("!"),
    show(request) {
      const call = show(state, request);
      state.calls.set(request.key, call);
      return call;
    },
    async remove({ address, key, ref }) {
      try {
        const transaction = transactionOf(`remove ${ref}`);
        await deps.api.call("PUT", v3("rooms", address.chat, "redact", ref, transaction), { body: {} });
        state.calls.delete(key);
        state.active.delete(key);
        return true;
      } catch (error) {
        const failure = explainFailure(error);
        return failure.kind === "refused" && GONE.has(failure.code);
      }
    },
    complete: (request, content, toResult) => complete(state, request, content, toResult),
  };
}

async function show(state: State, request: DraftRequest): Promise<DraftResult> {
  const { address, key, ref, markdown } = request;
  const cut = markdown.slice(0, 2 * MAX_LENGTH).toWellFormed();
  const part = renderMessage({ markdown: cut }, address, state.redact)[0] as MatrixPart;
  const content = contentOf(part, { choices: giveNumbers([]), own: { draft: transactionOf(key) }, isMoved: false });
  try {
    const againMs = paceOf(state, key);
    if (ref !== null) {
      await post(state, address, transactionOf(`${ref} ${crypto.randomUUID()}`), editOf(content, ref));
      return { status: "shown", ref, againMs };
    }
    // Its own each time: what may have arrived is never shown again, it is looked for.
    const id = await post(state, address, transactionOf(`draft ${key} ${crypto.randomUUID()}`), {
      ...content,
      ...relationTo(address, undefined),
    });
    return id === null ? { status: "unknown", reason: "the answer named no event" } : { status: "shown", ref: id, againMs };
  } catch (error) {
    const failure = explainFailure(error);
    if (failure.kind === "lost" && ref !== null) state.lostAt.set(key, state.clock.now());
    return notShown(failure, ref !== null);
  }
}

/** Of what stands there already an edit may be lost: the answer will say all of it. */
function notShown(failure: ApiFailure, stands: boolean): DraftResult {
  const { kind, reason } = failure;
  if (kind === "limited") return { status: "retry", afterMs: failure.afterMs, reason };
  if (kind === "offline") return { status: "retry", afterMs: RETRY_MS, reason };
  if (kind === "lost") return stands ? { status: "retry", afterMs: RETRY_MS, reason } : { status: "unknown", reason };
  return stands ? { status: "unknown", reason } : { status: "refused", reason };
}

/** So many answers are being written. */
function paceOf({ active, clock }: State, key: string): number {
  const now = clock.now();
  active.set(key, now);
  for (const [one, at] of active) if (Math.abs(now - at) > ACTIVE_MS) active.delete(one);
  return EVERY_MS * active.size;
}

async function complete(
  state: State,
  request: Placed,
  content: Content,
  toResult: (failure: ApiFailure) => SendResult,
): Promise<SendResult | null> {
  const { address, key } = request;
  await state.calls.get(key);
  state.calls.delete(key);
  state.active.delete(key);
  const lostAt = state.lostAt.get(key) ?? Number.NEGATIVE_INFINITY;
  if (state.clock.now() - lostAt < state.settleMs) return { status: "retry", reason: "an edit of its draft may still be on its way" };
  state.lostAt.delete(key);
  try {
    const ref = await placeOf(state, request);
    if (ref === null || typeof ref !== "string") return ref;
    // Removed meanwhile: servers take an edit of what is gone, and nobody would see it.
    if ((await lookAt(state.api, address.chat, ref)) === null) return null;
    await post(state, address, transactionOf(`${transactionOfRow(request)} complete`), editOf(content, ref));
    return { status: "sent", ref };
  } catch (error) {
    const failure = explainFailure(error);
    // Done twice it shows once: nobody has to be asked whether it arrived.
    return failure.kind === "lost" ? { status: "retry", reason: failure.reason } : toResult(failure);
  }
}

/** Where the draft stands; null: nowhere; a result: not known yet. */
async function placeOf(state: State, { key, ref, address }: Placed): Promise<string | SendResult | null> {
  const begunAt = draftBegunAt(ref);
  if (begunAt === null) return ref;
  const lookedAt = state.clock.now();
  const draft = transactionOf(key);
  const place = { room: address.chat, me: state.me(), since: begunAt };
  const found = await findOwn(state.api, place, ({ own, isEdit }) => own.draft === draft && !isEdit);
  if (found !== null) return found.ref;
  // A first one of the process that died may still be on its way.
  return lookedAt - begunAt < state.settleMs ? { status: "retry", reason: "it is not known yet whether its draft stands" } : null;
}
