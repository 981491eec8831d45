// The text side of the edit tool: find the one place, replace it, show what changed. Pure.
// file text + oldText + newText → new text and a small unified diff, or a sentence the model can act on.

const CONTEXT_LINES = 3;
const MAX_HUNKS = 5;
const MAX_HUNK_LINES = 60;

export type Edited = { readonly text: string; readonly count: number; readonly diff: string } | { readonly error: string };

export interface EditRequest {
  readonly oldText: string;
  readonly newText: string;
  readonly replaceAll: boolean;
}

/** Replaces an exact match; refuses when there is none, or several and `replaceAll` is off. */
export function editText(text: string, request: EditRequest): Edited {
  const { oldText, newText } = matchLineEnds(text, request);
  if (oldText === newText) return { error: "oldText and newText are the same, so there is nothing to change." };
  const starts = findAll(text, oldText);
  const first = starts[0];
  if (first === undefined) {
    return {
      error: "oldText was not found; it must match exactly, spaces and line breaks included. Read the file again and copy the text.",
    };
  }
  if (starts.length > 1 && !request.replaceAll) {
    const lines = starts.slice(0, 5).map((start) => lineAt(text, start));
    return {
      error: `oldText occurs ${starts.length} times (lines ${lines.join(", ")}${starts.length > 5 ? ", …" : ""}); add surrounding lines so that it is unique, or set replaceAll.`,
    };
  }
  return { text: text.split(oldText).join(newText), count: starts.length, diff: diffOf(text, starts, { oldText, newText }) };
}

/** Models write \n; a file that uses \r\n throughout keeps it. */
function matchLineEnds(text: string, { oldText, newText }: EditRequest): { oldText: string; newText: string } {
  const wantsCrlf = text.includes("\r\n") && !oldText.includes("\r") && !/(^|[^\r])\n/.test(text);
  const convert = (part: string) => (wantsCrlf ? part.replace(/\r?\n/g, "\r\n") : part);
  return { oldText: convert(oldText), newText: convert(newText) };
}

function findAll(text: string, part: string): number[] {
  const starts: number[] = [];
  for (let at = text.indexOf(part); at !== -1; at = text.indexOf(part, at + part.length)) starts.push(at);
  return starts;
}

const lineAt = (text: string, index: number): number => text.slice(0, index).split("\n").length;

interface Block {
  from: number;
  to: number;
}

/** Whole lines around each match; matches on the same or touching lines share a block. */
function blocksOf(text: string, starts: readonly number[], length: number): Block[] {
  const blocks: Block[] = [];
  for (const start of starts) {
    const from = start === 0 ? 0 : text.lastIndexOf("\n", start - 1) + 1;
    const lineEnd = text.indexOf("\n", start + length);
    const to = lineEnd === -1 ? text.length : lineEnd;
    const last = blocks.at(-1);
    if (last !== undefined && from <= last.to + 1) last.to = Math.max(last.to, to);
    else blocks.push({ from, to });
  }
  return blocks;
}

function diffOf(text: string, starts: readonly number[], change: { oldText: string; newText: string }): string {
  const blocks = blocksOf(text, starts, change.oldText.length);
  let shift = 0;
  const hunks = blocks.slice(0, MAX_HUNKS).map((block) => {
    const before = text.slice(block.from, block.to).split("\n");
    const after = text.slice(block.from, block.to).split(change.oldText).join(change.newText).split("\n");
    const above =
      block.from === 0
        ? []
        : text
            .slice(0, block.from - 1)
            .split("\n")
            .slice(-CONTEXT_LINES);
    const below = text.slice(block.to + 1).split("\n", CONTEXT_LINES);
    const under = block.to + 1 >= text.length ? [] : below;
    const line = lineAt(text, block.from) - above.length;
    const kept = above.length + under.length;
    const header = `@@ -${line},${before.length + kept} +${line + shift},${after.length + kept} @@`;
    shift += after.length - before.length;
    const mark = (sign: string, lines: readonly string[]) => lines.map((one) => `${sign}${one.replace(/\r$/, "")}`);
    const body = [...mark(" ", above), ...mark("-", before), ...mark("+", after), ...mark(" ", under)];
    const cut = body.length > MAX_HUNK_LINES ? [...body.slice(0, MAX_HUNK_LINES), `[${body.length - MAX_HUNK_LINES} more lines]`] : body;
    return [header, ...cut].join("\n");
  });
  const more = blocks.length - hunks.length;
  return [...hunks, ...(more > 0 ? [`[${more} more places changed the same way]`] : [])].join("\n");
}
