// Work that processes before this one have ended at, on real stores: after three deaths the smaller thing is done instead.
import { existsSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { isUnfinished, type Run } from "../../../src/core/run.ts";
import { createManualClock, type ManualClock } from "../../support/manual-clock.ts";
import { createStage, makeStateDir, okReply, type Stage } from "../../support/stage.ts";
import { waitFor } from "../../support/wait.ts";

let stateDir: string;
let clock: ManualClock;
beforeEach(() => {
  stateDir = makeStateDir();
  clock = createManualClock();
});
afterEach(() => rmSync(stateDir, { recursive: true, force: true }));

const stageOf = (): Promise<Stage> => createStage({ clock, call: async () => okReply("fine"), stateDir, idle: true });
const files = (): string[] => readdirSync(join(stateDir, "agents/main/sessions"));

/** A run that ended in an earlier process. */
async function ended(): Promise<Run> {
  await using stage = await stageOf();
  const run = await stage.spawn();
  stage.lane.serve(stage.parts.runner.work);
  await waitFor("it to end", async () => !isUnfinished((await stage.get(run.id)).state));
  await stage.stores.db.transaction([], (tx) => stage.stores.runs.markSettled(tx, run.id));
  await stage.lane.drain();
  return stage.get(run.id);
}

it.each([
  { died: 2, isRenamed: true },
  { died: 3, isRenamed: false },
])("[RC4][AR2] archiving that $died processes ended at: renamed $isRenamed, on record either way", async ({ died, isRenamed }) => {
  const run = await ended();
  const name = `${run.sessionId}.jsonl.deleted.2026-01-01T00-00-00.000Z`;
  await using stage = await stageOf();
  await stage.stores.db.transaction([], (tx) => stage.stores.runs.setArchiveName(tx, run.id, name));
  for (let deaths = 1; deaths < died; deaths++) await stage.stores.tries.begin(`archive:${run.id}`);
  const over = new AbortController();
  const archiving = stage.parts.archiver.run(over.signal);
  over.abort();
  await archiving;
  expect(await stage.get(run.id)).toMatchObject({ archivedAt: clock.now(), archiveName: name });
  expect(files().includes(name)).toBe(isRenamed);
  // Under either name it can be read.
  expect(await stage.stores.transcripts.tail({ agentId: "main", sessionId: run.sessionId, archiveName: name }, 1)).toHaveLength(1);
  expect(await stage.stores.db.all("SELECT work FROM tries")).toEqual([]);
});

it.each([
  { died: 2, isWritten: true },
  { died: 3, isWritten: false },
])("[RC4][BP1] documents that $died processes ended at: written $isWritten, and not tried for ever", async ({ died, isWritten }) => {
  const run = await ended();
  await using stage = await stageOf();
  expect(await stage.stores.runs.listUndocumented(9)).toHaveLength(1);
  for (let deaths = 1; deaths < died; deaths++) await stage.stores.tries.begin(`documents:${run.id}`);
  await stage.parts.start();
  await stage.parts.recover();
  await stage.parts.documents.stop();
  expect(await stage.stores.runs.listUndocumented(9)).toEqual([]);
  expect(existsSync(join(stateDir, "agents/main/sessions", run.sessionId))).toBe(isWritten);
  expect(await stage.stores.db.all("SELECT work FROM tries")).toEqual([]);
});

it("[RC4] what was left behind and never heard of again is forgotten in time", async () => {
  await using stage = await stageOf();
  await stage.stores.tries.begin("inbox:1");
  await clock.advance(1_000);
  await stage.stores.tries.begin("inbox:2");
  await stage.stores.tries.purge(clock.now());
  expect(await stage.stores.db.all("SELECT work, deaths FROM tries")).toEqual([{ work: "inbox:2", deaths: 1 }]);
});
