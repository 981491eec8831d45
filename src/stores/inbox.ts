// What arrived and is not yet answered. A channel records raw updates here before it confirms them; the gateway
// moves each row new → waiting (for its session's turn) → done. A replay meets the UNIQUE key and changes nothing.
import type { Address } from "../core/address.ts";
import type { Clock } from "../core/clock.ts";
import type { HitFailpoint } from "../core/failpoints.ts";
import { draftBegun, type InboxSink } from "../core/message.ts";
import { type Database, RELAXED, type Tx } from "./database.ts";
import { lock } from "./lock-keys.ts";
import { orphaned } from "./nodes.ts";

export interface InboxRow {
  readonly id: number;
  readonly channel: string;
  readonly account: string;
  readonly raw: unknown;
  readonly sessionKey: string | null;
  /** How often a turn was begun for it; a message that kills the process every time must not do so for ever. */
  readonly attempts: number;
  readonly receivedAt: number;
}

export interface FoundUpdate {
  readonly id: number;
  readonly isDone: boolean;
  /** Whose turn it was for; null: for none, or nobody has looked at it yet. */
  readonly sessionKey: string | null;
}

type Updates = Parameters<InboxSink["put"]>[0];

export interface Inbox {
  /** The door for one channel's receive side. */
  sink(channel: string, account: string): InboxSink;
  /** Rows nobody looked at yet, oldest first, after row `afterId`. */
  listNew(afterId: number, limit: number): Promise<InboxRow[]>;
  /** new → waiting. False when it was not new any more. */
  route(id: number, sessionKey: string): Promise<boolean>;
  /** The waiting row of a session that was begun before, else the oldest, counted as one more attempt. */
  claim(sessionKey: string): Promise<InboxRow | null>;
  /** False: a stop has settled it since it was claimed. */
  isWaiting(id: number): Promise<boolean>;
  /** False: a stop has settled it, or another process answers it by now. */
  isOwn(id: number): Promise<boolean>;
  /** The message of this session that somebody is answering, here or in another process. */
  underWay(sessionKey: string): Promise<InboxRow | null>;
  /** Its turn waits for something: that is not counted either, and it stays with who answers it. */
  rest(id: number): Promise<void>;
  /** A claim that came to nothing through no fault of the message (disk full, shutdown) doesn't count. */
  release(id: number): Promise<void>;
  /** waiting → new, not counted: its channel is off. It is looked at, and routed, at the next start. */
  putBack(id: number): Promise<void>;
  /** The row of an update, as long as it is kept. */
  findUpdate(from: { readonly channel: string; readonly account: string }, externalId: string): Promise<FoundUpdate | null>;
  /** In the caller's transaction; the sink is one of its own. */
  put(tx: Tx, from: { readonly channel: string; readonly account: string }, updates: Updates, cursor?: string): Promise<void>;
  /**
   * A turn that no message asked for waits for its session like one, behind all that waits there. Once for each key. Never new, so
   * that nobody who reads on behind the last number it has seen can miss it: whoever wrote it rings for it.
   */
  wake(tx: Tx, to: Pick<Address, "channel" | "account">, wake: { key: string; sessionKey: string; raw: unknown }): Promise<void>;
  /** What a session has not answered yet, oldest first. */
  listWaiting(tx: Tx, sessionKey: string): Promise<InboxRow[]>;
  /** What came from there and is not settled, whether anybody has looked at it yet or not. One statement: nothing moves on in between. */
  listOpen(from: { readonly channel: string; readonly account: string }): Promise<InboxRow[]>;
  /** → done. False when it was done already: somebody else (a /stop) settled it, and the caller must not answer. */
  finish(tx: Tx, id: number): Promise<boolean>;
  /** All waiting rows of a session → done; returns their ids. */
  drop(tx: Tx, sessionKey: string): Promise<number[]>;
  /** On record before the platform is told. Null: one was begun before, or the message is answered. */
  beginDraft(id: number, sessionKey: string): Promise<InboxRow | null>;
  /** Where it stands; null: nothing stands there after all, or any more. */
  placeDraft(id: number, ref: string | null): Promise<void>;
  /** Where a draft of its answer stands, or may. */
  draftOf(tx: Tx, id: number): Promise<string | null>;
  /** The waiting rows of a session whose answers have a draft. */
  listDrafted(tx: Tx, sessionKey: string): Promise<InboxRow[]>;
  countWaiting(sessionKey: string): Promise<number>;
  /** Sessions with waiting rows whose key begins so, at most `limit`; all of them for the restart. */
  waitingSessions(prefix?: string, limit?: number): Promise<string[]>;
  /** Sessions with a message that somebody began to answer who is not alive any more. */
  orphanedSessions(): Promise<string[]>;
  /** Of the newest row; 0 when there is none. */
  lastId(): Promise<number>;
  /** Forgets settled rows older than `before`; their ids can't be replayed that late. */
  purge(before: number): Promise<number>;
}

