// Transactions over the one SQLite connection, asynchronous: a line in which one waits for the other, the transaction that is open,
// and who reads in it. A transaction's work may await; whoever else wants the connection meanwhile waits in line, or would read
// rows that are not committed and write into somebody else's transaction.
import { AsyncLocalStorage } from "node:async_hooks";
import type { DatabaseSync, StatementSync } from "node:sqlite";
import type { AppEvent } from "../core/events.ts";

export interface Statements {
  get(sql: string, ...params: (string | number | null)[]): unknown;
  all(sql: string, ...params: (string | number | null)[]): unknown[];
  run(sql: string, ...params: (string | number | null)[]): number;
}

/** Makes a statement in the transaction that is open; throws when it is over. */
export type Ask = <T>(work: (from: Statements) => T) => T;

export interface TransactionDeps<Tx> {
  readonly db: DatabaseSync;
  readonly doubt: { settle(): void; hear(error: unknown): void };
  readonly sync: { set(wanted: "FULL" | "NORMAL"): void };
  readonly options: {
    check?(isRelaxed: boolean): void;
    onSlow?(ms: number): void;
    onEvent?(event: AppEvent): void;
  };
  /** Asked at the end of the work, in the transaction; gives what is left to be told after it. */
  atEnd(tx: Tx, events: readonly AppEvent[]): Promise<readonly AppEvent[]>;
  readonly statements: Statements;
  statement(sql: string): StatementSync;
  /** What its work is handed. */
  txOf(ask: Ask, emit: (event: AppEvent) => void): Tx;
}

export interface Transactions<Tx> {
  /** In the transaction it is asked from; else when nobody's is open. */
  read<T>(ask: (from: Statements) => T): Promise<T>;
  transact<T>(work: (tx: Tx) => Promise<T>, isRelaxed: boolean): Promise<T>;
  /** While no transaction is open. */
  alone<T>(work: () => T): Promise<T>;
}

const SLOW_MS = 50;

export function createTransactions<Tx>(deps: TransactionDeps<Tx>): Transactions<Tx> {
  const { statements, options } = deps;
  const line = createLine();
  const inside = new AsyncLocalStorage<OpenTransaction>();
  const openHere = (): OpenTransaction | null => {
    const known = inside.getStore();
    // What was begun in a transaction's work and outlived it is outside again.
    return known?.isOpen() === true ? known : null;
  };
  return {
    async read(ask) {
      const open = openHere();
      if (open !== null) return open.ask(ask);
      return line.isFree() ? ask(statements) : line.pass(() => ask(statements));
    },
    async transact<T>(work: (tx: Tx) => Promise<T>, isRelaxed: boolean): Promise<T> {
      if (openHere() !== null) throw new Error("a transaction can't be begun inside another");
      return line.pass(async () => {
        const open = createOpen(statements);
        const tx = deps.txOf(open.ask, open.emit);
        let left: readonly AppEvent[] = [];
        const whole = async (): Promise<T> => {
          const result = await work(tx);
          if (open.events.length > 0) left = await deps.atEnd(tx, open.events);
          return result;
        };
        const result = await commit(deps, open, isRelaxed, () => inside.run(open, whole));
        // Before the next one begins: what is told to stop here must not begin anything there.
        for (const event of left) options.onEvent?.(event);
        return result;
      });
    },
    alone: (work) => line.pass(work),
  };
}

async function commit<T>(
  deps: Omit<TransactionDeps<unknown>, "txOf" | "atEnd">,
  open: OpenTransaction,
  isRelaxed: boolean,
  work: () => Promise<T>,
): Promise<T> {
  const { db, doubt, sync, options, statement } = deps;
  const startedAt = performance.now();
  try {
    // A relaxed one too: a gateway that lost its folder must not touch rows that another may work on by now.
    options.check?.(isRelaxed);
    doubt.settle();
    sync.set(isRelaxed ? "NORMAL" : "FULL");
    statement("BEGIN IMMEDIATE").run();
    const result = await work();
    open.end();
    open.throwIfBroken();
    statement("COMMIT").run();
    return result;
  } catch (error) {
    open.end();
    doubt.hear(error);
    // After a failed COMMIT (disk full) SQLite may have rolled back already.
    if (db.isTransaction) statement("ROLLBACK").run();
    throw error;
  } finally {
    const heldMs = performance.now() - startedAt;
    if (heldMs > SLOW_MS) options.onSlow?.(heldMs);
  }
}

interface Line {
  isFree(): boolean;
  /** When all who came before have passed. */
  pass<T>(work: () => T | Promise<T>): Promise<T>;
}

/** One after the other, in the order they came. */
function createLine(): Line {
  let isTaken = false;
  const waiting: (() => void)[] = [];
  return {
    isFree: () => !isTaken,
    async pass(work) {
      if (isTaken) await new Promise<void>((resolve) => waiting.push(resolve));
      isTaken = true;
      try {
        return await work();
      } finally {
        const next = waiting.shift();
        // Handed over, never let go of in between: who comes by just then would pass those who wait.
        if (next === undefined) isTaken = false;
        else next();
      }
    },
  };
}

/** A transaction as its own work sees it, and all that is called from there. */
interface OpenTransaction {
  readonly ask: Ask;
  readonly events: readonly AppEvent[];
  emit(event: AppEvent): void;
  isOpen(): boolean;
  end(): void;
  throwIfBroken(): void;
}

/**
 * What one statement throws is the end of the whole transaction, also when somebody in between catches it and answers in words:
 * half of what belongs together must not stay.
 */
function createOpen(statements: Statements): OpenTransaction {
  let isOpen = true;
  let broken: { readonly error: unknown } | null = null;
  const events: AppEvent[] = [];
  const ask: Ask = (work) => {
    // Somebody did not wait for it: its statement would stand alone, outside of any transaction.
    if (!isOpen) throw new Error("this transaction is over");
    try {
      return work(statements);
    } catch (error) {
      broken ??= { error };
      throw error;
    }
  };
  return {
    emit: (event) => void events.push(event),
    events,
    isOpen: () => isOpen,
    ask,
    end() {
      isOpen = false;
    },
    throwIfBroken() {
      if (broken !== null) throw broken.error;
    },
  };
}
