// A state folder as one side of a move: the database, the transcripts and documents beside it, the page's token. The folder is locked for as
// long as it takes, so that no gateway runs on it, alone or among others.
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, statSync } from "node:fs";
import { join, relative } from "node:path";
import { fileStamp } from "../../core/clock.ts";
import { AppError } from "../../core/errors.ts";
import { openDatabase, RELAXED, type SqliteDatabase } from "../../stores/database.ts";
import { readDocuments, type WholeDocument, writeDocument } from "../../stores/document-copy.ts";
import { attachmentFolder, createFileBytes } from "../../stores/file-bytes.ts";
import { foldJournal, hasJournal, refuseForeignJournal } from "../../stores/journal.ts";
import { refuseUnlocked, takeLock } from "../../stores/lock.ts";
import { AWAY, isFilling, markAway, markFilled, markFilling, refuseHalfFilled } from "../../stores/move-mark.ts";
import { syncPath } from "../../stores/sync-path.ts";
import {
  hasEntry,
  listAgentFolders,
  listTranscripts,
  ownName,
  readWhole,
  sessionFolder,
  type TranscriptNames,
  type WholeTranscript,
  writeWhole,
} from "../../stores/transcript-copy.ts";
import { keepToken, readToken, TOKEN_FILE } from "../../web/token.ts";
import { DATABASE, prepareFolder } from "../stores.ts";
import { filesOf, pieceOf, type Side, type Target } from "./side.ts";
import { readRows, type TableShape, valuesOf } from "./table-rows.ts";

/** Throws AppError("state" | "locked") in words. An older database is brought up to date first, as a start would; a copy is kept. */
export function openSourceFolder({ stateDir, now }: Pick<TargetFolderOptions, "stateDir" | "now">): Side {
  const path = join(stateDir, DATABASE);
  if (!existsSync(path))
    throw new AppError("state", `There is nothing to move: Herald has not been started with the state folder ${stateDir} yet.`);
  refuseUnlocked(stateDir, path);
  const lock = takeLock(stateDir, process.pid);
  try {
    refuseHalfFilled(stateDir);
    refuseForeignJournal(path);
    const db = openDatabase({ path });
    return {
      ...createSide({ stateDir, now }, () => db),
      async close() {
        db.close();
        lock.release();
      },
    };
  } catch (error) {
    lock.release();
    throw error;
  }
}

export interface TargetFolderOptions {
  readonly stateDir: string;
  /** What it holds is put aside, in a folder of its own. */
  readonly isAside: boolean;
  now(): number;
  /** Told where that is. */
  onAside(path: string): void;
}

/** Nothing is changed before `begin`. Throws AppError("state" | "locked") in words. */
export function openTargetFolder(options: TargetFolderOptions): Target {
  const { stateDir } = options;
  prepareFolder(stateDir);
  const path = join(stateDir, DATABASE);
  refuseUnlocked(stateDir, path);
  const lock = takeLock(stateDir, process.pid);
  let db: SqliteDatabase | null = null;
  const opened = (): SqliteDatabase => {
    db ??= openDatabase({ path });
    return db;
  };
  const statements = new Map<string, string>();
  return {
    ...createSide(options, opened),
    async begin() {
      if (isFilling(stateDir)) clear(stateDir);
      else if (options.isAside) putAside(options);
      refuseInstallation(stateDir);
      markFilling(stateDir);
      opened();
    },
    async putRows(table, columns, rows) {
      const marks = columns.map(() => "?").join(", ");
      const sql = statements.get(table) ?? `INSERT INTO ${table} (${columns.join(", ")}) VALUES (${marks})`;
      statements.set(table, sql);
      await opened().transaction(
        [],
        async (tx) => void (await Promise.all(rows.map((row) => tx.run(sql, ...valuesOf(row, columns))))),
        RELAXED,
      );
    },
    async setCounter(table, last) {
      await opened().transaction([], async (tx) => {
        // Tables without AUTOINCREMENT count from their last row.
        if (
          (await countedTables(opened())).includes(table) &&
          (await tx.run("UPDATE sqlite_sequence SET seq = ? WHERE name = ?", last, table)) === 0
        )
          await tx.run("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", table, last);
      });
    },
    putTranscript: (transcript) => writeWhole(stateDir, transcript),
    putDocument: async (document) => writeDocument(stateDir, document),
    putFile: (file) => createFileBytes(stateDir).write(file.id, pieceOf(file)),
    putToken: async (token) => keepToken(stateDir, token),
    flush: async () => {},
    async finish() {
      // Waited for on its way to the disk, and with it all relaxed ones before.
      await opened().transaction([], (tx) => tx.run("DELETE FROM nodes"));
      for (const agentId of listAgentFolders(stateDir)) {
        syncPath(sessionFolder(stateDir, agentId));
        syncPath(join(stateDir, "agents", agentId));
      }
      if (existsSync(join(stateDir, "agents"))) syncPath(join(stateDir, "agents"));
      db?.close();
      db = null;
      markFilled(stateDir);
    },
    async close() {
      db?.close();
      lock.release();
    },
  };
}

