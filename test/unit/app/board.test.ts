import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createRunBoard } from "../../../src/app/board.ts";
import { noFailpoints } from "../../../src/core/failpoints.ts";
import { newId } from "../../../src/core/ids.ts";
import type { Run } from "../../../src/core/run.ts";
import { briefIdOf } from "../../../src/subagents/documents/run-documents.ts";
import { paymentsOf } from "../../support/payments.ts";
import { makeRun } from "../../support/runs.ts";
import { createStateFolder, type StateFolder } from "../../support/state-folder.ts";

let state: StateFolder;
let page: ReturnType<typeof createRunBoard>;

beforeEach(async () => {
  state = await createStateFolder();
  page = createRunBoard({
    stores: state.stores,
    lane: { positions: async (ids) => new Map(ids.map((id) => [id, 7])) },
    archiver: { dueAt: () => 123 },
    payments: paymentsOf({ ...state.stores, clock: state.clock, bus: state.bus, failpoint: noFailpoints }),
    ...{
      again: { taskOf: async () => null },
      briefing: { list: async () => [], version: async () => 0 },
      clock: state.clock,
      log: state.log,
    },
  });
});

afterEach(() => {
  state[Symbol.dispose]();
});

async function spawn(changes: Partial<Run> = {}): Promise<Run> {
  const ids = { id: newId(), spawnKey: newId(), sessionId: newId(), childKey: `agent:main:subagent:${newId()}` };
  const run = makeRun({ ...ids, ...changes });
  await state.stores.db.transaction([], (tx) => state.stores.runs.insert(tx, run));
  await state.stores.transcripts.create(run, { key: run.childKey, parent: run.requesterKey });
  await state.clock.advance(10);
  return run;
}

async function end(run: Run, delivery: Run["delivery"]): Promise<void> {
  await state.stores.runs.start(run.id);
  await state.stores.db.transaction([], (tx) =>
    state.stores.runs.end(tx, run.id, { as: "done", reason: null, incomplete: false, delivery }),
  );
}

function folderOf(run: Run): string {
  const folder = join(state.stateDir, "agents", run.agentId, "sessions", run.sessionId);
  mkdirSync(folder, { recursive: true });
  return folder;
}

describe("the board", () => {
  it("[WB1] holds all that need a person and all unfinished ones, however old, then the newest others", async () => {
    const stuck = await spawn({ label: "stuck" });
    await end(stuck, "blocked");
    const waiting = await spawn({ label: "waiting" });
    for (let n = 0; n < 6; n++) await end(await spawn({ label: `done ${n}` }), "delivered");
    const labels = (await page.board.listRuns({ limit: 4 })).map((run) => run.label);
    expect(labels).toEqual([stuck.label, waiting.label, "done 5", "done 4"]);
    const [plan] = await state.stores.db.all<{ detail: string }>(
      "EXPLAIN QUERY PLAN SELECT * FROM runs WHERE delivery = 'blocked' ORDER BY created_at DESC LIMIT 5",
    );
    expect(plan?.detail).toContain("runs_blocked");
  });

  it("[WB1] says where a run was asked for, whose child it is and the step it is at", async () => {
    const parent = await spawn();
    const address = { channel: "telegram", account: "bot", chat: "-1001", thread: "7", kind: "group" } as const;
    const run = await spawn({ address, requesterRunId: parent.id, depth: 2 });
    await state.stores.runs.start(run.id);
    await state.stores.runs.setPlan(run.id, [{ title: "Read", status: "doing" }]);
    const view = (await page.details.find(run.id))?.run;
    expect(view).toMatchObject({ origin: "telegram -1001, thread 7", chat: null, parentId: parent.id, step: "1/1 Read", position: 7 });
    expect((await page.details.find(parent.id))?.run).toMatchObject({ origin: "web main", chat: "main", parentId: null, step: null });
  });

  it("[AP1][WB1] says when a result goes out that is held for a digest: with the first that is due at its address", async () => {
    const [first, second, other, sent] = [await spawn(), await spawn(), await spawn(), await spawn()];
    const { digests, db } = state.stores;
    const now = state.clock.now();
    const hold = (run: Run, dueAt: number, chat = "main") =>
      db.transaction([], (tx) =>
        digests.hold(tx, { runId: run.id, generation: 1, address: { ...run.address, chat }, dueAt, message: { markdown: "x" } }),
      );
    for (const run of [first, second, other, sent]) await end(run, "pending");
    await hold(first, now + 60_000);
    await hold(second, now + 90_000);
    await hold(other, now + 30_000, "elsewhere");
    await hold(sent, now + 10, "third");
    await db.transaction([], (tx) => digests.take(tx, { runId: sent.id, generation: 1 }, "digest:1"));
    const digestAt = new Map((await page.board.listRuns({ limit: 10 })).map((run) => [run.id, run.digestAt]));
    expect([first, second, other, sent].map(({ id }) => digestAt.get(id))).toEqual([now + 60_000, now + 60_000, now + 30_000, null]);
  });
});

