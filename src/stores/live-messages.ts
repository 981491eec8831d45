// Messages of ours that change while they stand (LV3): where each stands, and a digest of what it shows. What it should show is
// worked out anew from the rows it is about (gateway/painter.ts), so there is no second truth to keep: after kill -9 the same message
// is compared with the same rows and edited on. First posted through the outbox, like any other text, whose reference comes back here.
import { hash } from "node:crypto";
import { type Address, addressKey } from "../core/address.ts";
import type { Clock } from "../core/clock.ts";
import type { Part } from "../core/message.ts";
import { type Database, PASSING, parseColumn, type Tx } from "./database.ts";

export interface LiveMessage {
  /** What it is about: `status:<batch>`, `question:<question id>`. */
  readonly id: string;
  readonly address: Address;
  readonly state: "new" | "posted" | "shown" | "closed" | "gone";
  readonly ref: string | null;
  readonly shown: string | null;
  readonly notBefore: number;
  readonly createdAt: number;
  readonly changedAt: number;
}

export interface LiveMessages {
  /** Makes it, unless it is there; one that was closed changes again, but one that a person removed stays so. */
  open(tx: Tx, id: string, address: Address): Promise<void>;
  get(id: string): Promise<LiveMessage | null>;
  /** The ids of those that may still change. */
  listOpen(): Promise<string[]>;
  /** Where something was painted, or may have been, since that time: between which times. */
  listChangedSince(at: number): Promise<Pick<LiveMessage, "address" | "createdAt" | "changedAt">[]>;
  /** Which of ours a person replies to. */
  findByRef(address: Address, ref: string): Promise<LiveMessage | null>;
  /** It is in the outbox, in the caller's transaction. */
  markPosted(tx: Tx, id: string, shown: string): Promise<void>;
  /** Its delivery has arrived under this reference; for any other delivery nothing happens. */
  place(tx: Tx, delivery: string, ref: string, address: Address): Promise<void>;
  /** Its delivery was given up: there is nothing to edit, unless it arrives after all. */
  lose(tx: Tx, delivery: string): Promise<void>;
  markShown(id: string, shown: string): Promise<void>;
  putOff(id: string, notBefore: number): Promise<void>;
  end(id: string, as: "closed" | "gone"): Promise<void>;
  /** One that was closed changes on after all. */
  reopen(id: string): Promise<void>;
  purge(before: number): Promise<number>;
}

interface Stored {
  readonly id: string;
  readonly address: string;
  readonly state: LiveMessage["state"];
  readonly ref: string | null;
  readonly shown: string | null;
  readonly not_before: number;
  readonly created_at: number;
  readonly changed_at: number;
}

/** What stands there, in a few bytes: the last part of a message is the one that changes. */
export const shownDigest = (parts: readonly Part[]): string => hash("sha256", JSON.stringify(parts.at(-1) ?? {}), "base64url");

/** One that was closed before it was ever posted is new again: as shown it would wait for a reference that never comes. */
const REOPENED = `state = CASE WHEN live_messages.state <> 'closed' THEN live_messages.state
  WHEN live_messages.shown IS NULL THEN 'new' ELSE 'shown' END`;

/** The outbox's name for its first posting. */
export const liveDelivery = (id: string): string => `live:${id}`;
const idOf = (delivery: string): string | null => (delivery.startsWith("live:") ? delivery.slice("live:".length) : null);

export function createLiveMessages({ db, clock }: { db: Database; clock: Clock }): LiveMessages {
  const one = (row: Stored | undefined): LiveMessage | null => (row === undefined ? null : fromRow(row));
  const change = async (tx: Tx, id: string, [set, ...params]: [string, ...(string | number)[]]): Promise<void> => {
    await tx.run(`UPDATE live_messages SET changed_at = ?, ${set} WHERE id = ? AND state <> 'gone'`, clock.now(), ...params, id);
  };
  // What is forgotten of it is only painted once more.
  const note = (id: string, set: [string, ...(string | number)[]]): Promise<void> =>
    db.transaction([], (tx) => change(tx, id, set), PASSING);
  return {
    async open(tx, id, address) {
      const now = clock.now();
      await tx.run(
        `INSERT INTO live_messages (id, address, address_key, state, created_at, changed_at) VALUES (?, ?, ?, 'new', ?, ?)
         ON CONFLICT (id) DO UPDATE SET ${REOPENED}`,
        ...[id, JSON.stringify(address), addressKey(address), now, now],
      );
      tx.emit({ type: "live.changed", id });
    },
    get: async (id) => one(await db.get<Stored>("SELECT * FROM live_messages WHERE id = ?", id)),
    listOpen: async () =>
      (await db.all<{ id: string }>("SELECT id FROM live_messages WHERE state IN ('new', 'posted', 'shown') ORDER BY created_at")).map(
        (row) => row.id,
      ),
    listChangedSince: async (at) =>
      (await db.all<Stored>("SELECT * FROM live_messages WHERE changed_at > ? AND ref IS NOT NULL", at)).map(fromRow),
    findByRef: async (address, ref) =>
      one(await db.get<Stored>("SELECT * FROM live_messages WHERE address_key = ? AND ref = ?", addressKey(address), ref)),
    markPosted: (tx, id, shown) => change(tx, id, ["state = 'posted', shown = ?", shown]),
    async place(tx, delivery, ref, address) {
      const id = idOf(delivery);
      if (id === null) return;
      // Taken back while it was on its way, it has arrived all the same: without this it would stand there for ever as it was asked.
      // Nobody can have removed what had no reference. The chat may have moved since: it stands where it arrived.
      await tx.run(
        `UPDATE live_messages SET state = CASE WHEN state = 'posted' OR (state = 'gone' AND ref IS NULL) THEN 'shown' ELSE state END,
           changed_at = ?, ref = ?, address = ?, address_key = ? WHERE id = ? AND (state <> 'gone' OR ref IS NULL)`,
        ...[clock.now(), ref, JSON.stringify(address), addressKey(address), id],
      );
      tx.emit({ type: "live.changed", id });
    },
    async lose(tx, delivery) {
      const id = idOf(delivery);
      if (id !== null) await change(tx, id, ["state = 'gone'"]);
    },
    markShown: (id, shown) => note(id, ["shown = ?, not_before = 0", shown]),
    putOff: (id, notBefore) => note(id, ["not_before = ?", notBefore]),
    end: (id, as) => note(id, ["state = ?", as]),
    reopen: (id) => note(id, [REOPENED]),
    purge: (before) =>
      db.transaction([], (tx) => tx.run("DELETE FROM live_messages WHERE state IN ('closed', 'gone') AND changed_at < ?", before)),
  };
}

const fromRow = (row: Stored): LiveMessage => ({
  id: row.id,
  address: parseColumn<Address>(row.address, { table: "live_messages", id: row.id, column: "address" }),
  state: row.state,
  ref: row.ref,
  shown: row.shown,
  notBefore: row.not_before,
  createdAt: row.created_at,
  changedAt: row.changed_at,
});
