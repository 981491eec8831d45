// The documents of runs follow their rows. How a trace grows: test/contract/documents.contract.ts.
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { Brief } from "../../../src/brief/brief.ts";
import { BriefResponse } from "../../../src/brief/response.ts";
import { Trace, type TraceEntry } from "../../../src/brief/trace.ts";
import type { EndState, Run } from "../../../src/core/run.ts";
import type { Documents } from "../../../src/subagents/documents/documents.ts";
import { briefIdOf } from "../../../src/subagents/documents/run-documents.ts";
import { createDelegation, type Delegation } from "../../support/delegation.ts";

const ended = async (scene: Delegation, run: Run, as: EndState, incomplete = false): Promise<void> => {
  await scene.folder.stores.db.transaction([], (tx) =>
    scene.folder.stores.runs.end(tx, run.id, { as, reason: as === "done" ? null : "why", incomplete, delivery: "skipped" }),
  );
};
const started = async (scene: Delegation, run: Run): Promise<void> => void (await scene.folder.stores.runs.start(run.id));
const read = (scene: Delegation, run: Run, ending: string): string =>
  readFileSync(join(scene.folderOf(run), `${briefIdOf(run.id)}${ending}`), "utf8");
const traceIn = (folder: string): readonly TraceEntry[] => Trace.parse(readFileSync(join(folder, "trace.md"), "utf8")).getEntries();

/** What a start does. */
async function follow(documents: Documents): Promise<void> {
  await documents.takeUp();
  documents.start();
}

