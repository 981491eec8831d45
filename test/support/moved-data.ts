// An installation with something of everything, as rows and files, and all that stands in one as plain data: for comparing before and after
// a move, past the code that moves.
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { Client } from "pg";
import { RUN_STATES } from "../../src/core/run.ts";
import { openDatabase } from "../../src/stores/database.ts";
import { SHARED_TABLES } from "../../src/stores/postgres/schema.ts";

/** Texts that one form or the other could change on the way. */
const TEXTS = ["plain", "", "ünïcödé 🚀 \u{10ffff}", `it's "quoted" \\ \u0001\t\n`, "?::json $1 %", "null", "2".repeat(600)];
const NUMBERS = [0, -1, 1, 2 ** 31, Number.MAX_SAFE_INTEGER];
const REALS = [0, 0.1, 1 / 3, 1e-9, 12_345.678_9];

const CHOICES: Readonly<Record<string, readonly string[]>> = {
  "inbox.state": ["new", "waiting", "done"],
  "outbox.state": ["queued", "sending", "unknown", "joined", "sent", "blocked", "withdrawn"],
  "people.state": ["paired", "refused"],
  "web_messages.author": ["user", "agent"],
  "runs.state": RUN_STATES,
  "questions.kind": ["ask", "approve"],
  "questions.state": ["open", "answered", "expired", "void"],
  "run_groups.announce": ["together", "each"],
  "run_groups.state": ["open", "complete"],
  "live_messages.state": ["new", "posted", "shown", "closed", "gone"],
};

const pick = <T>(list: readonly T[], n: number): T => list[n % list.length] as T;

interface Column {
  name: string;
  type: string;
  notnull: number;
  pk: number;
}

/** `rows` in each table, and a few more numbers used than there are rows. */
function fillTables(stateDir: string, rows: number): void {
  using db = new DatabaseSync(join(stateDir, "herald.db"));
  db.exec("PRAGMA synchronous=OFF; BEGIN");
  for (const table of SHARED_TABLES) {
    const columns = db.prepare("SELECT * FROM pragma_table_info(?)").all(table) as unknown as Column[];
    const names = columns.map(({ name }) => name).join(", ");
    const insert = db.prepare(`INSERT INTO ${table} (${names}) VALUES (${columns.map(() => "?").join(", ")})`);
    for (let n = 1; n <= rows; n++) insert.run(...columns.map((column, at) => sampleOf(table, column, n, at)));
  }
  db.exec("UPDATE sqlite_sequence SET seq = seq + 1000 WHERE name = 'web_messages'; COMMIT");
}

function sampleOf(table: string, { name, type, notnull, pk }: Column, n: number, at: number): string | number | null {
  const choices = CHOICES[`${table}.${name}`];
  if (choices !== undefined) return pick(choices, n);
  if (notnull === 0 && pk === 0 && (n + at) % 3 === 0) return null;
  // Numbers with a gap, and not beginning at 1.
  if (type === "INTEGER") return pk > 0 ? n * 3 + 7 : pick(NUMBERS, n + at);
  if (type === "REAL") return pick(REALS, n + at);
  // Unique wherever something has to be.
  return `${pick(TEXTS, n + at)}${table} ${name} ${n}`;
}

const id = (n: number): string => `00000000-0000-4000-8000-${String(n).padStart(12, "0")}`;
export const STAMP = "2026-01-02T03-04-05-678Z";

const header = (session: string): string =>
  JSON.stringify({ type: "session", version: 1, id: session, timestamp: "2026-01-01T00:00:00.000Z", key: "k", parent: null });
const entry = (n: number): string =>
  JSON.stringify({
    type: "message",
    role: "user",
    text: `entry ${n} ${pick(TEXTS, n)}`,
    from: "p",
    id: id(9_000 + n),
    parentId: null,
    timestamp: "t",
  });

export interface FillOptions {
  readonly rows?: number;
  /** Ordinary transcripts, each with some entries. */
  readonly transcripts?: number;
}

/** Makes the folder. Nothing runs on it yet. */
export function fillFolder(stateDir: string, { rows = 30, transcripts = 12 }: FillOptions = {}): void {
  mkdirSync(stateDir, { recursive: true, mode: 0o700 });
  openDatabase({ path: join(stateDir, "herald.db") }).close();
  fillTables(stateDir, rows);
  writeFileSync(join(stateDir, "web-token"), `${"t".repeat(43)}\n`, { mode: 0o600 });
  for (let n = 1; n <= transcripts; n++) {
    const agent = n % 4 === 0 ? "helper" : "main";
    addSession(stateDir, n, agent);
    const lines = [header(id(n)), ...Array.from({ length: n % 7 === 0 ? 1_100 : n }, (_, at) => entry(at))];
    put(stateDir, agent, n % 3 === 0 ? `${id(n)}.jsonl.deleted.${STAMP}` : `${id(n)}.jsonl`, `${lines.join("\n")}\n`);
    if (n % 2 === 0) putDocument(stateDir, agent, id(n), "BRIEF.md", `# Brief ${n} ${pick(TEXTS, n)}`);
    if (n % 3 === 0) putDocument(stateDir, agent, id(n), "trace.md", pick(TEXTS, n + 4).repeat(20) || "x");
  }
  addOddities(stateDir);
  addAttachment(stateDir);
}

