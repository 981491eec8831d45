// The announce step: one more turn inside the child's session asks for what people should read, and what it answered
// is read back. Its question and reply stand in the transcript under ids of their own, so a crash in between repeats nothing.
import { lastAssistantText } from "../agents/context.ts";
import { cutMiddle } from "../agents/fit.ts";
import { abortAfter } from "../core/clock.ts";
import type { Run } from "../core/run.ts";
import { visibleText } from "../core/visible-text.ts";
import type { Entry } from "../stores/transcript-entry.ts";
import type { Transcripts } from "../stores/transcripts.ts";
import type { RunResult } from "./announcement.ts";
import { childSteps, type StepDeps } from "./child-steps.ts";
import { type SubagentDeps, transcriptOfRun } from "./deps.ts";
import { ANNOUNCE_AS_IS, ANNOUNCE_SKIP } from "./quoting.ts";
import { dataMarkdown } from "./typed-result.ts";

const ASK = `Your work is over. What should the person who asked read?

If your last message is that, answer with exactly ${ANNOUNCE_AS_IS}: it is posted whole as it stands, and you need not write it again.
Else answer in exactly this form and nothing else:

Result:
<the result itself, complete, in Markdown; ${ANNOUNCE_AS_IS} alone stands for your last message>

Notes:
<what they should know about it: assumptions, doubts, what is missing; or "- (none)">

Call no tools. Status and figures are added for you. If there is truly nothing worth posting, answer with exactly ${ANNOUNCE_SKIP} instead.`;

/** A last message longer than this is shown to its author in part: read back whole, it would cost as much as a fifth of writing it. */
const MAX_SHOWN = 6_000;
const SHOWN = 2_000;

/** The last words may stand before many tool calls. */
const LOOK_BACK = 200;

export type AnnounceDeps = StepDeps & Pick<SubagentDeps, "transcripts" | "turns" | "clock" | "log" | "payments">;

/**
 * One more call in the child's own conversation (AN8). Null when it failed or timed out: the last words of the work are used
 * then. Tools go along, so that the request begins like those before it, but none is carried out: a call is no answer.
 */
export async function announceStep(deps: AnnounceDeps, run: Run, entries: readonly Entry[], signal: AbortSignal): Promise<string | null> {
  const ref = transcriptOfRun(run);
  const ids = announceIds(entries, run.generation);
  const known = entries.find((entry) => entry.id === ids.reply);
  if (known?.type === "message") return known.text;
  const agent = deps.agents.find(run.agentId);
  if (agent === null) return null;
  if (!entries.some((entry) => entry.id === ids.ask)) {
    await deps.transcripts.append(ref, [{ type: "message", role: "user", text: ASK, from: "runtime", id: ids.ask, phase: "announce" }]);
  }
  const limit = new AbortController();
  const clear = abortAfter(deps.clock, agent.subagents.announceTimeoutMs, limit);
  const paying = { signal: AbortSignal.any([signal, limit.signal]), purse: await deps.payments.ofRun(run) };
  const steps = childSteps(deps, run, agent, paying);
  const reply = await deps.turns.ask({ ...steps, onText() {}, onDoing() {} }, withoutLongEnd(entries), ASK).finally(clear);
  if (reply.outcome !== "ok" || reply.text.trim() === "") {
    const reason = reply.error?.message ?? (reply.toolCalls.length > 0 ? "it called tools instead" : "it said nothing");
    deps.log.warn({ runId: run.id, outcome: reply.outcome, reason }, "the announce step failed; using the last text");
    return null;
  }
  const text = visibleText(reply.text);
  await deps.transcripts.append(ref, [
    { type: "message", role: "assistant", text, model: reply.model, usage: reply.usage, calls: 0, id: ids.reply, phase: "announce" },
  ]);
  return text;
}

/** The last message is new to the provider: it was an answer and no part of a request yet. What belongs to it unchanged goes with it. */
function withoutLongEnd(entries: readonly Entry[]): readonly Entry[] {
  const index = entries.findLastIndex((entry) => entry.type === "message" && entry.phase !== "announce");
  const last = entries[index];
  if (last?.type !== "message" || last.role !== "assistant" || last.calls > 0 || last.text.length <= MAX_SHOWN) return entries;
  const { extras: _, ...rest } = last;
  return entries.with(index, { ...rest, text: cutMiddle(last.text, SHOWN, LEFT_OUT) });
}

