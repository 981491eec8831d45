// One attempt to send one part, and what its outcome means for delivery; and the look whether an attempt arrived.
// outbox row → delivery → sendPart → homeserver. The transaction id follows from the outbox key, so that a server that remembers it
// shows a repeated send once. It forgets after a while, and with a new sign-in at once: so the key stands in the event as well, and
// after a lost answer or a killed process the room itself is asked first (DL4).
import type { Address } from "../../core/address.ts";
import type { Clock } from "../../core/clock.ts";
import type { EditRequest, EditResult, Reconciled, ReconcileRequest, SendRequest, SendResult } from "../../core/message.ts";
import { type TokenWatch, unedited, unsent } from "../failure.ts";
import { type ApiFailure, explainFailure } from "./api.ts";
import { giveNumbers } from "./buttons.ts";
import { openDirectRoom } from "./direct.ts";
import type { DraftBoard } from "./draft.ts";
import { type FileSender, fileContent, isFile, upload, uploadedTo } from "./file.ts";
import { findOwn } from "./history.ts";
import type { Standing } from "./looking.ts";
import { post, transactionOf, transactionOfRow } from "./post.ts";
import { contentOf, editOf, type MatrixPart, relationTo, withoutFile } from "./render.ts";
import type { Signs } from "./signs.ts";

export interface Sender extends FileSender, TokenWatch {
  readonly clock: Clock;
  /** No request of ours is still under way so long after it was begun. */
  readonly settleMs: number;
  readonly standing: Standing;
  readonly signs: Signs;
  /** Answers that are read while they are written. */
  readonly drafts: Pick<DraftBoard, "complete">;
  /** Who the bot is. */
  me(): string;
}

/** The room is not there, or not for us. */
const PLACE_GONE: ReadonlySet<string> = new Set(["M_FORBIDDEN", "M_NOT_FOUND", "M_UNKNOWN_ROOM", "M_GUEST_ACCESS_FORBIDDEN"]);

/** Never throws. */
export async function sendPart(sender: Sender, request: SendRequest): Promise<SendResult> {
  const { address } = request;
  const transaction = transactionOfRow(request);
  const stored = request.part as MatrixPart;
  const toOutcome = (failure: ApiFailure): SendResult => toResult(sender, failure, request);
  if (isPerson(address)) return openDirectRoom(sender, address, toOutcome);
  const url = uploadedTo(request);
  if (isFile(stored) && url === null) return upload(sender, stored, toOutcome);
  const isMoved = stored.thread !== undefined && address.thread === undefined;
  const choices = giveNumbers(stored.buttons ?? []);
  const words = contentOf(stored, { choices, own: { key: transaction }, isMoved });
  if (request.ref !== undefined && url === null && !isMoved) {
    const completed = await sender.drafts.complete({ ...request, ref: request.ref }, words, toOutcome);
    if (completed?.status === "sent") shown(sender, address, completed.ref, choices);
    if (completed !== null) return completed;
  }
  // Nothing of it was ever seen, and it was only to say that no more comes.
  if (stored.onlyDrafted === true) return { status: "sent", ref: "" };
  // Refused, a file becomes a sentence, and its bytes still lie there.
  const shows = url === null || !isFile(stored) ? words : fileContent(stored, url, words);
  const content = { ...shows, ...relationTo(address, stored.replyTo) };
  try {
    const ref = await post(sender, address, transaction, content);
    // Sent, but without the event's name: look it up rather than believe.
    if (ref === null) return { status: "unknown", reason: "the answer named no event" };
    shown(sender, address, ref, choices);
    return { status: "sent", ref };
  } catch (error) {
    return toOutcome(explainFailure(error));
  }
}

function shown(sender: Sender, { chat }: Address, ref: string, choices: ReturnType<typeof giveNumbers>): void {
  sender.authTrouble(null);
  if (choices.shown.length === 0) return;
  sender.standing.put(ref, choices.numbered);
  sender.signs.put(chat, ref, choices.shown);
}

/** A person's own id stands for the direct room with them, which has another one. */
const isPerson = ({ chat }: Address): boolean => chat.startsWith("@");

/** One attempt to bring a message of ours up to date. Never throws. */
export async function editPart(sender: Sender, { address, ref, part }: EditRequest): Promise<EditResult> {
  const stored = part as MatrixPart;
  try {
    const before = await sender.standing.numbers(address.chat, ref);
    if (before === null) return { status: "gone", reason: "it was removed" };
    const choices = giveNumbers(stored.buttons ?? [], before);
    const content = contentOf(stored, { choices, own: {}, isMoved: false });
    // Before anybody can read them: of an edit whose answer is lost nobody knows whether they do, and the next one gives out others.
    sender.standing.put(ref, choices.numbered);
    // Not the same for the same words: of A, B, A the server would leave out the second A.
    await post(sender, address, transactionOf(`${ref} ${crypto.randomUUID()}`), editOf(content, ref));
    sender.authTrouble(null);
    sender.signs.put(address.chat, ref, choices.shown);
    return { status: "shown" };
  } catch (error) {
    const failure = explainFailure(error);
    if (failure.kind !== "refused") return unedited(sender, failure);
    return { status: PLACE_GONE.has(failure.code) ? "gone" : "refused", reason: failure.reason };
  }
}

function toResult(sender: Sender, failure: ApiFailure, { address, part }: SendRequest): SendResult {
  if (failure.kind !== "refused") return unsent(sender, failure);
  const { code, reason } = failure;
  const stored = part as MatrixPart;
  const { thread, ...room } = address;
  if (PLACE_GONE.has(code)) return { status: "failed", reason: `the bot may not write in this room (${reason})` };
  if (thread !== undefined && /thread/i.test(reason)) return { status: "retarget", address: room, reason };
  if (isFile(stored)) return { status: "rerender", part: withoutFile(stored, reason), reason };
  const { html, ...plain } = stored;
  return html === undefined ? { status: "failed", reason } : { status: "rerender", part: plain, reason };
}

/**
 * Looks for the row in what was sent since. A find is certain at any time; that it is absent only counts once no request of an earlier
 * attempt (also of a killed process) can still be on its way.
 */
export async function findPart(sender: Sender, request: ReconcileRequest): Promise<Reconciled> {
  // Only a file whose address is on record can have been shown.
  if (isFile(request.part as MatrixPart) && uploadedTo(request) === null) return { status: "absent" };
  const key = transactionOfRow(request);
  const lookedAt = sender.clock.now();
  try {
    const place = { room: request.address.chat, me: sender.me(), since: request.since };
    const found = await findOwn(sender.api, place, ({ own, transactionId }) => own.key === key || transactionId === key);
    if (found !== null) return { status: "found", ref: found.ref };
  } catch (error) {
    const failure = explainFailure(error);
    if (failure.kind === "auth") sender.authTrouble(failure.reason);
    // A place that is gone can't tell, and takes no message either: sending says so.
    const isGone = failure.kind === "refused" && PLACE_GONE.has(failure.code);
    if (!isGone) return { status: "unknown", reason: failure.reason };
  }
  if (lookedAt - request.since < sender.settleMs) return { status: "unknown", reason: "not there yet" };
  return { status: "absent" };
}
