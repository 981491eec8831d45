// What people are asked. One row for each call that asks, settled once: the compare-and-set on `open` decides between two answers, an
// answer and its expiry, and whoever comes after reads how it ended. What is asked and in which words is decided in questions/.
import { randomBytes } from "node:crypto";
import type { Address } from "../core/address.ts";
import type { Clock } from "../core/clock.ts";
import type { NewQuestion, Person, Question, QuestionKind, QuestionState, Verdict } from "../core/question.ts";
import { type Database, parseColumn, type Tx } from "./database.ts";

export interface Questions {
  /** The question of this call; a new row, or the one that is there. The caller holds the tree's lock. */
  put(tx: Tx, question: NewQuestion): Promise<{ readonly question: Question; readonly isNew: boolean }>;
  get(id: string): Promise<Question | null>;
  findByCall(callKey: string): Promise<Question | null>;
  /** Open ones of a chat and everything below it, oldest first. */
  listOpen(rootKey: string): Promise<Question[]>;
  /** Of a chat and everything below it, open or not: whose id begins so. */
  listByPrefix(rootKey: string, prefix: string): Promise<Question[]>;
  /** Open ones of the whole installation, oldest first. */
  listAllOpen(limit: number): Promise<Question[]>;
  /** Open ones of calls (questions/asker.ts), which end with their process. */
  listOfCalls(): Promise<Pick<Question, "id" | "rootKey" | "turnId">[]>;
  countOpen(): Promise<number>;
  /** Settled since that time. */
  listSettledSince(at: number): Promise<string[]>;
  /** Open ones of a run. */
  listOfRun(runId: string): Promise<Question[]>;
  /** open → answered. False: somebody or something else was first. */
  answer(tx: Tx, id: string, given: GivenAnswer): Promise<boolean>;
  /** open → expired or void. False: it was settled before. */
  close(tx: Tx, id: string, as: "expired" | "void"): Promise<boolean>;
  /** Those of a run, or of a main session's own turn: what asked them is over, and nobody reads an answer. Returns their ids. */
  voidAll(tx: Tx, askedBy: AskedBy): Promise<string[]>;
  /** A call's approval is used, once. False: it was before, or there is none. */
  use(tx: Tx, id: string): Promise<boolean>;
  /** Who answered when it meant nothing any more, and why. */
  addLate(tx: Tx, id: string, text: string): Promise<void>;
  /** Forgets what was settled before this time. */
  purge(before: number): Promise<number>;
}

export type AskedBy = { readonly runId: string } | { readonly sessionKey: string };

export interface GivenAnswer {
  readonly by: Person;
  readonly answer: string;
  readonly verdict: Verdict | null;
}

interface Stored {
  readonly id: string;
  readonly call_key: string;
  readonly kind: QuestionKind;
  readonly root_key: string;
  readonly session_id: string;
  readonly run_id: string | null;
  readonly generation: number;
  readonly turn_id: string;
  readonly address: string;
  readonly asker: string;
  readonly text: string;
  readonly options: string;
  readonly tool: string | null;
  readonly digest: string | null;
  readonly created_at: number;
  readonly expires_at: number;
  readonly state: QuestionState;
  readonly answer: string | null;
  readonly verdict: Verdict | null;
  readonly answered_by: string | null;
  readonly settled_at: number | null;
  readonly used_at: number | null;
  readonly late: string | null;
}

/** Presses are anybody's to make, as often as they like; the first ones say it all. */
const MAX_LATE = 20;

