// A person's brief on the page: one more requester, within the caps, of what was seen, while somebody reads it; and its history.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { briefsOf, createBriefDesk } from "../../../src/app/brief-desk.ts";
import { newId } from "../../../src/core/ids.ts";
import type { Run } from "../../../src/core/run.ts";
import { lock } from "../../../src/stores/lock-keys.ts";
import type { BriefDesk } from "../../../src/web/briefs.ts";
import { createDelegation, type Delegation } from "../../support/delegation.ts";
import { waitFor } from "../../support/wait.ts";

const CHAT = "agent:main:web:dm:main";
const brief = (mission: string, constraints: string[] = [], sharedMemory: object[] = []) => ({ mission, sharedMemory, constraints });

let scene: Delegation;
let desk: BriefDesk;
let run: Run;

beforeEach(async () => {
  scene = await createDelegation();
  const { stores, log } = scene.folder;
  const steering = { locks: (runs: readonly Run[]) => runs.map(({ rootKey }) => lock.tree(rootKey)) };
  desk = createBriefDesk({ stores, briefing: scene.briefing, steering, log });
  run = await scene.spawn("one");
});
afterEach(async () => scene[Symbol.asyncDispose]());

const byModel = (mission: string) =>
  scene.folder.stores.db.transaction([], (tx) => scene.briefing.apply(tx, run, CHAT, { ...brief(mission), sharedMemory: [] }));
const version = async () => (await briefsOf(scene.briefing, run)).version;
const give = async (wanted: object, replaces: string | null = null) =>
  desk.give(run.id, { version: await version(), brief: wanted, replaces });
const standing = async () => (await briefsOf(scene.briefing, run)).briefs.map(({ from, isOurs, mission }) => ({ from, isOurs, mission }));
const section = async () => (await scene.briefing.read(run)).section;

describe("a brief given on the page", () => {
  it("[BF3] takes the place of the one it was made from; a model's next one stands beside it and takes nothing of it back", async () => {
    await byModel("Mind the docs.");
    expect(await give(brief("Mind the tests.", ["no guessing"]), CHAT)).toMatchObject({ status: "taken" });
    expect(await standing()).toEqual([{ from: "the page", isOurs: true, mission: "Mind the tests." }]);
    expect(await section()).toMatch(/From the page at .*[\s\S]*> Mind the tests\.[\s\S]*- no guessing/);
    expect(readFileSync(join(scene.folderOf(run), "BRIEF.md"), "utf8")).not.toContain("docs");
    await scene.folder.clock.advance(10);
    await byModel("Mind the docs, I said.");
    const { db } = scene.folder.stores;
    expect((await standing()).map(({ from }) => from)).toEqual(["the page", CHAT]);
    expect(await db.transaction([], (tx) => scene.briefing.revoke(tx, run, CHAT, CHAT))).toBe(1);
    expect(await standing()).toEqual([{ from: "the page", isOurs: true, mission: "Mind the tests." }]);
  });

  it("[BF1] is held against the same caps, and each that fired is named; nothing is written", async () => {
    const tooMuch = brief(
      "ä".repeat(251),
      Array.from({ length: 21 }, () => "x"),
      [{ tier: "daily", reason: "r" }],
    );
    const answer = await give(tooMuch);
    expect(answer?.status).toBe("unfit");
    expect(answer?.text).toMatch(/mission has 502 bytes; the cap is 500 bytes/);
    expect(answer?.text).toMatch(/constraints has 21 entries; the cap is 20/);
    expect(answer?.text).toMatch(/tier daily needs a key/);
    for (const wrong of [null, "words", [], { mission: "x", more: 1 }]) expect((await give(wrong as object))?.status).toBe("unfit");
    expect([await standing(), await version()]).toEqual([[], 0]);
  });

  it("[BF4] its memory is that of the agent that asked, and no more than it names", async () => {
    scene.put("main", "memory/pins/api.md", "the API is old");
    scene.put("main", "memory/pins/other.md", "not named");
    await give(brief("Mind it.", [], [{ tier: "pins", key: "api", reason: "names" }]));
    const { memory } = await scene.briefing.read(run);
    expect(memory).toContain("the API is old");
    expect(memory).not.toContain("not named");
  });

  it("[WB5] nobody replaces what he has not seen: of two who saw the same the second is told, a model's change counts too", async () => {
    await byModel("First.");
    const seen = await version();
    const two = await Promise.all(
      ["One.", "Other."].map((mission) => desk.give(run.id, { version: seen, brief: brief(mission), replaces: CHAT })),
    );
    expect(two.map((answer) => answer?.status).sort()).toEqual(["late", "taken"]);
    const stale = await version();
    await byModel("Anew.");
    expect(await desk.revoke(run.id, { version: stale, from: CHAT })).toEqual({
      status: "late",
      text: "Its briefs were changed meanwhile. Look at them again.",
    });
    expect(await standing()).toHaveLength(2);
  });

  it("[WB5] one that has ended is not briefed any more, one that is not there is none", async () => {
    await byModel("Mind it.");
    const { runs, db } = scene.folder.stores;
    await runs.start(run.id);
    await db.transaction([], (tx) => runs.end(tx, run.id, { as: "done", reason: null, incomplete: false, delivery: "skipped" }));
    expect(await give(brief("late"))).toEqual({ status: "late", text: "It has ended (done): there is nobody left to read a brief." });
    expect((await desk.revoke(run.id, { version: await version(), from: CHAT }))?.status).toBe("late");
    const nobody = { version: 0, brief: brief("x"), replaces: null, from: CHAT };
    expect([await desk.give(newId(), nobody), await desk.revoke(newId(), nobody), await desk.history(newId())]).toEqual([null, null, null]);
  });

  it("[BF3] taken back it is gone from what the child reads, from BRIEF.md and from nothing else", async () => {
    await byModel("Mind the docs.");
    await give(brief("Mind the tests."));
    expect((await desk.revoke(run.id, { version: await version(), from: "the page" }))?.status).toBe("taken");
    expect(await section()).not.toContain("tests");
    expect(readFileSync(join(scene.folderOf(run), "BRIEF.md"), "utf8")).toMatch(/Mind the docs\./);
    await waitFor("the page to hear of it", () =>
      scene.folder.events.some((event) => event.type === "run.changed" && event.runId === run.id),
    );
  });
});

