// The end of a run: the announce step (announce.ts) when it earned one, then ONE transaction {run ended, outbox parts, note
// to the requester}. After it no model is needed any more: delivery retries rows, and a crash before it repeats the step
// from the transcript. Only the first caller that ends a run gets through; everybody else changes nothing.
import { readHistory } from "../agents/compact.ts";
import { spentText } from "../budgets/words.ts";
import { isStorageError } from "../core/errors.ts";
import type { Group } from "../core/group.ts";
import { programNameOf } from "../core/ids.ts";
import type { OutMessage } from "../core/message.ts";
import { programOf } from "../core/program.ts";
import { announceAddress, isUnfinished, type Run } from "../core/run.ts";
import type { Tx } from "../stores/database.ts";
import { type LockKey, lock } from "../stores/lock-keys.ts";
import type { Mail } from "../stores/mail.ts";
import type { Entry } from "../stores/transcript-entry.ts";
import { type AnnounceDeps, announceStep, dataResult, lastWords, resultOf, toResult } from "./announce.ts";
import { announcementOf, MAX_WORDS, type RunResult } from "./announcement.ts";
import { wayOf } from "./announcing.ts";
import { checksNote } from "./checks.ts";
import { RUNTIME } from "./completion.ts";
import { type SubagentDeps, transcriptOfRun } from "./deps.ts";
import { dropOut, hold } from "./digests.ts";
import { heldForGroup, NOT_NEEDED, settleGroup } from "./groups.ts";
import { type NoteOptions, noteAbout, noteText } from "./notes.ts";
import { type Ending, outcomeSentence } from "./outcome.ts";
import { byHand, post, unpostable } from "./posting.ts";
import { remarksOf, unreadText } from "./remarks.ts";
import { recordSections } from "./sections.ts";
import { answeredBy } from "./transcript-view.ts";
import { isTyped } from "./typed-result.ts";

type Deps = AnnounceDeps &
  Pick<SubagentDeps, "models" | "mail" | "outbox" | "digests" | "groups" | "inbox" | "failpoint" | "channel" | "settings">;

