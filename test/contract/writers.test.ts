import { createStage } from "../support/stage.ts";
import { createStateFolder } from "../support/state-folder.ts";
import { writersContract } from "./writers.contract.ts";

writersContract("SQLite", { makeRig: createStateFolder, makeStage: createStage });