describe("limits and repetitions", () => {
  it("[BG5] a run says what is spent of its own limit, of either side; one without a limit says nothing", async () => {
    const limited = await spawn({ budget: { usd: 500_000, tokens: 20_000 } });
    const free = await spawn();
    const level = { id: `run:${limited.id}`, name: "it", cap: { usd: null, tokens: null } };
    const { db, budgets } = state.stores;
    await db.transaction([], (tx) => budgets.reserve(tx, "hold", [level], { usd: 120_000, tokens: 18_000 }));
    await budgets.settle("hold", { usd: 120_000, tokens: 18_000 });
    const [view, other] = await Promise.all([limited, free].map(async ({ id }) => (await page.details.find(id))?.run));
    expect(view?.limit).toEqual({ usd: "$0.12 of $0.50", tokens: "18k of 20k tokens", share: 0.9 });
    expect(other?.limit).toBeNull();
    expect((await page.board.listRuns({ limit: 5 })).map(({ limit }) => limit?.usd ?? null)).toEqual(["$0.12 of $0.50", null]);
  });

  it("[BG6] the button that raises it is there once it ended for want of its own budget, and only then", async () => {
    const budget = { usd: null, tokens: 20_000 };
    const [own, others, working] = [await spawn({ budget }), await spawn({ budget }), await spawn({ budget })];
    const over = async (run: Run, reason: string): Promise<void> => {
      await state.stores.runs.start(run.id);
      const end = { as: "done", reason, incomplete: true, delivery: "delivered" } as const;
      await state.stores.db.transaction([], (tx) => state.stores.runs.end(tx, run.id, end));
    };
    await over(own, "The budget of this run is used up: 20k of 20k tokens.");
    await over(others, "The budget of everything today is used up: 20k of 20k tokens.");
    const goOn = async ({ id }: Run) => (await page.details.find(id))?.run.goOn;
    expect(await goOn(own)).toEqual({ label: "Go on, +20k tokens", command: `/subagents budget ${own.id} x2 g1` });
    expect([await goOn(others), await goOn(working)]).toEqual([null, null]);
  });

  it("[RP1][RP2] the run it repeats, those that repeat it and others of its requester, each in one list only", async () => {
    const first = await spawn({ label: "first" });
    const again = await spawn({ label: "again", rerunOf: first.id });
    const last = await spawn({ label: "last", rerunOf: first.id });
    const stranger = await spawn({ label: "stranger", requesterKey: "agent:main:web:dm:other", rootKey: "agent:main:web:dm:other" });
    const labels = async ({ id }: Run) => {
      const related = await page.details.related(id);
      return [related?.repeats?.label ?? null, related?.repeatedBy.map(({ label }) => label), related?.others.map(({ label }) => label)];
    };
    expect(await labels(first)).toEqual([null, ["last", "again"], []]);
    expect(await labels(again)).toEqual(["first", [], ["last"]]);
    expect(await labels(stranger)).toEqual([null, [], []]);
    const below = await spawn({ label: "below", requesterKey: first.childKey, rootKey: first.requesterKey, requesterRunId: first.id });
    expect(await labels(below)).toEqual([null, [], ["last", "again", "first"]]);
    expect(await page.details.find(last.id)).toMatchObject({ repeats: { label: "first" }, repeatedBy: [] });
    const [plan] = await state.stores.db.all<{ detail: string }>(
      "EXPLAIN QUERY PLAN SELECT * FROM runs WHERE rerun_of = ? ORDER BY seq DESC",
      "x",
    );
    expect(plan?.detail).toContain("runs_rerun");
  });
});

