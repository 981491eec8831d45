// The real process, from `node src/start.js` to ready and then at rest: offline model, no channels (RN3).
import { createHarness } from "../support/harness.ts";
import { below, median, type Row, rssMb, type Topic, timed } from "./measure.ts";

const STARTS = 5;
const REST_MS = 3_000;

/** Called `processTopic` because `process` is Node's own. */
export const processTopic: Topic = { name: "process", run: measureProcess };

async function measureProcess(): Promise<Row[]> {
  await using harness = await createHarness();
  // At rest, but not forced to collect: this is what a machine really gives away.
  await new Promise((resolve) => setTimeout(resolve, REST_MS));
  const rss = rssMb(harness.pid());
  const starts: number[] = [];
  for (let i = 0; i < STARTS; i++) {
    await harness.stop();
    starts.push(await timed(() => harness.restart()));
  }
  return [
    below("idle RSS of the process", rss, 110, "MB", `${REST_MS / 1000} s after it was ready`),
    below("time to ready", median(starts), 1000, "ms", `from the start of the process to /healthz 200; slowest of ${STARTS}: ${Math.round(Math.max(...starts))} ms`),
  ];
}
