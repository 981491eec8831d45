// Approvals (QA4): a call of a tool that the settings name waits for a person's yes, which is for this one call as it was shown: bound
// to its place in the transcript and to a digest of what it would do, used once. An answer to `ask` never comes here.
// tool-calls.ts → here → asking.ts (the question), stores/approval-rules (what somebody allowed for longer)
import { hash } from "node:crypto";
import type { Decision, Gate, WantedCall } from "../agents/gate.ts";
import type { Clock } from "../core/clock.ts";
import { codeBlock } from "../core/code-block.ts";
import { publicErrorText } from "../core/errors.ts";
import type { HitFailpoint } from "../core/failpoints.ts";
import { nameOf, type Question } from "../core/question.ts";
import { type Preview, type Tool, type ToolContext, toolError } from "../core/tool.ts";
import { visibleLine } from "../core/visible-text.ts";
import type { ApprovalRule, ApprovalRules } from "../stores/approval-rules.ts";
import type { Database } from "../stores/database.ts";
import { lock } from "../stores/lock-keys.ts";
import type { Questions } from "../stores/questions.ts";
import { type AskerDeps, isAskerThere } from "./asker.ts";
import type { Asking } from "./asking.ts";
import { chatScope, runScope } from "./scopes.ts";

export interface ApprovalDeps extends AskerDeps {
  readonly db: Database;
  readonly questions: Questions;
  readonly rules: Pick<ApprovalRules, "find">;
  readonly asking: Asking;
  readonly clock: Clock;
  readonly failpoint: HitFailpoint;
  /** Do the settings want a yes for this tool, from this caller? */
  needsYes(tool: string, context: ToolContext): Promise<boolean>;
}

/** Somebody sits before the chat whose own turn asks; of a sub-agent's question people hear when they come by. */
const ATTENDED_MS = 15 * 60_000;
const BACKGROUND_MS = 24 * 3_600_000;
const GO: Decision = { go: true };

export function createApprovals(deps: ApprovalDeps): Gate {
  return {
    async decide(call) {
      const isWanted = await deps.needsYes(call.tool.name, call.context);
      // Asked about under earlier settings, a call keeps its answer: a No stays one.
      if (!isWanted && !call.isAgain) return GO;
      const known = await findApproval(deps, call.context);
      if (known !== null) return follow(deps, call, known);
      return isWanted ? ask(deps, call) : GO;
    },
    async isUnbegun(context) {
      const known = await findApproval(deps, context);
      return known !== null && known.usedAt === null;
    },
  };
}

/** The tool `ask` has questions of the same calls: they are never a permission (APPR-009). */
async function findApproval({ asking }: ApprovalDeps, context: ToolContext): Promise<Question | null> {
  const found = await asking.find(context);
  return found?.kind === "approve" ? found : null;
}

async function ask(deps: ApprovalDeps, call: WantedCall): Promise<Decision> {
  const { tool, context } = call;
  if ((await ruleFor(deps, call)) !== null) return GO;
  const shown = await previewOf(call);
  // What can't even be shown would fail as well: nobody is asked for nothing.
  if ("problem" in shown) return refused(shown.problem);
  const asked = await deps.asking.put(context, {
    ...{ kind: "approve" as const, text: shown.markdown, options: [], tool: tool.name, digest: digestOf(call, shown) },
    forMs: context.runId === null ? ATTENDED_MS : BACKGROUND_MS,
  });
  if ("refused" in asked) return refused(`Not carried out: ${tool.name} needs a person's yes. ${asked.refused} Go on without it.`);
  return follow(deps, call, asked);
}

async function ruleFor({ rules, asking }: ApprovalDeps, { tool, context }: WantedCall): Promise<ApprovalRule | null> {
  const asker = await asking.askerOf(context);
  return rules.find([chatScope(asker), runScope(asker)], tool.name);
}

/** What became of this call's own question. */
async function follow(deps: ApprovalDeps, call: WantedCall, question: Question): Promise<Decision> {
  switch (question.state) {
    case "open":
      return allowOpen(deps, call, question);
    case "expired":
      return refused("Denied: nobody answered; go on without it.");
    case "void":
      return refused("Denied: the question was closed without an answer; go on without it.");
    case "answered":
      if (question.verdict === "no") return denied(question);
      return question.usedAt === null ? use(deps, call, question) : begunBefore(call, question);
  }
}