/** Longer than one piece of a row, and no text. */
const ATTACHED = Buffer.from(Array.from({ length: 300_000 }, (_, n) => (n * 31) % 256));

function addAttachment(stateDir: string): void {
  using db = new DatabaseSync(join(stateDir, "herald.db"));
  const sql =
    "INSERT INTO attachments (id, origin, chat, name, type, size, sha256, facts, at) VALUES (?, 'in:1:0', 'c', 'a.bin', 't', 1, 's', '{}', 1)";
  db.prepare(sql).run(id(7_000));
  mkdirSync(join(stateDir, "attachments"), { mode: 0o700 });
  writeFileSync(join(stateDir, "attachments", id(7_000)), ATTACHED, { mode: 0o600 });
}

/** Transcripts and documents as a crash, a person or an earlier version left them. */
function addOddities(stateDir: string): void {
  const odd = (n: number, text: string, name = `${id(n)}.jsonl`): void => {
    addSession(stateDir, n, "main");
    put(stateDir, "main", name, text);
  };
  // No entry yet; a damaged line in the middle and one at the end; no header; a line longer than a batch.
  odd(500, `${header(id(500))}\n`);
  odd(501, `${header(id(501))}\n${entry(1)}\n{"type":"mess\n\n${entry(2)}\n{}\n`);
  odd(502, `${entry(1)}\n${entry(2)}\n`);
  odd(503, `${header(id(503))}\n${entry(6).repeat(1_000)}\n`);
  // Of no session on record.
  put(stateDir, "main", `${id(504)}.jsonl`, `${header(id(504))}\n${entry(3)}\n`);
}

/** What a move leaves where it is, or as a start would make it. */
export function addStrays(stateDir: string): void {
  addSession(stateDir, 600, "main");
  put(stateDir, "main", `${id(600)}.jsonl`, "");
  addSession(stateDir, 601, "main");
  put(stateDir, "main", `${id(601)}.jsonl`, `${header(id(601))}\n${entry(1)}\n{"torn`);
  // A copy of somebody else's, and a second file of one session.
  put(stateDir, "helper", `${id(1)}.jsonl`, `${header(id(1))}\n`);
  put(stateDir, "main", `${id(2)}.jsonl.deleted.${STAMP}`, `${header(id(2))}\n`);
  // A child whose process died before its first entry: its run keeps how it begins.
  const key = addSession(stateDir, 602, "main");
  using db = new DatabaseSync(join(stateDir, "herald.db"));
  db.prepare("UPDATE runs SET child_key = ?, session_id = ?, first_message = 'do it' WHERE seq = (SELECT min(seq) FROM runs)").run(
    key,
    id(602),
  );
  put(stateDir, "main", `${id(602)}.jsonl`, `${header(id(602))}\n`);
  putDocument(stateDir, "main", id(999), "BRIEF.md", "of nobody");
  putDocument(stateDir, "main", id(1), ".BRIEF.md.x.tmp", "a draft");
  putDocument(stateDir, "main", id(1), "empty.md", "");
}

function addSession(stateDir: string, n: number, agent: string): string {
  using db = new DatabaseSync(join(stateDir, "herald.db"));
  const key = `agent:${agent}:subagent:${id(n)}`;
  db.prepare("INSERT INTO sessions (id, key, agent_id, created_at) VALUES (?, ?, ?, 5)").run(id(n), key, agent);
  return key;
}

function put(stateDir: string, agent: string, name: string, text: string): void {
  const path = join(stateDir, "agents", agent, "sessions", name);
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  writeFileSync(path, text, { mode: 0o600 });
}

function putDocument(stateDir: string, agent: string, session: string, name: string, text: string): void {
  put(stateDir, agent, join(session, name), text);
  const at = 1_750_000_000.123 + name.length;
  utimesSync(join(stateDir, "agents", agent, "sessions", session, name), at, at);
}

