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

export interface Statements {
  numbered(sql: string): Numbered;
  /** Grows with each `renew`. */
  era(): number;
  /**
   * Plans of this era have aged: a newer version added a column. All connections hold some, so from now on statements have other names
   * on every one of them; to meet the old ones one by one would take as many tries as there are connections.
   */
  renew(era: number): void;
}

export function createStatements(): Statements {
  const known = new Map<string, Numbered>();
  let era = 0;
  return {
    numbered(sql) {
      const found = known.get(sql);
      if (found !== undefined) return found;
      let n = 0;
      const text = sql.replaceAll(TOKENS, (token) => (token === "?" ? `$${++n}` : token));
      if (known.size >= MAX_KEPT) return { text };
      const statement = { name: `s${era}_${known.size}`, text };
      known.set(sql, statement);
      return statement;
    },
    era: () => era,
    renew(aged) {
      if (aged !== era) return;
      era++;
      known.clear();
    },
  };
}
