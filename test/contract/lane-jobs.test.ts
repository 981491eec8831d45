// Rows of lanes where answers of the server are lost, and rings with whoever was to ring.
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { LaneJobs } from "../../src/stores/postgres/lane-jobs.ts";
import { newRun } from "../support/runs.ts";
import { createSharedFolder, hasPostgres, type SharedFolder } from "../support/shared-folder.ts";

const ID = "00000000-0000-4000-8000-000000000001";
const CHILD = "00000000-0000-4000-8000-000000000002";

describe.runIf(hasPostgres())("rows of a lane", () => {
  let folder: SharedFolder;
  let jobs: LaneJobs;
  beforeEach(async () => {
    folder = await createSharedFolder();
    await folder.stores.nodes.enter();
    jobs = folder.stores.installation?.jobs("subagent") as LaneJobs;
    await folder.stores.db.transaction([], (tx) => folder.stores.runs.insert(tx, newRun(ID), { firstMessage: "do it" }));
  });
  afterEach(() => folder[Symbol.asyncDispose]());
  const ring = (): Promise<void> => folder.stores.db.transaction([], (tx) => jobs.ring(tx, { id: ID, group: "a chat", isFront: false }));

  it("[SO3] the end of a claim that is told twice, or late, does not end the next claim of the same process", async () => {
    const first = await jobs.claim(["main"]);
    await ring();
    await jobs.finish(ID, first?.claim ?? 0);
    const second = await jobs.claim(["main"]);
    expect(second).toMatchObject({ id: ID });
    await jobs.finish(ID, first?.claim ?? 0);
    await jobs.putBack(ID, first?.claim ?? 0);
    expect(await jobs.depth()).toEqual({ waiting: 0, running: 1 });
    // And what is worked on is not taken for a claim that nobody knows of.
    expect(await jobs.forget([second?.claim ?? 0])).toBe(0);
    expect(await jobs.forget([first?.claim ?? 0])).toBe(1);
    expect(await jobs.depth()).toEqual({ waiting: 1, running: 0 });
  });

  it("[SO3] what is queued without a place, and what waits for what has come, is found; what still waits is not", async () => {
    const { db, runs } = folder.stores;
    expect(await jobs.unrung()).toEqual([]);
    await db.transaction([], (tx) => tx.run("DELETE FROM lane_jobs"));
    expect(await jobs.unrung()).toEqual([ID]);
    await runs.start(ID);
    await db.transaction([], async (tx) => {
      await runs.insert(tx, newRun(CHILD, { requesterRunId: ID }), { firstMessage: "do it" });
      await runs.wait(tx, ID, [{ for: "children" }], "waiting");
    });
    expect(await jobs.unrung()).toEqual([]);
    await runs.start(CHILD);
    await db.transaction([], (tx) => runs.end(tx, CHILD, { as: "done", reason: null, incomplete: false, delivery: "skipped" }));
    expect(await jobs.unrung()).toEqual([ID]);
    await ring();
    expect(await jobs.unrung()).toEqual([]);
  });

  it("[SO3] a session whose message nobody answers is found, also when it was begun and released; one that is answered is not", async () => {
    const { inbox, installation } = folder.stores;
    const sessions = installation?.jobs("main") as LaneJobs;
    await inbox.sink("telegram", "bot").put([{ externalId: "1", raw: { text: "hello" } }]);
    const [row] = await inbox.listNew(0, 1);
    await inbox.route(row?.id ?? 0, "agent:main:a chat");
    expect(await sessions.unrung()).toEqual(["agent:main:a chat"]);
    await inbox.claim("agent:main:a chat");
    expect(await sessions.unrung()).toEqual([]);
    await inbox.release(row?.id ?? 0);
    expect(await sessions.unrung()).toEqual(["agent:main:a chat"]);
  });

  it("[SO3] one that waits for runs by name is found when one of them has ended", async () => {
    const { db, runs } = folder.stores;
    await runs.start(ID);
    await db.transaction([], async (tx) => {
      await tx.run("DELETE FROM lane_jobs");
      for (const id of [CHILD, "another"]) await runs.insert(tx, newRun(id, { requesterRunId: ID }), { firstMessage: "do it" });
      await runs.wait(tx, ID, [{ for: "runs", ids: [CHILD], mode: "any", since: 0, until: 2 ** 50 }], "waiting");
    });
    expect(await jobs.unrung()).toEqual([]);
    await runs.start(CHILD);
    await db.transaction([], (tx) => runs.end(tx, CHILD, { as: "done", reason: null, incomplete: false, delivery: "skipped" }));
    expect(await jobs.unrung()).toEqual([ID]);
  });
});