const LEFT_OUT = (left: number): string => `${left} characters of your own words left out here; the gateway has them all`;
const IS_LEFT_OUT = /\[\d+ characters of your own words left out here; the gateway has them all\]/;

/** A step that was begun is taken up under its own ids; what the child said after it makes it stale, and the next one has new ids. */
function announceIds(entries: readonly Entry[], generation: number): { ask: string; reply: string } {
  const prefix = `announce:${generation}:ask`;
  const asked = entries.filter((entry) => entry.id === prefix || entry.id.startsWith(`${prefix}:`));
  const isOpen =
    entries.findLastIndex((entry) => entry.phase === "announce") > entries.findLastIndex((entry) => entry.phase !== "announce");
  const round = asked.length + (isOpen && asked.length > 0 ? 0 : 1);
  const suffix = round === 1 ? "" : `:${round}`;
  return { ask: `${prefix}${suffix}`, reply: `announce:${generation}:reply${suffix}` };
}

const isAnnounceReply = ({ id }: Entry, generation: number): boolean =>
  id === `announce:${generation}:reply` || id.startsWith(`announce:${generation}:reply:`);

/** "Result: … Notes: …" → parts; without those headings the whole text is the result. A Status line is ours to write. */
export function parseAnnounceReply(text: string): RunResult {
  const body = text.replace(/^\s*(\*\*)?status(\*\*)?\s*:.*\n+/i, "");
  const result = /^[ \t]*(?:#{1,6}[ \t]*)?(?:\*\*)?result(?:\*\*)?[ \t]*:(?:\*\*)?[ \t]*/im.exec(body);
  const rest = result === null ? body : body.slice(result.index + result[0].length);
  const headings = [...rest.matchAll(/^[ \t]*(?:#{1,6}[ \t]*)?(?:\*\*)?notes(?:\*\*)?[ \t]*:(?:\*\*)?[ \t]*/gim)];
  const notes = headings.at(-1);
  if (notes === undefined) return { result: rest.trim(), notes: "" };
  return { result: rest.slice(0, notes.index).trim(), notes: rest.slice(notes.index + notes[0].length).trim() };
}

/** What is to be posted: the reply's own words, or those of the work where it says so. Null: nothing is. */
export function toResult(reply: string | null, words: string): RunResult | null {
  const said = reply?.trim() ?? ANNOUNCE_AS_IS;
  if (said === ANNOUNCE_SKIP) return null;
  if (said === ANNOUNCE_AS_IS) return { result: words, notes: "" };
  const { result, notes } = parseAnnounceReply(said);
  // Some models copy their last message instead of naming it; of a long one they were shown a part only.
  return { result: result === ANNOUNCE_AS_IS || IS_LEFT_OUT.test(result) ? words : result, notes };
}

/** A typed result as people read it; null: none was taken. Also of a run that failed its checks: it is what it had. */
export const dataResult = ({ data }: Pick<Run, "data">): RunResult | null =>
  data === null ? null : { result: dataMarkdown(data), notes: "" };

/** What an ended run handed back: its announce reply, else its last words. */
export async function resultOf(transcripts: Transcripts, run: Run): Promise<RunResult> {
  const typed = dataResult(run);
  if (typed !== null) return typed;
  const entries = await transcripts.tail(transcriptOfRun(run), LOOK_BACK);
  const reply = entries.findLast((entry) => isAnnounceReply(entry, run.generation));
  const words = lastWords(entries, run);
  return toResult(reply?.type === "message" ? reply.text : null, words) ?? { result: words, notes: "" };
}

/** What it said before this generation was announced then. */
export const lastWords = (entries: readonly Entry[], { generation, queuedAt }: Run): string =>
  lastAssistantText(generation === 1 ? entries : entries.filter((entry) => Date.parse(entry.timestamp) >= queuedAt));
