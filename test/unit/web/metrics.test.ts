import { monitorEventLoopDelay } from "node:perf_hooks";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type AppEvent, createBus } from "../../../src/core/events.ts";
import type { WebRequest } from "../../../src/web/http.ts";
import { createMetrics, type Metrics } from "../../../src/web/metrics.ts";
import { waitFor } from "../../support/wait.ts";

const bus = createBus((error) => {
  throw error;
});

let metrics: Metrics;

beforeEach(() => {
  metrics = createMetrics({
    bus,
    lanes: [],
    countRuns: async () => ({}),
    countOpenQuestions: async () => 3,
    countOpenMessages: async () => 0,
    node: null,
  });
});

afterEach(() => metrics.close());

/** The same measure beside it. */
function watchLoop() {
  const histogram = monitorEventLoopDelay({ resolution: 10 });
  histogram.enable();
  const ticks = (count: number): Promise<boolean> => {
    const enough = histogram.count + count;
    return waitFor("some ticks", () => histogram.count >= enough);
  };
  return { histogram, ticks, [Symbol.dispose]: () => void histogram.disable() };
}

async function value(name: string): Promise<number> {
  const answer = await metrics.route.handle({} as WebRequest);
  const line = String(answer?.body)
    .split("\n")
    .find((one) => one.startsWith(`${name} `));
  return Number(line?.slice(name.length));
}

const delayMs = async (quantile: string): Promise<number> =>
  (await value(`herald_event_loop_delay_seconds{quantile="${quantile}"}`)) * 1000;

describe("GET /metrics", () => {
  it("[OB1] what happened before the first look is counted, however much it was", async () => {
    const address = { channel: "web", account: "local", chat: "main", kind: "dm" } as const;
    const ended: AppEvent = { type: "turn.ended", sessionKey: "agent:main:web:dm:main", address, turnId: "1", outcome: "done" };
    for (let i = 0; i < 1500; i++) bus.emit(ended);
    expect(await value('herald_turns_total{outcome="done"}')).toBe(1500);
    bus.emit(ended);
    expect(await value('herald_turns_total{outcome="done"}')).toBe(1501);
  });

  it("[OB1][QA2] open questions are counted", async () => {
    expect(await value("herald_questions_open")).toBe(3);
  });

  it("[OB1] nothing is measured before the first look: a process at rest is not woken for it", async () => {
    using own = watchLoop();
    await own.ticks(3);
    expect(await delayMs("1")).toBe(0);
  });

  it("[OB1] an event loop with nothing to do has no delay: the interval between two looks at it does not count", async () => {
    using own = watchLoop();
    await delayMs("0.5");
    await own.ticks(30);
    expect(await delayMs("0.5")).toBeLessThan(own.histogram.percentile(50) / 1e6 - 5);
  });

  it("[OB1] what holds the event loop is seen, and at the next look forgotten", async () => {
    using own = watchLoop();
    await delayMs("1");
    await own.ticks(3);
    const startedAt = performance.now();
    while (performance.now() - startedAt < 1_000);
    await own.ticks(3);
    expect(await delayMs("1")).toBeGreaterThan(900);
    await own.ticks(3);
    expect(await delayMs("1")).toBeLessThan(900);
  });
});
