// What befalls several processes and their PostgreSQL in a chaos run, chosen by the seed. Each fault that lasts is over by itself; they
// overlap as they come.
import type { Random } from "../support/random.ts";
import { delay, until } from "./gateway-process.ts";
import { type ChaosNode, LEASE_MS, type NodesWorld } from "./nodes-world.ts";

export type Fault = "kill" | "freeze" | "doze" | "crash" | "cut" | "cutNode" | "deafen" | "hold" | "loseAnswer";

export interface Faults {
  /** One more; resolves when the next may come. */
  next(): Promise<void>;
  counts(): Readonly<Record<Fault, number>>;
  /** The server or the line to it was away at some time since then. */
  wasAway(since: number): boolean;
  /** Resolves when everything works again. */
  over(): Promise<void>;
}

export interface FaultDeps {
  readonly world: NodesWorld;
  readonly random: Random;
  note(what: string): void;
  trouble(text: string): void;
}

const WEIGHTS: Readonly<Record<Fault, number>> = {
  kill: 60,
  freeze: 6,
  doze: 4,
  crash: 7,
  cut: 4,
  cutNode: 5,
  deafen: 4,
  hold: 6,
  loseAnswer: 12,
};
/** One that was frozen for longer than its lease begins anew as soon as it is let go; the machine may be busy. */
const END_MS = 15_000;

interface State extends FaultDeps {
  readonly counts: Record<Fault, number>;
  readonly underWay: Set<Promise<void>>;
  isServerBusy: boolean;
  awayAt: number;
}

export function createFaults(deps: FaultDeps): Faults {
  const counts = Object.fromEntries(Object.keys(WEIGHTS).map((name) => [name, 0])) as Record<Fault, number>;
  const state: State = { ...deps, counts, underWay: new Set(), isServerBusy: false, awayAt: 0 };
  return {
    async next() {
      const { random } = state;
      await delay(random.chance(0.2) ? random.between(3_000, 6_000) : random.between(100, 2_500));
      const fault = random.weighted(WEIGHTS);
      const work = HOW[fault](state);
      if (work === null) return;
      counts[fault]++;
      const over = work.finally(() => state.underWay.delete(over));
      state.underWay.add(over);
    },
    counts: () => counts,
    wasAway: (since) => state.isServerBusy || state.awayAt >= since,
    async over() {
      await Promise.all(state.underWay);
    },
  };
}

/** Null: nobody it could befall just now. */
const HOW: Readonly<Record<Fault, (state: State) => Promise<void> | null>> = {
  kill: (state) => {
    // Mostly one that works; sometimes in the middle of its start.
    const fits = state.random.chance(0.85) ? isAwake : () => true;
    return withNode(state, fits, async (node) => {
      state.note(`${node.name} killed`);
      node.killedBy = "us";
      node.gateway.kill("SIGKILL");
    });
  },
  freeze: (state) => withNode(state, isAwake, (node) => freeze(state, node, LEASE_MS + state.random.between(300, 3_000))),
  doze: (state) => withNode(state, isAwake, (node) => freeze(state, node, state.random.between(200, LEASE_MS * 0.6))),
  crash: (state) => alone(state, () => crash(state)),
  cut: (state) => alone(state, () => cutAll(state)),
  cutNode: (state) =>
    withNode(
      state,
      () => true,
      async (node) => {
        state.note(`lines of ${node.name} cut`);
        state.awayAt = Date.now();
        node.line.cut();
      },
    ),
  deafen: (state) => deafen(state),
  hold: (state) =>
    withNode(
      state,
      () => true,
      (node) => hold(state, node),
    ),
  loseAnswer: (state) =>
    withNode(
      state,
      () => true,
      async (node) => {
        state.note(`${node.name} loses the answer to a commit`);
        node.line.loseAnswer();
      },
    ),
};

const isAwake = ({ gateway }: ChaosNode): boolean => gateway.wasReady();

function withNode(state: State, fits: (node: ChaosNode) => boolean, work: (node: ChaosNode) => Promise<void>): Promise<void> | null {
  const fitting = state.world.nodes.filter((node) => !node.isFrozen && node.gateway.isRunning() && fits(node));
  return fitting.length === 0 ? null : work(state.random.pick(fitting));
}

function alone(state: State, work: () => Promise<void>): Promise<void> | null {
  if (state.isServerBusy) return null;
  state.isServerBusy = true;
  return work().finally(() => {
    state.isServerBusy = false;
    state.awayAt = Date.now();
  });
}

async function freeze({ note, trouble }: State, node: ChaosNode, ms: number): Promise<void> {
  note(`${node.name} frozen for ${ms} ms`);
  node.isFrozen = true;
  const [before, life] = [node.gateway.anews(), node.gateway.life()];
  node.gateway.kill("SIGSTOP");
  await delay(ms);
  node.gateway.kill("SIGCONT");
  note(`${node.name} goes on`);
  const isAnother = (): boolean => node.gateway.anews() > before || node.gateway.life() !== life || !node.gateway.isRunning();
  if (ms > LEASE_MS && !(await until(isAnother, END_MS)))
    trouble(`${node.name} was frozen for ${ms} ms, longer than its lease, and went on: ${node.gateway.output().slice(-800)}`);
  // Whoever counts why it began anew looks every few milliseconds.
  await delay(200);
  node.isFrozen = false;
}

async function crash({ world, random, note }: State): Promise<void> {
  note("PostgreSQL crashes");
  await world.server.kill();
  await delay(random.chance(0.3) ? random.between(1_000, LEASE_MS * 1.5) : random.between(0, 600));
  await world.server.start();
  note("PostgreSQL is back");
}

async function cutAll({ world, note }: State): Promise<void> {
  note("all connections are terminated");
  await world.rows(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'",
  );
}

/** For everybody: no process hears of what the others did. */
async function deafen(state: State): Promise<void> {
  const { world, random, note } = state;
  const ms = random.between(1_500, 10_000);
  note(`no notification arrives for ${ms} ms`);
  for (const { line } of world.nodes) line.deafen(true);
  state.awayAt = Date.now() + ms;
  await delay(ms);
  for (const { line } of world.nodes) line.deafen(false);
  // Who begins just then believes that notifications never come through, says so and ends.
  state.awayAt = Date.now();
}

async function hold(state: State, { name, line }: ChaosNode): Promise<void> {
  const { random, note } = state;
  const ms = random.chance(0.3) ? random.between(LEASE_MS, LEASE_MS * 2) : random.between(200, LEASE_MS * 0.7);
  note(`nothing goes between ${name} and PostgreSQL for ${ms} ms`);
  line.hold(true);
  await delay(ms);
  line.hold(false);
  state.awayAt = Date.now();
}
