// The text side of the edit tool: find the one place, replace it, show what changed. Pure.
// file text + oldText + newText → new text and a small unified diff, or a sentence the model can act on.
import { structuredPatch } from "diff";
import type { Span } from "../core/secrets.ts";

const CONTEXT_LINES = 3;
const MAX_HUNKS = 5;
const MAX_HUNK_LINES = 60;
/** The gateway waits while a diff is worked out: so many places, characters and differing lines at most. */
const MAX_PLACES = 10;
const MAX_COMPARED = 128 * 1024;
const MAX_DIFFERING = 2000;
const TOO_LONG = "[the change is too long to show]";

export type Edited = { readonly text: string; readonly count: number; readonly diff: string } | { readonly error: string };

export interface EditRequest {
  readonly oldText: string;
  readonly newText: string;
  readonly replaceAll: boolean;
}

/**
 * Replaces an exact match; refuses when there is none, or several and `replaceAll` is off. `names` stand in the text for
 * something else, so only the whole of one matches: with a part of it replaced nobody could tell what it stood for.
 */
export function editText(text: string, request: EditRequest, names: readonly Span[] = []): Edited {
  const { oldText, newText } = matchLineEnds(text, request);
  if (oldText === newText) return { error: "oldText and newText are the same, so there is nothing to change." };
  const starts = findAll(text, oldText, names);
  const [first, ...rest] = starts;
  if (first === undefined) {
    if (text.includes(oldText))
      return {
        error: "oldText occurs only as a part of a name in brackets that stands for a secret; such a name can't be changed in part.",
      };
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
  const change = { oldText, newText };
  return { text: replaceAt(text, starts, change), count: starts.length, diff: diffOf(text, [first, ...rest], change) };
}

/** Models write \n; a file that uses \r\n throughout keeps it. */
function matchLineEnds(text: string, { oldText, newText }: EditRequest): { oldText: string; newText: string } {
  const wantsCrlf = text.includes("\r\n") && !oldText.includes("\r") && !/(^|[^\r])\n/.test(text);
  const convert = (part: string) => (wantsCrlf ? part.replace(/\r?\n/g, "\r\n") : part);
  return { oldText: convert(oldText), newText: convert(newText) };
}

function findAll(text: string, part: string, names: readonly Span[]): number[] {
  const starts: number[] = [];
  for (let at = text.indexOf(part); at !== -1; ) {
    const isWhole = !cutsOne(names, { start: at, end: at + part.length });
    if (isWhole) starts.push(at);
    at = text.indexOf(part, isWhole ? at + part.length : at + 1);
  }
  return starts;
}

/** Does the place hold a part of a name, but not all of it? */
const cutsOne = (names: readonly Span[], { start, end }: Span): boolean =>
  names.some((name) => start < name.end && end > name.start && (start > name.start || end < name.end));

type Change = Omit<EditRequest, "replaceAll">;

function replaceAt(text: string, starts: readonly number[], { oldText, newText }: Change): string {
  const ends = [0, ...starts.map((start) => start + oldText.length)];
  return ends.map((end, n) => text.slice(end, starts[n])).join(newText);
}

const lineAt = (text: string, index: number): number => text.slice(0, index).split("\n").length;

/** Where the line begins that stands so many above, or ends that stands so many below. */
function linesAbove(text: string, from: number, count: number): number {
  let start = from === 0 ? 0 : text.lastIndexOf("\n", from - 1) + 1;
  for (let n = 0; n < count && start > 0; n++) start = text.lastIndexOf("\n", start - 2) + 1;
  return start;
}

function linesBelow(text: string, from: number, count: number): number {
  let end = from;
  for (let n = 0; n <= count && end < text.length; n++) end = text.indexOf("\n", end) + 1 || text.length;
  return end;
}

/** Only the part of the text with the first places in it is compared: the whole of a large file would hold the gateway. */
function diffOf(text: string, starts: readonly [number, ...number[]], { oldText, newText }: Change): string {
  const from = linesAbove(text, starts[0], CONTEXT_LINES);
  const last = starts.slice(0, MAX_PLACES).findLast((start) => start + oldText.length - from <= MAX_COMPARED) ?? null;
  if (last === null || newText.length > MAX_COMPARED) return TOO_LONG;
  const to = linesBelow(text, last + oldText.length, CONTEXT_LINES);
  const before = text.slice(from, to);
  const within = starts.filter((start) => start + oldText.length <= to).map((start) => start - from);
  const options = { context: CONTEXT_LINES, maxEditLength: MAX_DIFFERING };
  const patch = structuredPatch("", "", before, replaceAt(before, within, { oldText, newText }), "", "", options);
  if (patch === undefined) return TOO_LONG;
  const above = lineAt(text, from) - 1;
  const hunks = patch.hunks.slice(0, MAX_HUNKS).map(({ oldStart, oldLines, newStart, newLines, lines }) => {
    const shown = lines.slice(0, MAX_HUNK_LINES).map((line) => line.replace(/\r$/, ""));
    const cut = lines.length > shown.length ? [`[${lines.length - shown.length} more lines]`] : [];
    return [`@@ -${oldStart + above},${oldLines} +${newStart + above},${newLines} @@`, ...shown, ...cut].join("\n");
  });
  const isAll = patch.hunks.length === hunks.length && last === starts.at(-1);
  return [...hunks, ...(isAll ? [] : ["[more places changed the same way]"])].join("\n");
}
