// Runs for the board as rows of the database, as they are at one moment: nobody works on them.
import { newId } from "../../src/core/ids.ts";
import type { DeliveryState, RunState, Wait } from "../../src/core/run.ts";
import type { Database } from "../../src/stores/database.ts";
import { type NewRun, type RunRow, runColumns } from "../../src/stores/run-row.ts";
import { newRun } from "./runs.ts";

export interface BoardRun extends Partial<NewRun> {
  readonly state?: RunState;
  readonly delivery?: DeliveryState;
  readonly deliveryReason?: string;
  readonly createdAt?: number;
  readonly startedAt?: number | null;
  readonly endedAt?: number;
  readonly reason?: string;
  readonly doing?: string;
  readonly waits?: readonly Wait[];
  readonly costUsd?: number;
  readonly tokens?: number;
}

/** All of them in one transaction; resolves with their ids, in order. */
export async function putRuns(db: Database, runs: readonly BoardRun[]): Promise<string[]> {
  const rows = runs.map(rowOf);
  await db.transaction([], async (tx) => {
    for (const row of rows) {
      const names = Object.keys(row);
      await tx.run(`INSERT INTO runs (${names.join(", ")}) VALUES (${names.map(() => "?").join(", ")})`, ...Object.values(row));
    }
  });
  return rows.map(({ id }) => String(id));
}

function rowOf(values: BoardRun): RunRow {
  const { state = "running", delivery = "none", createdAt = Date.now(), endedAt, costUsd, tokens, waits } = values;
  const isOver = state !== "queued" && state !== "running" && state !== "waiting";
  return {
    ...runColumns(newRun(values.id ?? newId(), values), createdAt),
    ...{ state, delivery, delivery_reason: values.deliveryReason ?? null, reason: values.reason ?? null, doing: values.doing ?? null },
    started_at: state === "queued" ? null : (values.startedAt ?? createdAt),
    ended_at: isOver ? (endedAt ?? createdAt + 5_000) : null,
    waits: waits === undefined ? null : JSON.stringify(waits),
    ...(tokens === undefined ? {} : { input: tokens, output: 0, cache_read: 0, cache_write: 0 }),
    cost_usd: costUsd ?? null,
  };
}
