// Which run somebody means, and what else they said.
import { isUuid } from "../core/ids.ts";
import { visibleLine } from "../core/visible-text.ts";
import type { BoardRow } from "../web/board.ts";
import { type Call, UsageError } from "./command.ts";
import type { RunReader } from "./run-reader.ts";

/** The word that names a run. Throws UsageError. */
export function targetOf({ words: [target = "", ...rest] }: Call, mayFollow: boolean): string {
  if (target === "") throw new UsageError("Which run? Give its id or the beginning of it, its label, or last.");
  if (!mayFollow && rest.length > 0) throw new UsageError(`Too many words: ${visibleLine(rest.join(" "), 60)}`);
  return target;
}

/** The rest of the words as one text. Throws UsageError. */
export function textBehind({ words: [, ...rest] }: Call, what: string): string {
  const text = rest.join(" ").trim();
  if (text === "") throw new UsageError(`${what} is missing.`);
  return text;
}

/** The id of the run a word means. Throws in words when it is none, or could be several. */
export async function findRun(reader: Pick<RunReader, "list">, word: string): Promise<string> {
  if (isUuid(word)) return word;
  const rows = await reader.list();
  const named = byName(rows, word);
  const [first] = named;
  if (first !== undefined && named.length === 1) return first.id;
  const shown = visibleLine(word, 60);
  if (first === undefined) throw new Error(`There is no run "${shown}" among the newest ${rows.length}; herald runs list shows them.`);
  throw new Error(`"${shown}" could be ${named.map(({ shortId }) => shortId).join(", ")}: say which.`);
}

function byName(rows: readonly BoardRow[], word: string): readonly BoardRow[] {
  if (word === "last") return rows.toSorted((a, b) => b.createdAt - a.createdAt).slice(0, 1);
  const byId = /^[0-9a-f-]{4,}$/i.test(word) ? rows.filter(({ id }) => id.startsWith(word.toLowerCase())) : [];
  return byId.length > 0 ? byId : rows.filter(({ label }) => label === word);
}
