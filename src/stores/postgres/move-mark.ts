// `npm run move` and the gateways of a database keep out of each other's way. A database that is being filled is marked until it is
// complete: half of an installation looks like a whole one, and a gateway would go on with half of the runs. And while a move reads or
// writes, nobody begins: the mover holds a lock of its connection, which a gateway asks for in the very transaction that makes it one of
// the living. So whoever was first is seen by the other, and the server lets go of the lock of a mover that was killed.
import { AppError } from "../../core/errors.ts";
import { commandWords } from "../../core/own-files.ts";
import type { Query } from "../database.ts";
import type { PostgresDatabase } from "./database.ts";

/** In the table `kept`. */
const MARK = "move-unfinished";
const MOVE = commandWords("move");

const lockOf = (namespace: string): string => `${namespace}/move`;

export async function isFilling(from: Query): Promise<boolean> {
  return (await from.get("SELECT 1 FROM kept WHERE name = ?", MARK)) !== undefined;
}

/** Durable on return: before anything else is written. */
export const markFilling = (db: PostgresDatabase, since: string): Promise<number> =>
  db.transaction([], (tx) => tx.run("INSERT INTO kept (name, value) VALUES (?, ?) ON CONFLICT (name) DO NOTHING", MARK, since));

/** It is complete, and so is all that was committed before on its way to the disk. */
export const markFilled = (db: PostgresDatabase): Promise<number> =>
  db.transaction([], (tx) => tx.run("DELETE FROM kept WHERE name = ?", MARK));

/** For whoever wants to work on it. Throws AppError("state"). */
export async function refuseHalfFilled(from: Query): Promise<void> {
  if (!(await isFilling(from))) return;
  throw new AppError(
    "state",
    `The database of store.url is being filled by ${MOVE}, or that was broken off and it holds half of an installation: run ${MOVE} again, which begins anew.`,
  );
}

/** Asked in the transaction that makes a process one of the living; until its end no move begins. Throws AppError("state"). */
export async function refuseDuringMove(tx: Query, namespace: string): Promise<void> {
  const sql = 'SELECT pg_try_advisory_xact_lock_shared(hashtextextended(?, 0)) AS "isFree"';
  if ((await tx.get<{ isFree: boolean }>(sql, lockOf(namespace)))?.isFree !== true)
    throw new AppError("state", `The database of store.url is being moved by ${MOVE} just now; start Herald again when that is done.`);
  await refuseHalfFilled(tx);
}

export interface MoveLock {
  /** Throws when the connection that holds the lock was cut: by now others may work here. */
  check(): void;
  release(): Promise<void>;
}

/** Throws AppError("locked") when another move holds it. */
export async function takeMoveLock({ connections, namespace }: PostgresDatabase): Promise<MoveLock> {
  let isCut = false;
  const client = await connections.single(() => {
    isCut = true;
  });
  const { rows } = await client.query<{ isMine: boolean }>('SELECT pg_try_advisory_lock(hashtextextended($1, 0)) AS "isMine"', [
    lockOf(namespace),
  ]);
  if (rows[0]?.isMine !== true) {
    await client.end();
    throw new AppError("locked", `Another ${MOVE}, or a Herald that starts just now, uses this database. Try again when it is done.`);
  }
  return {
    check() {
      if (isCut) throw new AppError("storage", "the connection to PostgreSQL was cut");
    },
    release: () => client.end(),
  };
}
