// Questions to people as the page shows them, whatever channel they were asked in: whoever has the page runs the gateway. The source
// is an argument (app/question-desk.ts). What is asked never changes while it is open, so each text is rendered once.
import type { Question, Verdict } from "../core/question.ts";
import { createHtmlCache, type Renderer } from "./rendering.ts";

export interface QuestionDesk {
  /** Open ones that somebody waits for, oldest first, at most so many; and how many there are. */
  open(limit: number): Promise<{ readonly questions: readonly AskedQuestion[]; readonly total: number }>;
  ofRun(runId: string): Promise<readonly AskedQuestion[]>;
  /** Null: there is none. */
  find(id: string): Promise<FoundQuestion | null>;
  /** Null: there is none. */
  answer(id: string, given: PageAnswer): Promise<Answered | null>;
}

export interface AskedQuestion extends Pick<Question, "id" | "kind" | "asker" | "runId" | "text" | "options" | "tool"> {
  readonly createdAt: number;
  readonly expiresAt: number;
  /** Where it was asked, in words: `telegram 5551`. */
  readonly origin: string;
  /** The page's chat it was asked in; null when it was another channel's. */
  readonly chat: string | null;
}

export interface FoundQuestion extends AskedQuestion {
  /** How it ended, in words; null while it is open. */
  readonly outcome: string | null;
}

/** What somebody chose or wrote. */
export type PageAnswer =
  | { readonly option: number }
  | { readonly answer: string }
  | { readonly verdict: Verdict; readonly reason?: string | undefined };

export interface Answered {
  /** `late`: it was settled before. `unfit`: this is no answer to it, and it stays open. */
  readonly status: "taken" | "late" | "unfit";
  readonly text: string;
}

export interface QuestionView extends Omit<AskedQuestion, "text"> {
  /** Safe to insert; null: too long for the list, it is asked for by itself. */
  readonly html: string | null;
  /** Of the text, in characters. */
  readonly length: number;
}

export interface QuestionViews {
  /** For lists: long texts are left out as a whole, never cut. */
  toViews(questions: readonly AskedQuestion[]): Promise<QuestionView[]>;
  toWholeView(question: AskedQuestion): Promise<QuestionView>;
}

/** The list goes to every tab with every change of it. */
const MAX_LISTED_LENGTH = 4_000;

/** `redact` replaces known secrets by their names (SC4): before rendering, because marks inside a secret would hide it afterwards. */
export function createQuestionViews(redact: (text: string) => string, { render }: Pick<Renderer, "render">): QuestionViews {
  const rendered = createHtmlCache<string>();
  const toWholeView = async ({ text, ...question }: AskedQuestion): Promise<QuestionView> => ({
    ...question,
    html: await rendered(question.id, () => render(redact(text))),
    length: text.length,
  });
  const toView = ({ text, ...question }: AskedQuestion): QuestionView | Promise<QuestionView> =>
    text.length > MAX_LISTED_LENGTH ? { ...question, html: null, length: text.length } : toWholeView({ text, ...question });
  return { toViews: (questions) => Promise.all(questions.map(toView)), toWholeView };
}
