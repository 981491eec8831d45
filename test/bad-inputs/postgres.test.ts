// PostgreSQL in trouble, or not the PostgreSQL that it should be: poolers, full disks, lost commits, other encodings. A real server, real
// errors where they can be made, and a proxy that gives the server's answer where they can't.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client } from "pg";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createPeers } from "../support/channel-scene.ts";
import { freePort } from "../support/free-port.ts";
import { createNodes } from "../support/nodes.ts";
import { createSchema, POSTGRES_ENV, type PostgresServer, startPostgres } from "../support/postgres.ts";
import { createProxy } from "../support/postgres-proxy.ts";
import { runHerald } from "../support/run-herald.ts";
import { scriptedConfig } from "../support/scripted-model.ts";
import { hasPostgres } from "../support/shared-folder.ts";
import { createProcesses, type SharedProcess } from "../support/shared-process.ts";
import { waitFor } from "../support/wait.ts";

const server = (): string => process.env[POSTGRES_ENV] ?? "";

async function ask(url: string, ...statements: string[]): Promise<void> {
  const client = new Client({ connectionString: url });
  await client.connect();
  for (const sql of statements) await client.query(sql);
  await client.end();
}

/** A database of its own, gone afterwards. */
async function createDatabase(how: string, base = server()): Promise<{ url: string } & AsyncDisposable> {
  const name = `d_${crypto.randomUUID().replaceAll("-", "").slice(0, 16)}`;
  await ask(base, `CREATE DATABASE ${name} ${how}`);
  const url = new URL(base);
  url.pathname = `/${name}`;
  return { url: url.href, [Symbol.asyncDispose]: () => ask(base, `DROP DATABASE ${name} WITH (FORCE)`) };
}

const PGBOUNCER = "/usr/sbin/pgbouncer";

