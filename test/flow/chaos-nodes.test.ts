// A small chaos run with three processes on one PostgreSQL; `npm run chaos -- --nodes 3` and CI do more of the same. PostgreSQL is
// tormented too, so it is one of its own.
import { expect, it } from "vitest";
import { runNodesChaos } from "../chaos/nodes-run.ts";
import { shortHistory } from "../chaos/report.ts";
import { findPostgres } from "../support/postgres.ts";

const KILLS = Number(process.env.HERALD_TEST_CHAOS_NODE_KILLS ?? 6);
const SEED = Number(process.env.HERALD_TEST_CHAOS_SEED ?? 7);
const NODES = 3;

// Where it is missing, test/support/postgres-setup.ts says so.
it.runIf(findPostgres() !== null)(
  `[SO2][SO3][SO4][GR3][GR4] ${KILLS} kills of ${NODES} processes under traffic on all channels, PostgreSQL failing in between (seed ${SEED}): nothing lost, repeated, misplaced, said after a stop or given away, and never more at work than may be`,
  { timeout: 480_000 + KILLS * 15_000 },
  async () => {
    const { verdict, history, kills, most } = await runNodesChaos({ nodes: NODES, kills: KILLS, seed: SEED, minutes: 30 });
    const found = verdict.violations.map((one) =>
      [`${one.kind} ${one.about}: ${one.text}`, ...(one.kind === "trouble" ? [] : shortHistory(history, one))].join("\n"),
    );
    expect(found.join("\n\n"), `seed ${SEED}`).toBe("");
    expect(kills).toBeGreaterThanOrEqual(KILLS);
    expect(verdict.figures.messages).toBeGreaterThan(KILLS);
    // The probe at the end fills the lane; a row more would be a violation above.
    expect(most.subagent).toBe(most.maxSubagent);
  },
);
