// What can race for a run, raced hundreds of times each (in CI a thousand) with a seeded scheduler on real stores: one winner, at most one
// announcement per generation, nothing lost, no slot stuck. A failure names its seed; the same seed gives the same race.
import { existsSync } from "node:fs";
import { dirname } from "node:path";
import { describe, expect, it } from "vitest";
import type { Clock } from "../../src/core/clock.ts";
import { isUnfinished, type Run } from "../../src/core/run.ts";
import type { ModelReply, ModelRequest } from "../../src/models/model.ts";
import { createRandom } from "../support/random.ts";
import { createStage, okReply, type Stage } from "../support/stage.ts";
import { waitFor } from "../support/wait.ts";

const ROUNDS = Number(process.env.HERALD_TEST_RACES ?? 250);
const SEED = Number(process.env.HERALD_TEST_SEED ?? 20_260_101);
/** How far apart the rivals may start, in turns of the event loop: about what a run takes from start to end. */
const SPREAD = 12;

const turns = async (count: number): Promise<void> => {
  for (let i = 0; i < count; i++) await new Promise((resolve) => setImmediate(resolve));
};

/** A clock on which only run timeouts ever pass, after as many turns of the event loop as the round says. */
function createRaceClock(timeoutTurns: () => number): Clock {
  let now = Date.UTC(2026, 0, 1);
  const aborted = (signal: AbortSignal | undefined): Promise<void> =>
    new Promise((resolve) => {
      if (signal?.aborted) return resolve();
      signal?.addEventListener("abort", () => resolve(), { once: true });
    });
  // What is left of it: time passes between a run's start and its first step.
  const isTimeout = (ms: number): boolean => Math.ceil(ms / 1000) === TIMEOUT_SECONDS;
  return {
    now: () => ++now,
    sleep: (ms, signal) => (isTimeout(ms) ? Promise.race([turns(timeoutTurns()), aborted(signal)]) : aborted(signal)),
  };
}

const TIMEOUT_SECONDS = 77;

interface Round {
  /** Turns a model call takes, and those until the rival comes. */
  modelTurns: number;
  rivalTurns: number;
  reply: ModelReply;
}

async function modelCall(round: Round, request: ModelRequest): Promise<ModelReply> {
  const before = round.reply;
  const gone = new Promise<void>((resolve) => request.signal.addEventListener("abort", () => resolve(), { once: true }));
  await Promise.race([turns(round.modelTurns), gone]);
  return request.signal.aborted ? { ...before, outcome: "aborted", text: "half a" } : before;
}

async function race(
  options: { subagents?: Record<string, unknown>; spawn?: Parameters<Stage["spawn"]>[0]; reply?: ModelReply },
  rival: (stage: Stage, run: Run) => Promise<void>,
  check: (stage: Stage, run: Run, seen: Map<string, number>) => Promise<void>,
): Promise<Map<string, number>> {
  const random = createRandom(SEED);
  const round: Round = { modelTurns: 0, rivalTurns: 0, reply: options.reply ?? okReply("the answer") };
  await using stage = await createStage({
    clock: createRaceClock(() => round.rivalTurns),
    call: (request) => modelCall(round, request),
    subagents: { maxConcurrent: 2, ...options.subagents },
  });
  const seen = new Map<string, number>();
  for (let n = 0; n < ROUNDS; n++) {
    round.modelTurns = random.between(0, 3);
    round.rivalTurns = random.between(0, SPREAD - 1);
    const { id } = await stage.spawn(options.spawn);
    await turns(round.rivalTurns);
    await rival(stage, await stage.get(id));
    await settled(stage, id);
    const run = await stage.get(id);
    seen.set(run.state, (seen.get(run.state) ?? 0) + 1);
    try {
      expect(await stage.lane.depth()).toEqual({ waiting: 0, running: 0 });
      await check(stage, run, seen);
    } catch (error) {
      throw new Error(`round ${n} of seed ${SEED}, ${JSON.stringify(round)}: ${JSON.stringify(run)}`, { cause: error });
    }
  }
  return seen;
}

/** The run is over, its announcements are out and the lane is empty. */
async function settled(stage: Stage, id: string): Promise<void> {
  // The lane first: it is asked in every turn of the event loop, and costs nothing.
  const over = async (): Promise<boolean> =>
    (await stage.lane.depth()).running === 0 &&
    !isUnfinished((await stage.get(id)).state) &&
    (await stage.stores.outbox.countAllOpen()) === 0;
  for (let i = 0; i < 2_000 && !(await over()); i++) await turns(1);
  if (!(await over())) await waitFor(`run ${id} to settle`, over);
  await turns(3);
}

