// Two versions of Herald on one PostgreSQL, and the scripts beside them, as real processes.
import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client } from "pg";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { lock } from "../../src/stores/lock-keys.ts";
import { createPairing } from "../../src/stores/pairing.ts";
import { openPostgres } from "../../src/stores/postgres/database.ts";
import { MIGRATIONS } from "../../src/stores/postgres/schema.ts";
import { createSchema, type Schema } from "../support/postgres.ts";
import { runCli } from "../support/run-cli.ts";
import { type BareHerald, runHerald } from "../support/run-herald.ts";
import { runScript, type ScriptEnd } from "../support/run-script.ts";
import { hasPostgres } from "../support/shared-folder.ts";
import { waitFor } from "../support/wait.ts";

describe.runIf(hasPostgres())("beside a gateway on PostgreSQL", () => {
  let dir: string;
  let schema: Schema;
  beforeEach(async () => {
    dir = mkdtempSync(join(tmpdir(), "herald-versions-"));
    schema = await createSchema();
  });
  afterEach(async () => {
    await schema[Symbol.asyncDispose]();
    rmSync(dir, { recursive: true, force: true });
  });

  const config = JSON.stringify({ web: { port: 0 }, models: { probeLocal: false } });
  const start = (): BareHerald => runHerald({ config, env: { DATABASE_URL: schema.url } });
  const query = async (sql: string): Promise<Record<string, unknown>[]> => {
    const client = new Client({ connectionString: schema.url });
    await client.connect();
    return (await client.query(sql).finally(() => client.end())).rows;
  };
  const ask = async (herald: BareHerald, text: string): Promise<void> => {
    const origin = await herald.ready();
    const [row] = await query("SELECT value FROM kept WHERE name = 'web-token'");
    const response = await fetch(`${origin}/api/chats/main/messages`, {
      method: "POST",
      headers: { authorization: `Bearer ${row?.value}`, "content-type": "application/json" },
      body: JSON.stringify({ id: randomUUID(), text, kind: "message" }),
    });
    expect(response.status).toBe(202);
  };
  const agentSaid = async (): Promise<string[]> =>
    (await query("SELECT text FROM web_messages WHERE author = 'agent' ORDER BY seq")).map((row) => String(row.text));

  it("[SO8] a newer version adds a column to every table while an older one works: it goes on, without a word in the log", async () => {
    await using herald = start();
    const work = async (answers: number): Promise<void> => {
      await ask(herald, "in the background, list the files here");
      await waitFor("the answer and the announcement", async () => (await agentSaid()).length === answers, 30_000);
      await ask(herald, "/subagents list");
      await waitFor("the list", async () => (await agentSaid()).length === answers + 1, 30_000);
    };
    await work(2);
    const tables = await query("SELECT tablename FROM pg_tables WHERE schemaname = current_schema() AND tablename <> 'herald_schema'");
    expect(tables.length).toBeGreaterThan(20);
    for (const { tablename } of tables) await query(`ALTER TABLE ${tablename} ADD COLUMN of_a_newer_version text`);
    await work(5);
    expect((await agentSaid()).filter((text) => text.startsWith("**Sub-agent:"))).toHaveLength(2);
    expect(herald.stderr()).not.toMatch(/"level":"error"|cached plan/);
  });

  it("[SO8] an older process refuses a database that is too new in one sentence, the scripts too", async () => {
    {
      await using herald = start();
      await herald.ready();
    }
    await query(`UPDATE herald_schema SET version = ${MIGRATIONS.length + 1}`);
    const words = `The database of store.url was brought up to date by a newer Herald (schema ${MIGRATIONS.length + 1}, this one knows ${MIGRATIONS.length}). Start the newer version here too.\n`;
    await using older = start();
    expect(await older.ended()).toBe(1);
    expect(
      older
        .stderr()
        .split("\n")
        .filter((line) => line !== "" && !line.startsWith("{")),
    ).toEqual([words.trim()]);
    const env = { HOME: dir, HERALD_STATE_DIR: join(dir, "state"), DATABASE_URL: schema.url };
    expect(await runScript("pair.ts", [], dir, env)).toEqual({ ended: 1, said: words });
    expect(await runScript("move.ts", ["--to", "embedded"], dir, env)).toEqual({ ended: 1, said: words });
  });

  it("[SC1][SO1][PR1] npm run pair and herald token work on the database of store.url beside a gateway, and need no state folder", async () => {
    const run = (...words: string[]): Promise<ScriptEnd> =>
      runScript("pair.ts", words, dir, { HOME: dir, HERALD_STATE_DIR: join(dir, "none"), DATABASE_URL: schema.url });
    expect(await run()).toEqual({ ended: 1, said: "Herald has not been started with the database of store.url yet.\n" });
    await using herald = start();
    const origin = await herald.ready();
    expect(await run()).toEqual({ ended: 0, said: "Nobody is waiting, paired or refused.\n" });
    const db = await openPostgres({ url: schema.url, poolSize: 2, log: silentLogger, name: "test", steady: () => performance.now() });
    try {
      const pairing = createPairing({ db, clock: systemClock });
      const codeFor = async (senderId: string): Promise<string> => {
        const address = { channel: "telegram", account: "1", chat: senderId, kind: "dm" as const };
        const from = { channel: "telegram", account: "1", senderId, senderName: `Ann ${senderId}`, address };
        return (await db.transaction([lock.pairing], (tx) => pairing.request(tx, from))) ?? "";
      };
      const [first, second] = [await codeFor("7"), await codeFor("8")];
      expect((await run()).said).toContain(`${first}  Ann 7 (telegram 7)`);
      expect((await run(first)).said).toBe("Ann 7 (telegram 7) may now talk to Herald and will be told so.\n");
      expect((await run("refuse", second)).said).toContain("is not let in");
      expect((await pairing.listPeople()).map(({ senderId, state }) => `${senderId} ${state}`).sort()).toEqual(["7 paired", "8 refused"]);
      expect((await run("revoke", "telegram", "7")).said).toBe("Ann 7 (telegram 7) may no longer talk to Herald.\n");
      expect(await run("NOSUCH")).toMatchObject({ ended: 1 });
      // Tokens of other programs stand there as well.
      const token = (...words: string[]) =>
        runCli(["token", ...words], { cwd: dir, env: { HOME: dir, HERALD_STATE_DIR: join(dir, "none"), DATABASE_URL: schema.url } });
      const [, secret = ""] = /^(herald_\S+)$/m.exec((await token("new", "over-there")).out) ?? [];
      expect(await token()).toMatchObject({ code: 0, out: expect.stringMatching(/^over-there {2}spawn,read, made .*, never used\n$/) });
      const asked = () =>
        fetch(`${origin}/mcp`, {
          method: "POST",
          headers: { authorization: `Bearer ${secret}`, "content-type": "application/json" },
          body: "{}",
        });
      expect((await asked()).status).not.toBe(401);
      expect(await token("revoke", "over-there")).toMatchObject({ code: 0 });
      expect((await asked()).status).toBe(401);
    } finally {
      await db.close();
    }
  });
});
