// The database as it is at one moment, copied while a gateway goes on writing; and what such a copy holds.
import { closeSync, openSync } from "node:fs";
import { backup, DatabaseSync } from "node:sqlite";
import { AppError } from "../core/errors.ts";
import { versionOf } from "./read-only.ts";
import { MIGRATIONS } from "./schema.ts";

/** A gateway whose transaction takes long is waited for; it waits for us only as long as `atThatMoment` takes. */
const WAIT_MS = 10_000;
/** A step of the copy, in pages. */
const STEP_PAGES = 5_000;

/**
 * Copies the database to `to`, mode 0600. `atThatMoment` is called at the very moment the copy is of: one connection holds the right to
 * write, so nobody commits, while the other begins to read and `atThatMoment` looks at the files; then writing goes on, and what is read
 * stays as it was. Otherwise a commit between the two would be in one and not in the other.
 */
export async function copyAtOneMoment<T>(path: string, to: string, atThatMoment: () => T): Promise<{ found: T; schema: number }> {
  closeSync(openSync(to, "wx", 0o600));
  const reading = new DatabaseSync(path, { readOnly: true, timeout: WAIT_MS });
  try {
    const schema = versionOf(reading, path);
    if (schema > MIGRATIONS.length) throw new AppError("state", `The database ${path} was written by a newer Herald. Use that one.`);
    const writing = new DatabaseSync(path, { timeout: WAIT_MS });
    let found: T;
    try {
      writing.exec("BEGIN IMMEDIATE");
      // It reads from its first statement on.
      reading.exec("BEGIN; SELECT count(*) FROM sqlite_schema;");
      found = atThatMoment();
    } finally {
      writing.close();
    }
    await backup(reading, to, { rate: STEP_PAGES });
    return { found, schema };
  } finally {
    reading.close();
  }
}

/** What comes back to life with a database. */
export interface Comeback {
  readonly schema: number;
  readonly runs: number;
  /** Of them, those that go on. */
  readonly unfinished: number;
  readonly people: number;
  readonly browsers: number;
  /** Of other programs. */
  readonly tokens: number;
  readonly rules: number;
  readonly questions: number;
  /** Messages that were not sent yet, or not for certain. */
  readonly unsent: number;
  /** Messages that were not answered yet. */
  readonly unanswered: number;
}

/** Throws AppError("state") when it is damaged. */
export function inspectDatabase(path: string): Comeback {
  const db = new DatabaseSync(path);
  try {
    const count = (from: string): number => (db.prepare(`SELECT count(*) AS n FROM ${from}`).get() as { n: number }).n;
    const [first] = db.prepare("PRAGMA quick_check(1)").all() as { quick_check: string }[];
    if (first?.quick_check !== "ok") throw new AppError("state", `The database is damaged: ${first?.quick_check}.`);
    const has = (table: string): boolean => count(`sqlite_schema WHERE type = 'table' AND name = '${table}'`) > 0;
    const ofNow = (table: string, where: string): number => (has(table) ? count(`${table} ${where}`) : 0);
    return {
      schema: versionOf(db, path),
      runs: count("runs"),
      unfinished: count("runs WHERE ended_at IS NULL"),
      people: ofNow("people", "WHERE state = 'paired'"),
      browsers: ofNow("browsers", ""),
      tokens: ofNow("program_tokens", ""),
      rules: ofNow("approval_rules", ""),
      questions: ofNow("questions", "WHERE state = 'open'"),
      unsent: count("outbox WHERE state IN ('queued', 'sending', 'unknown')"),
      unanswered: count("inbox WHERE state <> 'done'"),
    };
  } finally {
    db.close();
  }
}
