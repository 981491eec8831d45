// The end of a run: the announce step (announce.ts) when it earned one, then ONE transaction {run ended, outbox parts, note
// to the requester}. After it no model is needed any more: delivery retries rows, and a crash before it repeats the step
// from the transcript. Only the first caller that ends a run gets through; everybody else changes nothing.
import { readHistory } from "../agents/compact.ts";
import { isStorageError } from "../core/errors.ts";
import { shortId } from "../core/ids.ts";
import type { OutMessage } from "../core/message.ts";
import { isUnfinished, type Run } from "../core/run.ts";
import type { Tx } from "../stores/database.ts";
import { type LockKey, lock } from "../stores/lock-keys.ts";
import type { Entry } from "../stores/transcript-entry.ts";
import { type AnnounceDeps, announceStep, lastWords, resultOf, toResult } from "./announce.ts";
import { announcementOf, type RunResult } from "./announcement.ts";
import { type SubagentDeps, transcriptOfRun } from "./deps.ts";
import { noteAbout, noteText } from "./notes.ts";
import { type Ending, outcomeSentence } from "./outcome.ts";
import { post } from "./posting.ts";
import { remarksOf, unreadText } from "./remarks.ts";
import { recordSections } from "./sections.ts";
import { answeredBy } from "./transcript-view.ts";

type Deps = AnnounceDeps & Pick<SubagentDeps, "models" | "mail" | "outbox" | "failpoint" | "channel">;

/** Runs the announce step when the run earned one, and ends the run. `mail`: it did not end, there is something to read first. */
export async function finishRun(deps: Deps, run: Run, ending: Ending, signal: AbortSignal): Promise<"over" | "mail"> {
  const entries = await historyOf(deps, run, ending);
  // Without its history it could only make something up.
  const asks = ending.as === "done" && run.announce === "post" && entries !== null;
  const reply = asks ? await announceStep(deps, run, entries, signal) : null;
  // A /stop in the meantime has ended the run; a shutdown leaves it as it is.
  if (signal.aborted) return "over";
  deps.failpoint("run.announced");
  const words = lastWords(entries ?? [], run) || (ending.words ?? "");
  // Sent while it announced: the sender was told that it is read.
  const prepared = await prepareEnd(deps, run, ending, { words, reply, readsFirst: ending.as === "done" });
  const left = await deps.db.transaction(locksOf(run), (tx) => recordEnd(deps, tx, run, prepared));
  if (left === "ended") deps.failpoint("run.ended");
  return left === "mail" ? "mail" : "over";
}

/**
 * Ends a run whose end has ended the process again and again: rows alone, nothing of its transcript is read and nothing it wrote is
 * rendered. What it wrote can be asked for. `says`: the chat is told that much; without, the announcement waits to be sent by hand.
 */
export async function endUnread(deps: Deps, run: Run, { reason, says }: { reason: string; says: boolean }): Promise<void> {
  const { requesterSessionId, requesterRunId } = await whoseRequesterListens(deps, run);
  const posts = run.announce === "post" && requesterRunId === null;
  const as = "interrupted";
  const answer = { result: "", notes: "" };
  await deps.db.transaction(locksOf(run), async (tx) => {
    if (!(await deps.runs.end(tx, run.id, { as, reason, incomplete: false, delivery: posts ? "pending" : "skipped" }))) return;
    const isPosted =
      posts && says && (await post(deps, tx, run, messageOf(deps, run, { as, reason, incomplete: false }, { ...answer, models: [] })));
    if (posts && !says)
      await deps.runs.setDelivery(tx, run.id, "blocked", `${reason}; \`/subagents retry ${shortId(run.id)}\` tries once more`);
    if (!isPosted) await deps.runs.markSettled(tx, run.id);
    for (const child of await deps.runs.unfinishedBelow(run.childKey)) {
      await deps.runs.end(tx, child.id, { as: "stopped", reason: "its requester ended", incomplete: false, delivery: "none" });
      await deps.runs.markSettled(tx, child.id);
    }
    const sentence = outcomeSentence(run, { as, reason, incomplete: false }, answer.result);
    const note = noteText({ run, as, answer, sentence, sections: null });
    await deps.mail.addNote(tx, requesterSessionId, noteAbout(run), note);
  });
}

