// All stores on a state folder of their own, with a clock the test drives, the events they emitted and the lines they
// logged. reopen() is what a restart does; the folder stays.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Stores } from "../../src/app/store-parts.ts";
import { openStores } from "../../src/app/stores.ts";
import { type AppEvent, type Bus, createBus } from "../../src/core/events.ts";
import { noFailpoints } from "../../src/core/failpoints.ts";
import { newId } from "../../src/core/ids.ts";
import { createLogger, type Logger } from "../../src/core/logger.ts";
import { createSecrets, type Secrets } from "../../src/core/secrets.ts";
import { putDatabase } from "./made-database.ts";
import { createManualClock, type ManualClock } from "./manual-clock.ts";

export interface LogLine extends Record<string, unknown> {
  readonly level: string;
  readonly msg: string;
}

export interface StateFolder extends Disposable, AsyncDisposable {
  readonly stateDir: string;
  readonly clock: ManualClock;
  readonly bus: Bus;
  readonly secrets: Secrets;
  readonly log: Logger;
  /** The stores of the present opening. */
  readonly stores: Stores;
  readonly events: AppEvent[];
  readonly lines: LogLine[];
  reopen(): Promise<Stores>;
  close(): void;
}

export async function createStateFolder(): Promise<StateFolder> {
  const dir = mkdtempSync(join(tmpdir(), "herald-stores-"));
  const stateDir = join(dir, "state");
  putDatabase(stateDir);
  const clock = createManualClock();
  const events: AppEvent[] = [];
  const lines: LogLine[] = [];
  const bus = createBus((error) => {
    throw error;
  });
  bus.on((event) => events.push(event));
  const secrets = createSecrets();
  const log = await createLogger({ level: "debug", pretty: false, secrets, write: (line) => void lines.push(JSON.parse(line)) });
  const open = (): Promise<Stores> => openStores({ stateDir, clock, bus, log, secrets, failpoint: noFailpoints, bootId: newId() });
  let stores: Stores | null = await open();
  const close = (): void => {
    // Of a file it is closed at once.
    void stores?.close();
    stores = null;
  };
  const present = (): Stores => {
    if (stores === null) throw new Error("the stores are closed");
    return stores;
  };
  const dispose = (): void => {
    close();
    rmSync(dir, { recursive: true, force: true });
  };
  return {
    ...{ stateDir, clock, bus, secrets, log, events, lines },
    get stores() {
      return present();
    },
    async reopen() {
      close();
      stores = await open();
      return stores;
    },
    close,
    [Symbol.asyncDispose]: async () => dispose(),
    [Symbol.dispose]: dispose,
  };
}
