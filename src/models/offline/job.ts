// How the offline model works: a job is a generator that asks for tool calls, gets their results and returns what to say.
// Nothing is kept between steps: the next step runs the job again and feeds it the results that stand in the transcript,
// so a restart in the middle goes on where it was. intents.ts makes jobs, offline.ts replays them.
import { shortText } from "../../core/visible-text.ts";
import type { ToolSpec } from "../model.ts";

export interface Call {
  readonly name: string;
  readonly args: Readonly<Record<string, unknown>>;
}

export interface Result {
  readonly text: string;
  readonly isError: boolean;
}

/** What a job needs next. A wait is answered with no results, and not repeated when a later call is already on record. */
export type Ask = { readonly calls: readonly Call[] } | { readonly waitMs: number /** Text to show meanwhile. */; readonly shows?: string };

export interface Outcome {
  readonly text: string;
  /** What was changed on disk. */
  readonly changes?: readonly string[];
  /** Why it could not be done, or not wholly. */
  readonly blockers?: readonly string[];
  /** Somebody said no to what was to come after it. */
  readonly isEnd?: true;
}

export type Job = Generator<Ask, Outcome, readonly Result[]>;

/** What a job may use. */
export interface Desk {
  has(tool: string): boolean;
  /** A call of an offered tool; argument names follow its schema where that has others. */
  call(tool: string, args: Readonly<Record<string, unknown>>): Call;
  spec(tool: string): ToolSpec | undefined;
  readonly now: number;
}

export function createDesk(tools: readonly ToolSpec[], now: number): Desk {
  const specs = new Map(tools.map((tool) => [tool.name, tool]));
  return {
    now,
    has: (tool) => specs.has(tool),
    spec: (tool) => specs.get(tool),
    call: (tool, args) => ({ name: tool, args: fitArgs(specs.get(tool)?.parameters, args) }),
  };
}

/** Renames arguments the schema doesn't know to required ones of the same type that are still free; drops what finds no place. */
function fitArgs(schema: Record<string, unknown> | undefined, args: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const properties = schema?.properties as Record<string, { type?: unknown }> | undefined;
  if (properties === undefined || Object.keys(properties).length === 0) return { ...args };
  const required = Array.isArray(schema?.required) ? (schema.required as string[]) : [];
  const fitted: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(args)) {
    const type = Array.isArray(value) ? "array" : typeof value;
    const free = required.find((key) => !Object.hasOwn(args, key) && !Object.hasOwn(fitted, key) && properties[key]?.type === type);
    const key = Object.hasOwn(properties, name) ? name : free;
    if (key !== undefined) fitted[key] = value;
  }
  return fitted;
}

/** A job that only says something. */
// biome-ignore lint/correctness/useYield: a job without a tool call is still a job
export function* say(text: string): Job {
  return { text };
}

/** One call, its result turned into words; a tool that is missing or fails is told plainly. */
export function* callTool(
  desk: Desk,
  tool: string,
  args: Readonly<Record<string, unknown>>,
  tell: (text: string) => string | Outcome,
): Job {
  if (!desk.has(tool)) return missing(tool);
  const [result] = yield { calls: [desk.call(tool, args)] };
  if (result === undefined || result.isError) return failed(tool, result);
  const told = tell(result.text);
  return typeof told === "string" ? { text: told } : told;
}

export function missing(tool: string): Outcome {
  const text = `That needs the tool \`${tool}\`, which is not offered here.`;
  return { text, blockers: [text] };
}

/** What nobody allowed, as the gate puts it, behind the reason somebody gave; what it advises a model to do is no news to a person. */
const DENIED = /(?:^|\n)((?:Denied\b|Not carried out:)[^\n]*)$/;
const ADVICE = /[;.]?\s*go on without it\b[^.\n]*\./i;

function denied(tool: string, text: string): Outcome | null {
  const found = DENIED.exec(text.trim());
  if (found?.[1] === undefined) return null;
  const reason = text.trim().slice(0, found.index).trim();
  const said = `I did not use \`${tool}\`. ${found[1].replace(ADVICE, ".")}${reason === "" ? "" : ` The reason given: ${cut(reason, 500)}`}`;
  return { text: said, blockers: [said] };
}

export function failed(tool: string, result: Result | undefined): Outcome {
  const refusal = result === undefined ? null : denied(tool, result.text);
  if (refusal !== null) return refusal;
  const text = `The tool \`${tool}\` failed: ${cut(result?.text.trim() || "it gave no result", 500)}`;
  return { text, blockers: [text] };
}

/** At most `max` characters, whole code points, with a sign that something is missing. */
export function cut(text: string, max: number): string {
  const clean = text.toWellFormed().replaceAll("\u0000", "");
  return shortText(clean, max);
}

/** Text as it is, in a code block that it can't break out of. */
export function quote(text: string, max = 1500): string {
  const body = cut(text.trimEnd(), max);
  const longest = Math.max(2, ...[...body.matchAll(/`+/g)].map((run) => run[0].length));
  const fence = "`".repeat(longest + 1);
  return `${fence}\n${body}\n${fence}`;
}

export const plural = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? "" : "s"}`;
