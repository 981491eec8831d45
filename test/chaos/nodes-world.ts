// What stands around several processes in a chaos run: the scene that one process has, one PostgreSQL of their own, and a line of their
// own to it. People reach the page at whichever process is there.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { Pool, types } from "pg";
import { type PostgresServer, startPostgres } from "../support/postgres.ts";
import type { Random } from "../support/random.ts";
import { createGatewayProcess, type GatewayProcess } from "./gateway-process.ts";
import { createPgProxy, type PgProxy } from "./pg-proxy.ts";
import type { Rows } from "./record.ts";
import { createScene, type Scene } from "./scene.ts";
import type { Front } from "./spots.ts";

export interface ChaosNode {
  readonly name: string;
  readonly gateway: GatewayProcess;
  readonly line: PgProxy;
  /** Why its process must not be touched just now. */
  isFrozen: boolean;
  /** The point at which it is to die. */
  failpoint: string | null;
  killedBy: "us" | null;
  /** How often it has begun anew, as far as it was counted. */
  anews: number;
}

export interface NodesWorld extends Scene {
  readonly nodes: readonly ChaosNode[];
  readonly server: PostgresServer;
  /** Rejects while the server is away. */
  readonly rows: Rows;
}

/** Short, so that a run is: in earnest it is ten seconds. */
export const LEASE_MS = 3_000;
/**
 * What a relaxed transaction wrote is written down at last after this time, ten times the usual: a crash of the server takes more of it
 * along than on any real one.
 */
const SERVER = { wal_writer_delay: "2000ms", log_min_messages: "panic" };
const INT8 = 20;

export interface NodesWorldOptions {
  readonly dir: string;
  readonly count: number;
  /** Decides whom people reach. */
  readonly random: Random;
  readonly seed: number;
  /** Where the log of each process is kept; null: nowhere. */
  readonly logs: string | null;
}

export async function createNodesWorld({ dir, count, random, seed, logs }: NodesWorldOptions): Promise<NodesWorld> {
  const server = await startPostgres(SERVER);
  const pool = new Pool({
    ...{ connectionString: server.url, max: 4, connectionTimeoutMillis: 3_000, query_timeout: 30_000 },
    types: { getTypeParser: (oid: number, format?: "text" | "binary") => (oid === INT8 ? Number : types.getTypeParser(oid, format)) },
  });
  pool.on("error", () => {}).on("connect", (client) => void client.on("error", () => {}));
  const lines = await Promise.all(Array.from({ length: count }, () => createPgProxy(server.port)));
  const nodes: ChaosNode[] = [];
  const scene = await createScene({ seed }, (config, secrets): Front => {
    for (const [n, line] of lines.entries()) {
      const name = `n${n + 1}`;
      const url = new URL(server.url);
      url.port = String(line.port);
      const own = join(dir, name);
      mkdirSync(own);
      const among = { DATABASE_URL: url.href, HERALD_NODE: name, HERALD_TEST_LEASE_MS: String(LEASE_MS) };
      const all = { ...secrets, variables: { ...secrets.variables, ...among } };
      const settings = logs === null ? config : { ...config, logging: { level: "debug" } };
      const gateway = createGatewayProcess(own, settings, all, logs === null ? null : join(logs, `${name}.log`));
      nodes.push({ name, gateway, line, isFrozen: false, failpoint: null, killedBy: null, anews: 0 });
    }
    return anyOf(nodes, random);
  });
  return {
    ...scene,
    ...{ nodes, server },
    rows: async <T>(sql: string): Promise<T[]> => (await pool.query(sql)).rows as T[],
    async close() {
      for (const { gateway } of nodes) gateway.kill("SIGKILL");
      await Promise.all(nodes.map(({ gateway }) => gateway.ended(5_000)));
      await scene.close();
      await Promise.all([pool.end(), ...lines.map((line) => line.close())]);
      await server.stop();
    },
  };
}

/** Whoever answers: a tab or a post that finds nobody at one process goes to another. */
const anyOf = (nodes: readonly ChaosNode[], random: Random): Front => ({
  request(path, options) {
    const running = nodes.filter(({ gateway }) => gateway.isRunning());
    return random.pick(running.length === 0 ? nodes : running).gateway.request(path, options);
  },
});
