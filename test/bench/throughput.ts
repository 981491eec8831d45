// Many runs: how busy eight slots are kept with a model of 50 ms, and whether ten thousand waiting runs make accepting
// the next one dearer.
import { randomUUID } from "node:crypto";
import { whoAsks } from "../support/brain.ts";
import { median, type Row, rssMb, type Topic, timed, us, withFolder } from "./measure.ts";
import { createBenchModels, createRig, type Rig } from "./rig.ts";
import { accepted, createRequester, isAnnounced } from "./spawn.ts";

const RUNS = 1_000;
const ROUNDS = 3;
const MODEL_MS = 50;
const SLOTS = 8;
const CHILDREN = 20;
const QUEUED = 10_000;
const BATCH = 500;
const LOOKS = 20;
const MAX_ROUND_MS = 15_000;
const MAX_ROUNDS_MS = 30_000;
const MAX_QUEUE_MS = 40_000;

export const throughput: Topic = {
  name: "throughput",
  run: async () => [await measureEfficiency(), ...(await withFolder(measureQueue))],
};

/** 50 ms per run: the work takes them, the announce step is answered at once. */
const models = createBenchModels(
  () => ({}),
  (request) => (whoAsks(request) === "announce" ? 0 : MODEL_MS),
);

async function measureEfficiency(): Promise<Row> {
  const rounds: number[] = [];
  const deadline = performance.now() + MAX_ROUNDS_MS;
  for (let round = 0; round < ROUNDS && (round === 0 || performance.now() < deadline); round++) rounds.push(await withFolder(runAll));
  const efficiency = median(rounds) * 100;
  return {
    measure: "1 000 runs of a 50 ms model at maxConcurrent 8, against ⌈1000/8⌉ × 50 ms",
    value: `${efficiency.toFixed(1)} %`,
    goal: "≥ 90 %",
    met: efficiency >= 90,
    detail: `to the last announcement delivered; rounds: ${rounds.map((share) => `${(share * 100).toFixed(1)} %`).join(", ")}`,
  };
}

/** Ideal time for what was announced, as a share of the time it took. A machine that is too busy does not get to the last run. */
async function runAll(folder: string): Promise<number> {
  const rig = await createRig({ folder, models });
  try {
    await spawnMany(rig, RUNS);
    let announced = 0;
    const off = rig.bus.on((event) => {
      if (isAnnounced(event)) announced++;
    });
    const ms = await timed(async () => {
      rig.serveRuns();
      const deadline = performance.now() + MAX_ROUND_MS;
      while (announced < RUNS && performance.now() < deadline) await new Promise((resolve) => setTimeout(resolve, 10));
    });
    off();
    return (Math.ceil(announced / SLOTS) * MODEL_MS) / ms;
  } finally {
    await rig.stop();
  }
}

async function measureQueue(folder: string): Promise<Row[]> {
  const rig = await createRig({ folder, models });
  try {
    const batches: Batch[] = [];
    const deadline = performance.now() + MAX_QUEUE_MS;
    while (batches.length * BATCH < QUEUED && (performance.now() < deadline || batches.length < 3)) {
      const ms = await timed(() => spawnMany(rig, BATCH));
      // What follows an accepted run a moment later (its documents) is not part of accepting it.
      for (let i = 0; i < BATCH * 2; i++) await new Promise((resolve) => setImmediate(resolve));
      globalThis.gc?.();
      const lookMs = await timed(() => lookBelow(rig));
      batches.push({ ms: ms / BATCH, lookMs: lookMs / LOOKS, rss: rssMb("self") });
    }
    return queueRows(batches);
  } finally {
    await rig.stop();
  }
}

interface Batch {
  readonly ms: number;
  readonly lookMs: number;
  readonly rss: number;
}

/** What a turn asks at each step, and a command in a chat with threads: what of its own is at work. Twenty of those wait here are its own. */
async function lookBelow({ stores: { runs, inbox } }: Rig): Promise<void> {
  const [own] = await runs.listRecent(1);
  const key = own?.requesterKey ?? "";
  for (let n = 0; n < LOOKS; n++) {
    if ((await runs.unfinishedBelow(key)).length !== CHILDREN) throw new Error("not all of its own runs were found");
    await runs.rootsAtWork(`${key}:`, 101);
    await inbox.waitingSessions(`${key}:`, 101);
  }
}

function queueRows(batches: readonly Batch[]): Row[] {
  // The first batch warms up.
  const start = (of: (batch: Batch) => number): number => median(batches.slice(1, 6).map(of));
  const end = (of: (batch: Batch) => number): number => median(batches.slice(-5).map(of));
  const [first, last] = [start, end].map((at) => at((batch) => batch.ms)) as [number, number];
  const [firstLook, lastLook] = [start, end].map((at) => at((batch) => batch.lookMs)) as [number, number];
  const [early, late] = [batches[1]?.rss ?? Number.NaN, batches.at(-1)?.rss ?? Number.NaN];
  const queued = batches.length * BATCH;
  const perRun = ((late - early) * 1024) / (queued - 2 * BATCH);
  return [
    {
      measure: `accepting the last 2 500 of ${queued} queued runs, against the first`,
      value: `${(last / first).toFixed(2)}×`,
      goal: "flat (≤ 1.5×)",
      met: last / first <= 1.5,
      detail: `${us(last)} against ${us(first)} per run`,
    },
    {
      measure: `a chat's own runs and threads at work, among ${queued} unfinished runs, against among the first`,
      value: `${(lastLook / firstLook).toFixed(2)}×`,
      goal: "flat (≤ 1.5×)",
      met: lastLook / firstLook <= 1.5,
      detail: `${us(lastLook)} against ${us(firstLook)}; ${CHILDREN} of them are its own`,
    },
    {
      measure: `RSS with ${queued} queued runs, against ${2 * BATCH}`,
      value: `${(late / early).toFixed(2)}×`,
      goal: "flat (≤ 1.5×)",
      met: late / early <= 1.5,
      detail: `${Math.round(late)} MB against ${Math.round(early)} MB: ${perRun.toFixed(1)} KB per queued run`,
    },
  ];
}

/** As chats do it: each no more than its cap of children. */
async function spawnMany(rig: Rig, count: number): Promise<void> {
  for (let n = 0; n < count; n += CHILDREN) {
    const requester = createRequester(randomUUID());
    for (let i = 0; i < CHILDREN; i++)
      accepted(await rig.subagents.spawn.now({ ...requester, spawnKey: randomUUID() }, { task: "Count the lines." }));
  }
}
