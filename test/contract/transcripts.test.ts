import { createStateFolder } from "../support/state-folder.ts";
import { transcriptContract } from "./transcripts.contract.ts";

transcriptContract("JSONL files", async () => {
  const folder = await createStateFolder();
  return {
    get transcripts() {
      return folder.stores.transcripts;
    },
    reopen: () => folder.reopen().transcripts,
    [Symbol.dispose]: () => folder[Symbol.dispose](),
  };
});
