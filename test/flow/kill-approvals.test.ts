// Kill -9 at every named point between a question and the call it allows: the question is asked once, a yes is used once, and what may
// have been done is not done again.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { FAILPOINTS } from "../../src/core/failpoints.ts";
import { calls, child, type Step, spawns } from "../support/brain.ts";
import { type Chat, createScene, type Scene } from "../support/scene.ts";
import { waitFor } from "../support/wait.ts";

/** How often each point is tried; CI asks for more. */
const KILLS = Number(process.env.HERALD_TEST_KILLS ?? 1);
const CONFIG = { config: { tools: { approve: ["exec", "write"], exec: { unsandboxed: true } } } };

interface QuestionRow {
  readonly id: string;
  readonly state: string;
  readonly used_at: number | null;
}

const questionsOf = ({ herald }: Scene, { key }: Chat): QuestionRow[] =>
  herald.rows<QuestionRow>("SELECT * FROM questions WHERE root_key = ? ORDER BY created_at, id", key);
const opened = (scene: Scene, chat: Chat): Promise<QuestionRow> =>
  waitFor("an open question", () => questionsOf(scene, chat).find(({ state }) => state === "open"));
const linesOf = ({ herald }: Scene, name: string): number => {
  const path = join(herald.stateDir, "workspace", name);
  return existsSync(path) ? readFileSync(path, "utf8").split("\n").length - 1 : 0;
};
/** A line more each time it is done. */
const appends = (name: string): Step => calls(["exec", { command: `echo done >> ${name}` }]);
const writes = (name: string): Step => calls(["write", { path: name, content: "done\n" }]);
const askedTimes = async ({ herald }: Scene, { id }: Chat): Promise<number> =>
  (await herald.replies(id)).filter(({ text }) => text.includes("wants to use")).length;

async function dieAndRestart({ herald }: Scene): Promise<void> {
  await herald.exited();
  await herald.restart();
}

/** Of the calls a process carries out, which one it dies behind: of the chat's spawn and of the one that came to wait it lives on. */
const AFTER_TOOL = "turn.after-tool:3";

describe("[QA4] kill -9 between a question and the call it allows", () => {
  const each = async (failpoint: string, one: (scene: Scene, chat: Chat, name: string) => Promise<void>): Promise<void> => {
    await using scene = await createScene({ failpoint, ...CONFIG });
    for (let i = 0; i < KILLS; i++) {
      if (i > 0) {
        await scene.herald.crash();
        await scene.herald.restart({ failpoint });
      }
      await one(scene, scene.chat(), `file-${i}.txt`);
    }
  };

  it("[QA4] no point of the path is left out", () => {
    expect(FAILPOINTS.filter((point) => /^(question|approval)\./.test(point))).toEqual([
      "question.before-put",
      "question.put",
      "approval.used",
    ]);
  });

  it.concurrent(
    "[QA4][RC1] question.before-put: nothing was asked and nothing done; what may be repeated asks after the restart, once",
    {
      timeout: 60_000 * KILLS,
    },
    () =>
      each("question.before-put", async (scene, chat, name) => {
        const said = chat.act([spawns(child("worker", [writes(name)]))]).catch(() => []);
        await dieAndRestart(scene);
        await said;
        const { id } = await opened(scene, chat);
        expect(linesOf(scene, name)).toBe(0);
        await chat.ask(`/subagents answer ${id} yes`);
        expect(await chat.announced("worker")).toContain("Created");
        expect([linesOf(scene, name), questionsOf(scene, chat).length, await askedTimes(scene, chat)]).toEqual([1, 1, 1]);
      }),
  );

  it.concurrent("[QA4][RC1] question.put: asked once, and the Yes after the restart lets it run once", { timeout: 60_000 * KILLS }, () =>
    each("question.put", async (scene, chat, name) => {
      const said = chat.act([spawns(child("worker", [appends(name)]))]).catch(() => []);
      await dieAndRestart(scene);
      await said;
      const { id } = await opened(scene, chat);
      await chat.ask(`/subagents answer ${id} yes`);
      expect(await chat.announced("worker")).toContain("Status: success");
      expect([linesOf(scene, name), questionsOf(scene, chat).length, await askedTimes(scene, chat)]).toEqual([1, 1, 1]);
    }),
  );

  it.concurrent(
    "[QA4][RC2] APPR-005 approval.used, a command: it is not run again, and its outcome is said to be unknown",
    { timeout: 60_000 * KILLS },
    () =>
      each("approval.used", async (scene, chat, name) => {
        await chat.act([spawns(child("worker", [appends(name)]))]);
        const { id } = await opened(scene, chat);
        const said = chat.ask(`/subagents answer ${id} yes`);
        await dieAndRestart(scene);
        await said;
        expect(await chat.announced("worker")).toContain("Whether it took effect is unknown");
        expect([linesOf(scene, name), questionsOf(scene, chat).length]).toEqual([0, 1]);
      }),
  );

  it.concurrent(
    "[QA4][RC1] APPR-005 approval.used, a file that is written: nothing had run, so it runs once without a second question",
    { timeout: 60_000 * KILLS },
    () =>
      each("approval.used", async (scene, chat, name) => {
        await chat.act([spawns(child("worker", [writes(name)]))]);
        const { id } = await opened(scene, chat);
        const said = chat.ask(`/subagents answer ${id} yes`);
        await dieAndRestart(scene);
        await said;
        expect(await chat.announced("worker")).toContain("Created");
        expect([linesOf(scene, name), questionsOf(scene, chat).length, await askedTimes(scene, chat)]).toEqual([1, 1, 1]);
      }),
  );

  it.concurrent("[QA4][RC2] APPR-005 turn.after-tool: it ran and is not run again; the yes is used up", { timeout: 60_000 * KILLS }, () =>
    each(AFTER_TOOL, async (scene, chat, name) => {
      await chat.act([spawns(child("worker", [appends(name)]))]);
      const { id } = await opened(scene, chat);
      await chat.reached("worker", "waiting");
      const said = chat.ask(`/subagents answer ${id} yes`);
      await dieAndRestart(scene);
      await said;
      expect(await chat.announced("worker")).toContain("Whether it took effect is unknown");
      expect(linesOf(scene, name)).toBe(1);
      expect(questionsOf(scene, chat)).toMatchObject([{ state: "answered", used_at: expect.any(Number) }]);
    }),
  );

  it.concurrent(
    "[QA4][RC1] APPR-005 command.committed: the Yes is on record and nothing has run; it runs once without a second question",
    { timeout: 60_000 * KILLS },
    () =>
      each("command.committed", async (scene, chat, name) => {
        await chat.act([spawns(child("worker", [appends(name)]))]);
        const { id } = await opened(scene, chat);
        await chat.reached("worker", "waiting");
        const said = chat.ask(`/subagents answer ${id} yes`);
        await dieAndRestart(scene);
        await said;
        expect(await chat.announced("worker")).toContain("Status: success");
        expect([linesOf(scene, name), questionsOf(scene, chat).length, await askedTimes(scene, chat)]).toEqual([1, 1, 1]);
      }),
  );
});
