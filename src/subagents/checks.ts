// Completion checks in words (EV1, EV2): what `sessions_spawn.checks` may hold, what goes back to a child whose checks failed, and
// how they read in notes, info and documents. Who runs them: completion.ts.
import { z } from "zod";
import { type Check, type CheckResult, checksLine } from "../core/check.ts";
import { codeBlock } from "../core/code-block.ts";
import { fence, newFenceToken, quotedLine } from "../core/fence.ts";
import type { SpawnParams } from "../core/run.ts";
import { visibleLine } from "../core/visible-text.ts";
import { oneLine } from "./quoting.ts";

const MAX_CHECKS = 10;
/** They stand in the run's row and in the child's prompt. */
const MAX_LENGTH = 16 * 1024;
/** How often failing checks go back to the child, unless its spawn says otherwise. */
const CHECK_ROUNDS = 2;
const MAX_PATTERN = 1_000;
const MAX_SECONDS = 1_800;

const path = z
  .string()
  .min(1)
  .max(1_000)
  // By spelling alone; where links lead is seen when it is looked.
  .refine(
    (text) => !text.includes("\0") && !text.startsWith("/") && !text.split("/").includes(".."),
    "paths are inside the workspace, like src/app.ts",
  );

const pattern = z
  .string()
  .min(1)
  .max(MAX_PATTERN)
  .refine((text) => {
    try {
      return new RegExp(text, "m") instanceof RegExp;
    } catch {
      return false;
    }
  }, "is no regular expression");

const checkSchema = z.union([
  z.strictObject({ exists: path }),
  z.strictObject({
    contains: z
      .strictObject({ path, text: z.string().min(1).max(10_000).optional(), regex: pattern.optional() })
      .refine(({ text, regex }) => (text === undefined) !== (regex === undefined), "contains takes text or regex"),
  }),
  z.strictObject({
    command: z.union([z.string().min(1).max(10_000), z.array(z.string().max(10_000)).min(1).max(100)]),
    exitCode: z.number().int().min(0).max(255).optional(),
    timeoutSeconds: z.number().positive().max(MAX_SECONDS).optional(),
  }),
  z.strictObject({
    result: z
      .strictObject({ minLength: z.number().int().min(1).max(1_000_000).optional(), matches: pattern.optional() })
      .refine(({ minLength, matches }) => minLength !== undefined || matches !== undefined, "result takes minLength, matches or both"),
  }),
]);

const FORMS =
  '{exists: "path"}, {contains: {path, text or regex}}, {command, exitCode?, timeoutSeconds? (up to 1800)} or {result: {minLength?, matches?}}; paths inside the workspace, like src/app.ts';

/** One that doesn't fit refuses the spawn: left out, it would count as passed. */
function parseCheck(value: unknown, context: z.RefinementCtx): Check {
  const parsed = checkSchema.safeParse(value);
  if (parsed.success) return parsed.data;
  context.addIssue({ code: "custom", message: `not a check: ${visibleLine(JSON.stringify(value) ?? "", 200)}. A check is ${FORMS}` });
  return z.NEVER;
}

/** Loose to the eye: the example tells a model all, and costs a fifth of the schema at every call. */
export const checksSchema = z
  .array(z.looseObject({}).transform(parseCheck))
  .max(MAX_CHECKS)
  .refine((checks) => JSON.stringify(checks).length <= MAX_LENGTH, `checks are longer than ${MAX_LENGTH / 1024} KB in all`)
  .nullish()
  .transform((checks) => (checks == null || checks.length === 0 ? undefined : checks))
  .describe(
    'Run when it says it is done; what fails goes back to it, only with all passed it is a success. E.g. [{exists:"out.md"},{contains:{path:"out.md",text:"Total"}},{command:"npm test"},{result:{minLength:200}}].',
  );

export const roundsOf = ({ checkRounds = CHECK_ROUNDS }: SpawnParams): number => checkRounds;

const failing = (results: readonly CheckResult[]): readonly CheckResult[] => results.filter(({ passed }) => !passed);

/** Why it ended so: `1 of 3 checks failed: "exists out.md" (there is no such file)`. */
export function failureReason(results: readonly CheckResult[]): string {
  const bad = failing(results);
  const named = bad.map(({ name, why }) => `${quotedLine(name)} (${visibleLine(why, 200)})`).join("; ");
  return `${bad.length} of ${results.length} checks failed: ${named}`;
}

/** What the child reads when its checks failed: which, and the end of what they printed, as quoted data. */
export function returnText(results: readonly CheckResult[], round: number, rounds: number): string {
  const left = rounds - round;
  const parts = failing(results).map(({ name, why, output }) => {
    const line = `- ${quotedLine(name)}: ${visibleLine(why, 300)}`;
    return output === "" ? line : `${line}\n${fence({ source: `output of ${name}`, text: output }, newFenceToken())}`;
  });
  const last =
    left === 0
      ? "This is the last time: if one fails then, your run counts as failed."
      : `It can come back ${left} more time${left === 1 ? "" : "s"}.`;
  return [
    `[The gateway checked your work: ${failing(results).length} of ${results.length} checks failed. Put it right, then end again; all checks are run anew. ${last}]`,
    ...parts,
  ].join("\n");
}

/** First line of the notes. Without results: it ended before they could be run. */
export const checksNote = (params: SpawnParams, results: readonly CheckResult[] | null): string | null =>
  results !== null ? checksLine(results) : params.checks === undefined ? null : "Checks: not run";

/** All of them with their output, as Markdown of ours. */
export const checksMarkdown = (results: readonly CheckResult[]): string =>
  results
    .map(({ name, passed, why, output }) => {
      const line = `- ${passed ? "✓" : "✗"} ${oneLine(name)}: ${oneLine(why)}`;
      return output === "" ? line : `${line}\n\n${codeBlock(output)}\n`;
    })
    .join("\n");

/** What its prompt says about them. */
export function checksRule({ checks }: SpawnParams): string[] {
  if (checks === undefined) return [];
  const list = checks.map((check) => visibleLine(JSON.stringify(check), 300)).join("; ");
  return [`When you end, the gateway itself checks your work; only if every check passes it counts as done: ${list}`];
}
