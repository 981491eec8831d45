// Rows of a table in the order of its primary key, a batch at a time, from either database: the next batch begins behind the last key, so
// the last costs as much as the first. Texts sort bytewise in both.
import type { Database, Params, Row } from "../../stores/database.ts";
import { BATCH } from "./side.ts";

export interface TableShape {
  /** By name. */
  readonly columns: readonly string[];
  /** Of the primary key, in its order. */
  readonly keys: readonly string[];
}

export async function* readRows(db: Pick<Database, "all">, table: string, { columns, keys }: TableShape): AsyncGenerator<Row[]> {
  const key = keys.join(", ");
  const head = `SELECT ${columns.join(", ")} FROM ${table}`;
  const tail = `ORDER BY ${key} LIMIT ${BATCH}`;
  for (let last: Row | undefined; ; ) {
    const rows: Row[] =
      last === undefined
        ? await db.all(`${head} ${tail}`)
        : await db.all(`${head} WHERE (${key}) > (${keys.map(() => "?").join(", ")}) ${tail}`, ...valuesOf(last, keys));
    if (rows.length > 0) yield rows;
    if (rows.length < BATCH) return;
    last = rows.at(-1);
  }
}

export const valuesOf = (row: Row, columns: readonly string[]): Params =>
  columns.map((name) => (row[name] ?? null) as string | number | null);