/** Runs the announce step when the run earned one, and ends the run. `mail`: it did not end, there is something to read first. */
export async function finishRun(deps: Deps, run: Run, ending: Ending, signal: AbortSignal): Promise<"over" | "mail"> {
  const entries = await historyOf(deps, run, ending);
  // Without its history it could only make something up.
  const isWanted = run.announce === "post" && wayOf(run, "done") !== "keep" && ending.isUnpaid !== true;
  // Typed data is put into words by code: a model could only change it.
  const asks = ending.as === "done" && isWanted && entries !== null && !isTyped(run.params);
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
    await deps.payments.release(tx, run);
    const group = run.groupId === null ? null : await deps.groups.get(run.groupId);
    const isHeld = posts && says && group?.state === "open" && group.announce === "together";
    const message = posts && says ? await messageOf(deps, run, { as, reason, incomplete: false }, { ...answer, models: [] }) : null;
    const isPosted = message !== null && (isHeld || (await post(deps, tx, run, message)));
    if (posts && !says) await deps.runs.setDelivery(tx, run.id, "blocked", byHand(run, reason));
    if (!isPosted) await deps.runs.markSettled(tx, run.id);
    for (const child of await deps.runs.unfinishedBelow(run.childKey)) {
      await deps.runs.end(tx, child.id, { as: "stopped", reason: "its requester ended", incomplete: false, delivery: "none" });
      await deps.payments.release(tx, child);
      await deps.runs.markSettled(tx, child.id);
      // There is nobody left to hear of it: left open, it would be listed as at work for ever.
      if (child.groupId !== null) await deps.groups.complete(tx, child.groupId);
    }
    const sentence = outcomeSentence(run, { as, reason, incomplete: false }, answer.result);
    const note = { run, as, answer, sentence, sections: null } as const;
    const isOpen = group?.state === "open";
    if (!(isOpen && group.wakes)) await deps.mail.addNote(tx, requesterSessionId, noteAbout(run), noteText(note));
    // What the others wrote may be what ends the process, too: rendered here, it would end every start.
    if (isOpen) await leaveToGroup(deps, tx, group, { ...note, message: isHeld ? message : null }, says ? null : reason);
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

/** The run's tree, the chat that asked and the one it is announced in. */
export const locksOf = (run: Run): LockKey[] => [lock.tree(run.rootKey), lock.chat(run.address), lock.chat(announceAddress(run))];

/**
 * The one transaction: run ended, announcement in the outbox, note to the requester, children left without a requester. Split
 * in two, a kill in between would leave an ended run that nobody hears of, or one that is announced and then runs again.
 */
async function recordEnd(deps: Deps, tx: Tx, run: Run, prepared: PreparedEnd): Promise<"ended" | "mail" | "lost"> {
  const { ending, words, reply, readsFirst = false, hasTranscript, models } = prepared;
  // Read again: usage of the announce step belongs to the figures.
  const fresh = (await deps.runs.get(run.id)) ?? run;
  const said = dataResult(fresh) ?? toResult(reply, words);
  const sections = isTyped(run.params) ? null : recordSections(words);
  const answer = said ?? { result: words, notes: "" };
  // Stopped and sent on since: this is the end of a generation that is over, and the one at work must not be ended by it.
  if (fresh.generation !== run.generation) return "lost";
  // Looked at here and nowhere before: a message between the look and the end would be read by nobody.
  const mail = await deps.mail.listForRun(run.id);
  if (readsFirst && isUnfinished(fresh.state) && mail.length > 0) return "mail";
  // Nobody above is told that something further down was stopped.
  const heard = ending.as === "stopped" ? run : await whoseRequesterListens(deps, run);
  const announces = ending.as !== "stopped" && run.announce === "post" && heard.requesterRunId === null && said !== null;
  const group = run.groupId === null ? null : await deps.groups.get(run.groupId);
  const isOpen = group?.state === "open";
  const way = announces ? wayOut(run, ending, isOpen && group.announce === "together") : null;
  const delivery = announces && way !== "keep" ? "pending" : ending.as === "stopped" ? "none" : "skipped";
  // The compare-and-set that decides every race of ends (stop, timeout, error, last word): the loser writes nothing below.
  if (!(await deps.runs.end(tx, run.id, { ...ending, delivery, sections, hasTranscript }))) return "lost";
  await deps.payments.release(tx, run);
  const unread = await leaveMail(deps, tx, mail, ending);
  const maxWords = way === "group" && group !== null ? await shareOfGroup(deps, group, MAX_TOGETHER) : MAX_WORDS;
  const message =
    way === null || way === "keep" ? null : await messageOf(deps, fresh, { ...ending, unread }, { ...answer, models, maxWords });
  if (message === null) await leaveOut(deps, tx, run, { isStopped: ending.as === "stopped", isKept: way === "keep" });
  else if (way === "group" && group !== null) await deps.runs.setDelivery(tx, run.id, "pending", heldForGroup(group), run.generation);
  else await (way === "hold" ? hold : post)(deps, tx, fresh, message);
  await stopOrphans(deps, tx, run);
  const checked = checksNote(run.params, ending.checks ?? fresh.checks);
  const sentence = [
    outcomeSentence(run, ending, answer.result),
    ...(checked === null ? [] : [`${checked}.`]),
    ...(unread === 0 ? [] : [unreadText(unread)]),
  ].join(" ");
  const note = { run, as: ending.as, answer, sentence, sections, data: fresh.data };
  // A program's session has no turns in which anybody would read it: the program asks for the result itself.
  const isRead = programNameOf(heard.requesterKey) === null;
  // Who is woken for the group reads of all of them then; told of each as well, it would read everything twice.
  if (isRead && (group?.wakes !== true || !(isOpen || ending.reason === NOT_NEEDED)))
    await deps.mail.addNote(tx, heard.requesterSessionId, noteAbout(run), noteText(note));
  if (group !== null && isOpen) await leaveToGroup(deps, tx, group, { ...note, run: fresh, message: way === "group" ? message : null });
  return "ended";
}

/** What ended for want of budget waits for a person: held back or left out, nobody would hear that it can go on. A group says so itself. */
function wayOut(run: Run, ending: Ending, isGroups: boolean): ReturnType<typeof wayOf> | "group" {
  if (isGroups) return "group";
  return ending.isUnpaid === true ? "post" : wayOf(run, ending.as);
}

/** Its share of what the group says together; the last one completes it. */
async function leaveToGroup(
  deps: Deps,
  tx: Tx,
  group: Group,
  left: NoteOptions & { message: OutMessage | null },
  whyUnsaid: string | null = null,
): Promise<void> {
  const { run, as, message } = left;
  // As many as there are share the requester's attention.
  const max = Math.max(MIN_SHARE, await shareOfGroup(deps, group, GROUP_SHARE));
  const note = noteText({ ...left, cut: { max, more: 'call subagents with action "result"' } });
  if (as !== "stopped") await deps.groups.keep(tx, group.id, { runId: run.id, generation: run.generation, message, note });
  const stop = (one: Run): Promise<boolean> => breakOff(deps, tx, one, { as: "stopped", reason: NOT_NEEDED, incomplete: false });
  await settleGroup(deps, tx, group, { stop, whyUnsaid });
}

/** What a requester reads of a whole group, and of one of them at the least. */
const GROUP_SHARE = 60_000;
const MIN_SHARE = 2_000;
/** What people read of it in one announcement: it is rendered in the transaction that ends the last one, and has an end as a digest has. */
const MAX_TOGETHER = 4_000_000;

const shareOfGroup = async ({ runs }: Deps, { id }: Group, whole: number): Promise<number> =>
  Math.min(MAX_WORDS, Math.floor(whole / Math.max(1, (await runs.listGroup(id)).length)));

const UNBOUND = "a program asked for it, and its token is bound to no chat: the program reads the result itself";

/** Nobody hears of it; of one that was stopped also not what an earlier generation had ready for a digest (ST2). */
async function leaveOut(deps: Deps, tx: Tx, run: Run, { isStopped, isKept }: { isStopped: boolean; isKept: boolean }): Promise<void> {
  if (isKept) await deps.runs.setDelivery(tx, run.id, "skipped", "only failures are announced (subagents.announce)");
  else if (!isStopped && programOf(run.address) !== null) await deps.runs.setDelivery(tx, run.id, "skipped", UNBOUND);
  if (isStopped && run.announcing.when === "digest") await dropOut(deps, tx, run);
  if (isStopped && run.groupId !== null) await deps.groups.drop(tx, run.id);
  await deps.runs.markSettled(tx, run.id);
}

/**
 * Whoever wrote to it was told that it is read at its next step; there is none any more. What waits is read when the run goes on,
 * and people are told so; what was ended on purpose stays ended (ST4), and what the runtime sent back means nothing to a later
 * generation. Returns how much is left. In the transaction that ends the run: later, somebody could have been told "it reads this" in
 * between.
 */
async function leaveMail({ mail }: Deps, tx: Tx, unread: readonly Mail[], { as }: Ending): Promise<number> {
  const isKept = ({ from }: Mail): boolean => as !== "stopped" && from !== RUNTIME;
  await mail.takeForRun(
    tx,
    unread.filter((one) => !isKept(one)).map((one) => one.id),
  );
  return unread.filter(isKept).length;
}

/** The run itself, or the one above it whose requester still listens: a requester that has ended its own run reads nothing any more. */
async function whoseRequesterListens(deps: Deps, run: Run): Promise<Run> {
  const requester = run.requesterRunId === null ? null : await deps.runs.get(run.requesterRunId);
  return requester === null || isUnfinished(requester.state) ? run : await whoseRequesterListens(deps, requester);
}

const modelsOf = async (deps: Deps, run: Run, ending: Ending): Promise<readonly string[]> =>
  ending.as === "stopped" ? [] : ((await fromTranscript(deps, run, ending, () => answeredBy(deps.transcripts, run))) ?? []);

async function messageOf(
  deps: Deps,
  run: Run,
  ending: Ending,
  answer: RunResult & { models: readonly string[]; maxWords?: number },
): Promise<OutMessage> {
  const level = await deps.payments.ownLevel(run);
  return announcementOf({
    run,
    as: ending.as,
    answer,
    remarks: remarksOf(run, ending, answer, isOperators(deps, run)),
    now: deps.clock.now(),
    transcript: deps.transcripts.path(transcriptOfRun(run)),
    limit: level === null ? null : spentText(level),
    reason: ending.reason,
    link: linkTo(deps, run),
    ...(answer.maxWords === undefined ? {} : { maxWords: answer.maxWords }),
  });
}

/** Where it stands on the page, for who reads of it elsewhere; null: nobody said where the page is, or this is the page. */
function linkTo({ settings }: Deps, run: Run): string | null {
  const { publicUrl } = settings();
  return publicUrl === null || announceAddress(run).channel === "web" ? null : `${publicUrl}/#/run/${run.id}`;
}

/** Who reads it there runs the gateway. */
function isOperators({ channel }: Deps, run: Run): boolean {
  const address = announceAddress(run);
  return channel(address.channel, address.account)?.isOperators === true;
}

/**
 * Posts what could not be posted when the run ended, because its channel was off. From the record, without a model. False: it was
 * posted then, or its channel is still off.
 */
export async function postLate(deps: Deps, tx: Tx, run: Run): Promise<boolean> {
  if (isUnfinished(run.state) || unpostable(deps, run) !== null) return false;
  const ending = { as: run.state, reason: run.reason, incomplete: run.incomplete, isLost: true };
  const answer = (await fromTranscript(deps, run, ending, () => resultOf(deps.transcripts, run))) ?? { result: "", notes: "" };
  return post(deps, tx, run, await messageOf(deps, run, ending, { ...answer, models: await modelsOf(deps, run, ending) }));
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
