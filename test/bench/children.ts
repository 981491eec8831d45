// The real process with fifty children at once whose models stream: how long its event loop keeps others waiting, as it
// tells itself at /metrics, from the message that sends them out to the last announcement.
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { createHarness, type Harness } from "../support/harness.ts";
import { scriptedConfig } from "../support/scripted-model.ts";
import { waitFor } from "../support/wait.ts";
import { below, type Row, type Topic, told } from "./measure.ts";
import type { Streaming } from "./streaming-worker.ts";

const STREAMING: Streaming = { children: 50, seconds: 8, piecesPerSecond: 50 };
const IDLE_MS = 3_000;
/** As long all of them speak for sure. */
const STREAMING_MS = 4_000;
const DEADLINE_MS = 60_000;

export const children: Topic = { name: "children", run: measureChildren };

async function measureChildren(): Promise<Row[]> {
  const worker = new Worker(new URL("./streaming-worker.ts", import.meta.url), { workerData: STREAMING });
  try {
    const [url] = (await once(worker, "message")) as [string];
    const subagents = { maxConcurrent: STREAMING.children, maxChildrenPerSession: STREAMING.children };
    await using harness = await createHarness({ config: scriptedConfig(url, { subagents }) });
    // The first round loads the model adapter.
    await speak(harness);
    await look(harness);
    await rest(IDLE_MS);
    const idle = await look(harness);
    await speak(harness);
    const whole = await look(harness);
    return [toRow(whole, idle), ...(await measureParts(harness))];
  } finally {
    await worker.terminate();
  }
}

function toRow(whole: Delay, idle: Delay): Row {
  const { children, seconds, piecesPerSecond } = STREAMING;
  const detail =
    `p99 from the message to the last announcement; longest ${ms(whole.max)}; at rest ${ms(idle.p99)}. ` +
    `They speak for ${seconds} s on average, ${piecesPerSecond} pieces a second each, over HTTP`;
  return below(`event-loop delay with ${children} children at once`, whole.p99, 50, "ms", detail);
}

/** Once more, looked at in between. */
async function measureParts(harness: Harness): Promise<Row[]> {
  const chat = await send(harness);
  await started(harness, chat);
  const starting = await look(harness);
  await rest(STREAMING_MS);
  const streaming = await look(harness);
  await announced(harness, chat);
  const ending = await look(harness);
  const words = (delay: Delay): string => `${ms(delay.p99)}, longest ${ms(delay.max)}`;
  return [
    told("the same while all of them stream", words(streaming), `while they start ${words(starting)}; while they end ${words(ending)}`),
  ];
}

async function speak(harness: Harness): Promise<void> {
  await announced(harness, await send(harness));
}

/** Resolves with the chat, a new one each time. */
async function send(harness: Harness): Promise<string> {
  const chat = randomUUID();
  await harness.say("Send them all out.", { chat });
  return chat;
}

const announced = (harness: Harness, chat: string): Promise<boolean> =>
  waitFor("all announcements", async () => (await harness.announcements(chat)).length === STREAMING.children, DEADLINE_MS);

const started = (harness: Harness, chat: string): Promise<boolean> => {
  const count = (): number =>
    harness.rows("SELECT 1 FROM runs WHERE requester_key = ? AND started_at IS NOT NULL", `agent:main:web:dm:${chat}`).length;
  return waitFor("all children to start", () => count() === STREAMING.children, DEADLINE_MS);
};

interface Delay {
  readonly p99: number;
  readonly max: number;
}

/** In ms, since the look before. */
async function look(harness: Harness): Promise<Delay> {
  const text = await (await harness.request("/metrics")).text();
  const quantile = (name: string): number => {
    const value = new RegExp(`^herald_event_loop_delay_seconds\\{quantile="${name}"\\} (\\S+)$`, "m").exec(text)?.[1];
    if (value === undefined) throw new Error("the event-loop delay is missing in /metrics");
    return Number(value) * 1000;
  };
  return { p99: quantile("0.99"), max: quantile("1") };
}

const ms = (value: number): string => `${Math.round(value)} ms`;
const rest = (forMs: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, forMs));
