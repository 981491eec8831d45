// One attempt to send one message of the outbox, and what its outcome means for its row, its run and those behind it.
// A part is marked `sending` before the call, so a crash leaves a trace: at boot it is `unknown` and the channel is asked
// whether it arrived (Slack), or it is sent once more, marked (Telegram). On the page, which is a table of ours, being sent and being
// recorded as sent are one. No model call stands between a row and its retries.
import { type Address, channelIsOff } from "../core/address.ts";
import type { Clock } from "../core/clock.ts";
import { AppError, errorText } from "../core/errors.ts";
import type { HitFailpoint } from "../core/failpoints.ts";
import type { Logger } from "../core/logger.ts";
import type { Channel, SendResult } from "../core/message.ts";
import { type Database, RELAXED, type Tx } from "../stores/database.ts";
import { lock } from "../stores/lock-keys.ts";
import type { OpenState, Outbox } from "../stores/outbox.ts";
import type { OutboxRow } from "../stores/outbox-row.ts";
import type { Pacer, Place } from "./pace.ts";

export interface AttemptDeps {
  readonly db: Database;
  readonly outbox: Outbox;
  readonly clock: Clock;
  readonly log: Logger;
  readonly failpoint: HitFailpoint;
  channel(name: string, account: string): Channel | null;
  /** Among other processes: it has not lost its work to one of them without knowing it yet. Left out: there are no others. */
  isValid?(): boolean;
  /** Called in the transaction that moves a delivery: when its sending begins, is put off, and when it is over; `ref`: where it stands. */
  recordDelivery(tx: Tx, row: OutboxRow, state: "sending" | "delivered" | "blocked", reason?: string, ref?: string): Promise<void>;
}

interface State extends AttemptDeps {
  readonly pacer: Pacer;
}

/** What a message needs that is posted in a transaction of ours. */
export type Posting = Pick<AttemptDeps, "outbox" | "failpoint" | "recordDelivery">;

/** What goes with an attempt: its place in the chat's pace, and whether those behind it will have to wait for theirs. */
export interface Turn {
  readonly place: Place;
  readonly isLast: boolean;
}

export const FIRST_RETRY_MS = 1_000;
const MAX_RETRY_MS = 5 * 60_000;
const GIVE_UP_MS = 24 * 3_600_000;
/** How far behind a message others are looked for that could go with it. */
const LOOK_BEHIND = 30;

/** Resolves with where the message belongs now, if the chat moved. */
export async function attempt(state: State, row: OutboxRow, turn: Turn): Promise<Address | null> {
  try {
    const tried = await trySend(state, row, turn);
    if (tried === null) return null;
    const [message, result] = tried;
    await conclude(state, message, result);
    return result.status === "retarget" ? result.address : null;
  } finally {
    turn.place.giveBack();
  }
}

/** The message as it went out, perhaps with others in it, and what became of it. Null: that is on record, or it was withdrawn before. */
async function trySend(state: State, row: OutboxRow, { place, isLast }: Turn): Promise<[OutboxRow, SendResult] | null> {
  if (row.isDamaged) return [row, { status: "failed", reason: "its row in the database is damaged" }];
  const channel = state.channel(row.address.channel, row.address.account);
  if (channel === null) return [row, { status: "retry", reason: channelIsOff(row.address.channel), afterMs: 0 }];
  if (channel.postIn !== undefined) return post(state, row, channel, place);
  let repeated = false;
  let staysInDoubt = false;
  // `sending` here means that an attempt ended without a word: its outcome could not be recorded.
  if (row.state !== "queued") {
    if (channel.reconcile === undefined) repeated = true;
    else {
      const found = await channel.reconcile({ ...contentOf(row, row.joinedAs ?? row.key), since: row.sendingAt ?? 0 });
      repeated = found.status === "untold";
      staysInDoubt = found.status === "again";
      if (found.status === "found") return [row, { status: "sent", ref: found.ref }];
      if (found.status === "unknown") return [row, found];
    }
  }
  const message = await begin(state, row, { joins: isLast ? channel : null, staysInDoubt });
  if (message === null) return null;
  state.failpoint("delivery.marked");
  const key = message.isLead ? (message.joinedAs ?? message.key) : message.key;
  // Frozen since the row was marked, and awake again: somebody else has taken the message up, and sends it.
  if (state.isValid?.() === false) throw new AppError("storage", "this process has lost its lease");
  const result = await channel.send({ ...contentOf(message, key), repeated });
  place.over();
  state.failpoint("delivery.sent");
  return [message, result];
}

