// /approvals: what people of this chat allowed for longer than one call, and taking it back (QA4). What was allowed for a run or a turn
// ends with it and is not listed.
import type { Clock } from "../core/clock.ts";
import { nameOf } from "../core/question.ts";
import { chatScope } from "../questions/scopes.ts";
import type { ApprovalRule, ApprovalRules } from "../stores/approval-rules.ts";
import type { Tx } from "../stores/database.ts";
import { duration } from "../subagents/figures.ts";
import { oneLine } from "../subagents/quoting.ts";
import { type Command, type CommandContext, plural } from "./commands.ts";

export interface ApprovalsCommandDeps {
  readonly rules: Pick<ApprovalRules, "list" | "revoke">;
  readonly clock: Clock;
}

const USAGE = "`/approvals revoke <number|tool|all>` takes one back.";

export function createApprovalsCommand(deps: ApprovalsCommandDeps): Command {
  return {
    name: "approvals",
    usage: "/approvals [revoke <number|tool|all>]",
    summary: "the tools that are always allowed in this chat; revoke takes one back",
    run: (context) => ({ act: (tx) => carryOut(deps, tx, context) }),
  };
}

async function carryOut(deps: ApprovalsCommandDeps, tx: Tx, { sessionKey, args }: CommandContext): Promise<string> {
  const rules = await deps.rules.list(chatScope({ rootKey: sessionKey }));
  const [action = "", target = ""] = args.trim().split(/\s+/);
  if (action === "" || action.toLowerCase() === "list") return listText(rules, deps.clock.now());
  if (action.toLowerCase() !== "revoke" || target === "") return `${listText(rules, deps.clock.now())}\n\n${USAGE}`;
  const meant = meantBy(rules, target);
  if (meant.length === 0) return `There is no approval "${oneLine(target).slice(0, 80)}" in this chat. /approvals lists them.`;
  for (const { id } of meant) await deps.rules.revoke(tx, id);
  return `🔐 Taken back: ${meant.map(({ tool }) => `\`${tool}\``).join(", ")}. From the next call on somebody is asked again.`;
}

function meantBy(rules: readonly ApprovalRule[], target: string): readonly ApprovalRule[] {
  if (target.toLowerCase() === "all") return rules;
  // By its name too: another press may have changed the numbers since they were listed.
  return rules.filter(({ tool }, n) => target === tool || target.replace(/^#/, "") === String(n + 1));
}

function listText(rules: readonly ApprovalRule[], now: number): string {
  if (rules.length === 0) return "🔐 Nothing is always allowed in this chat: each call that needs a yes asks for it.";
  const lines = rules.map(
    ({ tool, givenBy, at }, n) => `${n + 1}) \`${tool}\` · by ${oneLine(nameOf(givenBy))} · ${duration(now - at)} ago`,
  );
  return [`🔐 Always allowed in this chat: ${plural(rules.length, "tool")}`, ...lines, "", USAGE].join("\n");
}
