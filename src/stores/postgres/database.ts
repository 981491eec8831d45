// PostgreSQL as a `Database`: READ COMMITTED, and every transaction takes its locks first, by name (lock-keys.ts), before it reads
// anything. Each statement sees what is committed when it begins, so what is read behind a lock is what the last holder left; in
// REPEATABLE READ it would be what was there before the lock.
//
// The fence. Every transaction of a node looks for the node's own row, FOR KEY SHARE: that doesn't collide with the renewal of its
// lease, but with DELETE. So a node that was declared dead writes nothing any more: its commit was there before the funeral, or it
// finds no row. (FOR SHARE would keep a busy node from renewing its lease at all.)
//
// The server can crash while we live, and takes along what it did not write down yet. So a relaxed transaction is waited for here like
// any other: somebody goes on from it in memory (a claim, a line of a transcript, a number that a tab has seen), and gone it would be done
// a second time by another process, or never. Only what is passing is not.
//
// The answer to a COMMIT can be lost. Then the server is asked what became of that very transaction (commit.ts), by a mark that every
// transaction of a node leaves: its number may be somebody else's after a crash.
import { AsyncLocalStorage } from "node:async_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import type { PoolClient, QueryResult } from "pg";
import { AppError } from "../../core/errors.ts";
import type { AppEvent } from "../../core/events.ts";
import type { Logger } from "../../core/logger.ts";
import { cleanWith, type Database, PASSING, type Params, RELAXED, type TransactionOptions, type Tx } from "../database.ts";
import { isPlain, literal } from "../letter-case.ts";
import type { LockKey } from "../lock-keys.ts";
import { createCommit, FORGET_LINES } from "./commit.ts";
import { type Connections, openConnections } from "./connections.ts";
import { firstLook, LETTERS } from "./first-look.ts";
import { createReach, isAgedPlan, isPassing, isTooSlow, type Reach } from "./reach.ts";
import { createStatements, type Numbered, type Statements } from "./statement.ts";

export interface PostgresDatabase extends Database {
  /** In the transaction it is asked from, else in a relaxed one of its own: for what is no row in other databases. */
  write<T>(work: (tx: Tx) => Promise<T>): Promise<T>;
  /** From now on only as this node, for as long as its row is there. */
  fence(nodeId: string): void;
  /** What keeps it from being used; null: nothing does. */
  problem(): string | null;
  /** Tells this installation from others in the same database: its schema. */
  readonly namespace: string;
  readonly connections: Connections;
  close(): Promise<void>;
}

export interface PostgresOptions {
  readonly url: string;
  readonly poolSize: number;
  readonly log: Logger;
  readonly name: string;
  readonly leaseMs?: number;
  steady(): number;
  redact?(text: string): string;
  /** Told of what a transaction has to say, once it is committed. */
  onEvents?(events: readonly AppEvent[]): void;
  /** The node's row is gone: somebody else has taken its work over. */
  onLost?(): void;
  onChange?(): void;
  onSlow?(ms: number): void;
}

const MAX_TRIES = 6;
const RETRY_MS = 20;
const SLOW_MS = 1_000;

/** Throws AppError("state") in words when it can't be reached or is not what we need. Makes no tables. */
export async function openPostgres(options: PostgresOptions): Promise<PostgresDatabase> {
  const connections = await openConnections(options);
  const { schema, knowsLetters } = await firstLook(connections).catch(async (error: unknown) => {
    await connections.close();
    throw error;
  });
  const state: State = {
    ...options,
    connections,
    commit: createCommit(connections.pool),
    reach: createReach(options),
    inside: new AsyncLocalStorage<Open>(),
    clean: cleanWith(options.redact ?? ((text) => text)),
    statements: createStatements(),
    namespace: schema,
    nodeId: null,
  };
  const ask = <T>(work: (open: Asking) => Promise<T>): Promise<T> => read(state, work);
  return {
    get: async <T>(sql: string, ...params: Params) => (await ask((from) => from(sql, params))).rows[0] as T | undefined,
    all: async <T>(sql: string, ...params: Params) => (await ask((from) => from(sql, params))).rows as T[],
    transaction: (keys, work, how = {}) => transact(state, keys, work, how),
    write(work) {
      const open = openHere(state);
      return open === null ? transact(state, [], work, RELAXED) : work(open.tx);
    },
    // Its planner needs no hint.
    by: () => "",
    // A trip each, and nobody here waits on its thread.
    stretch: 5_000,
    holds(column, words) {
      const upper = (text: string): string => `upper(${text}${knowsLetters ? ` COLLATE "${LETTERS}"` : ""})`;
      if (isPlain(words)) return { sql: `${column} ILIKE ? ESCAPE '\\'`, param: `%${literal(words)}%` };
      return { sql: `${upper(column)} LIKE ${upper("?::text")} ESCAPE '\\'`, param: `%${literal(words)}%` };
    },
    // Autovacuum does the rest.
    optimize: () => transact(state, [], async (tx) => void (await tx.run(FORGET_LINES)), PASSING),
    fence(nodeId) {
      state.nodeId = nodeId;
    },
    problem: () => state.reach.problem(),
    namespace: state.namespace,
    connections,
    close: () => connections.close(),
  };
}

interface State extends PostgresOptions {
  readonly connections: Connections;
  readonly commit: ReturnType<typeof createCommit>;
  readonly reach: Reach;
  readonly inside: AsyncLocalStorage<Open>;
  clean(params: Params): Params;
  readonly namespace: string;
  readonly statements: Statements;
  nodeId: string | null;
}

type Asking = (sql: string, params: Params) => Promise<QueryResult>;

