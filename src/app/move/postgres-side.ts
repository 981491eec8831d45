// PostgreSQL as one side of a move. Nobody else works on it meanwhile: no gateway begins while the lock is held (move-mark.ts), and those
// that were there are waited out, because a process that looks dead may only be frozen. One whose beat stood still for a lease is
// declared dead as any gateway would: from then on the fence keeps it from writing.
import type { Clock } from "../../core/clock.ts";
import { AppError } from "../../core/errors.ts";
import { silentLogger } from "../../core/logger.ts";
import { createByteRows } from "../../stores/byte-rows.ts";
import { RELAXED, type Row } from "../../stores/database.ts";
import type { WholeDocument } from "../../stores/document-copy.ts";
import { openPostgres, type PostgresDatabase } from "../../stores/postgres/database.ts";
import { hasTables, migrate } from "../../stores/postgres/migrate.ts";
import {
  isFilling,
  type MoveLock,
  markAway,
  markFilled,
  markFilling,
  refuseHalfFilled,
  takeMoveLock,
} from "../../stores/postgres/move-mark.ts";
import { waitForNobody } from "../../stores/postgres/nodes.ts";
import { SHARED_TABLES } from "../../stores/postgres/schema.ts";
import type { WholeTranscript } from "../../stores/transcript-copy.ts";
import { parseEntry } from "../../stores/transcript-entry.ts";
import { BATCH, filesOf, pieceOf, type Side, type Target } from "./side.ts";
import { readRows, type TableShape } from "./table-rows.ts";

export interface PostgresSideOptions {
  readonly url: string;
  readonly clock: Clock;
  steady(): number;
  /** It is waited for processes that may be dead, for so long. */
  onWait(ms: number): void;
}

