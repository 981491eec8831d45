// Questions as the page shows and answers them. The page's operator may answer those of every chat; who was first, and whether
// anybody still waits for it, is decided by the row, in one transaction under the lock of the question's own tree.
// web/questions-api.ts → here → questions/replies.ts
import { OPERATOR } from "../channels/web/channel.ts";
import type { Logger } from "../core/logger.ts";
import { optionMark, type Question } from "../core/question.ts";
import { closedText, type Replies } from "../questions/replies.ts";
import { lock } from "../stores/lock-keys.ts";
import type { Answered, AskedQuestion, PageAnswer, QuestionDesk } from "../web/questions.ts";
import { originOf } from "./board.ts";
import type { Stores } from "./store-parts.ts";

export interface QuestionDeskDeps {
  readonly stores: Pick<Stores, "db" | "questions">;
  readonly replies: Replies;
  readonly log: Logger;
}

export function createQuestionDesk(deps: QuestionDeskDeps): QuestionDesk {
  const { questions } = deps.stores;
  const waitedFor = async (list: readonly Question[]): Promise<AskedQuestion[]> => {
    const isOpen = await Promise.all(list.map((question) => deps.replies.isWaitedFor(question)));
    return list.filter((_question, n) => isOpen[n]).map(toAsked);
  };
  return {
    async open(limit) {
      const [listed, count] = [await questions.listAllOpen(limit), await questions.countOpen()];
      const open = await waitedFor(listed);
      // Of those beyond the limit nobody has looked whether they are still waited for.
      return { questions: open, total: open.length + Math.max(0, count - listed.length) };
    },
    ofRun: async (runId) => waitedFor(await questions.listOfRun(runId)),
    async find(id) {
      const question = await questions.get(id);
      if (question === null) return null;
      const isOpen = await deps.replies.isWaitedFor(question);
      const ended: Question = question.state === "open" ? { ...question, state: "void" } : question;
      return { ...toAsked(question), outcome: isOpen ? null : closedText(ended) };
    },
    answer: (id, given) => answer(deps, id, given),
  };
}

async function answer(
  { stores: { db, questions }, replies, log }: QuestionDeskDeps,
  id: string,
  given: PageAnswer,
): Promise<Answered | null> {
  const known = await questions.get(id);
  if (known === null) return null;
  if ((known.kind === "approve") !== "verdict" in given) return { status: "unfit", text: UNFIT[known.kind] };
  if ("option" in given && known.options[given.option - 1] === undefined)
    return { status: "unfit", text: `There is no option ${optionMark(given.option - 1)}: the question stays open.` };
  return db.transaction([lock.tree(known.rootKey)], async (tx): Promise<Answered> => {
    const before = await questions.get(id);
    const text = await replies.settle(tx, id, OPERATOR, wordsOf(given));
    const after = await questions.get(id);
    if (after?.state === "open") return { status: "unfit", text };
    if (before?.state !== "open" || after?.state !== "answered") return { status: "late", text };
    log.info({ audit: "answered", question: id, kind: known.kind, verdict: after.verdict }, "a question was answered on the page");
    return { status: "taken", text };
  });
}

const UNFIT = {
  ask: "This question wants an option or words.",
  approve: "This one wants a yes or a no.",
} as const;

/** As somebody would have typed it. */
function wordsOf(given: PageAnswer): string {
  if ("option" in given) return optionMark(given.option - 1);
  return "answer" in given ? given.answer : `${given.verdict} ${given.reason ?? ""}`;
}

const toAsked = ({ id, kind, asker, runId, text, options, tool, createdAt, expiresAt, address }: Question): AskedQuestion => ({
  ...{ id, kind, asker, runId, text, options, tool, createdAt, expiresAt },
  origin: originOf(address),
  chat: address.channel === "web" ? address.chat : null,
});
