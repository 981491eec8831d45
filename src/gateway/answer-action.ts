// /subagents answer: which question somebody means, and the words when it is none. What counts as an answer: questions/replies.
import { type Address, addressKey } from "../core/address.ts";
import { liveId, type Question } from "../core/question.ts";
import { visibleLine } from "../core/visible-text.ts";
import { shortQuestionId } from "../questions/question-message.ts";
import { NO_QUESTION } from "../questions/replies.ts";
import { oneLine } from "../subagents/quoting.ts";
import { findTarget } from "../subagents/targets.ts";
import type { Answer, CommandContext } from "./commands.ts";
import { name, type SubagentCommandDeps, splitFirst } from "./subagent-action.ts";

const MAX_LISTED_QUESTIONS = 10;
/** So much of an id names a question. */
const MIN_PREFIX = 4;

/**
 * `answer <question id|run> <text>`. Looked up in the transaction that settles it: a press that comes late finds how it ended.
 */
export async function answer(deps: SubagentCommandDeps, context: CommandContext, rest: string): Promise<Answer> {
  return {
    act: async (tx) => {
      const found = await findQuestion(deps, context, rest);
      if ("problem" in found) return found.problem;
      return deps.replies.settle(tx, found.question.id, context.inbound.sender, found.words);
    },
  };
}

type FoundQuestion = { readonly question: Question; readonly words: string } | { readonly problem: string };

async function findQuestion(deps: SubagentCommandDeps, { sessionKey, inbound }: CommandContext, rest: string): Promise<FoundQuestion> {
  const [target, words] = splitFirst(rest);
  // A whole id is a button's: also of a question that is over, which says so.
  const named = isQuestionId(target) ? await deps.questions.get(target) : null;
  if (named !== null && (named.rootKey === sessionKey || (await standsHere(deps, named, inbound.address))))
    return { question: named, words };
  if (isQuestionId(target)) return { problem: NO_QUESTION };
  const open = await deps.questions.listOpen(sessionKey);
  const byId = target.length < MIN_PREFIX ? [] : await deps.questions.listByPrefix(sessionKey, target);
  const [first, second] = byId;
  // Also one that is over: its answer would be the wrong one to whoever else asks.
  if (first !== undefined && second === undefined) return { question: first, words };
  const run = target === "" ? null : await findTarget(deps, sessionKey, target);
  const ofRun = run !== null && "run" in run ? open.filter(({ runId }) => runId === run.run.id) : [];
  const [asked] = ofRun;
  if (asked !== undefined) return { question: asked, words };
  // Meant for that one, which has its answer by now or has ended: to whoever else asks it would be the wrong one.
  if (run !== null && "run" in run) return { problem: `${name(run.run)} asks nothing (any more). ${openQuestionsText(open)}` };
  // Nor are all the words taken for the answer to the only one that asks: the first may name somebody who asks no more, or not here.
  return { problem: openQuestionsText(open) };
}

/** Its chat moved, or its topic is gone: it was posted elsewhere than it was asked for, and is answered where it is seen. */
async function standsHere({ live }: SubagentCommandDeps, question: Question, address: Address): Promise<boolean> {
  const message = await live.get(liveId(question));
  return message !== null && message.ref !== null && addressKey(message.address) === addressKey(address);
}

/** As stores/questions.ts makes them: 128 bits. */
const isQuestionId = (text: string): boolean => /^[\w-]{22}$/.test(text);

function openQuestionsText(open: readonly Question[]): string {
  if (open.length === 0) return "Nobody asks anything here at the moment.";
  const lines = open
    .slice(0, MAX_LISTED_QUESTIONS)
    .map((question) => `- \`${shortQuestionId(question)}\` ${oneLine(question.asker)}: ${visibleLine(question.text, 80)}`);
  const more = open.length > lines.length ? [`- and ${open.length - lines.length} more`] : [];
  return ["Which question? `/subagents answer <id> <text>`", ...lines, ...more].join("\n");
}
