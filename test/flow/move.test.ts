// `npm run move` as a process: killed at any moment and repeated, kept apart from gateways, and a real gateway that goes on with what was moved.
import { randomUUID } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client } from "pg";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { silentLogger } from "../../src/core/logger.ts";
import { openPostgres } from "../../src/stores/postgres/database.ts";
import { takeMoveLock } from "../../src/stores/postgres/move-mark.ts";
import { child, plan, spawns } from "../support/brain.ts";
import { fillFolder, readFolder, readPostgres } from "../support/moved-data.ts";
import { createSchema, type Schema } from "../support/postgres.ts";
import { startCli } from "../support/run-cli.ts";
import { type BareHerald, runHerald } from "../support/run-herald.ts";
import { runScript, type ScriptEnd } from "../support/run-script.ts";
import { createScene } from "../support/scene.ts";
import { hasPostgres } from "../support/shared-folder.ts";
import { waitFor } from "../support/wait.ts";

describe.runIf(hasPostgres())("npm run move", () => {
  let dir: string;
  let schema: Schema;
  beforeEach(async () => {
    dir = mkdtempSync(join(tmpdir(), "herald-move-"));
    schema = await createSchema();
  });
  afterEach(async () => {
    await schema[Symbol.asyncDispose]();
    rmSync(dir, { recursive: true, force: true });
  });

  const envOf = (stateDir: string): Record<string, string> => ({ HOME: dir, HERALD_STATE_DIR: stateDir, DATABASE_URL: schema.url });
  const move = (stateDir: string, to: string, failpoint?: string, ...more: string[]): Promise<ScriptEnd> =>
    runScript("move.ts", ["--to", to, ...more], dir, {
      ...envOf(stateDir),
      ...(failpoint === undefined ? {} : { HERALD_FAILPOINT: failpoint }),
    });
  const query = async (sql: string): Promise<Record<string, unknown>[]> => {
    const client = new Client({ connectionString: schema.url });
    await client.connect();
    return (await client.query(sql).finally(() => client.end())).rows;
  };
  const SETTINGS = JSON.stringify({ web: { port: 0 }, models: { probeLocal: false } });
  const gateway = (stateDir: string, config = SETTINGS): BareHerald => runHerald({ config, env: { ...envOf(stateDir) } });
  const alone = (stateDir: string): BareHerald => runHerald({ config: SETTINGS, env: { HERALD_STATE_DIR: stateDir } });

  const POINTS = ["move.marked", "move.rows:5", "move.transcript:3", "move.document:2", "move.file", "move.copied", "move.compared"];

  it.each(POINTS)(
    "[SO7] killed at %s on the way to PostgreSQL: no gateway starts on half of it, and repeated it is complete",
    async (point) => {
      const source = join(dir, "source");
      fillFolder(source);
      const before = readFolder(source);
      expect((await move(source, "postgres", point)).ended).toBe("SIGKILL");
      await using half = gateway(join(dir, "other"));
      expect(await half.ended()).toBe(1);
      expect(half.stderr()).toMatch(/^The database of store\.url is being filled by npm run move, or that was broken off .*\n$/m);
      const pairing = await runScript("pair.ts", [], dir, envOf(source));
      expect(pairing).toMatchObject({ ended: 1, said: expect.stringContaining("is being filled by npm run move") });
      const { ended, said } = await move(source, "postgres");
      expect(said).toContain("Compared, and the same on both sides");
      expect(ended).toBe(0);
      expect(await readPostgres(schema.url)).toEqual(before);
      expect(readFolder(source)).toEqual(before);
    },
  );

  it("[SO7] where nobody reads its lines any more (| head -1) it goes on to its end", async () => {
    const source = join(dir, "source");
    fillFolder(source);
    const before = readFolder(source);
    const piped = startCli({ dir, stateDir: source }, ["move", "--to", "postgres"], {
      env: { DATABASE_URL: schema.url },
      shell: '{ "$@"; echo "ended with $?" >&2; } | head -1',
    });
    await piped.ended();
    expect(piped.err()).toBe("ended with 0\n");
    expect(await readPostgres(schema.url)).toEqual(before);
  });

  it.each(POINTS)("[SO7] killed at %s on the way back: no gateway starts on half of it, and repeated it is complete", async (point) => {
    const [source, target] = [join(dir, "source"), join(dir, "target")];
    fillFolder(source);
    const before = readFolder(source);
    expect((await move(source, "postgres")).ended).toBe(0);
    expect((await move(target, "embedded", point)).ended).toBe("SIGKILL");
    await using half = alone(target);
    expect(await half.ended()).toBe(1);
    expect(half.stderr()).toMatch(/^The state folder \S+ is being filled by npm run move, or that was broken off .*\n$/m);
    const { ended, said } = await move(target, "embedded");
    expect(said).toContain("Compared, and the same on both sides");
    expect(ended).toBe(0);
    expect(readFolder(target)).toEqual(before);
    expect(await readPostgres(schema.url)).toEqual(before);
  });

  it("[SO7] killed after its end it is complete, and says so when it is repeated", async () => {
    const [source, target] = [join(dir, "source"), join(dir, "target")];
    fillFolder(source, { rows: 3, transcripts: 3 });
    const before = readFolder(source);
    expect((await move(source, "postgres", "move.finished")).ended).toBe("SIGKILL");
    expect(await move(source, "postgres")).toMatchObject({ ended: 1, said: expect.stringContaining("holds an installation already") });
    expect((await move(target, "embedded", "move.finished")).ended).toBe("SIGKILL");
    expect(await move(target, "embedded")).toMatchObject({ ended: 1, said: expect.stringContaining("holds an installation already") });
    expect(readFolder(target)).toEqual(before);
  });

  it("[SO7] nobody starts on what was left, on either side, unless somebody says so; what it was moved to goes on", async () => {
    const [source, target] = [join(dir, "source"), join(dir, "target")];
    {
      await using first = alone(source);
      await first.ready();
    }
    expect((await move(source, "postgres")).ended).toBe(0);
    await using left = alone(source);
    expect(await left.ended()).toBe(1);
    expect(left.stderr()).toMatch(
      /^What is in \S+ was moved into PostgreSQL at \d{4}-\S+Z, and would be done a second time from here\. .*\n$/m,
    );
    const beside = await runScript("pair.ts", [], dir, { HOME: dir, HERALD_STATE_DIR: source });
    expect(beside).toMatchObject({ ended: 1, said: expect.stringContaining("was moved into PostgreSQL") });
    {
      await using shared = gateway(source);
      await shared.ready();
    }
    expect((await move(target, "embedded")).ended).toBe(0);
    await using abandoned = gateway(join(dir, "other"));
    expect(await abandoned.ended()).toBe(1);
    expect(abandoned.stderr()).toMatch(/^What is in the database of store\.url was moved into a state folder at \d{4}-\S+Z, and .*\n$/m);
    const aside = await runScript("pair.ts", [], dir, envOf(join(dir, "other")));
    expect(aside).toMatchObject({ ended: 1, said: expect.stringContaining("was moved into a state folder") });
    await using home = alone(target);
    await home.ready();
    // As the sentence says.
    rmSync(join(source, "moved-away"));
    await using again = alone(source);
    await again.ready();
  });

  it("[SO7] refuses while a gateway runs, on either side; one that was killed doesn't block it", async () => {
    const folder = join(dir, "folder");
    {
      await using herald = alone(folder);
      await herald.ready();
      const refused = await move(folder, "postgres");
      expect(refused).toMatchObject({
        ended: 1,
        said: `Another Herald (pid ${herald.pid}) uses the state folder ${folder}. Stop it, or set HERALD_STATE_DIR to another folder.\n`,
      });
    }
    expect((await move(folder, "postgres")).said).toContain("Done.");
    await using herald = gateway(join(dir, "other"));
    await herald.ready();
    const back = join(dir, "back");
    const refused = await move(back, "embedded");
    expect(refused.ended).toBe(1);
    expect(refused.said).toMatch(
      /^A Herald stands on record in PostgreSQL; looking whether it lives, 10 s at most …\nHerald runs on PostgreSQL at \S+ \(schema \w+\) \(machine \S+\)\. Stop it on every machine, then move\.\n$/m,
    );
    herald.kill("SIGKILL");
    await herald.ended();
    expect(await query("SELECT 1 FROM nodes")).toHaveLength(1);
    expect(await move(back, "embedded")).toMatchObject({ ended: 0 });
    expect(await query("SELECT 1 FROM nodes")).toHaveLength(0);
  });

  it("[SO7] a gateway that starts while a move is under way refuses, and so does a second move", async () => {
    const folder = join(dir, "folder");
    fillFolder(folder, { rows: 1, transcripts: 1 });
    expect((await move(folder, "postgres")).ended).toBe(0);
    const db = await openPostgres({ url: schema.url, poolSize: 2, log: silentLogger, name: "test", steady: () => performance.now() });
    const lock = await takeMoveLock(db);
    await using herald = gateway(join(dir, "other"));
    expect(await herald.ended()).toBe(1);
    expect(herald.stderr()).toMatch(
      /^The database of store\.url is being moved by npm run move just now; start Herald again when that is done\.$/m,
    );
    expect(await move(join(dir, "back"), "embedded")).toMatchObject({
      ended: 1,
      said: expect.stringMatching(/^Another npm run move, .* uses this database\./),
    });
    await lock.release();
    await db.close();
    expect((await move(join(dir, "back"), "embedded")).ended).toBe(0);
  });

  it("[SO7] never prints the address or its password, and says which setting to change", async () => {
    const folder = join(dir, "folder");
    fillFolder(folder, { rows: 1, transcripts: 1 });
    const url = new URL(schema.url);
    url.password = "geheim-und-lang";
    const env = { HOME: dir, HERALD_STATE_DIR: folder };
    const run = (args: string[], more: Record<string, string> = {}): Promise<ScriptEnd> =>
      runScript("move.ts", args, dir, { ...env, ...more });
    const nowhere = new URL(url);
    nowhere.port = "1";
    const ends = [
      await run(["--to", nowhere.href]),
      await run([url.href]),
      await run(["--to", `${url.href} x`]),
      await run(["--to", "postgres"]),
      await run(["--to", url.href]),
      await run(["--to", "embedded"], { DATABASE_URL: url.href }),
    ];
    for (const { said } of ends) expect(said).not.toContain("geheim");
    expect(ends.map(({ ended }) => ended)).toEqual([1, 1, 1, 1, 0, 1]);
    expect(ends[0]?.said).toMatch(/^PostgreSQL can't be used: .*ECONNREFUSED/);
    expect(ends[1]?.said).toMatch(/^npm run move -- --to postgres /);
    expect(ends[3]?.said).toBe("Set store.url, or DATABASE_URL in .env, to the address of the database first.\n");
    expect(ends[4]?.said).toMatch(
      /Now set store\.url in \S+herald\.json5, or DATABASE_URL in \.env, to this address, and start Herald\.\n$/,
    );
  });

  it("[SO7][RC2] a gateway on what was moved goes on with queued, running and waiting runs, there and back, and announces each once", async () => {
    await using scene = await createScene({ subagents: { maxConcurrent: 2, maxSpawnDepth: 2 } });
    const { herald } = scene;
    const chat = scene.chat();
    const later = (label: string): Record<string, unknown> => child(label, [{ text: `${label} is through`, hold: label }]);
    await chat.act([spawns(child("over", "before"))]);
    await chat.announced("over");
    await chat.act([
      spawns(
        later("one"),
        child("parent", [spawns(later("below")), { text: "sent one further" }, { text: "woken after all" }]),
        later("two"),
      ),
    ]);
    const states = (): string =>
      herald
        .rows<{ state: string }>("SELECT state FROM runs ORDER BY seq")
        .map(({ state }) => state)
        .join();
    await waitFor(
      "all states",
      () => states() === "done,running,waiting,queued,running" || states() === "done,running,waiting,running,queued",
    );
    await herald.crash();

    const there = await move(herald.stateDir, "postgres");
    expect(there).toMatchObject({ ended: 0 });
    const config = readFileSync(join(herald.dir, "config/herald.json5"), "utf8");
    const shared = async (sql: string): Promise<string[]> => (await query(sql)).map((row) => String(row.text));
    const announced = (): Promise<string[]> => shared("SELECT text FROM web_messages WHERE key LIKE 'announce:%' ORDER BY seq");
    {
      await using on = gateway(herald.stateDir, config);
      await on.ready();
      for (const name of ["one", "below", "two"]) scene.release(name);
      await waitFor("all announcements", async () => (await announced()).length >= 4, 60_000);
      await waitFor(
        "all to be delivered",
        async () => (await query("SELECT 1 FROM outbox WHERE state NOT IN ('sent', 'withdrawn')")).length === 0,
      );
      expect((await announced()).map(labelOf).sort()).toEqual(["one", "over", "parent", "two"]);
      // And another, to be on its way when it is killed.
      await post(await on.ready(), herald.stateDir, chat.id, plan([spawns(later("three"), later("four"), later("five"))]));
      await waitFor("two to run", async () => (await query("SELECT 1 FROM runs WHERE state = 'running'")).length === 2, 60_000);
      on.kill("SIGKILL");
      await on.ended();
    }
    expect(await move(herald.stateDir, "embedded", undefined, "--aside")).toMatchObject({ ended: 0 });
    await herald.restart();
    for (const name of ["three", "four", "five"]) scene.release(name);
    for (const label of ["three", "four", "five"]) expect(await chat.announced(label)).toContain(`${label} is through`);
    expect((await chat.announcements()).map(({ text }) => labelOf(text)).sort()).toEqual([
      "five",
      "four",
      "one",
      "over",
      "parent",
      "three",
      "two",
    ]);
    expect(chat.run("five").state).toBe("done");
  });
});

/** With the token that came along. */
async function post(origin: string, stateDir: string, chat: string, text: string): Promise<void> {
  const authorization = `Bearer ${readFileSync(join(stateDir, "web-token"), "utf8").trim()}`;
  const headers = { authorization, "content-type": "application/json" };
  const body = JSON.stringify({ id: randomUUID(), text, kind: "message" });
  const response = await fetch(`${origin}/api/chats/${chat}/messages`, { method: "POST", headers, body });
  if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
}

const labelOf = (text: string): string => /^\*\*Sub-agent: ([^*]+)\*\*/.exec(text)?.[1] ?? text;
