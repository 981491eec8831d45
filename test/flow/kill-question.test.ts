// Kill -9 at every named point of asking and answering, of a sub-agent and of the agent itself: one question, one message of it, and
// the answer reaches whoever asked, once.
import { describe, expect, it } from "vitest";
import type { Failpoint } from "../../src/core/failpoints.ts";
import { calls, child, plan, type Step, spawns } from "../support/brain.ts";
import { type Chat, createScene, type Scene } from "../support/scene.ts";
import { waitFor } from "../support/wait.ts";

/** How often each point is tried; CI asks for more. */
const KILLS = Number(process.env.HERALD_TEST_KILLS ?? 1);

const asks = (n: number): Step => calls(["ask", { question: `Question ${n}?` }]);

interface Asker {
  readonly name: string;
  readonly points: readonly Failpoint[];
  /** What makes it ask. */
  words(n: number): string;
  /** What it says in the end, with the answer it read. */
  result(scene: Scene, chat: Chat, n: number): Promise<string>;
}

const ASKERS: readonly Asker[] = [
  {
    name: "a sub-agent",
    points: ["question.before-put", "question.put", "run.waiting"],
    words: (n) => plan([spawns(child(`run ${n}`, [asks(n)])), { text: `sent ${n}` }]),
    result: (_scene, chat, n) => chat.announced(`run ${n}`),
  },
  {
    name: "the agent itself",
    points: ["question.before-put", "question.put"],
    words: (n) => plan([asks(n)]),
    result: async (scene, chat, n) => (await scene.herald.reply(new RegExp(`^results: .*answer ${n}\\b`), chat.id)).text,
  },
];

const CASES = ASKERS.flatMap(({ points, ...asker }) => [
  ...points.map((point) => ({ ...asker, point, isAsking: true })),
  ...(["command.before-commit", "command.committed"] as const).map((point) => ({ ...asker, point, isAsking: false })),
]);

describe("[RC1] kill -9 at each named point from a question to its answer", () => {
  it.concurrent.each(CASES)(
    "[RC1][QA2] PROC-001 $point, $name: asked once, and the answer is read once",
    { timeout: 60_000 * KILLS },
    async ({ point, isAsking, words, result }) => {
      await using scene = await createScene();
      const { herald } = scene;
      const chat = scene.chat();
      for (let n = 0; n < KILLS; n++) {
        await herald.crash();
        await herald.restart(isAsking ? { failpoint: point } : {});
        const said = chat.say(words(n));
        if (isAsking) await dieAndComeBack(scene);
        await said;
        const { id } = await waitFor("the question", () => openQuestions(scene, chat)[0]);
        if (!isAsking) {
          await waitFor("its message", async () => (await messagesOf(scene, chat)).length === n + 1);
          // Killed before it rests, and again right after, it would be one that ended twice at work.
          await waitFor("it to rest", () => herald.rows("SELECT 1 FROM runs WHERE state = 'running'").length === 0);
          await herald.crash();
          await herald.restart({ failpoint: point });
        }
        const answered = chat.say(`/subagents answer ${id} answer ${n}`);
        if (!isAsking) await dieAndComeBack(scene);
        await answered;
        const text = await result(scene, chat, n);
        expect(text.match(new RegExp(`answer ${n}\\b`, "g")) ?? text).toEqual([`answer ${n}`]);
        await waitFor("the thanks", async () => (await thanksOf(scene, chat)).length === n + 1);
      }
      await waitFor(
        "all to be sent",
        () => herald.rows("SELECT 1 FROM outbox WHERE state IN ('queued', 'sending', 'unknown')").length === 0,
      );
      const expected = Array.from({ length: KILLS }, (_, n) => n);
      expect(herald.rows("SELECT answer, state FROM questions ORDER BY created_at")).toEqual(
        expected.map((n) => ({ answer: `answer ${n}`, state: "answered" })),
      );
      expect((await messagesOf(scene, chat)).map((text) => /Question (\d+)\?/.exec(text)?.[1])).toEqual(expected.map(String));
      expect(await thanksOf(scene, chat)).toHaveLength(KILLS);
    },
  );
});

const openQuestions = ({ herald }: Scene, { key }: Chat): { id: string }[] =>
  herald.rows<{ id: string }>("SELECT id FROM questions WHERE root_key = ? AND state = 'open'", key);
const repliesLike = async ({ herald }: Scene, { id }: Chat, start: string): Promise<string[]> =>
  (await herald.replies(id)).map(({ text }) => text).filter((text) => text.startsWith(start));
const messagesOf = (scene: Scene, chat: Chat): Promise<string[]> => repliesLike(scene, chat, "❓");
const thanksOf = (scene: Scene, chat: Chat): Promise<string[]> => repliesLike(scene, chat, "📨");

async function dieAndComeBack({ herald }: Scene): Promise<void> {
  await herald.exited();
  await herald.restart();
}
