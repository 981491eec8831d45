// The built-in offline model (MO6): rules instead of an LLM, no network, the same answer every time, and it says so.
// One call = one step: take the request out of the messages, run its jobs again over the results on record, and return
// the calls that are still missing or the final text. router.ts → here → request.ts → intents.ts
import { setImmediate } from "node:timers/promises";
import type { Clock } from "../../core/clock.ts";
import { publicErrorText } from "../../core/errors.ts";
import { withoutFences } from "../../core/fence.ts";
import type { ChatMessage, ModelEvent, ModelReply, ModelRequest, Models, ToolCall } from "../model.ts";
import { confusion } from "./intents.ts";
import { type Ask, type Call, createDesk, cut, type Desk, type Outcome, quote, type Result } from "./job.ts";
import { ownWords } from "./own-words.ts";
import { type Evidence, toAnnouncement, toBrief, toCompaction, toLanding, toSections } from "./report.ts";
import { type Errand, lookAtMentioned, toErrands } from "./request.ts";
import { afterGroup } from "./spawn.ts";

const INTRODUCTION =
  "I'm Herald's built-in offline model: a set of rules, not an LLM. Whoever runs Herald connects a real one with a key, a local model server or one setting; its first lines at start and its README say how.";
const CHUNKS = 4;

export interface OfflineOptions {
  clock: Clock;
}

type OnEvent = (event: ModelEvent) => void;
type Step =
  | { readonly text: string /** Why it is not what was asked for. */; readonly problem?: string }
  | { readonly calls: readonly Call[] }
  | { readonly abortedAt: string };

export function createOfflineModel({ clock }: OfflineOptions): Pick<Models, "call"> {
  return {
    async call(request, onEvent) {
      try {
        return await paidFor(request, () => answer(request, onEvent, clock));
      } catch (error) {
        return {
          ...reply(request, ""),
          outcome: "error",
          finish: "other",
          error: { kind: "unknown", message: `The offline model failed: ${publicErrorText(error)}` },
        };
      }
    },
  };
}

/** As much as a real one would call a token. */
const BYTES_PER_TOKEN = 4;
/** Its own answers are short. */
const MAX_OUTPUT = 1_000;

/** It costs nothing, but where tokens are limited it counts as if it did: so that limits can be tried without a key. */
async function paidFor(request: ModelRequest, call: () => Promise<ModelReply>): Promise<ModelReply> {
  if (request.purse === undefined) return call();
  const input = tokensOf(JSON.stringify([request.system, request.tools, request.messages]));
  const outlay = { model: request.model, inputTokens: () => input, costUsd: () => 0, maxOutput: MAX_OUTPUT };
  const permit = await request.purse.open(outlay, request.signal);
  if ("refused" in permit) {
    if (request.signal.aborted) return aborted(request, "");
    return { ...reply(request, ""), outcome: "error", finish: "other", error: { kind: "refused", message: permit.refused } };
  }
  const said = await call();
  const usage = { input, output: tokensOf(said.text + JSON.stringify(said.toolCalls)), cacheRead: 0, cacheWrite: 0 };
  await permit.settle({ usage, costUsd: 0 });
  return { ...said, usage, costUsd: 0 };
}

const tokensOf = (text: string): number => Math.ceil(Buffer.byteLength(text) / BYTES_PER_TOKEN);

async function answer(asked: ModelRequest, onEvent: OnEvent, clock: Clock): Promise<ModelReply> {
  // It obeys rules of its own and no text: what stands in results and notes needs no fences to be told from instructions.
  const request = {
    ...asked,
    messages: asked.messages.map((message) => ({ ...message, text: withoutFences(ownWords(message.text)) })),
  };
  const step = request.signal.aborted ? { abortedAt: "" } : await takeStep(request, onEvent, clock);
  if ("abortedAt" in step) return aborted(request, step.abortedAt);
  if ("text" in step) {
    const reply = await stream(request, step.text, onEvent);
    if (reply.outcome !== "ok" || step.problem === undefined) return reply;
    return { ...reply, outcome: "error", finish: "other", error: { kind: "unknown", message: step.problem } };
  }
  const first = nextCallNumber(request.messages);
  const toolCalls = step.calls.map((call, index): ToolCall => ({ id: `offline-${first + index}`, name: call.name, args: call.args }));
  return { ...reply(request, ""), toolCalls, finish: "tool-calls" };
}

