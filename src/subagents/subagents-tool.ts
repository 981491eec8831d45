// The tool `subagents`: a model's own control of the runs below it (TL8). It sees the caller's tree only; "not allowed" and
// "not there" get the same answer (TL4). What the tool changes is in the stores when it answers, so that a crash right
// after it can't take back what the model was told.
import { z } from "zod";
import { isUnfinished, type Run, stepOf, type Wait } from "../core/run.ts";
import { defineTool, type Tool, type ToolContext, type ToolResult, toolError, toolJson, toolQuote } from "../core/tool.ts";
import type { Tx } from "../stores/database.ts";
import { resultOf } from "./announce.ts";
import type { SubagentDeps } from "./deps.ts";
import { briefRequestSchema } from "./documents/brief-params.ts";
import type { BriefSummary } from "./documents/brief-summary.ts";
import type { Briefing } from "./documents/briefing.ts";
import { outcomeSentence } from "./outcome.ts";
import type { Steering } from "./steering.ts";
import { currentRuns, type Found, findTarget, runsOf } from "./targets.ts";
import { DEFAULT_LOG, logText, MAX_LOG } from "./transcript-view.ts";
import { parsed } from "./typed-result.ts";
import { isOver } from "./waits.ts";

export type ControlDeps = SubagentDeps & {
  readonly steering: Steering;
  readonly briefing: Briefing;
  readonly briefSummary: BriefSummary;
  /** The message of a main session's turn is settled. */
  isTurnOver(turnId: string): Promise<boolean>;
};

const MAX_WAIT_SECONDS = 600;
const EARLIER = "from before the gateway's last start: includeEarlier shows them.";
const ACTIONS = ["list", "wait", "result", "stop", "send", "resume", "assign", "log", "brief", "revoke"] as const;

export const includeEarlier = z
  .boolean()
  .optional()
  .describe("list: also those that ended before the gateway's last start, marked earlierStart.");

const subagentsSchema = z.strictObject({
  action: z.enum(ACTIONS),
  ids: z
    .array(z.string().max(600))
    .max(50)
    .optional()
    .describe("Runs: run id (or its first characters), label or session key. wait and stop take several."),
  mode: z.enum(["all", "any"]).optional().describe("wait: until all (default) or any of them ended."),
  timeoutSeconds: z
    .number()
    .min(0)
    .max(MAX_WAIT_SECONDS)
    .optional()
    .describe(`wait: at most this long (default 60, at most ${MAX_WAIT_SECONDS}).`),
  text: z
    .string()
    .max(64 * 1024)
    .optional()
    .describe("send: the message. assign: the new task. resume: what to mind."),
  limit: z.number().int().min(1).max(MAX_LOG).optional().describe("log: how many messages."),
  brief: briefRequestSchema.optional().describe("brief: the whole new brief; what you gave before is replaced."),
  includeEarlier,
});

type Args = z.output<typeof subagentsSchema>;

export function createSubagentsTool(deps: ControlDeps): Tool {
  return defineTool({
    name: "subagents",
    description:
      "Controls the sub-agents you sent out: list them, wait for one or more (all or any, with a deadline), read a result, stop, send a message to one at work, " +
      "resume an interrupted or failed one from where it stopped, assign a finished one a new task in the same session, read a log, brief one (what it " +
      "may know: hints it sees from its next step on, granting nothing) or revoke the brief you gave.",
    schema: subagentsSchema,
    capability: "session",
    repeatable: ({ action }) => action === "wait",
    async waitsFor(args, context) {
      const found = args.action === "wait" ? await targets(deps, context, args) : null;
      if (found === null || "problem" in found) return null;
      const wait = waitFor(args, context, found.runs);
      return (await isOver(deps, wait)) ? null : wait;
    },
    async run(args, context) {
      const { action } = args;
      if (action === "list") return quoteRuns(await listOf(deps, context, args));
      const found = await targets(deps, context, args);
      if ("problem" in found) return toolError(found.problem);
      return act(deps, { ...args, action }, context, found.runs);
    },
  });
}

/** The caller's runs. What ended before the last start is old news, unless it is asked for; then it is marked (RU3). */
export async function ownRuns(deps: Pick<ControlDeps, "runs" | "nodes">, context: ToolContext, args: Pick<Args, "includeEarlier">) {
  const every = await runsOf(deps.runs, context.sessionKey);
  const current = currentRuns(every, await deps.nodes.alive());
  const mark = (run: Run) => (current.includes(run) ? {} : { earlierStart: true });
  return { runs: args.includeEarlier === true ? every : current, earlier: every.length - current.length, mark };
}