export interface Contents {
  readonly tables: Readonly<Record<string, readonly unknown[]>>;
  /** The last number used, by table. */
  readonly counters: Readonly<Record<string, number>>;
  /** Text and, of documents, when it was written: by path. */
  readonly files: Readonly<Record<string, unknown>>;
  readonly token: string | null;
}

const sorted = (rows: readonly Record<string, unknown>[]): unknown[] =>
  rows.map((row) => JSON.stringify(Object.entries(row).sort(([a], [b]) => (a < b ? -1 : 1)))).sort();

export function readFolder(stateDir: string): Contents {
  using db = new DatabaseSync(join(stateDir, "herald.db"), { readOnly: true });
  const rowsOf = (sql: string): Record<string, unknown>[] => db.prepare(sql).all() as Record<string, unknown>[];
  const files: Record<string, unknown> = {};
  const walk = (folder: string): void => {
    for (const found of readdirSync(folder, { withFileTypes: true })) {
      const path = join(folder, found.name);
      if (found.isDirectory()) walk(path);
      else files[relative(stateDir, path)] = fileOf(path);
    }
  };
  for (const agent of readdirSync(join(stateDir, "agents"))) walk(join(stateDir, "agents", agent, "sessions"));
  const token = join(stateDir, "web-token");
  const attached = join(stateDir, "attachments");
  for (const name of existsSync(attached) ? readdirSync(attached) : [])
    files[`attachments/${name}`] = readFileSync(join(attached, name), "base64");
  return {
    tables: Object.fromEntries(SHARED_TABLES.map((table) => [table, sorted(rowsOf(`SELECT * FROM ${table}`))])),
    counters: Object.fromEntries(rowsOf("SELECT name, seq FROM sqlite_sequence ORDER BY name").map(({ name, seq }) => [name, seq])),
    files,
    token: existsSync(token) ? readFileSync(token, "utf8").trim() : null,
  };
}

function fileOf(path: string): unknown {
  const { mode, mtimeMs } = statSync(path);
  const text = readFileSync(path, "utf8");
  const isTranscript = path.includes(".jsonl");
  return { text, mode: (mode & 0o777).toString(8), ...(isTranscript ? {} : { changedAt: Math.round(mtimeMs) }) };
}

/** The same, put together from rows. */
export async function readPostgres(url: string): Promise<Contents> {
  const client = new Client({ connectionString: url });
  client.setTypeParser(20, Number);
  await client.connect();
  try {
    const rowsOf = async (sql: string): Promise<Record<string, unknown>[]> => (await client.query(sql)).rows;
    const tables: Record<string, unknown[]> = {};
    for (const table of SHARED_TABLES) tables[table] = sorted(await rowsOf(`SELECT * FROM ${table}`));
    const counters: Record<string, number> = {};
    for (const table of ["brief_changes", "inbox", "notes", "outbox", "run_messages", "web_messages"]) {
      const key = table === "web_messages" ? "seq" : "id";
      const [row] = await rowsOf(`SELECT pg_sequence_last_value(pg_get_serial_sequence('${table}', '${key}')) AS last`);
      if (row?.last != null) counters[table] = row.last as number;
    }
    const kept = await rowsOf("SELECT value FROM kept WHERE name = 'web-token'");
    return { tables, counters, files: await filesOf(rowsOf), token: (kept[0]?.value as string | undefined) ?? null };
  } finally {
    await client.end();
  }
}

async function filesOf(rowsOf: (sql: string) => Promise<Record<string, unknown>[]>): Promise<Record<string, unknown>> {
  const files: Record<string, unknown> = {};
  const entries = Map.groupBy(await rowsOf("SELECT * FROM transcript_entries ORDER BY session_id, n"), (row) => row.session_id);
  for (const row of await rowsOf("SELECT * FROM transcripts")) {
    const lines = [row.header, ...(entries.get(row.session_id) ?? []).map(({ body }) => body)].filter((line, at) => at > 0 || line !== "");
    const name = row.archive_name ?? `${row.session_id}.jsonl`;
    files[`agents/${row.agent_id}/sessions/${name}`] = { text: lines.map((line) => `${line}\n`).join(""), mode: "600" };
  }
  for (const row of await rowsOf("SELECT documents.*, agent_id FROM documents JOIN sessions ON sessions.id = session_id"))
    files[`agents/${row.agent_id}/sessions/${row.session_id}/${row.name}`] = { text: row.text, mode: "600", changedAt: row.changed_at };
  const pieces = Map.groupBy(await rowsOf("SELECT * FROM attachment_pieces ORDER BY attachment_id, n"), (row) => row.attachment_id);
  for (const [attachment, rows] of pieces) files[`attachments/${attachment}`] = rows.map(({ data }) => data).join("");
  return files;
}
