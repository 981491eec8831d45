// What was used on each day, whatever database stands behind it: its sums are those of the sessions, in numbers, and a year of it is
// read in a moment. stores.test.ts runs it.
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createUsageDesk } from "../../src/app/usage-desk.ts";
import { dayOf } from "../../src/core/clock.ts";
import type { Spend } from "../../src/core/usage.ts";
import type { Tx } from "../../src/stores/database.ts";
import { addCall, addRun, type LedgerKey } from "../../src/stores/ledger.ts";
import { createManualClock } from "../support/manual-clock.ts";
import { ADDRESS, newRun } from "../support/runs.ts";
import type { StoreRig } from "./stores.contract.ts";

const DAY_MS = 24 * 3_600_000;
const ANN = { id: "7", name: "Ann" };
const spent = (tokens: number, costUsd: number | null): Spend => ({
  usage: { input: tokens, output: 1, cacheRead: 0, cacheWrite: 0 },
  costUsd,
});
const key = (values: Partial<LedgerKey> = {}): LedgerKey => ({ model: "p/m", agentId: "main", channel: "web", person: ANN, ...values });

export function ledgerContract(name: string, makeRig: () => Promise<StoreRig>): void {
  describe(`ledger (${name})`, () => {
    let rig: StoreRig;
    beforeEach(async () => {
      rig = await makeRig();
    });
    afterEach(() => rig[Symbol.asyncDispose]());
    const write = <T>(work: (tx: Tx) => Promise<T>): Promise<T> => rig.stores.db.transaction([], work);
    const desk = (now = rig.clock.now()) =>
      createUsageDesk({
        stores: rig.stores,
        payments: { overall: async () => [], ofToday: async () => [] },
        clock: { ...rig.clock, now: () => now },
        agents: () => ["main"],
      });

    it("[WB6] a call is on the day's account of its session and of its model, agent, channel and person alike, also behind a restart", async () => {
      const { sessions } = rig.stores;
      const session = { id: "s", key: "k", agentId: "main", address: ADDRESS, parentKey: null };
      await write((tx) => sessions.insert(tx, session));
      await write((tx) => sessions.addSpend(tx, session, "p/m", spent(4_000_000_000, 0.25), ANN));
      await write((tx) => sessions.addSpend(tx, session, "p/m", spent(10, 0.5), { id: "7" }));
      await write((tx) => sessions.addSpend(tx, session, "p/free", spent(5, null), null));
      await write((tx) => sessions.addSpend(tx, session, "p/m", { usage: null, costUsd: null }, ANN));
      await write((tx) => rig.stores.runs.insert(tx, newRun("r1")));
      const stores = await rig.reopen();
      const today = dayOf(rig.clock.now());
      const range = { from: today, to: today };
      const all = { runs: 1, calls: 3, unpriced: 1, input: 4_000_000_015, output: 3, costUsd: 0.75 };
      expect(await stores.ledger.days(today, today)).toEqual([{ day: today, name: "", ...all }]);
      const { usage } = await stores.sessions.spendOfDay(rig.clock.now());
      expect(usage).toMatchObject({ input: all.input, output: all.output });
      const people = await stores.ledger.names("person", range, 10);
      expect(people[0]).toEqual({
        ...{ name: `${ADDRESS.channel}/7`, label: "Ann", channel: ADDRESS.channel },
        ...{ runs: 0, calls: 2, unpriced: 0, input: 4_000_000_010, output: 2, costUsd: 0.75 },
      });
      expect((await stores.ledger.names("model", range, 10)).map(({ name, calls }) => [name, calls])).toContainEqual(["p/free", 1]);
      expect(await stores.ledger.names("agent", range, 1)).toMatchObject([{ name: "main", calls: 3, label: null }]);
      expect(await stores.ledger.daysOf("channel", range, [ADDRESS.channel, "nowhere"])).toMatchObject([{ day: today, ...all }]);
    });

    it("[WB6] of a transaction that fails nothing is counted; of two at once both are", async () => {
      const clock = createManualClock();
      const failing = write(async (tx) => {
        await addRun(tx, clock, key());
        throw new Error("no");
      });
      await expect(failing).rejects.toThrow("no");
      await Promise.all(Array.from({ length: 10 }, () => write((tx) => addCall(tx, clock, key(), spent(1, 0.5)))));
      expect(await rig.stores.ledger.days("0000", "9999")).toMatchObject([{ runs: 0, calls: 10, input: 10, costUsd: 5 }]);
    });

    it("[WB6] those that used most are told apart, all others are one; the parts are the whole, and a year is read in a moment", async () => {
      const now = Date.UTC(2026, 5, 1, 12);
      const clock = { ...createManualClock(), now: () => at };
      let at = now;
      await write(async (tx) => {
        for (let day = 0; day < 366; day += 1) {
          at = now - day * DAY_MS;
          for (let n = 0; n < 24; n += 1) {
            await addCall(tx, clock, key({ model: `p/${n}`, person: { id: `${n % 6}` } }), spent(100 + n, n === 3 ? null : 0.01));
            if (n % 4 === 0) await addRun(tx, clock, key({ model: `p/${n}`, person: null }));
          }
        }
      });
      for (const by of ["model", "person", "channel", "agent", "all"] as const) {
        const startedAt = performance.now();
        const view = await desk(now).read({ days: 90, by });
        expect(performance.now() - startedAt, by).toBeLessThan(200);
        expect(view.days).toHaveLength(90);
        expect(view.days.at(-1)).toBe("2026-06-01");
        const sum = (pick: (one: (typeof view.series)[number]) => number) => view.series.reduce((all, one) => all + pick(one), 0);
        expect(sum(({ total }) => total.input)).toBe(view.total.input);
        expect(sum(({ total }) => total.runs)).toBe(90 * 6);
        expect(sum(({ total }) => total.costUsd ?? 0)).toBeCloseTo(90 * 23 * 0.01, 6);
        expect(sum(({ days }) => days.reduce((all, day) => all + (day?.calls ?? 0), 0))).toBe(view.total.calls);
      }
      const byModel = await desk(now).read({ days: 7, by: "model" });
      expect(byModel.series.map(({ label }) => label)).toEqual(["p/23", "p/22", "p/21", "p/20", "p/19", "p/18", "p/17", "Others"]);
      expect(byModel.others).toBe(17);
      // One model's price is not known: it stays out of the sum, and that is said.
      expect(byModel.total).toMatchObject({ unpriced: 7 });
      await rig.stores.ledger.purge("2026-05-31");
      expect((await rig.stores.ledger.days("0000", "9999")).map(({ day }) => day)).toEqual(["2026-05-31", "2026-06-01"]);
    });
  });
}
