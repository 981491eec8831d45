// The real process on a state folder that was used for long: a thousand live sessions, ten thousand archived ones. Time to
// ready, and what it weighs at rest, and after some dozens of them were touched.
import { createHarness, type Harness } from "../support/harness.ts";
import { waitFor } from "../support/wait.ts";
import { type FilledSessions, fillSessions } from "./filled-sessions.ts";
import { below, median, type Row, rssMb, type Topic, timed } from "./measure.ts";

const COUNTS = { live: 1_000, archived: 10_000 };
const STARTS = 5;
const REST_MS = 3_000;
const TOUCHED = 50;
const DEADLINE_MS = 60_000;

export const sessions: Topic = { name: "sessions", run: measureSessions };

async function measureSessions(): Promise<Row[]> {
  await using harness = await createHarness();
  await harness.stop();
  const filled = await fillSessions(harness.stateDir, COUNTS);
  const starts: number[] = [];
  for (let i = 0; i < STARTS; i++) {
    await harness.stop();
    starts.push(await timed(() => harness.restart()));
  }
  const idle = await restingRss(harness);
  await touch(harness, filled);
  const used = await restingRss(harness);
  const what = "1 000 live and 10 000 archived sessions";
  const detail = `after a message to ${TOUCHED} live ones and a look at ${TOUCHED} archived ones; ${Math.round(idle)} MB before`;
  return [
    below(`time to ready with ${what}`, median(starts), 1000, "ms", `slowest of ${STARTS}: ${Math.round(Math.max(...starts))} ms`),
    below(`RSS with ${what}`, used, 200, "MB", detail),
  ];
}

/** As somebody does who opens the page, talks in many chats and looks at old runs. */
async function touch(harness: Harness, { live, archived }: FilledSessions): Promise<void> {
  const read = async (path: string): Promise<void> => {
    const response = await harness.request(path);
    if (!response.ok) throw new Error(`${path} got ${response.status}`);
    await response.arrayBuffer();
  };
  await read("/api/chats");
  await read("/api/runs");
  const before = countReplies(harness);
  for (const chat of live.slice(0, TOUCHED)) {
    await read(`/api/chats/${chat}/messages`);
    await harness.say("Hello again", { chat });
  }
  for (const id of archived.slice(0, TOUCHED)) {
    await read(`/api/runs/${id}`);
    await read(`/api/runs/${id}/transcript`);
  }
  await waitFor("all replies", () => countReplies(harness) >= before + TOUCHED, DEADLINE_MS);
}

const countReplies = (harness: Harness): number =>
  harness.rows<{ n: number }>("SELECT count(*) AS n FROM web_messages WHERE author = 'agent'")[0]?.n ?? 0;

async function restingRss(harness: Harness): Promise<number> {
  await new Promise((resolve) => setTimeout(resolve, REST_MS));
  return rssMb(harness.pid());
}
