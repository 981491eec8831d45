// One chaos run with several processes on one PostgreSQL: traffic as for one process, faults of nodes-faults.ts, each process started
// again whenever it ended, drained at last, asked for all its slots at once, stopped in an orderly way, and judged as strictly as one.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { FAILPOINTS } from "../../src/core/failpoints.ts";
import { createRandom, type Random } from "../support/random.ts";
import { check } from "./checker.ts";
import { delay } from "./gateway-process.ts";
import type { History, Incident } from "./history.ts";
import { createFaults, type Fault, type Faults } from "./nodes-faults.ts";
import { type ChaosNode, createNodesWorld, LEASE_MS, type NodesWorld } from "./nodes-world.ts";
import { readTables, readTranscriptRows, seenOnPage } from "./record.ts";
import type { ChaosOptions, ChaosOutcome } from "./run.ts";
import {
  answerLeft,
  busyness,
  checkTabs,
  leaks,
  MESSAGES_SQL,
  MOST_UNALLOWED,
  OPEN_SQL,
  type Open,
  readPage,
  toOpen,
  type Waiting,
} from "./settle.ts";
import type { ChatMessage } from "./tabs.ts";
import { createTraffic, type Traffic } from "./traffic.ts";

export interface NodesOptions extends ChaosOptions {
  readonly nodes: number;
  /** A folder for the whole logs of all processes, in every detail. */
  readonly logs?: string;
}

export interface NodesOutcome extends ChaosOutcome {
  readonly faults: Readonly<Record<Fault, number>>;
  /** Processes that ended because their lease was over: after a freeze, and after they were cut off for too long. */
  readonly ended: { readonly frozen: number; readonly cutOff: number; readonly unasked: number; readonly atStart: number };
  /** Notifications that nobody got. */
  readonly bellsLost: number;
  readonly answersLost: number;
  /** The most that were at work at once in each lane, by the rows, and how many may be. */
  readonly most: { readonly main: number; readonly subagent: number; readonly maxSubagent: number };
}

interface State {
  readonly options: NodesOptions;
  readonly world: NodesWorld;
  readonly traffic: Traffic;
  readonly faults: Faults;
  readonly random: Random;
  readonly pace: Random;
  readonly incidents: Incident[];
  readonly troubles: string[];
  readonly points: Record<string, number>;
  readonly ended: { frozen: number; cutOff: number; unasked: number; atStart: number };
  readonly most: { main: number; subagent: number };
  kills: number;
  starts: number;
  isCrowded: boolean;
  /** No more named points, no more waiting before a start. */
  isCalm: boolean;
  /** Nobody is started again. */
  isOver: boolean;
}

const START_MS = 60_000;
/** Without anything coming to its end; and in all. */
const DRAIN_MS = 180_000;
const MOST_DRAIN_MS = 900_000;
const TICK_MS = 60;
const SAMPLE_MS = 40;
const MAX_TROUBLES = 10;
const CROWDED = 60;
const ROOMY = 30;
/** What a lease lost has to do with may be so long ago. */
const AFTER_MS = LEASE_MS * 3;

