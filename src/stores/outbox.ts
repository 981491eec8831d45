// Every text that must leave, one row per rendered part, the exact bytes to send. The delivery id is derived from
// the fact it reports (`reply:<inbox id>`, `announce:v1:<child key>:<run id>`), so saying a thing twice is impossible
// by the UNIQUE key. queued → sending → sent | blocked; `sending` found at boot, or a lost answer, is `unknown`; what is no
// longer true before it was said is `withdrawn`; what goes out in another one's message is `joined` to it (joined.ts).
// At each address two lines wait: those that never failed, in order, answers to commands first; and those that stepped aside
// after a failed try (DL6), the one due first in front. Each line's head is one look into an index, however long it is.
import { type Address, addressKey, wholeChatKey } from "../core/address.ts";
import type { Clock } from "../core/clock.ts";
import type { Part } from "../core/message.ts";
import type { Database, Tx } from "./database.ts";
import { createJoined, type Joined } from "./joined.ts";
import { orphaned } from "./nodes.ts";
import { fromRow, KEEP_DOUBT, OPEN, type OutboxRow, type StoredRow } from "./outbox-row.ts";

/** Before the next attempt: `unknown` when an earlier one may have arrived, and until somebody could tell. */
export type OpenState = "queued" | "unknown";

export interface NextTry {
  readonly notBefore: number;
  readonly firstAt: number;
  readonly reason: string;
  readonly as: OpenState;
  /** False: nothing can be sent there before that time, so that what comes behind it waits too. */
  readonly stepsAside: boolean;
}

export interface NewMessage {
  readonly delivery: string;
  readonly address: Address;
  readonly parts: readonly Part[];
  /** It announces this run. */
  readonly runId?: string;
  /** The answer to a command: it goes before everything else that waits there. */
  readonly isAnswer?: boolean;
  /** A draft of its first part stands there, or may: it is put in its place. */
  readonly draft?: string | null;
}

export interface Outbox extends Joined {
  /** Adds all parts of one delivery. False when this delivery was added before: the first text wins. */
  add(tx: Tx, message: NewMessage): Promise<boolean>;
  /** Addresses (by addressKey) that have something unsettled. */
  openAddresses(): Promise<string[]>;
  /** The first part in line at an address among the messages that never failed: answers to commands before the rest. */
  head(addressKey: string): Promise<OutboxRow | null>;
  /** Does anything wait, in order, in any thread of this chat? What stepped aside keeps failing, and nobody waits for that. */
  hasWaiting(chat: Address): Promise<boolean>;
  /** The parts in line among those that stepped aside, the one due first in front. */
  listAside(addressKey: string, limit: number): Promise<OutboxRow[]>;
  /** What comes behind this row in its line, in order, as far as it is no answer to a command. */
  listBehind(row: OutboxRow, limit: number): Promise<OutboxRow[]>;
  /** When and where something went out, or may have, since that time: one for each message. */
  listSentSince(at: number): Promise<{ readonly address: Address; readonly at: number }[]>;
  get(id: number): Promise<OutboxRow | null>;
  /** Where the parts of a delivery stand, as far as they are sent. */
  refsOf(delivery: string): Promise<string[]>;
  /** Nobody takes it back before this transaction's end, whatever locks they hold. False: it is not to be sent any more. */
  hold(tx: Tx, id: number): Promise<boolean>;
  /** Written before the call goes out. False: it is not to be sent any more. */
  markSending(tx: Tx, id: number, staysInDoubt?: boolean): Promise<boolean>;
  markSent(tx: Tx, id: number, ref: string): Promise<void>;
  /**
   * Gives a whole delivery up: this part and those behind it. `as` is what it stands at when somebody wants it sent after all.
   * False: it was withdrawn meanwhile.
   */
  markBlocked(tx: Tx, delivery: string, reason: string, as: OpenState): Promise<boolean>;
  /** Not yet, counted as one more failed try, also when nothing was sent (the channel is off). False: it was withdrawn. */
  retryAt(tx: Tx, id: number, next: NextTry): Promise<boolean>;
  /** Its attempt takes long: what comes behind it goes ahead. */
  stepAside(tx: Tx, delivery: string): Promise<void>;
  setPart(tx: Tx, id: number, part: Part, as: OpenState): Promise<void>;
  /** A place is reserved on the platform under `ref`; the part is filled in there by the next send. */
  reserve(tx: Tx, id: number, ref: string): Promise<void>;
  /** The platform renamed the chat of this row: everything still open for it goes to the new address. */
  retarget(tx: Tx, id: number, from: Address, to: Address, as: OpenState): Promise<void>;
  /** What has not begun to arrive is not said any more; an attempt under way is the last one. False: there was nothing to take back. */
  withdraw(tx: Tx, delivery: string): Promise<boolean>;
  /** What no attempt was begun for is as if it had never been added. False: one was, and it may have arrived. */
  takeBack(tx: Tx, delivery: string): Promise<boolean>;
  /** The first part of a message arrived after it was withdrawn: half a message helps nobody. */
  reopen(tx: Tx, delivery: string): Promise<void>;
  /** Blocked parts of a run are to be sent again, as they stood; returns how many. */
  requeue(tx: Tx, runId: string): Promise<number>;
  /** The same for the parts of one delivery. */
  requeueDelivery(tx: Tx, delivery: string): Promise<number>;
  /** What was being sent by somebody who is not alive any more may have arrived. Returns where (addressKey). */
  recover(): Promise<string[]>;
  countAllOpen(): Promise<number>;
  purge(before: number): Promise<number>;
}

