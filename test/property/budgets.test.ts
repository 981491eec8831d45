// Holds over random trees of runs with crashes, retries, raises, days that change and providers that report anything up to what they
// were held to: no cap is ever passed, no hold is left, and every level knows what was spent below it.
import { afterEach, beforeEach, expect, it } from "vitest";
import { type Amount, amountOf, type Level, NOTHING } from "../../src/core/budget.ts";
import { createRandom, type Random } from "../support/random.ts";
import { createStateFolder, type StateFolder } from "../support/state-folder.ts";

const SEED = Number(process.env.HERALD_TEST_SEED ?? 20_260_101);
const TREES = 100;
const STEPS = 520;

let folder: StateFolder;
beforeEach(async () => {
  folder = await createStateFolder();
});
afterEach(() => folder[Symbol.dispose]());

const below = (random: Random, count: number): number => random.between(0, count - 1);

interface Open {
  readonly id: string;
  readonly levels: readonly Level[];
  readonly held: Amount;
}

/** A tree of runs: the root's limit, and some of the others', above what each may call. */
function createTree(random: Random, n: number) {
  const caps = new Map<string, number>();
  const cap = (id: string, most: number): void => void caps.set(id, 1_000 + below(random, most));
  const parents = Array.from({ length: 12 }, (_, i) => (i === 0 ? null : below(random, i)));
  for (const i of parents.keys()) if (i === 0 || below(random, 2) === 0) cap(`run:${n}-${i}`, i === 0 ? 60_000 : 20_000);
  cap(`day:${n}-1`, 40_000);
  cap(`day:${n}-2`, 40_000);
  const lineOf = (i: number): number[] => {
    const parent = parents[i] ?? null;
    return parent === null ? [i] : [i, ...lineOf(parent)];
  };
  const levelsOf = (i: number, day: number): Level[] =>
    [...lineOf(i).map((run) => `run:${n}-${run}`), `day:${n}-${day}`].flatMap((id) => {
      const most = caps.get(id);
      return most === undefined ? [] : [{ id, name: id, cap: { usd: most * 10, tokens: most } }];
    });
  return { size: parents.length, caps, levelsOf };
}

it(`[BG2][BG3] ${TREES * STEPS} steps over random trees: no cap passed, no hold left, parents know all that was spent below them (seed ${SEED})`, async () => {
  const random = createRandom(SEED);
  await folder.stores.nodes.enter();
  let { budgets } = folder.stores;
  let [holds, waits, overs] = [0, 0, 0];
  for (let n = 0; n < TREES; n++) {
    const tree = createTree(random, n);
    const spent = new Map<string, Amount>();
    const charge = ({ levels }: Open, took: Amount): void => {
      for (const { id } of levels) {
        const before = spent.get(id) ?? NOTHING;
        spent.set(id, { usd: before.usd + took.usd, tokens: before.tokens + took.tokens });
      }
    };
    let open: Open[] = [];
    let day = 1;
    for (let step = 0; step < STEPS; step++) {
      const what = below(random, 100);
      if (what < 60) {
        const levels = tree.levelsOf(below(random, tree.size), day);
        const asked = {
          inputTokens: 50 + below(random, 900),
          inputUsd: 500 + below(random, 9_000),
          outputUsd: below(random, 12),
          maxOutput: 512 + below(random, 4_000),
        };
        const id = `call-${n}-${step}`;
        const decision = await budgets.hold({ id, levels, asked });
        if (decision.kind === "held") {
          holds++;
          expect(decision.amount).toEqual(amountOf(asked, decision.maxOutput));
          open.push({ id, levels, held: decision.amount });
        } else if (decision.kind === "wait") {
          waits++;
          // Somebody must be there who can make room.
          expect(open.length).toBeGreaterThan(0);
        } else overs++;
      } else if (what < 92) {
        const at = open.length === 0 ? -1 : below(random, open.length);
        const one = open[at];
        if (one !== undefined) {
          open = open.filter((other) => other !== one);
          const kind = below(random, 4);
          const took =
            kind === 0 ? null : kind === 1 ? NOTHING : { usd: below(random, one.held.usd + 1), tokens: below(random, one.held.tokens + 1) };
          expect(await budgets.settle(one.id, took)).toBe(true);
          // Told twice, it counts once.
          expect(await budgets.settle(one.id, took)).toBe(false);
          charge(one, took ?? one.held);
        }
      } else if (what < 96) {
        const ids = [...tree.caps.keys()];
        const raised = ids[below(random, ids.length)] ?? "";
        tree.caps.set(raised, (tree.caps.get(raised) ?? 0) + below(random, 5_000));
      } else if (what < 98) day = 3 - day;
      else {
        // The process is gone: nobody knows what its calls took.
        const again = await folder.reopen();
        await again.nodes.enter();
        ({ budgets } = again);
        await budgets.recover();
        for (const one of open) charge(one, one.held);
        open = [];
      }
      // Every level each time would take longer than the holds themselves.
      if (step % 8 !== 0) continue;
      for (const [id, most] of tree.caps) {
        const figures = await budgets.figures(id);
        expect(figures.spent).toEqual(spent.get(id) ?? NOTHING);
        expect(figures.spent.tokens + figures.held.tokens).toBeLessThanOrEqual(most);
        expect(figures.spent.usd + figures.held.usd).toBeLessThanOrEqual(most * 10);
      }
    }
    for (const one of open) await budgets.settle(one.id, NOTHING);
    for (const id of tree.caps.keys()) expect((await budgets.figures(id)).held).toEqual(NOTHING);
  }
  expect(holds + waits + overs).toBeGreaterThan(30_000);
  expect(Math.min(holds, waits, overs)).toBeGreaterThan(500);
}, 240_000);
