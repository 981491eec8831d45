// What people allowed for longer than one call: a tool, in a chat or as long as a run goes on (QA4). Where each counts: questions/scopes.
import { randomBytes } from "node:crypto";
import type { Clock } from "../core/clock.ts";
import type { Person } from "../core/question.ts";
import { type Database, parseColumn, type Tx } from "./database.ts";

export interface ApprovalRule {
  readonly id: string;
  readonly scope: string;
  readonly tool: string;
  readonly givenBy: Person;
  readonly at: number;
}

export interface ApprovalRules {
  put(tx: Tx, scope: string, tool: string, by: Person): Promise<void>;
  /** The oldest rule for the tool that one of these scopes has. */
  find(scopes: readonly string[], tool: string): Promise<ApprovalRule | null>;
  list(scope: string): Promise<ApprovalRule[]>;
  /** False: it was not there. */
  revoke(tx: Tx, id: string): Promise<boolean>;
  /** Rules of runs and turns are of no use once those are over; those of chats stay. */
  purge(before: number): Promise<number>;
}

interface Stored {
  readonly id: string;
  readonly scope: string;
  readonly tool: string;
  readonly given_by: string;
  readonly at: number;
}

export function createApprovalRules({ db, clock }: { db: Database; clock: Clock }): ApprovalRules {
  return {
    async put(tx, scope, tool, by) {
      await tx.run(
        "INSERT INTO approval_rules (id, scope, tool, given_by, at) VALUES (?, ?, ?, ?, ?) ON CONFLICT (scope, tool) DO NOTHING",
        ...[randomBytes(6).toString("hex"), scope, tool, JSON.stringify(by), clock.now()],
      );
    },
    async find(scopes, tool) {
      const marks = scopes.map(() => "?").join(", ");
      const sql = `SELECT * FROM approval_rules WHERE tool = ? AND scope IN (${marks}) ORDER BY at, id LIMIT 1`;
      const row = await db.get<Stored>(sql, tool, ...scopes);
      return row === undefined ? null : fromRow(row);
    },
    list: async (scope) => (await db.all<Stored>("SELECT * FROM approval_rules WHERE scope = ? ORDER BY at, id", scope)).map(fromRow),
    revoke: async (tx, id) => (await tx.run("DELETE FROM approval_rules WHERE id = ?", id)) === 1,
    purge: (before) => db.transaction([], (tx) => tx.run("DELETE FROM approval_rules WHERE at < ? AND scope NOT LIKE 'chat:%'", before)),
  };
}

const fromRow = ({ given_by, ...rule }: Stored): ApprovalRule => ({
  ...rule,
  givenBy: parseColumn<Person>(given_by, { table: "approval_rules", id: rule.id, column: "given_by" }),
});
