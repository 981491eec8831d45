// Sessions: which transcript a key uses now, and what it has spent. One row per transcript; /new ends one row and
// opens the next, so the old conversation stays readable.
import type { Address } from "../core/address.ts";
import { type Clock, dayOf } from "../core/clock.ts";
import { newTimedId } from "../core/ids.ts";
import type { Person } from "../core/question.ts";
import type { Spend, Usage } from "../core/usage.ts";
import { type Database, parseColumn, type Tx } from "./database.ts";
import { addCall } from "./ledger.ts";

export interface Session {
  readonly id: string;
  readonly key: string;
  readonly agentId: string;
  readonly address: Address | null;
  readonly parentKey: string | null;
  /** Set by /model for this session only. */
  readonly model: string | null;
  readonly createdAt: number;
  readonly endedAt: number | null;
}

/** A session as whoever has it work knows it: to look it up for each call would cost more than what is written. */
export type Spender = Pick<Session, "id" | "agentId" | "address">;

export interface Sessions {
  /** The open session of a key, or null. */
  find(key: string): Promise<Session | null>;
  get(id: string): Promise<Session | null>;
  /** What a person chose for it; null: nothing. */
  modelOf(id: string): Promise<string | null>;
  /** The caller has made the transcript file before. */
  insert(tx: Tx, session: { id: string; key: string; agentId: string; address: Address | null; parentKey: string | null }): Promise<void>;
  end(tx: Tx, id: string): Promise<void>;
  /** All of a key, ended ones too. */
  listOf(key: string): Promise<Session[]>;
  /** Its transcript is to be given this name; null: it has it. */
  setToArchive(tx: Tx, id: string, name: string | null): Promise<void>;
  /** Whose transcripts are still to be given another name. */
  listToArchive(): Promise<{ readonly id: string; readonly agentId: string; readonly name: string }[]>;
  setModel(tx: Tx, id: string, model: string | null): Promise<void>;
  /** Adds one model call to the session's account of the day, and to the ledger as that person's. Nobody waits for it: call it in a relaxed transaction. */
  addSpend(tx: Tx, session: Spender, model: string, spend: Spend, person: Person | null): Promise<void>;
  spendOf(ids: readonly string[]): Promise<Spend>;
  /** All sessions together, on the UTC day of `at`. */
  spendOfDay(at: number): Promise<Spend>;
  newSessionId(): string;
  /** The open conversations of all channels but the page's own, the newest first, behind this one. */
  listChats(after: Pick<Session, "id" | "createdAt"> | null, limit: number): Promise<Session[]>;
}

interface Stored {
  id: string;
  key: string;
  agent_id: string;
  address: string | null;
  parent_key: string | null;
  model: string | null;
  created_at: number;
  ended_at: number | null;
}

