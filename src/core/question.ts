// A question to the people of a chat: what an agent wants to know (`ask`), or whether a tool call may be made (`approve`). One
// record for both, settled once by compare-and-set (stores/questions.ts), whoever answers where: a button, a reply, a command, the page.
import type { Address } from "./address.ts";

export type QuestionKind = "ask" | "approve";

/** `void`: what it was asked for is over, or not the same any more; nobody's answer means anything. */
export type QuestionState = "open" | "answered" | "expired" | "void";

/** Somebody on a platform, as they are shown; the id is what counts. */
export interface Person {
  readonly id: string;
  readonly name?: string;
}

export interface Question {
  /** Of 128 bits: nobody can guess one, and a button carries nothing else about what is asked. */
  readonly id: string;
  /** The session and the call it is for. A call that is made again after a restart finds this row instead of asking again. */
  readonly callKey: string;
  readonly kind: QuestionKind;
  /** The main session at the top: whose chat is asked. */
  readonly rootKey: string;
  readonly sessionId: string;
  /** The run that asks, and in which of its generations; null in a main session. */
  readonly runId: string | null;
  readonly generation: number;
  /** The turn that asks: over, nobody reads the answer any more. */
  readonly turnId: string;
  readonly address: Address;
  /** The label of the run, or the agent's name. */
  readonly asker: string;
  /** Markdown. Of `ask` a model's words, of `approve` written by code from the arguments, complete. */
  readonly text: string;
  readonly options: readonly string[];
  /** Of `approve`: the tool, and a digest of exactly what was shown. */
  readonly tool: string | null;
  readonly digest: string | null;
  readonly createdAt: number;
  readonly expiresAt: number;
  readonly state: QuestionState;
  /** What was said: an option's words, free text, or the reason of a No. */
  readonly answer: string | null;
  /** Of `approve`: which of the answers. */
  readonly verdict: Verdict | null;
  readonly answeredBy: Person | null;
  readonly settledAt: number | null;
  /** Of an approval: when the call it allows was begun. It is used once. */
  readonly usedAt: number | null;
  /** Presses that came too late, in words. */
  readonly late: readonly string[];
}

/** The answers to an approval: this once, as long as this run goes on, from now on in this chat, not at all. */
export const VERDICTS = ["yes", "run", "always", "no"] as const;
export type Verdict = (typeof VERDICTS)[number];

/** What a question begins with; the rest follows from its answer. */
export type NewQuestion = Omit<
  Question,
  "id" | "createdAt" | "state" | "answer" | "verdict" | "answeredBy" | "settledAt" | "usedAt" | "late"
>;

/** What its message is known by among those that change (stores/live-messages.ts). */
export const liveId = ({ id }: Pick<Question, "id">): string => `question:${id}`;

export const nameOf = ({ id, name }: Person): string => name ?? id;

/** Telegram carries 64 bytes behind a button. */
export const answerCommand = (questionId: string, answer: string): string => `/subagents answer ${questionId} ${answer}`;

/** The nth option behind a button: its words may be longer than a button carries. */
export const optionMark = (index: number): string => `#${index + 1}`;
