// What became of a transaction whose COMMIT got no answer, on a server that crashes: it gives out numbers again that never came to its
// disk. Its own rhythm of writing down what nobody waits for is as slow as it can be, so that all of a transaction under way is lost.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { createSchema, findPostgres, isAlive, type PostgresServer, type Schema, startPostgres } from "../../../support/postgres.ts";
import { createProxy, type Line, type PostgresProxy } from "../../../support/postgres-proxy.ts";
import { createProcesses, type SharedProcess, type SharedProcesses } from "../../../support/shared-process.ts";
import { waitFor } from "../../../support/wait.ts";

const KEEP = "INSERT INTO kept (name, value) VALUES (?, 'x')";

/** Of a transaction: its own, that of the server's process that works on it, and that of the one that would write it down by and by. */
interface Numbers {
  readonly xid: string;
  readonly pid: number;
  readonly writer: number;
}
const NUMBERS = `SELECT pg_current_xact_id()::text AS xid, pg_backend_pid() AS pid,
  (SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter') AS writer`;

describe.runIf(findPostgres() !== null)("a commit without an answer", () => {
  let server: PostgresServer;
  let schema: Schema;
  let proxy: PostgresProxy;
  let processes: SharedProcesses;
  let one: SharedProcess;
  let other: SharedProcess;
  beforeAll(async () => {
    server = await startPostgres({ wal_writer_delay: "10000ms", autovacuum: "off" });
  });
  afterAll(() => server.stop());
  beforeEach(async () => {
    schema = await createSchema(server.url);
    proxy = await createProxy(server.url);
    processes = createProcesses();
    one = await processes.start(proxy.through(schema.url));
    other = await processes.start(schema.url);
  });
  afterEach(async () => {
    await processes[Symbol.asyncDispose]();
    await proxy[Symbol.asyncDispose]();
    await schema[Symbol.asyncDispose]();
  });

  /** Everything of it is done but its COMMIT, which never arrives; nor does anything else come by its line until that is cut. */
  const hang = async (name: string) => {
    const swallowed = Promise.withResolvers<Line>();
    proxy.toServer = ({ type, text }, line) => {
      if (type !== "Q" || !text.includes("COMMIT")) return "pass";
      proxy.toServer = () => "pass";
      line.blackHole();
      swallowed.resolve(line);
      return "drop";
    };
    let numbers: Numbers = { xid: "", pid: 0, writer: 0 };
    const told = one.stores.db
      .transaction([], async (tx) => {
        await tx.run(KEEP, name);
        numbers = (await tx.get<Numbers>(NUMBERS)) ?? numbers;
      })
      .then(
        () => "done",
        () => "failed",
      );
    return { told, line: await swallowed.promise, ...numbers };
  };
  const numbered = () =>
    other.stores.db.transaction([], async (tx) => (await tx.get<{ xid: string }>("SELECT pg_current_xact_id()::text AS xid"))?.xid);
  /** Another process commits what it has, until it was given this number. */
  const reach = async (xid: string): Promise<string | undefined> => {
    let last: string | undefined;
    await waitFor("the number", async () => {
      last = await numbered().catch(() => undefined);
      return last !== undefined && BigInt(last) >= BigInt(xid);
    });
    return last;
  };
  const isThere = async (name: string): Promise<boolean> =>
    (await other.stores.db.get("SELECT 1 FROM kept WHERE name = ?", name)) !== undefined;

  const CRASHES: readonly [string, (numbers: Numbers) => Promise<void>][] = [
    [
      "one of the server's processes is killed, and it starts anew by itself",
      async ({ pid, writer }) => {
        process.kill(writer, "SIGKILL");
        // Before that a commit of somebody else could go through, and take it along to the disk.
        await waitFor("the end of all others", () => !isAlive(pid));
      },
    ],
    [
      "the server is killed and started again",
      async () => {
        await server.kill();
        await server.start();
      },
    ],
  ];

  it.each(CRASHES)("[SO3][RC1] is not taken for done when its number was given to another: %s", async (_how, crash) => {
    const { told, line, ...numbers } = await hang("words");
    await crash(numbers);
    expect(await reach(numbers.xid)).toBe(numbers.xid);
    line.cut();
    const isDone = (await told) === "done";
    expect({ isDone, isThere: await isThere("words") }).toEqual({ isDone: false, isThere: false });
    // Whoever has the words still tries again.
    const keep = () => one.stores.db.transaction([], (tx) => tx.run(KEEP, "words"));
    await waitFor("the second try", async () => (await keep().catch(() => 0)) === 1);
    expect(await isThere("words")).toBe(true);
  });

  it("[SO3] is looked for by the transaction's own mark: done when that is there, else not, whatever its connection did before", async () => {
    const keep = (name: string): Promise<number> => one.stores.db.transaction([], (tx) => tx.run(KEEP, name));
    await keep("before");
    let isCut = false;
    // The server has committed; its answer does not arrive.
    proxy.toClient = ({ type, text }) => {
      if (isCut || type !== "C" || !text.includes("COMMIT")) return "pass";
      isCut = true;
      return "cut";
    };
    await keep("words");
    expect([isCut, await isThere("words")]).toEqual([true, true]);
    await keep("after");
    const { told, line } = await hang("never");
    line.cut();
    expect([await told, await isThere("never")]).toEqual(["failed", false]);
  });

  it("[SO3] leaves nothing behind for good: marks of connections that are gone are forgotten, one that lives on has its next", async () => {
    const write = (sql: string, by = one): Promise<number> => by.stores.db.transaction([], (tx) => tx.run(sql));
    const marks = (): Promise<{ line: string; n: number }[]> => other.stores.db.all("SELECT line, n FROM commits");
    await write("DELETE FROM commits");
    const [own] = await marks();
    await write("INSERT INTO commits (line, n, at) VALUES ('gone', 1, 0)");
    expect(await marks()).toHaveLength(2);
    await one.stores.db.optimize();
    expect(await marks()).toEqual([{ line: own?.line, n: (own?.n ?? 0) + 2 }]);
    await write("UPDATE commits SET at = 0", other);
    await other.stores.db.optimize();
    expect((await marks()).map(({ line }) => line)).not.toContain(own?.line);
    await write("DELETE FROM kept");
    expect(await marks()).toContainEqual({ line: own?.line, n: (own?.n ?? 0) + 3 });
  });
});