/** What a run leaves behind: its last words, and the announce step's text if there was one. */
interface Leaving {
  readonly words: string;
  readonly reply: string | null;
  /** With something to read it doesn't end. */
  readonly readsFirst?: boolean;
}

/** As breakOff, in a transaction of its own. */
export const endNow = (deps: Deps, run: Run, ending: Ending): Promise<boolean> =>
  deps.db.transaction(locksOf(run), (tx) => breakOff(deps, tx, run, ending));

/** Ends a run from outside, without an announce step. */
export async function breakOff(deps: Deps, tx: Tx, run: Run, ending: Ending): Promise<boolean> {
  const words = run.state === "queued" ? "" : lastWords((await historyOf(deps, run, ending)) ?? [], run);
  return (await recordEnd(deps, tx, run, await prepareEnd(deps, run, ending, { words, reply: null }))) === "ended";
}

interface PreparedEnd extends Leaving {
  readonly ending: Ending;
  /** On disk: from the commit on the row lets go of the task, and only the transcript has what was said. */
  readonly hasTranscript: boolean;
  readonly models: readonly string[];
}

/** All that is not rows: nobody waits for a file while the tree is locked, but who stops several in one transaction. */
async function prepareEnd(deps: Deps, run: Run, ending: Ending, leaving: Leaving): Promise<PreparedEnd> {
  const hasTranscript = (await fromTranscript(deps, run, ending, () => deps.transcripts.sync(transcriptOfRun(run)))) === true;
  const models = await modelsOf(deps, run, ending);
  deps.failpoint("run.before-end");
  return { ...leaving, ending, hasTranscript, models };
}

const locksOf = (run: Run): LockKey[] => [lock.tree(run.rootKey), lock.chat(run.address)];

/**
 * The one transaction: run ended, announcement in the outbox, note to the requester, children left without a requester. Split
 * in two, a kill in between would leave an ended run that nobody hears of, or one that is announced and then runs again.
 */
async function recordEnd(deps: Deps, tx: Tx, run: Run, prepared: PreparedEnd): Promise<"ended" | "mail" | "lost"> {
  const { ending, words, reply, readsFirst = false, hasTranscript, models } = prepared;
  const said = toResult(reply, words);
  const sections = recordSections(words);
  const answer = said ?? { result: words, notes: "" };
  // Read again: usage of the announce step belongs to the figures.
  const fresh = (await deps.runs.get(run.id)) ?? run;
  // Stopped and sent on since: this is the end of a generation that is over, and the one at work must not be ended by it.
  if (fresh.generation !== run.generation) return "lost";
  // Looked at here and nowhere before: a message between the look and the end would be read by nobody.
  if (readsFirst && isUnfinished(fresh.state) && (await deps.mail.listForRun(run.id)).length > 0) return "mail";
  // Nobody above is told that something further down was stopped.
  const heard = ending.as === "stopped" ? run : await whoseRequesterListens(deps, run);
  const posts = ending.as !== "stopped" && run.announce === "post" && heard.requesterRunId === null && said !== null;
  const delivery = posts ? "pending" : ending.as === "stopped" ? "none" : "skipped";
  // The compare-and-set that decides every race of ends (stop, timeout, error, last word): the loser writes nothing below.
  if (!(await deps.runs.end(tx, run.id, { ...ending, delivery, sections, hasTranscript }))) return "lost";
  const unread = await leaveMail(deps, tx, run, ending);
  if (posts) await post(deps, tx, fresh, messageOf(deps, fresh, { ...ending, unread }, { ...answer, models }));
  else await deps.runs.markSettled(tx, run.id);
  await stopOrphans(deps, tx, run);
  const outcome = outcomeSentence(run, ending, answer.result);
  const sentence = unread === 0 ? outcome : `${outcome} ${unreadText(unread)}`;
  const note = noteText({ run, as: ending.as, answer, sentence, sections });
  await deps.mail.addNote(tx, heard.requesterSessionId, noteAbout(run), note);
  return "ended";
}

