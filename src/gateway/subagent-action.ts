// What every action of /subagents works with: looking a target up, and doing so once more behind the lock of its answer.
import type { Payments } from "../budgets/payments.ts";
import { shortId } from "../core/ids.ts";
import type { Run } from "../core/run.ts";
import type { Replies } from "../questions/replies.ts";
import type { Tx } from "../stores/database.ts";
import type { LiveMessages } from "../stores/live-messages.ts";
import type { Questions } from "../stores/questions.ts";
import type { Again } from "../subagents/again.ts";
import type { Archiver } from "../subagents/archive.ts";
import type { SubagentDeps } from "../subagents/deps.ts";
import type { Briefing } from "../subagents/documents/briefing.ts";
import type { Documents } from "../subagents/documents/documents.ts";
import type { Spawn } from "../subagents/spawn.ts";
import type { Requester } from "../subagents/spawn-request.ts";
import type { Steering } from "../subagents/steering.ts";
import { findTarget } from "../subagents/targets.ts";
import type { Answer, CommandContext } from "./commands.ts";
import { answerTo } from "./pressing.ts";
import type { ThreadDeps } from "./threads.ts";

export interface SubagentCommandDeps
  extends Pick<SubagentDeps, "runs" | "groups" | "listings" | "transcripts" | "lane" | "clock" | "nodes">,
    Pick<ThreadDeps, "inbox"> {
  readonly steering: Steering;
  readonly spawn: Spawn;
  readonly again: Again;
  readonly payments: Pick<Payments, "ownLevel">;
  readonly questions: Pick<Questions, "get" | "listOpen" | "listByPrefix">;
  readonly live: Pick<LiveMessages, "get">;
  readonly replies: Pick<Replies, "settle">;
  readonly archiver: Archiver;
  readonly briefing: Briefing;
  readonly documents: Pick<Documents, "trace">;
  /** The chat as a requester, with the tools its agent has. */
  requester(tx: Tx, context: CommandContext): Promise<Requester>;
}

export type Action = (deps: SubagentCommandDeps, context: CommandContext, rest: string) => Promise<Answer>;

/** As it is when the command is carried out: it may have ended since it was looked up. */
export const asItIs = async ({ runs }: SubagentCommandDeps, run: Run): Promise<Run> => (await runs.get(run.id)) ?? run;

/** Looks the target up and goes on, or says what is wrong with it. */
export async function withTarget(
  deps: SubagentCommandDeps,
  context: CommandContext,
  target: string,
  then: (run: Run) => Promise<Answer>,
): Promise<Answer> {
  const find = () => findTarget(deps, context.sessionKey, target);
  const found = await find();
  if ("run" in found) return then(found.run);
  return {
    // Looked up once more behind the lock: who is told that there is none must not read of it afterwards, because it was sent out in between.
    act: async (tx) => {
      const now = await find();
      if ("problem" in now) return answerTo(context.inbound, now.problem);
      const answer = await then(now.run);
      return "act" in answer ? answer.act(tx) : answer.text;
    },
  };
}

/** The target and the rest; a label with blanks stands in quotes. */
export const splitFirst = (text: string): [string, string] => {
  const match = /^(?:"([^"]*)"|(\S*))\s*([\s\S]*)$/.exec(text);
  return [match?.[1] ?? match?.[2] ?? "", match?.[3] ?? ""];
};

export const name = (run: Run): string => `"${run.label}" (${shortId(run.id)})`;
