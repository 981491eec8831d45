// The tools about sessions: sessions_list, sessions_history, sessions_send, agents_list. They see the caller's own tree only;
// "not allowed" and "not there" get the same answer (TL4).
import { z } from "zod";
import type { Run } from "../core/run.ts";
import { defineTool, type Tool, type ToolContext, type ToolResult, toolError, toolJson } from "../core/tool.ts";
import { allowedAgents } from "./limits.ts";
import { type ControlDeps, includeEarlier, ownRuns, quoteLog, quoteRuns, send } from "./subagents-tool.ts";
import { MAX_LOG } from "./transcript-view.ts";

export function createSessionTools(deps: ControlDeps): Tool[] {
  const list = defineTool({
    name: "sessions_list",
    description: "Lists this session and the sessions of the sub-agents below it.",
    schema: z.strictObject({ includeEarlier }),
    capability: "session",
    async run(args, context) {
      const { runs, mark } = await ownRuns(deps, context, args);
      const children = runs.map((run) => ({
        key: run.childKey,
        label: run.label,
        state: run.state,
        createdAt: new Date(run.createdAt).toISOString(),
        ...mark(run),
      }));
      return quoteRuns([{ key: context.sessionKey, own: true }, ...children]);
    },
  });
  const history = defineTool({
    name: "sessions_history",
    description: "Reads the last messages of a session of your own tree (a sub-agent you sent out, or one further down).",
    schema: z.strictObject({
      sessionKey: z.string().max(600),
      limit: z.number().int().min(1).max(MAX_LOG).optional(),
      tools: z.boolean().optional(),
    }),
    capability: "session",
    async run(args, context) {
      const run = await inTree(deps, context, args.sessionKey);
      if (run === null) return notVisible(args.sessionKey);
      return quoteLog(deps, run, { limit: args.limit, tools: args.tools ?? false });
    },
  });
  const sendTo = defineTool({
    name: "sessions_send",
    description: "Sends a message to the session of a sub-agent of yours: read at its next step when it works, else it goes on with it.",
    schema: z.strictObject({
      sessionKey: z.string().max(600),
      message: z
        .string()
        .min(1)
        .max(64 * 1024),
    }),
    capability: "session",
    async run(args, context) {
      if (args.sessionKey.toLowerCase() === context.sessionKey) return toolError("A session cannot send to itself.");
      const run = await inTree(deps, context, args.sessionKey);
      return run === null ? notVisible(args.sessionKey) : await send(deps, run, context, args.message);
    },
  });
  const agents = defineTool({
    name: "agents_list",
    description: "Lists the agent ids that sessions_spawn accepts as agentId here.",
    schema: z.strictObject({}),
    capability: "session",
    async run(_args, context) {
      const agent = deps.agents.find(context.agentId);
      return toolJson(
        agent === null
          ? []
          : allowedAgents(
              agent,
              deps.agents.list().map((one) => one.id),
            ),
      );
    },
  });
  return [list, history, sendTo, agents];
}

async function inTree(deps: ControlDeps, context: ToolContext, key: string): Promise<Run | null> {
  const run = await deps.runs.findByChildKey(key.toLowerCase());
  return run !== null && (await deps.runs.isBelow(run.childKey, context.sessionKey)) ? run : null;
}

const notVisible = (key: string): ToolResult => toolError(`There is no session "${key.slice(0, 120)}" that you can see.`);
