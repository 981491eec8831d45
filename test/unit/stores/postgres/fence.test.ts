// The fence, the claim whose answer is lost and the parent that goes to sleep while its last child ends: what could let two processes do
// the same, or nobody. Several processes' stores in this one, against the real server.
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { systemClock } from "../../../../src/core/clock.ts";
import { silentLogger } from "../../../../src/core/logger.ts";
import { createSharedLane } from "../../../../src/lanes/shared-lane.ts";
import { createSchema, type Schema } from "../../../support/postgres.ts";
import { createProxy } from "../../../support/postgres-proxy.ts";
import { hasPostgres } from "../../../support/shared-folder.ts";
import { createProcesses, type SharedProcess, type SharedProcesses } from "../../../support/shared-process.ts";
import { waitFor } from "../../../support/wait.ts";

describe.skipIf(!hasPostgres())("two processes", () => {
  let schema: Schema;
  let processes: SharedProcesses;
  beforeEach(async () => {
    schema = await createSchema();
    processes = createProcesses();
  });
  afterEach(async () => {
    await processes[Symbol.asyncDispose]();
    await schema[Symbol.asyncDispose]();
  });
  const start = (url = schema.url): Promise<SharedProcess> => processes.start(url);

  it("[SO4] a node's row deleted during its commit: that commit is there before the funeral, the next is refused", async () => {
    const [dying, other] = [await start(), await start()];
    const order: string[] = [];
    const begun = Promise.withResolvers<void>();
    const go = Promise.withResolvers<void>();
    const keep = "INSERT INTO kept (name, value) VALUES (?, 'x')";
    const last = dying.stores.db
      .transaction([], async (tx) => {
        await tx.run(keep, "in flight");
        begun.resolve();
        await go.promise;
      })
      .then(() => order.push("committed"));
    await begun.promise;
    const funeral = other.stores.db
      .transaction([], (tx) => tx.run("DELETE FROM nodes WHERE id = ?", dying.bootId))
      .then(() => order.push("buried"));
    // It waits for the row, which a look at the server's locks shows.
    const waits = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'DELETE FROM nodes%'";
    await waitFor("the funeral to wait", async () => (await other.stores.db.all(waits)).length > 0);
    expect(order).toEqual([]);
    go.resolve();
    await Promise.all([last, funeral]);
    expect(dying.lost()).toBe(0);
    await expect(dying.stores.db.transaction([], (tx) => tx.run(keep, "too late"))).rejects.toThrow(/taken this one's work over/);
    expect(dying.lost()).toBe(1);
    expect(await other.stores.db.all("SELECT name FROM kept")).toEqual([{ name: "in flight" }]);
  });

  it("[SO3] the answer to a commit is lost: the server is asked what became of it, and it is done once", async () => {
    await using proxy = await createProxy(schema.url);
    const one = await start(proxy.through(schema.url));
    let isCut = false;
    // The server has committed; its answer does not arrive.
    proxy.toClient = ({ type, text }) => {
      if (isCut || type !== "C" || !text.includes("COMMIT")) return "pass";
      isCut = true;
      return "cut";
    };
    const { jobs } = one.installation;
    const lane = jobs("main");
    await one.stores.db.transaction([], (tx) => lane.ring(tx, { id: "agent:main:web:dm:x", group: "x", isFront: false }));
    expect(isCut).toBe(true);
    isCut = false;
    expect(await lane.claim(["main"])).toMatchObject({ id: "agent:main:web:dm:x" });
    expect(isCut).toBe(true);
    expect(await one.stores.db.all("SELECT owner, again FROM lane_jobs")).toEqual([{ owner: one.bootId, again: 0 }]);
  });

  it("[SO3] the answer to a claim is lost for good: the place is free again with the next look, and the job is worked on once", async () => {
    const one = await start();
    const { jobs, db } = one.installation;
    const own = jobs("main");
    await db.transaction([], (tx) => own.ring(tx, { id: "agent:main:web:dm:y", group: "y", isFront: false }));
    // Nobody here hears of it.
    await own.claim(["main"]);
    const worked: string[] = [];
    const lane = createSharedLane({
      ...{ name: "main", concurrency: 2, db, jobs: own, bus: one.bus, clock: systemClock, log: silentLogger },
      agents: () => ["main"],
      whereIs: () => "",
      onError(_id, error) {
        throw error;
      },
    });
    lane.serve(async (id) => void worked.push(id));
    expect(await own.depth()).toEqual({ waiting: 0, running: 1 });
    await waitFor("it to be done", async () => {
      // As the sweep does: one that comes in the middle of a look passes over it.
      one.bus.emit({ type: "bells.missed" });
      return worked.length > 0 && (await own.depth()).running === 0;
    });
    expect(worked).toEqual(["agent:main:web:dm:y"]);
    await lane.drain();
  });

  it("[SO3] killed and started again on its folder a process is its own heir at once, without a wait for its old lease", async () => {
    const [one, other] = [await start(), await start()];
    await one.kill();
    const again = await processes.start(schema.url, { stateDir: one.stateDir });
    const alive = await other.stores.nodes.alive();
    expect([...alive].sort()).toEqual([again.bootId, other.bootId].sort());
    expect(again.lines.some(({ msg }) => msg.includes("another process is gone"))).toBe(true);
  });

  it("[SO4] what comes late after an orderly end is refused without an alarm", async () => {
    const one = await start();
    await one.stores.nodes.leave();
    await expect(one.stores.db.transaction([], (tx) => tx.run("INSERT INTO kept (name, value) VALUES ('late', 'x')"))).rejects.toThrow();
    expect(one.lost()).toBe(0);
  });
});
