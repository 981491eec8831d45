// A schema with many finished runs, and transcripts of many entries, made quickly by the server itself.
import { Client } from "pg";

/** Id of the nth run, and of its session. */
export const pgRunId = (n: number): string => `${n.toString(16).padStart(8, "0")}-0000-4000-8000-000000000000`;
export const pgSessionId = (n: number): string => `${n.toString(16).padStart(8, "0")}-0000-4000-8000-000000000002`;

export async function fillPostgres(url: string, runs: number, entriesEach: number): Promise<void> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    await client.query("SET synchronous_commit = off; SET work_mem = '256MB'; SET maintenance_work_mem = '512MB'");
    await client.query(RUNS, [runs, Date.now()]);
    await client.query(TRANSCRIPTS, [runs, entriesEach]);
    await client.query(ENTRIES, [runs, entriesEach]);
    await client.query("VACUUM ANALYZE runs; ");
    await client.query("VACUUM ANALYZE transcripts; ");
    await client.query("VACUUM ANALYZE transcript_entries; ");
  } finally {
    await client.end();
  }
}

const ADDRESS = '{"channel":"web","account":"local","chat":"main","kind":"dm"}';
const HEX = "lpad(to_hex(n), 8, '0')";

/** Finished runs of 20 per chat, newest last. */
const RUNS = `
  INSERT INTO runs (id, spawn_key, child_key, session_id, agent_id, requester_key, requester_session_id, root_key, depth, address, label,
    task, model, thinking, timeout_ms, max_iterations, cleanup, announce, params, tool_ceiling, state, delivery, boot_id, created_at,
    queued_at, started_at, ended_at, input, output, cache_read, cache_write, cost_usd, settled_at, archived_at, archive_name, documented)
  SELECT ${HEX} || '-0000-4000-8000-000000000000', 'turn:' || n || ':call_1', 'agent:main:subagent:' || ${HEX} || '-0000-4000-8000-000000000001',
    ${HEX} || '-0000-4000-8000-000000000002', 'main', 'agent:main:web:dm:' || lpad((n / 20)::text, 8, '0'),
    lpad(to_hex(n / 20), 8, '0') || '-0000-4000-8000-000000000003', 'agent:main:web:dm:' || lpad((n / 20)::text, 8, '0'), 1, '${ADDRESS}',
    'count the lines', 'Count the lines of every file in the folder and report the sum.', 'bench/model', 'off', 0, 20, 'keep', 'post', '{}',
    '["read","write","edit","list","search","exec"]', 'done', 'delivered', 'boot', at + n, at + n, at + n, at + n + 5000, 1000, 50, 0, 0, 0.01,
    at + n + 6000, at + n + 7000, ${HEX} || '.jsonl.deleted', 1
  FROM generate_series(0, $1::int - 1) AS n, (SELECT $2::bigint - 10000000 AS at) AS t`;

const TRANSCRIPTS = `
  INSERT INTO transcripts (session_id, agent_id, header, last_n, last_id)
  SELECT ${HEX} || '-0000-4000-8000-000000000002', 'main', '{"type":"session","version":1}', $2::int, 'e' || $2 FROM generate_series(0, $1::int - 1) AS n`;

/** One session after the other, as they come about: what is said in one lies together. */
const ENTRIES = `
  INSERT INTO transcript_entries (session_id, n, body)
  SELECT ${HEX} || '-0000-4000-8000-000000000002', k,
    '{"type":"message","role":"user","text":"line ' || k || ' of what was said","from":"Ann","id":"e' || k || '","parentId":null,"timestamp":"2026-01-01T00:00:00.000Z"}'
  FROM generate_series(0, $1::int - 1) AS n, generate_series(1, $2::int) AS k ORDER BY n, k`;
