// Whether the database behind store.url is one that we can work with: asked once, before anything is made or written there.
import type { PoolClient } from "pg";
import { AppError } from "../../core/errors.ts";
import { type Connections, POOLED } from "./connections.ts";

const OLDEST = 150_000;

/** The collation that knows the letters of all languages. Servers can be built without it. */
export const LETTERS = "und-x-icu";

export interface FirstLook {
  /** The one in use. */
  readonly schema: string;
  /** It has the collation LETTERS. */
  readonly knowsLetters: boolean;
}

interface Found extends Pick<FirstLook, "knowsLetters"> {
  readonly version: number;
  readonly encoding: string;
  readonly schema: string | null;
  readonly isReplica: boolean;
}

/** Texts are compared and sorted bytewise (schema.ts), but that they are UTF-8 is for the database to say. */
export async function firstLook({ pool }: Connections): Promise<FirstLook> {
  const sql = `SELECT current_setting('server_version_num')::int AS version, current_setting('server_encoding') AS encoding,
    current_schema() AS schema, pg_is_in_recovery() AS "isReplica",
    EXISTS (SELECT 1 FROM pg_collation WHERE collname = '${LETTERS}') AS "knowsLetters"`;
  const { rows } = await pool.query<Found>(sql);
  const found = rows[0];
  if (found === undefined) throw new AppError("state", "PostgreSQL does not say what it is");
  const { version, encoding, schema, isReplica, knowsLetters } = found;
  if (version < OLDEST)
    throw new AppError("state", `store.url leads to PostgreSQL ${Math.floor(version / 10_000)}; Herald needs 15 or newer.`);
  if (encoding !== "UTF8")
    throw new AppError("state", `The database of store.url has the encoding ${encoding}; Herald needs one made with ENCODING 'UTF8'.`);
  if (schema === null)
    throw new AppError("state", "The database of store.url has no schema to work in (search_path names none that exists).");
  if (isReplica) throw new AppError("state", "store.url leads to a replica, which only reads; Herald needs the primary server.");
  await refusePooler(pool);
  return { schema, knowsLetters };
}

/**
 * A pooler in transaction mode gives a connection for a transaction at a time: what is kept in one (LISTEN, prepared statements, settings)
 * is lost, or somebody else's. While another transaction is open two sessions would share a server process, or one would change it.
 */
async function refusePooler(pool: Connections["pool"]): Promise<void> {
  const pidOf = async (client: PoolClient): Promise<number | undefined> =>
    (await client.query<{ pid: number }>("SELECT pg_backend_pid() AS pid")).rows[0]?.pid;
  const one = await pool.connect();
  try {
    const other = await pool.connect();
    try {
      const first = await pidOf(one);
      await other.query("BEGIN");
      const [second, again] = [await pidOf(other), await pidOf(one)];
      await other.query("ROLLBACK");
      if (first === second || first !== again) throw new AppError("state", POOLED);
    } finally {
      other.release();
    }
  } finally {
    // Also when the other one could not be had: whoever closes the pool waits for every one that was lent.
    one.release();
  }
}
