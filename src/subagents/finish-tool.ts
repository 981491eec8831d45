// finish: a child with a resultSchema ends by handing in its data (TR1). The first that fits is in the row when the tool answers, so
// a kill right behind it loses nothing: the run that is taken up finds it there and makes no further model call for it.
import { z } from "zod";
import type { Judge } from "../core/check.ts";
import type { HitFailpoint } from "../core/failpoints.ts";
import type { Run } from "../core/run.ts";
import { defineTool, type Tool, type ToolContext, type ToolResult, toolError } from "../core/tool.ts";
import { FINISH_TOOL } from "../core/tool-names.ts";
import type { Database } from "../stores/database.ts";
import type { Runs } from "../stores/runs.ts";
import { MAX_DATA, MAX_RETURNS, parsed } from "./typed-result.ts";
import { unfinishedChildren } from "./waits.ts";

export interface FinishDeps {
  readonly db: Database;
  readonly runs: Runs;
  readonly judge: Judge;
  readonly failpoint: HitFailpoint;
}

const ACCEPTED = "Accepted: the run is finished with this data.";
const FINISHED = "Not taken: the run is finished; an earlier call counted.";
const AT_WORK =
  "Not taken: sub-agents you sent out are still at work, and would be stopped. Wait for them with the tool subagents, or stop them, first.";
const NOBODY = "There is no result to hand in here.";

export function createFinishTool(deps: FinishDeps): Tool {
  return defineTool({
    name: FINISH_TOOL,
    description: "Ends your run with its result: data that fits the JSON Schema you were given. Call it alone, when all else is done.",
    schema: z.strictObject({ data: z.unknown() }),
    capability: "memory",
    // Taken already, it says so again.
    repeatable: true,
    endsTurn: true,
    async run({ data }, context) {
      const run = context.runId === null ? null : await deps.runs.get(context.runId);
      if (run === null || run.params.resultSchema === undefined) return toolError(NOBODY);
      const candidates = candidatesOf(data);
      if (run.data !== null) return candidates.some((one) => JSON.stringify(one) === run.data) ? { text: ACCEPTED } : toolError(FINISHED);
      // A run whose children still work is not done (SP5); that is no misfit.
      return (await unfinishedChildren(deps.runs, run)) > 0 ? toolError(AT_WORK) : hold(deps, run, context, candidates);
    },
  });
}

/** Some models write their arguments as text. */
function candidatesOf(data: unknown): readonly unknown[] {
  const read = typeof data === "string" ? parsed(data) : undefined;
  return read === undefined ? [data ?? null] : [data, read];
}

async function hold(deps: FinishDeps, run: Run, context: ToolContext, candidates: readonly unknown[]): Promise<ToolResult> {
  const { resultSchema = {} } = run.params;
  const text = JSON.stringify(candidates[0]) ?? "null";
  const fit =
    text.length > MAX_DATA
      ? { misfit: `it is longer than ${MAX_DATA / 1024} KB; hand in less, or name a file` }
      : await deps.judge.fit(resultSchema, candidates);
  if ("misfit" in fit) return comeBack(deps, run, context, fit.misfit);
  const taken = JSON.stringify(candidates[fit.index]);
  const isFirst = await deps.db.transaction([], (tx) => deps.runs.setData(tx, run.id, taken));
  if (!isFirst) return toolError(FINISHED);
  deps.failpoint("finish.accepted");
  return { text: ACCEPTED };
}

async function comeBack(deps: FinishDeps, run: Run, { calledAt, secrets }: ToolContext, misfit: string): Promise<ToolResult> {
  const why = secrets.redact(misfit);
  const count = await deps.db.transaction([], (tx) => deps.runs.addMisfit(tx, run.id, { step: calledAt, why }));
  const left = MAX_RETURNS + 1 - count;
  const rest =
    left <= 0
      ? "That was the last try: the run ends."
      : `Call finish again with data that fits; ${left} ${left === 1 ? "try" : "tries"} left.`;
  return toolError(`The data does not fit the schema: ${why}. ${rest}`);
}
