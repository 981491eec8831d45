// Typed results (TR1): which schemas a spawn may name, when a child's data is taken or has come back often enough, and how the data
// reads to people and models. Whether data fits is decided beside the event loop (core/check.ts, Judge); the words are pure.
import { z } from "zod";
import type { Judge } from "../core/check.ts";
import { codeBlock } from "../core/code-block.ts";
import type { Run, SpawnParams } from "../core/run.ts";
import { visibleLine, visibleText } from "../core/visible-text.ts";

/** How often what doesn't fit comes back to the child; the next one ends the run. */
export const MAX_RETURNS = 2;
/** It stands in the child's prompt. */
const MAX_SCHEMA = 16 * 1024;
/** It stands in the run's row. */
export const MAX_DATA = 64 * 1024;
const MAX_DEPTH = 24;
const MAX_WHY = 400;

/** Without one of these everything fits, and mostly a model meant to write something else. */
const SAYS_SOMETHING = ["type", "properties", "items", "prefixItems", "$ref", "anyOf", "oneOf", "allOf", "enum", "const"];

/** Null, or why it can't be a result's schema. Whether it compiles is the judge's to say. */
function schemaRefusal(schema: Readonly<Record<string, unknown>>): string | null {
  if (!SAYS_SOMETHING.some((key) => Object.hasOwn(schema, key)))
    return 'resultSchema is a JSON Schema, e.g. {"type":"object","properties":{"total":{"type":"number"}},"required":["total"]}';
  if (depthOf(schema) > MAX_DEPTH) return `resultSchema is deeper than ${MAX_DEPTH} levels; make it flatter`;
  return JSON.stringify(schema).length > MAX_SCHEMA ? `resultSchema is longer than ${MAX_SCHEMA / 1024} KB; make it shorter` : null;
}

function depthOf(value: unknown): number {
  if (typeof value !== "object" || value === null) return 0;
  return 1 + Math.max(0, ...Object.values(value).map(depthOf));
}

export const resultSchemaParam = z
  .looseObject({})
  .nullish()
  .transform((schema) => schema ?? undefined)
  .superRefine((schema, context) => {
    const message = schema === undefined ? null : schemaRefusal(schema);
    if (message !== null) context.addIssue({ code: "custom", message });
  })
  .describe('JSON Schema: it ends with data that fits, e.g. {type:"object",properties:{total:{type:"number"}},required:["total"]}.');

/** Null, or why a spawn with this schema is refused. */
export async function schemaProblem(judge: Judge, schema: SpawnParams["resultSchema"]): Promise<string | null> {
  const problem = schema === undefined ? null : await judge.schemaProblem(schema);
  return problem === null ? null : `resultSchema can't be used: ${problem}. Use a simpler one.`;
}

export const isTyped = ({ resultSchema }: SpawnParams): boolean => resultSchema !== undefined;

/** Its data is taken, or has come back as often as it may: no further model call is made for it. */
export const isFinished = ({ data, misfits }: Pick<Run, "data" | "misfits">): boolean => data !== null || misfits.length > MAX_RETURNS;

/** Why a typed run failed. */
export const misfitReason = ({ misfits }: Pick<Run, "misfits">): string =>
  `its result did not fit resultSchema, ${misfits.length} ${misfits.length === 1 ? "try" : "tries"}: ${misfits.map(({ why }, n) => `${n + 1}) ${visibleLine(why, MAX_WHY)}`).join(" ")}`;

/** What its prompt says. The schema is its requester's, like its task. */
export const finishRule = ({ resultSchema }: SpawnParams): string =>
  resultSchema === undefined
    ? ""
    : `You end by calling the tool finish, alone, with {"data": …} that fits this JSON Schema; the data is your whole result:\n${JSON.stringify(resultSchema)}`;

const MAX_ROWS = 200;
const MAX_COLUMNS = 12;
const MAX_CELL = 500;

type Flat = Readonly<Record<string, string | number | boolean | null>>;

const isFlat = (value: unknown): value is Flat =>
  typeof value === "object" &&
  value !== null &&
  !Array.isArray(value) &&
  Object.values(value).every((one) => typeof one !== "object" || one === null);

/** For people: a table where it is one, else its JSON. Made by code, so that nothing of it is made up. */
export function dataMarkdown(text: string): string {
  const value = parsed(text);
  if (isFlat(value)) {
    const rows = Object.entries(value);
    if (rows.length > 0 && rows.length <= MAX_ROWS && fits(rows.flat())) return table(["", ""], rows);
  }
  if (Array.isArray(value) && value.length > 0 && value.length <= MAX_ROWS && value.every(isFlat)) {
    const names = [...new Set(value.flatMap((row) => Object.keys(row)))];
    const rows = value.map((row) => names.map((name) => (Object.hasOwn(row, name) ? row[name] : "")));
    if (names.length > 0 && names.length <= MAX_COLUMNS && fits([...names, ...rows.flat()])) return table(names, rows);
  }
  return codeBlock(value === undefined ? text : JSON.stringify(value, null, 2), "json");
}

/** Undefined: it is no JSON any more, because a known secret stood in it as a number. */
export function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

const fits = (values: readonly unknown[]): boolean => values.every((value) => String(value).length <= MAX_CELL);

const table = (head: readonly string[], rows: readonly (readonly unknown[])[]): string =>
  [head.map(cell), head.map(() => "---"), ...rows.map((row) => row.map(cell))].map((cells) => `| ${cells.join(" | ")} |`).join("\n");

/** A cell is one line in which nothing of the data is a mark of ours or of Markdown. */
const cell = (value: unknown): string =>
  visibleText(String(value ?? ""))
    .replace(/\s+/g, " ")
    .replace(/[\\`*_[\]<>|~]/g, "\\$&");