/**
 * Posted under its key, which shows once, and recorded in the same transaction: a crash leaves both or neither, and needs no trace. Also of
 * one that an earlier version left as `sending`. Nor is the lease asked for: a process that has lost it writes nothing (the fence).
 */
async function post(state: State, row: OutboxRow, channel: Channel, place: Place): Promise<[OutboxRow, SendResult] | null> {
  try {
    // Not waited for on its way to the disk: the row that is open before it is there, and is sent again after a power cut.
    const locks = [lock.chat(row.address), ...lock.pageOf(row.address)];
    await state.db.transaction(locks, (tx) => postRow(state, tx, row, channel), RELAXED);
    return null;
  } catch (error) {
    // Rolled back as a whole, so it is surely not there.
    return [row, { status: "retry", reason: errorText(error) }];
  } finally {
    place.over();
  }
}

/** In the transaction of `post`. */
async function postRow(state: Posting, tx: Tx, row: OutboxRow, { postIn }: Pick<Channel, "postIn">): Promise<void> {
  // What a stop has taken back since it was looked up is not said (ST2), and what is said now can't be taken back.
  if (postIn !== undefined && (await state.outbox.hold(tx, row.id))) await sayRow(state, tx, row, postIn);
}

/** Of a row that nobody else can change before the caller's transaction is over. */
export async function sayRow(state: Posting, tx: Tx, row: OutboxRow, postIn: NonNullable<Channel["postIn"]>): Promise<void> {
  state.failpoint("delivery.marked");
  await recordSent(state, tx, row, await postIn(tx, contentOf(row, row.key)));
  state.failpoint("delivery.sent");
}

/** Several together have a key of runs' names, which are given out once, and no row of their own. */
const contentOf = (row: OutboxRow, key: string) => ({
  ...{ address: row.address, part: row.part, key },
  ...(key === row.key ? { madeAt: row.madeAt } : {}),
  ...(row.ref === null ? {} : { ref: row.ref }),
});

/**
 * On record before the call. `joins`: what comes behind it has to wait for its turn anyway, so as much of it as fits goes along.
 * Gathered and marked in one: a stop either finds it waiting or finds it on its way. Null: it found it waiting.
 */
async function begin(
  state: State,
  row: OutboxRow,
  { joins, staysInDoubt }: { readonly joins: Channel | null; readonly staysInDoubt: boolean },
): Promise<OutboxRow | null> {
  const { outbox } = state;
  return state.db.transaction([lock.chat(row.address)], async (tx) => {
    const { others, part } = joins === null ? { others: [], part: row.part } : await gather(state, row, joins);
    if (!(await outbox.markSending(tx, row.id, staysInDoubt))) return null;
    const message = others.length === 0 ? row : await outbox.join(tx, row, others, part);
    for (const one of [row, ...others]) if (one.n === 0) await state.recordDelivery(tx, one, "sending");
    return message;
  });
}

/**
 * Announcements only, and whole ones: a part that others of its message must follow can't share another's fate. Nothing between
 * them is passed over, so that the order of the chat is kept.
 */
async function gather(state: State, row: OutboxRow, { join }: Channel) {
  let gathered: { others: OutboxRow[]; part: OutboxRow["part"] } = { others: [], part: row.part };
  const isFree = (one: OutboxRow): boolean => one.runId !== null && one.state === "queued" && !one.isAlone && !one.isDamaged && !one.isLead;
  if (join === undefined || !isFree(row) || row.isAside || row.n !== row.parts - 1) return gathered;
  for (const next of await state.outbox.listBehind(row, LOOK_BEHIND)) {
    const others = [...gathered.others, next];
    const part = isFree(next) && next.parts === 1 ? join([row, ...others].map((one) => one.part)) : null;
    if (part === null) break;
    gathered = { others, part };
  }
  return gathered;
}

/** An attempt that surely did nothing says nothing about the one before it, which may have arrived. */
const openStateOf = (row: OutboxRow): OpenState => (row.state === "queued" ? "queued" : "unknown");

async function conclude(state: State, row: OutboxRow, result: SendResult): Promise<void> {
  switch (result.status) {
    case "sent":
      return state.db.transaction([lock.chat(row.address)], (tx) => recordSent(state, tx, row, result.ref));
    case "retry":
    case "unknown":
      return later(state, row, result);
    case "retarget":
      state.log.info(
        { delivery: row.delivery, from: row.address, to: result.address, reason: result.reason },
        "it belongs to another address",
      );
      return state.db.transaction([lock.chat(row.address), lock.chat(result.address)], (tx) =>
        state.outbox.retarget(tx, row.id, row.address, result.address, openStateOf(row)),
      );
    case "rerender":
      state.log.warn({ delivery: row.delivery, reason: result.reason }, "the platform refused the formatting; sending it plain");
      return state.db.transaction([], (tx) => state.outbox.setPart(tx, row.id, result.part, openStateOf(row)));
    case "reserved":
      // Durable before the edit: from here on a repeat edits the same message and can't double it.
      return state.db.transaction([], (tx) => state.outbox.reserve(tx, row.id, result.ref));
    case "failed":
      return row.isLead ? await setApart(state, row, result.reason) : await block(state, row, result.reason, openStateOf(row));
  }
}

