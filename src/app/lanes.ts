// The two lanes: in this process (p-queue), or of rows that several processes work on.
import { createLane, type Lane } from "../lanes/lanes.ts";
import type { Base, Lanes } from "./base.ts";
import type { SharedOptions } from "./installation.ts";
import type { Stores } from "./store-parts.ts";

export interface LaneDeps extends Pick<Base, "config" | "bus" | "log" | "clock"> {
  readonly stores: Stores;
  readonly shared: SharedOptions | null;
}

export async function createLanes({ config, bus, log, clock, stores, shared }: LaneDeps): Promise<Lanes> {
  const { maxConcurrent, subagents } = config().agents.defaults;
  const { installation } = stores;
  const lane = async (name: string, concurrency: number): Promise<Lane> => {
    const common = {
      name,
      concurrency,
      onError: (id: string, error: unknown): void => log.error({ err: error, lane: name, id }, "a job of a lane failed"),
      onStart: (waitedMs: number): void => bus.emit({ type: "lane.started", lane: name, waitedMs }),
    };
    if (installation === null || shared === null) return createLane(common);
    const { createSharedLane } = await import("../lanes/shared-lane.ts");
    const { db, members, jobs } = installation;
    return createSharedLane({
      ...common,
      ...{ db, jobs: jobs(name), bus, clock, log, agents: shared.agents, whereIs: shared.whereIs },
      onConcurrency: () => void members.follow(),
    });
  };
  return { main: await lane("main", maxConcurrent), subagent: await lane("subagent", subagents.maxConcurrent) };
}
