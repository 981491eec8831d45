import { describe } from "vitest";
import { createLane } from "../../src/lanes/lanes.ts";
import { hasPostgres } from "../support/shared-folder.ts";
import { createSharedLanes } from "../support/shared-lanes.ts";
import { laneContract, settle } from "./lanes.contract.ts";

laneContract("p-queue", async () => ({ makeLane: createLane, settle, keepsWaiting: false, [Symbol.asyncDispose]: async () => {} }));
describe.runIf(hasPostgres())("[SO2]", () => laneContract("PostgreSQL", createSharedLanes));
