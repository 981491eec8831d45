// One transition of a run (queued → running → done → queued …) through the real store, with few runs on record and with
// a million (RU1). The runs that move are picked from all over the table, which is the worst case for its caches.
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { systemClock } from "../../src/core/clock.ts";
import { createBus } from "../../src/core/events.ts";
import { type Database, openDatabase } from "../../src/stores/database.ts";
import { createRuns, type Runs } from "../../src/stores/runs.ts";
import { atMost, interleave, type Row, type Topic, us, withFolder } from "./measure.ts";

const FEW = 10;
const MANY = 1_000_000;
const PER_ROUND = 30;
const ROUNDS = 25;
const TRANSITIONS = 3;

export const transitions: Topic = { name: "transitions", run: () => withFolder(measureTransitions) };

async function measureTransitions(folder: string): Promise<Row[]> {
  const few = openFilled(join(folder, "few.db"), FEW);
  const many = openFilled(join(folder, "many.db"), MANY);
  try {
    const times = await interleave(ROUNDS, { few: () => move(few), many: () => move(many) });
    const each = PER_ROUND * TRANSITIONS;
    const detail = `${us(times.many / each)} against ${us(times.few / each)}`;
    return [atMost("run transition at 1 000 000 runs on record, against 10", times.many / times.few, 1.5, detail)];
  } finally {
    few.db.close();
    many.db.close();
  }
}

interface Filled {
  readonly db: Database;
  readonly runs: Runs;
  readonly count: number;
}

function move({ runs, count }: Filled): void {
  for (let i = 0; i < PER_ROUND; i++) {
    const id = runId(Math.floor(Math.random() * count));
    const moved = [runs.again(id), runs.start(id), runs.end(id, { as: "done", reason: null, incomplete: false, delivery: "pending" })];
    if (moved.includes(false)) throw new Error(`run ${id} refused a transition`);
  }
}

const runId = (n: number): string => `${n.toString(16).padStart(8, "0")}-0000-4000-8000-000000000000`;

function openFilled(path: string, count: number): Filled {
  openDatabase({ path }).close();
  fill(path, count);
  const db = openDatabase({ path });
  const bus = createBus((error) => {
    throw error;
  });
  return { db, runs: createRuns({ db, clock: systemClock, bus }), count };
}

/** Fast rather than safe: one transaction, no syncing, keys in order, the indexes built afterwards. */
function fill(path: string, count: number): void {
  const db = new DatabaseSync(path);
  try {
    db.exec("PRAGMA synchronous=OFF; PRAGMA cache_size=-200000; PRAGMA temp_store=MEMORY");
    const indexes = db.prepare("SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND tbl_name = 'runs' AND sql IS NOT NULL").all() as {
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
    started_at, ended_at, input, output, cache_read, cache_write, cost_usd, settled_at, archived_at, archive_name)
  SELECT printf('%08x-0000-4000-8000-000000000000', n), printf('turn:%08d:call_1', n), printf('agent:main:subagent:%08x-0000-4000-8000-000000000001', n),
    printf('%08x-0000-4000-8000-000000000002', n), 'main', printf('agent:main:web:dm:%08d', n / 20), printf('%08x-0000-4000-8000-000000000003', n / 20),
    1, '${ADDRESS}', 'count the lines', 'Count the lines of every file in the folder and report the sum.', 'bench/model', 'off', 0, 20, 'keep', 'post',
    '{}', '["read","write","edit","list","search","exec"]', 'done', 'delivered', 'boot', at + n, at + n, at + n, at + n + 5000, 1000, 50, 0, 0, 0.01,
    at + n + 6000, at + n + 7000, printf('%08x.jsonl.deleted', n)
  FROM run, (SELECT ? - 10000000 AS at)`;