/** Throws AppError("state" | "locked") in words. */
export async function openSourcePostgres(options: PostgresSideOptions): Promise<Side> {
  const { db, lock, close } = await openAlone(options, async (found) => {
    if (!(await hasTables(found)))
      throw new AppError("state", `There is nothing to move: Herald has not been started with ${nameOf(options.url, found)} yet.`);
  });
  try {
    await refuseHalfFilled(db);
    return { ...createSide(options, db, lock), close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Nothing but missing tables is made before `begin`. Throws AppError("state" | "locked") in words. */
export async function openTargetPostgres(options: PostgresSideOptions): Promise<Target> {
  const { db, lock, close } = await openAlone(options);
  const rows = createBuffer(db);
  return {
    ...createSide(options, db, lock),
    async begin() {
      if (!(await isFilling(db))) await refuseInstallation(options.url, db);
      await markFilling(db, new Date(options.clock.now()).toISOString());
      await clear(db);
    },
    putRows: (table, _columns, some) => rows.put(table, some),
    async setCounter(table, last) {
      await rows.flush();
      await db.transaction([], async (tx) => {
        const key = await tx.get<{ name: string }>(IDENTITY_OF, table);
        if (key !== undefined) await tx.get("SELECT setval(pg_get_serial_sequence(?, ?), ?)", table, key.name, last);
      });
    },
    putTranscript: (transcript) => putTranscript(rows, transcript),
    putDocument: ({ sessionId, name, text, changedAt }) =>
      rows.put("documents", [{ session_id: sessionId, name, text, changed_at: changedAt }]),
    putFile: (file) => createByteRows({ db, clock: options.clock }).write(file.id, pieceOf(file)),
    async putToken(token) {
      await db.transaction([], (tx) => tx.run("INSERT INTO kept (name, value) VALUES ('web-token', ?)", token));
    },
    flush: rows.flush,
    async finish() {
      // Until its statistics are made the planner takes every table for a small one; should that fail, autovacuum comes by.
      for (const table of EVERYTHING) await db.connections.pool.query(`ANALYZE ${table}`).catch(() => {});
      await markFilled(db);
    },
    close,
  };
}

interface Alone {
  readonly db: PostgresDatabase;
  readonly lock: MoveLock;
  close(): Promise<void>;
}

async function openAlone(
  { url, clock, steady, onWait }: PostgresSideOptions,
  look: (db: PostgresDatabase) => Promise<void> = async () => {},
): Promise<Alone> {
  const db = await openPostgres({ url, poolSize: 4, log: silentLogger, name: "herald move", steady });
  let lock: MoveLock | null = null;
  const close = async (): Promise<void> => {
    await lock?.release().catch(() => {});
    await db.close();
  };
  try {
    // Before any table is made.
    await look(db);
    await migrate(db, silentLogger);
    lock = await takeMoveLock(db);
    const alive = await waitForNobody({ db, clock, steady, onWait });
    if (alive !== null)
      throw new AppError("locked", `Herald runs on ${nameOf(url, db)} (machine ${alive}). Stop it on every machine, then move.`);
    return { db, lock, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** No user, no password. */
function nameOf(url: string, { namespace }: PostgresDatabase): string {
  const { hostname, port, pathname } = new URL(url);
  const place = `${hostname || "this machine"}${port === "" ? "" : `:${port}`}${pathname}`;
  return `PostgreSQL at ${place}${namespace === "public" ? "" : ` (schema ${namespace})`}`;
}

/** What makes an installation, but for what its processes know of each other. */
const TABLES = [...SHARED_TABLES, "transcripts", "transcript_entries", "documents", "attachment_pieces"];
const EVERYTHING = [...TABLES, "lane_jobs", "lane_times", "lane_groups", "leaders"];

async function hasRows(db: PostgresDatabase): Promise<boolean> {
  for (const table of TABLES) if ((await db.get(`SELECT 1 FROM ${table} LIMIT 1`)) !== undefined) return true;
  return false;
}

async function refuseInstallation(url: string, db: PostgresDatabase): Promise<void> {
  if (!(await hasRows(db))) return;
  throw new AppError(
    "state",
    `${nameOf(url, db)} holds an installation already; nothing was changed. Name an empty database (createdb makes one), or drop this one if it is not needed any more.`,
  );
}

async function clear(db: PostgresDatabase): Promise<void> {
  await db.transaction([], async (tx) => {
    await tx.run(`TRUNCATE ${EVERYTHING.join(", ")} RESTART IDENTITY`);
    await tx.run("DELETE FROM kept WHERE name = 'web-token'");
  });
}

function createSide({ url, clock }: PostgresSideOptions, db: PostgresDatabase, lock: MoveLock): Omit<Side, "close"> {
  return {
    name: nameOf(url, db),
    columns: async (table) => [...(await shapeOf(db, table)).columns],
    async *rows(table) {
      yield* readRows(db, table, await shapeOf(db, table));
    },
    counters: () => countersOf(db),
    transcripts: () => transcriptsOf(db),
    documents: (onStray) => documentsOf(db, onStray),
    files: () => filesOf(db, createByteRows({ db, clock })),
    token: async () => (await db.get<{ value: string }>("SELECT value FROM kept WHERE name = 'web-token'"))?.value ?? null,
    check: () => lock.check(),
    async leave() {
      lock.check();
      await markAway(db, new Date(clock.now()).toISOString());
      // As long as it was held nobody could begin; from the mark on nobody can.
      lock.check();
    },
  };
}

const KEY_COLUMNS = `SELECT a.attname AS name FROM pg_index i CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY AS k (n, place)
  JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.n WHERE i.indrelid = ?::regclass AND i.indisprimary ORDER BY k.place`;
const COLUMNS = `SELECT attname AS name FROM pg_attribute WHERE attrelid = ?::regclass AND attnum > 0 AND NOT attisdropped
  ORDER BY attname COLLATE "C"`;
const IDENTITY_OF = "SELECT attname AS name FROM pg_attribute WHERE attrelid = ?::regclass AND attidentity <> ''";

async function shapeOf(db: PostgresDatabase, table: string): Promise<TableShape> {
  const [columns, keys] = await Promise.all([COLUMNS, KEY_COLUMNS].map((sql) => db.all<{ name: string }>(sql, table)));
  return { columns: (columns ?? []).map(({ name }) => name), keys: (keys ?? []).map(({ name }) => name) };
}

async function countersOf(db: PostgresDatabase): Promise<ReadonlyMap<string, number>> {
  const counters = new Map<string, number>();
  for (const table of SHARED_TABLES) {
    const key = await db.get<{ name: string }>(IDENTITY_OF, table);
    if (key === undefined) continue;
    const sql = "SELECT pg_sequence_last_value(pg_get_serial_sequence(?, ?)::regclass) AS last";
    const { last = null } = (await db.get<{ last: number | null }>(sql, table, key.name)) ?? {};
    if (last !== null) counters.set(table, last);
  }
  return counters;
}

async function* transcriptsOf(db: PostgresDatabase): AsyncGenerator<WholeTranscript> {
  for await (const batch of readRows(db, "transcripts", {
    columns: ["session_id", "agent_id", "archive_name", "header"],
    keys: ["session_id"],
  }))
    for (const row of batch as unknown as { session_id: string; agent_id: string; archive_name: string | null; header: string }[])
      yield {
        ...{ sessionId: row.session_id, agentId: row.agent_id, archiveName: row.archive_name, header: row.header },
        lines: () => linesOf(db, row.session_id),
      };
}

async function* linesOf(db: PostgresDatabase, sessionId: string): AsyncGenerator<string[]> {
  const sql = "SELECT n, body FROM transcript_entries WHERE session_id = ? AND n > ? ORDER BY n LIMIT ?";
  for (let last = 0; ; ) {
    const rows = await db.all<{ n: number; body: string }>(sql, sessionId, last, BATCH);
    if (rows.length > 0) yield rows.map(({ body }) => body);
    if (rows.length < BATCH) return;
    last = rows.at(-1)?.n ?? last;
  }
}

async function* documentsOf(db: PostgresDatabase, onStray: (what: string) => void): AsyncGenerator<WholeDocument> {
  const shape = { columns: ["session_id", "name", "text", "changed_at"], keys: ["session_id", "name"] };
  for await (const batch of readRows(db, "documents", shape))
    for (const row of batch as unknown as { session_id: string; name: string; text: string; changed_at: number }[]) {
      // A row is there before it has a text.
      if (row.text === "") continue;
      const owner = await db.get<{ agent_id: string }>("SELECT agent_id FROM sessions WHERE id = ?", row.session_id);
      if (owner === undefined) onStray(`the document ${row.name} of ${row.session_id} (of no session on record)`);
      else yield { agentId: owner.agent_id, sessionId: row.session_id, name: row.name, text: row.text, changedAt: row.changed_at };
    }
}

/** So much goes into one transaction, and is in memory at once. */
const MAX_LENGTH = 1024 * 1024;
/** Of what is no text. */
const FIELD_LENGTH = 10;

const lengthOf = (row: Row): number =>
  Object.values(row).reduce<number>((sum, value) => sum + (typeof value === "string" ? value.length : FIELD_LENGTH), 0);

interface Buffer {
  put(table: string, rows: readonly Row[]): Promise<void>;
  flush(): Promise<void>;
}

function createBuffer(db: PostgresDatabase): Buffer {
  let tables = new Map<string, Row[]>();
  let held = 0;
  const flush = async (): Promise<void> => {
    const full = tables;
    tables = new Map();
    held = 0;
    if (full.size === 0) return;
    await db.transaction(
      [],
      async (tx) => {
        for (const [table, rows] of full)
          await tx.run(`INSERT INTO ${table} SELECT * FROM json_populate_recordset(NULL::${table}, ?::json)`, JSON.stringify(rows));
      },
      RELAXED,
    );
  };
  return {
    flush,
    async put(table, rows) {
      const known = tables.get(table);
      if (known === undefined) tables.set(table, [...rows]);
      else known.push(...rows);
      for (const row of rows) held += lengthOf(row);
      if (held > MAX_LENGTH) await flush();
    },
  };
}

async function putTranscript(rows: Buffer, { sessionId, agentId, archiveName, header, lines }: WholeTranscript): Promise<void> {
  let n = 0;
  let lastId: string | null = null;
  for await (const chunk of lines()) {
    await rows.put(
      "transcript_entries",
      chunk.map((body) => ({ session_id: sessionId, n: ++n, body })),
    );
    lastId = lastIdOf(chunk) ?? lastId;
  }
  await rows.put("transcripts", [
    { session_id: sessionId, agent_id: agentId, header, last_n: n, last_id: lastId, archive_name: archiveName },
  ]);
}

/** A damaged last line must not break the chain of parents. */
function lastIdOf(lines: readonly string[]): string | null {
  for (const line of [...lines].reverse()) {
    const entry = parseEntry(line);
    if (entry !== null) return entry.id;
  }
  return null;
}
