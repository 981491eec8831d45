// A duty that comes to a process at a bad moment: while PostgreSQL fails, or while the process is being stopped. The process before it is
// played by its rows; whoever takes the duty up is stuck at a locked table for as long as the test wants.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Client } from "pg";
import { describe, expect, it } from "vitest";
import { createSchema, type Schema } from "../support/postgres.ts";
import { type BareHerald, runHerald } from "../support/run-herald.ts";
import { hasPostgres } from "../support/shared-folder.ts";
import { waitFor } from "../support/wait.ts";

interface Rig extends AsyncDisposable {
  readonly herald: BareHerald;
  readonly origin: string;
  sql<T>(text: string): Promise<T[]>;
  /** The duty is free, and whoever takes it up is stuck at this table. Resolves with the number of its connection. */
  handOver(table: "inbox" | "outbox"): Promise<number>;
  unlock(): Promise<void>;
}

async function connect({ url }: Schema): Promise<Client> {
  const client = new Client({ connectionString: url });
  client.on("error", () => {});
  await client.connect();
  return client;
}

async function createRig(): Promise<Rig> {
  const schema = await createSchema();
  const [client, locker] = [await connect(schema), await connect(schema)];
  const sql = async <T>(text: string): Promise<T[]> => (await client.query(text)).rows as T[];
  const env = { DATABASE_URL: schema.url, HERALD_NODE: "second" };
  // Makes the tables.
  await using first = runHerald({ env });
  await first.ready();
  first.kill("SIGTERM");
  await first.ended();
  await sql(`INSERT INTO nodes (id, started_at, name, version, role, agents, limits, denies, seen_at)
    VALUES ('before', 1, 'first', '0', 'gateway', '[]', '{"main":4,"subagent":8}', '[]', 1)`);
  await sql("INSERT INTO leaders (duty, owner) VALUES ('front', 'before')");
  const herald = runHerald({ env });
  return {
    herald,
    origin: await herald.ready(),
    sql,
    async handOver(table) {
      await locker.query(`BEGIN; LOCK TABLE ${table} IN ACCESS EXCLUSIVE MODE`);
      await sql("DELETE FROM nodes WHERE id = 'before'");
      const stuck = `SELECT l.pid FROM pg_locks l WHERE NOT l.granted AND l.relation = '${table}'::regclass
        AND EXISTS (SELECT 1 FROM leaders WHERE duty = 'front' AND owner <> 'before')`;
      return (await waitFor("somebody stuck", async () => (await sql<{ pid: number }>(stuck))[0])).pid;
    },
    unlock: async () => void (await locker.query("ROLLBACK")),
    async [Symbol.asyncDispose]() {
      await herald[Symbol.asyncDispose]();
      await Promise.all([client.end(), locker.end()]);
      await schema[Symbol.asyncDispose]();
    },
  };
}

describe.runIf(hasPostgres())("a duty that comes at a bad moment", () => {
  it("[SO3] is taken up to its end although PostgreSQL failed in the middle of it", async () => {
    await using rig = await createRig();
    const stuck = await rig.handOver("outbox");
    await rig.sql(`SELECT pg_terminate_backend(${stuck})`);
    await rig.unlock();
    const [, token = ""] = /#token=(\S+)/.exec(readFileSync(join(rig.herald.stateDir, "sign-in-link"), "utf8")) ?? [];
    const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
    const chat = crypto.randomUUID();
    await waitFor("the post", async () => {
      const body = JSON.stringify({ id: chat, text: "/status", kind: "message" });
      return (await fetch(`${rig.origin}/api/chats/${chat}/messages`, { method: "POST", headers, body })).ok;
    });
    // Routing and delivering are the duty's.
    await waitFor("the answer", async () => (await rig.sql("SELECT 1 FROM web_messages WHERE author = 'agent'")).length === 1);
  });

  it("[SO3][RN4] is waited for by a stop: nothing of it is begun when the process has left", async () => {
    await using rig = await createRig();
    await rig.handOver("inbox");
    rig.herald.kill("SIGTERM");
    await waitFor("the stop", () => rig.herald.stderr().includes("stopping; a second signal ends at once"));
    await rig.unlock();
    expect(await rig.herald.ended(), rig.herald.stderr()).toBe(0);
    expect(rig.herald.stderr()).not.toMatch(/lost its lease|a listener failed/);
    expect(await rig.sql("SELECT id FROM nodes UNION ALL SELECT owner FROM leaders WHERE owner <> 'before'")).toEqual([]);
  });
});
