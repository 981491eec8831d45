// Two writers at once around a question, whatever database stands behind them: two answers, an answer and the end of its time, an
// answer and a stop, an answer and the row that says somebody waits for it. One outcome each, and nobody waits for ever.
import { expect, it } from "vitest";
import type { Person, Question } from "../../src/core/question.ts";
import type { Run } from "../../src/core/run.ts";
import type { ModelRequest } from "../../src/models/model.ts";
import { createReplies } from "../../src/questions/replies.ts";
import { lock } from "../../src/stores/lock-keys.ts";
import { createManualClock, type ManualClock } from "../support/manual-clock.ts";
import { okReply, type Stage, type StageOptions } from "../support/stage.ts";
import { waitFor } from "../support/wait.ts";

const ANN: Person = { id: "1", name: "Ann" };
const BEN: Person = { id: "2", name: "Ben" };
const OPTIONS = ["red", "blue"];
const TIMEOUT_SECONDS = 60;

export function askWriters(makeStage: (options: StageOptions) => Promise<Stage>): void {
  const makeAskers = (clock: ManualClock): Promise<Stage> =>
    makeStage({ clock, call: async (request) => askOnce(request), subagents: { maxConcurrent: 4, maxChildrenPerSession: 1_000 } });

  it("[QA3] ASK-003 two people press different options at once: one counts, the other reads whose did, and there is one result", async () => {
    const clock = createManualClock();
    await using stage = await makeAskers(clock);
    for (let turns = 0; turns < 24; turns += 2) {
      const { run, question } = await asked(stage);
      const told = await Promise.all([answer(stage, question, ANN, "#1"), later(turns, () => answer(stage, question, BEN, "#2"))]);
      const { answer: chosen, answeredBy } = await settled(stage, question);
      expect(OPTIONS).toContain(chosen);
      expect(answeredBy).toEqual(chosen === "red" ? ANN : BEN);
      const won = `📨 ${run.label} goes on with: ${chosen}`;
      expect([...told].sort()).toEqual([`Already answered by ${answeredBy?.name}: ${chosen}`, won].sort());
      expect(await resultsOf(stage, run)).toEqual([expect.stringContaining(`\n${chosen}\n`)]);
    }
  });

  it("[QA3] ASK-007 its time runs out in the millisecond of the answer: one outcome, which the answer's giver, the row and the run agree on", async () => {
    const clock = createManualClock();
    await using stage = await makeAskers(clock);
    const outcomes = new Set<string>();
    for (let turns = 0; turns < 40; turns += 2) {
      const { run, question } = await asked(stage);
      await waitFor("it to wait", async () => (await stage.get(run.id)).state === "waiting");
      // Both look at the very end: the waker rings the run, whose look settles it.
      clock.set(question.expiresAt - (turns % 4 === 0 ? 1 : 0));
      const giving = later(turns, () => answer(stage, question, ANN, "#1"));
      clock.set(question.expiresAt);
      stage.lane.ring(run.id, run.requesterKey, "front");
      const told = await giving;
      const { state } = await settled(stage, question);
      outcomes.add(state);
      const isAnswered = state === "answered";
      expect(told).toBe(isAnswered ? `📨 ${run.label} goes on with: red` : "This question is closed: nobody had answered in time.");
      expect(await resultsOf(stage, run)).toEqual([
        isAnswered ? expect.stringContaining("\nred\n") : expect.stringMatching(/^Nobody answered in time/),
      ]);
    }
    expect(outcomes).toContain("expired");
  });

  it("[ST2][QA3] an answer in the moment its run is stopped counts before the stop or not at all; nothing is left open", async () => {
    const clock = createManualClock();
    await using stage = await makeAskers(clock);
    for (let turns = 0; turns < 40; turns += 2) {
      const { run, question } = await asked(stage);
      const [told] = await Promise.all([
        later(turns % 20, () => answer(stage, question, ANN, "#1")),
        later(20 - (turns % 20), () => stopRun(stage, run)),
      ]);
      const { state } = await settled(stage, question);
      expect(told).toBe(state === "answered" ? `📨 ${run.label} goes on with: red` : "This question is closed: what asked it has ended.");
      expect(["answered", "void"]).toContain(state);
      const { state: ended } = await waitFor("its end", async () =>
        (await stage.get(run.id)).endedAt === null ? null : stage.get(run.id),
      );
      // Answered, it may have come to its end before the stop did.
      if (state === "void") expect(ended).toBe("stopped");
    }
  });

  it("[QA2] an answer in the moment its run begins to wait for it is read at once, by that run", async () => {
    const clock = createManualClock();
    await using stage = await makeAskers(clock);
    for (let turns = 0; turns < 240; turns += 8) {
      // The clock stands still: a run that nobody rings would wait for ever.
      const { run, question } = await asked(stage, turns);
      await answer(stage, question, ANN, "#2");
      expect(await resultsOf(stage, run)).toEqual([expect.stringContaining("\nblue\n")]);
    }
  });

  it("[ST2][QA3] a run that asks in the moment it is stopped leaves no question behind, and none that is still to be posted", async () => {
    const clock = createManualClock();
    await using stage = await makeAskers(clock);
    for (let turns = 0; turns < 120; turns += 4) {
      const run = await stage.spawn({ task: "ask", label: `stopped ${turns}` }, { tools: ["ask"] });
      await waitFor("it to work", async () => (await stage.get(run.id)).state !== "queued");
      await later(turns, () => stopRun(stage, run));
      await waitFor("the lane to be empty", async () => Object.values(await stage.lane.depth()).every((count) => count === 0), 5_000);
      expect(await stage.stores.questions.listAllOpen(10)).toEqual([]);
    }
  });
}

