// What two or three processes can race for, with their own stores, lanes and runners against the real server: many rounds each, with and
// without a doorbell between them.
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import { crosses } from "../../src/core/events.ts";
import { isUnfinished, type Run } from "../../src/core/run.ts";
import type { ModelReply, ModelRequest } from "../../src/models/model.ts";
import { createSchema, type Schema } from "../support/postgres.ts";
import { createRandom } from "../support/random.ts";
import { CHAT_KEY } from "../support/runs.ts";
import { hasPostgres, sharedOptions } from "../support/shared-folder.ts";
import { createStage, okReply, type Stage } from "../support/stage.ts";
import { waitFor } from "../support/wait.ts";

const ROUNDS = Math.max(20, Math.round(Number(process.env.HERALD_TEST_RACES ?? 250) / 10));
const SEED = Number(process.env.HERALD_TEST_SEED ?? 20_260_101);
/** How far apart the rivals may start: about what a run takes to end. */
const SPREAD_MS = 40;
const apart = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
const SUBAGENTS = { maxConcurrent: 4, maxSpawnDepth: 2, maxChildrenPerSession: 5 };

/** A model that answers a task's first call when the test lets it; every later one at once. */
function createGates() {
  const gates = new Map<string, { isAsked: boolean; readonly open: PromiseWithResolvers<void> }>();
  const gate = (task: string) => {
    const known = gates.get(task) ?? { isAsked: false, open: Promise.withResolvers<void>() };
    gates.set(task, known);
    return known;
  };
  return {
    async call(request: ModelRequest): Promise<ModelReply> {
      const task = /task-\w+-\d+/.exec(request.messages.map(({ text }) => text).join("\n"))?.[0] ?? "";
      const { open } = Object.assign(gate(task), { isAsked: true });
      await Promise.race([open.promise, new Promise((resolve) => request.signal.addEventListener("abort", resolve, { once: true }))]);
      return request.signal.aborted ? { ...okReply("half"), outcome: "aborted" } : okReply(`${task} says so`);
    },
    asked: (task: string) => waitFor(`the model to be asked by ${task}`, () => gate(task).isAsked),
    open: (task: string) => gate(task).open.resolve(),
  };
}

