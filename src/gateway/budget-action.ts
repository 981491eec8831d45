// /subagents budget: raising what a run may spend (BG6), and what is spent of such limits in lists.
import { capText, spentText } from "../budgets/words.ts";
import type { Run } from "../core/run.ts";
import { raise, readAmount } from "../subagents/raising.ts";
import type { Answer, CommandContext } from "./commands.ts";
import { name, type SubagentCommandDeps, splitFirst, withTarget } from "./subagent-action.ts";

/** What is spent of the limits of those that have one. */
export async function limitsOf({ payments }: SubagentCommandDeps, runs: readonly Run[]): Promise<ReadonlyMap<string, string>> {
  const limits = new Map<string, string>();
  for (const run of runs) {
    const level = await payments.ownLevel(run);
    if (level !== null) limits.set(run.id, spentText(level));
  }
  return limits;
}

export async function budget(deps: SubagentCommandDeps, context: CommandContext, rest: string): Promise<Answer> {
  const [target, words] = splitFirst(rest);
  const [, written = "", mark] = /^(\S+)(?:\s+g(\d{1,6}))?$/.exec(words) ?? [];
  const amount = readAmount(written);
  if (amount === null) return { text: "By how much? `/subagents budget <id|#> +0.50` (USD) or `+20k` (tokens)" };
  return withTarget(deps, context, target, async (run) => ({
    act: async (tx) => {
      const by = context.inbound.sender.name ?? context.inbound.sender.id;
      const raised = await raise(deps, tx, run, { by, amount, generation: mark === undefined ? null : Number(mark) });
      if ("refused" in raised) return raised.refused;
      return `💰 ${name(run)} may spend ${capText(raised.budget)} now${raised.goesOn ? "; it goes on and will announce again" : ""}.`;
    },
  }));
}