describe("the history of briefs", () => {
  const told = async () => (await desk.history(run.id))?.history.map(({ by, what, patch }) => ({ by, what, patch })) ?? [];

  it("[WB5] who, when, what: each change as a difference of what the child reads, newest first", async () => {
    await byModel("Mind the docs.");
    await scene.folder.clock.advance(1_000);
    await give(brief("Mind the docs.", ["no guessing"]), CHAT);
    await give(brief("Mind the tests.", ["no guessing"]));
    await desk.revoke(run.id, { version: await version(), from: "the page" });
    const events = await told();
    expect(events.map(({ by, what }) => `${by} ${what}`)).toEqual([
      "the page took back their brief",
      "the page changed their brief",
      `the page put a brief in the place of that of ${CHAT}`,
      `${CHAT} gave a brief`,
    ]);
    expect(events[2]?.patch).toBe(
      ["@@ -1,2 +1,3 @@", `-From ${CHAT}`, "+From the page", " Mind the docs.", "+Constraint: no guessing"].join("\n"),
    );
    expect(events[1]?.patch).toContain("-Mind the docs.\n+Mind the tests.");
    const times = (await desk.history(run.id))?.history.map(({ at }) => at) ?? [];
    expect(times).toEqual(times.toSorted((a, b) => b - a));
  });

  it("[WB5][AR5] it goes with the briefs when they are purged, and is there after a clear from the chat", async () => {
    const { db, briefs } = scene.folder.stores;
    await byModel("Mind the docs.");
    await db.transaction([], (tx) => scene.briefing.revoke(tx, run, null, "Ann"));
    expect((await told())[0]).toMatchObject({ by: "Ann", what: "took back all briefs" });
    await db.transaction([], (tx) => briefs.forget(tx, run.sessionId));
    expect([await told(), await version()]).toEqual([[], 0]);
  });
});