describe.skipIf(!hasPostgres())("several processes", () => {
  let schema: Schema;
  let stages: Stage[];
  let gates: ReturnType<typeof createGates>;
  let offs: (() => void)[];
  beforeEach(async () => {
    [schema, stages, offs, gates] = [await createSchema(), [], [], createGates()];
  });
  afterEach(async () => {
    for (const off of offs) off();
    for (const stage of stages) await stage[Symbol.asyncDispose]();
    await schema[Symbol.asyncDispose]();
  });

  async function open(count: number): Promise<void> {
    const limits = (): Record<string, number> => ({ main: 4, subagent: SUBAGENTS.maxConcurrent });
    for (let n = 0; n < count; n++) {
      const shared = sharedOptions(schema.url, { nodeName: `n${n}`, limits });
      stages.push(await createStage({ clock: systemClock, subagents: SUBAGENTS, call: gates.call, shared }));
    }
  }

  /** As NOTIFY does it; or not at all, and everybody looks by himself now and then. */
  function connectBells(isLost: boolean): void {
    for (const from of stages)
      for (const to of stages)
        if (from !== to && !isLost) offs.push(from.bus.on((event) => void (crosses(event) && to.bus.receive(event)), "here"));
    const sweep = setInterval(
      () => {
        for (const { bus } of stages) bus.emit({ type: "bells.missed" });
      },
      isLost ? 150 : 1_500,
    );
    offs.push(() => clearInterval(sweep));
  }

  const stage = (n: number): Stage => stages[n % stages.length] as Stage;
  const ended = (id: string): Promise<Run> =>
    waitFor("a run to be announced", async () => {
      const run = await stage(0).get(id);
      return isUnfinished(run.state) || run.settledAt === null ? null : run;
    });

  it.each([
    ["with bells", false],
    ["with every bell lost", true],
  ])(
    "[SO3] a parent goes to sleep while its last child ends elsewhere, %s: it is always woken, and everything is done once",
    async (_name, isLost) => {
      await open(2);
      connectBells(isLost);
      const random = createRandom(SEED);
      for (let n = 0; n < ROUNDS; n++) {
        const [above, below] = [`task-parent-${n}`, `task-child-${n}`];
        const parent = await stage(n).spawn({ task: above });
        await gates.asked(above);
        const { childKey, sessionId, id } = parent;
        const child = await stage(n + 1).spawn({ task: below }, { sessionKey: childKey, sessionId, runId: id });
        await gates.asked(below);
        const [first, second] = random.between(0, 1) === 0 ? [above, below] : [below, above];
        gates.open(first);
        await apart(random.between(0, SPREAD_MS));
        gates.open(second);
        const [over] = await Promise.all([ended(id), ended(child.id)]);
        expect(over, `round ${n} of seed ${SEED}`).toMatchObject({ state: "done", crashes: 0 });
        expect(await stage(0).announced(over)).toHaveLength(1);
      }
      await waitFor("no place to be held", async () => (await stage(0).lane.depth()).running === 0);
      expect(await stage(0).lane.depth()).toEqual({ waiting: 0, running: 0 });
    },
    120_000,
  );

  it("[SO2] [SP6] twenty spawns of one requester on three processes at the same moment, cap five: five", async () => {
    await open(3);
    connectBells(false);
    for (let round = 0; round < 3; round++) {
      const key = `${CHAT_KEY}-${round}`;
      const asked = Array.from({ length: 20 }, (_, n) => stage(n).spawn({ task: `task-one-${round * 20 + n}` }, { sessionKey: key }));
      const answers = await Promise.allSettled(asked);
      const accepted = answers.filter((answer) => answer.status === "fulfilled").map((answer) => answer.value);
      expect(accepted).toHaveLength(5);
      for (const { reason } of answers.filter((answer) => answer.status === "rejected"))
        expect(String(reason)).toContain("maxChildrenPerSession 5");
      for (let n = 0; n < 20; n++) gates.open(`task-one-${round * 20 + n}`);
      for (const { id } of accepted) expect((await ended(id)).state).toBe("done");
    }
  }, 60_000);

  it("[SO3] [ST2] stopped on one process around the moment it ends on another: one of the two, and no announcement after a stop", async () => {
    await open(2);
    connectBells(false);
    const random = createRandom(SEED);
    const seen = new Set<string>();
    // Later when the stop was first and sooner when it was too late: so it stays around the moment, however long a run takes here.
    let edgeMs = SPREAD_MS / 2;
    for (let n = 0; n < ROUNDS; n++) {
      const task = `task-stopped-${n}`;
      const run = await stage(n).spawn({ task });
      await gates.asked(task);
      gates.open(task);
      await apart((edgeMs * random.between(50, 150)) / 100);
      const rival = stage(n + 1);
      const { steering } = rival.parts;
      const known = await rival.get(run.id);
      await rival.stores.db.transaction(steering.locks([known]), (tx) => steering.stop(tx, [known], "by the test"));
      const over = await waitFor("its end", async () => {
        const now = await rival.get(run.id);
        return isUnfinished(now.state) ? null : now;
      });
      seen.add(over.state);
      edgeMs *= over.state === "stopped" ? 1.5 : 1 / 1.5;
      expect((await rival.announced(over)).length).toBe(over.state === "done" ? 1 : 0);
    }
    // Both must have won, or nothing was raced.
    expect([...seen].sort()).toEqual(["done", "stopped"]);
    await waitFor("no place to be held", async () => (await stage(0).lane.depth()).running === 0);
  }, 60_000);
});
