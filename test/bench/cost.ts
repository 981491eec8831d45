// What a turn and a spawn with its announcement cost: CPU time and turns a second of the real process, bytes written. With
// `--against <folder>`, a checkout of other code with its packages installed, as ratios: both gateways run side by side and take
// turns, so that a busy machine falls on both.
import { fork } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { scriptedConfig } from "../support/scripted-model.ts";
import { type Checkout, startCheckout } from "./checkout.ts";
import { atMost, median, type Row, type Topic, timed, told, withFolder } from "./measure.ts";

const HERE = new URL("../../", import.meta.url).pathname;
const SEND_OUT = "Send one out.";
const ROUNDS = 12;
/** Compiling goes on for hundreds of turns, and a gateway runs for months. */
const WARM_UP = 3;
/** Chats of ten messages each, in a round. */
const TURN_CHATS = 6;
const RUN_CHATS = 3;
const PER_MEASURED_CHAT = 10;
const CHATS = 40;
/** In one go: more than 300 in 15 s the page doesn't take from anybody. */
const PER_CHAT = 7;
const REFILL_MS = 15_000;
const CONCURRENT = 32;
/** Long enough to give back what a burst took. */
const REST_MS = 30_000;

export const cost: Topic = { name: "cost", run: ({ against }) => withFolder((folder) => measureCost(folder, against)) };

async function measureCost(folder: string, against: string | null): Promise<Row[]> {
  const worker = new Worker(new URL("./delegating-worker.ts", import.meta.url));
  const sides: Checkout[] = [];
  try {
    const [url] = (await once(worker, "message")) as [string];
    const config = scriptedConfig(url, { maxConcurrent: CONCURRENT, subagents: { maxConcurrent: CONCURRENT } });
    const roots = [HERE, ...(against === null ? [] : [against])];
    for (const [n, root] of roots.entries()) sides.push(await startCheckout(root, join(folder, `side-${n}`), config));
    const cpu = await measureCpu(sides);
    const rate = await measureRate(sides);
    await rest(REST_MS);
    const rss = sides.map((side) => side.rssMb());
    for (const side of sides.splice(0)) await side.stop();
    const written: Written[] = [];
    for (const [n, root] of roots.entries()) written.push(await countWritten(root, join(folder, `rig-${n}`)));
    return [...toRows(cpu, rate, written), memoryRow(rss)];
  } finally {
    // Left running they would keep this process waiting for ever.
    for (const side of sides) await side.stop();
    await worker.terminate();
  }
}

const rest = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

interface Cpu {
  readonly turn: number;
  readonly run: number;
}

/** Ms of CPU for each. */
async function measureCpu(sides: readonly Checkout[]): Promise<Cpu[]> {
  const seen = sides.map(() => ({ turn: [] as number[], run: [] as number[] }));
  for (let round = 0; round < WARM_UP + ROUNDS; round++) {
    const turns = await cpuOf(sides, TURN_CHATS, 1, "How are you?");
    const runs = await cpuOf(sides, RUN_CHATS, 2, SEND_OUT);
    if (round < WARM_UP) continue;
    for (const [n, one] of seen.entries()) {
      one.turn.push(turns[n] ?? Number.NaN);
      one.run.push(runs[n] ?? Number.NaN);
    }
  }
  return seen.map(({ turn, run }) => ({ turn: median(turn), run: median(run) }));
}

/** The sides take turns chat by chat, so that a second in which the machine is busy with something else falls on both. */
async function cpuOf(sides: readonly Checkout[], chats: number, answers: number, text: string): Promise<number[]> {
  const before = sides.map((side) => side.cpuMs());
  for (let n = 0; n < chats; n++) for (const side of sides) await talk(side, answers, text);
  return sides.map((side, n) => (side.cpuMs() - (before[n] ?? 0)) / (chats * PER_MEASURED_CHAT));
}

async function talk(side: Checkout, answers: number, text: string): Promise<void> {
  const chat = randomUUID();
  for (let n = 0; n < PER_MEASURED_CHAT; n++) {
    const wanted = side.countSaid() + answers;
    await side.post(chat, text);
    await side.said(wanted);
  }
}

