// One turn of one agent: model ↔ tools until the model is done, the cap is reached or it is aborted. Every reply and
// every tool result is in the transcript before the loop goes on, so a turn that lost its process is simply run again
// and takes up where the transcript ends. gateway (main sessions) and subagents (children) → here → models, tools.
import { newId } from "../core/ids.ts";
import type { Wait } from "../core/run.ts";
import { visibleText } from "../core/visible-text.ts";
import type { ModelError, ModelReply, Models, ToolCall } from "../models/model.ts";
import type { CutShort, Entry, NewEntry } from "../stores/transcript-entry.ts";
import type { Transcripts } from "../stores/transcripts.ts";
import { type Compacted, readHistory, windowChars } from "./compact.ts";
import { lastAssistantText, type RecordedCall, sinceLastMessage, standingOf } from "./context.ts";
import {
  askOnce,
  type Context,
  compactAtRest,
  contextOf,
  nextReply,
  noticeOf,
  type RestingSession,
  type StepDeps,
  type SteppingTurn,
} from "./model-step.ts";
import { type CallingTurn, createToolCalls, type ToolCallDeps } from "./tool-calls.ts";
import type { ResultSpace } from "./tool-results.ts";

export interface Turn extends CallingTurn, SteppingTurn {
  readonly maxIterations: number;
  /** Steps of the limit that processes before this one have used. */
  readonly stepsUsed?: number;
  /** What arrived meanwhile and must be read now; `commit` is called once the entries are in the transcript. */
  mail(): Promise<{ entries: readonly NewEntry[]; commit(): Promise<void> }>;
  /** Asked when the model has nothing more to do: is there something to read, may something still come, or is it over? */
  news?(): Promise<"mail" | "later" | "over">;
  /** Model step number `step` is about to begin; what it throws keeps the call from being made. False: somebody has ended it elsewhere. */
  onStep?(step: number): Promise<boolean>;
}

export interface TurnEnd {
  /**
   * `capped`: the iteration cap or the loop guard ended it with what there was. `waiting`: it has not ended; run again once what
   * it waits for has come, it goes on from the transcript.
   */
  readonly outcome: "done" | "capped" | "aborted" | "error" | "waiting";
  /** Of `waiting`: what calls wait for; none of them: it waits for news. */
  readonly waits?: readonly Wait[];
  /** Steps of the limit that are used up by now. */
  readonly steps: number;
  /** Its last words since the last message to it: what an earlier turn said is not repeated. */
  readonly text: string;
  /** In plain words, for capped and error. */
  readonly reason: string | null;
  readonly error: ModelError | null;
  /** What the person should know beside it: the answer was made without a part of the history. */
  readonly notice: string | null;
}

export interface Turns {
  /** Runs or takes up a turn whose input stands in the transcript. Throws only when the disk refuses. */
  run(turn: Turn): Promise<TurnEnd>;
  /** One more call of a conversation that is at rest, `entries` its history; nothing is appended and no tool carried out. */
  ask(turn: SteppingTurn, entries: readonly Entry[], question: string): Promise<ModelReply>;
  /** Sums up the older part of a session that is at rest. */
  compact(session: RestingSession): Promise<Compacted>;
}

export interface TurnDeps extends ToolCallDeps {
  readonly models: Models;
  readonly transcripts: Transcripts;
}

export function createTurns(deps: TurnDeps): Turns {
  const stepDeps = { ...deps, toolCalls: createToolCalls(deps) };
  return {
    run: async (turn) => runTurn(await createWork(stepDeps, turn)),
    ask: (turn, entries, question) => askOnce(stepDeps, turn, entries, question),
    compact: (session) => compactAtRest(stepDeps, session),
  };
}

const RESTARTED = "[The gateway restarted in the middle of this step. Go on from what stands above.]";
/** An answer that ended so is not a whole one. */
const CUT_SHORT: Readonly<Record<CutShort, string>> = {
  length: "the model's answer was cut off at its length limit",
  filter: "the provider's content filter held the answer back",
};
/** What the results of one step may take of the window: with a summary and what is kept beside it they still fit. */
const RESULTS_SHARE = 0.5;
/** The same calls with the same results this often in a row lead nowhere. */
const MAX_REPEATS = 5;

interface Work {
  readonly deps: StepDeps;
  readonly turn: Turn;
  readonly context: Context;
  readonly space: ResultSpace;
  steps: number;
  append(fresh: readonly NewEntry[]): Promise<void>;
}

async function createWork(deps: StepDeps, turn: Turn): Promise<Work> {
  const context = contextOf(await readHistory(deps, turn.ref, turn.model));
  const append = async (fresh: readonly NewEntry[]): Promise<void> => {
    if (fresh.length > 0) context.entries.push(...(await deps.transcripts.append(turn.ref, fresh)));
  };
  return {
    deps,
    turn,
    context,
    append,
    steps: turn.stepsUsed ?? 0,
    space: { maxChars: windowChars(deps.models, turn.model) * RESULTS_SHARE, append },
  };
}

