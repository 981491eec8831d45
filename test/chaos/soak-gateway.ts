// The gateway of a soak run: the whole app in a process of its own, on a clock that runs faster than the world's. It answers
// "sample" with what it uses right now. soak.ts starts it and drives it through the page.
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { createApp } from "../../src/app/app.ts";
import { loadConfig } from "../../src/config/config.ts";
import { noFailpoints } from "../../src/core/failpoints.ts";
import { createLogger } from "../../src/core/logger.ts";
import { createSecrets } from "../../src/core/secrets.ts";
import { createFastClock } from "../support/fast-clock.ts";

export interface Sample {
  /** As it is: with the room V8 keeps for young objects, which follows the load and is no longer needed at rest. */
  readonly rssMb: number;
  /** After everything unreachable was collected and given back to the system: what the gateway really holds. */
  readonly heldMb: number;
  readonly heapMb: number;
  /** Buffers and the like, outside the heap. */
  readonly externalMb: number;
  /** Open handles and timers, by kind. */
  readonly resources: Readonly<Record<string, number>>;
  readonly databaseBytes: number;
  readonly walBytes: number;
  /** Since the sample before. */
  readonly delayP99Ms: number;
  readonly delayMaxMs: number;
}

export type SoakReport =
  | { readonly type: "ready"; readonly origin: string; readonly token: string }
  | { readonly type: "sample"; readonly sample: Sample };

const MB = 1024 * 1024;
const RESOLUTION_MS = 10;

const sizeOf = (path: string): number => statSync(path, { throwIfNoEntry: false })?.size ?? 0;

const report = (message: SoakReport): void => void process.send?.(message);

const loaded = loadConfig({ env: process.env, cwd: process.cwd() });
const secrets = createSecrets();
const log = await createLogger({ level: "warn", pretty: false, secrets, write: (line) => void process.stderr.write(line) });
const app = await createApp({
  ...{ loaded, log, secrets, version: "soak", failpoint: noFailpoints },
  clock: createFastClock(Number(process.env.SOAK_FACTOR)),
});
const started = await app.start();
const delays = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
delays.enable();

function sample(): Sample {
  const rssBefore = process.memoryUsage.rss();
  globalThis.gc?.({ type: "major", execution: "sync", flavor: "last-resort" });
  const { rss, heapUsed, external } = process.memoryUsage();
  const resources: Record<string, number> = {};
  for (const kind of process.getActiveResourcesInfo()) resources[kind] = (resources[kind] ?? 0) + 1;
  const database = join(loaded.stateDir, "herald.db");
  const result = {
    ...{
      rssMb: rssBefore / MB,
      heldMb: rss / MB,
      heapMb: heapUsed / MB,
      externalMb: external / MB,
      resources,
      databaseBytes: sizeOf(database),
      walBytes: sizeOf(`${database}-wal`),
    },
    // The histogram counts the interval it waits for, too.
    delayP99Ms: Math.max(0, delays.percentile(99) / 1e6 - RESOLUTION_MS),
    delayMaxMs: Math.max(0, delays.max / 1e6 - RESOLUTION_MS),
  };
  delays.reset();
  return result;
}

process.on("message", (message) => {
  if (message === "sample") report({ type: "sample", sample: sample() });
  if (message === "stop") void app.stop().then(() => process.exit(0));
});
report({ type: "ready", origin: started.page?.origin ?? "", token: readFileSync(join(loaded.stateDir, "web-token"), "utf8").trim() });
