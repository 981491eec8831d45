// The connections to PostgreSQL: a pool for the stores, and single ones for whoever must keep his (the lease, the doorbell). Time-outs
// for everything that could hang: a machine that vanished sends no reset, and a lock held by a frozen process is let go by the server.

import type pg from "pg";
import type { Client, Pool, PoolClient, PoolConfig } from "pg";

export interface Connections {
  readonly pool: Pool;
  /** One of its own. Its errors are for `onError`; unheard they would end the process. */
  single(onError: (error: Error) => void): Promise<Client>;
  close(): Promise<void>;
}

export interface ConnectionOptions {
  readonly url: string;
  readonly poolSize: number;
  /** What is visible in pg_stat_activity. */
  readonly name: string;
  /** After so long others have the work of this process. */
  readonly leaseMs?: number;
}

const CONNECT_MS = 5_000;
/**
 * Longest statement, wait for a lock, and pause inside a transaction. A process frozen in the middle of one keeps its locks until then,
 * and everybody who needs them waits: shorter than a lease, so that whoever takes its work over finds them free.
 */
const STATEMENT_MS = 8_000;
/** Beside the server's own limit: an answer that never comes because the line is dead. */
const SILENT_MS = STATEMENT_MS + 4_000;

/** Why an address can't be used that a pooler answers. */
export const POOLED =
  "PostgreSQL's notifications don't come through store.url, as it is behind a pooler in transaction mode. Give the server's own address, or a pooler in session mode.";

const INT8 = 20;
const NUMERIC = 1700;

/** A number as long as it is one; above that its whole value, with which no sum is quietly wrong. */
const toInteger = (text: string): number | bigint => {
  const value = Number(text);
  return Number.isSafeInteger(value) ? value : BigInt(text);
};

export async function openConnections({ poolSize, ...options }: ConnectionOptions): Promise<Connections> {
  const { default: library } = await import("pg");
  const config = configOf(library, options);
  const pool = new library.Pool({ ...config, max: poolSize, idleTimeoutMillis: 60_000, onConnect: (client) => setLimits(client, options) });
  // An idle one that breaks; and one that is checked out with no query under way, which would end the process.
  pool.on("error", () => {});
  pool.on("connect", (client: PoolClient) => client.on("error", () => {}));
  return {
    pool,
    async single(onError) {
      const client = new library.Client({ ...config });
      client.on("error", onError);
      await client.connect();
      await setLimits(client, options);
      return client;
    },
    close: () => pool.end(),
  };
}

/** Not as parameters of the connection: a pooler refuses those, or is told to ignore them, and then there would be no limits at all. */
async function setLimits(
  client: Pick<Client, "query">,
  { leaseMs = Number.POSITIVE_INFINITY }: Pick<ConnectionOptions, "leaseMs">,
): Promise<void> {
  const idleMs = Math.min(STATEMENT_MS, Math.round(leaseMs * 0.8));
  await client.query(`SET statement_timeout = ${STATEMENT_MS}; SET idle_in_transaction_session_timeout = ${idleMs}`);
}

function configOf({ types }: typeof pg, { url, name }: Omit<ConnectionOptions, "poolSize">): PoolConfig {
  return {
    connectionString: url,
    application_name: name,
    connectionTimeoutMillis: CONNECT_MS,
    query_timeout: SILENT_MS,
    keepAlive: true,
    keepAliveInitialDelayMillis: 5_000,
    types: {
      getTypeParser(oid: number, format?: "text" | "binary") {
        if (oid === INT8) return toInteger;
        if (oid === NUMERIC) return Number;
        return types.getTypeParser(oid, format);
      },
    } as PoolConfig["types"],
  };
}
