// The end of a run: the announce step inside the child session, then ONE transaction {run ended, outbox parts, note to
// the requester}. After it no model is needed any more: delivery retries rows, and a crash before it repeats the step
// from the transcript. Only the first caller that ends a run gets through; everybody else changes nothing.
import { cleanText } from "../agents/clean-text.ts";
import { lastAssistantText, toMessages } from "../agents/context.ts";
import { abortAfter } from "../core/clock.ts";
import { errorText, isStorageError } from "../core/errors.ts";
import { shortId } from "../core/ids.ts";
import type { Channel, Part } from "../core/message.ts";
import { type EndState, isUnfinished, type Run } from "../core/run.ts";
import type { OutboxRow } from "../stores/outbox.ts";
import type { Runs } from "../stores/runs.ts";
import type { Entry } from "../stores/transcript-entry.ts";
import type { Transcripts } from "../stores/transcripts.ts";
import { childFallbacks } from "./child.ts";
import { type SubagentDeps, transcriptOfRun } from "./deps.ts";
import { ANNOUNCE_SKIP, announcementText, noteText, oneLine, outcomeSentence, type RunResult } from "./report.ts";
import { recordSections } from "./sections.ts";

const ASK = `Your work is over. Write what the person who asked should read, in exactly this form and nothing else:

Result:
<the result itself, complete, in Markdown>

Notes:
<what they should know about it: assumptions, doubts, what is missing; or "- (none)">

Status and figures are added for you. If there is truly nothing worth posting, answer with exactly ${ANNOUNCE_SKIP} instead.`;

/** The last words may stand before many tool calls. */
const LOOK_BACK = 200;

type Deps = Pick<
  SubagentDeps,
  "db" | "runs" | "sessions" | "transcripts" | "mail" | "outbox" | "agents" | "models" | "clock" | "log" | "failpoint" | "channel"
>;

export interface Ending {
  readonly as: EndState;
  readonly reason: string | null;
  readonly incomplete: boolean;
  /** What it said last, for when its transcript doesn't tell: it can't be read any more, or the clock was set back. */
  readonly words?: string;
  /** Its transcript was waited for long enough. */
  readonly isLost?: boolean;
}

/** Runs the announce step when the run earned one, and ends the run. `mail`: it did not end, there is something to read first. */
export async function finishRun(deps: Deps, run: Run, ending: Ending, signal: AbortSignal): Promise<"over" | "mail"> {
  const entries = historyOf(deps, run, ending);
  // Without its history it could only make something up.
  const asks = ending.as === "done" && run.announce === "post" && entries !== null;
  const reply = asks ? await announceStep(deps, run, entries, signal) : null;
  // A /stop in the meantime has ended the run; a shutdown leaves it as it is.
  if (signal.aborted) return "over";
  // Sent while it announced: the sender was told that it is read. From here to the end nothing else can come in between.
  if (ending.as === "done" && deps.mail.listForRun(run.id).length > 0) return "mail";
  deps.failpoint("run.announced");
  endRun(deps, run, ending, { words: lastWords(entries ?? [], run) || (ending.words ?? ""), reply });
  return "over";
}

/** One more model turn without tools. Null when it failed or timed out: the last words of the work are used then. */
async function announceStep(deps: Deps, run: Run, entries: readonly Entry[], signal: AbortSignal): Promise<string | null> {
  const ref = transcriptOfRun(run);
  const ids = announceIds(entries, run.generation);
  const known = entries.find((entry) => entry.id === ids.reply);
  if (known?.type === "message") return known.text;
  if (!entries.some((entry) => entry.id === ids.ask)) {
    deps.transcripts.append(ref, [{ type: "message", role: "user", text: ASK, from: "runtime", id: ids.ask, phase: "announce" }]);
  }
  const agent = deps.agents.find(run.agentId);
  const limit = new AbortController();
  const clear = abortAfter(deps.clock, agent?.subagents.announceTimeoutMs ?? 60_000, limit);
  const call = deps.models.call(
    {
      model: run.model,
      fallbacks: agent === null ? [] : childFallbacks(agent, run.model),
      thinking: run.thinking,
      system: "You have finished a task as a sub-agent. Now you report it.",
      messages: [...toMessages(entries), { role: "user", text: ASK }],
      tools: [],
      agentId: run.agentId,
      signal: AbortSignal.any([signal, limit.signal]),
    },
    () => {},
  );
  const reply = await call.finally(clear);
  deps.db.relaxed(() => {
    const spend = { usage: reply.usage, costUsd: reply.costUsd };
    deps.runs.addSpend(run.id, spend);
    deps.sessions.addSpend(run.sessionId, reply.model, spend);
  });
  if (reply.outcome !== "ok" || reply.text.trim() === "") {
    deps.log.warn({ runId: run.id, outcome: reply.outcome, reason: reply.error?.message }, "the announce step failed; using the last text");
    return null;
  }
  const text = cleanText(reply.text);
  deps.transcripts.append(ref, [
    { type: "message", role: "assistant", text, model: reply.model, usage: reply.usage, calls: 0, id: ids.reply, phase: "announce" },
  ]);
  return text;
}

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