async function takeStep(request: ModelRequest, onEvent: OnEvent, clock: Clock): Promise<Step> {
  const { system, messages, tools } = request;
  if (system.includes("[COMPACTION]")) return { text: toCompaction(messages) };
  // As subagents/documents/brief-summary.ts asks.
  if (system.startsWith("[BRIEF]")) return { text: toBrief(messages) };
  const last = messages.findLast((message) => message.role === "user")?.text ?? "";
  // As subagents/announce.ts asks; what a person types about it is a request like any other.
  if (/^Your work is over\.[\s\S]*ANNOUNCE_SKIP/.test(last)) return { text: toAnnouncement(messages) };

  // As subagents/landing.ts asks.
  if (/\n\nYour budget is used up\./.test(last)) return { text: toLanding(last) };

  const scene = readScene(request);
  const group = scene.news.length === 1 ? afterGroup(scene.news[0] ?? "") : null;
  if (group !== null) return { text: compose(scene, [{ text: group }], []) };
  if (scene.news.length > 0)
    return { text: compose(scene, [{ text: `This was reported to me:\n\n${quote(scene.news.join("\n\n"))}` }], []) };
  const desk = createDesk(tools, clock.now());
  const errands = scene.requests.flatMap((text) => toErrands(text, desk, !scene.isChild || desk.has("sessions_spawn")));
  const evidence: Evidence[] = [];
  const batches = readBatches(messages.slice(scene.start));
  const work = workThrough(desk, errands, scene.isChild);
  let next = work.next();
  while (next.done !== true) {
    const ask = next.value;
    if ("waitMs" in ask) {
      // A later call on record shows that this wait is over.
      if (batches.length === 0 && !(await pause(ask, request.signal, onEvent, clock))) return { abortedAt: ask.shows ?? "" };
      next = work.next([]);
      continue;
    }
    const results = batches.shift();
    if (results === undefined) return { calls: ask.calls };
    ask.calls.forEach((call, index) => {
      evidence.push({ call, result: results[index] ?? { text: "no result", isError: true } });
    });
    next = work.next(results);
  }
  const problem = scene.isChild ? problemOf(next.value) : undefined;
  if (problem === undefined) return { text: compose(scene, next.value, evidence) };
  return { text: next.value.map((outcome) => outcome.text).join("\n\n"), problem };
}

/** A person reads what did not work; of a sub-agent it must not pass for success. */
function problemOf(outcomes: readonly Outcome[]): string | undefined {
  const [blocker] = outcomes.flatMap((outcome) => outcome.blockers ?? []);
  if (blocker === undefined) return undefined;
  const isAll = outcomes.every((outcome) => (outcome.blockers ?? []).length > 0);
  return `The built-in offline model could not do ${isAll ? "it" : "all of it"}: ${cut(blocker.replace(/\s+/g, " "), 300)}`;
}

interface Scene {
  readonly isChild: boolean;
  readonly wantsSections: boolean;
  readonly isFirstReply: boolean;
  /** Index of the first message of the work in hand. */
  readonly start: number;
  readonly requests: readonly string[];
  /** What its brief says the work is for, as it stands in the prompt of this very step. */
  readonly mission: string | null;
  /** What the runtime told since the last answer, when that is all there is: nobody asked for anything. */
  readonly news: readonly string[];
}

