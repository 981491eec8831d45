// What an MCP server asks while a call of it is open, as questions in the asking chat (QA5): one for each field of its form, answered by
// a person or declined, never by a model. The call waits in memory, because it can't outlive its process: so the questions carry the boot
// id, and are void as soon as that process is gone. tools/mcp-elicitation → here → asking.ts
import type { Clock } from "../core/clock.ts";
import type { Bus } from "../core/events.ts";
import { newId } from "../core/ids.ts";
import type { Question } from "../core/question.ts";
import type { ToolContext } from "../core/tool.ts";
import { shortText, visibleText } from "../core/visible-text.ts";
import type { Database } from "../stores/database.ts";
import { lock } from "../stores/lock-keys.ts";
import type { Questions } from "../stores/questions.ts";
import { oneLine } from "../subagents/quoting.ts";
import { callTurn } from "./asker.ts";
import type { Asking } from "./asking.ts";
import { type Field, fieldsOf, readField } from "./form-fields.ts";

export interface ElicitationDeps {
  readonly db: Database;
  readonly questions: Questions;
  readonly asking: Asking;
  readonly clock: Clock;
  readonly bus: Bus;
  readonly bootId: string;
}

/** What the server wants to know, and a JSON schema of its answer. */
interface Elicited {
  readonly server: string;
  readonly message: string;
  readonly schema: unknown;
}

type Answered = { action: "decline" } | { action: "accept"; content: Record<string, unknown> };

/** The call holds its slot all the while. */
const WAIT_MS = 15 * 60_000;
const LOOK_MS = 5_000;
const MAX_MESSAGE = 4_000;
const MAX_TRIES = 3;
const ACCEPT = "Accept";
const DECLINE = "Decline";
const SKIP = "Skip";
const DECLINED: Answered = { action: "decline" };

export function createElicit(deps: ElicitationDeps): (elicited: Elicited, context: ToolContext) => Promise<Answered> {
  return async (elicited, context) => {
    const fields = fieldsOf(elicited.schema);
    if (fields === null) return DECLINED;
    const head = `The MCP server ${oneLine(elicited.server)} asks: ${shortText(visibleText(elicited.message), MAX_MESSAGE)}`;
    if (fields.length === 0) {
      const said = await ask(deps, context, head, [ACCEPT, DECLINE]);
      return said === ACCEPT ? { action: "accept", content: {} } : DECLINED;
    }
    const content: Record<string, unknown> = {};
    for (const field of fields) {
      const read = await askField(deps, context, head, field);
      if (read === null) return DECLINED;
      if (read.value !== undefined) content[field.name] = read.value;
    }
    return { action: "accept", content };
  };
}

/** Null: declined, not answered, or not in a way that fits. */
async function askField(deps: ElicitationDeps, context: ToolContext, head: string, field: Field): Promise<{ value?: unknown } | null> {
  const options = [...field.options, ...(field.isRequired ? [] : [SKIP]), DECLINE];
  for (let tries = 0, problem = ""; tries < MAX_TRIES; tries++) {
    const said = await ask(deps, context, [head, field.text, problem].filter((part) => part !== "").join("\n\n"), options);
    if (said === null || said === DECLINE) return null;
    if (said === SKIP && !field.isRequired) return {};
    const read = readField(field, said);
    if ("value" in read) return read;
    problem = `_"${oneLine(shortText(said, 80))}" does not fit: ${read.problem}_`;
  }
  return null;
}

/** Null: nobody could be asked, or nobody answered. */
async function ask(deps: ElicitationDeps, context: ToolContext, text: string, options: readonly string[]): Promise<string | null> {
  // A call may ask more than once, and nobody takes up one of these after a restart.
  const own = { ...context, callId: `${context.callId}:${newId()}`, turnId: callTurn(deps.bootId, context.turnId) };
  const asked = await deps.asking.put(own, { kind: "ask", text, options, tool: null, digest: null, forMs: WAIT_MS });
  if ("refused" in asked) return null;
  const settled = await settledOf(deps, own, asked);
  return settled.state === "answered" ? settled.answer : null;
}

/** Waits in memory, until somebody answers, its time is over, or the call is ended: then it is void. */
async function settledOf(deps: ElicitationDeps, context: ToolContext, question: Question): Promise<Question> {
  let rung = new AbortController();
  const off = deps.bus.on((event) => {
    if (event.type === "question.changed" && event.questionId === question.id) rung.abort("over");
  });
  try {
    for (;;) {
      // Before the look: an answer that comes right after it must not be slept over.
      rung = new AbortController();
      const now = await deps.asking.find(context);
      if (now === null || now.state !== "open") return now ?? { ...question, state: "void" };
      if (context.signal.aborted) {
        await deps.db.transaction([lock.tree(question.rootKey)], (tx) => deps.questions.close(tx, question.id, "void"));
        return { ...question, state: "void" };
      }
      await deps.clock.sleep(LOOK_MS, AbortSignal.any([rung.signal, context.signal]));
    }
  } finally {
    off();
  }
}