async function listOf(deps: ControlDeps, context: ToolContext, args: Args) {
  const { runs, earlier, mark } = await ownRuns(deps, context, args);
  const leftOut = args.includeEarlier === true || earlier === 0 ? undefined : `${earlier} ${EARLIER}`;
  const places = await deps.lane.positions(runs.map((run) => run.id));
  return { runs: runs.map((run) => ({ ...view(run, places), ...mark(run) })), leftOut };
}

type Targets = readonly [Run, ...Run[]];

/**
 * A wait is resolved anew when it goes on, and `last` or a label must still mean the same run: first of those there were when it
 * was called, then of what was sent out in the same step.
 */
async function targets(
  deps: ControlDeps,
  context: ToolContext,
  { action, ids = [] }: Args,
): Promise<{ runs: Targets } | { problem: string }> {
  const find = async (id: string): Promise<Found> => {
    const known = action === "wait" ? await findTarget(deps, context.sessionKey, id, context.calledAt) : null;
    return known !== null && "run" in known ? known : await findTarget(deps, context.sessionKey, id);
  };
  const runs: Run[] = [];
  for (const id of ids) {
    const found = await find(id);
    if ("problem" in found) return found;
    runs.push(found.run);
  }
  const [first, ...others] = runs;
  return first === undefined ? { problem: "ids is required for this action." } : { runs: [first, ...others] };
}

type ActArgs = Args & { readonly action: Exclude<Args["action"], "list"> };

async function act(deps: ControlDeps, args: ActArgs, context: ToolContext, runs: Targets): Promise<ToolResult> {
  const [run] = runs;
  switch (args.action) {
    case "wait":
      return waited(deps, args, runs);
    case "result":
      if (isUnfinished(run.state)) return toolError(`Run ${run.id} is ${run.state}; it has no result yet.`);
      return quoteRuns(await withResult(deps, run), await outcomes(deps, [run]));
    case "stop": {
      const stopped = await deps.db.transaction(deps.steering.locks(runs), (tx) => deps.steering.stop(tx, runs, "by its requester"));
      return toolJson({
        stopped: stopped.map((one) => one.id),
        alreadyEnded: runs.filter((one) => !isUnfinished(one.state)).map((one) => one.id),
      });
    }
    case "log":
      return quoteLog(deps, run, { limit: args.limit, tools: true });
    case "send":
      return send(deps, run, context, args.text);
    case "assign":
      if (isUnfinished(run.state)) return toolError(`Run ${run.id} is still ${run.state}: use send.`);
      return send(deps, run, context, args.text);
    case "resume":
      if (isUnfinished(run.state) || run.state === "done")
        return toolError(`Run ${run.id} is ${run.state}: only an interrupted, failed, timed-out or stopped one can be resumed.`);
      return send(deps, run, context, args.text ?? "You were interrupted. Go on from where you stopped and finish the task.");
    case "brief":
      return brief(deps, runs, context, args.brief);
    case "revoke": {
      const revoked = await deps.db.transaction(deps.steering.locks(runs), (tx) => revokeAll(deps, tx, runs, context.sessionKey));
      await deps.briefing.written();
      // Whoever revokes it is told that it is gone.
      for (const one of revoked) await deps.briefing.write(one);
      return toolJson({ revoked: revoked.map((one) => one.id), note: "From its next step on it sees nothing of your brief." });
    }
  }
}

export async function send(
  deps: Pick<ControlDeps, "db" | "runs" | "steering" | "isTurnOver">,
  run: Run,
  context: ToolContext,
  text: string | undefined,
): Promise<ToolResult> {
  if (text === undefined || text.trim() === "") return toolError("text is required for this action.");
  const answer = await deps.db.transaction(deps.steering.locks([run]), async (tx) =>
    (await hasEnded(deps, context)) ? { refused: HAS_ENDED } : await deps.steering.send(tx, run, context.sessionKey, text),
  );
  if (typeof answer === "object") return toolError(answer.refused);
  const how = {
    queued: "It is queued and reads this first.",
    running: "It reads this at its next step.",
    continued: "It goes on in the same session and will announce again.",
  };
  return toolJson({ status: "sent", runId: run.id, note: how[answer] });
}

const HAS_ENDED = "This turn was ended; nothing was sent.";