export function createSessions({ db, clock }: { db: Database; clock: Clock }): Sessions {
  const one = (row: Stored | undefined): Session | null => (row === undefined ? null : fromRow(row));
  return {
    find: async (key) => one(await db.get<Stored>("SELECT * FROM sessions WHERE key = ? AND ended_at IS NULL", key)),
    get: async (id) => one(await db.get<Stored>("SELECT * FROM sessions WHERE id = ?", id)),
    modelOf: async (id) => (await db.get<{ model: string | null }>("SELECT model FROM sessions WHERE id = ?", id))?.model ?? null,
    async insert(tx, session) {
      await tx.run(
        "INSERT INTO sessions (id, key, agent_id, address, parent_key, created_at) VALUES (?, ?, ?, ?, ?, ?)",
        session.id,
        session.key,
        session.agentId,
        session.address === null ? null : JSON.stringify(session.address),
        session.parentKey,
        clock.now(),
      );
    },
    async end(tx, id) {
      await tx.run("UPDATE sessions SET ended_at = ? WHERE id = ? AND ended_at IS NULL", clock.now(), id);
    },
    listOf: async (key) => (await db.all<Stored>("SELECT * FROM sessions WHERE key = ?", key)).map(fromRow),
    async setToArchive(tx, id, name) {
      await tx.run("UPDATE sessions SET to_archive = ? WHERE id = ?", name, id);
    },
    listToArchive: () => db.all('SELECT id, agent_id AS "agentId", to_archive AS name FROM sessions WHERE to_archive IS NOT NULL'),
    async setModel(tx, id, model) {
      await tx.run("UPDATE sessions SET model = ? WHERE id = ?", model, id);
    },
    async addSpend(tx, { id, agentId, address }, model, spend, person) {
      await addSpend(tx, { id, model, day: dayOf(clock.now()) }, spend);
      await addCall(tx, clock, { model, agentId, channel: address?.channel ?? null, person }, spend);
    },
    spendOf: async (ids) =>
      ids.length === 0 ? { usage: null, costUsd: null } : await sum(db, `session_id IN (${ids.map(() => "?").join(", ")})`, ...ids),
    spendOfDay: (at) => sum(db, "day = ?", dayOf(at)),
    newSessionId: newTimedId,
    listChats: async (after, limit) =>
      (
        await db.all<Stored>(
          `SELECT * FROM sessions WHERE parent_key IS NULL AND ended_at IS NULL AND key NOT LIKE 'agent:%:web:%'
             AND key NOT LIKE 'agent:%:mcp:%' AND (created_at, id) < (?, ?) ORDER BY created_at DESC, id DESC LIMIT ?`,
          ...[after?.createdAt ?? Number.MAX_SAFE_INTEGER, after?.id ?? "", limit],
        )
      ).map(fromRow),
  };
}

async function addSpend(tx: Tx, where: { id: string; model: string; day: string }, spend: Spend): Promise<void> {
  const usage = spend.usage;
  if (usage === null) return;
  await tx.run(
    `INSERT INTO spend (session_id, day, model, calls, input, output, cache_read, cache_write, cost_usd) VALUES (?, ?, ?, 1, ?, ?, ?, ?, ?)
     ON CONFLICT (session_id, day, model) DO UPDATE SET calls = spend.calls + 1, input = spend.input + excluded.input, output = spend.output + excluded.output,
       cache_read = spend.cache_read + excluded.cache_read, cache_write = spend.cache_write + excluded.cache_write, cost_usd = spend.cost_usd + excluded.cost_usd`,
    where.id,
    where.day,
    where.model,
    usage.input,
    usage.output,
    usage.cacheRead,
    usage.cacheWrite,
    spend.costUsd,
  );
}

interface Summed extends Usage {
  calls: number | null;
  costUsd: number | null;
  unpriced: number;
}

async function sum(db: Database, where: string, ...values: string[]): Promise<Spend> {
  const row = await db.get<Summed>(
    `SELECT sum(calls) AS calls, sum(input) AS input, sum(output) AS output, sum(cache_read) AS "cacheRead", sum(cache_write) AS "cacheWrite",
       sum(cost_usd) AS "costUsd", count(*) - count(cost_usd) AS unpriced FROM spend WHERE ${where}`,
    ...values,
  );
  if (row === undefined || row.calls === null) return { usage: null, costUsd: null };
  const { input, output, cacheRead, cacheWrite } = row;
  // One call without a known price makes the whole sum unknown: a partial sum would look like the truth.
  return { usage: { input, output, cacheRead, cacheWrite }, costUsd: row.unpriced > 0 ? null : row.costUsd };
}

function fromRow(row: Stored): Session {
  return {
    id: row.id,
    key: row.key,
    agentId: row.agent_id,
    address: row.address === null ? null : parseColumn<Address>(row.address, { table: "sessions", id: row.id, column: "address" }),
    parentKey: row.parent_key,
    model: row.model,
    createdAt: row.created_at,
    endedAt: row.ended_at,
  };
}
