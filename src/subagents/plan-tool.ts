// plan: a child notes its steps first and marks them as it goes (NV4); list, info and the page show the step it is at.
// Only for children, and only a note: it takes away and grants nothing, so the requester need not have it.
import { z } from "zod";
import { STEP_STATUSES, stepOf } from "../core/run.ts";
import { defineTool, type Tool, toolError } from "../core/tool.ts";
import type { Runs } from "../stores/runs.ts";
import { oneLine } from "./quoting.ts";

export const PLAN_TOOL = "plan";
const MAX_STEPS = 30;
const MAX_TITLE = 120;

const schema = z.strictObject({
  steps: z
    .array(
      z.strictObject({
        title: z
          .string()
          .max(1_000)
          .transform(titleOf)
          .refine((text) => text !== "", "title must not be empty")
          .describe("What this step does, in a few words."),
        status: z.enum(STEP_STATUSES),
      }),
    )
    .min(1)
    .max(MAX_STEPS)
    .describe("The whole plan, in order; it replaces the one before."),
});

/** One line of at most MAX_TITLE characters: it stands in lists. */
function titleOf(text: string): string {
  const line = [...oneLine(text)];
  return line.length <= MAX_TITLE ? line.join("") : `${line.slice(0, MAX_TITLE - 1).join("")}…`;
}

export function createPlanTool({ runs }: { runs: Pick<Runs, "setPlan"> }): Tool {
  return defineTool({
    name: PLAN_TOOL,
    description:
      "Your plan for this task, shown to the people who wait for it. Call it first with all steps, then again with the whole list " +
      `whenever a step begins or is done. At most ${MAX_STEPS} steps; skip it for a task of one step.`,
    schema,
    capability: "memory",
    repeatable: true,
    async run({ steps }, context) {
      if (context.runId === null) return toolError("Only sub-agents have a plan.");
      await runs.setPlan(context.runId, steps);
      return { text: `Noted: ${stepOf(steps)}.` };
    },
  });
}
