// What a model wrote as a tool call → a ToolCall the loop can run or answer (AG3). Nothing throws: arguments that
// don't parse and tools that don't exist come back as `invalid`, a sentence the model can act on.
// reply-draft.ts → toToolCall → agents/turn.ts

import { randomUUID } from "node:crypto";
import { shortText } from "../core/visible-text.ts";
import type { ToolCall } from "./model.ts";
import { wellFormed } from "./wire.ts";

const MAX_ARGS = 256 * 1024;
/** Far above any real call. A few thousand levels are too deep to be written down again. */
const MAX_DEPTH = 100;
/** Every provider takes names of this form back with the next request; longer ones only some. */
const MAX_NAME = 64;
/** How much of unusable arguments is kept, so that the model sees what it wrote. */
const EXCERPT = 2000;

interface WrittenCall {
  readonly toolCallId: string;
  readonly toolName: string;
  readonly input: string;
}

/** `earlier` are the calls of the same answer: an id that repeats one of theirs is replaced. */
export function toToolCall(written: WrittenCall, tools: ReadonlySet<string>, earlier: readonly ToolCall[]): ToolCall {
  const isKnown = tools.has(written.toolName);
  const name = isKnown ? written.toolName : shortName(written.toolName);
  const { args, problem } = parseArgs(written.input);
  const invalid = isKnown ? problem : unknownTool(written.toolName === "" ? null : name, tools);
  const call = { id: freeId(written.toolCallId, earlier), name, args };
  return invalid === null ? call : { ...call, invalid };
}

/** A call whose arguments never came to an end. */
export const unfinishedCall = (id: string, name: string, earlier: readonly ToolCall[]): ToolCall => ({
  id: freeId(id, earlier),
  name: shortName(name),
  args: "",
  invalid: "The arguments were cut because they went past 1 MB. Write long content in several smaller calls.",
});

function parseArgs(input: string): { args: unknown; problem: string | null } {
  const text = wellFormed(input);
  const excerpt = shortText(text, EXCERPT + 1);
  if (text.length > MAX_ARGS)
    return { args: excerpt, problem: `The arguments are longer than ${MAX_ARGS / 1024} KB. Use several smaller calls.` };
  // Models write nothing at all for a tool without parameters.
  if (text.trim() === "") return { args: {}, problem: null };
  try {
    const args: unknown = JSON.parse(text);
    if (isDeeper(args, MAX_DEPTH)) return { args: excerpt, problem: `The arguments are nested deeper than ${MAX_DEPTH} levels.` };
    if (typeof args === "object" && args !== null && !Array.isArray(args)) return { args, problem: null };
    return { args: excerpt, problem: 'The arguments must be one JSON object, for example {"name": "value"}.' };
  } catch (error) {
    const why = error instanceof Error ? error.message.slice(0, 200) : "";
    return { args: excerpt, problem: `The arguments are not valid JSON (${why}). Call the tool again with one JSON object.` };
  }
}

const isDeeper = (value: unknown, levels: number): boolean =>
  typeof value === "object" && value !== null && (levels === 0 || Object.values(value).some((inner) => isDeeper(inner, levels - 1)));

function unknownTool(name: string | null, tools: ReadonlySet<string>): string {
  const accepted = tools.size === 0 ? "You have no tools now: answer in text." : `Tools you can call: ${[...tools].join(", ")}.`;
  return `${name === null ? "The call named no tool." : `There is no tool "${name}".`} ${accepted}`;
}

const shortName = (name: string): string => name.slice(0, MAX_NAME).replace(/[^\w-]/g, "_") || "unknown";

function freeId(id: string, earlier: readonly ToolCall[]): string {
  const isTaken = id === "" || id.length > 200 || earlier.some((call) => call.id === id);
  // OpenAI's chat completions take 40 characters back.
  return isTaken ? `call_${randomUUID().replaceAll("-", "")}` : id;
}