const SETTLED = "state IN ('sent', 'blocked', 'withdrawn')";

export function createOutbox({ db, clock, bootId }: { db: Database; clock: Clock; bootId: string }): Outbox {
  const wake = (tx: Tx, key: string): void => tx.emit({ type: "outbox.added", addressKey: key });
  const one = (row: StoredRow | undefined): OutboxRow | null => (row === undefined ? null : fromRow(row));
  const requeue = async (tx: Tx, column: "run_id" | "delivery", value: string): Promise<number> => {
    const rows = await tx.all<{ address_key: string }>(`SELECT address_key FROM outbox WHERE ${column} = ? AND state = 'blocked'`, value);
    await tx.run(
      `UPDATE outbox SET state = CASE WHEN sending_at IS NULL THEN 'queued' ELSE 'unknown' END, aside = 0, not_before = 0, attempts = 0, first_at = NULL,
         settled_at = NULL, reason = NULL, joined_part = NULL WHERE ${column} = ? AND state = 'blocked'`,
      value,
    );
    for (const row of rows) wake(tx, row.address_key);
    return rows.length;
  };
  return {
    add: (tx, message) => addParts(tx, clock, message),
    refsOf: (delivery) => refsOf(db, delivery),
    openAddresses: async () =>
      (await db.all<{ address_key: string }>(`SELECT DISTINCT address_key FROM outbox WHERE ${OPEN}`)).map((row) => row.address_key),
    head: async (key) =>
      one(await db.get<StoredRow>(`SELECT * FROM outbox WHERE address_key = ? AND aside = 0 AND ${OPEN} ORDER BY rank, id LIMIT 1`, key)),
    hasWaiting: async (address) => {
      const keys = `${wholeChatKey(address)}/`;
      const sql = `SELECT 1 FROM outbox WHERE address_key >= ? AND address_key < ? AND aside = 0 AND ${OPEN} LIMIT 1`;
      // Whatever a thread is called, its key lies between the two: "0" comes right after "/".
      return (await db.get(sql, keys, `${keys.slice(0, -1)}0`)) !== undefined;
    },
    listAside: async (key, limit) =>
      (
        await db.all<StoredRow>(
          `SELECT * FROM outbox WHERE address_key = ? AND aside = 1 AND ${OPEN} ORDER BY not_before, id LIMIT ?`,
          ...[key, limit],
        )
      ).map(fromRow),
    listBehind: async (row, limit) =>
      (
        await db.all<StoredRow>(
          `SELECT * FROM outbox WHERE address_key = ? AND aside = 0 AND rank = 1 AND ${OPEN} AND id > ? ORDER BY id LIMIT ?`,
          addressKey(row.address),
          row.id,
          limit,
        )
      ).map(fromRow),
    listSentSince: async (at) =>
      (
        await db.all<{ address: string; at: number }>(
          `SELECT address, settled_at AS at FROM outbox WHERE ${SETTLED} AND settled_at > ? AND state = 'sent'
             AND (joined_as IS NULL OR joined_part IS NOT NULL)
           UNION ALL SELECT address, sending_at FROM outbox WHERE ${OPEN} AND sending_at > ? ORDER BY 2`,
          ...[at, at],
        )
      ).flatMap((row) => sentAt(row)),
    get: async (id) => one(await db.get<StoredRow>("SELECT * FROM outbox WHERE id = ?", id)),
    ...transitions(db, clock, bootId),
    ...createJoined(db, clock),
    requeue: (tx, runId) => requeue(tx, "run_id", runId),
    requeueDelivery: (tx, delivery) => requeue(tx, "delivery", delivery),
    recover: () =>
      db.transaction([], async (tx) => {
        const sql = `UPDATE outbox SET state = 'unknown', reason = 'the gateway ended while it was sent'
          WHERE state = 'sending' AND ${orphaned("outbox")} RETURNING address_key`;
        return [...new Set((await tx.all<{ address_key: string }>(sql)).map((row) => row.address_key))];
      }),
    countAllOpen: async () => (await db.get<{ n: number }>(`SELECT count(*) AS n FROM outbox WHERE ${OPEN}`))?.n ?? 0,
    async purge(before) {
      const sql = `DELETE FROM outbox WHERE ${SETTLED} AND settled_at < ? AND (state <> 'blocked' OR run_id IS NULL)`;
      return db.transaction([], (tx) => tx.run(sql, before));
    },
  };
}

