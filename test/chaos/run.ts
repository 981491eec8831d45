// One chaos run: traffic on all channels while the process is killed at random moments and at named points, restarted on
// the same folder, drained at last, asked for all its slots at once, and judged.
// createWorld → kill loop → drain → probe → stop → History → check.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { FAILPOINTS } from "../../src/core/failpoints.ts";
import { createRandom, type Random } from "../support/random.ts";
import { check, type Verdict } from "./checker.ts";
import { delay, until } from "./gateway-process.ts";
import type { History, Incident } from "./history.ts";
import { createTranscriptWatch, readTables, readTranscripts, type TranscriptWatch, unread, withKeys } from "./record.ts";
import type { Platforms } from "./scene.ts";
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
import { createWorld, type World } from "./world.ts";

export interface ChaosOptions {
  readonly kills: number;
  readonly seed: number;
  /** No more kills after this, however many there were. */
  readonly minutes: number;
  readonly platforms?: Platforms;
  /** Said now and then while it runs. */
  progress?(line: string): void;
}

export interface ChaosOutcome {
  readonly verdict: Verdict;
  readonly history: History;
  readonly kills: number;
  /** Of them, at a named point. */
  readonly pointKills: number;
  readonly starts: number;
  readonly durationMs: number;
  /** How often each named point killed it. */
  readonly points: Readonly<Record<string, number>>;
  /** How many were planted and how often one was said; those that were found are among the verdict's troubles. */
  readonly secrets: { readonly planted: number; readonly said: number };
}

interface State {
  readonly options: ChaosOptions;
  readonly world: World;
  readonly traffic: Traffic;
  /** Decides lives and deaths. */
  readonly random: Random;
  /** Decides when somebody speaks: asked by a timer, so it must not use up the other's choices. */
  readonly pace: Random;
  readonly transcripts: TranscriptWatch;
  readonly incidents: Incident[];
  readonly troubles: string[];
  readonly points: Record<string, number>;
  kills: number;
  starts: number;
  /** Nobody says anything new while this much waits. */
  isCrowded: boolean;
  /** How much longer than usual a start takes on this machine: where that is six seconds, a life of one would see nothing else. */
  slowness: number;
}

const START_MS = 20_000;
const USUAL_START_MS = 1_000;
/** Without anything coming to its end; and in all. */
const DRAIN_MS = 180_000;
const MOST_DRAIN_MS = 600_000;
const TICK_MS = 60;
const MAX_TROUBLES = 10;
const CROWDED = 100;
const ROOMY = 50;

export async function runChaos(options: ChaosOptions): Promise<ChaosOutcome> {
  const startedAt = performance.now();
  const dir = mkdtempSync(join(tmpdir(), "herald-chaos-"));
  const world = await createWorld(dir, options.seed + 4, options.platforms);
  const random = createRandom(options.seed);
  const state: State = {
    ...{ options, world, random, traffic: createTraffic(world, createRandom(options.seed + 1)), pace: createRandom(options.seed + 3) },
    transcripts: createTranscriptWatch(join(world.gateway.stateDir, "agents/main/sessions")),
    ...{ incidents: [], troubles: [], points: {}, kills: 0, starts: 0, isCrowded: false, slowness: 1 },
  };
  await meet(state).catch(async (error: unknown) => {
    await world.close();
    throw error;
  });
  const ticker = setInterval(() => tick(state), TICK_MS);
  try {
    const deadline = startedAt + options.minutes * 60_000;
    world.trouble(createRandom(options.seed + 2));
    // A program that keeps ending by itself proves nothing more.
    const goesOn = (): boolean => state.kills < options.kills && state.troubles.length < MAX_TROUBLES && performance.now() < deadline;
    while (goesOn()) await oneLife(state);
    clearInterval(ticker);
    const history = await finish(state);
    return {
      verdict: check(history),
      history,
      kills: state.kills,
      pointKills: Object.values(state.points).reduce((sum, count) => sum + count, 0),
      starts: state.starts,
      durationMs: performance.now() - startedAt,
      points: state.points,
      secrets: { planted: world.secrets.planted.length, said: world.secrets.said() },
    };
  } finally {
    clearInterval(ticker);
    await world.close();
    rmSync(dir, { recursive: true, force: true });
  }
}

function tick({ world, traffic, pace, isCrowded, slowness }: State): void {
  world.watch();
  // Also when there is much to do: whoever waits for an answer keeps others waiting.
  if (pace.chance(0.15)) traffic.tend();
  // In the moment of a kill nobody takes it; the next look finds it again.
  if (pace.chance(0.02) && world.gateway.isRunning()) void answerLeft(world.gateway, world.rows, MOST_UNALLOWED).catch(() => undefined);
  // People also write while nobody is there to read it.
  if (!isCrowded && pace.chance((world.gateway.isRunning() ? 0.5 : 0.1) / slowness)) traffic.step();
}

/** From one start to the kill that ends it. */
async function oneLife(state: State): Promise<void> {
  const { world, random } = state;
  const point = random.chance(0.4) ? random.pick(FAILPOINTS) : null;
  const hits = random.weighted({ 1: 6, 2: 2, 3: 1, 5: 1 });
  world.stir(random);
  const begunAt = performance.now();
  begin(state, point === null ? null : `${point}:${hits}`);
  if (point === null && random.chance(0.1)) await world.gateway.ended(random.between(30, 1_500));
  else if (await world.gateway.ready(START_MS)) {
    state.slowness = Math.max(1, (performance.now() - begunAt) / USUAL_START_MS);
    await world.gateway.ended(lifeMs(random, point !== null) * state.slowness);
  }
  const byPoint = !world.gateway.isRunning();
  await killNow(world);
  end(state, byPoint ? point : null);
}

