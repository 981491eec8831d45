// One turn of one agent: model ↔ tools until the model is done, the cap is reached or it is aborted. Every reply and
// every tool result is in the transcript before the loop goes on, so a turn that lost its process is simply run again
// and takes up where the transcript ends. gateway (main sessions) and subagents (children) → here → models, tools.
import type { HitFailpoint } from "../core/failpoints.ts";
import { newId } from "../core/ids.ts";
import type { Thinking } from "../core/thinking.ts";
import type { Spend } from "../core/usage.ts";
import { visibleText } from "../core/visible-text.ts";
import type { ModelError, ModelReply, Models, ToolCall } from "../models/model.ts";
import type { Entry } from "../stores/transcript-entry.ts";
import type { NewEntry, Transcripts } from "../stores/transcripts.ts";
import { type Compaction, compact, historyBytes, isFull } from "./compact.ts";
import { lastAssistantText, type RecordedCall, sinceLastMessage, standingOf, toMessages } from "./context.ts";
import { type CallingTurn, createToolCalls, type ToolCalls } from "./tool-calls.ts";

/** `tools()` is asked before every step and every call: a policy may have changed. */
export interface Turn extends CallingTurn {
  readonly model: string;
  readonly fallbacks: readonly string[];
  readonly thinking: Thinking;
  readonly maxIterations: number;
  /** Steps of the limit that processes before this one have used. */
  readonly stepsUsed?: number;
  /** Asked before every step: memory and briefs may have changed. */
  system(): Promise<string>;
  /** What arrived meanwhile and must be read now; `commit` is called once the entries are in the transcript. */
  mail(): { entries: readonly NewEntry[]; commit(): void };
  /** Called when the model has nothing more to do; true = wait is over and there is more to read, go on. */
  more?(): Promise<boolean>;
  /** Model step number `step` is about to begin; what it throws keeps the call from being made. */
  onStep?(step: number): void;
  onText(text: string): void;
  onSpend(spend: Spend, model: string): void;
}

export interface TurnEnd {
  /** `capped`: the iteration cap or the loop guard ended it with what there was. */
  readonly outcome: "done" | "capped" | "aborted" | "error";
  /** Its last words since the last message to it: what an earlier turn said is not repeated. */
  readonly text: string;
  /** In plain words, for capped and error. */
  readonly reason: string | null;
  readonly error: ModelError | null;
}

export interface Turns {
  /** Runs or takes up a turn whose input stands in the transcript. Throws only when the disk refuses. */
  run(turn: Turn): Promise<TurnEnd>;
  /** Sums up the older part of a session that is at rest. False: there is nothing to sum up yet. */
  compact(compaction: Compaction): Promise<boolean>;
}

export interface TurnDeps {
  readonly models: Models;
  readonly transcripts: Transcripts;
  readonly failpoint: HitFailpoint;
}

export function createTurns(deps: TurnDeps): Turns {
  const toolCalls = createToolCalls(deps);
  return {
    run: async (turn) => runTurn(createWork(deps, toolCalls, turn)),
    async compact(compaction) {
      const entries = deps.transcripts.window(compaction.ref, historyBytes(deps.models.contextWindow(compaction.model)));
      return (await compact(deps, compaction, entries)) !== null;
    },
  };
}

const RESTARTED = "[The gateway restarted in the middle of this step. Go on from what stands above.]";
/** An answer that ended so is not a whole one. */
const CUT_SHORT: Partial<Record<ModelReply["finish"], string>> = {
  length: "the model's answer was cut off at its length limit",
  filter: "the provider's content filter held the answer back",
};
/** The same calls with the same results this often in a row lead nowhere. */
const MAX_REPEATS = 5;

interface Work {
  readonly deps: TurnDeps;
  readonly toolCalls: ToolCalls;
  readonly turn: Turn;
  /** What the model is shown: the transcript from its last compaction on. */
  entries: Entry[];
  append(fresh: readonly NewEntry[]): void;
}

function createWork(deps: TurnDeps, toolCalls: ToolCalls, turn: Turn): Work {
  const entries = deps.transcripts.window(turn.ref, historyBytes(deps.models.contextWindow(turn.model)));
  const work: Work = {
    deps,
    toolCalls,
    turn,
    entries,
    append(fresh) {
      if (fresh.length > 0) work.entries.push(...deps.transcripts.append(turn.ref, fresh));
    },
  };
  return work;
}