/** Turns a second with more chats than it works on at once, all of them written to at once. */
async function measureRate(sides: readonly Checkout[]): Promise<number[]> {
  const rates = sides.map(() => [] as number[]);
  for (let round = 0; round <= 5; round++) {
    await rest(REFILL_MS);
    for (const [n, side] of sides.entries()) {
      const wanted = side.countSaid() + CHATS * PER_CHAT;
      const ms = await timed(async () => {
        for (let chat = 0; chat < CHATS; chat++) {
          const id = randomUUID();
          for (let message = 0; message < PER_CHAT; message++) await side.post(id, "How are you?");
        }
        await side.said(wanted);
      });
      if (round > 0) rates[n]?.push((CHATS * PER_CHAT * 1000) / ms);
    }
  }
  return rates.map(median);
}

interface Written {
  readonly turn: number;
  readonly run: number;
}

async function countWritten(root: string, folder: string): Promise<Written> {
  const child = fork(new URL("./written-worker.ts", import.meta.url), [root, folder], { execPath: join(root, "node_modules/.bin/node") });
  const ended = once(child, "exit").then(() => null);
  const counted = await Promise.race([once(child, "message") as Promise<[Written]>, ended]);
  if (counted === null) throw new Error(`what the gateway of ${root} writes could not be counted`);
  child.disconnect();
  return counted[0];
}

const kb = (bytes: number): string => `${(bytes / 1024).toFixed(0)} KB`;
const ms = (value: number): string => `${value.toFixed(1)} ms`;

function toRows([cpu, cpuBefore]: Cpu[], [rate = 0, rateBefore]: number[], [written, writtenBefore]: Written[]): Row[] {
  if (cpu === undefined || written === undefined) throw new Error("nothing was measured");
  if (cpuBefore === undefined || rateBefore === undefined || writtenBefore === undefined) {
    return [
      told(
        "CPU of a short turn, and of a turn that spawns with the run and its announcement",
        `${ms(cpu.turn)}, ${ms(cpu.run)}`,
        "the real process, model over HTTP",
      ),
      told(
        "written by a short turn, and by a run with its announcement",
        `${kb(written.turn)}, ${kb(written.run)}`,
        "bytes of all write calls",
      ),
      told("short turns a second at saturation", rate.toFixed(0), `${CHATS} chats, ${CONCURRENT} at a time`),
    ];
  }
  return [
    atMost(
      "CPU of a short turn, against the code before",
      cpu.turn / cpuBefore.turn,
      0.75,
      `${ms(cpu.turn)} against ${ms(cpuBefore.turn)}`,
    ),
    atMost(
      "CPU of a turn that spawns, the run and its announcement, against the code before",
      cpu.run / cpuBefore.run,
      0.75,
      `${ms(cpu.run)} against ${ms(cpuBefore.run)}`,
    ),
    atMost(
      "written by a short turn, against the code before",
      written.turn / writtenBefore.turn,
      0.45,
      `${kb(written.turn)} against ${kb(writtenBefore.turn)}`,
    ),
    atMost(
      "written by a run and its announcement, against the code before",
      written.run / writtenBefore.run,
      0.45,
      `${kb(written.run)} against ${kb(writtenBefore.run)}`,
    ),
    {
      measure: "short turns a second at saturation, against the code before",
      value: `${(rate / rateBefore).toFixed(2)}×`,
      goal: "≥ 1.3×",
      met: rate / rateBefore >= 1.3,
      detail: `${rate.toFixed(0)} against ${rateBefore.toFixed(0)}; ${CHATS} chats, ${CONCURRENT} at a time`,
    },
  ];
}

function memoryRow([rss = 0, before]: number[]): Row {
  const measure = "RSS at rest after a burst of messages";
  const detail = `${REST_MS / 1000} s after the last of ${6 * CHATS * PER_CHAT} at full speed`;
  if (before === undefined) return told(measure, `${Math.round(rss)} MB`, detail);
  return atMost(
    `${measure}, against the code before`,
    rss / before,
    0.6,
    `${Math.round(rss)} MB against ${Math.round(before)} MB, ${detail}`,
  );
}
