// The stores of one process among several, on a schema of its own in the tests' PostgreSQL: what createStateFolder is for one alone.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { SharedOptions } from "../../src/app/installation.ts";
import type { Stores } from "../../src/app/store-parts.ts";
import { openStores } from "../../src/app/stores.ts";
import { type AppEvent, type Bus, createBus } from "../../src/core/events.ts";
import { noFailpoints } from "../../src/core/failpoints.ts";
import { newId } from "../../src/core/ids.ts";
import { createLogger } from "../../src/core/logger.ts";
import { createSecrets } from "../../src/core/secrets.ts";
import { createManualClock, type ManualClock } from "./manual-clock.ts";
import { createSchema, POSTGRES_ENV } from "./postgres.ts";

export const hasPostgres = (): boolean => (process.env[POSTGRES_ENV] ?? "") !== "";

export interface SharedFolder extends AsyncDisposable {
  readonly clock: ManualClock;
  readonly bus: Bus;
  readonly events: AppEvent[];
  readonly stores: Stores;
  readonly url: string;
  readonly lines: Record<string, unknown>[];
  /** Ends this process in an orderly way and begins the next on the same data. */
  reopen(): Promise<Stores>;
}

export const sharedOptions = (url: string, more: Partial<SharedOptions> = {}): SharedOptions => ({
  ...{ url, poolSize: 8, nodeName: "test", version: "0", role: "all" },
  agents: () => ["main"],
  limits: () => ({ main: 4, subagent: 8 }),
  denies: () => [],
  whereIs: (agentId) => `waits for ${agentId}`,
  steady: () => performance.now(),
  addressOf: ({ sessionId, archiveName }) => archiveName ?? sessionId,
  onLost() {},
  ...more,
});

export async function createSharedFolder(): Promise<SharedFolder> {
  const schema = await createSchema();
  const dir = mkdtempSync(join(tmpdir(), "herald-shared-"));
  const clock = createManualClock();
  const events: AppEvent[] = [];
  const lines: Record<string, unknown>[] = [];
  const bus = createBus((error) => {
    throw error;
  });
  bus.on((event) => events.push(event));
  const secrets = createSecrets();
  const log = await createLogger({ level: "debug", pretty: false, secrets, write: (line) => void lines.push(JSON.parse(line)) });
  const open = async (): Promise<Stores> =>
    openStores({
      ...{ stateDir: join(dir, "state"), clock, bus, log, secrets, failpoint: noFailpoints, bootId: newId() },
      shared: sharedOptions(schema.url),
    });
  let stores = await open();
  return {
    ...{ clock, bus, events, lines, url: schema.url },
    get stores() {
      return stores;
    },
    async reopen() {
      await stores.nodes.leave();
      await stores.close();
      stores = await open();
      return stores;
    },
    async [Symbol.asyncDispose]() {
      await stores.close();
      await schema[Symbol.asyncDispose]();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}
