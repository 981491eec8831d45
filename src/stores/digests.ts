// Announcements that are held back until their digest is due (AP1), an item for each generation of a run that announces so. Held as
// long as `delivery` is NULL; then it names the digest they went out with, until that has arrived. Each change is one statement that
// looks at `delivery` itself, so that of a digest that is gathered and a stop of one of its runs exactly one gets the item.
import { type Address, addressKey } from "../core/address.ts";
import type { Clock } from "../core/clock.ts";
import { shortId } from "../core/ids.ts";
import type { OutMessage } from "../core/message.ts";
import { type Database, parseColumn, type Tx } from "./database.ts";

export interface DigestItem {
  readonly runId: string;
  readonly generation: number;
  readonly address: Address;
  /** The longest it waits; what is due takes along whatever else is held for its address. */
  readonly dueAt: number;
  readonly message: OutMessage;
  readonly delivery: string | null;
}

type ItemRef = Pick<DigestItem, "runId" | "generation">;

export interface Digests {
  /** Takes the place of what an earlier generation of the run has held. */
  hold(tx: Tx, item: Omit<DigestItem, "delivery">): Promise<void>;
  /** Where something is due. */
  listDue(): Promise<Address[]>;
  /** What is held for an address, oldest first. */
  listHeld(address: Address, limit: number): Promise<DigestItem[]>;
  /** It goes out with this digest. False: it was dropped meanwhile, or went out with another. */
  take(tx: Tx, item: ItemRef, delivery: string): Promise<boolean>;
  /** What a digest is made of, in its order. */
  listOf(delivery: string): Promise<DigestItem[]>;
  /** When what these runs have held goes out: with the first that is due at its address. */
  dueTimes(runIds: readonly string[]): Promise<ReadonlyMap<string, number>>;
  find(of: ItemRef): Promise<DigestItem | null>;
  /** Of a run, whatever generation. */
  listOfRun(runId: string): Promise<DigestItem[]>;
  /** What is held is not said any more. False: it is not held. */
  drop(tx: Tx, item: ItemRef): Promise<boolean>;
  /** What was to go out with a digest is held again, and due. */
  release(tx: Tx, delivery: string): Promise<void>;
  /** The digest has arrived. */
  remove(tx: Tx, delivery: string): Promise<void>;
  /** Nothing of a run is left. */
  removeOf(tx: Tx, runId: string): Promise<void>;
}

interface Stored {
  readonly run_id: string;
  readonly generation: number;
  readonly address: string;
  readonly due_at: number;
  readonly message: string;
  readonly delivery: string | null;
}

export function createDigests({ db, clock }: { db: Database; clock: Clock }): Digests {
  const list = async (sql: string, ...params: (string | number)[]): Promise<DigestItem[]> =>
    (await db.all<Stored>(sql, ...params)).map(fromRow);
  return {
    async hold(tx, { runId, generation, address, dueAt, message }) {
      await tx.run("DELETE FROM digest_items WHERE run_id = ? AND delivery IS NULL", runId);
      await tx.run(
        "INSERT INTO digest_items (run_id, generation, address, address_key, held_at, due_at, message) VALUES (?, ?, ?, ?, ?, ?, ?)",
        ...[runId, generation, JSON.stringify(address), addressKey(address), clock.now(), dueAt, JSON.stringify(message)],
      );
    },
    async listDue() {
      const now = clock.now();
      // Held at a time still to come: the clock was set back since, and what it was to wait for says nothing any more.
      const sql = `SELECT min(address) AS address FROM digest_items WHERE delivery IS NULL
        GROUP BY address_key HAVING min(due_at) <= ? OR max(held_at) > ? ORDER BY min(due_at)`;
      return (await db.all<{ address: string }>(sql, now, now)).flatMap(({ address }) => readAddress(address));
    },
    listHeld: (address, limit) =>
      list(
        "SELECT * FROM digest_items WHERE address_key = ? AND delivery IS NULL ORDER BY held_at, run_id LIMIT ?",
        addressKey(address),
        limit,
      ),
    async take(tx, { runId, generation }, delivery) {
      const sql = "UPDATE digest_items SET delivery = ? WHERE run_id = ? AND generation = ? AND delivery IS NULL";
      return (await tx.run(sql, delivery, runId, generation)) === 1;
    },
    listOf: (delivery) => list("SELECT * FROM digest_items WHERE delivery = ? ORDER BY held_at, run_id", delivery),
    async dueTimes(runIds) {
      if (runIds.length === 0) return new Map();
      const sql = `SELECT held.run_id AS id, min(first.due_at) AS due FROM digest_items AS held
        JOIN digest_items AS first ON first.address_key = held.address_key AND first.delivery IS NULL
        WHERE held.delivery IS NULL AND held.run_id IN (${runIds.map(() => "?").join(", ")}) GROUP BY held.run_id`;
      return new Map((await db.all<{ id: string; due: number }>(sql, ...runIds)).map(({ id, due }) => [id, due]));
    },
    find: async ({ runId, generation }) =>
      (await list("SELECT * FROM digest_items WHERE run_id = ? AND generation = ?", runId, generation))[0] ?? null,
    listOfRun: (runId) => list("SELECT * FROM digest_items WHERE run_id = ? ORDER BY generation", runId),
    async drop(tx, { runId, generation }) {
      const sql = "DELETE FROM digest_items WHERE run_id = ? AND generation = ? AND delivery IS NULL";
      return (await tx.run(sql, runId, generation)) === 1;
    },
    async release(tx, delivery) {
      await tx.run("UPDATE digest_items SET delivery = NULL, due_at = ? WHERE delivery = ?", clock.now(), delivery);
    },
    async remove(tx, delivery) {
      await tx.run("DELETE FROM digest_items WHERE delivery = ?", delivery);
    },
    async removeOf(tx, runId) {
      await tx.run("DELETE FROM digest_items WHERE run_id = ?", runId);
    },
  };
}

/** One that can't be read must not hold up the others'. */
function readAddress(text: string): Address[] {
  try {
    return [parseColumn<Address>(text, { table: "digest_items", id: text, column: "address" })];
  } catch {
    return [];
  }
}

function fromRow(row: Stored): DigestItem {
  return {
    runId: row.run_id,
    generation: row.generation,
    address: parseColumn<Address>(row.address, { table: "digest_items", id: `${row.run_id}:${row.generation}`, column: "address" }),
    dueAt: row.due_at,
    message: readMessage(row),
    delivery: row.delivery,
  };
}

/** It goes out as what it is, with the others: a row that can't be read would be due for ever. */
function readMessage({ run_id: id, generation, message }: Stored): OutMessage {
  try {
    return parseColumn<OutMessage>(message, { table: "digest_items", id: `${id}:${generation}`, column: "message" });
  } catch {
    return { markdown: `⚠️ What this run had to say can't be read any more; \`/subagents log ${shortId(id)}\` shows what it wrote.` };
  }
}