async function runTurn(work: Work): Promise<TurnEnd> {
  const { deps, turn, context, append } = work;
  const standing = standingOf(context.entries);
  if (standing.kind === "cut") await append([{ type: "note", text: RESTARTED }]);
  const waits = standing.kind === "calls" ? await deps.toolCalls.resume(turn, standing, work.space) : [];
  if (waits.length > 0 && !turn.signal.aborted) return { ...ended(work, "waiting"), waits };
  let answered = standing.kind === "answered";
  // The process ended before this was recorded: half an answer would be taken for a whole one. Who wrote to a child since is answered; what
  // is there for a main session is for its next turn.
  if (standing.kind === "answered" && standing.cut !== undefined && (turn.news === undefined || (await turn.mail()).entries.length === 0))
    return ended(work, "capped", CUT_SHORT[standing.cut]);

  let lastDone = "";
  let repeats = 0;
  for (;;) {
    if (turn.signal.aborted) return ended(work, "aborted");
    if ((await turn.isFinished?.()) === true) return ended(work, "done");
    // There may be something to wait for (children); what they say arrives as mail. A complete answer is not given a
    // second time for mail alone: the person would only get the second one.
    const news = answered ? ((await turn.news?.()) ?? "over") : "mail";
    if (news !== "mail") return ended(work, news === "over" ? "done" : "waiting");
    if (await takeMail(work)) answered = false;
    if (answered) continue;
    if (work.steps >= turn.maxIterations) return ended(work, "capped", `it reached its limit of ${turn.maxIterations} steps`);
    work.steps++;
    if ((await turn.onStep?.(work.steps)) === false || (await turn.isOver?.()) === true) return ended(work, "aborted");

    const reply = await nextReply(deps, turn, context);
    if (reply.outcome !== "ok") return brokenOff(work, reply);
    const made = toRecorded(reply.toolCalls, context.entries);
    await append(toEntries(reply, made));
    // As the record has it: a call that is made again must be of the same time.
    const calledAt = Date.parse(context.entries.at(-1)?.timestamp ?? "") || 0;
    const calls = made.map((call) => ({ ...call, calledAt }));
    deps.failpoint("turn.reply-appended");
    answered = calls.length === 0;
    const cut = answered ? cutOf(reply) : undefined;
    if (cut !== undefined) return ended(work, "capped", CUT_SHORT[cut]);
    if (answered) continue;
    const done = await deps.toolCalls.run(turn, calls, work.space);
    if (done.waits.length > 0 && !turn.signal.aborted) return { ...ended(work, "waiting"), waits: done.waits };
    repeats = done.digest === lastDone ? repeats + 1 : 1;
    lastDone = done.digest;
    if (repeats >= MAX_REPEATS) return ended(work, "capped", "it repeated the same tool call without getting anywhere");
  }
}

type NewCall = Omit<RecordedCall, "calledAt">;

/** Some providers count their call ids from 1 in every answer; in what a model is shown an id names one call. */
function toRecorded(calls: readonly ToolCall[], entries: readonly Entry[]): NewCall[] {
  const known = new Set(entries.flatMap((entry) => (entry.type === "tool_call" ? [entry.callId] : [])));
  return calls.map((call) => {
    let id = call.id;
    for (let n = 2; known.has(id); n++) id = `${call.id}-${n}`;
    known.add(id);
    return { ...call, id, entryId: newId() };
  });
}

/** True when something was read. An entry already in the transcript was appended before a crash and is only marked. */
async function takeMail({ deps, turn, context, append }: Work): Promise<boolean> {
  const mail = await turn.mail();
  if (mail.entries.length === 0) return false;
  const known = new Set(context.entries.map((entry) => entry.id));
  const fresh = mail.entries.filter((entry) => entry.id === undefined || !known.has(entry.id));
  await append(fresh.map((entry) => ("text" in entry ? { ...entry, text: visibleText(entry.text) } : entry)));
  // From the commit on the transcript is all that has it.
  await deps.transcripts.sync(turn.ref);
  await mail.commit();
  return true;
}

const cutOf = ({ finish }: ModelReply): CutShort | undefined => (finish === "length" || finish === "filter" ? finish : undefined);

function toEntries(reply: ModelReply, calls: readonly NewCall[]): NewEntry[] {
  const { model, usage, extras, counted } = reply;
  const cut = calls.length === 0 ? cutOf(reply) : undefined;
  return [
    {
      type: "message",
      role: "assistant",
      text: visibleText(reply.text),
      model,
      usage,
      calls: calls.length,
      ...(extras === undefined ? {} : { extras }),
      ...(counted === undefined ? {} : { counted }),
      ...(cut === undefined ? {} : { cut }),
    },
    ...calls.map(
      (call): NewEntry => ({
        type: "tool_call",
        id: call.entryId,
        callId: call.id,
        name: call.name,
        args: call.args,
        ...(call.invalid === undefined ? {} : { invalid: call.invalid }),
      }),
    ),
  ];
}

async function brokenOff(work: Work, reply: ModelReply): Promise<TurnEnd> {
  const text = visibleText(reply.text);
  const { model, usage } = reply;
  if (text !== "") await work.append([{ type: "message", role: "assistant", text, model, usage, calls: 0, partial: true }]);
  if (reply.outcome === "aborted") return ended(work, "aborted");
  const error: ModelError = reply.error ?? { kind: "unknown", message: "The model failed without saying why." };
  // What the chat can't do anything about stands here.
  work.turn.log.warn({ kind: error.kind, remedy: error.remedy }, error.message);
  return { ...ended(work, "error", error.message), error };
}

const ended = ({ context, steps }: Work, outcome: TurnEnd["outcome"], reason: string | null = null): TurnEnd => ({
  outcome,
  steps,
  text: lastAssistantText(sinceLastMessage(context.entries)),
  reason,
  error: null,
  notice: noticeOf(context),
});