/** Root must not run it. */
async function startPooler(target: URL, more: string): Promise<{ url: string } & AsyncDisposable> {
  const dir = mkdtempSync(join(tmpdir(), "herald-pooler-"));
  chmodSync(dir, 0o755);
  const port = await freePort();
  const file = join(dir, "pooler.ini");
  const lines = [
    "[databases]",
    `* = host=${target.hostname} port=${target.port}`,
    "[pgbouncer]",
    ...["listen_addr = 127.0.0.1", `listen_port = ${port}`, "unix_socket_dir =", "auth_type = any", "pool_mode = transaction", more],
  ];
  // With any user it connects as the one it is told here.
  lines[1] = `* = host=${target.hostname} port=${target.port} user=${target.username}`;
  writeFileSync(file, `${lines.join("\n")}\n`, { mode: 0o644 });
  const isRoot = process.getuid?.() === 0;
  const child = spawn(PGBOUNCER, [...(isRoot ? ["-u", "postgres"] : []), file], { stdio: "ignore", cwd: "/" });
  const exited = once(child, "exit");
  const url = new URL(target);
  url.port = String(port);
  await waitFor("the pooler", async () => {
    await ask(url.href, "SELECT 1");
    return true;
  });
  return {
    url: url.href,
    async [Symbol.asyncDispose]() {
      child.kill("SIGKILL");
      await exited;
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

describe.skipIf(!hasPostgres())("PostgreSQL", () => {
  it.skipIf(!existsSync(PGBOUNCER)).each([
    ["as it comes", ""],
    ["that ignores our settings", "ignore_startup_parameters = statement_timeout,idle_in_transaction_session_timeout"],
  ])(
    "[SO2] PGDB-001 store.url leads to PgBouncer in transaction mode, %s: refused in a sentence that names the way out",
    async (_name, more) => {
      await using database = await createDatabase("");
      await using pooler = await startPooler(new URL(database.url), more);
      await using herald = runHerald({
        config: JSON.stringify({ web: { port: 0 }, models: { probeLocal: false } }),
        env: { DATABASE_URL: pooler.url },
      });
      expect(await herald.ended()).toBe(1);
      const words = herald
        .stderr()
        .split("\n")
        .filter((line) => line !== "" && !line.startsWith("{"));
      expect(words).toHaveLength(1);
      expect(words[0]).toMatch(/pooler in transaction mode.*(?:own address|session mode)/);
    },
    60_000,
  );

  describe("out of something", () => {
    let small: PostgresServer;
    beforeAll(async () => {
      small = await startPostgres({ max_connections: "24", superuser_reserved_connections: "3", max_locks_per_transaction: "10" });
      await ask(small.url, "CREATE ROLE plain LOGIN", "GRANT ALL ON DATABASE postgres TO plain");
    }, 60_000);
    afterAll(() => small.stop());

    /** Of somebody who is no superuser: the last places are for those. */
    async function open(): Promise<{ one: SharedProcess; url: string } & AsyncDisposable> {
      const schema = await createSchema(small.url);
      await ask(small.url, `ALTER SCHEMA ${schema.name} OWNER TO plain`);
      const url = new URL(schema.url);
      url.username = "plain";
      const processes = createProcesses();
      const one = await processes.start(url.href, { poolSize: 4 });
      return {
        one,
        url: schema.url,
        async [Symbol.asyncDispose]() {
          await processes[Symbol.asyncDispose]();
          await schema[Symbol.asyncDispose]();
        },
      };
    }

    // With a lock of its own, as most have.
    const keep = (one: SharedProcess, name: string): Promise<unknown> =>
      one.stores.db.transaction([`tree:${name}`], (tx) => tx.run("INSERT INTO kept (name, value) VALUES (?, 'x')", name));
    const names = async (one: SharedProcess): Promise<string[]> =>
      (await one.stores.db.all<{ name: string }>("SELECT name FROM kept ORDER BY name")).map(({ name }) => name);
    const said = (one: SharedProcess, words: RegExp): number =>
      one.lines.filter(({ level, msg }) => level === "error" && words.test(msg)).length;

    /** How often it was tried, of all who wanted to. */
    function countTries({ installation }: SharedProcess): () => number {
      const { pool } = installation.db.connections;
      const connect = pool.connect.bind(pool) as (...args: never[]) => unknown;
      let tries = 0;
      pool.connect = ((...args: never[]) => {
        tries++;
        return connect(...args);
      }) as typeof pool.connect;
      return () => tries;
    }

    /** While it lasts: refused in words, said once, tried about once a second; afterwards everything goes on by itself. */
    async function endure(one: SharedProcess, words: RegExp, isOver: () => Promise<void>, tries: () => number): Promise<void> {
      for (let n = 0; n < 40; n++) await expect(keep(one, `refused ${n}`)).rejects.toThrow(words);
      const before = tries();
      const startedAt = performance.now();
      for (let n = 0; performance.now() - startedAt < 2_200; n++) {
        await expect(keep(one, `refused later ${n}`)).rejects.toThrow(words);
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
      expect(tries() - before).toBeLessThanOrEqual(3);
      expect(one.stores.problem()).toMatch(words);
      expect(said(one, words)).toBe(1);
      await isOver();
      await waitFor("it to work again", () => keep(one, "after").then(() => true));
      expect(one.stores.problem()).toBeNull();
      expect(await names(one)).toEqual(["after", "before"]);
      expect(one.lines.filter(({ msg }) => /answers again/.test(msg))).toHaveLength(1);
    }

    it("[RC4] PGDB-003 out of shared memory for locks (53200): said once, nothing half done, tried once a second, over by itself", async () => {
      await using opened = await open();
      const { one } = opened;
      await keep(one, "before");
      const tries = countTries(one);
      const greedy = new Client({ connectionString: small.url });
      await greedy.connect();
      await greedy.query(
        "DO $$ BEGIN FOR n IN 1..100000 LOOP PERFORM pg_advisory_lock(n); END LOOP; EXCEPTION WHEN out_of_memory THEN NULL; END $$",
      );
      await endure(one, /out of memory for locks/, () => greedy.end(), tries);
    }, 60_000);

    it("[RC4] PGDB-003 no place for another connection (53300): said once, tried once a second, over by itself", async () => {
      await using opened = await open();
      const { one } = opened;
      await keep(one, "before");
      // Its own connections are lost, and others take all places.
      const url = new URL(small.url);
      url.username = "plain";
      const guests: Client[] = [];
      await ask(small.url, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'plain'");
      for (;;) {
        const guest = new Client({ connectionString: url.href });
        guest.on("error", () => {});
        try {
          await guest.connect();
          guests.push(guest);
        } catch {
          break;
        }
      }
      const tries = countTries(one);
      await endure(one, /takes no more connections/, async () => void (await Promise.all(guests.map((guest) => guest.end()))), tries);
    }, 60_000);

    it("[RC4] PGDB-003 its disk is full (53100): said once, nothing acknowledged, tried once a second, over by itself", async () => {
      await using schema = await createSchema();
      await using proxy = await createProxy(server());
      await using processes = createProcesses();
      const one = await processes.start(proxy.through(schema.url), { poolSize: 4 });
      await keep(one, "before");
      const tries = countTries(one);
      let isFull = true;
      // A full disk is met by what writes; here the commit.
      proxy.toServer = ({ type, text }) =>
        isFull && type === "Q" && text.includes("COMMIT")
          ? { code: "53100", message: "could not extend file: No space left on device" }
          : "pass";
      await endure(
        one,
        /its disk is full/,
        () => {
          isFull = false;
          return Promise.resolve();
        },
        tries,
      );
    }, 60_000);
  });

  it("[SO4] [DL4] PGDB-005 a replica without the last commits takes over: processes without a row begin anew, sends without a mark are looked up", async () => {
    const { channels, close, telegram, slack, model } = await createPeers({
      telegram: { allowFrom: ["42"] },
      slack: { allowFrom: ["U0PERSON"] },
    });
    try {
      const config = scriptedConfig(model.url, {}, { gateway: { drainSeconds: 0 }, channels });
      await using herald = await createNodes(2, { config, leavesUnsent: true });
      await telegram.until(() => telegram.calls.some((call) => call.method === "getUpdates"), "the first poll");
      await slack.until(() => slack.sockets.open() > 0, "a socket");
      telegram.say({ chat: 42, text: "hello" });
      await telegram.until(() => telegram.messages(42).length === 1, "its answer");
      slack.say({ channel: "D0PERSON", user: "U0PERSON", text: "hello" });
      await slack.until(() => slack.messages("D0PERSON").length === 1, "its answer");
      await waitFor("both to be marked", () => herald.rows("SELECT 1 FROM outbox WHERE state = 'sent'").length === 2);
      const known = herald.rows<{ id: string }>("SELECT id FROM nodes").map(({ id }) => id);
      // What the replica never heard of: who is alive, and that both were sent.
      await ask(
        herald.url,
        `BEGIN; DELETE FROM nodes; UPDATE outbox SET state = 'sending', settled_at = NULL, ref = NULL, owner = '${known[0]}' WHERE state = 'sent'; COMMIT`,
      );
      await waitFor("both to begin anew", () => herald.members.every((one) => /begins anew/.test(one.output())));
      await waitFor("both to be back", () => herald.members.every((one) => one.origin() !== ""), 30_000);
      expect(herald.rows("SELECT 1 FROM nodes")).toHaveLength(2);
      await waitFor("all to be settled", () => herald.rows("SELECT 1 FROM outbox WHERE state <> 'sent'").length === 0, 30_000);
      // Slack was asked, and has it; Telegram can't be.
      expect(slack.messages("D0PERSON")).toHaveLength(1);
      const [first, second, ...more] = telegram.messages(42).map(({ text }) => text);
      expect(more).toEqual([]);
      expect(second).toContain("(may be repeated)");
      expect(second).toContain(first ?? "nothing");
    } finally {
      await close();
    }
  }, 120_000);

  it("[SO4] PGDB-005 a run that the database doesn't know any more ends without a word", async () => {
    const {
      channels: _channels,
      close,
      model,
    } = await createPeers({ telegram: null, slack: null, respond: () => ({ text: "never to be said", delayMs: 1_500 }) });
    try {
      const config = scriptedConfig(model.url, {}, { gateway: { drainSeconds: 0 } });
      await using herald = await createNodes(2, { config, leavesUnsent: true, expectsErrors: true });
      await herald.say("/subagents spawn look around");
      await waitFor("it to work", () => model.open === 1);
      await ask(herald.url, "BEGIN; DELETE FROM runs; DELETE FROM lane_jobs; DELETE FROM outbox WHERE run_id IS NOT NULL; COMMIT");
      await waitFor("the model's answer to be over", () => model.open === 0);
      expect(await herald.say("/subagents list").then(() => herald.reply(/No sub-agents yet/))).toBeDefined();
      expect(await herald.announcements()).toEqual([]);
      expect(herald.rows("SELECT 1 FROM lane_jobs")).toEqual([]);
      expect(herald.members.every((one) => one.isRunning())).toBe(true);
    } finally {
      await close();
    }
  }, 60_000);

  it("[SO8] PGDB-007 a database that is not UTF-8 is refused at the first look, in a sentence", async () => {
    await using database = await createDatabase("ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0");
    await using herald = runHerald({
      config: JSON.stringify({ web: { port: 0 }, models: { probeLocal: false } }),
      env: { DATABASE_URL: database.url },
    });
    expect(await herald.ended()).toBe(1);
    expect(herald.stderr()).toMatch(/has the encoding SQL_ASCII; Herald needs one made with ENCODING 'UTF8'\./);
  });

  it("[SO2] PGDB-007 whatever the collation: keys compare and sort bytewise; numbers above 2^53 keep their value and order", async () => {
    await using database = await createDatabase(
      "ENCODING 'UTF8' LOCALE_PROVIDER icu ICU_LOCALE 'en-u-ks-level1-kn-true' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0",
    );
    await using processes = createProcesses();
    const one = await processes.start(database.url);
    const { db } = one.stores;
    const names = ["a10", "A9", "B", "a", "a9", "A", "ä", "b", "Z"];
    for (const name of names) await db.transaction([], (tx) => tx.run("INSERT INTO kept (name, value) VALUES (?, ?)", name, name));
    const sorted = (await db.all<{ name: string }>("SELECT name FROM kept ORDER BY name")).map(({ name }) => name);
    expect(sorted).toEqual(names.toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b))));
    // A range by its first characters, as deliveries are looked up.
    expect(await db.all("SELECT name FROM kept WHERE name >= ? AND name < ? ORDER BY name", "a", "b")).toEqual([
      { name: "a" },
      { name: "a10" },
      { name: "a9" },
    ]);
    const lane = one.installation.jobs("main");
    await db.transaction([], async (tx) => {
      for (const id of ["agent:main:web:dm:A", "agent:main:web:dm:a"]) await lane.ring(tx, { id, group: id, isFront: false });
    });
    expect((await lane.depth()).waiting).toBe(2);
    const big = 2n ** 53n;
    await db.transaction([], async (tx) => {
      await tx.run("UPDATE lane_jobs SET tag = 10::bigint + 9007199254740992 WHERE id = 'agent:main:web:dm:A'");
      await tx.run("UPDATE lane_jobs SET tag = 9::bigint + 9007199254740992 WHERE id = 'agent:main:web:dm:a'");
    });
    const tags = (await db.all<{ tag: bigint }>("SELECT tag FROM lane_jobs ORDER BY tag")).map(({ tag }) => tag);
    expect(tags).toEqual([big + 9n, big + 10n]);
    expect(await lane.claim(["main"])).toMatchObject({ id: "agent:main:web:dm:a" });
    expect(await lane.claim(["main"])).toMatchObject({ id: "agent:main:web:dm:A" });
  });

  it("[SO5] PGDB-009 9 000 bytes of streamed text at once arrive in payloads the server takes", async () => {
    await using schema = await createSchema();
    await using processes = createProcesses();
    const [a, b] = [await processes.start(schema.url), await processes.start(schema.url)];
    for (const one of [a, b]) await one.live();
    const about = {
      type: "turn.text",
      sessionKey: "agent:main:web:dm:x",
      turnId: "t",
      address: { channel: "web", account: "local", chat: "x", kind: "dm" },
    } as const;
    const text = `${"ü\u0001\u2028😀".repeat(1_500)}the end`;
    a.bus.emit({ ...about, text });
    await waitFor("the whole of it", () => b.heard.some((event) => event.type === "turn.text" && event.text === text));
    a.bus.emit({ ...about, text: `${text} and more` });
    await waitFor("what is new of it", () => b.heard.some((event) => event.type === "turn.text" && event.text === `${text} and more`));
  });

  it("[SO2] PGDB-009 the queue of notifications is full because somebody does not listen: work is committed all the same, and one line names who", async () => {
    await using schema = await createSchema();
    await using proxy = await createProxy(server());
    await using processes = createProcesses();
    const [a, b] = [await processes.start(proxy.through(schema.url)), await processes.start(schema.url)];
    for (const one of [a, b]) await one.live();
    // One that listens inside a transaction which it never ends: the server keeps everything for it.
    const stuck = new Client({ connectionString: schema.url, application_name: "somebody who sleeps" });
    await stuck.connect();
    await stuck.query(`LISTEN herald_${schema.name}`);
    await stuck.query("BEGIN; SELECT 1");
    let isFull = true;
    proxy.toServer = ({ text }) => {
      return isFull && /pg_notify/.test(text) ? { code: "54000", message: "too many notifications in the NOTIFY queue" } : "pass";
    };
    const lane = a.installation.jobs("main");
    for (let n = 0; n < 5; n++) {
      await a.stores.db.transaction([], (tx) => lane.ring(tx, { id: `agent:main:web:dm:${n}`, group: "x", isFront: false }));
      await new Promise((resolve) => setTimeout(resolve, 150));
    }
    expect((await lane.depth()).waiting).toBe(5);
    const named = (): unknown[] =>
      a.lines.filter(
        ({ level, msg, listener }) =>
          level === "warn" && /queue of notifications is full/.test(msg) && String(listener).includes("somebody who sleeps"),
      );
    await waitFor("the warning", () => named().length > 0);
    isFull = false;
    await stuck.end();
    await a.stores.db.transaction([], (tx) => lane.ring(tx, { id: "agent:main:web:dm:last", group: "x", isFront: false }));
    await waitFor("bells again", () => b.heard.some((event) => event.type === "lane.rung"));
    expect(named()).toHaveLength(1);
  });
});
