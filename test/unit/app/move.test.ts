// Moving an installation between a state folder and PostgreSQL, on real ones: everything arrives as it was, both ways, and a target that
// holds something is left alone.
import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { Client } from "pg";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type MoveOptions, moveInstallation } from "../../../src/app/move/move.ts";
import { systemClock } from "../../../src/core/clock.ts";
import { openDatabase } from "../../../src/stores/database.ts";
import { takeLock } from "../../../src/stores/lock.ts";
import { refuseMarked } from "../../../src/stores/move-mark.ts";
import { SHARED_TABLES } from "../../../src/stores/postgres/schema.ts";
import { addStrays, fillFolder, readFolder, readPostgres, STAMP } from "../../support/moved-data.ts";
import { createSchema, type Schema } from "../../support/postgres.ts";
import { hasPostgres } from "../../support/shared-folder.ts";

describe.runIf(hasPostgres())("npm run move", () => {
  let dir: string;
  let schema: Schema;
  let said: string[];
  beforeEach(async () => {
    dir = mkdtempSync(join(tmpdir(), "herald-move-"));
    schema = await createSchema();
    said = [];
  });
  afterEach(async () => {
    await schema[Symbol.asyncDispose]();
    rmSync(dir, { recursive: true, force: true });
  });

  const folder = (name = "a"): string => join(dir, name);
  const move = (to: MoveOptions["to"], stateDir: string, more: Partial<MoveOptions> = {}): Promise<void> =>
    moveInstallation({
      ...{ to, stateDir, url: schema.url, isAside: false, clock: systemClock, failpoint: () => {} },
      steady: () => performance.now(),
      say: (line) => void said.push(line),
      ...more,
    });
  const query = async (sql: string): Promise<Record<string, unknown>[]> => {
    const client = new Client({ connectionString: schema.url });
    await client.connect();
    return (await client.query(sql).finally(() => client.end())).rows;
  };

  it("[SO7] there and back everything is as it was: rows, numbers, transcripts, documents with their times, the token", async () => {
    fillFolder(folder());
    const before = readFolder(folder());
    await move("postgres", folder());
    expect(await readPostgres(schema.url)).toEqual(before);
    await move("embedded", folder("b"));
    expect(readFolder(folder("b"))).toEqual(before);
    // The sources are as they were, too.
    expect(readFolder(folder())).toEqual(before);
    expect(await readPostgres(schema.url)).toEqual(before);
  });

  it("[SO7] says what it compared, kind by kind", async () => {
    fillFolder(folder(), { rows: 30, transcripts: 2 });
    await move("postgres", folder());
    expect(said).toContain("  inbox: 30");
    // Two of them, five odd ones.
    expect(said).toContain("  transcripts: 7");
    expect(said).toContain("  documents: 1");
    // Thirty in each, six sessions of the transcripts, and a file.
    const rows = `${SHARED_TABLES.length * 30 + 7} rows in ${SHARED_TABLES.length} tables`;
    expect(said.at(-1)).toContain(`Compared, and the same on both sides: ${rows}, 7 transcripts with `);
    expect(said.at(-1)).toMatch(/ with \d+ entries, 1 documents, 1 files\.$/);
  });

  it("[SO7] the next number behind a move is one that was never used", async () => {
    fillFolder(folder(), { rows: 5 });
    await move("postgres", folder());
    const [row] = await query("INSERT INTO web_messages (chat, key, author, text, at) VALUES ('c', 'k', 'user', 't', 1) RETURNING seq");
    // 5 rows to number 22, and a thousand more that a tab may have seen.
    expect(row?.seq).toBe(String(5 * 3 + 7 + 1_000 + 1));
    expect((await query("SELECT nextval(pg_get_serial_sequence('runs', 'seq')) AS seq"))[0]?.seq).toBe("23");
    expect((await query("INSERT INTO notes (session_id, about, text, created_at) VALUES ('s', 'a', 't', 1) RETURNING id"))[0]?.id).toBe(
      "23",
    );
    await move("embedded", folder("b"));
    using db = new DatabaseSync(join(folder("b"), "herald.db"));
    const { lastInsertRowid } = db.prepare("INSERT INTO notes (session_id, about, text, created_at) VALUES ('s', 'b', 't', 1)").run();
    expect(lastInsertRowid).toBe(24);
  });

  it("[SO7] what is no transcript or document of the installation is named and left where it is", async () => {
    fillFolder(folder(), { transcripts: 4 });
    const { files } = readFolder(folder());
    addStrays(folder());
    await move("postgres", folder());
    const name = (n: number): string => `00000000-0000-4000-8000-${String(n).padStart(12, "0")}`;
    expect(said.filter((line) => line.includes("left where it is")).sort()).toEqual(
      [
        `agents/helper/sessions/${name(1)}.jsonl (a copy of another agent's)`,
        `agents/main/sessions/${name(2)}.jsonl.deleted.${STAMP} (a second file of its session)`,
        `agents/main/sessions/${name(600)}.jsonl (nothing is in it yet)`,
        `agents/main/sessions/${name(602)}.jsonl (nothing is in it yet)`,
        `agents/main/sessions/${name(999)}/BRIEF.md (of no session on record)`,
      ].map((what) => `  left where it is: ${what}`),
    );
    const moved = (await readPostgres(schema.url)).files;
    // Of the torn one the whole lines.
    const torn = `agents/main/sessions/${name(601)}.jsonl`;
    expect((moved[torn] as { text: string }).text.split("\n")).toHaveLength(3);
    expect({ ...moved, [torn]: undefined }).toEqual({ ...files, [torn]: undefined });
  });

  it("[SO7] an entry that is appended behind a move follows the last readable one", async () => {
    fillFolder(folder(), { transcripts: 1 });
    await move("postgres", folder());
    const rows = await query("SELECT session_id, last_n, last_id FROM transcripts WHERE session_id LIKE '%0501'");
    expect(rows).toEqual([
      { session_id: "00000000-0000-4000-8000-000000000501", last_n: "5", last_id: "00000000-0000-4000-8000-000000009002" },
    ]);
  });

  it("[SO7] a text with a NUL of an earlier version is moved without it", async () => {
    fillFolder(folder(), { rows: 2, transcripts: 1 });
    {
      using db = new DatabaseSync(join(folder(), "herald.db"));
      db.exec("UPDATE notes SET text = 'a' || char(0) || 'b'");
    }
    await move("postgres", folder());
    expect(await query("SELECT DISTINCT text FROM notes")).toEqual([{ text: "ab" }]);
  });

  it("[SO7] more rows and lines than are held at once", async () => {
    fillFolder(folder(), { rows: 1_003, transcripts: 15 });
    const before = readFolder(folder());
    await move("postgres", folder());
    await move("embedded", folder("b"));
    expect(readFolder(folder("b"))).toEqual(before);
  });

  it("[SO7] a target that holds an installation is never overwritten", async () => {
    fillFolder(folder(), { rows: 2, transcripts: 1 });
    await move("postgres", folder());
    await expect(move("postgres", folder())).rejects.toThrow(
      /^PostgreSQL at 127\.0\.0\.1:\d+\/postgres \(schema \w+\) holds an installation already; nothing was changed\./,
    );
    await expect(move("embedded", folder())).rejects.toThrow(
      `The state folder ${folder()} holds an installation already (${folder()}/herald.db); nothing was changed.`,
    );
    const before = readFolder(folder());
    expect(await readPostgres(schema.url)).toEqual(before);
    // Transcripts without a database are somebody's, too.
    rmSync(join(folder(), "herald.db"));
    await expect(move("embedded", folder())).rejects.toThrow(/holds an installation already \(.*sessions\)/);
  });

  it("[SO7] with --aside what the folder holds is put aside whole, its journal too", async () => {
    fillFolder(folder(), { rows: 3, transcripts: 2 });
    await move("postgres", folder());
    const before = await readPostgres(schema.url);
    const old = openDatabase({ path: join(folder(), "herald.db") });
    await old.transaction([], (tx) => tx.run("INSERT INTO listings (session_key, run_ids, at) VALUES ('only in the journal', '', 1)"));
    // As a kill leaves it: the last of it stands in the journal alone.
    for (const name of ["herald.db", "herald.db-wal"]) copyFileSync(join(folder(), name), join(dir, name));
    old.close();
    for (const name of ["herald.db", "herald.db-wal"]) renameSync(join(dir, name), join(folder(), name));
    await move("embedded", folder(), { isAside: true });
    expect(readFolder(folder())).toEqual(before);
    const aside = readdirSync(folder()).find((name) => name.startsWith("before-move-")) ?? "";
    expect(said).toContain(`What was there lies in ${join(folder(), aside)} now.`);
    const put = readFolder(join(folder(), aside));
    expect(put.files).toEqual(before.files);
    expect(put.token).toBe(before.token);
    // Nor does anybody start on that.
    expect(() => refuseMarked(join(folder(), aside))).toThrow("was moved into PostgreSQL at");
    expect(() => refuseMarked(folder())).not.toThrow();
    expect(put.tables.listings).toHaveLength(4);
  });

  it("[SO7] an unused database is filled although a page's token was made in it", async () => {
    fillFolder(folder(), { rows: 1, transcripts: 1 });
    await move("postgres", folder());
    await query("TRUNCATE inbox, outbox, sessions, runs");
    await expect(move("postgres", folder())).rejects.toThrow("holds an installation already");
    const tables = (await query("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")).map((row) => row.tablename);
    const empty = tables.filter((table) => table !== "herald_schema" && table !== "kept");
    await query(`TRUNCATE ${empty.join(", ")}`);
    await query("UPDATE kept SET value = 'another'");
    await move("postgres", folder());
    expect((await readPostgres(schema.url)).token).toBe("t".repeat(43));
  });

  it("[SO7] refuses a folder that a gateway holds, and one with nothing in it", async () => {
    await expect(move("postgres", folder("none"))).rejects.toThrow("There is nothing to move: Herald has not been started");
    fillFolder(folder(), { rows: 1, transcripts: 0 });
    const lock = takeLock(folder(), 4711);
    await expect(move("postgres", folder())).rejects.toThrow("Another Herald (pid 4711) uses the state folder");
    lock.release();
    mkdirSync(folder("b"));
    await expect(move("embedded", folder("b"))).rejects.toThrow(
      /^There is nothing to move: Herald has not been started with PostgreSQL at \S+ \(schema \w+\) yet\.$/,
    );
    expect(await query("SELECT 1 FROM pg_tables WHERE schemaname = current_schema()")).toEqual([]);
    await move("postgres", folder());
    const other = takeLock(folder("b"), 4712);
    await expect(move("embedded", folder("b"))).rejects.toThrow("Another Herald (pid 4712) uses the state folder");
    other.release();
  });

  it("[SO7] a copy that is not what the source holds is found out and counts as unfinished", async () => {
    fillFolder(folder(), { rows: 3, transcripts: 3 });
    const isMarked = async (): Promise<boolean> => (await query("SELECT 1 FROM kept WHERE name = 'move-unfinished'")).length === 1;
    await expect(
      move("postgres", folder(), {
        failpoint: () => {
          throw new Error("broken off");
        },
      }),
    ).rejects.toThrow("broken off");
    // The database drops or changes what is put into it.
    const tries: [table: string, change: string, words: RegExp][] = [
      ["notes", "IF NEW.id = 10 THEN RETURN NULL; END IF", /notes: 3 in the source, 2 in the copy/],
      ["runs", "NEW.task = 'other'", /runs: as many, but not the same/],
      ["transcript_entries", "NEW.body = 'x'", /transcripts: as many, but not the same/],
      ["documents", "RETURN NULL", /documents: 2 in the source, 0 in the copy/],
    ];
    for (const [table, change, words] of tries) {
      await query(`CREATE FUNCTION spoil() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN ${change}; RETURN NEW; END $$`);
      await query(`CREATE TRIGGER spoil BEFORE INSERT ON ${table} FOR EACH ROW EXECUTE FUNCTION spoil()`);
      await expect(move("postgres", folder())).rejects.toThrow(words);
      expect(await isMarked()).toBe(true);
      await query("DROP FUNCTION spoil CASCADE");
    }
    // And the next one begins anew.
    await move("postgres", folder());
    expect(await isMarked()).toBe(false);
    expect(await readPostgres(schema.url)).toEqual(readFolder(folder()));
  });

  it("[SO7] names from the database that would lead out of the folder become no file", async () => {
    fillFolder(folder(), { rows: 1, transcripts: 2 });
    await move("postgres", folder());
    await query("UPDATE transcripts SET archive_name = '../../../x.jsonl.deleted.y'");
    await expect(move("embedded", folder("b"))).rejects.toThrow("has a name that no file may have");
    await query("UPDATE transcripts SET archive_name = NULL");
    await query("UPDATE documents SET name = '../../../evil'");
    await expect(move("embedded", folder("b"))).rejects.toThrow("has a name that no file may have");
    writeFileSync(join(folder("b"), "mine.txt"), "stays");
    await query("UPDATE documents SET name = 'fine.md'");
    await move("embedded", folder("b"));
    expect(readdirSync(folder("b")).sort()).toEqual([
      "agents",
      "attachments",
      "gateway.lock",
      "gateway.pid",
      "herald.db",
      "mine.txt",
      "web-token",
    ]);
  });
});