function createSide({ stateDir, now }: Pick<TargetFolderOptions, "stateDir" | "now">, db: () => SqliteDatabase): Omit<Side, "close"> {
  return {
    name: `the state folder ${stateDir}`,
    columns: async (table) => [...(await shapeOf(db(), table)).columns],
    async *rows(table) {
      yield* readRows(db(), table, await shapeOf(db(), table));
    },
    async counters() {
      // Runs are numbered behind the last of them, which is never removed.
      const sql = "SELECT name, seq FROM sqlite_sequence UNION ALL SELECT 'runs', max(seq) FROM runs HAVING max(seq) IS NOT NULL";
      const rows = await db().all<{ name: string; seq: number }>(sql);
      return new Map(rows.map(({ name, seq }) => [name, seq]));
    },
    transcripts: (onStray) => readTranscripts(stateDir, db(), onStray),
    documents: (onStray) => documentsOf(stateDir, db(), onStray),
    files: () => filesOf(db(), createFileBytes(stateDir)),
    token: async () => readToken(stateDir),
    check() {},
    leave: async () => markAway(stateDir, new Date(now()).toISOString()),
  };
}

async function shapeOf(db: SqliteDatabase, table: string): Promise<TableShape> {
  const found = await db.all<{ name: string; pk: number }>("SELECT name, pk FROM pragma_table_info(?) ORDER BY name", table);
  const keys = found.filter(({ pk }) => pk > 0).sort((a, b) => a.pk - b.pk);
  return { columns: found.map(({ name }) => name), keys: keys.map(({ name }) => name) };
}

const countedTables = async (db: SqliteDatabase): Promise<string[]> =>
  (await db.all<{ name: string }>("SELECT name FROM sqlite_schema WHERE type = 'table' AND sql LIKE '%AUTOINCREMENT%'")).map(
    ({ name }) => name,
  );

interface Owner {
  readonly agentId: string;
  readonly archiveName: string | null;
  /** Its run keeps how it begins: a file without an entry is begun anew from there. */
  readonly hasOpening: number;
}

const ownerOf = (db: SqliteDatabase, sessionId: string): Promise<Owner | undefined> =>
  db.get<Owner>(
    `SELECT sessions.agent_id AS agentId, runs.archive_name AS archiveName, runs.first_message IS NOT NULL AS hasOpening
     FROM sessions LEFT JOIN runs ON runs.child_key = sessions.key WHERE sessions.id = ?`,
    sessionId,
  );

async function* readTranscripts(stateDir: string, db: SqliteDatabase, onStray: (what: string) => void): AsyncGenerator<WholeTranscript> {
  const seen = new Set<string>();
  for (const agentId of listAgentFolders(stateDir)) {
    const stray = (name: string, why: string): void => onStray(`${join("agents", agentId, "sessions", name)} (${why})`);
    for (const found of listTranscripts(stateDir, agentId)) {
      const { sessionId, names } = found;
      const owner = await ownerOf(db, sessionId);
      // Somebody copied an agent's folder: in PostgreSQL a session has one transcript.
      if (seen.has(sessionId) || (owner !== undefined && owner.agentId !== agentId)) {
        for (const name of names) stray(name, "a copy of another agent's");
        continue;
      }
      const name = choose(found, owner);
      for (const other of names) if (other !== name) stray(other, "a second file of its session");
      const transcript = readWhole(stateDir, agentId, sessionId, name);
      if (transcript === null || (owner?.hasOpening === 1 && !hasEntry(transcript))) {
        stray(name, "nothing is in it yet");
        continue;
      }
      seen.add(sessionId);
      yield transcript;
    }
  }
}

