// /subagents rerun and diff: a run once more, and two side by side (RP).
import { shortId } from "../core/ids.ts";
import type { Run } from "../core/run.ts";
import type { Changes } from "../subagents/again.ts";
import type { SpawnAnswer } from "../subagents/spawn-request.ts";
import type { Answer, CommandContext } from "./commands.ts";
import { type SubagentCommandDeps, splitFirst, withTarget } from "./subagent-action.ts";

const MODEL = /^model=(\S+)\s*/;

/** `[model=provider/id] [task…]` behind the target. */
function readChanges(words: string): Changes {
  const model = MODEL.exec(words)?.[1];
  const task = words.replace(MODEL, "").trim();
  return { ...(model === undefined ? {} : { model }), ...(task === "" ? {} : { task }) };
}

function rerunText(first: Run, answer: SpawnAnswer): string {
  if (answer.status !== "accepted") return `⚠️ ${answer.error}`;
  const warning = answer.warning === undefined ? "" : `\n\n_⚠️ ${answer.warning}_`;
  return `🧭 Sent out "${answer.label}" once more (${shortId(answer.runId)}, after ${shortId(first.id)}). \`/subagents diff ${shortId(first.id)} ${shortId(answer.runId)}\` compares them.${warning}`;
}

async function diffText({ transcripts, clock }: SubagentCommandDeps, one: Run, other: Run): Promise<string> {
  if (one.id === other.id) return "That is one and the same run.";
  const { compareText, gather } = await import("../subagents/compare.ts");
  return compareText(await gather(transcripts, one), await gather(transcripts, other), clock.now());
}

export async function rerun(deps: SubagentCommandDeps, context: CommandContext, rest: string): Promise<Answer> {
  const [target, words] = splitFirst(rest);
  return withTarget(deps, context, target, async (run) => ({
    act: async (tx) => rerunText(run, await deps.again.in(tx, await deps.requester(tx, context), run, readChanges(words))),
  }));
}

export async function diff(deps: SubagentCommandDeps, context: CommandContext, rest: string): Promise<Answer> {
  const [first, others] = splitFirst(rest);
  const [second] = splitFirst(others);
  if (second === "") return { text: "Which two? `/subagents diff <id|#> <id|#>`" };
  return withTarget(deps, context, first, (one) =>
    withTarget(deps, context, second, async (other) => ({ text: await diffText(deps, one, other) })),
  );
}
