// Bringing PostgreSQL's tables up to date. Several processes may start at the same moment: one makes the tables, the others wait.

import { AppError } from "../../core/errors.ts";
import type { Logger } from "../../core/logger.ts";
import type { PostgresDatabase } from "./database.ts";
import { inPostgres, MIGRATIONS } from "./schema.ts";

/** For who works beside gateways and makes nothing of its own: has one been here? */
export async function hasTables({ connections }: PostgresDatabase): Promise<boolean> {
  const { rows } = await connections.pool.query<{ found: string | null }>("SELECT to_regclass('herald_schema')::text AS found");
  return rows[0]?.found != null;
}

/** Throws AppError("state") when it was written by a newer version. */
export async function migrate({ connections, namespace }: PostgresDatabase, log: Logger): Promise<void> {
  const client = await connections.pool.connect();
  try {
    await client.query("BEGIN");
    await client.query("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", [`${namespace}/schema`]);
    await client.query("CREATE TABLE IF NOT EXISTS herald_schema (version bigint NOT NULL)");
    const { rows } = await client.query<{ version: number }>("SELECT version FROM herald_schema");
    const from = rows[0]?.version ?? 0;
    const to = MIGRATIONS.length;
    if (from > to)
      throw new AppError(
        "state",
        `The database of store.url was brought up to date by a newer Herald (schema ${from}, this one knows ${to}). Start the newer version here too.`,
      );
    for (const step of MIGRATIONS.slice(from)) await client.query(inPostgres(step));
    if (from < to) {
      await client.query("DELETE FROM herald_schema");
      await client.query("INSERT INTO herald_schema VALUES ($1)", [to]);
      if (from > 0) log.info({ from, to }, "the tables in PostgreSQL were brought up to date");
    }
    await client.query("COMMIT");
  } catch (error) {
    await client.query("ROLLBACK").catch(() => {});
    throw error;
  } finally {
    client.release();
  }
}
