// A statement as the stores write it (`?` for each parameter, as SQLite has it) in PostgreSQL's words, and the name under which a
// connection keeps its plan.

export interface Numbered {
  /** Left out: it is asked too seldom to be kept. */
  readonly name?: string;
  readonly text: string;
}

/** Texts in quotes are left alone: a `?` there is no parameter. */
const TOKENS = /'(?:[^']|'')*'|"[^"]*"|\?/g;

/** Lists of any length are statements of their own; each connection would keep the plans of all of them. */
const MAX_KEPT = 1_000;

export function createStatements(): (sql: string) => Numbered {
  const known = new Map<string, Numbered>();
  return (sql) => {
    const found = known.get(sql);
    if (found !== undefined) return found;
    let n = 0;
    const text = sql.replaceAll(TOKENS, (token) => (token === "?" ? `$${++n}` : token));
    if (known.size >= MAX_KEPT) return { text };
    const statement = { name: `s${known.size}`, text };
    known.set(sql, statement);
    return statement;
  };
}