/** So many turns later. */
async function later<T>(turns: number, work: () => Promise<T>): Promise<T> {
  for (let turn = 0; turn < turns; turn++) await null;
  return work();
}

/** Asks, and says what it read. */
function askOnce({ messages }: ModelRequest) {
  if (messages.at(-1)?.text.startsWith("Your work is over.")) return okReply("Result:\ndone");
  if (messages.some(({ role }) => role === "tool")) return okReply("done");
  const args = { question: "Which?", options: OPTIONS, timeoutSeconds: TIMEOUT_SECONDS };
  return { ...okReply(""), finish: "tool-calls" as const, toolCalls: [{ id: "q", name: "ask", args }] };
}

/** A run and what it asks, so many turns after its row is there. */
async function asked(stage: Stage, turns = 0): Promise<{ readonly run: Run; readonly question: Question }> {
  const put = Promise.withResolvers<string>();
  const off = stage.bus.on((event) => {
    if (event.type === "question.changed") void later(turns, async () => put.resolve(event.questionId));
  });
  const run = await stage.spawn({ task: "ask" }, { tools: ["ask"] });
  const question = await stage.stores.questions.get(await put.promise);
  off();
  if (question === null) throw new Error("there is no question");
  return { run, question };
}

function answer(stage: Stage, { id, rootKey }: Question, by: Person, words: string): Promise<string> {
  const { stores, clock } = stage;
  const replies = createReplies({ ...stores, clock, isTurnOpen: async () => false });
  return stores.db.transaction([lock.tree(rootKey)], (tx) => replies.settle(tx, id, by, words));
}

const stopRun = (stage: Stage, run: Run): Promise<Run[]> => {
  const { steering } = stage.parts;
  return stage.stores.db.transaction(steering.locks([run]), async (tx) => steering.stop(tx, [await stage.get(run.id)], "by the test"));
};

const settled = ({ stores }: Stage, { id }: Question): Promise<Question> =>
  waitFor("the question to be settled", async () => {
    const question = await stores.questions.get(id);
    return question?.state === "open" ? null : question;
  });

/** Of its one call, once it has ended by itself. */
async function resultsOf({ stores, get }: Stage, run: Run): Promise<string[]> {
  await waitFor("its end", async () => (await get(run.id)).state === "done");
  const entries = await stores.transcripts.tail({ agentId: run.agentId, sessionId: run.sessionId }, 100);
  return entries.flatMap((entry) => (entry.type === "tool_result" ? [entry.text] : []));
}
