// The SQLite file itself: pragmas, migrations, refusals, transactions, and the plans of the queries a busy gateway asks.
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { AppError, isStorageError } from "../../../src/core/errors.ts";
import type { AppEvent } from "../../../src/core/events.ts";
import { noFailpoints } from "../../../src/core/failpoints.ts";
import { SUSPENDED } from "../../../src/core/run.ts";
import { openDatabase, type Params, RELAXED, type SqliteDatabase, type Tx } from "../../../src/stores/database.ts";
import { createInbox } from "../../../src/stores/inbox.ts";
import { createOutbox } from "../../../src/stores/outbox.ts";
import { type RunRow, runColumns } from "../../../src/stores/run-row.ts";
import { createRuns } from "../../../src/stores/runs.ts";
import { MIGRATIONS, TABLES } from "../../../src/stores/schema.ts";
import { createSessions } from "../../../src/stores/sessions.ts";
import { askEverything, recording } from "../../support/all-statements.ts";
import { createManualClock } from "../../support/manual-clock.ts";
import { ADDRESS, newRun } from "../../support/runs.ts";

let dir: string;
let path: string;
const opened: SqliteDatabase[] = [];
const open = (options: { onSlow?(ms: number): void } = {}): SqliteDatabase => {
  const db = openDatabase({ path, ...options });
  opened.push(db);
  return db;
};

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "herald-db-"));
  path = join(dir, "herald.db");
});
afterEach(() => {
  for (const db of opened.splice(0)) db.close();
  rmSync(dir, { recursive: true, force: true });
});

/** As a version wrote them that knew nothing of `root_key`. */
const oldColumns = (...run: Parameters<typeof runColumns>): RunRow => {
  const { root_key: _root, person: _person, batch: _batch, announcing: _announcing, rerun_of: _rerun, ...rest } = runColumns(...run);
  const { budget: _budget, message: _message, group_id: _group, ...columns } = rest;
  return columns;
};

const raw = (sql: string): object[] => {
  const db = new DatabaseSync(path);
  try {
    return db.prepare(sql).all();
  } finally {
    db.close();
  }
};

