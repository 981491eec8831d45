// A small chaos run, so that every test run has one; `npm run chaos` and CI do more of the same, CI in two worlds at once.
import { expect, it } from "vitest";
import { shortHistory } from "../chaos/report.ts";
import { runChaos } from "../chaos/run.ts";

const KILLS = Number(process.env.HERALD_TEST_CHAOS_KILLS ?? 3);
const SEED = Number(process.env.HERALD_TEST_CHAOS_SEED ?? 7);
const WORLDS = KILLS < 50 ? 1 : 2;
const SHARE = Math.ceil(KILLS / WORLDS);

it.concurrent.each(Array.from({ length: WORLDS }, (_, n) => SEED + n))(
  `[RC1][DL4][ST2][AN3][SC4][GR3][GR4] PROC-002 ${SHARE} kills under traffic on all channels (seed %i): nothing lost, repeated, misplaced, said after a stop or given away`,
  { timeout: 240_000 + SHARE * 10_000 },
  async (seed) => {
    const { verdict, history, kills, secrets } = await runChaos({ kills: SHARE, seed, minutes: 60 });
    const found = verdict.violations.map((one) => [`${one.kind} ${one.about}: ${one.text}`, ...shortHistory(history, one)].join("\n"));
    expect(found.join("\n\n"), `seed ${seed}`).toBe("");
    expect(kills).toBe(SHARE);
    expect(verdict.figures.messages).toBeGreaterThan(SHARE);
    // Pressed and slash commands point at no message of their own.
    if (SHARE >= 50) expect(history.said.filter(({ ref }) => ref === "").length).toBeGreaterThan(SHARE / 50);
    expect(secrets).toEqual({ planted: 50, said: expect.any(Number) });
    expect(secrets.said).toBeGreaterThan(SHARE);
  },
);
