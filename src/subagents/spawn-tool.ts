// sessions_spawn as the model sees it: parameters and answers (SP1, SP2). The address, the requester and its rights
// come from the runtime's context; nothing in the arguments can name a chat.
import { z } from "zod";
import type { Judge } from "../core/check.ts";
import { THINKING_LEVELS } from "../core/thinking.ts";
import { defineTool, type Tool, type ToolContext, toolError, toolJson } from "../core/tool.ts";
import { checksSchema } from "./checks.ts";
import { briefParamsSchema, briefRequestSchema } from "./documents/brief-params.ts";
import { ACCEPTED_ROLES } from "./roles.ts";
import type { Spawn } from "./spawn.ts";
import type { SpawnRequest } from "./spawn-request.ts";
import { resultSchemaParam, schemaProblem } from "./typed-result.ts";

const MAX_TASK = 256 * 1024;
const MAX_TEXT = 64 * 1024;

/** Blank means nothing was asked for; models like to fill every field. */
const optionalText = (max: number, what?: string) => {
  const text = z
    .string()
    .max(max)
    .nullish()
    .transform((value) => (value?.trim() ? value : undefined));
  return what === undefined ? text : text.describe(what);
};

const taskText = z
  .string()
  .max(MAX_TASK, `task is longer than ${MAX_TASK / 1024} KB`)
  .refine((text) => text.trim() !== "", "task is required");

const budgetSchema = z
  .strictObject({ usd: z.number().positive().max(100_000).optional(), tokens: z.number().int().min(1).max(1_000_000_000).optional() })
  .nullish()
  .transform((budget) => budget ?? undefined);
const timeoutSchema = z.number().int().min(0).max(86_400).optional();
const afterSchema = z.array(z.string().min(1).max(600)).max(20).optional();
const allowedToolsSchema = z.array(z.string().max(100)).max(100).optional();
const ifFailedSchema = z.enum(["end", "run"]).optional();

/** Of the same shape as the field of that name beside `tasks`, which is described there: said twice, it would cost every turn. */
const alike = <S extends z.ZodType>(schema: S) => z.unknown().optional().pipe(schema);

/** What one of several may have of its own. */
const taskSchema = z.strictObject({
  task: taskText,
  label: alike(optionalText(MAX_TEXT)),
  role: alike(optionalText(60)),
  agentId: alike(optionalText(200)),
  model: alike(optionalText(200)),
  runTimeoutSeconds: alike(timeoutSchema),
  briefing: alike(optionalText(MAX_TEXT)),
  allowedTools: alike(allowedToolsSchema),
  budget: alike(budgetSchema),
  checks: alike(checksSchema),
  resultSchema: alike(resultSchemaParam),
  after: alike(afterSchema),
  ifFailed: alike(ifFailedSchema),
});

const MAX_TASKS = 20;

const spawnObject = z.strictObject({
  task: taskText
    .optional()
    .describe(
      "What to do, complete in itself: the sub-agent knows nothing of this conversation. It is shown the pictures whose paths (attachments/...) stand here.",
    ),
  label: optionalText(MAX_TEXT, "A short name people will see; cut at 80 characters."),
  agentId: optionalText(200, "Run under another agent; agents_list names those you may use."),
  role: optionalText(60, `Posture: ${ACCEPTED_ROLES.join("; ")}. Default general.`),
  model: optionalText(200, "provider/model-id; an invalid one is skipped with a warning."),
  thinking: z.enum(THINKING_LEVELS).optional().describe("How much to think."),
  runTimeoutSeconds: timeoutSchema.describe("End it after this many seconds; 0 = no limit."),
  cleanup: z.enum(["keep", "delete"]).optional().describe("delete: archive its transcript as soon as the announcement is delivered."),
  briefing: optionalText(MAX_TEXT, "Context the sub-agent should have, apart from the task."),
  systemPrompt: optionalText(MAX_TEXT, "A role text added to the sub-agent's own."),
  maxIterations: z.number().int().min(1).max(500).optional().describe("Most model steps it may take."),
  allowedTools: allowedToolsSchema.describe("Only these tools; it never widens what you have yourself."),
  budget: budgetSchema.describe("The most it and all it sends out may spend, e.g. {usd: 0.5}; used up, it ends with what it has."),
  brief: briefRequestSchema
    .nullish()
    .transform((brief) => brief ?? undefined)
    .describe("Mission, memory references and constraints; hints only, grants nothing."),
  checks: checksSchema,
  checkRounds: z.number().int().min(0).max(5).optional().describe("How often failing checks go back to it; default 2."),
  resultSchema: resultSchemaParam,
  after: afterSchema.describe("Labels or run ids: it begins when those ended, with their results as data."),
  ifFailed: ifFailedSchema.describe("run: it begins also when one of `after` failed. Default end."),
  tasks: z
    .array(taskSchema)
    .min(1)
    .max(MAX_TASKS)
    .optional()
    .describe(
      'Several instead of task, all or none: [{task, label: "a"}, {task, label: "b"}, {task, label: "sum", after: ["a", "b"]}]. Fields beside it hold for each.',
    ),
  group: z
    .strictObject({
      name: optionalText(MAX_TEXT),
      wait: z.union([z.enum(["all", "any"]), z.number().int().min(1).max(MAX_TASKS)]).optional(),
      // biome-ignore lint/suspicious/noThenProperty: SPEC's word, and no object of ours with it is ever awaited.
      then: z.enum(["wake", "nothing"]).optional(),
      announce: z.enum(["together", "each"]).optional(),
    })
    .optional()
    .describe(
      "Makes them a group. wait: all (default), any or so many successes; the rest is stopped. announce: together (default) or each. then: wake gives you a turn with all results.",
    ),
});

