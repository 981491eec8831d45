// Groups whose last two end in the same moment, hundreds of times (in CI a thousand) on real stores: completed once, announced once, its
// requester woken once, whoever is last; and the same with somebody who stops one of them just then.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import { isUnfinished } from "../../src/core/run.ts";
import type { ModelRequest } from "../../src/models/model.ts";
import { createRandom } from "../support/random.ts";
import { CHAT_KEY } from "../support/runs.ts";
import { createStage, okReply, type Stage } from "../support/stage.ts";

const ROUNDS = Number(process.env.HERALD_TEST_RACES ?? 250);
const SEED = Number(process.env.HERALD_TEST_SEED ?? 20_260_101);
/** It is the last two that race; how many ended before them only takes time. */
const LARGE = 20;
const SMALL = 3;
const sizeOf = (round: number): number => (round % 20 === 0 ? LARGE : SMALL);
/** How far apart the two may come, in turns of the event loop. */
const SPREAD = 3;

const turns = async (count: number): Promise<void> => {
  for (let i = 0; i < count; i++) await new Promise((resolve) => setImmediate(resolve));
};

const random = createRandom(SEED);
/** The last two of a round come here at the end of their work; each goes on after so many turns behind the other's coming. */
let gate = { waiting: 0, open: Promise.withResolvers<void>() };
let stage: Stage;
let count = 0;

async function call(request: ModelRequest) {
  if (request.messages.some((message) => "text" in message && message.text.includes("one of the last"))) {
    const delay = random.between(0, SPREAD - 1);
    gate.waiting += 1;
    if (gate.waiting === 2) gate.open.resolve();
    await gate.open.promise;
    await turns(delay);
  }
  return okReply("the answer");
}

beforeAll(async () => {
  stage = await createStage({ clock: systemClock, call, subagents: { maxConcurrent: LARGE, maxChildrenPerSession: 2 * LARGE } });
});
afterAll(() => stage[Symbol.asyncDispose]());

interface Round {
  readonly id: string;
  readonly first: string;
}

/** All but two have ended. */
async function begin(n: number): Promise<Round> {
  gate = { waiting: 0, open: Promise.withResolvers<void>() };
  const size = sizeOf(n);
  const requests = Array.from({ length: size }, (_, i) => ({ task: i < size - 2 ? "one of many" : "one of the last", label: `r${i}` }));
  const requester = {
    ...{ sessionKey: CHAT_KEY, sessionId: "00000000-0000-4000-8000-000000000000", agentId: "main", runId: null, tools: ["read"] },
    ...{ address: { channel: "web", account: "local", chat: "main", kind: "dm" } as const, person: null, turnId: "turn" },
    spawnKey: `race:${++count}`,
  };
  // biome-ignore lint/suspicious/noThenProperty: SPEC's word, and nobody awaits it.
  const answer = await stage.parts.spawn.all(requester, requests, { name: `race ${n}`, then: "wake" });
  if (answer.status !== "accepted") throw new Error(answer.error);
  const first = answer.runs[0]?.runId ?? "";
  const { groupId } = await stage.get(first);
  return { id: groupId ?? "", first };
}

async function over({ id }: Round): Promise<void> {
  const isOver = async (): Promise<boolean> =>
    (await stage.stores.runs.listGroup(id)).every(({ state }) => !isUnfinished(state)) &&
    (await stage.lane.depth()).running === 0 &&
    (await stage.stores.outbox.countAllOpen()) === 0;
  for (let i = 0; i < 20_000 && !(await isOver()); i++) await turns(1);
  expect(await isOver()).toBe(true);
}

const counted = async (sql: string, ...params: string[]): Promise<number> =>
  (await stage.stores.db.get<{ n: number }>(sql, ...params))?.n ?? 0;
const wakings = (id: string): Promise<number> => counted("SELECT count(*) AS n FROM inbox WHERE external_id = ?", `wake:${id}`);
const announcements = (id: string): Promise<number> =>
  counted(
    "SELECT count(DISTINCT delivery) AS n FROM outbox WHERE delivery LIKE '%:group' AND run_id IN (SELECT id FROM runs WHERE group_id = ?)",
    id,
  );

describe("the last two of a group, of twenty now and then", () => {
  it("[GR3][GR4] GRP-003 end in the same moment: complete, announced and woken once, with everybody in it", async () => {
    const lasts = new Set<string>();
    for (let n = 0; n < ROUNDS; n++) {
      const round = await begin(n);
      await over(round);
      const runs = await stage.stores.runs.listGroup(round.id);
      const [last] = runs.toSorted((a, b) => (b.endedAt ?? 0) - (a.endedAt ?? 0));
      lasts.add(last?.label ?? "");
      expect({ n, states: new Set(runs.map(({ state }) => state)) }).toEqual({ n, states: new Set(["done"]) });
      expect({ n, announced: await announcements(round.id), woken: await wakings(round.id) }).toEqual({ n, announced: 1, woken: 1 });
      const [{ raw } = { raw: "" }] = await stage.stores.db.all<{ raw: string }>(
        "SELECT raw FROM inbox WHERE external_id = ?",
        `wake:${round.id}`,
      );
      expect({ n, results: raw.match(/runtime status: success/g)?.length }).toEqual({ n, results: sizeOf(n) });
      expect({ n, unsettled: runs.filter(({ delivery }) => delivery !== "delivered").length }).toEqual({ n, unsettled: 0 });
    }
    // Either of them must have been last, or nothing was raced.
    expect(lasts.size).toBeGreaterThan(1);
  }, 600_000);

  it("[GR3][ST2] one is stopped in the moment the other ends: once announced, of the stopped one only that it was", async () => {
    const seen = new Map<string, number>();
    for (let n = 0; n < ROUNDS; n++) {
      const round = await begin(n);
      const runs = await stage.stores.runs.listGroup(round.id);
      const last = runs.slice(-1);
      await gate.open.promise;
      await turns(random.between(0, SPREAD + 6));
      await stage.stores.db.transaction(stage.parts.steering.locks(last), (tx) => stage.parts.steering.stop(tx, last, "by the test"));
      await over(round);
      const [{ state } = { state: "?" }] = (await stage.stores.runs.listGroup(round.id)).slice(-1);
      seen.set(state, (seen.get(state) ?? 0) + 1);
      expect({ n, announced: await announcements(round.id), woken: await wakings(round.id) }).toEqual({ n, announced: 1, woken: 1 });
      const { n: kept } = (await stage.stores.db.get<{ n: number }>(
        "SELECT count(*) AS n FROM group_results WHERE group_id = ?",
        round.id,
      )) ?? {
        n: 0,
      };
      expect({ n, state, kept }).toEqual({ n, state, kept: state === "stopped" ? sizeOf(n) - 1 : sizeOf(n) });
    }
    expect(Math.min(seen.get("done") ?? 0, seen.get("stopped") ?? 0)).toBeGreaterThan(ROUNDS / 50);
  }, 600_000);
});