/** In the transaction of what it asks for: a turn that was stopped a moment ago must not set anybody to work again (ST2). */
async function hasEnded(
  { runs, isTurnOver }: Pick<ControlDeps, "runs" | "isTurnOver">,
  { runId, signal, turnId }: ToolContext,
): Promise<boolean> {
  const run = runId === null ? null : await runs.get(runId);
  // The rows, too: what another process has stopped this one may not have heard of.
  return signal.aborted || (run === null ? await isTurnOver(turnId) : !isUnfinished(run.state));
}

async function revokeAll(deps: ControlDeps, tx: Tx, runs: readonly Run[], requesterKey: string): Promise<Run[]> {
  const revoked: Run[] = [];
  for (const run of runs) if ((await deps.briefing.revoke(tx, run, requesterKey, requesterKey)) > 0) revoked.push(run);
  return revoked;
}

async function brief(deps: ControlDeps, runs: Targets, context: ToolContext, request: Args["brief"]): Promise<ToolResult> {
  if (request === undefined) return toolError("brief is required for this action.");
  const briefed = await deps.briefSummary.of(context, request, runs[0].task);
  if ("refused" in briefed) return toolError(briefed.refused);
  const params = briefed.brief;
  const refused = await deps.briefing.check(context.sessionKey, params);
  if (refused !== null) return toolError(refused);
  // Under the lock of their trees: a person who replaces a brief on the page looks first which one that is.
  await deps.db.transaction(deps.steering.locks(runs), async (tx) => {
    for (const run of runs) await deps.briefing.apply(tx, run, context.sessionKey, params);
  });
  await deps.briefing.written();
  const shown = request.fromTurns === undefined ? {} : { brief: params };
  return toolJson({ briefed: runs.map((run) => run.id), note: "It sees this brief from its next step on. It grants nothing.", ...shown });
}

type WaitArgs = Pick<Args, "mode" | "timeoutSeconds">;

const waitFor = (args: WaitArgs, context: ToolContext, runs: readonly Run[]): Extract<Wait, { for: "runs" }> => ({
  for: "runs",
  ids: runs.map((run) => run.id),
  mode: args.mode ?? "all",
  since: context.calledAt,
  until: context.calledAt + (args.timeoutSeconds ?? 60) * 1000,
});

/** Fan-in: once they have ended, or its time is over. */
async function waited(deps: ControlDeps, args: WaitArgs, runs: readonly Run[]): Promise<ToolResult> {
  const seen: unknown[] = [];
  const places = await deps.lane.positions(runs.map((run) => run.id));
  for (const run of runs) seen.push(isUnfinished(run.state) ? view(run, places) : await withResult(deps, run));
  const ended = runs.map((run) => !isUnfinished(run.state));
  const complete = args.mode === "any" ? ended.includes(true) : !ended.includes(false);
  return quoteRuns({ complete, runs: seen }, await outcomes(deps, runs));
}

/** JSON behind the fence: what children and their programs wrote stands in it, as labels, steps, doing and results (IN4). */
export const quoteRuns = (runs: unknown, remark = ""): ToolResult => toolQuote("sub-agents", JSON.stringify(runs), remark);

/** NV3: what became of those that ended, in the runtime's own words and therefore outside the fence. */
async function outcomes(deps: ControlDeps, runs: readonly Run[]): Promise<string> {
  const lines: string[] = [];
  for (const run of runs) {
    const { state } = run;
    if (!isUnfinished(state))
      lines.push(
        outcomeSentence(run, { ...run, as: state }, (await resultOf(deps.transcripts, (await deps.runs.get(run.id)) ?? run)).result),
      );
  }
  return lines.join("\n");
}

export const quoteLog = async (deps: ControlDeps, run: Run, options: { limit: number | undefined; tools: boolean }): Promise<ToolResult> =>
  toolQuote(
    `log of the sub-agent ${run.label}`,
    await logText(deps.transcripts, run, { limit: options.limit ?? DEFAULT_LOG, tools: options.tools }),
  );

const view = (run: Run, places: ReadonlyMap<string, number> = new Map()) => ({
  runId: run.id,
  label: run.label,
  state: run.state,
  childSessionKey: run.childKey,
  doing: run.doing,
  step: stepOf(run.plan),
  place: places.get(run.id) ?? null,
});

/** Looked up again: archived since, its transcript has another name. */
const withResult = async (deps: ControlDeps, run: Run) => ({
  ...view(run),
  // A typed result is its data alone (TR1).
  ...(run.data !== null
    ? { data: parsed(run.data) ?? run.data }
    : { ...(await resultOf(deps.transcripts, (await deps.runs.get(run.id)) ?? run)), sections: run.sections }),
  ...(run.checks === null ? {} : { checks: run.checks }),
});
