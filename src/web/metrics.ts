// GET /metrics in Prometheus format (OB1): runs by state, lane depth and wait, deliveries, model calls, tokens, cost,
// event-loop delay. Counts what the bus tells; gauges are read when somebody looks.
import { monitorEventLoopDelay } from "node:perf_hooks";
import type { Registry } from "prom-client";
import type { AppEvent, Bus } from "../core/events.ts";
import { onFirstUse } from "../core/first-use.ts";
import type { Route } from "./http.ts";

export interface MetricsOptions {
  readonly bus: Bus;
  readonly lanes: readonly { readonly name: string; depth(): Promise<{ waiting: number; running: number }> }[];
  /** Unfinished runs by state. */
  countRuns(): Promise<Readonly<Record<string, number>>>;
  countOpenMessages(): Promise<number>;
  countOpenQuestions(): Promise<number>;
  /** This process among several; null: it is alone. */
  readonly node: { readonly name: string; readonly role: string } | null;
}

export interface Metrics {
  readonly route: Route;
  close(): void;
}

type Prom = typeof import("prom-client");
type Delay = ReturnType<typeof monitorEventLoopDelay>;

const NANO = 1e9;
const DELAY_RESOLUTION_MS = 10;
const COUNTED: ReadonlySet<AppEvent["type"]> = new Set(["outbox.settled", "lane.started", "turn.ended", "run.ended", "model.called"]);
/** A few milliseconds of counting. */
const MAX_TOLD = 1000;

export function createMetrics(options: MetricsOptions): Metrics {
  // From the first look on: it wakes the process a hundred times a second, most of what one at rest would do at all.
  const delay = monitorEventLoopDelay({ resolution: DELAY_RESOLUTION_MS });
  // The library is an eighth of the work of a start and most starts are never looked at. So what is to be counted waits here until somebody
  // looks, or until there is much of it.
  const told: AppEvent[] = [];
  const load = onFirstUse(async () => {
    const prom = await import("prom-client");
    const registry = new prom.Registry();
    const registers = [registry];
    addGauges(prom, options, registers);
    addEventLoopDelay(prom, delay, registers);
    return { registry, count: createCounters(prom, registers) };
  });
  const counted = async (): Promise<Registry> => {
    const { registry, count } = await load();
    for (const event of told.splice(0)) count(event);
    return registry;
  };
  // Each process counts what it does itself: a sum over all of them counts nothing twice.
  const off = options.bus.on((event) => {
    // Where the library can't be read now (no handle left), the oldest is forgotten.
    if (COUNTED.has(event.type) && told.push(event) > MAX_TOLD) counted().catch(() => told.shift());
  }, "here");
  return {
    route: {
      method: "GET",
      path: "/metrics",
      access: "token",
      async handle() {
        delay.enable();
        const registry = await counted();
        return { status: 200, body: await registry.metrics(), headers: { "content-type": registry.contentType } };
      },
    },
    close() {
      off();
      delay.disable();
    },
  };
}

function createCounters({ Counter, Histogram }: Prom, registers: Registry[]): (event: AppEvent) => void {
  const wait = new Histogram({
    name: "herald_lane_wait_seconds",
    help: "Time in a lane before the start.",
    labelNames: ["lane"],
    buckets: [0.01, 0.1, 1, 10, 60, 600],
    registers,
  });
  const deliveries = new Counter({
    name: "herald_deliveries_total",
    help: "Messages settled.",
    labelNames: ["channel", "outcome"],
    registers,
  });
  const turns = new Counter({ name: "herald_turns_total", help: "Turns of main sessions.", labelNames: ["outcome"], registers });
  const ended = new Counter({ name: "herald_runs_ended_total", help: "Runs that ended.", labelNames: ["state"], registers });
  const calls = new Counter({
    name: "herald_model_calls_total",
    help: "HTTP calls to models.",
    labelNames: ["model", "outcome"],
    registers,
  });
  const seconds = new Histogram({
    name: "herald_model_call_seconds",
    help: "Duration of model calls.",
    labelNames: ["model"],
    buckets: [0.1, 0.5, 2, 10, 60, 300],
    registers,
  });
  const tokens = new Counter({
    name: "herald_tokens_total",
    help: "Tokens as providers reported them.",
    labelNames: ["model", "kind"],
    registers,
  });
  const cost = new Counter({
    name: "herald_cost_usd_total",
    help: "Estimated cost where a price is known.",
    labelNames: ["model"],
    registers,
  });
  return (event) => {
    if (event.type === "outbox.settled") deliveries.inc({ channel: event.channel, outcome: event.outcome });
    else if (event.type === "lane.started") wait.observe({ lane: event.lane }, event.waitedMs / 1000);
    else if (event.type === "turn.ended") turns.inc({ outcome: event.outcome });
    else if (event.type === "run.ended") ended.inc({ state: event.state });
    else if (event.type === "model.called") {
      const { model, outcome, usage, costUsd, ms } = event;
      calls.inc({ model, outcome });
      seconds.observe({ model }, ms / 1000);
      for (const [kind, amount] of Object.entries(usage ?? {})) tokens.inc({ model, kind }, amount);
      if (costUsd !== null) cost.inc({ model }, costUsd);
    }
  };
}

function addGauges({ Gauge }: Prom, options: MetricsOptions, registers: Registry[]): void {
  new Gauge({
    name: "herald_runs",
    help: "Unfinished runs; those that ended are counted by herald_runs_ended_total.",
    labelNames: ["state"],
    registers,
    async collect() {
      const counts = await options.countRuns();
      for (const state of ["queued", "running", "waiting"]) this.set({ state }, counts[state] ?? 0);
    },
  });
  new Gauge({
    name: "herald_lane_depth",
    help: "What waits and runs in a lane.",
    labelNames: ["lane", "kind"],
    registers,
    async collect() {
      for (const lane of options.lanes) {
        const { waiting, running } = await lane.depth();
        this.set({ lane: lane.name, kind: "waiting" }, waiting);
        this.set({ lane: lane.name, kind: "running" }, running);
      }
    },
  });
  if (options.node !== null)
    new Gauge({
      name: "herald_node_info",
      help: "This process among those of the installation.",
      labelNames: ["name", "role"],
      registers,
    }).set({ ...options.node }, 1);
  new Gauge({
    name: "herald_outbox_open",
    help: "Messages not settled yet.",
    registers,
    async collect() {
      this.set(await options.countOpenMessages());
    },
  });
  new Gauge({
    name: "herald_questions_open",
    help: "Questions that nobody has answered yet.",
    registers,
    async collect() {
      this.set(await options.countOpenQuestions());
    },
  });
  new Gauge({
    name: "herald_resident_memory_bytes",
    help: "Resident memory.",
    registers,
    collect() {
      this.set(process.memoryUsage.rss());
    },
  });
}

function addEventLoopDelay({ Gauge }: Prom, delay: Delay, registers: Registry[]): void {
  new Gauge({
    name: "herald_event_loop_delay_seconds",
    help: "Event-loop delay since the last look.",
    labelNames: ["quantile"],
    registers,
    collect() {
      for (const quantile of [50, 99, 100]) {
        // What it records is the time from one tick of its timer to the next: on an idle loop that is the resolution.
        const seconds = delay.percentile(quantile) / NANO - DELAY_RESOLUTION_MS / 1000;
        this.set({ quantile: String(quantile / 100) }, Math.max(0, seconds));
      }
      delay.reset();
    },
  });
}