async function runTurn(work: Work): Promise<TurnEnd> {
  const { deps, toolCalls, turn, append } = work;
  const standing = standingOf(work.entries);
  if (standing.kind === "cut") append([{ type: "note", text: RESTARTED }]);
  if (standing.kind === "calls") await toolCalls.settle(turn, standing.calls, append);
  let answered = standing.kind === "answered";

  let lastDone = "";
  let repeats = 0;
  let steps = turn.stepsUsed ?? 0;
  for (;;) {
    if (turn.signal.aborted) return ended("aborted", work.entries);
    // There may be something to wait for (children); what they say arrives as mail. A complete answer is not given a
    // second time for mail alone: the person would only get the second one.
    if (answered && (await turn.more?.()) !== true) return ended(turn.signal.aborted ? "aborted" : "done", work.entries);
    if (takeMail(work)) answered = false;
    if (answered) continue;
    if (steps++ >= turn.maxIterations) return ended("capped", work.entries, `it reached its limit of ${turn.maxIterations} steps`);
    turn.onStep?.(steps);

    const reply = await nextReply(work);
    if (reply.outcome !== "ok") return brokenOff(reply, work);
    const calls = toRecorded(reply.toolCalls, work.entries);
    append(toEntries(reply, calls));
    deps.failpoint("turn.reply-appended");
    answered = calls.length === 0;
    const cut = answered ? CUT_SHORT[reply.finish] : undefined;
    if (cut !== undefined) return ended("capped", work.entries, cut);
    if (answered) continue;
    const done = await toolCalls.run(turn, calls, append);
    repeats = done === lastDone ? repeats + 1 : 1;
    lastDone = done;
    if (repeats >= MAX_REPEATS) return ended("capped", work.entries, "it repeated the same tool call without getting anywhere");
  }
}

/** Makes room first when the window is nearly full; a provider that finds it too long all the same gets it once more, shorter. */
async function nextReply(work: Work): Promise<ModelReply> {
  const { deps, turn } = work;
  const system = await turn.system();
  if (isFull(deps.models, turn.model, work.entries, system)) await makeRoom(work);
  deps.failpoint("turn.before-model");
  const reply = await callModel(work, system);
  if (reply.error?.kind !== "context" || !(await makeRoom(work))) return reply;
  return callModel(work, system);
}

async function makeRoom(work: Work): Promise<boolean> {
  work.turn.onDoing("summing up the conversation so far");
  const shorter = await compact(work.deps, work.turn, work.entries);
  if (shorter !== null) work.entries = shorter;
  return shorter !== null;
}

/** Some providers count their call ids from 1 in every answer; in what a model is shown an id names one call. */
function toRecorded(calls: readonly ToolCall[], entries: readonly Entry[]): RecordedCall[] {
  const known = new Set(entries.flatMap((entry) => (entry.type === "tool_call" ? [entry.callId] : [])));
  return calls.map((call) => {
    let id = call.id;
    for (let n = 2; known.has(id); n++) id = `${call.id}-${n}`;
    known.add(id);
    return { ...call, id, entryId: newId() };
  });
}

/** True when something was read. An entry already in the transcript was appended before a crash and is only marked. */
function takeMail({ deps, turn, entries, append }: Work): boolean {
  const mail = turn.mail();
  if (mail.entries.length === 0) return false;
  const known = new Set(entries.map((entry) => entry.id));
  const fresh = mail.entries.filter((entry) => entry.id === undefined || !known.has(entry.id));
  append(fresh.map((entry) => ("text" in entry ? { ...entry, text: visibleText(entry.text) } : entry)));
  // From the commit on the transcript is all that has it.
  deps.transcripts.sync(turn.ref);
  mail.commit();
  return true;
}

async function callModel({ deps, toolCalls, turn, entries }: Work, system: string): Promise<ModelReply> {
  turn.onDoing("thinking");
  // Nothing of a stopped turn may start any more (ST2), and building the prompt took a moment.
  if (turn.signal.aborted)
    return { outcome: "aborted", text: "", toolCalls: [], finish: "other", usage: null, costUsd: null, model: turn.model };
  const reply = await deps.models.call(
    {
      model: turn.model,
      fallbacks: turn.fallbacks,
      thinking: turn.thinking,
      system,
      messages: toMessages(entries),
      tools: toolCalls.specs(turn.tools()),
      agentId: turn.ref.agentId,
      signal: turn.signal,
    },
    (event) => {
      if (event.type === "text") turn.onText(event.text);
      else if (event.type === "retry") turn.onDoing(`waiting for ${event.model} (${event.reason})`);
      else turn.onDoing(`switched from ${event.from} to ${event.to} (${event.reason})`);
    },
  );
  turn.onSpend({ usage: reply.usage, costUsd: reply.costUsd }, reply.model);
  return reply;
}

function toEntries(reply: ModelReply, calls: readonly RecordedCall[]): NewEntry[] {
  const { model, usage, extras } = reply;
  return [
    {
      type: "message",
      role: "assistant",
      text: visibleText(reply.text),
      model,
      usage,
      calls: calls.length,
      ...(extras === undefined ? {} : { extras }),
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

function brokenOff(reply: ModelReply, { entries, append }: Work): TurnEnd {
  const text = visibleText(reply.text);
  if (text !== "") append([{ type: "message", role: "assistant", text, model: reply.model, usage: reply.usage, calls: 0, partial: true }]);
  if (reply.outcome === "aborted") return ended("aborted", entries);
  const error = reply.error ?? { kind: "unknown", message: "The model failed without saying why." };
  return { outcome: "error", text: lastAssistantText(sinceLastMessage(entries)), reason: error.message, error };
}

const ended = (outcome: "done" | "capped" | "aborted", entries: readonly Entry[], reason: string | null = null): TurnEnd => ({
  outcome,
  text: lastAssistantText(sinceLastMessage(entries)),
  reason,
  error: null,
});
