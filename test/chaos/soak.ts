// npm run soak [-- --minutes M]: a simulated day of chat in at most M real minutes (8 unless told), on a clock that runs that
// much faster: archiving, housekeeping, retries and timeouts all happen as in a day. Reports what the gateway uses over
// time; exit code 1 when memory, handles, timers, WAL or the database's size per record grow by 5 % after the warm-up.
import { type ChildProcess, fork } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { parseArgs } from "node:util";
import { createFakeOpenAi } from "../support/fake-openai.ts";
import { NODE } from "../support/harness.ts";
import { createRandom, type Random } from "../support/random.ts";
import { scriptedConfig } from "../support/scripted-model.ts";
import { delay, until } from "./gateway-process.ts";
import { createDoor, createScript } from "./script.ts";
import type { Sample, SoakReport } from "./soak-gateway.ts";

const DAY_MINUTES = 24 * 60;
const SAMPLES = 48;
/** wal_autocheckpoint=1000 pages of 4 KB, each with a header. */
const WAL_CHECKPOINT_BYTES = 1_000 * (4_096 + 24) + 32;
const MESSAGES_PER_SECOND = 4;
const MAX_GROWTH = 0.05;
/** Before a sample: connections and timers of the last turn end. */
const REST_MS = 400;
/** A chat is left after this many messages. */
const CHAT_LENGTH = 40;

interface Gateway {
  readonly child: ChildProcess;
  readonly origin: string;
  readonly token: string;
  readonly stateDir: string;
}

interface Point extends Sample {
  readonly records: number;
}

async function startGateway(dir: string, modelUrl: string, factor: number): Promise<Gateway> {
  const subagents = { maxChildrenPerSession: 100, announceTimeoutSeconds: 600 };
  // In the gateway's time a model's second lasts minutes.
  const settings = scriptedConfig(modelUrl, { subagents });
  const models = { ...(settings.models as object), probeLocal: false, idleTimeoutSeconds: 3_600 };
  mkdirSync(join(dir, "config"));
  writeFileSync(join(dir, "config/herald.json5"), JSON.stringify({ ...settings, models, web: { port: 0 } }), { mode: 0o600 });
  const stateDir = join(dir, "state");
  // As src/herald.js does it: a process that has to translate its own source holds that translator, too.
  const NODE_COMPILE_CACHE = new URL("../../node_modules/.cache/herald", import.meta.url).pathname;
  const env = { PATH: process.env.PATH, HOME: dir, HERALD_STATE_DIR: stateDir, SOAK_FACTOR: String(factor), NODE_COMPILE_CACHE };
  const child = fork(new URL("soak-gateway.ts", import.meta.url).pathname, { cwd: dir, env, execPath: NODE, execArgv: ["--expose-gc"] });
  const [ready] = (await once(child, "message", { signal: AbortSignal.timeout(30_000) })) as [SoakReport];
  if (ready.type !== "ready") throw new Error("the gateway did not say that it is ready");
  return { child, stateDir, origin: ready.origin, token: ready.token };
}

const OPEN = `SELECT (SELECT count(*) FROM inbox WHERE state <> 'done') + (SELECT count(*) FROM runs WHERE state IN ('queued', 'running', 'waiting')) +
  (SELECT count(*) FROM outbox WHERE state IN ('queued', 'sending', 'unknown')) AS n`;
const RECORDS = `SELECT (SELECT count(*) FROM inbox) + (SELECT count(*) FROM outbox) + (SELECT count(*) FROM runs) +
  (SELECT count(*) FROM web_messages) AS n`;

function countRows({ stateDir }: Gateway, sql: string): number {
  const db = new DatabaseSync(join(stateDir, "herald.db"), { readOnly: true });
  try {
    return (db.prepare(sql).get() as { n: number }).n;
  } finally {
    db.close();
  }
}

/** At rest, so that what is counted is what stays, not what is being done. */
async function takeSample(gateway: Gateway): Promise<Point> {
  if (!(await until(() => countRows(gateway, OPEN) === 0, 20_000, 20))) throw new Error("the gateway did not come to rest within 20 s");
  await delay(REST_MS);
  const answer = once(gateway.child, "message", { signal: AbortSignal.timeout(30_000) });
  gateway.child.send("sample");
  const [report] = (await answer) as [SoakReport];
  if (report.type !== "sample") throw new Error("the gateway sent something else than a sample");
  return { ...report.sample, records: countRows(gateway, RECORDS) };
}

interface Visitors {
  readonly said: () => number;
  step(): void;
  failures(): readonly string[];
}

function createVisitors({ origin, token }: Gateway, random: Random): Visitors {
  const failures: string[] = [];
  let said = 0;
  let chats = Array.from({ length: 6 }, () => ({ id: randomUUID(), left: CHAT_LENGTH }));
  const post = async (chat: string, text: string): Promise<void> => {
    const response = await fetch(`${origin}/api/chats/${chat}/messages`, {
      method: "POST",
      body: JSON.stringify({ id: randomUUID(), text, kind: "message" }),
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    });
    await response.arrayBuffer();
    if (!response.ok) failures.push(`a post got ${response.status}`);
  };
  const tell = (error: unknown): void => {
    const { message, cause } = error as Error;
    failures.push(`a post failed: ${message} (${cause instanceof Error ? cause.message : String(cause)})`);
  };
  return {
    said: () => said,
    failures: () => failures,
    step() {
      chats = chats.map((chat) => (chat.left > 0 ? chat : { id: randomUUID(), left: CHAT_LENGTH }));
      const chat = random.pick(chats);
      chat.left--;
      const id = `m${++said}`;
      const words = random.weighted({ say: 60, tool: 20, spawn: 15, list: 5 });
      const children = random.pick(["quick:keep", "tool:delete", "quick:delete,tool:keep"]);
      const text = words === "list" ? "/subagents list" : words === "spawn" ? `[${id}] spawn ${children}` : `[${id}] ${words}`;
      post(chat.id, text).catch(tell);
    },
  };
}