export async function runNodesChaos(options: NodesOptions): Promise<NodesOutcome> {
  const startedAt = performance.now();
  const dir = mkdtempSync(join(tmpdir(), "herald-chaos-"));
  const { nodes: count, seed, logs = null } = options;
  const world = await createNodesWorld({ dir, count, random: createRandom(seed + 5), seed: seed + 4, logs });
  const state = createState(options, world);
  const ticker = setInterval(() => tick(state), TICK_MS);
  const supervisors = world.nodes.map((node) => supervise(state, node));
  const sampling = sample(state);
  try {
    const deadline = startedAt + options.minutes * 60_000;
    await anyReady(world);
    world.trouble(createRandom(options.seed + 2));
    const goesOn = (): boolean => state.kills < options.kills && state.troubles.length < MAX_TROUBLES && performance.now() < deadline;
    while (goesOn()) await state.faults.next();
    clearInterval(ticker);
    const history = await finish(state);
    const counts = world.nodes.map(({ line }) => line.counts());
    const sum = (numbers: readonly number[]): number => numbers.reduce((total, one) => total + one, 0);
    return {
      ...{ verdict: check(history), history, kills: state.kills, starts: state.starts, points: state.points, ended: state.ended },
      pointKills: sum(Object.values(state.points)),
      durationMs: performance.now() - startedAt,
      secrets: { planted: world.secrets.planted.length, said: world.secrets.said() },
      faults: state.faults.counts(),
      bellsLost: sum(counts.map(({ bells }) => bells)),
      answersLost: sum(counts.map(({ answers }) => answers)),
      most: { ...state.most, maxSubagent: world.lanes.subagent },
    };
  } finally {
    clearInterval(ticker);
    state.isOver = true;
    await state.faults.over();
    await world.close();
    await Promise.all([...supervisors, sampling]);
    rmSync(dir, { recursive: true, force: true });
  }
}

function createState(options: NodesOptions, world: NodesWorld): State {
  const { seed } = options;
  const random = createRandom(seed);
  const incidents: Incident[] = [];
  const troubles: string[] = [];
  const note = (what: string): void => void incidents.push({ at: Date.now(), what });
  const faults = createFaults({ world, random, note, trouble: (text) => void troubles.push(text) });
  return {
    ...{ options, world, traffic: createTraffic(world, createRandom(seed + 1)), faults, random: createRandom(seed + 6) },
    ...{ pace: createRandom(seed + 3), incidents, troubles, points: {}, kills: 0, starts: 0 },
    ...{ ended: { frozen: 0, cutOff: 0, unasked: 0, atStart: 0 }, most: { main: 0, subagent: 0 } },
    ...{ isCrowded: false, isCalm: false, isOver: false },
  };
}

async function anyReady({ nodes }: NodesWorld): Promise<void> {
  await Promise.all(nodes.map(({ gateway }) => gateway.ready(START_MS)));
}

function tick({ world, traffic, pace, isCrowded }: State): void {
  world.watch();
  if (pace.chance(0.15)) traffic.tend();
  if (pace.chance(0.02)) void tendLeft(world);
  if (!isCrowded && pace.chance(0.3)) traffic.step();
}

/** In the moment of a kill nobody takes it; the next look finds it again. */
async function tendLeft({ nodes, rows }: NodesWorld): Promise<void> {
  const awake = nodes.find(({ gateway }) => gateway.isRunning() && gateway.wasReady());
  if (awake !== undefined) await answerLeft(awake.gateway, rows, MOST_UNALLOWED).catch(() => undefined);
}

const note = ({ incidents }: State, what: string): void => void incidents.push({ at: Date.now(), what });

/** Starts it, and again whenever it ended, whatever ended it. */
async function supervise(state: State, node: ChaosNode): Promise<void> {
  const { random, world, points } = state;
  while (!state.isOver) {
    const point = !state.isCalm && random.chance(0.35) ? random.pick(FAILPOINTS) : null;
    node.failpoint = point === null ? null : `${point}:${random.weighted({ 1: 6, 2: 2, 3: 1, 5: 1 })}`;
    node.killedBy = null;
    world.stir(random);
    note(state, `${node.name} starts${node.failpoint === null ? "" : `, to die at ${node.failpoint}`}`);
    state.starts++;
    const startedAt = Date.now();
    node.gateway.start(node.failpoint);
    while (!(await node.gateway.ended(600_000)));
    if (state.isOver) return;
    const { signal } = node.gateway.exit();
    if (signal === "SIGKILL") {
      if (node.killedBy === null && point !== null) points[point] = (points[point] ?? 0) + 1;
      state.kills++;
      note(state, `${node.name} is dead${node.killedBy === null ? ` at ${node.failpoint}` : ""}`);
      if (state.kills % 25 === 0) await progress(state);
    } else await endedItself(state, node, startedAt);
    await delay(state.isCalm || random.chance(0.6) ? 0 : random.between(100, 2_500));
  }
}