async function killNow({ gateway }: World): Promise<void> {
  gateway.kill("SIGKILL");
  if (!(await gateway.ended(10_000))) throw new Error("the gateway survived SIGKILL");
}

/** Before anybody speaks the bot was on every platform once: on some, what was said before that is none of its business. */
async function meet(state: State): Promise<void> {
  const { world } = state;
  if (world.isKnown()) return;
  begin(state, null);
  if (!(await until(world.isKnown, START_MS * 3, TICK_MS))) throw new Error("the gateway did not get to every platform");
  await killNow(world);
  end(state, null);
}

/** Behind readiness. Mostly too short to get much done; now and then long enough to catch up. */
function lifeMs(random: Random, waitsForPoint: boolean): number {
  if (waitsForPoint) return random.between(500, 2_000);
  return random.chance(0.15) ? random.between(1_200, 2_500) : random.between(20, 900);
}

function begin(state: State, failpoint: string | null): void {
  state.starts++;
  state.incidents.push({ at: Date.now(), what: `start${failpoint === null ? "" : `, to die at ${failpoint}`}` });
  state.world.gateway.start(failpoint);
}

function end(state: State, point: string | null): void {
  const { gateway } = state.world;
  const { code, signal } = gateway.exit();
  state.kills++;
  state.incidents.push({ at: Date.now(), what: `killed${point === null ? "" : ` at ${point}`}` });
  if (point !== null) state.points[point] = (state.points[point] ?? 0) + 1;
  if (signal !== "SIGKILL") state.troubles.push(`it ended by itself with code ${code}: ${gateway.output().slice(-1_500)}`);
  state.troubles.push(...state.transcripts.look());
  const open = countOpen(state.world);
  const waiting = busyness(open);
  state.isCrowded = state.isCrowded ? waiting > ROOMY : waiting > CROWDED;
  if (state.kills % 25 === 0) state.options.progress?.(`${state.kills} kills, ${state.traffic.said().length} said, ${open.total} open`);
}

/** A database nobody has made yet has nothing. */
function countOpen(world: World): Open {
  try {
    return toOpen(world.rows<Waiting>(OPEN_SQL));
  } catch {
    return toOpen([]);
  }
}

/** No more kills, no more trouble: everything must come to its end by itself. */
async function finish(state: State): Promise<History> {
  const { world, traffic, options } = state;
  world.trouble(null);
  begin(state, null);
  if (!(await world.gateway.ready(START_MS))) state.troubles.push(`it did not start again: ${world.gateway.output().slice(-1_500)}`);
  options.progress?.("draining");
  await drain(state);
  traffic.probe();
  await drain(state);
  const shown = await readPage(world.gateway);
  state.troubles.push(...(await checkTabs(world.tabs, () => world.rows<ChatMessage>(MESSAGES_SQL))));
  world.gateway.kill("SIGTERM");
  await world.gateway.ended(40_000);
  const { code } = world.gateway.exit();
  if (code !== 0) state.troubles.push(`it did not stop by itself: code ${code}: ${world.gateway.output().slice(-1_500)}`);
  state.troubles.push(...state.transcripts.look(), ...traffic.refusals().map((text) => `a platform refused ${text}`), ...integrity(world));
  const seen = (await world.seen()).toSorted((a, b) => a.order - b.order);
  state.troubles.push(...leaks(world.secrets, [world.gateway], [shown, ...seen.map((one) => one.text)].join("\n")));
  const tables = await readTables(world.rows);
  const known = withKeys(seen, tables.outbox);
  state.troubles.push(...unread(known));
  const wanted = { wantedMain: world.lanes.main, wantedSubagent: world.lanes.subagent };
  return {
    said: traffic.said(),
    seen: known,
    ...tables,
    transcripts: readTranscripts(join(world.gateway.stateDir, "agents/main/sessions")),
    leftUnnamed: [...world.gateway.leftUnnamed()],
    incidents: state.incidents,
    slots: { main: world.door.most("main"), subagent: world.door.most("subagent"), ...wanted },
    troubles: state.troubles,
  };
}

/** Until nothing is open, twice in a row: what is settled may have set something off. */
async function drain(state: State): Promise<void> {
  const { world, traffic } = state;
  await traffic.settled();
  // The platforms hand over what was said while nobody was there.
  const isArrived = (): boolean => {
    const known = new Set(world.rows<{ id: string }>("SELECT external_id AS id FROM inbox").map((row) => row.id));
    return traffic.said().every(({ externalId, isTaken }) => !isTaken || known.has(externalId));
  };
  let quiet = 0;
  let least = Number.POSITIVE_INFINITY;
  let progressAt = performance.now();
  const isQuiet = (): boolean => {
    world.watch();
    const open = countOpen(world);
    if (open.asked > 0) {
      traffic.tend();
      // A look too early is made again.
      void answerLeft(world.gateway, world.rows).catch(() => undefined);
    }
    quiet = isArrived() && open.total === 0 ? quiet + 1 : 0;
    if (open.total < least) progressAt = performance.now();
    least = Math.min(least, open.total);
    return quiet >= 3 || performance.now() - progressAt > DRAIN_MS;
  };
  if (!(await until(isQuiet, MOST_DRAIN_MS, 100)) || quiet < 3)
    state.troubles.push(`it did not settle within ${DRAIN_MS / 1000} s: ${JSON.stringify(countOpen(world))}`);
  await traffic.settled();
  await delay(200);
}

function integrity(world: World): string[] {
  return world
    .rows<{ integrity_check: string }>("PRAGMA integrity_check")
    .flatMap((row) => (row.integrity_check === "ok" ? [] : [`database: ${row.integrity_check}`]));
}
