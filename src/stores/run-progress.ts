// What a run at work says of itself, step by step: who works on it, what it does, its plan. Each a transaction of its own; most are
// waited for by nobody.
import type { Clock } from "../core/clock.ts";
import type { PlanStep, RunState } from "../core/run.ts";
import { type Database, PASSING, RELAXED, type Tx } from "./database.ts";

export interface RunProgress {
  /** A running one is taken up: this process works on it from now on, and says anew what it does. */
  own(id: string): Promise<void>;
  /** False: it runs no more, or another process works on it. */
  isOwn(id: string): Promise<boolean>;
  /** Those of them that were stopped. */
  stoppedAmong(ids: readonly string[]): Promise<ReadonlySet<string>>;
  /** What a running one does from now on is new work: its time, its steps and its typed result begin anew. */
  renewLimits(id: string): Promise<void>;
  /** Model step `step` of a running one begins; written before the call, so that a crash can't make it free. False: it doesn't run any more. */
  beginStep(id: string, step: number, doing: string): Promise<boolean>;
  setDoing(id: string, doing: string | null): Promise<void>;
  /** The plan of a running child; replaces the one before. */
  setPlan(id: string, plan: readonly PlanStep[]): Promise<void>;
  /** The documents of these runs are written, up to the generation given. */
  setDocumented(runs: readonly { readonly id: string; readonly generation: number }[]): Promise<void>;
}

export interface RunProgressDeps {
  readonly db: Database;
  readonly clock: Clock;
  /** Who works on what is started here. */
  readonly bootId: string;
}

export const changed = (tx: Tx, runId: string, state: RunState): void => tx.emit({ type: "run.changed", runId, state });

/** Takes the present time as its parameter. */
export const FRESH_LIMITS = "deadline_at = CASE WHEN timeout_ms > 0 THEN ? + timeout_ms END, steps = 0";

export function createRunProgress({ db, clock, bootId }: RunProgressDeps): RunProgress {
  return {
    own: (id) =>
      db.transaction(
        [],
        async (tx) => {
          const sql =
            "UPDATE runs SET owner = ?, doing = NULL WHERE id = ? AND state = 'running' AND (owner IS DISTINCT FROM ? OR doing IS NOT NULL)";
          if ((await tx.run(sql, bootId, id, bootId)) === 1) changed(tx, id, "running");
        },
        RELAXED,
      ),
    async stoppedAmong(ids) {
      if (ids.length === 0) return new Set();
      const sql = `SELECT id FROM runs WHERE state = 'stopped' AND id IN (${ids.map(() => "?").join(", ")})`;
      return new Set((await db.all<{ id: string }>(sql, ...ids)).map((row) => row.id));
    },
    isOwn: async (id) => (await db.get("SELECT 1 FROM runs WHERE id = ? AND state = 'running' AND owner = ?", id, bootId)) !== undefined,
    async renewLimits(id) {
      const set = `${FRESH_LIMITS}, data = NULL, misfits = NULL`;
      await db.transaction([], (tx) => tx.run(`UPDATE runs SET ${set} WHERE id = ? AND state = 'running'`, clock.now(), id));
    },
    beginStep: (id, step, doing) =>
      db.transaction(
        [],
        async (tx) => {
          const sql = "UPDATE runs SET steps = ?, doing = ? WHERE id = ? AND state = 'running'";
          const isRunning = (await tx.run(sql, step, doing, id)) === 1;
          if (isRunning) changed(tx, id, "running");
          return isRunning;
        },
        PASSING,
      ),
    setDoing: (id, doing) =>
      db.transaction(
        [],
        async (tx) => {
          const sql = "UPDATE runs SET doing = ? WHERE id = ? AND state = 'running' AND doing IS DISTINCT FROM ?";
          if ((await tx.run(sql, doing, id, doing)) === 1) changed(tx, id, "running");
        },
        PASSING,
      ),
    async setPlan(id, plan) {
      const text = JSON.stringify(plan);
      const sql = "UPDATE runs SET plan = ? WHERE id = ? AND state = 'running' AND plan IS DISTINCT FROM ?";
      await db.transaction([], async (tx) => {
        if ((await tx.run(sql, text, id, text)) === 1) changed(tx, id, "running");
      });
    },
    async setDocumented(runs) {
      // Writing the documents once more changes nothing, so nobody needs to wait for this.
      await db.transaction(
        [],
        async (tx) => {
          for (const { id, generation } of runs) await tx.run("UPDATE runs SET documented = ? WHERE id = ?", generation, id);
        },
        PASSING,
      );
    },
  };
}
