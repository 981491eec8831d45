// docs/backup.md, "With PostgreSQL": what pg_dump wrote while a gateway worked comes back with pg_restore, and a gateway goes on with it.
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { Client } from "pg";
import { expect, it } from "vitest";
import { createNodes } from "../support/nodes.ts";
import { findPostgres } from "../support/postgres.ts";
import { hasPostgres } from "../support/shared-folder.ts";
import { waitFor } from "../support/wait.ts";

it.runIf(hasPostgres())("[CL3] an installation in PostgreSQL, dumped while it works, comes back and goes on", async () => {
  const dir = mkdtempSync(join(tmpdir(), "herald-dump-"));
  try {
    await using herald = await createNodes(1);
    await herald.say("in the background, wait 10 seconds");
    await herald.reply(/I sent out a sub-agent/);
    await waitFor("the run to work", () => herald.rows("SELECT 1 FROM runs WHERE state = 'running'")[0]);

    const program = (name: string, ...args: string[]) => promisify(execFile)(join(findPostgres() ?? "", name), args);
    const schema = /search_path=(\w+)/.exec(decodeURIComponent(herald.url))?.[1] ?? "";
    const dump = join(dir, "herald.dump");
    const before = await herald.messages();
    // The other tests of this run have schemas in the same database; for an operator it is all of it.
    await program("pg_dump", "--format=custom", `--file=${dump}`, `--schema=${schema}`, herald.url);
    await herald.crash();
    const client = new Client({ connectionString: herald.url });
    await client.connect();
    await client.query(`DROP SCHEMA ${schema} CASCADE`).finally(() => client.end());
    await program("pg_restore", "--no-owner", `--dbname=${herald.url}`, dump);

    await herald.restart();
    await herald.reply(/Status: success/);
    expect((await herald.messages()).slice(0, before.length)).toEqual(before);
    expect(await herald.announcements()).toHaveLength(1);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
});
