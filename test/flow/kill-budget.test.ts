// Kill -9 between hold, call and settle: what was held is spent once, nothing stays held, and what is spent never falls.
import { describe, expect, it } from "vitest";
import { FAILPOINTS, type Failpoint } from "../../src/core/failpoints.ts";
import { brain, calls, child, plan, spawns, whoAsks } from "../support/brain.ts";
import type { Respond } from "../support/fake-model-server.ts";
import { type Chat, createScene, type Scene } from "../support/scene.ts";
import { waitFor } from "../support/wait.ts";

/** How often each point is tried; CI asks for more. */
const KILLS = Number(process.env.HERALD_TEST_KILLS ?? 1);
const POINTS = FAILPOINTS.filter((point) => point.startsWith("budget."));

interface LevelRow {
  readonly spent_tokens: number;
  readonly held_tokens: number;
  readonly kept_tokens: number;
}

const levelOf = (scene: Scene, runId: string): LevelRow | undefined =>
  scene.herald.rows<LevelRow>("SELECT * FROM budget_levels WHERE id = ?", `run:${runId}`)[0];
const holds = (scene: Scene): unknown[] => scene.herald.rows("SELECT id FROM budget_holds");
const isLastWord = (messages: readonly { readonly text: string }[]): boolean =>
  messages.some(({ text }) => text.includes("Your budget is used up."));
const landing: Respond = (request, call) => (isLastWord(request.messages) ? { text: "as far as it came" } : brain(request, call));
const lastCalls = (scene: Scene): number => scene.model.calls.filter(({ messages }) => isLastWord(messages)).length;

async function restartAt(scene: Scene, point: Failpoint): Promise<void> {
  await scene.herald.crash();
  await scene.herald.restart({ failpoint: point });
}

/** Dies at its point; what stands there then; starts again. */
async function sayAndDie(scene: Scene, chat: Chat, text: string, label: string): Promise<LevelRow | undefined> {
  const said = chat.say(text);
  await scene.herald.exited();
  const level = levelOf(scene, chat.run(label).id);
  await scene.herald.restart();
  await said;
  return level;
}

function expectSettled(scene: Scene, runId: string, before: LevelRow | undefined): void {
  const now = levelOf(scene, runId);
  expect(holds(scene)).toEqual([]);
  expect(now).toMatchObject({ held_tokens: 0, kept_tokens: 0 });
  // Whatever was held when it died has become spent, in full, and what came after it on top.
  expect(now?.spent_tokens).toBeGreaterThanOrEqual((before?.spent_tokens ?? 0) + (before?.held_tokens ?? 0));
}

describe("[BG3] kill -9 between hold, call and settle", () => {
  it("[BG3] BUD-003 no point is left out", () =>
    expect(POINTS).toEqual(["budget.held", "budget.answered", "budget.settling", "budget.settled"]));

  it.concurrent.each(POINTS)(
    "[BG3] BUD-003 %s: settled exactly once, the run goes on and is announced once",
    { timeout: 60_000 * KILLS },
    async (point) => {
      await using scene = await createScene({ failpoint: point });
      const chat = scene.chat();
      for (let i = 0; i < KILLS; i++) {
        if (i > 0) await restartAt(scene, point);
        const label = `run ${i}`;
        const steps = [calls(["list", { path: "." }]), { text: `result ${i}` }];
        const run = child(label, steps, { budget: { tokens: 1_000_000 } });
        const before = await sayAndDie(scene, chat, plan([spawns(run), { text: `sent ${i}` }]), label);
        expect(before?.held_tokens === 0).toBe(point === "budget.settled");
        expect(await chat.announced(label)).toContain(`result ${i}`);
        expectSettled(scene, chat.run(label).id, before);
        await scene.herald.reply(new RegExp(`^sent ${i}$`), chat.id);
      }
      expect(await chat.announcements()).toHaveLength(KILLS);
    },
  );

  it.concurrent("[BG3] BUD-003 after the request was sent: charged in full, and asked once more", { timeout: 60_000 * KILLS }, async () => {
    await using scene = await createScene({});
    const chat = scene.chat();
    for (let i = 0; i < KILLS; i++) {
      const label = `sent ${i}`;
      await chat.act([spawns(child(label, [{ text: `came ${i}`, hold: label }], { budget: { tokens: 1_000_000 } }))]);
      const { id } = chat.run(label);
      // With the provider, and not answered.
      await waitFor("the request", () =>
        scene.model.calls.some((call) => whoAsks(call) === "child" && call.messages.some(({ text }) => text.includes(`came ${i}"`))),
      );
      const before = levelOf(scene, id);
      expect(before?.held_tokens).toBeGreaterThan(0);
      await scene.herald.crash();
      scene.release(label);
      await scene.herald.restart();
      expect(await chat.announced(label)).toContain(`came ${i}`);
      expectSettled(scene, id, before);
    }
  });

  it.concurrent("[BG4] between its start and what it keeps: it has its last word all the same", { timeout: 60_000 }, async () => {
    await using scene = await createScene({ failpoint: "run.started" });
    const chat = scene.chat();
    await sayAndDie(scene, chat, plan([spawns(child("begun", "never", { budget: { tokens: 9_000 } })), { text: "sent" }]), "begun");
    expect(await chat.announced("begun")).toMatch(/Incomplete: The budget of this run does not pay for a single call: it is 9000 tokens/);
    expect(lastCalls(scene)).toBe(1);
    expect(holds(scene)).toEqual([]);
  });

  it.concurrent("[BG4] behind its last word: it ends incomplete and names the limit, and nobody is asked again", {
    timeout: 60_000,
  }, async () => {
    await using scene = await createScene({ failpoint: "run.before-end", respond: landing });
    const chat = scene.chat();
    await sayAndDie(scene, chat, plan([spawns(child("landed", "never", { budget: { tokens: 9_000 } })), { text: "sent" }]), "landed");
    const text = await chat.announced("landed");
    expect(text).toContain("as far as it came");
    expect(text).toMatch(/Incomplete: The budget of this run does not pay for a single call: it is 9000 tokens/);
    expect(lastCalls(scene)).toBe(1);
    expect(holds(scene)).toEqual([]);
  });

  it.concurrent.each(POINTS)(
    "[BG4] BUD-003 %s of a last call: it is made and paid for once at most, and the run still ends",
    { timeout: 60_000 * KILLS },
    async (point) => {
      await using scene = await createScene({ failpoint: point });
      const chat = scene.chat();
      for (let i = 0; i < KILLS; i++) {
        if (i > 0) await restartAt(scene, point);
        const label = `poor ${i}`;
        // Less than its first question takes: its last call is its only one.
        const before = await sayAndDie(
          scene,
          chat,
          plan([spawns(child(label, "never", { budget: { tokens: 9_000 } })), { text: `sent ${i}` }]),
          label,
        );
        expect(await chat.announced(label)).toMatch(/Incomplete: The budget of this run is used up: \d+k? of 9000 tokens/);
        expectSettled(scene, chat.run(label).id, before);
        expect(lastCalls(scene)).toBe(point === "budget.held" ? 0 : i + 1);
        await scene.herald.reply(new RegExp(`^sent ${i}$`), chat.id);
      }
      expect(await chat.announcements()).toHaveLength(KILLS);
    },
  );
});