async function refsOf(db: Database, delivery: string): Promise<string[]> {
  const sql = "SELECT ref FROM outbox WHERE delivery = ? AND state = 'sent' AND ref IS NOT NULL ORDER BY n";
  return (await db.all<{ ref: string }>(sql, delivery)).map(({ ref }) => ref);
}

type Transitions = Pick<
  Outbox,
  | "hold"
  | "markSending"
  | "markSent"
  | "markBlocked"
  | "retryAt"
  | "stepAside"
  | "setPart"
  | "reserve"
  | "retarget"
  | "withdraw"
  | "takeBack"
  | "reopen"
>;

function transitions(db: Database, clock: Clock, bootId: string): Transitions {
  return {
    // Not only looked at: in PostgreSQL a row that was read may be another's a moment later, one that was written is not.
    hold: async (tx, id) => (await tx.run(`UPDATE outbox SET owner = ? WHERE id = ? AND ${OPEN}`, bootId, id)) === 1,
    async markSending(tx, id, staysInDoubt = false) {
      // Whether it arrived together with others is known by now.
      const sql =
        "UPDATE outbox SET state = 'sending', owner = ?, sending_at = CASE WHEN ? = 1 THEN sending_at ELSE ? END, joined_as = CASE WHEN joined_part IS NULL THEN NULL ELSE joined_as END WHERE id = ? AND " +
        OPEN;
      return (await tx.run(sql, bootId, Number(staysInDoubt), clock.now(), id)) === 1;
    },
    async markSent(tx, id, ref) {
      await tx.run("UPDATE outbox SET state = 'sent', ref = ?, reason = NULL, settled_at = ? WHERE id = ?", ref, clock.now(), id);
    },
    markBlocked: async (tx, delivery, reason, as) =>
      (await tx.run(
        `UPDATE outbox SET state = 'blocked', reason = ?, settled_at = ?, ${KEEP_DOUBT} WHERE delivery = ? AND (${OPEN} OR state = 'joined')`,
        reason,
        clock.now(),
        as,
        delivery,
      )) > 0,
    retryAt: (tx, id, next) => retryAt(tx, clock, id, next),
    async stepAside(tx, delivery) {
      // Not before a later time that its attempt was told meanwhile.
      const sql = `UPDATE outbox SET aside = 1, not_before = CASE WHEN not_before > ? THEN not_before ELSE ? END WHERE delivery = ? AND ${OPEN}`;
      await tx.run(sql, clock.now(), clock.now(), delivery);
    },
    async reserve(tx, id, ref) {
      await tx.run("UPDATE outbox SET state = 'queued', ref = ?, sending_at = NULL WHERE id = ? AND state <> 'withdrawn'", ref, id);
    },
    async setPart(tx, id, part, as) {
      const sql = `UPDATE outbox SET part = CASE WHEN joined_part IS NULL THEN ? ELSE part END, joined_part = CASE WHEN joined_part IS NULL THEN NULL ELSE ? END, state = ?, ${KEEP_DOUBT}
        WHERE id = ? AND state <> 'withdrawn'`;
      await tx.run(sql, JSON.stringify(part), JSON.stringify(part), as, as, id);
    },
    async retarget(tx, id, from, to, as) {
      // Only of this one it is known how its attempt ended: another of the same address may be under way.
      await tx.run(`UPDATE outbox SET state = ?, ${KEEP_DOUBT} WHERE id = ? AND state <> 'withdrawn'`, as, as, id);
      const sql = `UPDATE outbox SET address = ?, address_key = ? WHERE address_key = ? AND ${OPEN}`;
      await tx.run(sql, JSON.stringify(to), addressKey(to), addressKey(from));
      const along = `UPDATE outbox SET address = ?, address_key = ? WHERE state = 'joined'
        AND joined_as IN (SELECT joined_as FROM outbox WHERE address_key = ? AND joined_part IS NOT NULL AND ${OPEN})`;
      await tx.run(along, JSON.stringify(to), addressKey(to), addressKey(to));
    },
    async withdraw(tx, delivery) {
      if (!(await createJoined(db, clock).release(tx, delivery))) return false;
      const sql = `UPDATE outbox SET state = 'withdrawn', settled_at = ? WHERE delivery = ? AND ${OPEN}
        AND NOT EXISTS (SELECT 1 FROM outbox AS begun WHERE begun.delivery = outbox.delivery AND begun.state = 'sent')`;
      return (await tx.run(sql, clock.now(), delivery)) > 0;
    },
    async takeBack(tx, delivery) {
      // Parts go in order: as long as nobody has begun with the first, the compare-and-set on it decides for all.
      const untried = "DELETE FROM outbox WHERE delivery = ? AND n = 0 AND state = 'queued' AND sending_at IS NULL";
      if ((await tx.run(untried, delivery)) !== 1) return false;
      await tx.run("DELETE FROM outbox WHERE delivery = ?", delivery);
      return true;
    },
    async reopen(tx, delivery) {
      await tx.run("UPDATE outbox SET state = 'queued', settled_at = NULL WHERE delivery = ? AND state = 'withdrawn'", delivery);
    },
  };
}

