import { createLane } from "../../src/lanes/lanes.ts";
import { laneContract } from "./lanes.contract.ts";

laneContract("p-queue", createLane);