/** How the runtime's own notes begin (agents/turn.ts, agents/context.ts, subagents/notes.ts); a person's text in brackets is a request. */
const isNote = (text: string): boolean => /^\[(?:Sub-agent|The gateway|Summary of)\b/.test(text);
/** Nothing new: what was asked for before is taken up over the results on record. */
const GO_ON = /^(?:Your budget was raised\.\s+)?(?:please,?\s+)?(?:go on|continue)\b[^\n]{0,40}$/i;
const isNews = (message: ChatMessage): boolean => message.role === "user" && message.text.startsWith("[Sub-agent");
const isFinal = (message: ChatMessage): boolean => message.role === "assistant" && message.toolCalls.length === 0 && message.text !== "";

/**
 * A person's last message is the request: an earlier one without an answer was stopped. A sub-agent owes everything it
 * was told since its last final text: its task, and what was sent to it on the way. Notes of the runtime may stand anywhere.
 */
function readScene({ system, messages }: ModelRequest): Scene {
  const isUser = (message: ChatMessage): boolean => message.role === "user";
  const isPlain = (message: ChatMessage): boolean => message.role === "user" && !isNote(message.text) && !GO_ON.test(message.text);
  // Nothing but what looks like notes: then the first of them is somebody's words after all.
  const isRequest = messages.some(isPlain) ? isPlain : isUser;
  // On a line of its own, as the output contract has it: a workspace file may well mention the word.
  const wantsSections = /^SUMMARY:/m.test(system);
  const isChild = wantsSections || /^## Task\b/m.test(messages.find(isRequest)?.text ?? "");
  const lastRequest = messages.findLastIndex(isRequest);
  const afterFinal = messages.findLastIndex(isFinal) + 1;
  const isNew = lastRequest >= afterFinal;
  const start = isChild && isNew ? afterFinal : Math.max(0, lastRequest);
  const requests = messages
    .slice(start)
    .flatMap((message) => (isRequest(message) && message.role === "user" ? [taskOf(message.text)] : []));
  const news = isNew ? [] : messages.slice(afterFinal).flatMap((message) => (isNews(message) ? [message.text] : []));
  return {
    isChild,
    wantsSections,
    isFirstReply: !messages.slice(0, isNew ? start : messages.length).some(isFinal),
    start,
    requests,
    news,
    mission: missionIn(messages.findLast((message) => message.role === "user" && message.text.includes("# Brief"))?.text ?? ""),
  };
}

/** As the memory block has it (subagents/documents/brief-params.ts); a task may speak of briefs as well. */
const missionIn = (text: string): string | null =>
  isNote(text) ? (/^# Brief\n[\s\S]*?^### Mission\n\n> (.+)$/m.exec(text)?.[1] ?? null) : null;

/** The part under `## Task`, when the message has such headings. */
const taskOf = (text: string): string => (/^## Task[ \t]*\n([\s\S]*?)(?=\n## |$(?![\s\S]))/m.exec(text)?.[1] ?? text).trim();

/** Results of each earlier step, in the order of its calls. */
function readBatches(messages: readonly ChatMessage[]): Result[][] {
  const results = new Map(messages.flatMap((message) => (message.role === "tool" ? [[message.callId, message] as const] : [])));
  return messages.flatMap((message) =>
    message.role === "assistant" && message.toolCalls.length > 0
      ? [message.toolCalls.map((call) => results.get(call.id) ?? { text: "no result", isError: true })]
      : [],
  );
}

/** All errands one after the other; a sub-agent with a plan tool notes them first and marks them as it goes (NV4). */
function* workThrough(desk: Desk, errands: readonly Errand[], isChild: boolean): Generator<Ask, Outcome[], readonly Result[]> {
  const outcomes: Outcome[] = [];
  const plans = isChild && desk.has("plan") && errands.some((errand) => errand.job !== null);
  const understood = errands.some((errand) => errand.job !== null);
  for (const [index, errand] of errands.entries()) {
    if (plans) yield { calls: [notePlan(desk, errands, index)] };
    const job = errand.job ?? (understood ? null : lookAtMentioned(errand.title, desk));
    if (job !== null) {
      const outcome = yield* job();
      outcomes.push(outcome);
      if (outcome.isEnd === true) return outcomes;
    } else outcomes.push({ text: confusion(errand.title), blockers: [`No rule fits: ${errand.title}`] });
  }
  if (plans) yield { calls: [notePlan(desk, errands, errands.length)] };
  return outcomes;
}

function notePlan(desk: Desk, errands: readonly Errand[], current: number): Call {
  const words = statusWords(desk);
  const status = (index: number): string => (index < current ? words.done : index === current ? words.active : words.open);
  return desk.call("plan", { steps: errands.map((errand, index) => ({ title: errand.title.slice(0, 80), status: status(index) })) });
}

/** The plan tool's own words for a step's state, if its schema lists them. */
function statusWords(desk: Desk): { open: string; active: string; done: string } {
  const listed = JSON.stringify(desk.spec("plan")?.parameters ?? {}).match(/"enum":\[("[a-z_ -]+"(?:,"[a-z_ -]+")*)\]/i)?.[1];
  const words = listed === undefined ? [] : (JSON.parse(`[${listed}]`) as string[]);
  const pick = (like: RegExp, usual: string): string => words.find((word) => like.test(word)) ?? usual;
  return {
    open: pick(/pending|todo|open|next/i, "pending"),
    active: pick(/progress|active|doing|current|now/i, "in_progress"),
    done: pick(/done|complete/i, "done"),
  };
}

function compose(scene: Scene, outcomes: readonly Outcome[], evidence: readonly Evidence[]): string {
  // With sections, RISKS says what made them.
  const briefed: Outcome[] = scene.mission === null ? [] : [{ text: `My brief says: ${scene.mission}` }];
  if (scene.wantsSections) return toSections([...outcomes, ...briefed], evidence);
  const text = outcomes.map((outcome) => outcome.text).join("\n\n") || confusion("");
  return scene.isFirstReply ? `${INTRODUCTION}\n\n${text}` : text;
}

/** True when the whole time has passed, false when the signal ended it. */
async function pause(ask: Extract<Ask, { waitMs: number }>, signal: AbortSignal, onEvent: OnEvent, clock: Clock): Promise<boolean> {
  if (ask.shows !== undefined) onEvent({ type: "text", text: ask.shows });
  await clock.sleep(ask.waitMs, signal);
  return !signal.aborted;
}

/** A few chunks, so that the page shows text growing as with any other model. */
async function stream(request: ModelRequest, text: string, onEvent: OnEvent): Promise<ModelReply> {
  const words = text.split(/(?<=\s)/);
  const size = Math.max(1, Math.ceil(words.length / CHUNKS));
  let shown = "";
  for (let from = 0; from < words.length; from += size) {
    shown += words.slice(from, from + size).join("");
    onEvent({ type: "text", text: shown });
    await setImmediate();
    if (request.signal.aborted) return aborted(request, shown);
  }
  return reply(request, text);
}

/** One above the highest number in sight, so that ids stay unique when older messages are compacted away. */
function nextCallNumber(messages: readonly ChatMessage[]): number {
  const numbers = messages.flatMap((message) =>
    message.role === "assistant" ? message.toolCalls.map((call) => Number(/^offline-(\d+)$/.exec(call.id)?.[1] ?? 0)) : [],
  );
  return numbers.reduce((highest, number) => Math.max(highest, number), 0) + 1;
}

const aborted = (request: ModelRequest, text: string): ModelReply => ({ ...reply(request, text), outcome: "aborted", finish: "other" });

/** It costs nothing and counts nothing: usage and cost stay null. */
const reply = (request: ModelRequest, text: string): ModelReply => ({
  outcome: "ok",
  text,
  toolCalls: [],
  finish: "stop",
  usage: null,
  costUsd: null,
  model: request.model,
});
