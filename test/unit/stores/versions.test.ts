// Two versions on one PostgreSQL (SO8): a newer one adds columns and tables under an older one that runs, and an older one that starts
// finds a database it doesn't know.
import { Client } from "pg";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { silentLogger } from "../../../src/core/logger.ts";
import { openPostgres, type PostgresDatabase } from "../../../src/stores/postgres/database.ts";
import { migrate } from "../../../src/stores/postgres/migrate.ts";
import { MIGRATIONS } from "../../../src/stores/postgres/schema.ts";
import { createSchema, type Schema } from "../../support/postgres.ts";
import { hasPostgres } from "../../support/shared-folder.ts";

describe.runIf(hasPostgres())("two versions on one database", () => {
  const POOL = 10;
  let schema: Schema;
  let db: PostgresDatabase;
  beforeEach(async () => {
    schema = await createSchema();
    db = await openPostgres({ url: schema.url, poolSize: POOL, log: silentLogger, name: "test", steady: () => performance.now() });
    await migrate(db, silentLogger);
    await db.transaction([], (tx) => tx.run("INSERT INTO channel_account (channel, account) VALUES ('web', 'local')"));
  });
  afterEach(async () => {
    await db.close();
    await schema[Symbol.asyncDispose]();
  });

  /** As a newer version beside us does it. */
  const newer = async (sql: string): Promise<void> => {
    const client = new Client({ connectionString: schema.url });
    await client.connect();
    await client.query(sql).finally(() => client.end());
  };
  const READ = "SELECT * FROM channel_account WHERE channel = ?";
  /** Every connection of the pool has these prepared. */
  const warmUp = async (...statements: string[]): Promise<void> => {
    const all = Promise.withResolvers<void>();
    let waiting = 0;
    await Promise.all(
      Array.from({ length: POOL }, () =>
        db.transaction([], async (tx) => {
          for (const sql of statements) await tx.get(sql, "web");
          if (++waiting === POOL) all.resolve();
          await all.promise;
        }),
      ),
    );
  };

  it("[SO8] a read goes on when a column was added, whichever connection it meets", async () => {
    await warmUp(READ);
    for (const n of [1, 2, 3]) {
      await newer(`ALTER TABLE channel_account ADD COLUMN added_${n} text`);
      for (let times = 0; times < 2 * POOL; times++)
        expect(await db.get(READ, "web")).toMatchObject({ account: "local", [`added_${n}`]: null });
    }
  });

  it("[SO8] many reads at once go on, too", async () => {
    await warmUp(READ);
    await newer("ALTER TABLE channel_account ADD COLUMN added text");
    const rows = await Promise.all(Array.from({ length: 5 * POOL }, () => db.get(READ, "web")));
    expect(rows).toHaveLength(5 * POOL);
    for (const row of rows) expect(row).toMatchObject({ account: "local", added: null });
  });

  it("[SO8] a transaction is done again as a whole, and its effect is there once", async () => {
    const WRITE =
      "INSERT INTO tries (work, deaths, at) VALUES (?, 1, 1) ON CONFLICT (work) DO UPDATE SET deaths = tries.deaths + 1 RETURNING *";
    await warmUp(READ);
    await db.transaction([], (tx) => tx.get(WRITE, "job"));
    await newer("ALTER TABLE channel_account ADD COLUMN added text");
    for (let times = 0; times < POOL; times++)
      await db.transaction([], async (tx) => {
        await tx.get(WRITE, "job");
        expect(await tx.get(READ, "web")).toMatchObject({ account: "local", added: null });
      });
    expect(await db.get("SELECT deaths FROM tries")).toEqual({ deaths: 1 + POOL });
    // RETURNING * ages as well.
    await newer("ALTER TABLE tries ADD COLUMN added text");
    await db.transaction([], (tx) => tx.get(WRITE, "job"));
    expect(await db.get("SELECT deaths FROM tries")).toEqual({ deaths: 2 + POOL });
  });

  it("[SO8] a column added while a transaction is open waits for its end", async () => {
    await warmUp(READ);
    let added: Promise<void> = Promise.resolve();
    await db.transaction([], async (tx) => {
      await tx.get(READ, "web");
      added = newer("ALTER TABLE channel_account ADD COLUMN added text");
      expect(await tx.get(READ, "web")).toEqual({ channel: "web", account: "local" });
    });
    await added;
    expect(await db.get(READ, "web")).toEqual({ channel: "web", account: "local", added: null });
  });

  it("[SO8] a database that is too new is refused in one sentence, and nothing in it is changed", async () => {
    await newer(`UPDATE herald_schema SET version = ${MIGRATIONS.length + 1}`);
    await expect(migrate(db, silentLogger)).rejects.toThrow(
      `The database of store.url was brought up to date by a newer Herald (schema ${MIGRATIONS.length + 1}, this one knows ${MIGRATIONS.length}). Start the newer version here too.`,
    );
    expect(await db.all("SELECT version FROM herald_schema")).toEqual([{ version: MIGRATIONS.length + 1 }]);
  });
});
