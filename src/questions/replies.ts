// Answering: somebody's words or press → the question settled, in the caller's transaction, and what they are told. Everything that
// can be late, doubled or somebody else's meets the row here: the first answer counts, and whoever comes after reads how it ended.
import type { Clock } from "../core/clock.ts";
import { nameOf, optionMark, type Person, type Question, VERDICTS, type Verdict } from "../core/question.ts";
import { visibleLine, visibleText } from "../core/visible-text.ts";
import type { ApprovalRules } from "../stores/approval-rules.ts";
import type { Tx } from "../stores/database.ts";
import type { Questions } from "../stores/questions.ts";
import { type AskerDeps, isAskerThere } from "./asker.ts";
import { verdictText } from "./question-message.ts";
import { chatScope, runScope } from "./scopes.ts";

export interface ReplyDeps extends AskerDeps {
  readonly questions: Questions;
  readonly rules: ApprovalRules;
  readonly clock: Clock;
}

export interface Replies {
  /** Settles the question, or says why not. The caller holds the lock of the question's tree, and has let the person pass the gate. */
  settle(tx: Tx, questionId: string, by: Person, words: string): Promise<string>;
  /** It is open, in time, and whoever asked is still there: for lists. An answer is held against all that again when it comes. */
  isWaitedFor(question: Question): Promise<boolean>;
}

/** An answer stands in a transcript and is sent with every later call of the run. */
const MAX_ANSWER = 16_000;
const MAX_SHOWN = 80;

export function createReplies(deps: ReplyDeps): Replies {
  return {
    async settle(tx, questionId, by, words) {
      const question = await deps.questions.get(questionId);
      if (question === null) return NO_QUESTION;
      const over = await whyOver(deps, tx, question);
      if (over !== null) {
        await deps.questions.addLate(
          tx,
          question.id,
          `${new Date(deps.clock.now()).toISOString()} ${nameOf(by)}: ${visibleLine(words, MAX_SHOWN)}; ${over}`,
        );
        return over;
      }
      const read = question.kind === "ask" ? readAnswer(question, words) : readVerdict(words);
      if ("problem" in read) return read.problem;
      if (!(await deps.questions.answer(tx, question.id, { by, ...read })))
        return closedText((await deps.questions.get(question.id)) ?? question);
      if (read.verdict === "always" || read.verdict === "run") await allowLonger(deps, tx, question, { by, verdict: read.verdict });
      return thanks(question, read);
    },
    isWaitedFor: async (question) =>
      question.state === "open" && deps.clock.now() < question.expiresAt && (await isAskerThere(deps, question)),
  };
}

/**
 * The rule, and with it whatever else it covers that is asked already: whoever waits for that is only rung by its own question, and
 * would be refused in the end what is always allowed.
 */
async function allowLonger(deps: ReplyDeps, tx: Tx, question: Question, { by, verdict }: { by: Person; verdict: "always" | "run" }) {
  const scopeOf = verdict === "always" ? chatScope : runScope;
  await deps.rules.put(tx, scopeOf(question), question.tool ?? "", by);
  for (const other of await deps.questions.listOpen(question.rootKey)) {
    const isCovered = other.kind === "approve" && other.tool === question.tool && scopeOf(other) === scopeOf(question);
    if (isCovered && (await whyOver(deps, tx, other)) === null) await deps.questions.answer(tx, other.id, { by, answer: "", verdict });
  }
}

/** The same for one that is not there and one of another chat: nobody learns which. */
export const NO_QUESTION = "There is no such question here, or it is long over.";

/** Null: it is open, and whoever asked still waits. Looked at in the transaction that settles it: a run that ends meanwhile reads no answer. */
async function whyOver(deps: ReplyDeps, tx: Tx, question: Question): Promise<string | null> {
  if (question.state !== "open") return closedText(question);
  if (deps.clock.now() >= question.expiresAt) {
    await deps.questions.close(tx, question.id, "expired");
    return closedText({ ...question, state: "expired" });
  }
  if (await isAskerThere(deps, question)) return null;
  await deps.questions.close(tx, question.id, "void");
  return closedText({ ...question, state: "void" });
}

/** How it ended, for whoever comes after. */
export function closedText(question: Question): string {
  const { state, answeredBy, answer, verdict } = question;
  if (state === "expired") return "This question is closed: nobody had answered in time.";
  if (state !== "answered") return "This question is closed: what asked it has ended.";
  const words = visibleLine(answer ?? "", MAX_SHOWN);
  const said = verdict === null ? words : `${verdictText(verdict, question)}${words === "" ? "" : `: ${words}`}`;
  return `Already answered by ${answeredBy === null ? "somebody" : nameOf(answeredBy)}: ${said}`;
}

interface Read {
  readonly answer: string;
  readonly verdict: Verdict | null;
}

function readAnswer({ options }: Question, words: string): Read | { readonly problem: string } {
  const text = visibleText(words).trim();
  if (text === "") return { problem: "An answer needs words: the question stays open." };
  if (text.length > MAX_ANSWER)
    return { problem: `An answer can have ${MAX_ANSWER} characters, this one has ${text.length}: the question stays open.` };
  return { answer: markedOption(options, text) ?? options.find((one) => one.toLowerCase() === text.toLowerCase()) ?? text, verdict: null };
}

/** Behind a button. Anything else with such a sign is what somebody wrote: the number of an issue, say. */
const markedOption = (options: readonly string[], text: string): string | undefined => options.find((_, n) => optionMark(n) === text);

const ALIASES: Readonly<Record<string, Verdict>> = { y: "yes", ok: "yes", allow: "yes", n: "no", deny: "no" };

/**
 * `no, because …`: the reason is for the model to read. A yes has no more words than that: "run the tests first" and "ok, but not in
 * production" begin like one and allow nothing of what was shown.
 */
function readVerdict(words: string): Read | { readonly problem: string } {
  const [, word = "", rest = ""] = /^([a-z]*)[\s,:.!]*([\s\S]*)$/i.exec(visibleText(words).trim()) ?? [];
  const said = word.toLowerCase();
  const verdict = VERDICTS.find((one) => one === said) ?? ALIASES[said];
  if (verdict === undefined)
    return { problem: "That is neither a Yes nor a No: say `yes`, `run`, `always` or `no` with a reason. The question stays open." };
  if (verdict !== "no" && rest !== "") return { problem: CONDITIONAL };
  if (rest.length > MAX_ANSWER) return { problem: `A reason can have ${MAX_ANSWER} characters: the question stays open.` };
  return { answer: rest.trim(), verdict };
}

/** A Yes or No and nothing else: in plain talk it settles nothing, but whoever says it may think so. */
export function isBareVerdict(words: string): boolean {
  const read = readVerdict(words);
  return !("problem" in read) && read.answer === "";
}

const CONDITIONAL =
  "A Yes stands alone, and is for exactly what is shown: say only `yes`, `run` or `always`, or `no` and what you want instead. The question stays open.";

function thanks(question: Question, { verdict, answer }: Read): string {
  if (verdict === null) return `📨 ${visibleLine(question.asker, MAX_SHOWN)} goes on with: ${visibleLine(answer, MAX_SHOWN)}`;
  if (verdict === "no") return "✖ Refused; it is told so.";
  return `✅ ${verdictText(verdict, question).replace("allowed", "Allowed")}; it goes on.`;
}