describe("the open run", () => {
  it("[WB1] [BP1] FM-024 shows the trace of its folder; of one with a million lines only the end", async () => {
    const run = await spawn({ task: "x".repeat(500) });
    expect(await page.details.find(run.id)).toMatchObject({
      task: `${"x".repeat(500)}… (the transcript has it all)`,
      facts: { archiveDueAt: 123 },
    });
    expect(await page.details.find(run.id)).not.toHaveProperty("trace");
    // Every other entry is about a run beside it: not this one's to tell.
    const entry = (n: number) =>
      `- **Agent**: \`main\` @ \`2026-01-01T00:00:00.000Z\`\n  - **Action**: step ${n}\n  - **Brief**: \`${n % 2 === 1 ? briefIdOf(run.id) : "brief-abcdef"}\`\n`;
    writeFileSync(join(folderOf(run), "trace.md"), Array.from({ length: 500_000 }, (_, n) => entry(n)).join(""));
    const detail = await page.details.find(run.id);
    expect(detail?.trace?.at(-1)).toMatchObject({ agent: "main", action: "step 499999" });
    expect(detail?.trace?.length).toBeLessThan(1_000);
    expect(detail?.trace?.length).toBeGreaterThan(10);
    expect(detail?.trace?.filter(({ action }) => Number(action.split(" ")[1]) % 2 === 0)).toEqual([]);
  });

  it("[WB1] a document that is no regular file is left out and logged, the record is shown all the same", async () => {
    const run = await spawn();
    writeFileSync(join(state.stateDir, "secret"), "secret");
    symlinkSync(join(state.stateDir, "secret"), join(folderOf(run), "trace.md"));
    expect(await page.details.find(run.id)).not.toHaveProperty("trace");
    expect(state.lines.some((line) => line.msg === "a document of a run can't be read" && line.runId === run.id)).toBe(true);
  });

  it("[WB1] [AN5] its transcript is without the announce step and without empty words, and is read after archiving too", async () => {
    const run = await spawn();
    const words = (text: string) => ({ type: "message", role: "assistant", text, model: "m", calls: 0 }) as const;
    await state.stores.transcripts.append(run, [
      words("one"),
      words("  "),
      { ...words("Result: two"), phase: "announce" },
      { type: "tool_call", callId: "c", name: "read", args: {} },
    ]);
    const typesOf = async () => (await page.details.transcript(run.id, { before: null, limit: 9 }))?.entries.map(({ entry }) => entry.type);
    expect(await typesOf()).toEqual(["message", "tool_call"]);
    await end(run, "delivered");
    await state.stores.db.transaction([], (tx) => state.stores.runs.setArchiveName(tx, run.id, `${run.sessionId}.jsonl.deleted.2026`));
    await state.stores.transcripts.archive(run, `${run.sessionId}.jsonl.deleted.2026`);
    await state.stores.db.transaction([], (tx) => state.stores.runs.setArchived(tx, run.id));
    expect(await typesOf()).toEqual(["message", "tool_call"]);
  });

  it("[WB1] unknown runs and removed transcripts are nothing, not an error", async () => {
    const run = makeRun({ id: newId(), spawnKey: newId(), sessionId: newId(), childKey: `agent:main:subagent:${newId()}` });
    expect([await page.details.find(run.id), await page.details.transcript(run.id, { before: null, limit: 1 })]).toEqual([null, null]);
    await state.stores.db.transaction([], (tx) => state.stores.runs.insert(tx, run));
    expect(await page.details.transcript(run.id, { before: null, limit: 1 })).toBeNull();
    expect((await page.details.find(run.id))?.run.id).toBe(run.id);
  });
});
