// One model step of a turn: what the model is shown, room made for it first when the window is nearly full, and the call.
// turn.ts → here → compact.ts, fit.ts, models
import type { Thinking } from "../core/thinking.ts";
import type { ModelReply, ModelRequest, Models } from "../models/model.ts";
import type { Entry } from "../stores/transcript-entry.ts";
import { type CompactDeps, type Compaction, compact, isFull, windowChars } from "./compact.ts";
import { toMessages } from "./context.ts";
import { type Fitted, fitEntries } from "./fit.ts";
import type { CallingTurn, ToolCalls } from "./tool-calls.ts";

export interface StepDeps extends CompactDeps {
  readonly models: Models;
  readonly toolCalls: ToolCalls;
}

/** What a step needs to know of the turn it belongs to. `tools()` is asked before every step and every call: a policy may have changed. */
export interface SteppingTurn extends CallingTurn, Compaction {
  readonly thinking: Thinking;
  /** Asked before every step: memory and briefs may have changed. */
  system(): Promise<string>;
  onText(text: string): void;
}

/** What a turn has in hand between two steps. */
export interface Context {
  /** What the model is shown: the transcript from its last compaction on. */
  entries: Entry[];
  /** Why the history could not be summed up; it is not tried again in this turn. */
  compactionFailure: string | null;
  /** What the last request could not show. */
  missing: Pick<Fitted, "leftOut" | "cutChars">;
}

export const contextOf = (entries: Entry[]): Context => ({ entries, compactionFailure: null, missing: { leftOut: 0, cutChars: 0 } });

/** Shares of the window a request may take: a provider that counts more tokens than we do gets it shorter, twice. */
const REQUEST_SHARES = [0.9, 0.45, 0.2] as const;
/** Of such a share, for the history; a system prompt that leaves less is the operator's to shorten. */
const LEAST_HISTORY = 0.25;

type Prompt = Pick<ModelRequest, "system" | "tools" | "messages">;

/** Makes room first when the window is nearly full; what still doesn't fit is left out of the request, and said so. */
export async function nextReply(deps: StepDeps, turn: SteppingTurn, context: Context): Promise<ModelReply> {
  const system = await turn.system();
  const tools = deps.toolCalls.specs(turn.tools());
  const besides = system.length + JSON.stringify(tools).length;
  const window = windowChars(deps.models, turn.model);
  if (isFull(deps.models, turn.model, context.entries, besides)) await makeRoom(deps, turn, context);
  deps.failpoint("turn.before-model");
  const ask = (share: number): Promise<ModelReply> => {
    const fitted = fitEntries(context.entries, Math.max(window * share - besides, window * share * LEAST_HISTORY));
    context.missing = fitted;
    return callModel(deps, turn, { system, tools, messages: toMessages(fitted.entries) });
  };
  const [first, ...smaller] = REQUEST_SHARES;
  let reply = await ask(first);
  if (reply.error?.kind === "context") await makeRoom(deps, turn, context);
  for (const share of smaller) if (reply.error?.kind === "context") reply = await ask(share);
  return reply;
}

/** Tried once a turn: a provider that is down would be asked, and waited for, before every step. */
async function makeRoom(deps: StepDeps, turn: SteppingTurn, context: Context): Promise<void> {
  if (context.compactionFailure !== null) return;
  turn.onDoing("summing up the conversation so far");
  const compacted = await compact(deps, turn, context.entries);
  if (compacted.outcome === "done") context.entries = compacted.entries;
  if (compacted.outcome === "failed") context.compactionFailure = compacted.reason;
}

/** One sentence for the person: an answer to a part must not pass for one to the whole. */
export function noticeOf({ compactionFailure, missing: { leftOut, cutChars } }: Context): string | null {
  const what = [
    ...(leftOut === 0 ? [] : [`${leftOut} earlier messages`]),
    ...(cutChars === 0 ? [] : [`${cutChars} characters of what was too long`]),
  ];
  const failure =
    compactionFailure === null ? "" : `The older part of this conversation could not be summed up: ${stopped(compactionFailure)}`;
  if (what.length === 0) return failure === "" ? null : `${failure} Nothing of it is lost.`;
  return `${failure} ${what.join(" and ")} did not fit and were left out of what the model read; the transcript has them.`.trim();
}

/** A provider's sentence ends with a full stop, our own reasons don't. */
const stopped = (text: string): string => (/[.!?]$/.test(text) ? text : `${text}.`);

async function callModel(deps: StepDeps, turn: SteppingTurn, prompt: Prompt): Promise<ModelReply> {
  turn.onDoing("thinking");
  // Nothing of a stopped turn may start any more (ST2), and building the prompt took a moment.
  if (turn.signal.aborted)
    return { outcome: "aborted", text: "", toolCalls: [], finish: "other", usage: null, costUsd: null, model: turn.model };
  const { model, fallbacks, thinking, signal } = turn;
  const reply = await deps.models.call({ model, fallbacks, thinking, ...prompt, agentId: turn.ref.agentId, signal }, (event) => {
    if (event.type === "text") turn.onText(event.text);
    else if (event.type === "retry") turn.onDoing(`waiting for ${event.model} (${event.reason})`);
    else turn.onDoing(`switched from ${event.from} to ${event.to} (${event.reason})`);
  });
  turn.onSpend({ usage: reply.usage, costUsd: reply.costUsd }, reply.model);
  return reply;
}
