// The routes of questions: one as a whole, and answering it. A route of its own instead of a command in a chat: the question may
// stand in a chat of another channel, and whoever has the page may answer all of them. The row decides who was first.
import { z } from "zod";
import { VERDICTS } from "../core/question.ts";
import { safeParse } from "../core/safe-parse.ts";
import { json, problem, type Route, type WebRequest } from "./http.ts";
import type { QuestionDesk, QuestionViews } from "./questions.ts";

export interface QuestionsApiOptions {
  questions: QuestionDesk;
  views: QuestionViews;
}

const MAX_ANSWER = 16_000;
const MAX_OPTIONS = 8;
const ID = /^[\w-]{22}$/;
const NO_QUESTION = problem(404, "There is no such question, or it is long over.");
const FORM = `Send {"option": 1 to ${MAX_OPTIONS}}, {"answer": 1 to ${MAX_ANSWER} characters}, or {"verdict": "yes", "run", "always" or "no", "reason": text}.`;

const Answer = z.union([
  z.strictObject({ option: z.number().int().min(1).max(MAX_OPTIONS) }),
  z.strictObject({
    answer: z
      .string()
      .max(MAX_ANSWER)
      .refine((text) => text.trim() !== ""),
  }),
  z.strictObject({ verdict: z.enum(VERDICTS), reason: z.string().max(MAX_ANSWER).optional() }),
]);

export function createQuestionsRoutes(options: QuestionsApiOptions): Route[] {
  return [
    { method: "GET", path: "/api/questions/:id", access: "token", handle: (request) => detail(request, options) },
    { method: "POST", path: "/api/questions/:id/answer", access: "token", handle: (request) => answer(request, options) },
  ];
}

async function detail({ params: { id = "" } }: WebRequest, { questions, views }: QuestionsApiOptions) {
  const found = ID.test(id) ? await questions.find(id) : null;
  return found === null ? NO_QUESTION : json(200, await views.toWholeView(found));
}

async function answer(request: WebRequest, { questions }: QuestionsApiOptions) {
  const { id = "" } = request.params;
  const body = safeParse(Answer, await request.json());
  if (!body.success) return problem(400, FORM);
  const answered = ID.test(id) ? await questions.answer(id, body.data) : null;
  if (answered === null) return NO_QUESTION;
  if (answered.status === "taken") return json(200, { text: answered.text });
  return problem(answered.status === "late" ? 409 : 400, answered.text);
}