interface Deps {
  db: Database;
  /** Whose claims these are. */
  bootId: string;
  clock: Clock;
  failpoint: HitFailpoint;
}

interface Stored {
  id: number;
  channel: string;
  account: string;
  raw: string | null;
  session_key: string | null;
  attempts: number;
  received_at: number;
}

/** The owner of what was begun and is nobody's now. */
const RELEASED = "";
const ONE_LESS = "attempts = CASE WHEN attempts > 0 THEN attempts - 1 ELSE 0 END";
/** Where nobody names a limit: more than there can be. */
const ALL = Number.MAX_SAFE_INTEGER;

export function createInbox(deps: Deps): Inbox {
  const { db, clock } = deps;
  const finish = async (tx: Tx, id: number): Promise<boolean> =>
    // The raw update is not needed any more; its id stays, so that a replay is recognised.
    (await tx.run("UPDATE inbox SET state = 'done', raw = NULL, done_at = ? WHERE id = ? AND state <> 'done'", clock.now(), id)) === 1;
  return {
    sink: (channel, account) => createSink(deps, channel, account),
    listNew: async (afterId, limit) =>
      (await db.all<Stored>("SELECT * FROM inbox WHERE state = 'new' AND id > ? ORDER BY id LIMIT ?", afterId, limit)).map(fromRow),
    ...answering(deps),
    ...drafting(deps),
    async findUpdate({ channel, account }, externalId) {
      const sql = "SELECT id, state, session_key FROM inbox WHERE channel = ? AND account = ? AND external_id = ?";
      const row = await db.get<{ id: number; state: string; session_key: string | null }>(sql, channel, account, externalId);
      return row === undefined ? null : { id: row.id, isDone: row.state === "done", sessionKey: row.session_key };
    },
    put: (...what) => put(deps, ...what),
    async wake(tx, { channel, account }, { key, sessionKey, raw }) {
      const sql = `INSERT INTO inbox (channel, account, external_id, raw, state, session_key, received_at) VALUES (?, ?, ?, ?, 'waiting', ?, ?)
        ON CONFLICT (channel, account, external_id) DO NOTHING`;
      await tx.run(sql, channel, account, `wake:${key}`, JSON.stringify(raw), sessionKey, clock.now());
      tx.emit({ type: "session.woken", sessionKey });
    },
    listWaiting: async (tx, sessionKey) =>
      (await tx.all<Stored>("SELECT * FROM inbox WHERE state = 'waiting' AND session_key = ? ORDER BY id", sessionKey)).map(fromRow),
    listOpen: async ({ channel, account }) => {
      // Two parts, each by its index; one statement, because a row goes from the one state to the other.
      const open = (state: string): string => `SELECT * FROM inbox WHERE state = '${state}' AND channel = ? AND account = ?`;
      const sql = `${open("new")} UNION ALL ${open("waiting")}`;
      return (await db.all<Stored>(sql, channel, account, channel, account)).map(fromRow);
    },
    finish,
    drop: async (tx, sessionKey) =>
      (
        await tx.all<{ id: number }>(
          "UPDATE inbox SET state = 'done', raw = NULL, done_at = ? WHERE state = 'waiting' AND session_key = ? RETURNING id",
          clock.now(),
          sessionKey,
        )
      )
        .map((row) => row.id)
        .sort((a, b) => a - b),
    countWaiting: async (sessionKey) =>
      (await db.get<{ n: number }>("SELECT count(*) AS n FROM inbox WHERE state = 'waiting' AND session_key = ?", sessionKey))?.n ?? 0,
    waitingSessions: async (prefix = "", limit = ALL) =>
      (
        await db.all<{ key: string }>(
          "SELECT DISTINCT session_key AS key FROM inbox WHERE state = 'waiting' AND session_key >= ? AND session_key < ? LIMIT ?",
          prefix,
          `${prefix}\u{10ffff}`,
          limit,
        )
      ).map((row) => row.key),
    async orphanedSessions() {
      const sql = `SELECT session_key AS key FROM inbox ${db.by("inbox_owned")} WHERE state = 'waiting' AND owner > '${RELEASED}' AND ${orphaned("inbox")}`;
      return [...new Set((await db.all<{ key: string }>(sql)).map((row) => row.key))];
    },
    lastId: async () => (await db.get<{ id: number | null }>("SELECT max(id) AS id FROM inbox"))?.id ?? 0,
    purge: (before) => db.transaction([], (tx) => tx.run("DELETE FROM inbox WHERE state = 'done' AND done_at < ?", before)),
  };
}

