// Whether the database behind store.url is one that we can work with: asked once, before anything is made or written there.
import type { PoolClient } from "pg";
import { AppError } from "../../core/errors.ts";
import { type Connections, POOLED } from "./connections.ts";

const OLDEST = 150_000;

/** Texts are compared and sorted bytewise (schema.ts), but that they are UTF-8 is for the database to say. Returns the schema in use. */
export async function firstLook({ pool }: Connections): Promise<string> {
  const sql = `SELECT current_setting('server_version_num')::int AS version, current_setting('server_encoding') AS encoding,
    current_schema() AS schema, pg_is_in_recovery() AS "isReplica"`;
  const { rows } = await pool.query<{ version: number; encoding: string; schema: string | null; isReplica: boolean }>(sql);
  const found = rows[0];
  if (found === undefined) throw new AppError("state", "PostgreSQL does not say what it is");
  const { version, encoding, schema, isReplica } = found;
  if (version < OLDEST)
    throw new AppError("state", `store.url leads to PostgreSQL ${Math.floor(version / 10_000)}; Herald needs 15 or newer.`);
  if (encoding !== "UTF8")
    throw new AppError("state", `The database of store.url has the encoding ${encoding}; Herald needs one made with ENCODING 'UTF8'.`);
  if (schema === null)
    throw new AppError("state", "The database of store.url has no schema to work in (search_path names none that exists).");
  if (isReplica) throw new AppError("state", "store.url leads to a replica, which only reads; Herald needs the primary server.");
  await refusePooler(pool);
  return schema;
}

/**
 * A pooler in transaction mode gives a connection for a transaction at a time: what is kept in one (LISTEN, prepared statements, settings)
 * is lost, or somebody else's. While another transaction is open two sessions would share a server process, or one would change it.
 */
async function refusePooler(pool: Connections["pool"]): Promise<void> {
  const pidOf = async (client: PoolClient): Promise<number | undefined> =>
    (await client.query<{ pid: number }>("SELECT pg_backend_pid() AS pid")).rows[0]?.pid;
  const [one, other] = [await pool.connect(), await pool.connect()];
  try {
    const first = await pidOf(one);
    await other.query("BEGIN");
    const [second, again] = [await pidOf(other), await pidOf(one)];
    await other.query("ROLLBACK");
    if (first === second || first !== again) throw new AppError("state", POOLED);
  } finally {
    one.release();
    other.release();
  }
}
