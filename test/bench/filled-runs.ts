// A database with many finished, announced and archived runs on record, made quickly.
import { DatabaseSync } from "node:sqlite";

/** Id of the nth run. */
export const runId = (n: number): string => `${n.toString(16).padStart(8, "0")}-0000-4000-8000-000000000000`;

/** Fast rather than safe: one transaction, no syncing, keys in order, the indexes built afterwards. */
export function fillRuns(path: string, count: number): void {
  const db = new DatabaseSync(path);
  try {
    db.exec("PRAGMA synchronous=OFF; PRAGMA cache_size=-200000; PRAGMA temp_store=MEMORY");
    const indexes = db
      .prepare("SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND tbl_name = 'runs' AND sql IS NOT NULL")
      .all() as {
      name: string;
      sql: string;
    }[];
    db.exec("BEGIN");
    for (const { name } of indexes) db.exec(`DROP INDEX ${name}`);
    db.prepare(FILL).run(count, Date.now());
    for (const { sql } of indexes) db.exec(sql);
    db.exec("COMMIT; PRAGMA wal_checkpoint(TRUNCATE); PRAGMA synchronous=FULL;");
  } finally {
    db.close();
  }
}

const ADDRESS = '{"channel":"web","account":"local","chat":"main","kind":"dm"}';

/** Finished runs of 20 per chat, newest last. */
const FILL = `
  WITH RECURSIVE run (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM run WHERE n + 1 < ?)
  INSERT INTO runs (id, spawn_key, child_key, session_id, agent_id, requester_key, requester_session_id, depth, address, label, task,
    model, thinking, timeout_ms, max_iterations, cleanup, announce, params, tool_ceiling, state, delivery, boot_id, created_at, queued_at,
    started_at, ended_at, input, output, cache_read, cache_write, cost_usd, settled_at, archived_at, archive_name, documented)
  SELECT printf('%08x-0000-4000-8000-000000000000', n), printf('turn:%08d:call_1', n), printf('agent:main:subagent:%08x-0000-4000-8000-000000000001', n),
    printf('%08x-0000-4000-8000-000000000002', n), 'main', printf('agent:main:web:dm:%08d', n / 20), printf('%08x-0000-4000-8000-000000000003', n / 20),
    1, '${ADDRESS}', 'count the lines', 'Count the lines of every file in the folder and report the sum.', 'bench/model', 'off', 0, 20, 'keep', 'post',
    '{}', '["read","write","edit","list","search","exec"]', 'done', 'delivered', 'boot', at + n, at + n, at + n, at + n + 5000, 1000, 50, 0, 0, 0.01,
    at + n + 6000, at + n + 7000, printf('%08x.jsonl.deleted', n), 1
  FROM run, (SELECT ? - 10000000 AS at)`;