type Answering = Pick<Inbox, "route" | "claim" | "isWaiting" | "isOwn" | "underWay" | "rest" | "release" | "putBack">;

/** From being routed to being answered. */
function answering(deps: Deps): Answering {
  const { db } = deps;
  return {
    // Nobody waits for the disk from here to the answer: a power cut that takes a step back leaves a row that is looked at again.
    route: (id, sessionKey) =>
      db.transaction(
        [],
        async (tx) =>
          (await tx.run("UPDATE inbox SET state = 'waiting', session_key = ? WHERE id = ? AND state = 'new'", sessionKey, id)) === 1,
        RELAXED,
      ),
    claim: (sessionKey) =>
      db.transaction(
        [lock.tree(sessionKey)],
        async (tx) => {
          // One that came in before it may have been routed since. Answered first, it would stand in the transcript between the request
          // that was begun and its answer, and that request would be written there once more.
          const begun = `SELECT * FROM inbox ${db.by("inbox_owned")} WHERE state = 'waiting' AND owner IS NOT NULL AND session_key = ? ORDER BY id LIMIT 1`;
          const oldest = "SELECT * FROM inbox WHERE state = 'waiting' AND session_key = ? ORDER BY id LIMIT 1";
          const row = (await tx.get<Stored>(begun, sessionKey)) ?? (await tx.get<Stored>(oldest, sessionKey));
          if (row === undefined) return null;
          await tx.run("UPDATE inbox SET attempts = attempts + 1, owner = ? WHERE id = ?", deps.bootId, row.id);
          return { ...fromRow(row), attempts: row.attempts + 1 };
        },
        RELAXED,
      ),
    isWaiting: async (id) => (await db.get("SELECT 1 FROM inbox WHERE id = ? AND state = 'waiting'", id)) !== undefined,
    isOwn: async (id) =>
      (await db.get("SELECT 1 FROM inbox WHERE id = ? AND state = 'waiting' AND owner = ?", id, deps.bootId)) !== undefined,
    async underWay(sessionKey) {
      const sql = `SELECT * FROM inbox WHERE state = 'waiting' AND session_key = ? AND owner > '${RELEASED}' ORDER BY id LIMIT 1`;
      const row = await db.get<Stored>(sql, sessionKey);
      return row === undefined ? null : fromRow(row);
    },
    async rest(id) {
      await db.transaction([], (tx) => tx.run(`UPDATE inbox SET ${ONE_LESS} WHERE id = ?`, id), RELAXED);
    },
    async release(id) {
      await db.transaction([], (tx) => tx.run(`UPDATE inbox SET owner = '${RELEASED}', ${ONE_LESS} WHERE id = ?`, id), RELAXED);
    },
    async putBack(id) {
      const sql = `UPDATE inbox SET state = 'new', session_key = NULL, owner = NULL, ${ONE_LESS} WHERE id = ? AND state = 'waiting'`;
      await db.transaction([], (tx) => tx.run(sql, id));
    },
  };
}

