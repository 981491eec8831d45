// The end of a transaction, and what became of one whose COMMIT got no answer. Taken for failed although it went through, a message would
// be put down a second time by whoever tries again; taken for done although it is not there, it would be lost for good.
//
// Its number doesn't tell. A server that crashed gives those out again that never came to its disk: asked for ours, it may say "committed"
// of what somebody else did under it since. So a transaction leaves a mark that is committed with it, or not, in the same trip as its
// COMMIT: the line it came by (one connection, a row each), and how many that line had. The number says only how long to wait: what is
// still under way may yet go through.
import { setTimeout as sleep } from "node:timers/promises";
import type { Pool, PoolClient, QueryResult } from "pg";
import { newId } from "../../core/ids.ts";

export interface Ending {
  /** Of the transaction, as the server numbers it. */
  readonly xid: string;
  /** False: nobody has made sure of the tables yet. Then there is its number alone. */
  readonly isMarked: boolean;
}

interface Mark {
  readonly line: string;
  readonly n: number;
}

const ASK_TRIES = 10;
const ASK_EVERY_MS = 300;

const NOW = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint";
/** By the server's clock alone; far longer than anybody asks for a mark. A line that lives on after all leaves the next one as its first. */
export const FORGET_LINES = `DELETE FROM commits WHERE line IN
  (SELECT line FROM commits WHERE at < ${NOW} - 3600000 FOR UPDATE SKIP LOCKED)`;

/** Throws when it is not there, or nobody can say so. */
export function createCommit(pool: Pool): (client: PoolClient, ending: Ending) => Promise<void> {
  const marks = new WeakMap<PoolClient, Mark>();
  const nextOf = (client: PoolClient): Mark => {
    const { line, n } = marks.get(client) ?? { line: newId(), n: 0 };
    const mark = { line, n: n + 1 };
    marks.set(client, mark);
    return mark;
  };
  return async (client, { xid, isMarked }) => {
    const mark = isMarked ? nextOf(client) : null;
    let last: QueryResult | undefined;
    try {
      // Of two statements there are two results.
      const results: unknown = await client.query(mark === null ? "COMMIT" : `${leave(client, mark)}; COMMIT`);
      last = ([results].flat() as QueryResult[]).at(-1);
    } catch (error) {
      // An answer that says no is one.
      if (isRefusal(error) || (await fateOf(pool, xid, mark)) !== "committed") throw error;
      return;
    }
    // So it answers to the COMMIT of what has failed before.
    if (last?.command !== "COMMIT") throw new Error("the transaction was rolled back");
  };
}

const leave = (client: PoolClient, { line, n }: Mark): string =>
  `INSERT INTO commits (line, n, at) VALUES (${client.escapeLiteral(line)}, ${n}, ${NOW})
   ON CONFLICT (line) DO UPDATE SET n = excluded.n, at = excluded.at`;

/** The server says what is wrong, and not that it ends just now: then the transaction is over, and nothing of it is there. */
function isRefusal(error: unknown): boolean {
  const { code = "" } = error as { code?: string };
  return /^[0-9A-Z]{5}$/.test(code) && !/^(?:08|57)/.test(code);
}

/** Null: it can't be found out; whoever tries again finds what is there. */
async function fateOf(pool: Pool, xid: string, mark: Mark | null): Promise<string | null> {
  for (let tries = 0; tries < ASK_TRIES; tries++) {
    await sleep(ASK_EVERY_MS);
    try {
      const status = await statusOf(pool, xid);
      if (status === "in progress") continue;
      if (mark === null) return status;
      // A statement of its own, begun after that answer: one for both could look for the mark just before it is committed, and ask for the
      // number just after.
      const { rowCount } = await pool.query("SELECT 1 FROM commits WHERE line = $1 AND n = $2", [mark.line, mark.n]);
      return rowCount === 1 ? "committed" : "aborted";
    } catch {
      // It is not back yet.
    }
  }
  return null;
}

async function statusOf(pool: Pool, xid: string): Promise<string | null> {
  try {
    const { rows } = await pool.query<{ status: string | null }>("SELECT pg_xact_status($1::text::xid8) AS status", [xid]);
    return rows[0]?.status ?? null;
  } catch (error) {
    // Of the future: the server crashed before it knew of it.
    if ((error as { code?: string }).code === "22023") return "aborted";
    throw error;
  }
}
