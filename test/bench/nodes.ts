// Several machines beside one: the same traffic through the page for an embedded gateway, for one process on PostgreSQL and for three,
// in one run; then what only several can show: a stop across processes, and how long work of a process takes to go on that was killed
// or frozen. Everything, PostgreSQL and the model included, shares this machine's cores: three processes can't be three times as fast
// here. What can be seen is what each step costs, and that the limits hold.
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import { createSchema, findPostgres, type PostgresServer, startPostgres } from "../support/postgres.ts";
import { scriptedConfig } from "../support/scripted-model.ts";
import { below, median, type Row, type Topic, told, us, withFolder } from "./measure.ts";
import { type Group, type Member, startGroup } from "./node-group.ts";

export const nodes: Topic = { name: "nodes", run: () => (findPostgres() === null ? skipped() : withFolder(measure)) };

const skipped = async (): Promise<Row[]> => [told("several machines", "skipped", "PostgreSQL is not installed")];

const SIDES = { embedded: ["a"], "one node": ["a"], "three nodes": ["a", "b", "c"] } as const;
type Side = keyof typeof SIDES;
const LATENCY_ROUNDS = 30;
const RUNS = 1_000;
const PER_CHAT = 100;
const BURST_CHATS = 40;
const BURST_EACH = 7;
const STOPS = 20;

async function measure(folder: string): Promise<Row[]> {
  const worker = new Worker(new URL("./nodes-worker.ts", import.meta.url));
  // Listened for at once: a server takes longer to start than the worker does to say where it is, and says it once.
  const where = once(worker, "message") as Promise<[string]>;
  // As on a real server: commits wait for the disk.
  const server = await startPostgres({ fsync: "on", full_page_writes: "on" });
  try {
    const [url] = await where;
    const sides: Partial<Record<Side, Measured>> = {};
    for (const concurrency of [8, 64]) {
      for (const side of Object.keys(SIDES) as Side[]) {
        const path = join(folder, `${side.replace(" ", "-")}-${concurrency}`);
        const measured = await measureSide(path, server, side, configOf(url, concurrency), concurrency);
        sides[side] = { ...sides[side], ...measured };
      }
    }
    return [...toRows(sides), ...(await measureTogether(join(folder, "together"), server, configOf(url, 8)))];
  } finally {
    await worker.terminate();
    await server.stop();
  }
}

const configOf = (url: string, concurrency: number): Record<string, unknown> =>
  scriptedConfig(url, { maxConcurrent: 32, subagents: { maxConcurrent: concurrency, maxChildrenPerSession: 1_000 } });

interface Measured {
  readonly replyMs?: number;
  readonly announceMs?: number;
  readonly perSecond?: number;
  readonly at8?: number;
  readonly at64?: number;
}

async function measureSide(
  folder: string,
  server: PostgresServer,
  side: Side,
  config: Record<string, unknown>,
  concurrency: number,
): Promise<Measured> {
  await using schema = await createSchema(server.url);
  const group = await startGroup(folder, config, SIDES[side], side === "embedded" ? null : schema.url);
  try {
    if (concurrency === 64) return { at64: await runsASecond(group) };
    const replyMs = await latency(group, "How are you?", 1);
    const announceMs = await latency(group, "Send 1 out.", 2);
    const at8 = await runsASecond(group);
    return { replyMs, announceMs, at8, perSecond: await messagesASecond(group) };
  } finally {
    await group.stop();
  }
}

const memberOf = ({ members }: Group, n: number): Member => members[n % members.length] as Member;

/** From the post to the last of its answers on the page, of another process if there is one. */
async function latency(group: Group, text: string, answers: number): Promise<number> {
  const times: number[] = [];
  for (let round = 0; round < LATENCY_ROUNDS; round++) {
    const chat = randomUUID();
    const tab = await group.follow(memberOf(group, round + 1), chat);
    const startedAt = performance.now();
    await group.post(memberOf(group, round), chat, text);
    times.push((await tab.said(answers)) - startedAt);
    tab.close();
  }
  return median(times.slice(5));
}

async function runsASecond(group: Group): Promise<number> {
  const chats = Array.from({ length: RUNS / PER_CHAT }, () => randomUUID());
  const tabs = await Promise.all(chats.map((chat, n) => group.follow(memberOf(group, n), chat)));
  const startedAt = performance.now();
  await Promise.all(chats.map((chat, n) => group.post(memberOf(group, n), chat, `Send ${PER_CHAT} out.`)));
  const ends = await Promise.all(tabs.map((tab) => tab.said(1 + PER_CHAT)));
  for (const tab of tabs) tab.close();
  return (RUNS * 1000) / (Math.max(...ends) - startedAt);
}

