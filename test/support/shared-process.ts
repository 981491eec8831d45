// The stores of several processes in this one, on one schema: each with a node, a bus and a log of its own. Killing one is closing its
// stores without a word to the others.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Installation, SharedOptions } from "../../src/app/installation.ts";
import type { Stores } from "../../src/app/store-parts.ts";
import { openStores } from "../../src/app/stores.ts";
import { systemClock } from "../../src/core/clock.ts";
import { type AppEvent, type Bus, createBus } from "../../src/core/events.ts";
import { noFailpoints } from "../../src/core/failpoints.ts";
import { newId } from "../../src/core/ids.ts";
import { createLogger, type Logger } from "../../src/core/logger.ts";
import { createSecrets } from "../../src/core/secrets.ts";
import { sharedOptions } from "./shared-folder.ts";

export interface SharedProcess {
  readonly stores: Stores;
  readonly installation: Installation;
  readonly bus: Bus;
  readonly log: Logger;
  readonly bootId: string;
  readonly stateDir: string;
  /** What others told it. */
  readonly heard: AppEvent[];
  readonly lines: { readonly level: string; readonly msg: string; readonly [key: string]: unknown }[];
  /** How often it was told that its lease is over. */
  lost(): number;
  /** From now on it renews its lease, and listens for bells. */
  live(): Promise<void>;
  kill(): Promise<void>;
}

export interface SharedProcesses extends AsyncDisposable {
  start(url: string, more?: Partial<SharedOptions> & { readonly stateDir?: string }): Promise<SharedProcess>;
}

export function createProcesses(): SharedProcesses {
  const dir = mkdtempSync(join(tmpdir(), "herald-processes-"));
  const running = new Set<SharedProcess>();
  return {
    async start(url, { stateDir = join(dir, newId()), ...more } = {}) {
      const one = await open(url, stateDir, more, () => running.delete(one));
      running.add(one);
      return one;
    },
    async [Symbol.asyncDispose]() {
      for (const one of running) await one.kill();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

async function open(url: string, stateDir: string, more: Partial<SharedOptions>, onKilled: () => void): Promise<SharedProcess> {
  const bootId = newId();
  const heard: AppEvent[] = [];
  const lines: SharedProcess["lines"] = [];
  let lost = 0;
  const bus = createBus((error) => {
    throw error;
  });
  bus.on((event) => heard.push(event), "elsewhere");
  const secrets = createSecrets();
  const log = await createLogger({ level: "debug", pretty: false, secrets, write: (line) => void lines.push(JSON.parse(line)) });
  const shared = sharedOptions(url, { onLost: () => lost++, ...more });
  const stores = await openStores({ stateDir, clock: systemClock, bus, log, secrets, failpoint: noFailpoints, bootId, shared });
  const { installation } = stores;
  if (installation === null) throw new Error("there is no installation");
  await stores.nodes.enter();
  const over = new AbortController();
  let renewing: Promise<void> = Promise.resolve();
  let hasBell = false;
  return {
    ...{ stores, installation, bus, log, bootId, stateDir, heard, lines },
    lost: () => lost,
    async live() {
      renewing = installation.members.run(over.signal);
      hasBell = true;
      await installation.bell.start();
    },
    async kill() {
      onKilled();
      over.abort();
      await renewing;
      if (hasBell) await installation.bell.close();
      await stores.close();
    },
  };
}
