// `npm run move` and the gateways of a database keep out of each other's way. A database that is being filled is marked until it is
// complete: half of an installation looks like a whole one, and a gateway would go on with half of the runs. One that was moved away is
// marked for good: a gateway on it would do again what is done in a state folder by now. And while a move reads or
// writes, nobody begins: the mover holds a lock of its connection, which a gateway asks for in the very transaction that makes it one of
// the living. So whoever was first is seen by the other, and the server lets go of the lock of a mover that was killed.
import { AppError } from "../../core/errors.ts";
import { commandWords } from "../../core/own-files.ts";
import type { Query } from "../database.ts";
import type { PostgresDatabase } from "./database.ts";

/** In the table `kept`. */
const MARK = "move-unfinished";
const AWAY = "moved-away";
const MOVE = commandWords("move");

const lockOf = (namespace: string): string => `${namespace}/move`;

export async function isFilling(from: Query): Promise<boolean> {
  return (await from.get("SELECT 1 FROM kept WHERE name = ?", MARK)) !== undefined;
}

/** Durable on return: before anything else is written. */
export const markFilling = (db: PostgresDatabase, since: string): Promise<void> =>
  db.transaction([], async (tx) => {
    await tx.run("INSERT INTO kept (name, value) VALUES (?, ?) ON CONFLICT (name) DO NOTHING", MARK, since);
    await tx.run("DELETE FROM kept WHERE name = ?", AWAY);
  });

/** It is complete, and so is all that was committed before on its way to the disk. */
export const markFilled = (db: PostgresDatabase): Promise<number> =>
  db.transaction([], (tx) => tx.run("DELETE FROM kept WHERE name = ?", MARK));

/** Throws AppError("state"). */
export async function refuseHalfFilled(from: Query): Promise<void> {
  if (!(await isFilling(from))) return;
  throw new AppError(
    "state",
    `The database of store.url is being filled by ${MOVE}, or that was broken off and it holds half of an installation: run ${MOVE} again, which begins anew.`,
  );
}

/** What is in it lives in a state folder from now on. */
export const markAway = (db: PostgresDatabase, at: string): Promise<number> =>
  db.transaction([], (tx) =>
    tx.run("INSERT INTO kept (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value", AWAY, at),
  );

/** For whoever wants to work on it; to move once more what was left is nobody's harm. Throws AppError("state"). */
export async function refuseMarked(from: Query): Promise<void> {
  await refuseHalfFilled(from);
  const away = await from.get<{ value: string }>("SELECT value FROM kept WHERE name = ?", AWAY);
  if (away === undefined) return;
  throw new AppError(
    "state",
    `What is in the database of store.url was moved into a state folder at ${away.value}, and would be done a second time from here. Take store.url out of the settings and DATABASE_URL out of .env, and start Herald where that folder is. To go on from here all the same, as it was then: DELETE FROM kept WHERE name = '${AWAY}'.`,
  );
}

/** Asked in the transaction that makes a process one of the living; until its end no move begins. Throws AppError("state"). */
export async function refuseDuringMove(tx: Query, namespace: string): Promise<void> {
  const sql = 'SELECT pg_try_advisory_xact_lock_shared(hashtextextended(?, 0)) AS "isFree"';
  if ((await tx.get<{ isFree: boolean }>(sql, lockOf(namespace)))?.isFree !== true)
    throw new AppError("state", `The database of store.url is being moved by ${MOVE} just now; start Herald again when that is done.`);
  await refuseMarked(tx);
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