/** What the runtime adds to the notes: people must not take half a result for a whole one. */
function remarksOf(run: Run, ending: Ending): string[] {
  const remarks: string[] = [];
  if (run.resumes > 0) remarks.push("- The gateway restarted while this ran; the work was resumed from its transcript.");
  if (ending.incomplete) remarks.push(`- Incomplete: ${ending.reason}. The result may miss parts.`);
  if (ending.as === "error") remarks.push(`- It failed: ${ending.reason ?? "no reason is known"}`);
  if (ending.as === "timeout")
    remarks.push(`- It was ended by its time limit (${ending.reason ?? "runTimeoutSeconds"}); this is what it had until then.`);
  if (ending.as === "interrupted")
    remarks.push(`- It was interrupted (${ending.reason ?? "the gateway restarted"}); this is what it had until then.`);
  return remarks;
}

/** What an ended run handed back: its announce reply, else its last words. */
export function resultOf(transcripts: Transcripts, run: Run): RunResult {
  const entries = transcripts.tail(transcriptOfRun(run), LOOK_BACK);
  const reply = entries.findLast((entry) => isAnnounceReply(entry, run.generation));
  if (reply?.type === "message" && reply.text.trim() !== ANNOUNCE_SKIP) return parseAnnounceReply(reply.text);
  return { result: lastWords(entries, run), notes: "" };
}

/** What it said before this generation was announced then. */
const lastWords = (entries: readonly Entry[], { generation, queuedAt }: Run): string =>
  lastAssistantText(generation === 1 ? entries : entries.filter((entry) => Date.parse(entry.timestamp) >= queuedAt));

/** What a run leaves behind: its last words, and the announce step's text if there was one. */
interface Leaving {
  readonly words: string;
  readonly reply: string | null;
}

/** Ends a run from outside, without an announce step. */
export const breakOff = (deps: Deps, run: Run, ending: Ending): boolean =>
  endRun(deps, run, ending, { words: run.state === "queued" ? "" : lastWords(historyOf(deps, run, ending) ?? [], run), reply: null });

/** The one transaction. */
function endRun(deps: Deps, run: Run, ending: Ending, { words, reply }: Leaving): boolean {
  const ref = transcriptOfRun(run);
  const skip = reply?.trim() === ANNOUNCE_SKIP;
  const sections = recordSections(words);
  const answer = reply === null || skip ? { result: words, notes: "" } : parseAnnounceReply(reply);
  const hasTranscript = fromTranscript(deps, run, ending, () => deps.transcripts.sync(ref)) === true;
  deps.failpoint("run.before-end");
  const ended = deps.db.transaction(() => {
    // Read again: usage of the announce step belongs to the figures.
    const fresh = deps.runs.get(run.id) ?? run;
    if (fresh.generation !== run.generation) return false;
    // Nobody above is told that something further down was stopped.
    const heard = ending.as === "stopped" ? run : heardThrough(deps, run);
    const posts = ending.as !== "stopped" && run.announce === "post" && heard.requesterRunId === null && !skip;
    const delivery = posts ? "pending" : ending.as === "stopped" ? "none" : "skipped";
    if (!deps.runs.end(run.id, { ...ending, delivery, sections, hasTranscript })) return false;
    const posted = posts && post(deps, fresh, textOf(deps, fresh, ending, answer));
    if (!posts) deps.runs.settle(run.id);
    stopOrphans(deps, run);
    const sentence = outcomeSentence(run, ending.as, ending.reason, ending.incomplete);
    const note = noteText({ run, as: ending.as, answer, sentence, posted, sections });
    deps.mail.addNote(heard.requesterSessionId, `${run.id}:${run.generation}`, note);
    return true;
  });
  if (ended) deps.failpoint("run.ended");
  return ended;
}