async function messagesASecond(group: Group): Promise<number> {
  const chats = Array.from({ length: BURST_CHATS }, () => randomUUID());
  const tabs = await Promise.all(chats.map((chat, n) => group.follow(memberOf(group, n), chat)));
  const startedAt = performance.now();
  for (const [n, chat] of chats.entries()) for (let i = 0; i < BURST_EACH; i++) await group.post(memberOf(group, n), chat, "How are you?");
  const ends = await Promise.all(tabs.map((tab) => tab.said(BURST_EACH)));
  for (const tab of tabs) tab.close();
  return (BURST_CHATS * BURST_EACH * 1000) / (Math.max(...ends) - startedAt);
}

function toRows(sides: Partial<Record<Side, Measured>>): Row[] {
  const names = Object.keys(SIDES) as Side[];
  const row = (measure: string, pick: (side: Measured) => number | undefined, show: (value: number) => string, detail: string): Row =>
    told(`${measure}: ${names.join(" / ")}`, names.map((name) => show(pick(sides[name] ?? {}) ?? Number.NaN)).join(" / "), detail);
  const count = (value: number): string => value.toFixed(0);
  return [
    row("message → reply", (side) => side.replyMs, us, "posted to one process, seen on the page of another where there is one"),
    row("message → spawn → announcement", (side) => side.announceMs, us, "the model takes 50 ms for each call of a sub-agent"),
    row("runs a second, 1 000 of a 50 ms model at maxConcurrent 8", (side) => side.at8, count, "80 at most: two calls each"),
    row("the same at maxConcurrent 64", (side) => side.at64, count, "640 at most"),
    row("short turns a second at saturation", (side) => side.perSecond, count, `${BURST_CHATS} chats, 32 at a time`),
  ];
}

async function measureTogether(folder: string, server: PostgresServer, config: Record<string, unknown>): Promise<Row[]> {
  await using schema = await createSchema(server.url);
  const group = await startGroup(folder, config, ["a", "b", "c"], schema.url);
  try {
    return [await stops(group), await takeover(group, "SIGKILL"), await takeover(group, "SIGSTOP")];
  } finally {
    await group.stop();
  }
}

/** From the press to the answer that says how many were stopped, wherever they ran. */
async function stops(group: Group): Promise<Row> {
  const times: number[] = [];
  for (let round = 0; round < STOPS; round++) {
    const chat = randomUUID();
    const tab = await group.follow(memberOf(group, round), chat);
    await group.post(memberOf(group, round), chat, "Send 3 out, to wait.");
    await tab.said(1);
    const startedAt = performance.now();
    await group.post(memberOf(group, round + 1), chat, "/stop");
    times.push((await tab.said(2)) - startedAt);
    if (!/Stopped 3 sub-agents/.test(tab.texts.at(-1) ?? "")) throw new Error(`not stopped: ${tab.texts.at(-1)}`);
    tab.close();
  }
  const worst = Math.max(...times);
  return below("stop across three processes, the slowest of 20", worst, 1_000, "ms", `median ${us(median(times))}`);
}

/** The process that routes and delivers is ended or frozen; from then to the answer to a message posted to another one. */
async function takeover(group: Group, signal: "SIGKILL" | "SIGSTOP"): Promise<Row> {
  const front = group.members.find((member) => !isGone(member) && /"duty":"front"/.test(member.output()));
  const other = group.members.find((member) => member !== front && !isGone(member));
  if (front === undefined || other === undefined) throw new Error("there is nobody to take over from");
  const chat = randomUUID();
  const tab = await group.follow(other, chat);
  const startedAt = performance.now();
  front.signal(signal);
  await group.post(other, chat, "How are you?");
  const tookMs = (await tab.said(1)) - startedAt;
  tab.close();
  if (signal === "SIGSTOP") front.signal("SIGCONT");
  else await front.end("SIGKILL");
  await sleep(0);
  const how = signal === "SIGKILL" ? "killed with SIGKILL" : "frozen with SIGSTOP";
  return below(`an answer after the process in front was ${how}`, tookMs / 1000, 15, "s", "a lease of 10 s, looked at every 2 s");
}

function isGone({ pid }: Member): boolean {
  try {
    process.kill(pid, 0);
    return false;
  } catch {
    return true;
  }
}