async function progress({ options, kills, traffic, world, faults }: State): Promise<void> {
  const open = await countOpen(world);
  options.progress?.(`${kills} kills, ${traffic.said().length} said, ${open?.total ?? "?"} open, ${JSON.stringify(faults.counts())}`);
}

/** Only because it could not begin while the server was away. */
async function endedItself(state: State, node: ChaosNode, startedAt: number): Promise<void> {
  const { code, signal } = node.gateway.exit();
  const output = node.gateway.output();
  note(state, `${node.name} ended by itself, code ${code}`);
  if (code === 1 && !node.gateway.wasReady() && state.faults.wasAway(startedAt - AFTER_MS)) state.ended.atStart++;
  else state.troubles.push(`${node.name} ended by itself with code ${code} ${signal}: ${output.slice(-1_500)}`);
  // Not a hundred times a minute.
  await delay(300);
}

/** Those that began anew since the last look, by what made them. */
function countAnews(state: State): void {
  for (const node of state.world.nodes) {
    const count = node.gateway.anews() - node.anews;
    node.anews += count;
    if (count === 0) continue;
    note(state, `${node.name} began anew`);
    if (node.isFrozen) state.ended.frozen += count;
    else if (state.faults.wasAway(Date.now() - AFTER_MS)) state.ended.cutOff += count;
    else state.ended.unasked += count;
  }
}

/** Watches the limit, and how much there is to do. */
async function sample(state: State): Promise<void> {
  const { world, most, troubles } = state;
  const sql = "SELECT lane, count(*) AS n FROM lane_jobs WHERE owner IS NOT NULL GROUP BY lane";
  for (let looks = 0; !state.isOver; looks++) {
    await delay(SAMPLE_MS);
    try {
      for (const { lane, n } of await world.rows<{ lane: "main" | "subagent"; n: number }>(sql)) {
        if (lane === "subagent" && n > world.lanes.subagent && n > most.subagent)
          troubles.push(`${n} runs were at work where ${world.lanes.subagent} may be`);
        most[lane] = Math.max(most[lane], n);
      }
    } catch {
      // The server is away.
    }
    countAnews(state);
    if (looks % 25 !== 0) continue;
    const open = await countOpen(world);
    if (open === null) continue;
    const waiting = busyness(open);
    state.isCrowded = state.isCrowded ? waiting > ROOMY : waiting > CROWDED;
  }
}

/** Null: the server is away. */
async function countOpen(world: NodesWorld): Promise<Open | null> {
  try {
    return toOpen(await world.rows<Waiting>(OPEN_SQL));
  } catch {
    return null;
  }
}

