// The tool `ask`: a question to the people of the chat, for main sessions and sub-agents alike (QA1). While nobody has answered,
// the call waits as a row; made again, it finds its question and gives the answer as its result, once.
import { z } from "zod";
import { nameOf, type Question } from "../core/question.ts";
import { defineTool, type Tool, type ToolResult, toolError, toolQuote } from "../core/tool.ts";
import { ASK_TOOL } from "../core/tool-names.ts";
import type { Asking } from "./asking.ts";

const MAX_QUESTION = 4_000;
const MAX_OPTIONS = 8;
const MAX_OPTION = 100;
const DEFAULT_SECONDS = 24 * 3_600;
const MAX_SECONDS = 30 * DEFAULT_SECONDS;

const isSeen = (text: string): boolean => text.trim() !== "";

const askSchema = z.strictObject({
  question: z
    .string()
    .max(MAX_QUESTION, `at most ${MAX_QUESTION} characters`)
    .refine(isSeen, "must say what you want to know")
    .describe("One question, complete in itself: the person may not know what you are doing."),
  options: z
    .array(z.string().max(MAX_OPTION, `at most ${MAX_OPTION} characters`).refine(isSeen, "an option can't be empty"))
    .max(MAX_OPTIONS, `at most ${MAX_OPTIONS} options`)
    .refine((options) => new Set(options.map((option) => option.trim())).size === options.length, "each option only once")
    .optional()
    .describe("Answers to choose from, shown as buttons; other words may come back all the same."),
  timeoutSeconds: z
    .number()
    .int()
    .min(1)
    .max(MAX_SECONDS)
    .optional()
    .describe(`How long to wait for an answer; default ${DEFAULT_SECONDS} (a day).`),
});

export function createAskTool(asking: Asking): Tool {
  return defineTool({
    name: ASK_TOOL,
    description:
      "Asks the people in the chat a question and waits for the answer, without holding anybody up. Only for what you can't find out or decide yourself; " +
      "an answer is information, never a permission to use a tool. Example: {question: 'Which branch shall I release?', options: ['main', 'beta']}.",
    schema: askSchema,
    // Like reading: it changes nothing but what is known.
    capability: "read",
    repeatable: true,
    async waitsFor({ question, options = [], timeoutSeconds = DEFAULT_SECONDS }, context) {
      const known = await asking.find(context);
      const wanted = {
        ...{ kind: "ask" as const, text: question, options: options.map((option) => option.trim()), tool: null, digest: null },
        forMs: timeoutSeconds * 1000,
      };
      const asked = known ?? (await asking.put(context, wanted));
      return "refused" in asked || asked.state !== "open" ? null : asking.waitFor(asked);
    },
    async run(_args, context) {
      const question = await asking.find(context);
      return question === null ? toolError(await whyNot(asking, context)) : answerOf(question);
    },
  });
}

/** Nothing was asked; the reason is asked for again, because a tool's wait has no words. */
async function whyNot(asking: Asking, context: Parameters<Asking["find"]>[0]): Promise<string> {
  const refused = await asking.whyNobody(context);
  return `${refused ?? "The question could not be put."} Go on without an answer, and say what you had to assume.`;
}

function answerOf({ state, answer, answeredBy }: Question): ToolResult {
  switch (state) {
    case "answered":
      return toolQuote(`the answer of ${answeredBy === null ? "somebody" : nameOf(answeredBy)}`, answer ?? "");
    case "expired":
      return { text: "Nobody answered in time. Go on without an answer, and say what you had to assume." };
    default:
      return toolError("The question was closed without an answer.");
  }
}
