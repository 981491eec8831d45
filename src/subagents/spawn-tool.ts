// sessions_spawn as the model sees it: parameters and answers (SP1, SP2). The address, the requester and its rights
// come from the runtime's context; nothing in the arguments can name a chat.
import { z } from "zod";
import { THINKING_LEVELS } from "../core/thinking.ts";
import { defineTool, type Tool, type ToolContext, toolError, toolJson } from "../core/tool.ts";
import { briefParamsSchema } from "./documents/brief-params.ts";
import { ACCEPTED_ROLES } from "./roles.ts";
import type { Spawn } from "./spawn.ts";

const MAX_TASK = 256 * 1024;
const MAX_TEXT = 64 * 1024;

/** Blank means nothing was asked for; models like to fill every field. */
const optionalText = (max: number, what: string) =>
  z
    .string()
    .max(max)
    .nullish()
    .transform((text) => (text?.trim() ? text : undefined))
    .describe(what);

const spawnSchema = z.strictObject({
  task: z
    .string({ error: ({ input }) => (input === undefined ? "task is required" : undefined) })
    .max(MAX_TASK, `task is longer than ${MAX_TASK / 1024} KB`)
    .refine((text) => text.trim() !== "", "task is required")
    .describe("What to do, complete in itself: the sub-agent knows nothing of this conversation."),
  label: optionalText(MAX_TEXT, "A short name people will see; cut at 80 characters."),
  agentId: optionalText(200, "Run under another agent; agents_list names those you may use."),
  role: optionalText(60, `Posture: ${ACCEPTED_ROLES.join("; ")}. Default general.`),
  model: optionalText(200, "provider/model-id; an invalid one is skipped with a warning."),
  thinking: z.enum(THINKING_LEVELS).optional().describe("How much to think."),
  runTimeoutSeconds: z.number().int().min(0).max(86_400).optional().describe("End it after this many seconds; 0 = no limit."),
  cleanup: z.enum(["keep", "delete"]).optional().describe("delete: archive its transcript as soon as the announcement is delivered."),
  briefing: optionalText(MAX_TEXT, "Context the sub-agent should have, apart from the task."),
  systemPrompt: optionalText(MAX_TEXT, "A role text added to the sub-agent's own."),
  maxIterations: z.number().int().min(1).max(500).optional().describe("Most model steps it may take."),
  allowedTools: z.array(z.string().max(100)).max(100).optional().describe("Only these tools; it never widens what you have yourself."),
  brief: briefParamsSchema
    .nullish()
    .transform((brief) => brief ?? undefined)
    .describe("Mission, memory references and constraints; hints only, grants nothing."),
});

export interface SpawnToolOptions {
  readonly spawn: Spawn;
  /** What the caller has itself. */
  toolNames(context: ToolContext): Promise<readonly string[]>;
}

export function createSpawnTool(options: SpawnToolOptions): Tool {
  return defineTool({
    name: "sessions_spawn",
    description:
      "Sends out a sub-agent: a background run in a session of its own. Returns at once with {status, runId, childSessionKey}; the result is announced in this chat " +
      "when it ends, and you read it as quoted data at your next turn. Call it several times in one step for work that can go on side by side. Don't wait for it unless you need the result in this very turn.",
    schema: spawnSchema,
    capability: "session",
    // A repeated call finds the run it made.
    repeatable: true,
    async run(args, context) {
      if (context.address === null) return toolError("There is no chat this run could report to.");
      const answer = await options.spawn.now(
        {
          sessionKey: context.sessionKey,
          sessionId: context.sessionId,
          agentId: context.agentId,
          runId: context.runId,
          address: context.address,
          // By the call's place in the transcript, whoever makes it: a run that was interrupted behind the commit of its spawn, and goes on
          // with a message later, is another turn, and takes the same call up.
          spawnKey: `${context.sessionId}:${context.callId}`,
          signal: context.signal,
          tools: await options.toolNames(context),
        },
        args,
      );
      return answer.status === "accepted" ? toolJson(answer) : { ...toolJson(answer), isError: true };
    },
  });
}
