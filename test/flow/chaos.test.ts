// A small chaos run, so that every test run has one; `npm run chaos` and CI do more of the same.
import { expect, it } from "vitest";
import { shortHistory } from "../chaos/report.ts";
import { runChaos } from "../chaos/run.ts";

const KILLS = Number(process.env.HERALD_TEST_CHAOS_KILLS ?? 6);
const SEED = Number(process.env.HERALD_TEST_CHAOS_SEED ?? 7);

it(`[RC1][DL4][ST2][AN3] PROC-002 ${KILLS} kills under traffic on all channels: nothing lost, repeated, misplaced or said after a stop`, {
  timeout: 240_000 + KILLS * 10_000,
}, async () => {
  const { verdict, history, kills } = await runChaos({ kills: KILLS, seed: SEED, minutes: 60 });
  const found = verdict.violations.map((one) => [`${one.kind} ${one.about}: ${one.text}`, ...shortHistory(history, one)].join("\n"));
  expect(found.join("\n\n"), `seed ${SEED}`).toBe("");
  expect(kills).toBe(KILLS);
  expect(verdict.figures.messages).toBeGreaterThan(KILLS);
});