const spawnSchema = spawnObject
  .refine(({ task, tasks }) => task !== undefined || tasks !== undefined, { error: "task is required", path: ["task"] })
  .refine(({ task, tasks }) => task === undefined || tasks === undefined, { error: "give task or tasks, not both", path: ["tasks"] });

/** What another program may say of a run (PR1): one at a time, and nothing of its own session, which has no turns. */
export const programSpawnSchema = spawnObject.omit({ tasks: true, group: true }).extend({
  task: taskText.describe("What to do, complete in itself."),
  brief: briefParamsSchema.optional().describe("Mission, memory references and constraints; hints only, grants nothing."),
  idempotencyKey: z
    .string()
    .min(1)
    .max(200)
    .optional()
    .describe("Repeating a call with the same key finds the run it made, also after a restart."),
});

export interface SpawnToolOptions {
  readonly spawn: Spawn;
  /** What the caller has itself. */
  toolNames(context: ToolContext): Promise<readonly string[]>;
  readonly judge: Judge;
}

export function createSpawnTool(options: SpawnToolOptions): Tool {
  return defineTool({
    name: "sessions_spawn",
    description:
      "Sends out a sub-agent: a background run in a session of its own. Returns at once with {status, runId, childSessionKey}; the result is announced in this chat " +
      "when it ends, and you read it as quoted data at your next turn. For work that can go on side by side give tasks, or call it several times in one step. Don't wait for it unless you need the result in this very turn.",
    schema: spawnSchema,
    capability: "session",
    // A repeated call finds the run it made.
    repeatable: true,
    async run(args, context) {
      if (context.address === null) return toolError("There is no chat this run could report to.");
      const requester = {
        sessionKey: context.sessionKey,
        sessionId: context.sessionId,
        agentId: context.agentId,
        runId: context.runId,
        address: context.address,
        person: context.person,
        turnId: context.turnId,
        message: context.message,
        // By the call's place in the transcript, whoever makes it: a run that was interrupted behind the commit of its spawn, and goes on
        // with a message later, is another turn, and takes the same call up.
        spawnKey: `${context.sessionId}:${context.callId}`,
        signal: context.signal,
        tools: await options.toolNames(context),
      };
      const { task, tasks, group, ...shared } = args;
      const requests = tasks?.map((one) => ({ ...shared, ...defined(one) }) as SpawnRequest) ?? [
        { ...shared, task: task ?? "" } as SpawnRequest,
      ];
      for (const { resultSchema } of requests) {
        // Before the transaction, in which nobody may wait for anything but rows.
        const problem = await schemaProblem(options.judge, resultSchema);
        if (problem !== null) return { ...toolJson({ status: "error", error: problem }), isError: true };
      }
      const [only] = requests;
      const answer =
        tasks === undefined && group === undefined && only !== undefined
          ? await options.spawn.now(requester, only)
          : await options.spawn.all(requester, requests, group);
      return answer.status === "accepted" ? toolJson(answer) : { ...toolJson(answer), isError: true };
    },
  });
}

/** What one task leaves out is what the call says for all. */
const defined = (task: z.output<typeof taskSchema>) => Object.fromEntries(Object.entries(task).filter(([, value]) => value !== undefined));
