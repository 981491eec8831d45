// Many runs: how busy eight slots are kept with a model of 50 ms, and whether ten thousand waiting runs make accepting
// the next one dearer.
import { randomUUID } from "node:crypto";
import { median, type Row, rssMb, type Topic, timed, told, us, withFolder } from "./measure.ts";
import { createBenchModels, createRig, type Rig } from "./rig.ts";
import { accepted, createRequester, settledCount } from "./spawn.ts";

const RUNS = 1_000;
const ROUNDS = 3;
const MODEL_MS = 50;
const SLOTS = 8;
const CHILDREN = 20;
const QUEUED = 10_000;

export const throughput: Topic = {
  name: "throughput",
  run: async () => [await measureEfficiency(), ...(await withFolder(measureQueue))],
};

/** 50 ms per run: the work takes them, the announce step (the call without tools) is answered at once. */
const models = createBenchModels(
  () => ({}),
  (request) => (request.tools.length === 0 ? 0 : MODEL_MS),
);

async function measureEfficiency(): Promise<Row> {
  const rounds: number[] = [];
  for (let round = 0; round < ROUNDS; round++) rounds.push(await withFolder(runAll));
  const ideal = Math.ceil(RUNS / SLOTS) * MODEL_MS;
  const efficiency = (ideal / median(rounds)) * 100;
  return {
    measure: "1 000 runs of a 50 ms model at maxConcurrent 8, against ⌈1000/8⌉ × 50 ms",
    value: `${efficiency.toFixed(1)} %`,
    goal: "≥ 90 %",
    met: efficiency >= 90,
    detail: `${rounds.map(Math.round).join(", ")} ms against ${ideal} ms, announcements delivered`,
  };
}

/** Ms from the first start to the last announcement delivered. */
async function runAll(folder: string): Promise<number> {
  const rig = await createRig({ folder, models });
  try {
    spawnMany(rig, RUNS);
    return await timed(async () => {
      const settled = settledCount(rig, RUNS, 60_000);
      rig.serveRuns();
      await settled;
    });
  } finally {
    await rig.stop();
  }
}

async function measureQueue(folder: string): Promise<Row[]> {
  const rig = await createRig({ folder, models });
  try {
    const batches: { ms: number; rss: number }[] = [];
    for (let done = 0; done < QUEUED; done += QUEUED / 20) {
      const ms = await timed(() => spawnMany(rig, QUEUED / 20));
      globalThis.gc?.();
      batches.push({ ms: ms / (QUEUED / 20), rss: rssMb("self") });
    }
    const first = median(batches.slice(1, 6).map((batch) => batch.ms));
    const last = median(batches.slice(-5).map((batch) => batch.ms));
    const growthKb = (((batches.at(-1)?.rss ?? 0) - (batches[1]?.rss ?? 0)) * 1024) / (QUEUED * 0.9);
    return [
      {
        measure: "accepting the last 2 500 of 10 000 queued runs, against the first",
        value: `${(last / first).toFixed(2)}×`,
        goal: "flat (≤ 1.5×)",
        met: last / first <= 1.5,
        detail: `${us(last)} against ${us(first)} per run`,
      },
      told(
        "memory per queued run",
        `${growthKb.toFixed(1)} KB`,
        `RSS ${Math.round(batches[1]?.rss ?? 0)} MB at 1 000, ${Math.round(batches.at(-1)?.rss ?? 0)} MB at 10 000`,
      ),
    ];
  } finally {
    await rig.stop();
  }
}

/** As chats do it: each no more than its cap of children. */
function spawnMany(rig: Rig, count: number): void {
  for (let n = 0; n < count; n += CHILDREN) {
    const requester = createRequester(randomUUID());
    for (let i = 0; i < CHILDREN; i++)
      accepted(rig.subagents.spawn({ ...requester, spawnKey: randomUUID() }, { task: "Count the lines." }));
  }
}