async function retryAt(tx: Tx, clock: Clock, id: number, { notBefore, firstAt, reason, as, stepsAside }: NextTry): Promise<boolean> {
  const now = clock.now();
  const changed = await tx.run(
    // A time still to come was written by a clock that has been set back since: who asks the platform would wait for it.
    `UPDATE outbox SET state = ?, not_before = ?, reason = ?, attempts = attempts + 1, first_at = ?,
       sending_at = CASE WHEN ? <> 'unknown' THEN NULL WHEN sending_at > ? THEN ? ELSE sending_at END WHERE id = ? AND state <> 'withdrawn'`,
    as,
    notBefore,
    reason,
    firstAt,
    as,
    ...[now, now],
    id,
  );
  // The parts behind it stand aside with it and until the same time: so they stay in order, whatever goes ahead of them.
  const isAside = stepsAside ? "1 = 1" : "aside = 1";
  const sql = `UPDATE outbox SET aside = CASE WHEN ${isAside} THEN 1 ELSE 0 END, not_before = CASE WHEN ${isAside} THEN ? ELSE not_before END
    WHERE delivery = (SELECT delivery FROM outbox WHERE id = ?) AND ${OPEN}`;
  await tx.run(sql, notBefore, id);
  return changed > 0;
}

async function addParts(tx: Tx, clock: Clock, message: NewMessage): Promise<boolean> {
  // Also of one whose first part was sent so long ago that it is forgotten, and whose others were refused.
  if ((await tx.get("SELECT 1 FROM outbox WHERE delivery = ? LIMIT 1", message.delivery)) !== undefined) return false;
  for (const [n, part] of message.parts.entries()) {
    await tx.run(
      `INSERT INTO outbox (delivery, n, parts, address, address_key, part, state, rank, run_id, ref, created_at)
         VALUES (?, ?, ?, ?, ?, ?, 'queued', ?, ?, ?, ?)`,
      ...[message.delivery, n, message.parts.length, JSON.stringify(message.address), addressKey(message.address), JSON.stringify(part)],
      ...[message.isAnswer === true ? 0 : 1, message.runId ?? null, n === 0 ? (message.draft ?? null) : null],
      clock.now(),
    );
  }
  const { delivery, address } = message;
  tx.emit({ type: "outbox.added", addressKey: addressKey(address), message: { delivery, address } });
  return true;
}

/** A row that can't be read says nothing about the pace. */
function sentAt({ address, at }: { address: string; at: number }): { address: Address; at: number }[] {
  try {
    return [{ address: JSON.parse(address) as Address, at }];
  } catch {
    return [];
  }
}
