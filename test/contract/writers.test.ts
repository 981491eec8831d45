import { existsSync } from "node:fs";
import { describe } from "vitest";
import type { TranscriptRef } from "../../src/stores/transcripts.ts";
import { createSchema } from "../support/postgres.ts";
import { createSharedFolder, hasPostgres, sharedOptions } from "../support/shared-folder.ts";
import { createStage, type Stage, type StageOptions } from "../support/stage.ts";
import { createStateFolder } from "../support/state-folder.ts";
import { writersContract } from "./writers.contract.ts";

writersContract("SQLite", {
  makeRig: createStateFolder,
  makeStage: createStage,
  isOpen: async (stage, ref) => existsSync(stage.stores.transcripts.path(ref)),
});

async function makeSharedStage(options: StageOptions): Promise<Stage> {
  const schema = await createSchema();
  const stage = await createStage({ ...options, shared: sharedOptions(schema.url, { limits: () => ({ main: 8, subagent: 8 }) }) });
  return {
    ...stage,
    async [Symbol.asyncDispose]() {
      await stage[Symbol.asyncDispose]();
      await schema[Symbol.asyncDispose]();
    },
  };
}

const isOpenRow = async ({ stores }: Stage, { sessionId }: TranscriptRef): Promise<boolean> =>
  (await stores.db.get("SELECT 1 FROM transcripts WHERE session_id = ? AND archive_name IS NULL", sessionId)) !== undefined;

describe.runIf(hasPostgres())("[SO3]", () =>
  writersContract("PostgreSQL", { makeRig: createSharedFolder, makeStage: makeSharedStage, isOpen: isOpenRow }),
);
