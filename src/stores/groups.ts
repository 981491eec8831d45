// Groups of runs, and what each of them has to say until it is said together (GR). Of those that end at the same time one completes
// the group: the compare-and-set on its state decides which, and only that one announces and wakes.
import type { Address } from "../core/address.ts";
import type { Clock } from "../core/clock.ts";
import type { Group } from "../core/group.ts";
import type { OutMessage } from "../core/message.ts";
import type { Person } from "../core/question.ts";
import { type Database, parseColumn, type Tx } from "./database.ts";

/** What one of them leaves, in the generation it ended. */
export interface GroupResult {
  readonly runId: string;
  readonly generation: number;
  /** Its own announcement; null: nothing of it is posted. */
  readonly message: OutMessage | null;
  /** For the requester's model. */
  readonly note: string;
  /** What it was announced with; null: not yet. */
  readonly delivery: string | null;
}

type NewGroup = Omit<Group, "state" | "createdAt" | "completedAt">;

export interface Groups {
  insert(tx: Tx, group: NewGroup): Promise<void>;
  get(id: string): Promise<Group | null>;
  /** Newest first. */
  listOf(requesterKey: string, limit: number): Promise<Group[]>;
  /** open → complete. False: it was. */
  complete(tx: Tx, id: string): Promise<boolean>;
  /** Takes the place of what an earlier generation of the run left. */
  keep(tx: Tx, groupId: string, result: Omit<GroupResult, "delivery">): Promise<void>;
  results(groupId: string): Promise<GroupResult[]>;
  resultOf(runId: string): Promise<GroupResult | null>;
  /** These went out with this announcement. */
  take(tx: Tx, runIds: readonly string[], delivery: string): Promise<void>;
  /** What an announcement is made of. */
  listOfDelivery(delivery: string): Promise<GroupResult[]>;
  /** Nothing of a run is left, or it is not said any more. */
  drop(tx: Tx, runId: string): Promise<void>;
}

type Stored = Readonly<Record<string, string | number | null>>;

export function createGroups({ db, clock }: { db: Database; clock: Clock }): Groups {
  const results = async (sql: string, param: string): Promise<GroupResult[]> => (await db.all<Stored>(sql, param)).map(toResult);
  return {
    async insert(tx, group) {
      const sql = `INSERT INTO run_groups (id, name, root_key, requester_key, requester_session_id, requester_run_id, address, person, enough,
          announce, wakes, state, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'open', ?)`;
      const { id, name, rootKey, requesterKey, requesterSessionId, requesterRunId, address, person, enough, announce, wakes } = group;
      const who = [rootKey, requesterKey, requesterSessionId, requesterRunId, JSON.stringify(address), JSON.stringify(person)];
      await tx.run(sql, ...[id, name, ...who, enough, announce, wakes ? 1 : 0, clock.now()]);
    },
    async get(id) {
      const row = await db.get<Stored>("SELECT * FROM run_groups WHERE id = ?", id);
      return row === undefined ? null : toGroup(row);
    },
    listOf: async (key, limit) =>
      (await db.all<Stored>("SELECT * FROM run_groups WHERE requester_key = ? ORDER BY created_at DESC, id LIMIT ?", key, limit)).map(
        toGroup,
      ),
    complete: async (tx, id) =>
      (await tx.run("UPDATE run_groups SET state = 'complete', completed_at = ? WHERE id = ? AND state = 'open'", clock.now(), id)) === 1,
    async keep(tx, groupId, { runId, generation, message, note }) {
      const sql = `INSERT INTO group_results (run_id, group_id, generation, result) VALUES (?, ?, ?, ?)
        ON CONFLICT (run_id) DO UPDATE SET generation = excluded.generation, result = excluded.result, delivery = NULL`;
      await tx.run(sql, runId, groupId, generation, JSON.stringify({ message, note }));
    },
    results: (groupId) => results("SELECT * FROM group_results WHERE group_id = ?", groupId),
    resultOf: async (runId) => (await results("SELECT * FROM group_results WHERE run_id = ?", runId))[0] ?? null,
    async take(tx, runIds, delivery) {
      for (const id of runIds) await tx.run("UPDATE group_results SET delivery = ? WHERE run_id = ?", delivery, id);
    },
    listOfDelivery: (delivery) => results("SELECT * FROM group_results WHERE delivery = ?", delivery),
    async drop(tx, runId) {
      await tx.run("DELETE FROM group_results WHERE run_id = ?", runId);
    },
  };
}

function toGroup(row: Stored): Group {
  const json = <T>(column: "address" | "person"): T =>
    parseColumn<T>(String(row[column]), { table: "run_groups", id: String(row.id), column });
  return {
    id: String(row.id),
    name: String(row.name),
    rootKey: String(row.root_key),
    requesterKey: String(row.requester_key),
    requesterSessionId: String(row.requester_session_id),
    requesterRunId: row.requester_run_id === null ? null : String(row.requester_run_id),
    address: json<Address>("address"),
    person: json<Person | null>("person"),
    enough: row.enough === null ? null : Number(row.enough),
    announce: row.announce as Group["announce"],
    wakes: row.wakes === 1,
    state: row.state as Group["state"],
    createdAt: Number(row.created_at),
    completedAt: row.completed_at === null ? null : Number(row.completed_at),
  };
}

function toResult(row: Stored): GroupResult {
  const id = String(row.run_id);
  const kept = parseColumn<Pick<GroupResult, "message" | "note">>(String(row.result), { table: "group_results", id, column: "result" });
  return { ...kept, runId: id, generation: Number(row.generation), delivery: row.delivery === null ? null : String(row.delivery) };
}