/** The message and those that went with it: with one row sent and another not, a crash would send it again. */
async function recordSent(state: Posting, tx: Tx, row: OutboxRow, ref: string): Promise<void> {
  const all = [row, ...(row.isLead ? await state.outbox.listJoined(row) : [])];
  for (const one of all) {
    await state.outbox.markSent(tx, one.id, ref);
    if (one.n === one.parts - 1) {
      await state.recordDelivery(tx, one, "delivered", undefined, ref);
      sayOver(tx, one, "sent");
    } else await state.outbox.reopen(tx, one.delivery);
  }
}

/** Its run has learnt of it in the same transaction; whoever watches, after it. */
const sayOver = (tx: Tx, { delivery, address }: OutboxRow, outcome: "sent" | "blocked"): void =>
  tx.emit({ type: "outbox.settled", delivery, channel: address.channel, outcome });

/** Refused for good, but perhaps for what they are together: each is tried alone before it is given up. */
async function setApart(state: State, row: OutboxRow, reason: string): Promise<void> {
  state.log.warn({ delivery: row.delivery, reason }, "the platform refused several messages in one; sending them one by one");
  await state.db.transaction([lock.chat(row.address)], (tx) => state.outbox.dissolve(tx, row, openStateOf(row)));
}

async function block(state: State, row: OutboxRow, reason: string, as: OpenState): Promise<void> {
  const blocked = await state.db.transaction([lock.chat(row.address)], async (tx) => {
    const over: OutboxRow[] = [];
    for (const one of [row, ...(row.isLead ? await state.outbox.listJoined(row) : [])]) {
      if (!(await state.outbox.markBlocked(tx, one.delivery, reason, as))) continue;
      await state.recordDelivery(tx, one, "blocked", reason);
      sayOver(tx, one, "blocked");
      over.push(one);
    }
    return over;
  });
  for (const { delivery, address } of blocked) state.log.error({ delivery, address, reason }, "gave a message up");
}

/** Backs off from 1 s to 5 min, for up to 24 h since it began to fail (DL3). */
async function later(state: State, row: OutboxRow, result: Extract<SendResult, { status: "retry" | "unknown" }>): Promise<void> {
  const { status, reason } = result;
  const afterMs = status === "retry" ? result.afterMs : undefined;
  const now = state.clock.now();
  const as = status === "unknown" ? "unknown" : openStateOf(row);
  const firstAt = failsSince(row, now);
  if (now - firstAt > GIVE_UP_MS) return block(state, row, `not delivered within 24 h: ${reason}`, as);
  const backoff = Math.min(FIRST_RETRY_MS * 2 ** row.attempts, MAX_RETRY_MS);
  // What a platform asks for may be anything; a wait beyond the 24 h is cut to one last try at their end.
  const askedMs = Number.isFinite(afterMs) ? Math.min(Number(afterMs), firstAt + GIVE_UP_MS + 1 - now) : 0;
  const waitMs = Math.max(askedMs, backoff);
  state.log.warn({ delivery: row.delivery, part: row.n, reason, waitMs }, "a send did not succeed; trying again");
  // Whatever else is sent there would meet the same: then the order is kept.
  const concernsAll = afterMs !== undefined;
  if (concernsAll) state.pacer.silence(row.address, waitMs);
  const next = { notBefore: now + waitMs, firstAt, reason, as, stepsAside: !concernsAll };
  const told = `${reason}; next try ${new Date(next.notBefore).toISOString()}`;
  await state.db.transaction([lock.chat(row.address)], async (tx) => {
    if (!(await state.outbox.retryAt(tx, row.id, next))) return;
    for (const one of [row, ...(row.isLead ? await state.outbox.listJoined(row) : [])])
      await state.recordDelivery(tx, one, "sending", told);
  });
}

/** A try that comes much too late (the machine slept, the gateway was off) or too early for the clock begins the 24 h anew. */
function failsSince({ firstAt, notBefore }: OutboxRow, now: number): number {
  return firstAt === null || firstAt > now || now - notBefore > MAX_RETRY_MS ? now : firstAt;
}
