// A change of a file as a person reads it before it is made: a unified diff, complete. Pure.
import { structuredPatch } from "diff";

const CONTEXT_LINES = 3;
/** The gateway waits while it is worked out; a larger change is shown as all of the new text instead. */
const MAX_DIFFERING = 5_000;
const TIMEOUT_MS = 500;

/** `before` null: it can't be shown. Never shortened: what isn't shown isn't allowed. */
export function changeText(before: string | null, after: string): string {
  if (before === null) return after;
  const options = { context: CONTEXT_LINES, maxEditLength: MAX_DIFFERING, timeout: TIMEOUT_MS };
  const patch = before === "" ? undefined : structuredPatch("", "", before, after, "", "", options);
  if (patch === undefined) return [...signed("-", before), ...signed("+", after)].join("\n");
  if (patch.hunks.length === 0) return "(nothing changes)";
  return patch.hunks
    .map(({ oldStart, oldLines, newStart, newLines, lines }) =>
      [`@@ -${oldStart},${oldLines} +${newStart},${newLines} @@`, ...lines].join("\n"),
    )
    .join("\n");
}

const NO_NEWLINE = "\\ No newline at end of file";

function signed(sign: "+" | "-", text: string): string[] {
  if (text === "") return [];
  const lines = text.split("\n");
  const isEnded = lines.at(-1) === "";
  return [...(isEnded ? lines.slice(0, -1) : lines).map((line) => sign + line), ...(isEnded ? [] : [NO_NEWLINE])];
}