export function createQuestions({ db, clock }: { db: Database; clock: Clock }): Questions {
  const one = (row: Stored | undefined): Question | null => (row === undefined ? null : fromRow(row));
  const get = async (id: string): Promise<Question | null> => one(await db.get<Stored>("SELECT * FROM questions WHERE id = ?", id));
  const findByCall = async (callKey: string): Promise<Question | null> =>
    one(await db.get<Stored>("SELECT * FROM questions WHERE call_key = ?", callKey));
  /** Whoever waits for it, or shows it, looks. */
  const settle = async (tx: Tx, id: string, [set, ...params]: [string, ...(string | number | null)[]]): Promise<boolean> => {
    const sql = `UPDATE questions SET settled_at = ?, ${set} WHERE id = ? AND state = 'open' RETURNING run_id, root_key`;
    const row = await tx.get<{ run_id: string | null; root_key: string }>(sql, clock.now(), ...params, id);
    if (row !== undefined) tx.emit({ type: "question.changed", questionId: id, runId: row.run_id, rootKey: row.root_key });
    return row !== undefined;
  };
  return {
    async put(tx, question) {
      const known = await findByCall(question.callKey);
      if (known !== null) return { question: known, isNew: false };
      const fresh = toRow(question, randomBytes(16).toString("base64url"), clock.now());
      const names = Object.keys(fresh);
      await tx.run(`INSERT INTO questions (${names.join(", ")}) VALUES (${names.map(() => "?").join(", ")})`, ...Object.values(fresh));
      tx.emit({ type: "question.changed", questionId: fresh.id, runId: fresh.run_id, rootKey: fresh.root_key });
      return { question: (await get(fresh.id)) as Question, isNew: true };
    },
    get,
    findByCall,
    listOpen: async (rootKey) =>
      (await db.all<Stored>("SELECT * FROM questions WHERE root_key = ? AND state = 'open' ORDER BY created_at, id", rootKey)).map(fromRow),
    // No LIKE: ids hold its wildcard.
    listByPrefix: async (rootKey, prefix) =>
      (
        await db.all<Stored>(
          "SELECT * FROM questions WHERE root_key = ? AND substr(id, 1, ?) = ? ORDER BY created_at, id",
          ...[rootKey, prefix.length, prefix],
        )
      ).map(fromRow),
    listAllOpen: async (limit) =>
      (await db.all<Stored>("SELECT * FROM questions WHERE state = 'open' ORDER BY created_at, id LIMIT ?", limit)).map(fromRow),
    listOfCalls: () =>
      db.all(`SELECT id, root_key AS "rootKey", turn_id AS "turnId" FROM questions WHERE state = 'open' AND turn_id LIKE 'call:%'`),
    countOpen: async () => (await db.get<{ n: number }>("SELECT count(*) AS n FROM questions WHERE state = 'open'"))?.n ?? 0,
    listSettledSince: async (at) =>
      (await db.all<{ id: string }>("SELECT id FROM questions WHERE settled_at IS NOT NULL AND settled_at >= ?", at)).map((row) => row.id),
    listOfRun: async (runId) =>
      (await db.all<Stored>("SELECT * FROM questions WHERE run_id = ? AND state = 'open' ORDER BY created_at, id", runId)).map(fromRow),
    answer: (tx, id, { by, answer, verdict }) =>
      settle(tx, id, ["state = 'answered', answer = ?, verdict = ?, answered_by = ?", answer, verdict, JSON.stringify(by)]),
    close: (tx, id, as) => settle(tx, id, ["state = ?", as]),
    async voidAll(tx, askedBy) {
      const [whose, key] = "runId" in askedBy ? ["run_id = ?", askedBy.runId] : ["root_key = ? AND run_id IS NULL", askedBy.sessionKey];
      const sql = `UPDATE questions SET settled_at = ?, state = 'void' WHERE ${whose} AND state = 'open' RETURNING id, run_id, root_key`;
      const rows = await tx.all<Pick<Stored, "id" | "run_id" | "root_key">>(sql, clock.now(), key);
      for (const row of rows) tx.emit({ type: "question.changed", questionId: row.id, runId: row.run_id, rootKey: row.root_key });
      return rows.map(({ id }) => id);
    },
    use: async (tx, id) =>
      (await tx.run("UPDATE questions SET used_at = ? WHERE id = ? AND state = 'answered' AND used_at IS NULL", clock.now(), id)) === 1,
    async addLate(tx, id, text) {
      const question = await get(id);
      if (question === null || question.late.length >= MAX_LATE) return;
      await tx.run("UPDATE questions SET late = ? WHERE id = ?", JSON.stringify([...question.late, text]), id);
    },
    purge: (before) => db.transaction([], (tx) => tx.run("DELETE FROM questions WHERE settled_at IS NOT NULL AND settled_at < ?", before)),
  };
}

const toRow = (question: NewQuestion, id: string, now: number) => ({
  id,
  call_key: question.callKey,
  kind: question.kind,
  root_key: question.rootKey,
  session_id: question.sessionId,
  run_id: question.runId,
  generation: question.generation,
  turn_id: question.turnId,
  address: JSON.stringify(question.address),
  asker: question.asker,
  text: question.text,
  options: JSON.stringify(question.options),
  tool: question.tool,
  digest: question.digest,
  created_at: now,
  expires_at: question.expiresAt,
  state: "open",
});

function fromRow(row: Stored): Question {
  const json = <T>(column: "address" | "options" | "answered_by" | "late"): T =>
    parseColumn<T>(row[column] ?? "null", { table: "questions", id: row.id, column });
  return {
    id: row.id,
    callKey: row.call_key,
    kind: row.kind,
    rootKey: row.root_key,
    sessionId: row.session_id,
    runId: row.run_id,
    generation: row.generation,
    turnId: row.turn_id,
    address: json<Address>("address"),
    asker: row.asker,
    text: row.text,
    options: json<string[]>("options"),
    tool: row.tool,
    digest: row.digest,
    createdAt: row.created_at,
    expiresAt: row.expires_at,
    state: row.state,
    answer: row.answer,
    verdict: row.verdict,
    answeredBy: json<Person | null>("answered_by"),
    settledAt: row.settled_at,
    usedAt: row.used_at,
    late: json<string[] | null>("late") ?? [],
  };
}
