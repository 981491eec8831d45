// The child's plan: what is noted, who has the tool, and what people read of it.
import { describe, expect, it } from "vitest";
import { stepOf } from "../../../src/core/run.ts";
import { childTools } from "../../../src/subagents/child.ts";
import { infoText, listText } from "../../../src/subagents/overview.ts";
import { createPlanTool } from "../../../src/subagents/plan-tool.ts";
import { createDelegation, makeAgent } from "../../support/delegation.ts";
import { makeRun } from "../../support/runs.ts";
import { callTool } from "../../support/tool-context.ts";

const steps = (...statuses: ("pending" | "doing" | "done")[]) => statuses.map((status, n) => ({ title: `step ${n + 1}`, status }));

describe("plan", () => {
  it("[NV4] notes the whole plan, replaces it, and the record tells the step the run is at", async () => {
    await using scene = await createDelegation();
    const tool = createPlanTool(scene.folder.stores);
    const run = await scene.spawn("job");
    await scene.folder.stores.runs.start(run.id);
    const note = (list: unknown) => callTool(tool, { steps: list }, { runId: run.id });
    expect(await note(steps("doing", "pending"))).toEqual({ text: "Noted: 1/2 step 1." });
    expect(await note(steps("done", "pending", "pending"))).toEqual({ text: "Noted: 2/3 step 2." });
    expect(stepOf((await scene.get(run)).plan)).toBe("2/3 step 2");
    await note(steps("done", "done"));
    expect(stepOf((await scene.get(run)).plan)).toBe("2/2 all steps done");
    await scene.folder.stores.db.transaction([], (tx) =>
      scene.folder.stores.runs.end(tx, run.id, { as: "done", reason: null, incomplete: false, delivery: "skipped" }),
    );
    await note(steps("doing"));
    expect((await scene.get(run)).plan).toEqual(steps("done", "done"));
    await scene.folder.stores.db.transaction([], (tx) => scene.folder.stores.runs.reopen(tx, run));
    expect((await scene.get(run)).plan).toBeNull();
  });

  it("[NV4] keeps titles to one line, and refuses what is no plan", async () => {
    await using scene = await createDelegation();
    const tool = createPlanTool(scene.folder.stores);
    const run = await scene.spawn("job");
    await scene.folder.stores.runs.start(run.id);
    await callTool(tool, { steps: [{ title: ` a\n- **b**\u0007 ${"x".repeat(300)}`, status: "doing" }] }, { runId: run.id });
    const title = (await scene.get(run)).plan?.[0]?.title ?? "";
    expect(title).toMatch(/^a - \*\*b\*\* x+…$/);
    expect([...title]).toHaveLength(120);
    for (const bad of [[], [{ title: " ", status: "doing" }], [{ title: "x", status: "maybe" }], steps(...Array(31).fill("pending"))])
      expect(tool.schema.safeParse({ steps: bad }).success).toBe(false);
    expect(await callTool(tool, { steps: steps("doing") }, { runId: null })).toMatchObject({ isError: true });
  });

  it("[NV4][TL2] is offered to every child by default, and taken away by planning: false, a policy or a list like any tool", async () => {
    await using scene = await createDelegation();
    const tool = createPlanTool(scene.folder.stores);
    const has = (agent: Parameters<typeof makeAgent>[2], run = makeRun()): boolean =>
      childTools([tool], makeAgent("main", "/nonexistent", agent), run).length === 1;
    expect(has({})).toBe(true);
    for (const role of ["general", "explore", "plan", "review", "implementer", "verifier"])
      expect(has({}, makeRun({ params: { role } }))).toBe(true);
    expect(has({ planning: false })).toBe(false);
    expect(has({ policies: [{ deny: ["plan"] }] })).toBe(false);
    expect(has({ policies: [{ allow: ["read"] }] })).toBe(false);
    expect(has({}, makeRun({ params: { role: "custom", allowedTools: ["read"] } }))).toBe(false);
    expect(has({}, makeRun({ params: { role: "custom", allowedTools: ["plan"] } }))).toBe(true);
  });

  it("[NV4][OB2] list and info show the step of a running run", () => {
    const run = makeRun({ plan: steps("done", "doing", "pending"), doing: "read" });
    const list = listText({
      runs: [run],
      now: 2_000_000,
      boots: new Set(["boot-1"]),
      title: "Subagents",
      leftOut: 0,
      position: () => null,
      groups: [],
      limitOf: () => null,
      waitsFor: () => null,
    });
    expect(list).toContain("step 2/3 step 2 · read");
    const info = infoText({
      run,
      now: 2_000_000,
      transcript: "/t",
      archiveDue: null,
      position: null,
      answeredBy: [],
      limit: null,
      group: null,
    });
    expect(info).toContain("- **Step:** 2/3 step 2");
    expect(
      listText({
        runs: [makeRun()],
        now: 2_000_000,
        boots: new Set(["boot-1"]),
        title: "S",
        leftOut: 0,
        position: () => null,
        groups: [],
        limitOf: () => null,
        waitsFor: () => null,
      }),
    ).not.toContain("step");
  });
});
