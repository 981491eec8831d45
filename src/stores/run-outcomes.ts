// What a child's work was held against, on its row (EV2, TR1): rounds of failing checks, the typed result, and what of it didn't fit.
// Each in the transaction of whoever tells the child, or compare-and-set, so that no kill makes a round or a try count twice.
import type { CheckResult } from "../core/check.ts";
import type { Misfit, Run } from "../core/run.ts";
import { parseColumn, type Tx } from "./database.ts";

export interface RunOutcomes {
  /** Failing checks go back to it; a typed result it had given is open again. False: it doesn't run any more, or is past this round. */
  countRound(tx: Tx, run: Pick<Run, "id" | "generation" | "checkRounds">, found: readonly CheckResult[]): Promise<boolean>;
  /** The first one counts. False: there is one, or it doesn't run any more. */
  setData(tx: Tx, id: string, data: string): Promise<boolean>;
  /** Once for each step. How many there are by now. */
  addMisfit(tx: Tx, id: string, misfit: Misfit): Promise<number>;
}

export const runOutcomes: RunOutcomes = {
  async countRound(tx, { id, generation, checkRounds }, found) {
    const sql = `UPDATE runs SET check_rounds = check_rounds + 1, checks = ?, data = NULL
      WHERE id = ? AND state = 'running' AND generation = ? AND check_rounds = ?`;
    const isCounted = (await tx.run(sql, JSON.stringify(found), id, generation, checkRounds)) === 1;
    if (isCounted) tx.emit({ type: "run.changed", runId: id, state: "running" });
    return isCounted;
  },
  setData: async (tx, id, data) =>
    (await tx.run("UPDATE runs SET data = ? WHERE id = ? AND state = 'running' AND data IS NULL", data, id)) === 1,
  async addMisfit(tx, id, misfit) {
    const row = await tx.get<{ misfits: string | null }>("SELECT misfits FROM runs WHERE id = ?", id);
    const known = parseColumn<Misfit[] | null>(row?.misfits ?? "null", { table: "runs", id, column: "misfits" }) ?? [];
    if (known.some(({ step }) => step === misfit.step)) return known.length;
    await tx.run("UPDATE runs SET misfits = ? WHERE id = ? AND state = 'running'", JSON.stringify([...known, misfit]), id);
    return known.length + 1;
  },
};