/** A transaction as its own work sees it, and all that is called from there. */
interface Open {
  readonly tx: Tx;
  readonly ask: Asking;
  readonly events: AppEvent[];
  isOpen: boolean;
  broken: { readonly error: unknown } | null;
}

function openHere({ inside }: State): Open | null {
  const known = inside.getStore();
  // What was begun in a transaction's work and outlived it is outside again.
  return known?.isOpen === true ? known : null;
}

async function read<T>(state: State, work: (from: Asking) => Promise<T>): Promise<T> {
  const open = openHere(state);
  if (open !== null) return work(open.ask);
  return again(state, () =>
    state.reach.attempt(async () => {
      const client = await state.connections.pool.connect();
      let failure: unknown;
      try {
        return await work((sql, params) => query(client, state.statements.numbered(sql), state.clean(params)));
      } catch (error) {
        failure = error;
        throw error;
      } finally {
        client.release(isWorn(failure));
      }
    }),
  );
}

/** A connection that must not be used again: it broke, or it holds plans of tables as they were. */
const isWorn = (failure: unknown): boolean =>
  failure !== undefined && (isAgedPlan(failure) || !/^[0-9A-Z]{5}$/.test((failure as { code?: string }).code ?? ""));

async function again<T>({ statements }: State, work: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    const era = statements.era();
    try {
      return await work();
    } catch (error) {
      if (isTooSlow(error)) throw new AppError("storage", "PostgreSQL took too long for a statement, or somebody held a lock for too long");
      if (tries >= MAX_TRIES || !isPassing(error)) throw error;
      if (isAgedPlan(error)) statements.renew(era);
      await sleep(RETRY_MS * tries * (0.5 + Math.random()));
    }
  }
}

async function transact<T>(
  state: State,
  keys: readonly LockKey[],
  work: (tx: Tx) => Promise<T>,
  { passing = false }: TransactionOptions,
): Promise<T> {
  if (openHere(state) !== null) throw new Error("a transaction can't be begun inside another");
  const startedAt = performance.now();
  const { result, events } = await again(state, () => state.reach.attempt(() => once(state, keys, work, passing)));
  const heldMs = performance.now() - startedAt;
  if (heldMs > SLOW_MS) state.onSlow?.(heldMs);
  if (events.length > 0) state.onEvents?.(events);
  return result;
}

async function once<T>(state: State, keys: readonly LockKey[], work: (tx: Tx) => Promise<T>, isPassing: boolean) {
  const client = await state.connections.pool.connect();
  const open = createOpen(client, state);
  let failure: unknown;
  let isOpen = false;
  try {
    const xid = await begin(client, state, keys, isPassing);
    const result = await state.inside.run(open, () => work(open.tx));
    open.isOpen = false;
    if (open.broken !== null) throw open.broken.error;
    await state.commit(client, { xid, isMarked: state.nodeId !== null });
    return { result, events: open.events };
  } catch (error) {
    open.isOpen = false;
    failure = error;
    // A line that is cut rolls back by itself.
    await client.query("ROLLBACK").catch(() => {
      isOpen = true;
    });
    throw error;
  } finally {
    // Whoever had it next would write into a transaction that is still open, and think it was his own.
    client.release(isOpen || isWorn(failure));
  }
}

function createOpen(client: PoolClient, state: State): Open {
  const ask: Asking = async (sql, params) => {
    // Somebody did not wait for it: its statement would stand alone, outside of any transaction.
    if (!open.isOpen) throw new Error("this transaction is over");
    try {
      return await query(client, state.statements.numbered(sql), state.clean(params));
    } catch (error) {
      open.broken ??= { error };
      throw error;
    }
  };
  const tx: Tx = {
    get: async <T>(sql: string, ...params: Params) => (await ask(sql, params)).rows[0] as T | undefined,
    all: async <T>(sql: string, ...params: Params) => (await ask(sql, params)).rows as T[],
    run: async (sql, ...params) => (await ask(sql, params)).rowCount ?? 0,
    emit: (event) => void open.events.push(event),
  };
  const open: Open = { tx, ask, events: [], isOpen: true, broken: null };
  return open;
}

const query = (client: PoolClient, { name, text }: Numbered, values: Params): Promise<QueryResult> => client.query({ name, text, values });

/** One trip: begin, all locks in the order of their hashes, so that two never wait for each other, then the fence. Returns its number. */
async function begin(client: PoolClient, state: State, keys: readonly LockKey[], isPassing: boolean): Promise<string> {
  const statements = [
    `BEGIN${isPassing ? "; SET LOCAL synchronous_commit = off" : ""}`,
    ...(keys.length === 0 ? [] : [locksOf(client, state.namespace, keys)]),
    ...(state.nodeId === null ? [] : [`SELECT 1 FROM nodes WHERE id = ${client.escapeLiteral(state.nodeId)} FOR KEY SHARE`]),
    "SELECT pg_current_xact_id()::text AS xid",
  ];
  const results = (await client.query(statements.join("; "))) as unknown as QueryResult[];
  if (state.nodeId !== null && results.at(-2)?.rowCount !== 1) {
    state.onLost?.();
    throw new AppError("storage", "another process has taken this one's work over; it ends");
  }
  return (results.at(-1)?.rows as { xid: string }[] | undefined)?.[0]?.xid ?? "";
}

/** DISTINCT keeps the subquery from being flattened, or they would be taken in any order. */
function locksOf(client: PoolClient, namespace: string, keys: readonly LockKey[]): string {
  const names = keys.map((key) => client.escapeLiteral(`${namespace}/${key}`)).join(", ");
  return `SELECT pg_advisory_xact_lock(h) FROM (SELECT DISTINCT hashtextextended(k, 0) AS h FROM unnest(ARRAY[${names}]) AS k ORDER BY 1) AS s`;
}
