// One model step of a turn: what the model is shown, room made for it first when the window is nearly full, and the call.
// turn.ts → here → compact.ts, fit.ts, models
import type { Thinking } from "../core/thinking.ts";
import type { Tool } from "../core/tool.ts";
import type { ModelReply, ModelRequest, Models, ToolSpec } from "../models/model.ts";
import type { Entry } from "../stores/transcript-entry.ts";
import { type CompactDeps, type Compacted, type Compaction, compact, isFull, readHistory, windowChars } from "./compact.ts";
import { toMessages } from "./context.ts";
import { type Fitted, fitEntries } from "./fit.ts";
import type { Prompt } from "./prompt.ts";
import type { ToolCalls } from "./tool-calls.ts";
import { newsOf, type Topic } from "./topics.ts";

export interface StepDeps extends CompactDeps {
  readonly models: Models;
  readonly toolCalls: ToolCalls;
}

/** What a step needs to know of the turn it belongs to. Tools and prompt are asked before every step: a policy, a brief may have changed. */
export interface SteppingTurn extends Compaction {
  readonly thinking: Thinking;
  tools(): readonly Tool[];
  /** `given`: the tools it will have. */
  prompt(given: readonly Tool[]): Promise<Prompt>;
  onText(text: string): void;
  /** What it thinks meanwhile, all of it so far. */
  onThoughts?(text: string): void;
  onDoing(doing: string): void;
}

export type RestingSession = Compaction & Pick<SteppingTurn, "prompt" | "tools">;

/** What a turn has in hand between two steps. */
export interface Context {
  /** What the model is shown: the transcript from its last compaction on. */
  entries: Entry[];
  /** Why the history could not be summed up; it is not tried again in this turn. */
  compactionFailure: string | null;
  /** Messages before `entries` that nobody has read. */
  unread: number;
  /** Messages of which no summary tells. */
  notSummedUp: number;
  /** What the last request could not show. */
  missing: Pick<Fitted, "leftOut" | "cutChars">;
}

export const contextOf = (entries: Entry[]): Context => ({
  entries,
  compactionFailure: null,
  unread: 0,
  notSummedUp: 0,
  missing: { leftOut: 0, cutChars: 0 },
});

/** Shares of the window a request may take: a provider that counts more tokens than we do gets it shorter, twice. */
const LARGEST = 0.9;
const SMALLER = [0.45, 0.2] as const;
/** Of such a share, for the history; a system prompt that leaves less is the operator's to shorten. */
const LEAST_HISTORY = 0.25;

/** The parts of a request that are the same for every try, and what they take. */
interface Frame extends Prompt {
  readonly tools: readonly ToolSpec[];
  readonly chars: number;
}

async function frameOf(deps: StepDeps, turn: Pick<SteppingTurn, "prompt" | "tools">): Promise<Frame> {
  const given = turn.tools();
  const prompt = await turn.prompt(given);
  const { specs, chars } = deps.toolCalls.specs(given);
  const held = prompt.topics.reduce((sum, topic) => sum + (topic.isHeld === true ? topic.text.length : 0), 0);
  return { ...prompt, tools: specs, chars: prompt.system.length + held + chars };
}

/** Makes room first when the window is nearly full; what still doesn't fit is left out of the request, and said so. */
export async function nextReply(deps: StepDeps, turn: SteppingTurn, context: Context): Promise<ModelReply> {
  const frame = await frameOf(deps, turn);
  await tellNews(deps, turn, context, frame.topics);
  if (isFull(deps.models, turn.model, { entries: context.entries, besides: frame.chars })) await makeRoom(deps, turn, { frame, context });
  deps.failpoint("turn.before-model");
  const reply = await callFitted(deps, turn, { frame, context }, [LARGEST]);
  if (reply.error?.kind !== "context") return reply;
  await makeRoom(deps, turn, { frame, context });
  return callFitted(deps, turn, { frame, context }, SMALLER);
}

/**
 * One more call of the same conversation, outside its turn: what goes before `question` is, byte for byte, what the calls
 * before it sent. Tools go along for that reason, and because some proxies refuse a history of calls without them; none is
 * carried out.
 */
export async function askOnce(deps: StepDeps, turn: SteppingTurn, entries: readonly Entry[], question: string): Promise<ModelReply> {
  const asked = { type: "message", role: "user", text: question, from: "runtime", id: "asked", parentId: null, timestamp: "" } as const;
  const context = contextOf([...entries, asked]);
  return callFitted(deps, turn, { frame: await frameOf(deps, turn), context }, [LARGEST, ...SMALLER]);
}