const tally = (seen: Map<string, number>, key: string): void => void seen.set(key, (seen.get(key) ?? 0) + 1);

describe("races", () => {
  it("[RU2] stop against finish: one winner, and a stopped run never announces", async () => {
    const seen = await race(
      {},
      async (stage, run) => {
        await stage.stores.db.transaction([], (tx) => stage.parts.steering.stop(tx, [run], "by the test"));
      },
      async (stage, run) => {
        expect(["done", "stopped"]).toContain(run.state);
        expect(await stage.announced(run)).toHaveLength(run.state === "done" ? 1 : 0);
        expect(run.delivery).toBe(run.state === "done" ? "delivered" : "none");
        expect(await stage.notes(run)).toBe(1);
      },
    );
    // Both must have won, or nothing was raced.
    expect(Math.min(seen.get("done") ?? 0, seen.get("stopped") ?? 0)).toBeGreaterThan(ROUNDS / 50);
  });

  it("[RU2] timeout against error: one winner, one announcement", async () => {
    const failed: ModelReply = { ...okReply("so far"), outcome: "error", error: { kind: "bad-request", message: "The model refused." } };
    const seen = await race(
      { spawn: { runTimeoutSeconds: TIMEOUT_SECONDS }, reply: failed },
      async () => {},
      async (stage, run) => {
        expect(["error", "timeout"]).toContain(run.state);
        expect(await stage.announced(run)).toHaveLength(1);
        expect(await stage.notes(run)).toBe(1);
      },
    );
    expect(Math.min(seen.get("error") ?? 0, seen.get("timeout") ?? 0)).toBeGreaterThan(ROUNDS / 50);
  });

  it("[CM7] send against finish: what was accepted is read, each generation announces once", async () => {
    const seen = await race(
      {},
      async (stage, run) => {
        const answer = await stage.stores.db.transaction([], (tx) => stage.parts.steering.send(tx, run, "test", "one more thing"));
        expect(["queued", "running", "continued"]).toContain(answer);
      },
      async (stage, run, counts) => {
        expect(run.state).toBe("done");
        expect(await stage.unread(run)).toBe(0);
        const entries = await stage.stores.transcripts.tail(run, 100);
        expect(
          entries.filter((entry) => entry.type === "message" && entry.role === "user" && entry.text === "one more thing"),
        ).toHaveLength(1);
        // The message was answered: the last words of the work stand behind it.
        const work = entries.filter((entry) => entry.type === "message" && entry.phase !== "announce");
        expect(work.at(-1)).toMatchObject({ role: "assistant" });
        expect(await stage.announced(run)).toHaveLength(run.generation);
        tally(counts, `generation ${run.generation}`);
      },
    );
    expect(Math.min(seen.get("generation 1") ?? 0, seen.get("generation 2") ?? 0)).toBeGreaterThan(ROUNDS / 50);
  });

  it("[AR3] archive against send: the transcript is one file under the name on record, nothing is lost", async () => {
    const counted = new Map<string, number>();
    const seen = await race(
      { spawn: { cleanup: "delete" } },
      async (stage, run) => {
        tally(counted, run.archivedAt === null ? "before archiving" : "after archiving");
        await stage.stores.db.transaction([], (tx) => stage.parts.steering.send(tx, run, "test", "one more thing"));
      },
      async (stage, run) => {
        expect(run.state).toBe("done");
        expect(await stage.unread(run)).toBe(0);
        expect(await stage.announced(run)).toHaveLength(run.generation);
        expect(run.archivedAt).not.toBeNull();
        const folder = dirname(stage.stores.transcripts.path(run));
        expect([run.archiveName, `${run.sessionId}.jsonl`].map((name) => existsSync(`${folder}/${name}`))).toEqual([true, false]);
        const text = JSON.stringify(await stage.stores.transcripts.tail({ ...run, archiveName: run.archiveName }, 100));
        expect(text.match(/one more thing/g)).toHaveLength(1);
      },
    );
    expect(seen.get("done")).toBe(ROUNDS);
    expect(Math.min(counted.get("before archiving") ?? 0, counted.get("after archiving") ?? 0)).toBeGreaterThan(ROUNDS / 50);
  });
});