/** No more faults: everything must come to its end by itself. */
async function finish(state: State): Promise<History> {
  const { world, traffic, options } = state;
  state.isCalm = true;
  world.trouble(null);
  await state.faults.over();
  // Those that are to die at a named point would do so in the middle of what is asked for below.
  for (const node of world.nodes) {
    if (node.failpoint === null) continue;
    node.killedBy = "us";
    node.gateway.kill("SIGKILL");
  }
  options.progress?.("draining");
  await drain(state);
  traffic.probe();
  await drain(state);
  const awake = world.nodes.find(({ gateway }) => gateway.isRunning() && gateway.wasReady());
  const shown = awake === undefined ? "" : await readPage(awake.gateway);
  if (awake === undefined) state.troubles.push("no process is there at the end");
  state.troubles.push(...(await checkTabs(world.tabs, () => world.rows<ChatMessage>(MESSAGES_SQL))));
  await stopAll(state);
  const seen = [...world.seenOnPlatforms(), ...(await seenOnPage(world.rows))].toSorted((a, b) => a.order - b.order);
  const tables = await readDatabase(world);
  if (options.logs !== undefined) writeFileSync(join(options.logs, "tables.txt"), tables);
  const texts = [shown, tables, ...seen.map((one) => one.text)].join("\n");
  const processes = world.nodes.map(({ gateway }) => gateway);
  state.troubles.push(...traffic.refusals().map((text) => `a platform refused ${text}`), ...leaks(world.secrets, processes, texts));
  const wanted = { wantedMain: world.lanes.main, wantedSubagent: world.lanes.subagent };
  return {
    said: traffic.said(),
    seen,
    ...(await readTables(world.rows)),
    transcripts: await readTranscriptRows(world.rows),
    leftUnnamed: processes.flatMap((one) => [...one.leftUnnamed()]),
    incidents: state.incidents,
    slots: { main: world.door.most("main"), subagent: world.door.most("subagent"), ...wanted },
    troubles: state.troubles,
  };
}

/** Until nothing is open, three looks in a row: what is settled may have set something off. */
async function drain(state: State): Promise<void> {
  const { world, traffic } = state;
  await traffic.settled();
  const deadline = performance.now() + MOST_DRAIN_MS;
  let open: Open | null = null;
  let least = Number.POSITIVE_INFINITY;
  let progressAt = performance.now();
  for (let quiet = 0; quiet < 3; ) {
    const now = performance.now();
    if (open !== null && open.total < least) {
      least = open.total;
      progressAt = now;
    }
    if (now > deadline || now - progressAt > DRAIN_MS) {
      const left = await world.rows("SELECT lane, id, owner, again, front FROM lane_jobs");
      return void state.troubles.push(`it did not settle within ${DRAIN_MS / 1000} s: ${JSON.stringify(open)} ${JSON.stringify(left)}`);
    }
    world.watch();
    open = await countOpen(world);
    if ((open?.asked ?? 0) > 0) {
      traffic.tend();
      // A look too early is made again.
      const awake = world.nodes.find(({ gateway }) => gateway.isRunning());
      if (awake !== undefined) await answerLeft(awake.gateway, world.rows).catch(() => undefined);
    }
    const known = new Set((await world.rows<{ id: string }>("SELECT external_id AS id FROM inbox")).map((row) => row.id));
    const isArrived = traffic.said().every(({ externalId, isTaken }) => !isTaken || known.has(externalId));
    quiet = isArrived && open?.total === 0 ? quiet + 1 : 0;
    await delay(200);
  }
}

/** In an orderly way, one after the other; then nothing is left of any of them. */
async function stopAll(state: State): Promise<void> {
  const { world, troubles } = state;
  state.isOver = true;
  for (const { name, gateway } of world.nodes) {
    if (!gateway.isRunning()) continue;
    gateway.kill("SIGTERM");
    await gateway.ended(60_000);
    const { code } = gateway.exit();
    if (code !== 0) troubles.push(`${name} did not stop by itself: code ${code}: ${gateway.output().slice(-1_500)}`);
  }
  for (const table of ["nodes", "leaders", "lane_jobs"]) {
    const left = await world.rows(`SELECT * FROM ${table}`);
    if (left.length > 0) troubles.push(`${table} is not empty after an orderly end: ${JSON.stringify(left)}`);
  }
}

/** All that stands in it, a row a line. */
async function readDatabase({ rows }: NodesWorld): Promise<string> {
  const tables = await rows<{ name: string }>("SELECT tablename AS name FROM pg_tables WHERE schemaname = 'public'");
  const texts: string[] = [];
  for (const { name } of tables) {
    const found = await rows<{ row: unknown }>(`SELECT to_json(t) AS row FROM ${name} t`);
    texts.push(...found.map(({ row }) => `${name} ${JSON.stringify(row)}`));
  }
  return texts.join("\n");
}
