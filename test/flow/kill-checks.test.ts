// Kill -9 around checks and finish: rounds are counted once and told once, and what was accepted is what the run ends with.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { FAILPOINTS } from "../../src/core/failpoints.ts";
import { calls, child, plan, spawns, whoAsks } from "../support/brain.ts";
import { isShared } from "../support/nodes.ts";
import { type Chat, createScene, type Scene } from "../support/scene.ts";

const POINTS = FAILPOINTS.filter((point) => /^(?:check|finish)\./.test(point));
const returnsOf = (scene: Scene, sessionId: string): number =>
  scene
    .transcripts("main", sessionId)
    .flatMap((text) => text.split("\n"))
    .filter((line) => line.includes("The gateway checked your work") && line.includes('"from":"runtime"')).length;

/** Says it, dies at its point, starts again. */
async function sayAndDie(scene: Scene, chat: Chat, text: string): Promise<void> {
  const said = chat.say(text);
  await scene.herald.exited();
  await scene.herald.restart();
  await said;
}

const roundsOf = (scene: Scene, id: string): number | undefined =>
  scene.herald.rows<{ check_rounds: number }>("SELECT check_rounds FROM runs WHERE id = ?", id)[0]?.check_rounds;

// Of several processes nobody knows which comes by a point for the second time.
describe.skipIf(isShared)("[EV2] CHK-005 kill -9 around checks", () => {
  it("[EV2] CHK-005 no point is left out", () =>
    expect(POINTS).toEqual(["check.begun", "check.failed", "check.returned", "finish.accepted"]));

  it.concurrent.each([
    "check.begun:1",
    "check.begun:2",
    "check.begun:3",
    "check.failed:1",
    "check.failed:2",
    "check.returned:1",
    "check.returned:2",
    "check.failed:3",
  ])("[EV2] CHK-005 %s: two rounds in all, told once each, then error, announced once", { timeout: 60_000 }, async (failpoint) => {
    await using scene = await createScene({ failpoint });
    const chat = scene.chat();
    const steps = [{ text: "first" }, { text: "second" }, { text: "third" }, { text: "never" }];
    await sayAndDie(
      scene,
      chat,
      plan([spawns(child("liar", steps, { checks: [{ exists: "nowhere" }, { exists: "." }] })), { text: "sent" }]),
    );
    const text = await chat.announced("liar");
    expect(text).toMatch(/^Status: error$/m);
    expect(text).toMatch(/^Result:\nthird$/m);
    expect(text).toContain("Checks: 1 of 2 passed");
    const { id, session_id } = chat.run("liar");
    expect([roundsOf(scene, id), returnsOf(scene, session_id)]).toEqual([2, 2]);
    expect(await chat.announcements()).toHaveLength(1);
    const told = scene.model.calls.filter((request) => whoAsks(request) === "child").length;
    expect(told).toBe(3);
  });

  it.concurrent("[EV2] CHK-005 what the first round found means nothing to the next: success only when all pass in one", {
    timeout: 60_000,
  }, async () => {
    await using scene = await createScene({ failpoint: "check.begun:2" });
    const chat = scene.chat();
    mkdirSync(join(scene.herald.stateDir, "workspace"), { recursive: true });
    writeFileSync(join(scene.herald.stateDir, "workspace/one.md"), "one");
    const steps = [{ text: "first" }, calls(["write", { path: "two.md", content: "two" }]), { text: "both are there" }];
    await sayAndDie(
      scene,
      chat,
      plan([spawns(child("fixer", steps, { checks: [{ exists: "one.md" }, { exists: "two.md" }] })), { text: "sent" }]),
    );
    const text = await chat.announced("fixer");
    expect(text).toMatch(/^Status: success$/m);
    expect(text).toMatch(/^Notes:\nChecks: 2 of 2 passed\n- The gateway restarted while this ran/m);
    expect(roundsOf(scene, chat.run("fixer").id)).toBe(1);
  });
});

describe.skipIf(isShared)("[TR1] TYP-006 kill -9 behind an accepted finish", () => {
  it.concurrent.each(["finish.accepted", "turn.after-tool:2", "turn.result-appended:2", "run.worked", "run.announced", "run.before-end"])(
    "[TR1] TYP-006 %s: it ends with that data, no further model call for it, one announcement, the requester reads the same",
    { timeout: 60_000 },
    async (failpoint) => {
      await using scene = await createScene({ failpoint });
      const chat = scene.chat();
      const resultSchema = { type: "object", properties: { total: { type: "number" } }, required: ["total"] };
      const steps = [calls(["finish", { data: { total: 42 } }], ["write", { path: "never.md", content: "x" }]), { text: "never" }];
      await sayAndDie(scene, chat, plan([spawns(child("typed", steps, { resultSchema })), { text: "sent" }]));
      expect(await chat.announced("typed")).toMatch(/^Status: success$[\s\S]*\| total \| 42 \|/m);
      const { id, session_id } = chat.run("typed");
      expect(scene.herald.rows<{ data: string }>("SELECT data FROM runs WHERE id = ?", id)).toEqual([{ data: '{"total":42}' }]);
      expect(await chat.announcements()).toHaveLength(1);
      expect(scene.model.calls.filter((request) => whoAsks(request) !== "main")).toHaveLength(1);
      expect(scene.transcripts("main", session_id).join("")).toContain("Not carried out: the run is finished.");
      await chat.ask(plan([{ text: "read" }]));
      const main = scene.model.calls.filter((request) => whoAsks(request) === "main").at(-1);
      expect(main?.messages.map(({ text }) => text).join("\n")).toContain('{"total":42}');
    },
  );
});
