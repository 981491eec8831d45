import { describe } from "vitest";
import { createSharedFolder, hasPostgres } from "../support/shared-folder.ts";
import { createStateFolder } from "../support/state-folder.ts";
import type { StoreRig } from "./stores.contract.ts";
import { transcriptContract } from "./transcripts.contract.ts";

const rigOf = async (folder: StoreRig) => ({
  get transcripts() {
    return folder.stores.transcripts;
  },
  reopen: async () => (await folder.reopen()).transcripts,
  [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose](),
});

transcriptContract("JSONL files", async () => rigOf(await createStateFolder()));
describe.runIf(hasPostgres())("[SO1]", () => transcriptContract("PostgreSQL", async () => rigOf(await createSharedFolder())));