/** The one that a gateway would read. */
function choose({ sessionId, names }: TranscriptNames, owner: Owner | undefined): string {
  const own = ownName(sessionId);
  const archived = owner?.archiveName ?? null;
  if (archived !== null && names.includes(archived)) return archived;
  return names.includes(own) ? own : (names.at(-1) ?? own);
}

async function* documentsOf(stateDir: string, db: SqliteDatabase, onStray: (what: string) => void): AsyncGenerator<WholeDocument> {
  for (const agentId of listAgentFolders(stateDir))
    for (const document of readDocuments(stateDir, agentId, (path) => onStray(`${relative(stateDir, path)} (no document)`))) {
      const owner = await ownerOf(db, document.sessionId);
      if (owner?.agentId === agentId) yield document;
      else onStray(`${join("agents", agentId, "sessions", document.sessionId, document.name)} (of no session on record)`);
    }
}

const sizeOf = (path: string): number => statSync(path, { throwIfNoEntry: false })?.size ?? 0;

/** Folders of sessions with anything in them. */
const sessionFolders = (stateDir: string): string[] =>
  listAgentFolders(stateDir).filter((agentId) => readdirSync(sessionFolder(stateDir, agentId)).length > 0);

function refuseInstallation(stateDir: string): void {
  const path = join(stateDir, DATABASE);
  const [agentId] = sessionFolders(stateDir);
  const found = sizeOf(path) > 0 || hasJournal(path) ? path : agentId === undefined ? null : sessionFolder(stateDir, agentId);
  if (found === null) return;
  throw new AppError(
    "state",
    `The state folder ${stateDir} holds an installation already (${found}); nothing was changed. With --aside it is put aside first, in a folder of its own; or set HERALD_STATE_DIR to another folder.`,
  );
}

/** What a move that was broken off has put here, and nobody else: the folder was empty of these, and no gateway starts on it. */
function clear(stateDir: string): void {
  for (const name of databaseFiles(stateDir)) rmSync(join(stateDir, name), { force: true });
  for (const agentId of listAgentFolders(stateDir)) rmSync(sessionFolder(stateDir, agentId), { recursive: true, force: true });
  rmSync(attachmentFolder(stateDir), { recursive: true, force: true });
}

const databaseFiles = (stateDir: string): string[] => readdirSync(stateDir).filter((name) => /^herald\.db(?:-wal|-shm)?$/.test(name));

/**
 * The database goes first, whole, its journal folded in: without it no gateway starts on what is left, whenever this is broken off. Done
 * again it goes on with the rest.
 */
function putAside({ stateDir, now, onAside }: TargetFolderOptions): void {
  const path = join(stateDir, DATABASE);
  if (sizeOf(path) > 0) foldJournal(path);
  const files = [...databaseFiles(stateDir), ...[TOKEN_FILE, AWAY].filter((name) => existsSync(join(stateDir, name)))].sort();
  const folders = [
    ...sessionFolders(stateDir).map((agentId) => sessionFolder(stateDir, agentId)),
    ...(existsSync(attachmentFolder(stateDir)) ? [attachmentFolder(stateDir)] : []),
  ].map((folder) => relative(stateDir, folder));
  if (files.length + folders.length === 0) return;
  const aside = join(stateDir, `before-move-${fileStamp(now())}`);
  for (const name of [...files, ...folders]) {
    mkdirSync(join(aside, name, ".."), { recursive: true, mode: 0o700 });
    renameSync(join(stateDir, name), join(aside, name));
  }
  onAside(aside);
}