const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
const total = (resources: Readonly<Record<string, number>>): number => Object.values(resources).reduce((sum, n) => sum + n, 0);

const MEASURES: Readonly<Record<string, (point: Point) => number>> = {
  "RSS (MB)": (point) => point.rssMb,
  "RSS after a full collection (MB)": (point) => point.heldMb,
  "heap after it (MB)": (point) => point.heapMb,
  "outside the heap (MB)": (point) => point.externalMb,
  "handles and timers": (point) => total(point.resources),
  // It fills up to this size before it is used again from its start: that is no growth.
  "WAL (KB, from its checkpoint size)": (point) => Math.max(point.walBytes, WAL_CHECKPOINT_BYTES) / 1024,
  "database per record (bytes)": (point) => point.databaseBytes / Math.max(1, point.records),
};

/** The second third of the day against the last: what came before is the warm-up. */
function judge(points: readonly Point[]): { rows: string[]; grown: string[] } {
  const third = Math.floor(points.length / 3);
  const grown: string[] = [];
  const rows = Object.entries(MEASURES).map(([name, measure]) => {
    const before = median(points.slice(third, 2 * third).map(measure));
    const after = median(points.slice(-third).map(measure));
    const growth = before === 0 ? 0 : after / before - 1;
    if (growth >= MAX_GROWTH) grown.push(name);
    return `| ${name} | ${before.toFixed(1)} | ${after.toFixed(1)} | ${(growth * 100).toFixed(1)} % |`;
  });
  return { rows, grown };
}

async function soak(minutes: number): Promise<boolean> {
  const dir = mkdtempSync(join(tmpdir(), "herald-soak-"));
  const model = await createFakeOpenAi({ respond: createScript({ door: createDoor({ main: 1, subagent: 1 }, 1_000), slip: () => "" }) });
  const factor = DAY_MINUTES / minutes;
  const gateway = await startGateway(dir, model.url, factor);
  const visitors = createVisitors(gateway, createRandom(1));
  let isResting = false;
  const ticker = setInterval(() => isResting || visitors.step(), 1000 / MESSAGES_PER_SECOND);
  const points: Point[] = [];
  const startedAt = performance.now();
  try {
    for (let n = 0; n < SAMPLES; n++) {
      // By the clock, not one after the other: what a sample waits for must not make the day longer.
      await delay(Math.max(0, startedAt + ((n + 1) * minutes * 60_000) / SAMPLES - REST_MS - performance.now()));
      isResting = true;
      model.calls.length = 0;
      points.push(await takeSample(gateway));
      isResting = n === SAMPLES - 1;
      const { rssMb, heldMb, heapMb, resources, delayP99Ms } = points.at(-1) as Point;
      const memory = `RSS ${rssMb.toFixed(0)} MB, after a collection ${heldMb.toFixed(0)} MB, heap ${heapMb.toFixed(1)} MB`;
      console.log(
        `  hour ${(((n + 1) * 24) / SAMPLES).toFixed(1)}: ${memory}, ${JSON.stringify(resources)}, p99 ${delayP99Ms.toFixed(1)} ms`,
      );
    }
    clearInterval(ticker);
    gateway.child.send("stop");
    const isOver = await until(() => gateway.child.exitCode !== null, 40_000);
    return summarize(points, visitors, isOver && gateway.child.exitCode === 0);
  } finally {
    clearInterval(ticker);
    gateway.child.kill("SIGKILL");
    await model.close();
    rmSync(dir, { recursive: true, force: true });
  }
}

function report(points: readonly Point[], visitors: Visitors): string {
  const last = points.at(-1) as Point;
  const p99 = median(points.map((point) => point.delayP99Ms));
  const worst = Math.max(...points.map((point) => point.delayMaxMs));
  return [
    `${visitors.said()} messages, ${last.records} records, database ${(last.databaseBytes / 1024 / 1024).toFixed(1)} MB; event-loop delay p99 ${p99.toFixed(1)} ms (median of samples), worst ${worst.toFixed(0)} ms.`,
    "",
    ...["| | second third of the day | last third | growth |", "|---|---|---|---|", ...judge(points).rows],
  ].join("\n");
}

function summarize(points: readonly Point[], visitors: Visitors, endedWell: boolean): boolean {
  console.log(`\n${report(points, visitors)}`);
  const problems = [
    ...judge(points).grown.map((name) => `${name} grew`),
    ...visitors.failures().slice(0, 5),
    ...(endedWell ? [] : ["it did not stop by itself"]),
  ];
  for (const problem of problems) console.log(`✗ ${problem}`);
  return problems.length === 0;
}

const { values } = parseArgs({ options: { minutes: { type: "string", default: "8" } } });
const minutes = Number(values.minutes);
if (!(minutes > 0 && minutes <= 60)) throw new RangeError("--minutes takes a number from 0 to 60");
console.log(`soak: a day in ${minutes} min`);
process.exitCode = (await soak(minutes)) ? 0 : 1;
