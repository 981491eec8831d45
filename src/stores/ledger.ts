// What was used on each day: tokens, money and runs by model, agent, channel and person. Written in the transaction that records a call or
// a new run, so that its sums are those of the sessions (spend); but where those grow with every session, this has a row for each
// combination that occurs on a day, and a year of it is read at once.
import { type Clock, dayOf } from "../core/clock.ts";
import type { Person } from "../core/question.ts";
import type { Spend } from "../core/usage.ts";
import { type Database, PASSING, type Tx } from "./database.ts";

/** Whose use it is. */
export interface LedgerKey {
  readonly model: string;
  readonly agentId: string;
  /** Null: nobody's, of no channel. */
  readonly channel: string | null;
  readonly person: Person | null;
}

export type LedgerBy = "model" | "agent" | "channel" | "person";

export interface LedgerSum {
  readonly runs: number;
  readonly calls: number;
  /** Calls for which no price is known: the cost is that of the others. */
  readonly unpriced: number;
  readonly input: number;
  readonly output: number;
  readonly costUsd: number;
}

export interface LedgerRow extends LedgerSum {
  readonly day: string;
  /** Empty in a sum of all, and where nobody or no channel is known. */
  readonly name: string;
}

/** One of those that are told apart, in the whole time. */
export interface LedgerName extends LedgerSum {
  readonly name: string;
  /** Of a person: the last name known, and where. */
  readonly label: string | null;
  readonly channel: string | null;
}

export interface Ledger {
  /** All together, by day; days without anything are left out. */
  days(from: string, to: string): Promise<LedgerRow[]>;
  /** Those that used most, at most `limit`. */
  names(by: LedgerBy, range: LedgerRange, limit: number): Promise<LedgerName[]>;
  /** Of these, by day. */
  daysOf(by: LedgerBy, range: LedgerRange, names: readonly string[]): Promise<LedgerRow[]>;
  /** Forgets days before this one. */
  purge(before: string): Promise<number>;
}

/** Both days included. */
export interface LedgerRange {
  readonly from: string;
  readonly to: string;
}

/** People of two platforms may have the same id. */
const NAMES: Record<LedgerBy, string> = { model: "model", agent: "agent_id", channel: "channel", person: "channel || '/' || person" };
const FIGURES = ["runs", "calls", "unpriced", "input", "output", "cost_usd"];
const SUMS = FIGURES.map((name) => `sum(${name}) AS ${name === "cost_usd" ? '"costUsd"' : name}`).join(", ");
const WITHIN = "day >= ? AND day <= ?";

export function createLedger({ db }: { db: Database }): Ledger {
  return {
    days: (from, to) =>
      db.all<LedgerRow>(`SELECT day, '' AS name, ${SUMS} FROM ledger WHERE ${WITHIN} GROUP BY day ORDER BY day`, from, to),
    names(by, { from, to }, limit) {
      const who = by === "person" ? "max(person_name) AS label, max(channel) AS channel" : "NULL AS label, NULL AS channel";
      const sql = `SELECT ${NAMES[by]} AS name, ${who}, ${SUMS} FROM ledger WHERE ${WITHIN}
        GROUP BY ${NAMES[by]} ORDER BY sum(input) + sum(output) DESC, sum(runs) DESC, name LIMIT ?`;
      return db.all<LedgerName>(sql, from, to, limit);
    },
    async daysOf(by, { from, to }, names) {
      if (names.length === 0) return [];
      const sql = `SELECT day, ${NAMES[by]} AS name, ${SUMS} FROM ledger WHERE ${WITHIN} AND ${NAMES[by]} IN (${names.map(() => "?").join(", ")})
        GROUP BY day, ${NAMES[by]} ORDER BY day`;
      return db.all<LedgerRow>(sql, from, to, ...names);
    },
    purge: (before) => db.transaction([], (tx) => tx.run("DELETE FROM ledger WHERE day < ?", before), PASSING),
  };
}

const ADD = `INSERT INTO ledger (day, model, agent_id, channel, person, person_name, ${FIGURES.join(", ")}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
  ON CONFLICT (day, model, agent_id, channel, person) DO UPDATE SET person_name = coalesce(excluded.person_name, ledger.person_name),
  ${FIGURES.map((name) => `${name} = ledger.${name} + excluded.${name}`).join(", ")}`;

async function add(tx: Tx, clock: Clock, { model, agentId, channel, person }: LedgerKey, figures: readonly number[]): Promise<void> {
  const who = [person?.id ?? "", person?.name ?? null];
  await tx.run(ADD, dayOf(clock.now()), model, agentId, channel ?? "", ...who, ...figures);
}

/** A model call that was made. */
export async function addCall(tx: Tx, clock: Clock, key: LedgerKey, { usage, costUsd }: Spend): Promise<void> {
  if (usage === null) return;
  await add(tx, clock, key, [0, 1, costUsd === null ? 1 : 0, usage.input, usage.output, costUsd ?? 0]);
}

/** A run that was sent out. */
export const addRun = (tx: Tx, clock: Clock, key: LedgerKey): Promise<void> => add(tx, clock, key, [1, 0, 0, 0, 0, 0]);
