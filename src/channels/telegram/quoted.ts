// Words a person marked as code or as somebody else's: to be shown, not to be run. Telegram keeps such marks beside the text, so
// the text alone of a "/stop" in a code block is a /stop. Written as Markdown it begins with the mark, for the gateway as for the
// model.

export interface Mark {
  readonly type: string;
  readonly offset?: number | undefined;
  readonly length?: number | undefined;
}

const QUOTING: ReadonlySet<string> = new Set(["code", "pre", "blockquote", "expandable_blockquote"]);

/** `text` from `start` on; what is marked there as code or quote in Markdown, null where nothing is. */
export function quotedFrom(text: string, start: number, marks: readonly Mark[]): string | null {
  const covers = ({ offset = -1, length = 0 }: Mark): boolean => offset >= 0 && offset <= start && start < offset + length;
  const mark = marks.find((one) => QUOTING.has(one.type) && covers(one));
  if (mark === undefined) return null;
  const end = (mark.offset ?? 0) + (mark.length ?? 0);
  return `${asMarkdown(mark.type, text.slice(start, end))}${text.slice(end)}`.trim();
}

function asMarkdown(type: string, words: string): string {
  if (type.endsWith("blockquote")) return words.replace(/^/gm, "> ");
  const longest = Math.max(0, ...[...words.matchAll(/`+/g)].map(([run]) => run.length));
  const fence = "`".repeat(longest + 1);
  // Markdown takes a back-tick at either end for part of the fence.
  const pad = /^`|`$/.test(words) ? " " : "";
  return type === "code" ? `${fence}${pad}${words}${pad}${fence}` : `${fence.padEnd(3, "`")}\n${words}\n${fence.padEnd(3, "`")}`;
}
