// One transition of a run (queued → running → done → queued …) through the real store, with few runs on record and with
// a million (RU1). The runs that move are picked from all over the table, which is the worst case for its caches.
import { join } from "node:path";
import { systemClock } from "../../src/core/clock.ts";
import { openDatabase, type SqliteDatabase } from "../../src/stores/database.ts";
import { createRuns, type Runs } from "../../src/stores/runs.ts";
import { fillRuns, runId } from "./filled-runs.ts";
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
  readonly db: SqliteDatabase;
  readonly runs: Runs;
  readonly count: number;
}

async function move({ db, runs, count }: Filled): Promise<void> {
  for (let i = 0; i < PER_ROUND; i++) {
    const id = runId(Math.floor(Math.random() * count));
    const moved = [
      await db.transaction([], (tx) => runs.reopen(tx, { id, requesterKey: "k" })),
      await runs.start(id),
      await db.transaction([], (tx) => runs.end(tx, id, { as: "done", reason: null, incomplete: false, delivery: "pending" })),
    ];
    if (moved.includes(false)) throw new Error(`run ${id} refused a transition`);
  }
}

function openFilled(path: string, count: number): Filled {
  openDatabase({ path }).close();
  fillRuns(path, count);
  const db = openDatabase({ path });
  return { db, runs: createRuns({ db, clock: systemClock, bootId: "boot" }), count };
}
