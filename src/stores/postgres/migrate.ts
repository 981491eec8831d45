// Bringing PostgreSQL's tables up to date. Several processes may start at the same moment: one makes the tables, the others wait.

import { AppError } from "../../core/errors.ts";
import type { Logger } from "../../core/logger.ts";
import type { PostgresDatabase } from "./database.ts";
import { inPostgres, MIGRATIONS } from "./schema.ts";

/** Instead of what a pool's client waits for any other answer. */
const PATIENT = { query_timeout: 3_600_000 };

/** For who works beside gateways and makes nothing of its own: has one been here? */
export async function hasTables({ connections }: PostgresDatabase): Promise<boolean> {
  const { rows } = await connections.pool.query<{ found: string | null }>("SELECT to_regclass('herald_schema')::text AS found");
  return rows[0]?.found != null;
}

/** Throws AppError("state") when it was written by a newer version. */
export async function migrate({ connections, namespace }: PostgresDatabase, log: Logger): Promise<void> {
  const client = await connections.pool.connect();
  try {
    // A step may read every row there is; whoever starts beside it waits as long.
    await client.query("BEGIN; SET LOCAL statement_timeout = 0");
    await client.query({ ...PATIENT, text: "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", values: [`${namespace}/schema`] });
    await client.query("CREATE TABLE IF NOT EXISTS herald_schema (version bigint NOT NULL)");
    const { rows } = await client.query<{ version: number }>("SELECT version FROM herald_schema");
    const from = rows[0]?.version ?? 0;
    const to = MIGRATIONS.length;
    if (from > to)
      throw new AppError(
        "state",
        `The database of store.url was brought up to date by a newer Herald (schema ${from}, this one knows ${to}). Start the newer version here too.`,
      );
    for (const step of MIGRATIONS.slice(from)) await client.query({ ...PATIENT, text: inPostgres(step) });
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
