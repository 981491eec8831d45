// Browsers that are signed in to the page. What a browser holds is kept as hashes only: whoever reads this table, or a
// backup of it, can't become one of them.
import type { Clock } from "../core/clock.ts";
import { newId } from "../core/ids.ts";
import { type Database, PASSING } from "./database.ts";
import { lock } from "./lock-keys.ts";

export interface Browser {
  readonly id: string;
  readonly signedInAt: number;
  readonly seenAt: number;
  /** The address it was last seen from. */
  readonly seenFrom: string;
  /** What it calls itself: its own words, to be shown as text. */
  readonly agent: string;
}

/** Hashes of what the browser holds, and a mark of the token it was let in with. */
export interface Proof {
  readonly cookieHash: string;
  readonly keyHash: string;
  readonly tokenMark: string;
}

export interface Browsers {
  /** Durable on return; its id. The ones not seen for longest make room. */
  add(browser: Proof & Pick<Browser, "seenFrom" | "agent">): Promise<string>;
  find(cookieHash: string): Promise<(Browser & Pick<Proof, "keyHash">) | null>;
  get(id: string): Promise<Browser | null>;
  /** Nobody was promised a time of day: not waited for on its way to the disk. */
  seen(id: string, from: string): Promise<void>;
  /** The one seen last first. */
  list(): Promise<Browser[]>;
  /** False when it was not there (any more). */
  end(id: string): Promise<boolean>;
  /** All but this one; returns how many. */
  endOthers(id: string | null): Promise<number>;
  /** Ends those let in with another token, and those that signed in before. */
  endOld(tokenMark: string, before: number): Promise<number>;
}

const MAX_BROWSERS = 100;
const COLUMNS = 'id, signed_in_at AS "signedInAt", seen_at AS "seenAt", seen_from AS "seenFrom", agent';

export function createBrowsers({ db, clock }: { db: Database; clock: Clock }): Browsers {
  return {
    add: ({ cookieHash, keyHash, tokenMark, seenFrom, agent }) =>
      db.transaction([lock.browsers], async (tx) => {
        const id = newId();
        const now = clock.now();
        await tx.run(
          "INSERT INTO browsers (id, cookie_hash, key_hash, token_mark, signed_in_at, seen_at, seen_from, agent) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
          ...[id, cookieHash, keyHash, tokenMark, now, now, seenFrom, agent],
        );
        await tx.run(
          // The new one stays whatever the clock says, and the others in what is left.
          "DELETE FROM browsers WHERE id <> ? AND id NOT IN (SELECT id FROM browsers WHERE id <> ? ORDER BY seen_at DESC, id LIMIT ?)",
          ...[id, id, MAX_BROWSERS - 1],
        );
        return id;
      }),
    find: async (cookieHash) =>
      (await db.get<Browser & { keyHash: string }>(
        `SELECT ${COLUMNS}, key_hash AS "keyHash" FROM browsers WHERE cookie_hash = ?`,
        cookieHash,
      )) ?? null,
    get: async (id) => (await db.get<Browser>(`SELECT ${COLUMNS} FROM browsers WHERE id = ?`, id)) ?? null,
    async seen(id, from) {
      await db.transaction(
        [],
        (tx) => tx.run("UPDATE browsers SET seen_at = ?, seen_from = ? WHERE id = ?", clock.now(), from, id),
        PASSING,
      );
    },
    list: async () => (await db.all<Browser>(`SELECT ${COLUMNS} FROM browsers ORDER BY seen_at DESC, id`)).map((row) => ({ ...row })),
    end: async (id) => (await db.transaction([], (tx) => tx.run("DELETE FROM browsers WHERE id = ?", id))) === 1,
    endOthers: (id) => db.transaction([], (tx) => tx.run("DELETE FROM browsers WHERE id <> ?", id ?? "")),
    endOld: (tokenMark, before) =>
      db.transaction([], (tx) => tx.run("DELETE FROM browsers WHERE token_mark <> ? OR signed_in_at < ?", tokenMark, before)),
  };
}
