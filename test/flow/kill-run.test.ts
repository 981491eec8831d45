// Kill -9 at every named point from spawn to archive: every accepted run is announced exactly once, in its own chat, and
// what was resumed says so. Random moments are in kill-random.test.ts.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { FAILPOINTS, type Failpoint } from "../../src/core/failpoints.ts";
import { calls, child, plan, spawns } from "../support/brain.ts";
import { type Chat, createScene, type Scene } from "../support/scene.ts";
import { waitFor } from "../support/wait.ts";

/** How often each point is tried; CI asks for more. */
const KILLS = Number(process.env.HERALD_TEST_KILLS ?? 1);

const RESUMED = "The gateway restarted while this ran; the work was resumed from its transcript.";
const inPath = (from: Failpoint, to: Failpoint): Failpoint[] => FAILPOINTS.slice(FAILPOINTS.indexOf(from), FAILPOINTS.indexOf(to) + 1);

/** Points where the row says running: the run is taken up again, and its Notes say so. */
const RUNNING = new Set<Failpoint>(["run.started", "run.worked", "run.announced", "run.before-end"]);

describe("[RC1] kill -9 at each named point from spawn to archive", () => {
  it("[RC1] PROC-001 no point of the path is left out", () => {
    const path = inPath("spawn.admitted", "archive.recorded");
    expect([...inPath("spawn.admitted", "run.ended"), "stop.recorded", ...inPath("archive.named", "archive.recorded")]).toEqual(path);
  });

  // A run that sends nobody out never waits: that point has a test of its own.
  it.concurrent.each(inPath("spawn.admitted", "run.ended").filter((point) => point !== "run.waiting"))(
    "[RC1] PROC-001 %s: the run is announced exactly once",
    { timeout: 60_000 * KILLS },
    async (point) => {
      await using scene = await createScene({ failpoint: point });
      const chat = scene.chat();
      for (let i = 0; i < KILLS; i++) {
        if (i > 0) await restartAt(scene, point);
        const steps = [calls(["list", { path: "." }]), { text: `result ${i}` }];
        await sayAndDie(scene, chat, plan([spawns(child(`run ${i}`, steps)), { text: `sent ${i}` }]));
        const text = await chat.announced(`run ${i}`);
        expect(text).toContain("\nStatus: success\n");
        expect(text).toContain(`result ${i}`);
        expect(text.includes(RESUMED)).toBe(RUNNING.has(point));
        await scene.herald.reply(new RegExp(`^sent ${i}$`), chat.id);
      }
      await expectOnce(chat, KILLS);
    },
  );

  it.concurrent.each([
    ["for its children", [{ text: "sent out" }, { text: "all is back" }]],
    ["with the tool", [calls(["subagents", { action: "wait", ids: ["last"], timeoutSeconds: 600 }]), { text: "all is back" }]],
  ] as const)(
    "[RC1][SP5] run.waiting, %s: it goes on where it waited, and is announced exactly once",
    {
      timeout: 60_000 * KILLS,
    },
    async (_how, steps) => {
      await using scene = await createScene({ failpoint: "run.waiting", subagents: { maxConcurrent: 1, maxSpawnDepth: 2 } });
      const chat = scene.chat();
      for (let i = 0; i < KILLS; i++) {
        if (i > 0) await restartAt(scene, "run.waiting");
        const parent = child(`run ${i}`, [spawns(child(`below ${i}`, "found it")), ...steps]);
        await sayAndDie(scene, chat, plan([spawns(parent), { text: `sent ${i}` }]));
        const text = await chat.announced(`run ${i}`);
        expect(text).toContain("\nStatus: success\n");
        expect(text).toContain("all is back");
        expect(text).toContain(RESUMED);
        await scene.herald.reply(new RegExp(`^sent ${i}$`), chat.id);
      }
      expect((await chat.announcements()).map(({ text }) => text.split("\n")[0])).toEqual(
        Array.from({ length: KILLS }, (_, i) => `**Sub-agent: run ${i}**`),
      );
    },
  );

  it.concurrent("[ST2] stop.recorded: what was stopped stays stopped, and the stop is answered once", {
    timeout: 60_000 * KILLS,
  }, async () => {
    await using scene = await createScene({ failpoint: "stop.recorded" });
    for (let i = 0; i < KILLS; i++) {
      if (i > 0) await restartAt(scene, "stop.recorded");
      const chat = scene.chat();
      await chat.act([spawns(child("long", [{ hang: true }]))]);
      await sayAndDie(scene, chat, "/stop");
      await scene.herald.reply(/^⚙️ Agent was aborted\. Stopped 1 sub-agent\.$/, chat.id);
      expect(await chat.ask("/subagents all")).toContain("stopped · long");
      expect((await scene.herald.replies(chat.id)).filter((message) => message.text.startsWith("⚙️"))).toHaveLength(1);
      expect(chat.run("long").state).toBe("stopped");
      expect(await chat.announcements()).toEqual([]);
    }
  });

  it.concurrent.each(inPath("archive.named", "archive.recorded"))(
    "[AR2] %s: the transcript is archived once, under the name on record, and can be read",
    { timeout: 60_000 * KILLS },
    async (point) => {
      await using scene = await createScene({ failpoint: point });
      const chat = scene.chat();
      for (let i = 0; i < KILLS; i++) {
        if (i > 0) await restartAt(scene, point);
        await sayAndDie(scene, chat, plan([spawns(child(`run ${i}`, `result ${i}`, { cleanup: "delete" })), { text: `sent ${i}` }]));
        const run = await waitFor("it to be archived", () => (chat.run(`run ${i}`).archived_at === null ? null : chat.run(`run ${i}`)));
        const folder = join(scene.herald.stateDir, "agents/main/sessions");
        expect(existsSync(join(folder, run.archive_name ?? ""))).toBe(true);
        expect(existsSync(join(folder, `${run.session_id}.jsonl`))).toBe(false);
        expect(await chat.announced(`run ${i}`)).toContain("\nStatus: success\n");
        await scene.herald.reply(new RegExp(`^sent ${i}$`), chat.id);
        expect(await chat.ask(`/subagents log ${run.id}`)).toContain(`result ${i}`);
      }
      await expectOnce(chat, KILLS);
    },
  );
});

/** Says what makes the process die at its point, and starts it again. */
async function sayAndDie(scene: Scene, chat: Chat, text: string): Promise<void> {
  const said = chat.say(text);
  await scene.herald.exited();
  await scene.herald.restart();
  await said;
}

async function restartAt(scene: Scene, point: Failpoint): Promise<void> {
  await scene.herald.crash();
  await scene.herald.restart({ failpoint: point });
}

async function expectOnce(chat: Chat, count: number): Promise<void> {
  const heads = (await chat.announcements()).map(({ text }) => text.split("\n")[0]);
  expect(heads).toEqual(Array.from({ length: count }, (_, i) => `**Sub-agent: run ${i}**`));
  expect(chat.runs()).toHaveLength(count);
}