/** A rule given meanwhile, with the answer to another call's question say, answers this one too. */
async function allowOpen(deps: ApprovalDeps, call: WantedCall, question: Question): Promise<Decision> {
  const rule = await ruleFor(deps, call);
  if (rule === null) return { wait: deps.asking.waitFor(question) };
  const verdict = rule.scope === chatScope(question) ? "always" : "run";
  await deps.db.transaction([lock.tree(question.rootKey)], (tx) =>
    deps.questions.answer(tx, question.id, { by: rule.givenBy, answer: "", verdict }),
  );
  // As it is now: somebody's No may have been first.
  const settled = await deps.questions.get(question.id);
  return settled === null || settled.state === "open" ? refused("Denied: the question is gone.") : follow(deps, call, settled);
}

function denied({ answer, answeredBy }: Question): Decision {
  const who = answeredBy === null ? "somebody" : visibleLine(nameOf(answeredBy), MAX_NAME);
  const said = `Denied by ${who}. Go on without it; asking again for the same is of no use.`;
  const reason = answer ?? "";
  return reason === "" ? refused(said) : { refused: { ...toolError(said), quoted: { source: `the reason of ${who}`, text: reason } } };
}

const MAX_NAME = 80;

/**
 * The yes is used up, durably, before the tool begins: killed after this moment nobody can tell whether it ran, and it is not run again.
 * In one with a look whether the asker is still there: a stop that was first would have the tool begin after its answer (ST2).
 */
async function use(deps: ApprovalDeps, call: WantedCall, question: Question): Promise<Decision> {
  const shown = await previewOf(call);
  const isSame = !("problem" in shown) && digestOf(call, shown) === question.digest;
  const isUsed = await deps.db.transaction(
    [lock.tree(question.rootKey)],
    async (tx) => (await isAskerThere(deps, question)) && (await deps.questions.use(tx, question.id)),
  );
  deps.failpoint("approval.used");
  if (!isUsed) return refused("Not carried out: what it was allowed for is over.");
  return isSame ? goOn(shown) : refused(changedText(call.tool));
}

const goOn = ({ basis }: Preview): Decision => (basis === undefined ? GO : { go: true, basis });

/** The same call once more, after a restart: only where that has no second effect, and only on what was shown. */
async function begunBefore(call: WantedCall, question: Question): Promise<Decision> {
  const { tool, args } = call;
  const isRepeatable = typeof tool.repeatable === "function" ? tool.repeatable(args) : tool.repeatable === true;
  const shown = isRepeatable ? await previewOf(call) : null;
  return shown !== null && !("problem" in shown) && digestOf(call, shown) === question.digest ? goOn(shown) : refused(BEGUN_BEFORE);
}

const BEGUN_BEFORE = "This call was begun before the gateway restarted. Whether it took effect is unknown: check before you do it again.";

const changedText = ({ capability }: Tool): string =>
  `Nothing was done: ${capability === "write" ? "the file" : "what it would do"} changed since you were asked, and the yes is used up. ` +
  "Look again; a repeated call asks anew.";

const refused = (text: string): Decision => ({ refused: toolError(text) });

/** Of tools that have no better words for what they would do: all of their arguments, as they are. */
const argumentsPreview = (args: unknown): Preview => ({ markdown: codeBlock(JSON.stringify(args, null, 2) ?? "", "json") });

type Shown = Preview | { readonly problem: string };

async function previewOf({ tool, args, context }: WantedCall): Promise<Shown> {
  try {
    return (await tool.preview?.(args, context)) ?? argumentsPreview(args);
  } catch (error) {
    return { problem: publicErrorText(error) };
  }
}

/** Of exactly what was asked about; `basis`: what it rests on beside its arguments. */
const digestOf = ({ tool, args, context }: WantedCall, { basis }: Preview): string =>
  hash("sha256", JSON.stringify([tool.name, args, context.workspace, basis ?? null], sortedKeys), "base64url");

/** The order in which a model writes them means nothing. */
const sortedKeys = (_: string, value: unknown): unknown =>
  typeof value === "object" && value !== null && !Array.isArray(value)
    ? Object.fromEntries(Object.entries(value).sort(([one], [other]) => (one < other ? -1 : 1)))
    : value;
