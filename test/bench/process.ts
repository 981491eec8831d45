// The real process, from `node src/start.js` to ready and then at rest: offline model, no channels (RN3).
import { createHarness } from "../support/harness.ts";
import { below, median, type Row, rssMb, type Topic, timed, told } from "./measure.ts";

const STARTS = 5;
const REST_MS = 3_000;

export const processTopic: Topic = { name: "process", run: measureProcess };

async function measureProcess(): Promise<Row[]> {
  const first = await measureFirstStart();
  await using harness = await createHarness();
  const starts: number[] = [];
  for (let i = 0; i < STARTS; i++) {
    await harness.stop();
    starts.push(await timed(() => harness.restart()));
  }
  const rss = await idleRss(harness.pid());
  const slowest = `from the start of the process to /healthz 200; slowest of ${STARTS}: ${Math.round(Math.max(...starts))} ms`;
  return [
    below("idle RSS of the process", rss, 110, "MB", `${REST_MS / 1000} s after it was ready`),
    below("time to ready", median(starts), 1000, "ms", slowest),
    told("the same at the first start after an install", `${Math.round(first.rss)} MB, ${Math.round(first.ms)} ms`, "nothing is compiled yet"),
  ];
}

async function measureFirstStart(): Promise<{ rss: number; ms: number }> {
  await using harness = await createHarness({ env: { NODE_DISABLE_COMPILE_CACHE: "1" } });
  const rss = await idleRss(harness.pid());
  await harness.stop();
  return { rss, ms: await timed(() => harness.restart()) };
}

/** At rest, but not told to collect: this is what it really holds. */
async function idleRss(pid: number): Promise<number> {
  await new Promise((resolve) => setTimeout(resolve, REST_MS));
  return rssMb(pid);
}
