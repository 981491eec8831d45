// The documents of runs follow their rows; trace.md stays in time order, each entry once, however it is written.
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Brief } from "../../../src/brief/brief.ts";
import { BriefResponse } from "../../../src/brief/response.ts";
import { Trace, type TraceEntry } from "../../../src/brief/trace.ts";
import type { EndState, Run } from "../../../src/core/run.ts";
import type { Documents } from "../../../src/subagents/documents/documents.ts";
import { briefIdOf } from "../../../src/subagents/documents/run-documents.ts";
import { addToTrace, readTraceEnd } from "../../../src/subagents/documents/trace-file.ts";
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
    expect(scene.documents.trace(await scene.get(run), 10).map((entry) => entry.action)).toEqual([
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
    const top = join(scene.folder.stores.transcripts.folder("main"), parent.requesterSessionId);
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
    const told = async (run: Run) => [...new Set(scene.documents.trace(await scene.get(run), 50).map((entry) => entry.briefId))];
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
    const actions = scene.documents.trace(await scene.get(run), 10).map((entry) => entry.action);
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

describe("trace.md", () => {
  const entry = (second: number, agent = "a"): TraceEntry => ({
    agent,
    action: `at ${second} ${"x".repeat(60)}`,
    briefId: "brief-abcdef",
    timestamp: new Date(1_700_000_000_000 + second * 1000).toISOString(),
  });
  async function withFolder(work: (folder: string) => Promise<void>): Promise<void> {
    const folder = mkdtempSync(join(tmpdir(), "herald-trace-"));
    try {
      await work(folder);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  }

  it("[BP1] is what merging everything would give, whatever comes in whatever order and how often", async () => {
    const batches = fc.array(fc.array(fc.tuple(fc.nat(400), fc.constantFrom("a", "b")), { minLength: 1, maxLength: 60 }), {
      maxLength: 12,
    });
    await fc.assert(
      fc.asyncProperty(batches, (plan) =>
        withFolder(async (folder) => {
          const expected = Trace.create();
          for (const batch of plan) {
            const entries = batch.map(([second, agent]) => entry(second, agent));
            await addToTrace(folder, entries);
            const fresh = Trace.create();
            for (const one of entries) fresh.append(one);
            expected.merge(fresh);
          }
          const key = (one: TraceEntry) => `${one.timestamp} ${one.agent}`;
          const got = plan.length === 0 ? [] : traceIn(folder);
          expect(got.map((one) => one.timestamp)).toEqual(expected.getEntries().map((one) => one.timestamp));
          expect(got.map(key).toSorted()).toEqual(expected.getEntries().map(key).toSorted());
        }),
      ),
      { numRuns: 60 },
    );
  });

  it("[BP1] new entries are appended: the bytes before them stay as they are", () =>
    withFolder(async (folder) => {
      for (let n = 0; n < 200; n++) await addToTrace(folder, [entry(n)]);
      const before = readFileSync(join(folder, "trace.md"), "utf8");
      await addToTrace(folder, [entry(200)]);
      const after = readFileSync(join(folder, "trace.md"), "utf8");
      expect(after.startsWith(before)).toBe(true);
      expect(Trace.parse(after).length).toBe(201);
      expect(readTraceEnd(folder)).toMatch(/^- \*\*Agent\*\*/);
      expect(Buffer.byteLength(readTraceEnd(folder))).toBeLessThanOrEqual(8 * 1024);
    }));

  it("[BP1] a long trace is put aside whole and a new one begun", () =>
    withFolder(async (folder) => {
      const many = Array.from({ length: 2_500 }, (_, n) => entry(n));
      await addToTrace(folder, many);
      await addToTrace(folder, [entry(3_000)]);
      await addToTrace(folder, [entry(3_001)]);
      const [aside] = readdirSync(folder).filter((name) => name !== "trace.md");
      expect(aside).toMatch(/^trace\.2023-.*\.md$/);
      expect(Trace.parse(readFileSync(join(folder, aside ?? ""), "utf8")).length).toBe(2_501);
      expect(traceIn(folder)).toEqual([entry(3_001)]);
    }));
});
