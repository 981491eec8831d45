// What the stores on PostgreSQL cost with a million runs and ten million transcript entries on record, against next to none: a
// transition, a list, the end of a transcript, and what a start asks. Rows are picked from all over the tables.
import { join } from "node:path";
import type { Stores } from "../../src/app/store-parts.ts";
import { openStores } from "../../src/app/stores.ts";
import { systemClock } from "../../src/core/clock.ts";
import { createBus } from "../../src/core/events.ts";
import { noFailpoints } from "../../src/core/failpoints.ts";
import { newId } from "../../src/core/ids.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { createSecrets } from "../../src/core/secrets.ts";
import { createSchema, findPostgres, startPostgres } from "../support/postgres.ts";
import { sharedOptions } from "../support/shared-folder.ts";
import { fillPostgres, pgRunId, pgSessionId } from "./filled-postgres.ts";
import { atMost, interleave, type Row, type Topic, told, us, withFolder } from "./measure.ts";

const FEW = 10;
const MANY = 1_000_000;
const ENTRIES = 10;
const PER_ROUND = 20;
const ROUNDS = 25;

export const postgres: Topic = { name: "postgres", run: () => (findPostgres() === null ? skipped() : withFolder(measurePostgres)) };

const skipped = async (): Promise<Row[]> => [told("PostgreSQL at a million runs", "skipped", "PostgreSQL is not installed")];

interface Side {
  readonly stores: Stores;
  readonly count: number;
}

async function measurePostgres(folder: string): Promise<Row[]> {
  const server = await startPostgres({ shared_buffers: "512MB", max_wal_size: "8GB" });
  try {
    await using small = await createSchema(server.url);
    await using large = await createSchema(server.url);
    const few = await open(join(folder, "few"), small.url, FEW);
    const many = await open(join(folder, "many"), large.url, MANY);
    try {
      const row = async (name: string, work: (side: Side) => Promise<unknown>, each: number): Promise<Row> => {
        const times = await interleave(ROUNDS, { few: async () => void (await work(few)), many: async () => void (await work(many)) });
        const detail = `${us(times.many / each)} against ${us(times.few / each)}`;
        return atMost(`${name}, a million runs and ten million entries in PostgreSQL, against ${FEW}`, times.many / times.few, 1.5, detail);
      };
      // First: what the transitions leave undocumented is more on the side that has more runs to pick from.
      const start = await row("what a start asks", boot, 1);
      return [
        start,
        await row("run transition", move, PER_ROUND * 3),
        await row("list of a chat's runs", list, PER_ROUND),
        await row("end of a transcript", tail, PER_ROUND),
      ];
    } finally {
      for (const { stores } of [few, many]) await stores.close();
    }
  } finally {
    await server.stop();
  }
}

async function open(stateDir: string, url: string, count: number): Promise<Side> {
  const bus = createBus(() => {});
  const base = { stateDir, clock: systemClock, bus, log: silentLogger, secrets: createSecrets(), failpoint: noFailpoints };
  const stores = await openStores({ ...base, bootId: newId(), shared: sharedOptions(url) });
  await stores.nodes.enter();
  await fillPostgres(url, count, ENTRIES);
  return { stores, count };
}

const picks = (count: number): number[] => Array.from({ length: PER_ROUND }, () => Math.floor(Math.random() * count));

async function move({ stores: { db, runs }, count }: Side): Promise<void> {
  for (const n of picks(count)) {
    const id = pgRunId(n);
    const moved = [
      await db.transaction([], (tx) => runs.reopen(tx, { id, requesterKey: "k" })),
      await runs.start(id),
      await db.transaction([], (tx) => runs.end(tx, id, { as: "done", reason: null, incomplete: false, delivery: "pending" })),
    ];
    if (moved.includes(false)) throw new Error(`run ${id} refused a transition`);
  }
}

async function list({ stores, count }: Side): Promise<void> {
  for (const n of picks(count)) {
    const key = `agent:main:web:dm:${String(Math.floor(n / 20)).padStart(8, "0")}`;
    const found = await stores.runs.listOf(key, 10);
    if (found.length === 0 || (await stores.runs.countUnfinished(key)) !== 0) throw new Error("the list is wrong");
  }
}

async function tail({ stores, count }: Side): Promise<void> {
  for (const n of picks(count)) {
    const entries = await stores.transcripts.tail({ agentId: "main", sessionId: pgSessionId(n) }, 5);
    if (entries.length !== 5) throw new Error("the transcript is too short");
  }
}

async function boot({ stores }: Side): Promise<void> {
  await stores.runs.listUnfinished();
  await stores.runs.listOrphaned();
  await stores.runs.listUndocumented(1_000);
  await stores.outbox.openAddresses();
  await stores.inbox.waitingSessions();
  await stores.inbox.lastId();
  await stores.runs.listHalfArchived();
  await stores.runs.listArchiveDue(0, 100);
}
