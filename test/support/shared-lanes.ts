// Lanes of rows in the tests' PostgreSQL, for one process or several: each `makeLane` is a lane of a name of its own.

import { systemClock } from "../../src/core/clock.ts";
import { silentLogger } from "../../src/core/logger.ts";
import type { Lane } from "../../src/lanes/lanes.ts";
import { createSharedLane } from "../../src/lanes/shared-lane.ts";
import type { LaneJobs } from "../../src/stores/postgres/lane-jobs.ts";
import type { LaneOptions, LaneRig } from "../contract/lanes.contract.ts";
import { createSharedFolder } from "./shared-folder.ts";

export async function createSharedLanes(): Promise<LaneRig> {
  const folder = await createSharedFolder();
  const { installation } = folder.stores;
  if (installation === null) throw new Error("there is no installation");
  await folder.stores.nodes.enter();
  const limits: Record<string, number> = {};
  const busy = { count: 0 };
  let lanes = 0;
  const settle = async (): Promise<void> => {
    // Nothing of the lane is under way any more, and nothing was begun when the last of it was over.
    for (let quiet = 0; quiet < 5; quiet = busy.count === 0 ? quiet + 1 : 0) await new Promise((resolve) => setImmediate(resolve));
  };
  return {
    keepsWaiting: true,
    settle,
    makeLane({ name, concurrency, ...rest }: LaneOptions): Lane {
      const own = `${name}-${lanes++}`;
      limits[own] = concurrency;
      const jobs = counted(installation.jobs(own), busy);
      const tell = (): Promise<unknown> =>
        counting(busy, () => installation.db.transaction([], (tx) => tx.run("UPDATE nodes SET limits = ?", JSON.stringify(limits))));
      const ready = tell();
      const lane = createSharedLane({
        ...{ name: own, concurrency, bus: folder.bus, clock: systemClock, log: silentLogger, ...rest },
        jobs: { ...jobs, claim: (agents) => ready.then(() => jobs.claim(agents)) },
        db: { transaction: (...work) => counting(busy, () => installation.db.transaction(...work)) },
        agents: () => [""],
        whereIs: () => "",
        onConcurrency(count) {
          limits[own] = count;
          void tell().then(() => folder.bus.emit({ type: "lane.rung", lane: own }));
        },
      });
      return lane;
    },
    async [Symbol.asyncDispose]() {
      await settle();
      await folder[Symbol.asyncDispose]();
    },
  };
}

async function counting<T>(busy: { count: number }, work: () => Promise<T>): Promise<T> {
  busy.count++;
  try {
    return await work();
  } finally {
    // What follows from it in the same moment counts too.
    setImmediate(() => busy.count--);
  }
}

function counted(jobs: LaneJobs, busy: { count: number }): LaneJobs {
  const wrapped = Object.entries(jobs).map(([name, work]) => [
    name,
    name === "ring" ? work : (...args: never[]) => counting(busy, () => (work as (...args: never[]) => Promise<unknown>)(...args)),
  ]);
  return Object.fromEntries(wrapped) as LaneJobs;
}
