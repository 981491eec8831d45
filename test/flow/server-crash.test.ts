// PostgreSQL crashes while Herald lives. What a process has been told is done must still be so afterwards: it goes on from its memory, and
// a claim that went back with the server would be taken by somebody else, too. The server's own rhythm of writing down what nobody waits
// for is as slow as it can be, so that everything of the kind is lost.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Stores } from "../../src/app/store-parts.ts";
import { openStores } from "../../src/app/stores.ts";
import { systemClock } from "../../src/core/clock.ts";
import { createBus } from "../../src/core/events.ts";
import { noFailpoints } from "../../src/core/failpoints.ts";
import { newId } from "../../src/core/ids.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { createSecrets } from "../../src/core/secrets.ts";
import { createSharedLane } from "../../src/lanes/shared-lane.ts";
import type { LaneJobs } from "../../src/stores/postgres/lane-jobs.ts";
import { createManualClock } from "../support/manual-clock.ts";
import { findPostgres, type PostgresServer, startPostgres } from "../support/postgres.ts";
import { sharedOptions } from "../support/shared-folder.ts";
import { waitFor } from "../support/wait.ts";

const SESSION = "agent:main:web:dm:00000000-0000-4000-8000-000000000001";

describe.runIf(findPostgres() !== null)("a crash of PostgreSQL", () => {
  let server: PostgresServer;
  let stores: Stores;
  const dir = mkdtempSync(join(tmpdir(), "herald-crash-"));
  beforeAll(async () => {
    server = await startPostgres({ wal_writer_delay: "10000ms" });
    const deps = { stateDir: join(dir, "state"), clock: createManualClock(), bus: createBus(() => {}), log: silentLogger };
    const more = { secrets: createSecrets(), failpoint: noFailpoints, bootId: newId(), shared: sharedOptions(server.url) };
    stores = await openStores({ ...deps, ...more });
    await stores.nodes.enter();
  });
  afterAll(async () => {
    await stores.close();
    await server.stop();
    rmSync(dir, { recursive: true, force: true });
  });
  const crash = async (): Promise<void> => {
    await server.kill();
    await server.start();
    await waitFor("the server", async () => (await stores.db.get("SELECT 1 AS one")) !== undefined);
  };
  const receive = async (externalId: string): Promise<number> => {
    await stores.inbox.sink("web", "").put([{ externalId, raw: { externalId } }]);
    return stores.inbox.lastId();
  };

  it("[SO3][RC3] takes back no message that was routed: whoever routes has passed it, and would never look at it again", async () => {
    const id = await receive("routed");
    expect(await stores.inbox.route(id, SESSION)).toBe(true);
    await crash();
    expect(await stores.inbox.waitingSessions()).toEqual([SESSION]);
  });

  it("[SO3] takes back no claim: what one process works on is nobody else's", async () => {
    const jobs = stores.installation?.jobs("main");
    await stores.db.transaction([], (tx) => jobs?.ring(tx, { id: SESSION, group: SESSION, isFront: false }) ?? Promise.resolve());
    expect(await jobs?.claim(["main"])).toMatchObject({ id: SESSION });
    const row = await stores.inbox.claim(SESSION);
    await crash();
    expect(await jobs?.depth()).toEqual({ waiting: 0, running: 1 });
    expect(await stores.inbox.isOwn(row?.id ?? 0)).toBe(true);
  });

  it("[SO2] loses no ring: it is made when the server is back", async () => {
    const jobs = stores.installation?.jobs("another") as LaneJobs;
    const lane = createSharedLane({
      ...{ name: "another", concurrency: 1, db: stores.db, jobs, bus: createBus(() => {}), clock: systemClock, log: silentLogger },
      agents: () => [],
      whereIs: () => "",
      onError() {},
    });
    await server.kill();
    lane.ring(SESSION, SESSION);
    // It has been tried, and failed.
    await waitFor("the trouble", () => stores.problem() !== null);
    await server.start();
    await waitFor("the ring", async () => (await jobs.depth()).waiting === 1);
    await lane.drain();
  });

  it("[SO3][SE2] takes no line out of a transcript that the turn goes on from", async () => {
    const ref = { agentId: "main", sessionId: newId() };
    await stores.transcripts.create(ref, { key: SESSION, parent: null });
    await stores.transcripts.append(ref, [{ type: "message", role: "user", text: "words", from: "somebody" }]);
    await crash();
    expect(await stores.transcripts.tail(ref, 5)).toMatchObject([{ text: "words" }]);
  });
});