describe("documents", () => {
  it.each([
    ["done", false, "success"],
    ["done", true, "partial"],
    ["error", false, "failure"],
    ["timeout", false, "failure"],
    ["interrupted", false, "failure"],
    ["stopped", false, "rejected"],
  ] as const)("[BP1] a run that ended %s (incomplete: %s) answers %s", async (as, incomplete, status) => {
    await using scene = await createDelegation();
    await follow(scene.documents);
    const run = await scene.spawn("job");
    await started(scene, run);
    await ended(scene, run, as, incomplete);
    await scene.documents.stop();
    expect(Brief.parse(read(scene, run, ".brief.md"))).toMatchObject({ id: briefIdOf(run.id), delegator: run.requesterKey });
    expect(read(scene, run, ".brief.md")).toContain("the whole of job");
    expect(BriefResponse.parse(read(scene, run, ".response.md"))).toMatchObject({ id: briefIdOf(run.id), status });
    expect(await scene.folder.stores.runs.listUndocumented(10)).toEqual([]);
  });

  it("[BP1] writing again changes no byte", async () => {
    await using scene = await createDelegation();
    await follow(scene.documents);
    const run = await scene.spawn("job");
    await started(scene, run);
    await ended(scene, run, "done");
    await scene.documents.stop();
    const folder = scene.folderOf(run);
    const before = readdirSync(folder).map((name) => readFileSync(join(folder, name), "utf8"));
    await scene.folder.stores.db.transaction([], (tx) => tx.run("UPDATE runs SET documented = 0"));
    const again = scene.restart();
    await follow(again);
    await again.stop();
    expect(readdirSync(folder).map((name) => readFileSync(join(folder, name), "utf8"))).toEqual(before);
  });

  it("[BP1] what was recorded while nobody wrote is made good at the next start", async () => {
    await using scene = await createDelegation();
    const run = await scene.spawn("job");
    await started(scene, run);
    await ended(scene, run, "done");
    expect(existsSync(scene.folderOf(run))).toBe(false);
    expect((await scene.folder.stores.runs.listUndocumented(10)).map((one) => one.id)).toEqual([run.id]);
    await follow(scene.documents);
    await scene.documents.stop();
    expect(BriefResponse.parse(read(scene, run, ".response.md")).isSuccess).toBe(true);
    expect((await scene.documents.trace(await scene.get(run), 10)).map((entry) => entry.action)).toEqual([
      expect.stringContaining("Delegated"),
      "Started",
      "Ended: done, status success",
    ]);
  });

  it("[RN4][BP1] stopping has its time: what is not written by then is written at the next start", async () => {
    await using scene = await createDelegation();
    await follow(scene.documents);
    const runs = await Promise.all(Array.from({ length: 40 }, (_, i) => scene.spawn(`job ${i}`)));
    for (const run of runs) await ended(scene, run, "stopped");
    const stopped = scene.documents.stop();
    await scene.folder.clock.advance(2_000);
    await stopped;
    const left = await scene.folder.stores.runs.listUndocumented(100);
    expect(left.length).toBeGreaterThan(0);
    const again = scene.restart();
    await follow(again);
    await again.stop();
    expect(await scene.folder.stores.runs.listUndocumented(100)).toEqual([]);
    for (const run of runs) expect(BriefResponse.parse(read(scene, run, ".response.md")).status).toBe("rejected");
  });

  it("[BP1] the traces of a fan-out meet in the requester's, also when a stop ends the parent before its children", async () => {
    await using scene = await createDelegation();
    const { clock } = scene.folder;
    await follow(scene.documents);
    const parent = await scene.spawn("parent");
    await clock.advance(1_000);
    await started(scene, parent);
    const children = await Promise.all(["a", "b", "c"].map(async (label) => scene.spawn(label, await scene.get(parent))));
    for (const child of children) {
      await clock.advance(1_000);
      await started(scene, child);
    }
    await clock.advance(1_000);
    for (const run of [parent, ...children]) await ended(scene, run, "stopped");
    await scene.documents.stop();
    const top = join(scene.folder.stateDir, "agents", "main", "sessions", parent.requesterSessionId);
    const entries = traceIn(top);
    for (const run of [parent, ...children]) {
      const own = entries.filter((entry) => entry.briefId === briefIdOf(run.id)).map((entry) => entry.action.split(/[ :]/)[0]);
      expect(own).toEqual(["Delegated", "Started", "Ended"]);
    }
    expect(entries).toHaveLength(12);
    expect(entries.map((entry) => entry.timestamp)).toEqual(entries.map((entry) => entry.timestamp).toSorted());
    expect(traceIn(scene.folderOf(children[0] as Run)).map((entry) => entry.agent)).toContain(parent.requesterKey);
    // Told of one run: itself and those below it, not those beside it, though its file begins with them.
    const [eldest, , youngest] = children as [Run, Run, Run];
    expect(traceIn(scene.folderOf(youngest)).map((entry) => entry.briefId)).toContain(briefIdOf(eldest.id));
    const told = async (run: Run) => [...new Set((await scene.documents.trace(await scene.get(run), 50)).map((entry) => entry.briefId))];
    expect(await told(youngest)).toEqual([briefIdOf(youngest.id)]);
    expect(await told(parent)).toEqual([parent, ...children].map((run) => briefIdOf(run.id)));
  });

  it("[BP1] a run that goes on again answers anew and leaves both generations in the trace", async () => {
    await using scene = await createDelegation();
    await follow(scene.documents);
    const run = await scene.spawn("job");
    await started(scene, run);
    await ended(scene, run, "error");
    await scene.folder.clock.advance(5_000);
    await scene.folder.stores.db.transaction([], (tx) => scene.folder.stores.runs.reopen(tx, run));
    await started(scene, run);
    await scene.folder.clock.advance(5_000);
    await ended(scene, run, "done");
    await scene.documents.stop();
    expect(BriefResponse.parse(read(scene, run, ".response.md")).status).toBe("success");
    const actions = (await scene.documents.trace(await scene.get(run), 10)).map((entry) => entry.action);
    expect(actions).toContain("Took it up again (generation 2)");
    expect(actions.at(-1)).toBe("Ended: done, status success");
  });

  it("[BP1] a folder that can't be written is logged, and tried again at the next start", async () => {
    await using scene = await createDelegation();
    await follow(scene.documents);
    const run = await scene.spawn("job");
    writeFileSync(scene.folderOf(run), "in the way");
    await started(scene, run);
    await ended(scene, run, "done");
    await scene.documents.stop();
    expect(scene.folder.lines.some((line) => line.msg === "the documents of a run could not be written")).toBe(true);
    rmSync(scene.folderOf(run));
    const again = scene.restart();
    await follow(again);
    await again.stop();
    expect(BriefResponse.parse(read(scene, run, ".response.md")).isSuccess).toBe(true);
  });

  it("[BP1][RC4] a removed transcript leaves documents with what the record knows", async () => {
    await using scene = await createDelegation();
    const run = await scene.spawn("job");
    await started(scene, run);
    await ended(scene, run, "error");
    rmSync(scene.folder.stores.transcripts.path({ agentId: run.agentId, sessionId: run.sessionId }));
    await follow(scene.documents);
    await scene.documents.stop();
    expect(Brief.parse(read(scene, run, ".brief.md")).body).toContain("do job");
    expect(BriefResponse.parse(read(scene, run, ".response.md")).body).toMatch(/failed: why[\s\S]*\(not available\)/);
  });

  it("[SC4] secrets stand in the documents by name only", async () => {
    await using scene = await createDelegation();
    scene.folder.secrets.add("the token", "tok-0123456789abcdef");
    await follow(scene.documents);
    const run = await scene.spawn("tok-0123456789abcdef", undefined, {});
    await started(scene, run);
    await ended(scene, run, "done");
    await scene.documents.stop();
    for (const name of readdirSync(scene.folderOf(run)))
      expect(readFileSync(join(scene.folderOf(run), name), "utf8")).not.toContain("tok-0123456789abcdef");
  });
});