describe("opening", () => {
  it("[RN6] makes the file with mode 0600, its journal too", async () => {
    const db = open();
    await db.transaction([], (tx) => tx.run("INSERT INTO listings (session_key, run_ids, at) VALUES ('a', '[]', 1)"));
    for (const file of [path, `${path}-wal`, `${path}-shm`]) expect(statSync(file).mode & 0o777).toBe(0o600);
  });

  it("[RC1] whoever is promised something waits for the disk, whatever was written before", async () => {
    const db = open();
    const strength = (tx: Tx) => tx.get("PRAGMA synchronous");
    const [full, normal] = [{ synchronous: 2 }, { synchronous: 1 }];
    const [promised, relaxed] = [() => db.transaction([], strength), () => db.transaction([], strength, RELAXED)];
    expect([await relaxed(), await relaxed(), await promised(), await relaxed(), await promised()]).toEqual([
      normal,
      normal,
      full,
      normal,
      full,
    ]);
    const fail = () => {
      throw new Error("no");
    };
    await expect(() => db.transaction([], fail, RELAXED)).rejects.toThrow("no");
    expect(await promised()).toEqual(full);
  });

  it("[RC1] is durable at commit: WAL with synchronous FULL", async () => {
    const db = open();
    expect(await db.get("PRAGMA journal_mode")).toEqual({ journal_mode: "wal" });
    expect(await db.get("PRAGMA synchronous")).toEqual({ synchronous: 2 });
    expect(await db.get("PRAGMA foreign_keys")).toEqual({ foreign_keys: 1 });
  });

  it("[SC4] a known secret is not written, whoever said it and whatever it was part of", async () => {
    const db = openDatabase({ path, redact: (text) => text.replaceAll("hunter2hunter2", "[KEY]") });
    opened.push(db);
    await db.transaction([], (tx) =>
      tx.run("INSERT INTO listings (session_key, run_ids, at) VALUES (?, ?, ?)", "a", '["hunter2hunter2"]', 1),
    );
    expect(await db.get("SELECT run_ids FROM listings WHERE run_ids LIKE ?", "%hunter2hunter2%")).toEqual({ run_ids: '["[KEY]"]' });
    for (const file of [path, `${path}-wal`]) expect(readFileSync(file, "latin1")).not.toContain("hunter2");
  });

  it("[RC4] NUL is never written: SQLite's own functions would end the text there", async () => {
    const db = open();
    await db.transaction([], (tx) => tx.run("INSERT INTO listings (session_key, run_ids, at) VALUES (?, ?, 1)", "a\0b", "c\0"));
    expect(await db.get("SELECT session_key, length(session_key) AS n, run_ids FROM listings")).toEqual({
      session_key: "ab",
      n: 2,
      run_ids: "c",
    });
  });

  it("[RU1] migrates once, keeps the data, and carries the number of the last step", async () => {
    const first = open();
    await first.transaction([], (tx) => tx.run("INSERT INTO listings (session_key, run_ids, at) VALUES ('a', '[]', 1)"));
    first.close();
    opened.length = 0;
    expect(await open().all("SELECT session_key FROM listings")).toEqual([{ session_key: "a" }]);
    expect(raw("PRAGMA user_version")).toEqual([{ user_version: MIGRATIONS.length }]);
  });

  it("[RU1] runs on record before the table was laid out anew keep every field and their order", async () => {
    const old = new DatabaseSync(path);
    old.exec(`${MIGRATIONS[0]} PRAGMA user_version=1`);
    const insert = (id: string, at: number): void => {
      const columns = { ...oldColumns(newRun(id), at), label: `label ${id}`, documented: 1, first_message: "count" };
      const names = Object.keys(columns);
      old.prepare(`INSERT INTO runs (${names.join(", ")}) VALUES (${names.map(() => "?").join(", ")})`).run(...Object.values(columns));
    };
    insert("b", 1);
    insert("a", 2);
    const before = old.prepare("SELECT * FROM runs ORDER BY created_at").all();
    old.close();
    const runs = createRuns({ db: open(), clock: createManualClock(), bootId: "boot" });
    expect((await runs.listRecent(5)).map((run) => run.label)).toEqual(["label a", "label b"]);
    const after = raw("SELECT * FROM runs ORDER BY seq");
    expect(after).toMatchObject(before.map((row, n) => ({ ...row, seq: n + 1 })));
    // The copy goes by the place of a column; what came later stands behind.
    const columns = ["seq", ...Object.keys(before[0] ?? {})];
    expect(Object.keys(after[0] ?? {}).slice(0, columns.length)).toEqual(columns);
  });

  it("[SP10] what an earlier version left running has the rest of its time", async () => {
    const old = new DatabaseSync(path);
    old.exec(`${MIGRATIONS.slice(0, 3).join("")} PRAGMA user_version=3`);
    const insert = (id: string, timeoutMs: number): void => {
      const columns = { ...oldColumns(newRun(id, { timeoutMs }), 1), state: "running", started_at: 1_000 };
      const names = Object.keys(columns);
      old.prepare(`INSERT INTO runs (${names.join(", ")}) VALUES (${names.map(() => "?").join(", ")})`).run(...Object.values(columns));
    };
    insert("a", 60_000);
    insert("b", 0);
    old.close();
    const runs = createRuns({ db: open(), clock: createManualClock(), bootId: "boot" });
    expect(await runs.get("a")).toMatchObject({ deadlineAt: 61_000, steps: 0 });
    expect(await runs.get("b")).toMatchObject({ deadlineAt: null, steps: 0 });
  });

  it("[RU1] runs on record before know the top of their tree, at any depth", async () => {
    const old = new DatabaseSync(path);
    const version = MIGRATIONS.findIndex((step) => step.includes("ADD COLUMN root_key"));
    old.exec(`${MIGRATIONS.slice(0, version).join("")} PRAGMA user_version=${version}`);
    const insert = (id: string, requesterKey: string, requesterRunId: string | null): void => {
      const columns = oldColumns(newRun(id, { requesterKey, requesterRunId }), 1);
      const names = Object.keys(columns);
      old.prepare(`INSERT INTO runs (${names.join(", ")}) VALUES (${names.map(() => "?").join(", ")})`).run(...Object.values(columns));
    };
    insert("c", "child-b", "b");
    insert("a", "chat", null);
    insert("b", "child-a", "a");
    insert("x", "other chat", null);
    old.close();
    const runs = createRuns({ db: open(), clock: createManualClock(), bootId: "boot" });
    expect(
      await Promise.all(
        ["chat", "child-a", "child-b", "other chat"].map(async (key) => (await runs.unfinishedBelow(key)).map((run) => run.id)),
      ),
    ).toEqual([["c", "a", "b"], ["c", "b"], ["c"], ["x"]]);
  });

  it("[RC2][DL4] what an earlier version put aside is still put aside, and what it surely did not send is in no doubt", async () => {
    const old = new DatabaseSync(path);
    old.exec(`${MIGRATIONS[0]} ${MIGRATIONS[1]} PRAGMA user_version=2`);
    const columns = { ...oldColumns(newRun("a"), 1), state: "running", doing: "put aside until the gateway starts again" };
    const names = Object.keys(columns);
    old.prepare(`INSERT INTO runs (${names.join(", ")}) VALUES (${names.map(() => "?").join(", ")})`).run(...Object.values(columns));
    const part = old.prepare(
      `INSERT INTO outbox (delivery, n, parts, address, address_key, part, state, reason, run_id, created_at, sending_at)
       VALUES (?, 0, 1, '{"channel":"web"}', 'k', '{"text":"t"}', 'blocked', ?, ?, 1, 5)`,
    );
    part.run("announce:1", "bot was blocked", "r1");
    part.run("reply:2", "not delivered within 24 h: no answer", "r2");
    old.close();
    const db = open();
    expect((await createRuns({ db, clock: createManualClock(), bootId: "boot" }).get("a"))?.doing).toBe(SUSPENDED);
    const outbox = createOutbox({ db, clock: createManualClock(), bootId: "boot" });
    for (const runId of ["r1", "r2"]) await db.transaction([], (tx) => outbox.requeue(tx, runId));
    expect(await db.all("SELECT state, part FROM outbox ORDER BY delivery")).toEqual([
      { state: "queued", part: '{"text":"t","kind":"announcement"}' },
      { state: "unknown", part: '{"text":"t"}' },
    ]);
  });

  it("[RU1] every step is applied from wherever the file stands", () => {
    for (let version = 0; version <= MIGRATIONS.length; version++) {
      rmSync(path, { force: true });
      const db = new DatabaseSync(path);
      for (const step of MIGRATIONS.slice(0, version)) db.exec(step);
      db.exec(`PRAGMA user_version=${version}`);
      db.close();
      open().close();
      opened.length = 0;
      expect(raw("PRAGMA user_version")).toEqual([{ user_version: MIGRATIONS.length }]);
      expect(raw("PRAGMA integrity_check")).toEqual([{ integrity_check: "ok" }]);
    }
  });

  it("[RC4] a file of a newer Herald is refused in words and left alone", () => {
    open().close();
    opened.length = 0;
    raw(`PRAGMA user_version=${MIGRATIONS.length + 3}`);
    expect(() => open()).toThrow(
      expect.objectContaining({
        name: "AppError",
        code: "state",
        message: expect.stringMatching(/written by a newer Herald.*Start the newer/),
      }),
    );
    expect(raw("PRAGMA user_version")).toEqual([{ user_version: MIGRATIONS.length + 3 }]);
  });

  it.each([
    ["a text file", Buffer.from("this is not a database, but it may be precious\n".repeat(100))],
    ["zeros", Buffer.alloc(8192)],
    ["a header without pages", Buffer.concat([Buffer.from("SQLite format 3\0"), Buffer.alloc(4080, 0xff)])],
  ])("[RC4] %s in its place is refused, not replaced", (what, bytes) => {
    writeFileSync(path, bytes);
    if (what === "zeros") {
      // SQLite takes zeros for damage at the first read or for an empty file; either way the bytes must not vanish silently.
      expect(() => open()).toThrow(AppError);
    } else expect(() => open()).toThrow(/can't be used: .*Restore it from a backup or move it away; Herald does not replace it by itself/);
    expect(readFileSync(path).equals(bytes)).toBe(true);
  });

  it("[RC4] a damaged page gives an error where it is met, and nothing is recreated", async () => {
    const db = open();
    await db.transaction([], async (tx) => {
      for (let n = 0; n < 200; n++)
        await tx.run("INSERT INTO listings (session_key, run_ids, at) VALUES (?, ?, 1)", `k${n}`, "x".repeat(500));
    });
    db.close();
    opened.length = 0;
    const bytes = readFileSync(path);
    bytes.fill(0xa5, bytes.length - 40_000);
    writeFileSync(path, bytes);
    const again = open();
    await expect(() => again.all("SELECT * FROM listings")).rejects.toThrow(/malformed/);
    expect(existsSync(path)).toBe(true);
    expect(await again.all("SELECT * FROM runs")).toEqual([]);
  });

  it("[RC4] tables that are missing though the version says they are there: refused in words that name them", () => {
    open().close();
    opened.length = 0;
    const before = raw("SELECT name FROM sqlite_schema WHERE type = 'table' AND name <> 'sqlite_sequence' ORDER BY name");
    expect(before).toEqual(TABLES.toSorted().map((name) => ({ name })));
    const other = new DatabaseSync(path);
    other.exec("DROP TABLE briefs; DROP TABLE tries;");
    other.close();
    expect(() => open()).toThrow(/can't be used: it lacks the tables tries, briefs\. Restore it from a backup/);
  });

  it("[RC4] a folder that isn't there is named", () => {
    path = join(dir, "missing", "herald.db");
    expect(() => open()).toThrow(new RegExp(`The database ${path} can't be used`));
  });
});

describe("transactions", () => {
  const add = (tx: Tx, key: string): Promise<number> => tx.run("INSERT INTO listings (session_key, run_ids, at) VALUES (?, '[]', 1)", key);
  const keys = async (db: SqliteDatabase): Promise<unknown[]> =>
    (await db.all<{ session_key: string }>("SELECT session_key FROM listings")).map((row) => row.session_key);
  const openWith = (onEvent: (event: AppEvent) => unknown): SqliteDatabase => {
    const db = openDatabase({ path, onEvent });
    opened.push(db);
    return db;
  };
  const bell = (channel: string): AppEvent => ({ type: "inbox.added", channel });

  it.each(["let through", "caught"])(
    "[RC1] all or nothing: a statement that fails undoes the whole, its error %s in between",
    async (how) => {
      const db = open();
      const fails = async (tx: Tx): Promise<void> => void (await add(tx, "a"));
      const caught = async (tx: Tx): Promise<void> => {
        try {
          await fails(tx);
        } catch {
          // As a caller does that answers in words instead.
        }
      };
      await expect(() =>
        db.transaction([], async (tx) => {
          await add(tx, "a");
          await (how === "caught" ? caught : fails)(tx);
          await add(tx, "c");
        }),
      ).rejects.toThrow("UNIQUE");
      expect(await keys(db)).toEqual([]);
      await db.transaction([], (tx) => add(tx, "d"));
      expect(await keys(db)).toEqual(["d"]);
    },
  );

  it.each([
    [undefined, undefined],
    [undefined, RELAXED],
    [RELAXED, undefined],
  ])("[RC1] one inside another is refused, and takes what was written along (%o, %o)", async (outer, inner) => {
    const db = open();
    await expect(() =>
      db.transaction(
        [],
        async (tx) => {
          await add(tx, "a");
          await db.transaction([], (other) => add(other, "b"), inner);
        },
        outer,
      ),
    ).rejects.toThrow("a transaction can't be begun inside another");
    expect(await keys(db)).toEqual([]);
  });

  it("[RC1] what it has to say is said after the commit, in order, and not at all after a rollback", async () => {
    const seen: unknown[] = [];
    const db = openWith((event) => seen.push(event, ...raw("SELECT session_key AS key FROM listings")));
    await db.transaction([], async (tx) => {
      tx.emit(bell("1"));
      tx.emit(bell("2"));
      await add(tx, "a");
      expect(seen).toEqual([]);
    });
    await expect(() =>
      db.transaction([], async (tx) => {
        tx.emit(bell("never"));
        throw new Error("no");
      }),
    ).rejects.toThrow("no");
    expect(seen).toEqual([bell("1"), { key: "a" }, bell("2"), { key: "a" }]);
  });

  it("[RC1] who is told of it may write in a transaction of their own", async () => {
    const done: Promise<number>[] = [];
    const db = openWith(() => done.push(db.transaction([], (tx) => add(tx, "b"))));
    await db.transaction([], async (tx) => {
      await add(tx, "a");
      tx.emit(bell("web"));
    });
    await Promise.all(done);
    expect(await keys(db)).toEqual(["a", "b"]);
  });

  it("[RC4] FS-011 locked by another process: a storage error after a short wait, and it works again afterwards", async () => {
    const db = open();
    await db.get("PRAGMA busy_timeout=50");
    const other = new DatabaseSync(path);
    other.exec("BEGIN IMMEDIATE");
    try {
      await db.transaction([], (tx) => add(tx, "a"));
      expect.unreachable();
    } catch (error) {
      expect(isStorageError(error)).toBe(true);
    } finally {
      other.exec("ROLLBACK");
      other.close();
    }
    await db.transaction([], (tx) => add(tx, "b"));
    expect(await keys(db)).toEqual(["b"]);
  });

  it("[RC4] FS-002 a full disk rolls the transaction back and is known as the disk's fault", async () => {
    const rung: AppEvent[] = [];
    const db = openWith((event) => rung.push(event));
    await db.get(`PRAGMA max_page_count = ${((await db.get<{ page_count: number }>("PRAGMA page_count"))?.page_count ?? 0) + 1}`);
    try {
      await db.transaction([], async (tx) => {
        tx.emit(bell("web"));
        for (let n = 0; n < 1_000; n++)
          await tx.run("INSERT INTO listings (session_key, run_ids, at) VALUES (?, ?, 1)", `k${n}`, "x".repeat(500));
      });
      expect.unreachable();
    } catch (error) {
      expect(isStorageError(error)).toBe(true);
    }
    expect([await keys(db), rung]).toEqual([[], []]);
    await db.get("PRAGMA max_page_count = 1000000");
    await db.transaction([], (tx) => add(tx, "after"));
    expect(await keys(db)).toEqual(["after"]);
  });

  it("[OB1] a transaction that took long is told", async () => {
    const slow: number[] = [];
    const db = open({ onSlow: (ms) => slow.push(ms) });
    await db.transaction([], async () => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 80));
    await db.transaction([], (tx) => add(tx, "a"));
    expect(slow).toHaveLength(1);
    expect(slow[0]).toBeGreaterThanOrEqual(50);
  });

  it("[RC4] a closed database throws instead of pretending", async () => {
    const db = open();
    db.close();
    opened.length = 0;
    await expect(() => db.transaction([], (tx) => add(tx, "a"))).rejects.toThrow();
  });
});

describe("plans", () => {
  /** Asked once in a while by people or metrics, never by the path of a message. */
  /** The second one follows the table's own order and ends at its limit. */
  const MAY_SCAN = [/^SELECT DISTINCT address_key/, /^SELECT \* FROM runs ORDER BY seq DESC LIMIT/];

  it("[RU1] SCALE-003 no statement on the path of a message or a run walks a whole table", async () => {
    const db = open();
    const asked = new Map<string, Params>();
    await askEverything(recording(db, asked));
    expect(asked.size).toBeGreaterThan(50);
    const walks: string[] = [];
    for (const [sql, params] of asked) {
      const plan = (await db.all<{ detail: string }>(`EXPLAIN QUERY PLAN ${sql}`, ...params)).map((row) => row.detail);
      const scan = plan.find((step) => /^SCAN (inbox|outbox|sessions|runs|spend|run_messages|notes)\b(?!.*INDEX)/.test(step));
      if (scan !== undefined && !MAY_SCAN.some((allowed) => allowed.test(sql.trim()))) walks.push(`${sql.trim().slice(0, 120)} → ${scan}`);
    }
    expect(walks).toEqual([]);
  });

  it.each([
    ["inbox_new", /^SELECT \* FROM inbox WHERE state = 'new'/],
    ["inbox_waiting", /^SELECT \* FROM inbox WHERE state = 'waiting'/],
    ["outbox_open", /^SELECT \* FROM outbox WHERE address_key = \? AND aside = 0/],
    ["outbox_aside", /^SELECT \* FROM outbox WHERE address_key = \? AND aside = 1/],
    ["outbox_open", /^SELECT \* FROM outbox WHERE address_key = \? AND aside = 0 AND rank = 1/],
    ["outbox_joined", /^SELECT \* FROM outbox WHERE joined_as/],
    ["outbox_owned", /^UPDATE outbox SET state = 'unknown'/],
    ["runs_owned", /^SELECT \* FROM runs WHERE state = 'running' AND \(SELECT/],
    ["inbox_owned", /^SELECT session_key AS key FROM inbox/],
    ["sessions_open", /^SELECT \* FROM sessions WHERE key = \? AND ended_at/],
    ["runs_unfinished", /^SELECT \* FROM runs WHERE state IN \('queued', 'running', 'waiting'\) ORDER/],
    ["runs_wake", /^SELECT id, requester_key AS "requesterKey" FROM runs WHERE wake_at/],
    ["runs_wake", /^SELECT min\(wake_at\)/],
    // Covering: a look at each row took 10 ms where 10 000 were queued.
    ["runs_unfinished", /^SELECT count\(\*\) FILTER/, "COVERING INDEX"],
    ["runs_unfinished_tree", /^SELECT count\(\*\) AS n FROM runs/],
    ["runs_unfinished_tree", /^SELECT \* FROM runs WHERE root_key = \?/],
    ["runs_unfinished_tree", /^WITH RECURSIVE above \(seq, key\)/],
    ["runs_unfinished_tree", /^SELECT DISTINCT root_key/],
    ["inbox_waiting", /^SELECT DISTINCT session_key/],
    ["runs_requester", /^SELECT \* FROM runs WHERE requester_key/],
    ["runs_archive", /^SELECT \* FROM runs WHERE settled_at/],
    ["run_messages_open", /^SELECT id, text, sender/],
    ["notes_open", /^SELECT id, text, about/],
    ["run_messages_taken", /^DELETE FROM run_messages/],
    ["notes_taken", /^DELETE FROM notes WHERE taken_at </],
    ["notes_open", /^DELETE FROM notes INDEXED BY/],
  ])("[RU1] %s is used where it was made for", async (index, like, how = "INDEX") => {
    const db = open();
    const asked = new Map<string, Params>();
    await askEverything(recording(db, asked));
    const [sql, params] = [...asked].find(([one]) => like.test(one.trim())) ?? ["", []];
    const plan = (await db.all<{ detail: string }>(`EXPLAIN QUERY PLAN ${sql}`, ...params)).map((row) => row.detail);
    expect(plan.join("\n")).toMatch(new RegExp(`${how} ${index}\\b`));
    // The unfinished runs of one tree are few, whatever else is at work; all else comes in its index's order.
    if (!sql.startsWith("SELECT * FROM runs WHERE root_key")) expect(plan.join("\n")).not.toContain("TEMP B-TREE");
  });
});

describe("damaged rows", () => {
  it("[RC4] one run that can't be read is told by name and left out; all others are there", async () => {
    const db = open();
    const told: unknown[] = [];
    const runs = createRuns({ db, clock: createManualClock(), bootId: "boot", onDamaged: (error) => told.push(error) });
    for (const id of ["good", "bad"]) await db.transaction([], (tx) => runs.insert(tx, newRun(id)));
    await db.transaction([], (tx) => tx.run("UPDATE runs SET tool_ceiling = '[\"rea' WHERE id = 'bad'"));
    expect((await runs.listUnfinished()).map((run) => run.id)).toEqual(["good"]);
    expect(await runs.get("bad")).toBeNull();
    expect(told[0]).toMatchObject({ code: "state", message: "Row bad of table runs is damaged: its tool_ceiling can't be read" });
    expect(await db.get("SELECT tool_ceiling FROM runs WHERE id = 'bad'")).toEqual({ tool_ceiling: '["rea' });
  });

  it("[RC4] a session row that can't be read is named", async () => {
    const db = open();
    const sessions = createSessions({ db, clock: createManualClock() });
    await db.transaction([], (tx) => sessions.insert(tx, { id: "s", key: "k", agentId: "main", address: ADDRESS, parentKey: null }));
    await db.transaction([], (tx) => tx.run("UPDATE sessions SET address = 'x' WHERE id = 's'"));
    await expect(() => sessions.find("k")).rejects.toThrow("Row s of table sessions is damaged: its address can't be read");
  });

  it("[RC4] an incoming row that can't be read decodes to nothing and holds nobody up", async () => {
    const db = open();
    const inbox = createInbox({ db, clock: createManualClock(), bootId: "boot", failpoint: noFailpoints });
    await inbox.sink("web", "local").put([
      { externalId: "1", raw: { text: "a" } },
      { externalId: "2", raw: { text: "b" } },
    ]);
    await db.transaction([], (tx) => tx.run("UPDATE inbox SET raw = '{' WHERE external_id = '1'"));
    expect((await inbox.listNew(0, 10)).map((row) => row.raw)).toEqual([null, { text: "b" }]);
  });
});

describe("small pages", () => {
  const makeLarge = (bytes: number): void => {
    const old = new DatabaseSync(path);
    old.exec(`PRAGMA page_size=4096; PRAGMA journal_mode=WAL; ${MIGRATIONS.join("")} PRAGMA user_version=${MIGRATIONS.length}`);
    old.exec("INSERT INTO listings (session_key, run_ids, at) VALUES ('kept', '[]', 1)");
    old.prepare("INSERT INTO scratchpad (session_key, section, text, updated_at) VALUES ('a', 'b', ?, 1)").run("x".repeat(bytes));
    old.close();
  };
  const openSole = (): SqliteDatabase => {
    const db = openDatabase({ path, isSole: true });
    opened.push(db);
    return db;
  };
  const pageSize = async (db: SqliteDatabase): Promise<unknown> => (await db.get<{ page_size: number }>("PRAGMA page_size"))?.page_size;

  it("[RU1] a new database has them", async () => {
    expect(await pageSize(open())).toBe(1_024);
  });

  it("[RU1] one of an earlier version gets them, with everything in it", async () => {
    makeLarge(10_000);
    const db = openSole();
    expect(await pageSize(db)).toBe(1_024);
    expect(await db.get("PRAGMA journal_mode")).toEqual({ journal_mode: "wal" });
    expect(await db.get("SELECT length(text) AS n FROM listings, scratchpad WHERE listings.session_key = 'kept'")).toMatchObject({
      n: 10_000,
    });
    expect(await db.get("PRAGMA integrity_check")).toEqual({ integrity_check: "ok" });
    expect(readdirSync(dir).sort()).toEqual(["herald.db", "herald.db-shm", "herald.db-wal"]);
  });

  it("[RU1] a large one is left as it is, and so is one that others may have open", async () => {
    makeLarge(65 * 1024 * 1024);
    expect(await pageSize(openSole())).toBe(4_096);
    rmSync(path);
    makeLarge(10);
    expect(await pageSize(open())).toBe(4_096);
  });

  it("[RC4] a reader in the way, or no room, leaves it as it is", async () => {
    makeLarge(10);
    const reader = new DatabaseSync(path);
    reader.exec("BEGIN; SELECT 1 FROM listings");
    try {
      const db = openSole();
      expect(await pageSize(db)).toBe(4_096);
      expect(await db.get("PRAGMA journal_mode")).toEqual({ journal_mode: "wal" });
      await db.transaction([], (tx) => tx.run("INSERT INTO listings (session_key, run_ids, at) VALUES ('new', '[]', 1)"));
    } finally {
      reader.close();
    }
  });
});

describe("a copy before a migration", () => {
  const makeOld = (version: number): void => {
    rmSync(path, { force: true });
    const old = new DatabaseSync(path);
    old.exec(`PRAGMA journal_mode=WAL; ${MIGRATIONS.slice(0, version).join("")} PRAGMA user_version=${version}`);
    old.exec("INSERT INTO listings (session_key, run_ids, at) VALUES ('kept', '[]', 1)");
    old.close();
  };
  const copies = (): string[] => readdirSync(dir).filter((name) => name.includes(".schema-"));

  it("[RC4] is complete, readable by its owner alone, and made before anything is changed", () => {
    makeOld(2);
    const steps: unknown[] = [];
    opened.push(openDatabase({ path, onMigrated: (step) => steps.push(step) }));
    expect(steps).toEqual([{ from: 2, to: MIGRATIONS.length, copy: `${path}.schema-2` }]);
    expect(copies()).toEqual(["herald.db.schema-2"]);
    expect(statSync(`${path}.schema-2`).mode & 0o777).toBe(0o600);
    const copy = new DatabaseSync(`${path}.schema-2`);
    expect(copy.prepare("PRAGMA user_version").get()).toEqual({ user_version: 2 });
    expect(copy.prepare("SELECT session_key FROM listings").all()).toEqual([{ session_key: "kept" }]);
    copy.close();
  });

  it("[RC4] is made neither of a new database nor of one that is up to date", () => {
    open().close();
    opened.length = 0;
    open();
    expect(copies()).toEqual([]);
  });

  it("[RC4] the newest three are kept, and what a crash left of a fourth is in nobody's way", () => {
    for (const version of [90, 91, 92]) writeFileSync(`${path}.schema-${version}`, "older");
    writeFileSync(`${path}.schema-3.unfinished`, "half", { mode: 0o600 });
    makeOld(3);
    open();
    expect(copies().sort()).toEqual(["herald.db.schema-90", "herald.db.schema-91", "herald.db.schema-92"].sort());
  });

  it("[RC4] that can't be written keeps the database as it was, and says what to do", () => {
    makeOld(3);
    mkdirSync(`${path}.schema-3`);
    expect(() => open()).toThrow(/copy made of it before can't be written: .*Nothing was changed; make room/);
    expect(raw("PRAGMA user_version")).toEqual([{ user_version: 3 }]);
  });
});
