// Finding words whatever the case of their letters. SQLite knows that of A to Z only, and PostgreSQL, whose texts are compared bytewise
// (postgres/schema.ts), too: so one is lent our own upper case, and the other is told to take that of its library. Upper case, because
// small letters have two forms more often (σ and ς, ß).
import type { DatabaseSync } from "node:sqlite";

/** A condition with one parameter. */
export interface Holding {
  readonly sql: string;
  readonly param: string;
}

/** As a search compares texts. Letters may become more: ß is SS. */
export const foldCase = (text: string): string => text.toUpperCase();

/** `%` and `_` are letters here. */
export const literal = (text: string): string => text.replace(/[\\%_]/g, "\\$&");

const FUNCTION = "herald_upper";

/** For every statement of this connection. */
export function lendFolding(db: DatabaseSync): void {
  db.function(FUNCTION, { deterministic: true, directOnly: true }, (text) => (typeof text === "string" ? foldCase(text) : text));
}

/** Both databases find A to Z in either case by themselves, ten times as fast as all letters. */
export const isPlain = (words: string): boolean => /^[\x20-\x7e]*$/.test(words) && !/ss/i.test(words);

export function holdsInSqlite(column: string, words: string): Holding {
  if (isPlain(words)) return { sql: `${column} LIKE ? ESCAPE '\\'`, param: `%${literal(words)}%` };
  return { sql: `${FUNCTION}(${column}) LIKE ? ESCAPE '\\'`, param: `%${literal(foldCase(words))}%` };
}