/** What people see of an answer before it is whole, where that doesn't vanish by itself. */
function drafting({ db, clock }: Deps): Pick<Inbox, "beginDraft" | "placeDraft" | "draftOf" | "listDrafted"> {
  return {
    // Under the session's lock: a stop either finds the draft among what it ends, or no draft is begun any more.
    beginDraft: (id, sessionKey) =>
      db.transaction([lock.tree(sessionKey)], async (tx) => {
        const sql = "UPDATE inbox SET draft = ? WHERE id = ? AND state = 'waiting' AND draft IS NULL RETURNING *";
        const row = await tx.get<Stored>(sql, draftBegun(clock.now()), id);
        return row === undefined ? null : fromRow(row);
      }),
    async placeDraft(id, ref) {
      await db.transaction([], (tx) => tx.run("UPDATE inbox SET draft = ? WHERE id = ? AND draft IS NOT NULL", ref, id));
    },
    draftOf: async (tx, id) => (await tx.get<{ draft: string | null }>("SELECT draft FROM inbox WHERE id = ?", id))?.draft ?? null,
    listDrafted: async (tx, sessionKey) => {
      const sql = "SELECT * FROM inbox WHERE state = 'waiting' AND session_key = ? AND draft IS NOT NULL ORDER BY id";
      return (await tx.all<Stored>(sql, sessionKey)).map(fromRow);
    },
  };
}

async function put({ clock, failpoint }: Deps, ...[tx, { channel, account }, updates, cursor]: Parameters<Inbox["put"]>): Promise<void> {
  failpoint("inbox.before-put");
  const now = clock.now();
  for (const { externalId, raw } of updates) {
    await tx.run(
      `INSERT INTO inbox (channel, account, external_id, raw, state, received_at) VALUES (?, ?, ?, ?, 'new', ?)
       ON CONFLICT (channel, account, external_id) DO NOTHING`,
      ...[channel, account, externalId, JSON.stringify(raw), now],
    );
  }
  if (cursor !== undefined) {
    await tx.run(
      `INSERT INTO channel_cursor (channel, account, value, at) VALUES (?, ?, ?, ?)
       ON CONFLICT (channel, account) DO UPDATE SET value = excluded.value, at = excluded.at`,
      ...[channel, account, cursor, now],
    );
  }
  tx.emit({ type: "inbox.added", channel });
}

function createSink(deps: Deps, channel: string, account: string): InboxSink {
  const { db } = deps;
  return {
    async put(updates, cursor) {
      await db.transaction([lock.inbox], (tx) => put(deps, tx, { channel, account }, updates, cursor));
    },
    async cursor() {
      return (
        (await db.get<{ value: string; at: number }>(
          "SELECT value, at FROM channel_cursor WHERE channel = ? AND account = ?",
          channel,
          account,
        )) ?? null
      );
    },
  };
}

/** A row whose JSON is damaged decodes to nothing, so it is settled like any update that says nothing. */
function fromRow(row: Stored): InboxRow {
  let raw: unknown = null;
  try {
    raw = row.raw === null ? null : JSON.parse(row.raw);
  } catch {
    raw = null;
  }
  return {
    id: row.id,
    channel: row.channel,
    account: row.account,
    raw,
    sessionKey: row.session_key,
    attempts: row.attempts,
    receivedAt: row.received_at,
  };
}
