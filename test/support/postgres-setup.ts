// vitest's global set-up: one PostgreSQL for all tests of a run, where it is installed.
import { findPostgres, POSTGRES_ENV, startPostgres } from "./postgres.ts";

export default async function setUp(): Promise<(() => Promise<void>) | undefined> {
  if (findPostgres() === null) {
    if (process.env.HERALD_REQUIRE_POSTGRES === "1") throw new Error("PostgreSQL is not installed: apt-get install postgresql");
    console.log("PostgreSQL is not installed (apt-get install postgresql): the tests of several machines are skipped.");
    return undefined;
  }
  const server = await startPostgres();
  process.env[POSTGRES_ENV] = server.url;
  return server.stop;
}
