// A tool's result as it stands in the transcript: without secrets, fenced, and no longer than its share of the window.
import { disarm, fence, newFenceToken } from "../core/fence.ts";
import type { CutSecrets } from "../core/secrets.ts";
import type { ToolResult } from "../core/tool.ts";
import { capText, visibleText } from "../core/visible-text.ts";
import type { NewEntry } from "../stores/transcript-entry.ts";
import type { RecordedCall } from "./context.ts";

/** Where results go, and what all of a step together may take: more than the window holds would be of no use to anybody. */
export interface ResultSpace {
  readonly maxChars: number;
  append(fresh: readonly NewEntry[]): Promise<void>;
}

const MAX_RESULT = 64 * 1024;
/** A result that is cut shorter than this says nothing any more. */
const LEAST_RESULT = 500;

/** Characters for each result of a step of so many calls. */
export const capOf = (count: number, { maxChars }: ResultSpace): number =>
  Math.max(LEAST_RESULT, Math.min(MAX_RESULT, Math.floor(maxChars / Math.max(1, count))));

/** The transcript redacts too, but only after the cut, which leaves a part of a secret that nobody knows again. */
export function readyToCut({ text, quoted, ...result }: ToolResult, { redact }: CutSecrets): ToolResult {
  const ready = (whole: string): string => redact(visibleText(whole));
  return { ...result, text: ready(text), ...(quoted === undefined ? {} : { quoted: { ...quoted, text: ready(quoted.text) } }) };
}

/**
 * Fenced once, here, and stored so: later calls send the same bytes. Cut first, or the fence would lose its end. In our own
 * words stand paths, names and labels that somebody else may have chosen, so no mark means anything there either.
 */
function resultText({ text, quoted }: ToolResult, max: number): string {
  const cap = (whole: string): string => capText(whole, max, "ask for a smaller part");
  const own = disarm(cap(text));
  if (quoted === undefined) return own;
  return [fence({ ...quoted, text: cap(quoted.text) }, newFenceToken()), ...(own === "" ? [] : [own])].join("\n");
}

export const toEntry = (call: RecordedCall, result: ToolResult, max: number): NewEntry => ({
  type: "tool_result",
  callId: call.id,
  name: call.name,
  text: resultText(result, max),
  isError: result.isError === true,
});
