// What a process has to say to the others: events, by NOTIFY. Best effort, and never truth: a bell that is lost costs the two seconds
// until somebody looks anyway, text that is lost is read from its row. So nobody waits for it, it is sent after the commit on a
// connection of its own (inside a transaction NOTIFY makes all commits stand in one line), and what is too much is dropped.
//
// A line can go dead without a word, and a pooler in between may swallow what comes. So each process hears itself: a bell of its own
// every few seconds that must come back.
import type { Client } from "pg";
import type { Clock } from "../../core/clock.ts";
import { errorText } from "../../core/errors.ts";
import { type AppEvent, type Bus, crosses } from "../../core/events.ts";
import type { Logger } from "../../core/logger.ts";
import type { PostgresDatabase } from "./database.ts";
import { createTextIn, createTextOut, isText } from "./text-stream.ts";

export interface Bell {
  /** Rejects when the server is away. */
  start(): Promise<void>;
  close(): Promise<void>;
}

export interface BellOptions {
  readonly db: PostgresDatabase;
  readonly bus: Bus;
  readonly clock: Clock;
  readonly log: Logger;
  readonly bootId: string;
  steady(): number;
}

/** The server takes less than 8 000. */
const MAX_BYTES = 7_500;
const MAX_WAITING = 2_000;
const BEAT_MS = 3_000;
const DEAF_MS = 8_000;
const FIRST_MS = 4_000;
/** A bell that was lost costs no more than this (SO2). */
const SWEEP_MS = 1_500;
const RECONNECT_MS = 500;
/** program_limit_exceeded: too many notifications wait. */
const QUEUE_FULL = "54000";

interface Message {
  readonly from: string;
  readonly events: readonly AppEvent[];
}

export function createBell(options: BellOptions): Bell {
  const { bus, clock, db, log } = options;
  const over = new AbortController();
  const channel = `herald_${db.namespace}`;
  const ears = createEars(options, channel, over.signal);
  const mouth = createMouth(options, channel);
  let chores: Promise<unknown> = Promise.resolve();
  let off = (): void => {};
  return {
    async start() {
      await ears.open();
      await mouth.open();
      mouth.beat();
      for (let waited = 0; !ears.hasHeard() && waited < FIRST_MS; waited += 50) await clock.sleep(50);
      // No pooler swallows them: that was refused at the first look (first-look.ts). So it passes, and to give up would only need somebody
      // who starts this process again; until then everybody looks every SWEEP_MS.
      if (!ears.hasHeard())
        log.warn({}, "no notification has come back from PostgreSQL yet; until one does, news of other processes come two seconds late");
      off = bus.on((event) => {
        if (crosses(event)) mouth.say(event);
      }, "here");
      chores = Promise.all([keepBeating(options, ears, mouth, over.signal), sweep(options, over.signal)]);
    },
    async close() {
      off();
      over.abort();
      await chores;
      await mouth.flush();
      await Promise.all([ears.close(), mouth.close()]);
    },
  };
}

async function sweep({ bus, clock }: BellOptions, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await clock.sleep(SWEEP_MS, signal);
    if (!signal.aborted) bus.emit({ type: "bells.missed" });
  }
}

async function keepBeating({ clock, bus, log, steady }: BellOptions, ears: Ears, mouth: Mouth, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await clock.sleep(BEAT_MS, signal);
    if (signal.aborted) return;
    mouth.beat();
    if (steady() - ears.heardAt() < DEAF_MS) continue;
    log.warn({}, "no notification came from PostgreSQL for a while; listening on another connection");
    await ears.reopen();
    bus.emit({ type: "bells.missed" });
  }
}

interface Ears {
  open(): Promise<void>;
  reopen(): Promise<void>;
  /** It has heard its own process. */
  hasHeard(): boolean;
  heardAt(): number;
  close(): Promise<void>;
}

