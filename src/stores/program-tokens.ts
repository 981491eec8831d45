// Tokens of other programs (PR1). What a program holds is kept as a hash only: whoever reads this table, or a backup of it, can't become
// one of them. A token that is taken back is a row that is gone, and every request looks for its row.
import { hash, randomBytes } from "node:crypto";
import type { Address } from "../core/address.ts";
import type { Clock } from "../core/clock.ts";
import { newId } from "../core/ids.ts";
import { type Program, SCOPES, type Scope } from "../core/program.ts";
import { type Database, PASSING, parseColumn } from "./database.ts";

export interface ProgramToken extends Program {
  readonly createdAt: number;
  readonly usedAt: number | null;
  /** Null: never. */
  readonly expiresAt: number | null;
}

export type NewProgramToken = Pick<ProgramToken, "name" | "scopes" | "agentId" | "address" | "expiresAt">;

export interface ProgramTokens {
  /** Durable on return. What the program is to hold, which is known nowhere else; null: the name is taken. */
  make(token: NewProgramToken): Promise<string | null>;
  /** Whose this is; also one whose time is over. */
  find(secret: string): Promise<ProgramToken | null>;
  get(id: string): Promise<ProgramToken | null>;
  /** Nobody was promised a time of day: not waited for on its way to the disk. */
  used(id: string): Promise<void>;
  /** By name. */
  list(): Promise<ProgramToken[]>;
  /** False: there is none of this name. */
  revoke(name: string): Promise<boolean>;
}

/** So that a scanner of code or logs knows it when it sees one. */
const PREFIX = "herald_";

const hashOf = (secret: string): string => hash("sha256", secret, "base64url");

interface Stored {
  id: string;
  name: string;
  scopes: string;
  agent_id: string | null;
  address: string | null;
  created_at: number;
  used_at: number | null;
  expires_at: number | null;
}

const COLUMNS = "id, name, scopes, agent_id, address, created_at, used_at, expires_at";

export function createProgramTokens({ db, clock }: { db: Database; clock: Clock }): ProgramTokens {
  const one = (row: Stored | undefined): ProgramToken | null => (row === undefined ? null : fromRow(row));
  return {
    async make({ name, scopes, agentId, address, expiresAt }) {
      const secret = `${PREFIX}${randomBytes(32).toString("base64url")}`;
      const where = address === null ? null : JSON.stringify(address);
      const made = await db.transaction([], (tx) =>
        tx.run(
          `INSERT INTO program_tokens (id, hash, name, scopes, agent_id, address, created_at, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
           ON CONFLICT (name) DO NOTHING`,
          ...[newId(), hashOf(secret), name, scopes.join(" "), agentId, where, clock.now(), expiresAt],
        ),
      );
      return made === 1 ? secret : null;
    },
    find: async (secret) => one(await db.get<Stored>(`SELECT ${COLUMNS} FROM program_tokens WHERE hash = ?`, hashOf(secret))),
    get: async (id) => one(await db.get<Stored>(`SELECT ${COLUMNS} FROM program_tokens WHERE id = ?`, id)),
    async used(id) {
      await db.transaction([], (tx) => tx.run("UPDATE program_tokens SET used_at = ? WHERE id = ?", clock.now(), id), PASSING);
    },
    list: async () => (await db.all<Stored>(`SELECT ${COLUMNS} FROM program_tokens ORDER BY name`)).map(fromRow),
    revoke: async (name) => (await db.transaction([], (tx) => tx.run("DELETE FROM program_tokens WHERE name = ?", name))) === 1,
  };
}

function fromRow(row: Stored): ProgramToken {
  const isScope = (text: string): text is Scope => (SCOPES as readonly string[]).includes(text);
  return {
    id: row.id,
    name: row.name,
    // A scope of a later version gives nothing here.
    scopes: row.scopes.split(" ").filter(isScope),
    agentId: row.agent_id,
    address: row.address === null ? null : parseColumn<Address>(row.address, { table: "program_tokens", id: row.id, column: "address" }),
    createdAt: row.created_at,
    usedAt: row.used_at,
    expiresAt: row.expires_at,
  };
}