/** The run itself, or the one above it whose requester still listens: a requester that has ended its own run reads nothing any more. */
function heardThrough(deps: Deps, run: Run): Run {
  const requester = run.requesterRunId === null ? null : deps.runs.get(run.requesterRunId);
  return requester === null || isUnfinished(requester.state) ? run : heardThrough(deps, requester);
}

const textOf = (deps: Deps, run: Run, ending: Ending, answer: RunResult): string =>
  announcementText({
    run,
    as: ending.as,
    answer,
    remarks: remarksOf(run, ending),
    now: deps.clock.now(),
    transcript: deps.transcripts.path(transcriptOfRun(run)),
  });

/**
 * Posts what could not be posted when the run ended, because its channel was off. From the record, without a model. False: it was
 * posted then, or its channel is still off. Call inside a transaction.
 */
export function postLate(deps: Deps, run: Run): boolean {
  if (isUnfinished(run.state) || deps.channel(run.address.channel, run.address.account) === null) return false;
  const ending = { as: run.state, reason: run.reason, incomplete: run.incomplete, isLost: true };
  const answer = fromTranscript(deps, run, ending, () => resultOf(deps.transcripts, run)) ?? { result: "", notes: "" };
  return post(deps, run, textOf(deps, run, ending, answer));
}

/** Children report to this run and to nobody else: what is still at work below it has no one left to report to. */
function stopOrphans(deps: Deps, run: Run): void {
  for (const child of deps.runs.childrenOf(run.id)) {
    if (isUnfinished(child.state)) breakOff(deps, child, { as: "stopped", reason: "its requester ended", incomplete: false });
  }
}

/** DL1: the id says what it is about, so that a run (or a later generation of it) can be announced only once. */
export const announceDelivery = (run: Run): string =>
  run.generation === 1 ? `announce:v1:${run.childKey}:${run.id}` : `announce:v1:${run.childKey}:${run.id}:g${run.generation}`;

/** The run's delivery state moves in the transaction that moves its announcement; settled, the archive time counts. */
export function recordDelivery(runs: Runs, row: OutboxRow, state: "sending" | "delivered" | "blocked", reason?: string): void {
  const run = row.runId === null ? null : runs.get(row.runId);
  // A run that goes on has a new announcement to wait for; a late delivery of the old one says nothing about it.
  if (run === null || announceDelivery(run) !== row.delivery) return;
  runs.setDelivery(run.id, state, reason);
  if (state !== "sending") runs.settle(run.id);
}

/** False: it was posted before, or there is no channel to post it to. */
function post(deps: Deps, run: Run, markdown: string): boolean {
  const channel = deps.channel(run.address.channel, run.address.account);
  if (channel === null) {
    const reason = `the channel ${run.address.channel} is off; once it is on again, \`/subagents retry ${shortId(run.id)}\` posts it`;
    deps.runs.setDelivery(run.id, "blocked", reason);
    deps.runs.settle(run.id);
    return false;
  }
  const parts = render(deps, channel, run, markdown);
  return deps.outbox.add({ delivery: announceDelivery(run), address: run.address, parts, runId: run.id });
}

function render({ log }: Deps, channel: Channel, run: Run, markdown: string): Part[] {
  const kind = "announcement";
  try {
    return channel.render({ markdown, kind }, run.address);
  } catch (error) {
    log.error({ err: error, runId: run.id }, "an announcement could not be rendered");
    const where = `\`/subagents log ${shortId(run.id)}\` shows what it wrote`;
    const instead = `⚠️ The announcement of "${oneLine(run.label)}" could not be shown: ${errorText(error)}. ${where}.`;
    return channel.render({ markdown: instead, kind }, run.address);
  }
}

const historyOf = (deps: Deps, run: Run, ending: Ending): Entry[] | null =>
  fromTranscript(deps, run, ending, () => deps.transcripts.window(transcriptOfRun(run), deps.models.contextWindow(run.model) * 2));

/**
 * Null for a damaged or deleted transcript: it must not keep a run from ending, the record still knows what to say. A disk
 * that refuses for a while is another thing: it would cost the result, so it is waited for; but a stop waits for nothing.
 */
function fromTranscript<T>({ log }: Deps, run: Run, { as, isLost }: Ending, read: () => T): T | null {
  try {
    return read();
  } catch (error) {
    if (isStorageError(error) && as !== "stopped" && as !== "interrupted" && isLost !== true) throw error;
    log.error({ err: error, runId: run.id }, "a run ends without its transcript");
    return null;
  }
}
