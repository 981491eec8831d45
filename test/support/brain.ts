// A model that does what it is told: a message or a task may carry a plan (JSON scripts, one per model step), and the
// brain answers step by step from the transcript alone, so a restarted gateway finds it where it left it.
// plan([...]) → the person's message or a task → brain → the scripted steps → the collected tool results as the reply.
import type { FakeMessage, FakeRequest, Respond, Script } from "./fake-model-server.ts";

/** Who is asking: a main session, a sub-agent at work, or its announce step. */
export type Who = "main" | "child" | "announce";

/** `hold`: no answer before the test releases this name. */
export interface Step extends Script {
  hold?: string;
}

interface Plan {
  readonly steps: readonly Step[];
  /** The announce step's answer; without it the last words, as Result. */
  readonly announce?: Step;
}

const MARK = "!plan ";

/** Text that makes the brain go through these steps; when they are over it answers with the results of their calls. */
export const plan = (steps: readonly Step[], announce?: Step): string =>
  `${MARK}${JSON.stringify({ steps, ...(announce === undefined ? {} : { announce }) })}`;

/** A step that makes these calls at once. */
export const calls = (...toolCalls: readonly [name: string, args: unknown][]): Script => ({
  text: "",
  toolCalls: toolCalls.map(([name, args], n) => ({ name, args, id: `c${n}` })),
});

/** The arguments of sessions_spawn for a child that says `answer`, or goes through its own steps. */
export const child = (label: string, work: string | readonly Step[], more: Record<string, unknown> = {}): Record<string, unknown> => ({
  task: plan(typeof work === "string" ? [{ text: work }] : work),
  label,
  ...more,
});

export const spawns = (...children: readonly Record<string, unknown>[]): Script =>
  calls(...children.map((args): [string, unknown] => ["sessions_spawn", args]));

export function whoAsks(request: { readonly system: string; readonly messages: readonly { readonly text: string }[] }): Who {
  if (request.messages.at(-1)?.text.startsWith("Your work is over.")) return "announce";
  return request.system.startsWith("You are a sub-agent of") ? "child" : "main";
}

/** A long text in a short message: the brain says `text` this often. */
export const repeated = (times: number, text: string): string => `{{${times}×${text}}}`;
const spelledOut = (script: Script): Script =>
  script.text === undefined
    ? script
    : { ...script, text: script.text.replace(/\{\{(\d+)×([^}]*)\}\}/g, (_, times, text) => text.repeat(Number(times))) };

/** Answers at once; plans that hold need createBrain. */
export const brain: Respond = (request) => spelledOut(answer(request));

export interface Brain {
  readonly respond: Respond;
  /** Lets everything go on that holds, or will hold, under this name. */
  release(name: string): void;
}

export function createBrain(): Brain {
  const gates = new Map<string, PromiseWithResolvers<void>>();
  const gate = (name: string): PromiseWithResolvers<void> => {
    const known = gates.get(name) ?? Promise.withResolvers<void>();
    gates.set(name, known);
    return known;
  };
  return {
    async respond(request) {
      const { hold, ...script } = answer(request);
      if (hold !== undefined) await gate(hold).promise;
      return spelledOut(script);
    },
    release: (name) => gate(name).resolve(),
  };
}

function answer(request: FakeRequest): Step {
  const at = request.messages.findLastIndex((message) => message.role === "user" && message.text.includes(MARK) && !isNote(message));
  const found = request.messages[at];
  if (whoAsks(request) === "announce") return planOf(found).announce ?? { text: `Result:\n${lastWords(request)}\n\nNotes:\n- (none)` };
  const after = request.messages.slice(at + 1);
  const done = after.filter((message) => message.role === "assistant").length;
  return planOf(found).steps[done] ?? { text: `results: ${JSON.stringify(resultsOf(after))}` };
}

/** What a requester is told about a child quotes the child. */
const isNote = (message: FakeMessage): boolean => message.text.startsWith("[Sub-agent");

function planOf(message: FakeMessage | undefined): Plan {
  if (message === undefined) return { steps: [{ text: "no plan" }] };
  return JSON.parse(message.text.slice(message.text.indexOf(MARK) + MARK.length)) as Plan;
}

const lastWords = (request: FakeRequest): string =>
  request.messages.findLast((message) => message.role === "assistant" && message.text !== "")?.text ?? "";

const resultsOf = (messages: readonly FakeMessage[]): string[] =>
  messages.filter((message) => message.role === "tool").map((message) => message.text);