function createEars({ db, bus, bootId, log, steady, clock }: BellOptions, channel: string, signal: AbortSignal): Ears {
  let client: Client | null = null;
  let hasHeard = false;
  let heardAt = 0;
  const textIn = createTextIn();
  const hear = (payload: string): void => {
    try {
      const { from, events } = JSON.parse(payload) as Message;
      if (from === bootId) {
        hasHeard = true;
        heardAt = steady();
        return;
      }
      for (const event of events) {
        const whole = textIn(event);
        if (whole !== null) bus.receive(whole);
      }
    } catch (error) {
      log.debug({ reason: errorText(error) }, "a notification could not be read");
    }
  };
  const open = async (): Promise<void> => {
    // An error while it connects is the caller's to hear of: there is nobody yet whose end it could be.
    const fresh = await db.connections.single(() => {});
    fresh.on("error", () => void reopen(fresh));
    fresh.on("end", () => void reopen(fresh));
    fresh.on("notification", ({ payload }) => hear(payload ?? ""));
    client = fresh;
    heardAt = steady();
    try {
      await fresh.query(`LISTEN ${fresh.escapeIdentifier(channel)}`);
    } catch (error) {
      if (client === fresh) client = null;
      throw error;
    }
  };
  const reopen = async (lost?: Client): Promise<void> => {
    // Only once for each that is lost.
    if (lost !== undefined && lost !== client) return;
    const old = client;
    client = null;
    void old?.end().catch(() => {});
    while (!signal.aborted && client === null) {
      try {
        await open();
        bus.emit({ type: "bells.missed" });
      } catch {
        await clock.sleep(RECONNECT_MS, signal);
      }
    }
  };
  return {
    open,
    reopen: () => reopen(),
    hasHeard: () => hasHeard,
    heardAt: () => heardAt,
    async close() {
      const last = client;
      client = null;
      await last?.end().catch(() => {});
    },
  };
}

interface Mouth {
  open(): Promise<void>;
  say(event: AppEvent): void;
  beat(): void;
  flush(): Promise<void>;
  close(): Promise<void>;
}

function createMouth({ db, bootId, log, clock }: BellOptions, channel: string): Mouth {
  let client: Client | null = null;
  let waiting: AppEvent[] = [];
  let sending: Promise<void> | null = null;
  let isTold = false;
  const textOut = createTextOut(clock, (event) => put(event));
  const put = (event: AppEvent): void => {
    if (waiting.length >= MAX_WAITING) {
      if (!isTold) log.warn({}, "PostgreSQL takes no notifications at the moment; other processes look by themselves");
      isTold = true;
      return;
    }
    waiting.push(event);
    void flush();
  };
  const drain = async (): Promise<void> => {
    // What is said in the same moment goes together.
    await new Promise((resolve) => setImmediate(resolve));
    while (waiting.length > 0) {
      const events = waiting;
      waiting = [];
      try {
        client ??= await db.connections.single(() => {
          client = null;
        });
        for (const payload of payloads(bootId, events)) await client.query("SELECT pg_notify($1, $2)", [channel, payload]);
        isTold = false;
      } catch (error) {
        const broken = client;
        client = null;
        void broken?.end().catch(() => {});
        log.debug({ reason: errorText(error) }, "notifications were lost");
        if ((error as { code?: string }).code === QUEUE_FULL && !isTold) {
          isTold = true;
          log.warn(
            { listener: await findStuck(db) },
            "PostgreSQL's queue of notifications is full, because somebody who listens does not read",
          );
        }
        await clock.sleep(RECONNECT_MS);
      }
    }
  };
  const flush = (): Promise<void> => {
    sending ??= drain().finally(() => {
      sending = null;
      if (waiting.length > 0) void flush();
    });
    return sending;
  };
  return {
    async open() {
      client = await db.connections.single(() => {
        client = null;
      });
    },
    say: (event) => (isText(event) ? textOut(event) : put(event)),
    beat: () => put({ type: "bells.missed" }),
    flush,
    async close() {
      await client?.end().catch(() => {});
    },
  };
}

/** Who keeps the server from forgetting what was said: inside a transaction nothing is read, and a client that hangs reads nothing. */
async function findStuck({ connections }: PostgresDatabase): Promise<string> {
  const sql = `SELECT pid, application_name AS name, coalesce(client_addr::text, 'local') AS address FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND (state LIKE 'idle in transaction%' OR wait_event = 'ClientWrite')
    ORDER BY xact_start LIMIT 3`;
  try {
    const { rows } = await connections.pool.query<{ pid: number; name: string; address: string }>(sql);
    return rows.map(({ pid, name, address }) => `${name === "" ? "somebody" : name} (pid ${pid}, ${address})`).join(", ");
  } catch {
    return "unknown";
  }
}

/** As few as hold them. One that alone is too long is dropped. */
function payloads(from: string, events: readonly AppEvent[]): string[] {
  const out: string[] = [];
  let batch: AppEvent[] = [];
  const text = (): string => JSON.stringify({ from, events: batch } satisfies Message);
  for (const event of events) {
    batch.push(event);
    if (Buffer.byteLength(text()) <= MAX_BYTES) continue;
    batch.pop();
    if (batch.length > 0) out.push(text());
    batch = [event];
    if (Buffer.byteLength(text()) > MAX_BYTES) batch = [];
  }
  if (batch.length > 0) out.push(text());
  return out;
}