interface Material {
  readonly frame: Frame;
  readonly context: Context;
}

/** As large as the first share allows; when the provider finds that too long, as the next one does. */
async function callFitted(
  deps: StepDeps,
  turn: SteppingTurn,
  { frame, context }: Material,
  [share, ...smaller]: readonly [number, ...number[]],
): Promise<ModelReply> {
  const room = windowChars(deps.models, turn.model) * share;
  const fitted = fitEntries(context.entries, Math.max(room - frame.chars, room * LEAST_HISTORY), context.unread);
  context.missing = fitted;
  const { system, tools, topics } = frame;
  const reply = await callModel(deps, turn, { system, tools, messages: toMessages(fitted.entries, topics) });
  const [next, ...rest] = smaller;
  if (reply.error?.kind !== "context" || next === undefined) return reply;
  return callFitted(deps, turn, { frame, context }, [next, ...rest]);
}

/** A turn begins with the message it is to answer; what is told here stands before that one when it is read. */
async function tellNews(deps: StepDeps, turn: SteppingTurn, context: Context, topics: readonly Topic[], moment?: "turn"): Promise<void> {
  const isBegun = context.entries.findLast((entry) => entry.type === "message")?.role === "assistant";
  const news = newsOf(context.entries, topics, moment ?? (isBegun ? "step" : "turn"));
  if (news.length > 0) context.entries.push(...(await deps.transcripts.append(turn.ref, news)));
}

/** Tried once a turn: a provider that is down would be asked, and waited for, before every step. */
async function makeRoom(deps: StepDeps, turn: SteppingTurn, { frame, context }: Material): Promise<void> {
  if (context.compactionFailure !== null) return;
  turn.onDoing("summing up the conversation so far");
  const compacted = await compact(deps, turn, { entries: context.entries, besides: frame.chars });
  if (compacted.outcome === "done") {
    context.entries = compacted.entries;
    context.notSummedUp += compacted.leftOut;
    await tellNews(deps, turn, context, frame.topics, "turn");
  }
  if (compacted.outcome === "failed") {
    context.compactionFailure = compacted.reason;
    context.unread = compacted.unread;
  }
}

/** Sums up a session that is at rest, leaving as much room as its next turn needs. */
export async function compactAtRest(deps: StepDeps, turn: RestingSession): Promise<Compacted> {
  const { chars } = await frameOf(deps, turn);
  return compact(deps, turn, { entries: await readHistory(deps, turn.ref, turn.model), besides: chars });
}

/** One sentence for the person: an answer to a part must not pass for one to the whole. */
export function noticeOf(context: Context): string | null {
  const { notSummedUp } = context;
  const lost = notSummedUp === 0 ? null : notSummedUpText(notSummedUp);
  const sentences = [lost, fitNotice(context)].filter((sentence) => sentence !== null);
  return sentences.length === 0 ? null : sentences.join(" ");
}

export const notSummedUpText = (count: number): string =>
  `${count} of the oldest messages were too many to be summed up: the model does not know them any more; the transcript has them.`;

function fitNotice({ compactionFailure, missing: { leftOut, cutChars } }: Context): string | null {
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

async function callModel(
  deps: StepDeps,
  turn: SteppingTurn,
  prompt: Pick<ModelRequest, "system" | "tools" | "messages">,
): Promise<ModelReply> {
  turn.onDoing("thinking");
  const { model, fallbacks, thinking, signal } = turn;
  const { purse } = turn.account;
  const request = { model, fallbacks, thinking, ...prompt, agentId: turn.ref.agentId, signal, ...(purse === undefined ? {} : { purse }) };
  // Nothing of a stopped turn may start any more (ST2), and building the prompt took a moment.
  if (signal.aborted) return { text: "", toolCalls: [], finish: "other", usage: null, costUsd: null, model, outcome: "aborted" };
  const reply = await deps.models.call(request, (event) => {
    if (event.type === "text") turn.onText(event.text);
    else if (event.type === "thoughts") turn.onThoughts?.(event.text);
    else if (event.type === "retry") turn.onDoing(`waiting for ${event.model} (${event.reason})`);
    else turn.onDoing(`switched from ${event.from} to ${event.to} (${event.reason})`);
  });
  await turn.account.settle({ usage: reply.usage, costUsd: reply.costUsd }, reply.model);
  return reply;
}
