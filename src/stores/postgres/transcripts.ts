// Transcripts as rows, for several processes: a row for each line, the same JSON as in the file form (stores/transcripts.ts), the same
// interface. Appending takes the transcript's own row first: whoever appends at the same time waits, so that entries are numbered
// without a gap and each names the one before it.
// Nothing is synced here: what is appended is on the server's disk when it is committed.
import { AppError } from "../../core/errors.ts";
import { isAgentId, isUuid } from "../../core/ids.ts";
import type { Logger } from "../../core/logger.ts";
import type { Tx } from "../database.ts";
import { createRewinding, stillCounting } from "../rewinding.ts";
import { type Entry, type NewEntry, parseEntry, toLines } from "../transcript-entry.ts";
import type { TranscriptPage } from "../transcript-page.ts";
import { headerOf, type Opening, type TranscriptRef, type Transcripts, windowEnd } from "../transcripts.ts";
import type { PostgresDatabase } from "./database.ts";

interface Deps {
  readonly db: PostgresDatabase;
  readonly log: Logger;
  now(): number;
  redact(text: string): string;
  opening?(ref: TranscriptRef): Promise<Opening | null>;
  /** Where people read it: there is no file to name. */
  addressOf(ref: TranscriptRef): string;
}

interface Line {
  readonly n: number;
  readonly body: string;
}

const CHUNK = 200;
/** How much of a page is read at most, and how far back a compaction is looked for: as in the file form. */
const MAX_PAGE_BYTES = 2 * 1024 * 1024;
const MAX_LOOK_BACK = 64 * 1024 * 1024;

export function createSharedTranscripts(deps: Deps): Transcripts {
  const { db } = deps;
  return {
    create: (ref, about) =>
      db.write(async (tx) => {
        if (!(await begin(deps, tx, ref, about)))
          throw new AppError("storage", `There is a transcript of the session ${ref.sessionId} already`);
      }),
    ensure: (ref) => ensure(deps, ref),
    async append(ref, entries) {
      await ensure(deps, ref);
      return db.write((tx) => append(deps, tx, ref, entries));
    },
    async sync(ref) {
      return (await db.get("SELECT 1 FROM transcripts WHERE session_id = ?", idOf(ref))) !== undefined;
    },
    probe: () => db.transaction([], async (tx) => void (await tx.get("SELECT 1"))),
    tail: async (ref, count) => (await newestFirst(deps, ref, (taken) => taken.length >= count)).reverse(),
    window: async (ref, max, weigh) => stillCounting((await newestFirst(deps, ref, windowEnd(max, weigh))).reverse()),
    lastCompaction: (ref) => findCompaction(deps, ref),
    page: (ref, range) => readPage(deps, ref, range),
    between: (ref, from, to) => readBetween(deps, ref, from, to),
    async archive(ref, name) {
      await ensure(deps, ref);
      return (await db.write((tx) => tx.run("UPDATE transcripts SET archive_name = ? WHERE session_id = ?", name, idOf(ref)))) === 1;
    },
    restore: async (ref) =>
      (await db.write((tx) => tx.run("UPDATE transcripts SET archive_name = NULL WHERE session_id = ?", idOf(ref)))) === 1,
    async listArchived(agentId, before) {
      const sql = "SELECT session_id AS id, archive_name AS name FROM transcripts WHERE agent_id = ? AND archive_name IS NOT NULL";
      const rows = await db.all<{ id: string; name: string }>(sql, checked(agentId));
      return rows.filter(({ name }) => stampOf(name) < before).map(({ id, name }) => ({ sessionId: id, name }));
    },
    remove: (agentId, name) =>
      db.transaction([], async (tx) => {
        const own = "SELECT session_id FROM transcripts WHERE agent_id = ? AND archive_name = ?";
        await tx.run(`DELETE FROM transcript_entries WHERE session_id IN (${own})`, agentId, name);
        await tx.run("DELETE FROM transcripts WHERE agent_id = ? AND archive_name = ?", agentId, name);
      }),
    path: (ref) => deps.addressOf(ref),
    close() {},
  };
}

/** When it was archived, as its name tells it (subagents/archive). */
const stampOf = (name: string): string => name.slice(name.lastIndexOf(".deleted.") + ".deleted.".length);

function checked(agentId: string): string {
  if (!isAgentId(agentId)) throw new AppError("invalid", `"${agentId.slice(0, 80)}" is not an agent id`);
  return agentId;
}

function idOf({ agentId, sessionId }: TranscriptRef): string {
  checked(agentId);
  if (!isUuid(sessionId)) throw new AppError("invalid", "not a session id");
  return sessionId;
}

/** What is there stays: another process may have begun it, and appended since. False: so it is. */
async function begin(deps: Deps, tx: Tx, ref: TranscriptRef, about: Opening): Promise<boolean> {
  const header = deps.redact(JSON.stringify(headerOf(ref, about, deps.now())));
  const sql = "INSERT INTO transcripts (session_id, agent_id, header) VALUES (?, ?, ?) ON CONFLICT (session_id) DO NOTHING";
  if ((await tx.run(sql, idOf(ref), ref.agentId, header)) === 0) return false;
  await append(deps, tx, ref, about.entries ?? []);
  return true;
}