/**
 * Whoever wrote to it was told that it is read at its next step; there is none any more. What waits is read when the run goes on,
 * and people are told so; what was ended on purpose stays ended (ST4). Returns how much is left. In the transaction that ends
 * the run: later, somebody could have been told "it reads this" in between.
 */
async function leaveMail({ mail }: Deps, tx: Tx, { id }: Run, { as }: Ending): Promise<number> {
  const unread = await mail.listForRun(id);
  if (as !== "stopped") return unread.length;
  await mail.takeForRun(
    tx,
    unread.map((one) => one.id),
  );
  return 0;
}

/** The run itself, or the one above it whose requester still listens: a requester that has ended its own run reads nothing any more. */
async function whoseRequesterListens(deps: Deps, run: Run): Promise<Run> {
  const requester = run.requesterRunId === null ? null : await deps.runs.get(run.requesterRunId);
  return requester === null || isUnfinished(requester.state) ? run : await whoseRequesterListens(deps, requester);
}

const modelsOf = async (deps: Deps, run: Run, ending: Ending): Promise<readonly string[]> =>
  ending.as === "stopped" ? [] : ((await fromTranscript(deps, run, ending, () => answeredBy(deps.transcripts, run))) ?? []);

const messageOf = (deps: Deps, run: Run, ending: Ending, answer: RunResult & { models: readonly string[] }): OutMessage =>
  announcementOf({
    run,
    as: ending.as,
    answer,
    remarks: remarksOf(run, ending, answer, deps.channel(run.address.channel, run.address.account)?.isOperators === true),
    now: deps.clock.now(),
    transcript: deps.transcripts.path(transcriptOfRun(run)),
  });

/**
 * Posts what could not be posted when the run ended, because its channel was off. From the record, without a model. False: it was
 * posted then, or its channel is still off.
 */
export async function postLate(deps: Deps, tx: Tx, run: Run): Promise<boolean> {
  if (isUnfinished(run.state) || deps.channel(run.address.channel, run.address.account) === null) return false;
  const ending = { as: run.state, reason: run.reason, incomplete: run.incomplete, isLost: true };
  const answer = (await fromTranscript(deps, run, ending, () => resultOf(deps.transcripts, run))) ?? { result: "", notes: "" };
  return post(deps, tx, run, messageOf(deps, run, ending, { ...answer, models: await modelsOf(deps, run, ending) }));
}

/** Children report to this run and to nobody else: what is still at work below it has no one left to report to. */
async function stopOrphans(deps: Deps, tx: Tx, run: Run): Promise<void> {
  for (const child of await deps.runs.childrenOf(run.id)) {
    if (isUnfinished(child.state)) await breakOff(deps, tx, child, { as: "stopped", reason: "its requester ended", incomplete: false });
  }
}

const historyOf = (deps: Deps, run: Run, ending: Ending): Promise<Entry[] | null> =>
  fromTranscript(deps, run, ending, () => readHistory(deps, transcriptOfRun(run), run.model));

/**
 * Null for a damaged or deleted transcript: it must not keep a run from ending, the record still knows what to say. A disk
 * that refuses for a while is another thing: it would cost the result, so it is waited for; but a stop waits for nothing.
 */
async function fromTranscript<T>({ log }: Deps, run: Run, { as, isLost }: Ending, read: () => Promise<T>): Promise<T | null> {
  try {
    return await read();
  } catch (error) {
    if (isStorageError(error) && as !== "stopped" && as !== "interrupted" && isLost !== true) throw error;
    log.error({ err: error, runId: run.id }, "a run ends without its transcript");
    return null;
  }
}
