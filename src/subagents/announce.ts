// The end of a run: the announce step inside the child session, then ONE transaction {run ended, outbox parts, note to
// the requester}. After it no model is needed any more: delivery retries rows, and a crash before it repeats the step
// from the transcript. Only the first caller that ends a run gets through; everybody else changes nothing.
import { cleanText } from "../agents/clean-text.ts";
import { lastAssistantText, toMessages } from "../agents/context.ts";
import { isStorageError } from "../core/errors.ts";
import { type EndState, isUnfinished, type Run } from "../core/run.ts";
import type { Thinking } from "../models/model.ts";
import type { OutboxRow } from "../stores/outbox.ts";
import type { Runs } from "../stores/runs.ts";
import type { Entry } from "../stores/transcript-entry.ts";
import { type SubagentDeps, transcriptOfRun } from "./deps.ts";
import { announcementText, noteText, outcomeSentence, type RunResult } from "./report.ts";
import { recordSections } from "./roles.ts";

export const ANNOUNCE_SKIP = "ANNOUNCE_SKIP";

const ASK = `Your work is over. Write what the person who asked should read, in exactly this form and nothing else:

Result:
<the result itself, complete, in Markdown>

Notes:
<what they should know about it: assumptions, doubts, what is missing; or "- (none)">

Status and figures are added for you. If there is truly nothing worth posting, answer with exactly ${ANNOUNCE_SKIP} instead.`;

type Deps = Pick<
  SubagentDeps,
  "db" | "runs" | "sessions" | "transcripts" | "mail" | "outbox" | "agents" | "models" | "clock" | "log" | "failpoint" | "channel"
>;

export interface Ending {
  readonly as: EndState;
  readonly reason: string | null;
  readonly incomplete: boolean;
  /** What it said last, for when its transcript can't be read any more. */
  readonly words?: string;
}

/** Runs the announce step when the run earned one, and ends the run. `mail`: it did not end, there is something to read first. */
export async function finishRun(deps: Deps, run: Run, ending: Ending, signal: AbortSignal): Promise<"over" | "mail"> {
  const entries = historyOf(deps, run, ending.as);
  // Without its history it could only make something up.
  const asks = ending.as === "done" && run.announce === "post" && entries !== null;
  const reply = asks ? await announceStep(deps, run, entries, signal) : null;
  // A /stop in the meantime has ended the run; a shutdown leaves it as it is.
  if (signal.aborted && signal.reason !== "timeout") return "over";
  // Sent while it announced: the sender was told that it is read. From here to the end nothing else can come in between.
  if (ending.as === "done" && deps.mail.listForRun(run.id).length > 0) return "mail";
  deps.failpoint("run.announced");
  endRun(deps, run, ending, { words: entries === null ? (ending.words ?? "") : lastAssistantText(entries), reply });
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
  const over = new AbortController();
  const stop = AbortSignal.any([signal, over.signal]);
  const limit = deps.clock.sleep(agent?.subagents.announceTimeoutMs ?? 60_000, stop).then(() => over.abort("announce-timeout"));
  const reply = await deps.models.call(
    {
      model: run.model,
      fallbacks: agent?.fallbacks ?? [],
      thinking: run.thinking as Thinking,
      system: "You have finished a task as a sub-agent. Now you report it.",
      messages: [...toMessages(entries), { role: "user", text: ASK }],
      tools: [],
      agentId: run.agentId,
      signal: stop,
    },
    () => {},
  );
  over.abort();
  await limit;
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

export const isAnnounceReply = ({ id }: Entry, generation: number): boolean =>
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

/** What a run leaves behind: its last words, and the announce step's text if there was one. */
interface Leaving {
  readonly words: string;
  readonly reply: string | null;
}

/** Ends a run from outside, without an announce step. */
export const breakOff = (deps: Deps, run: Run, ending: Ending): boolean =>
  endRun(deps, run, ending, { words: run.state === "queued" ? "" : lastAssistantText(historyOf(deps, run, ending.as) ?? []), reply: null });

/** The one transaction. */
function endRun(deps: Deps, run: Run, ending: Ending, { words, reply }: Leaving): boolean {
  const ref = transcriptOfRun(run);
  const skip = reply?.trim() === ANNOUNCE_SKIP;
  const sections = recordSections(words);
  const answer = reply === null || skip ? { result: words, notes: "" } : parseAnnounceReply(reply);
  const posted = ending.as !== "stopped" && run.announce === "post" && run.requesterRunId === null && !skip;
  const hasTranscript = fromTranscript(deps, run, ending.as, () => deps.transcripts.sync(ref)) === true;
  deps.failpoint("run.before-end");
  const ended = deps.db.transaction(() => {
    // Read again: usage of the announce step belongs to the figures.
    const fresh = deps.runs.get(run.id) ?? run;
    if (fresh.generation !== run.generation) return false;
    const delivery = posted ? "pending" : ending.as === "stopped" ? "none" : "skipped";
    if (!deps.runs.end(run.id, { ...ending, delivery, sections, hasTranscript })) return false;
    if (posted)
      post(
        deps,
        fresh,
        announcementText({
          run: fresh,
          as: ending.as,
          answer,
          remarks: remarksOf(run, ending),
          now: deps.clock.now(),
          transcript: deps.transcripts.path(ref),
        }),
      );
    else deps.runs.settle(run.id);
    stopOrphans(deps, run);
    const sentence = outcomeSentence(run, ending.as, ending.reason, ending.incomplete);
    const note = noteText({ run, as: ending.as, answer, sentence, posted, sections });
    deps.mail.addNote(run.requesterSessionId, `${run.id}:${run.generation}`, note);
    return true;
  });
  if (ended) deps.failpoint("run.ended");
  return ended;
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

function post(deps: Deps, run: Run, markdown: string): void {
  const channel = deps.channel(run.address.channel, run.address.account);
  if (channel === null) {
    deps.runs.setDelivery(run.id, "blocked", `the channel ${run.address.channel} is not configured`);
    return deps.runs.settle(run.id);
  }
  const parts = channel.render({ markdown, kind: "announcement" }, run.address);
  deps.outbox.add({ delivery: announceDelivery(run), address: run.address, parts, runId: run.id });
}

const historyOf = (deps: Deps, run: Run, as: EndState): Entry[] | null =>
  fromTranscript(deps, run, as, () => deps.transcripts.window(transcriptOfRun(run), deps.models.contextWindow(run.model) * 2));

/**
 * Null for a damaged or deleted transcript: it must not keep a run from ending, the record still knows what to say. A disk
 * that refuses for a while is another thing: it would cost the result, so it is waited for; but a stop waits for nothing.
 */
function fromTranscript<T>(deps: Deps, run: Run, as: EndState, read: () => T): T | null {
  try {
    return read();
  } catch (error) {
    if (isStorageError(error) && as !== "stopped" && as !== "interrupted") throw error;
    deps.log.error({ err: error, runId: run.id }, "a run ends without its transcript");
    return null;
  }
}