/** A child's is made when it is first needed: until then its run keeps how it begins. */
async function ensure(deps: Deps, ref: TranscriptRef): Promise<void> {
  if ((await deps.db.get("SELECT 1 FROM transcripts WHERE session_id = ?", idOf(ref))) !== undefined) return;
  const about = (await deps.opening?.(ref)) ?? null;
  if (about !== null) await deps.db.write((tx) => begin(deps, tx, ref, about));
}

async function append(deps: Deps, tx: Tx, ref: TranscriptRef, entries: readonly NewEntry[]): Promise<Entry[]> {
  const id = idOf(ref);
  const held = await tx.get<{ last_n: number; last_id: string | null }>(
    // Archived meanwhile, it is nobody's to go on with, but for who knows its new name.
    `UPDATE transcripts SET last_n = last_n + ? WHERE session_id = ? AND (archive_name IS NULL OR archive_name = ?)
     RETURNING last_n, last_id`,
    entries.length,
    id,
    ref.archiveName ?? null,
  );
  if (held === undefined) throw new AppError("storage", `There is no transcript of the session ${id}`);
  const { full, lines } = toLines(deps, entries, held.last_id);
  let n = held.last_n - entries.length;
  for (const line of lines) await tx.run("INSERT INTO transcript_entries (session_id, n, body) VALUES (?, ?, ?)", id, ++n, line);
  const last = full.at(-1)?.id;
  if (last !== undefined) await tx.run("UPDATE transcripts SET last_id = ? WHERE session_id = ?", last, id);
  return full;
}

/** A few at a time, so that a window of a long conversation doesn't read the whole of it. Throws ENOENT when there is none. */
async function* backwards(deps: Deps, ref: TranscriptRef, before = Number.MAX_SAFE_INTEGER): AsyncGenerator<Line> {
  const id = idOf(ref);
  const sql = "SELECT n, body FROM transcript_entries WHERE session_id = ? AND n < ? ORDER BY n DESC LIMIT ?";
  const read = (end: number, limit: number): Promise<Line[]> => deps.db.all<Line>(sql, id, end, limit);
  let rows = await read(before, CHUNK / 4);
  if (rows.length === 0) {
    await requireAny(deps, ref);
    rows = await read(before, CHUNK / 4);
  }
  for (;;) {
    yield* rows;
    const last = rows.at(-1);
    if (last === undefined || last.n <= 1) return;
    rows = await read(last.n, CHUNK);
  }
}

/** Most that are read are there: only of one without a line it is asked whether it exists, or how it begins. */
async function requireAny(deps: Deps, ref: TranscriptRef): Promise<void> {
  await ensure(deps, ref);
  if ((await deps.db.get("SELECT 1 FROM transcripts WHERE session_id = ?", idOf(ref))) !== undefined) return;
  throw Object.assign(new Error(`there is no transcript of the session ${ref.sessionId}`), { code: "ENOENT" });
}

async function newestFirst(deps: Deps, ref: TranscriptRef, enough: (taken: readonly Entry[], line: string) => boolean): Promise<Entry[]> {
  const taken: Entry[] = [];
  for await (const { n, body } of backwards(deps, ref)) {
    if (enough(taken, body)) break;
    const entry = parseEntry(body);
    if (entry !== null) taken.push(entry);
    else deps.log.warn({ sessionId: ref.sessionId, line: n }, "skipped a damaged line of a transcript");
  }
  return taken;
}

/** Lines that may be one, or begin or end what was set aside (gateway/request names requests so): the others needn't be parsed. */
const OF_COMPACTIONS = /"(?:compaction|rewound|in:\d+)"/;

async function findCompaction(deps: Deps, ref: TranscriptRef): Promise<Entry | null> {
  let bytes = 0;
  const counts = createRewinding();
  for await (const { body } of backwards(deps, ref)) {
    bytes += body.length;
    if (bytes > MAX_LOOK_BACK) return null;
    const entry = OF_COMPACTIONS.test(body) ? parseEntry(body) : null;
    if (entry !== null && counts(entry) && entry.type === "compaction") return entry;
  }
  return null;
}

async function readPage(
  deps: Deps,
  ref: TranscriptRef,
  { before, limit, fits }: Parameters<Transcripts["page"]>[1],
): Promise<TranscriptPage> {
  const found: TranscriptPage["entries"][number][] = [];
  let bytes = 0;
  let reached = before ?? Number.MAX_SAFE_INTEGER;
  const page = (next: number | null): TranscriptPage => ({ entries: found.reverse(), before: next });
  for await (const { n, body } of backwards(deps, ref, reached)) {
    if (bytes > MAX_PAGE_BYTES) return page(reached);
    const entry = parseEntry(body);
    if (entry !== null && fits(entry)) {
      if (found.length === limit) return page(reached);
      found.push({ position: n, entry });
    }
    bytes += body.length;
    reached = n;
  }
  return page(null);
}

async function* readBetween(deps: Deps, ref: TranscriptRef, from: number, to: number): AsyncGenerator<Entry> {
  const id = idOf(ref);
  for (let next = from; ; ) {
    const sql = "SELECT n, body FROM transcript_entries WHERE session_id = ? AND n >= ? AND n < ? ORDER BY n LIMIT ?";
    const rows = await deps.db.all<Line>(sql, id, next, to, CHUNK);
    for (const { body } of rows) {
      const entry = parseEntry(body);
      if (entry !== null) yield entry;
    }
    const last = rows.at(-1);
    if (last === undefined || rows.length < CHUNK) return;
    next = last.n + 1;
  }
}
