// The messages of main sessions: a waiting inbox row → its turn (main-turn.ts) → the reply in the outbox and the row done,
// in one transaction. The lane `main` calls work(sessionKey) for one session at a time (AG1); a row that lost its process is
// simply claimed again and its turn takes up where the transcript ends.
import type { Compacted } from "../agents/compact.ts";
import { ensureSession, transcriptOf } from "../agents/open-session.ts";
import type { Address } from "../core/address.ts";
import { errorText, isStorageError, publicErrorText } from "../core/errors.ts";
import type { HitFailpoint } from "../core/failpoints.ts";
import { agentIdOf } from "../core/ids.ts";
import type { Button, Channel, Inbound } from "../core/message.ts";
import type { Lane } from "../lanes/lanes.ts";
import { RELAXED, type Tx } from "../stores/database.ts";
import type { Inbox, InboxRow } from "../stores/inbox.ts";
import { type LockKey, lock } from "../stores/lock-keys.ts";
import type { Outbox } from "../stores/outbox.ts";
import type { Session } from "../stores/sessions.ts";
import { MAX_DEATHS, MAX_WORDLESS } from "../stores/tries.ts";
import { closeQuestions, type OpenQuestionDeps } from "../subagents/open-questions.ts";
import type { Attaching, Gathered } from "./attaching.ts";
import { type Active, createDesk, type Desk } from "./desk.ts";
import { type Answered, answeredElsewhere, followDrafts } from "./elsewhere.ts";
import { accountOf, type Job, type MainTurnDeps, openSitting, replyText, runTurn, stoppedText } from "./main-turn.ts";
import { bringBackReplaced, type ReplacingDeps } from "./replacing.ts";
import { endDrafts, finishReply, renderReply } from "./reply.ts";
import { appendRequest, dropStopMark, filesOnRecord, noteStopped, noteUnread } from "./request.ts";

export interface Conversations {
  /** Handler of the lane `main`: the oldest waiting message of this session. */
  work(sessionKey: string): Promise<void>;
  /** A turn or a compaction is under way. */
  isActive(sessionKey: string): boolean;
  /**
   * Ends what is under way in a session and drops what waits, in the caller's transaction: rows first, the signal after the
   * commit, so that nothing of it can start once the answer goes out (ST2). `stopRuns`: what it ends of the session's runs. False: there
   * was nothing to end in the session itself.
   */
  halt(tx: Tx, sessionKey: string, stopRuns?: () => Promise<void>): Promise<boolean>;
  /**
   * Ends the answer being written and nothing else (ST3): what it says so far, with the note and buttons below it, becomes
   * the reply in the caller's transaction, and the turn is told after it. False: nothing is being written, or not for this message.
   */
  stopAnswer(tx: Tx, sessionKey: string, below: StopWords, onlyFor?: number): Promise<boolean>;
  /** The last answer was ended so, and nothing was begun since. */
  isAnswerStopped(sessionKey: string): boolean;
  /** Sums up the older part of a session that is at rest; messages that arrive meanwhile wait. */
  compact(sessionKey: string): Promise<CompactAnswer>;
  /** Ends all turns without settling them: they are taken up at the next start. */
  suspend(): void;
}

export interface StopWords {
  readonly note: string;
  readonly buttons: readonly Button[];
}

/** `leftOut`: done, but for so many messages. `failed`: nothing was changed, and why. */
export type CompactAnswer = "busy" | "nothing" | "stopped" | "done" | { readonly leftOut: number } | { readonly failed: string };

export interface ConversationDeps extends MainTurnDeps, ReplacingDeps {
  readonly inbox: Inbox;
  readonly outbox: Outbox;
  readonly lane: Lane;
  readonly failpoint: HitFailpoint;
  readonly live: OpenQuestionDeps["live"];
  channel(name: string, account: string): Channel | null;
  /** The files of a message; null: it was ended meanwhile. */
  gather(job: Attaching): Promise<Gathered | null>;
}

const STORAGE_RETRY_MS = 5_000;
/** Of a session without a chat: there is nobody to be told of a limit. */
const NOWHERE: Address = { channel: "", account: "", chat: "", kind: "dm" };

export function createConversations(deps: ConversationDeps): Conversations {
  const desk = createDesk(deps);
  const drafts = followDrafts(deps.bus);
  // Only remembered, not recorded: after a restart the next press finds nothing to end, which is true.
  const stopped = new Set<string>();
  deps.bus.on((event) => {
    if (event.type !== "turn.halted") return;
    if (event.what === "answer") stopped.add(event.sessionKey);
    else stopped.delete(event.sessionKey);
    return desk.end(event.sessionKey);
  });
  deps.bus.on((event) => {
    if (event.type === "session.woken") deps.lane.ring(event.sessionKey, event.sessionKey);
  }, "here");
  return {
    work: (sessionKey) => work(deps, desk, sessionKey, () => stopped.delete(sessionKey)),
    isActive: (sessionKey) => desk.get(sessionKey) !== null,
    async halt(tx, sessionKey, stopRuns = async () => {}) {
      // Told before the end of any run: a turn that waits for one would be taken up for a moment, only to find itself ended.
      tx.emit({ type: "turn.halted", sessionKey, what: "all" });
      // Before the rows are dropped: a group that is through by this stop wakes its session, and that turn is dropped with what waits.
      await stopRuns();
      await endDrafts(deps, tx, sessionKey, desk.get(sessionKey)?.job?.written ?? drafts.get(sessionKey) ?? "");
      const waiting = await deps.inbox.listWaiting(tx, sessionKey);
      const dropped = await deps.inbox.drop(tx, sessionKey);
      await closeQuestions(deps, tx, { sessionKey });
      await noteStopped(deps, tx, sessionKey, dropped, "request");
      await noteUnread(deps, tx, sessionKey, waiting);
      for (const row of waiting) await bringBackReplaced(deps, tx, row, decode(deps, row));
      // What was told to end already is not ended a second time, though it may take a moment to go.
      return dropped.length > 0 || desk.get(sessionKey)?.abort.signal.aborted === false;
    },
    async stopAnswer(tx, sessionKey, { note, buttons }, onlyFor) {
      const job = desk.get(sessionKey)?.job ?? (await answeredElsewhere(deps, drafts, sessionKey));
      if (job === null || (onlyFor ?? job.row.id) !== job.row.id) return false;
      const parts = renderReply(deps, job, { markdown: stoppedText(job.written, note, deps), buttons });
      // Rows first, as with /stop: killed right here, the message is answered with what there was and never taken up again.
      if (!(await finishReply(deps, tx, job, parts))) return false;
      await noteStopped(deps, tx, sessionKey, [job.row.id], "answer");
      tx.emit({ type: "turn.halted", sessionKey, what: "answer" });
      return true;
    },
    isAnswerStopped: (sessionKey) => stopped.has(sessionKey),
    async compact(sessionKey) {
      const session = await deps.sessions.find(sessionKey);
      if (desk.get(sessionKey) !== null) return "busy";
      if (session === null) return "nothing";
      const own = desk.begin(sessionKey);
      if (!((await deps.lane.hold?.(sessionKey)) ?? true)) {
        desk.lay(sessionKey, own);
        return "busy";
      }
      stopped.delete(sessionKey);
      try {
        const compacted = await compactSession(deps, session, own.abort.signal);
        if (compacted.outcome === "done" && compacted.leftOut > 0) return { leftOut: compacted.leftOut };
        if (compacted.outcome !== "failed") return compacted.outcome;
        return own.abort.signal.aborted ? "stopped" : { failed: compacted.reason };
      } finally {
        desk.lay(sessionKey, own);
        await deps.lane.letGo?.(sessionKey);
        await desk.ringIfAny(sessionKey);
      }
    },
    suspend: desk.suspend,
  };
}

/** `onBegin`: a message is about to be answered. */
async function work(deps: ConversationDeps, desk: Desk, sessionKey: string, onBegin: () => void): Promise<void> {
  const own = await desk.takeUp(sessionKey);
  if (own === null) return;
  try {
    // Only with a message something is begun: a ring too many finds none.
    await answerNext(deps, sessionKey, own, onBegin);
  } finally {
    desk.lay(sessionKey, own);
    if (own.waits.length === 0) await own.sitting?.close("failed");
  }
  if (own.waits.length === 0 && own.abort.signal.reason !== "suspend") await desk.ringIfAny(sessionKey);
}

async function compactSession(deps: ConversationDeps, session: Session, signal: AbortSignal): Promise<Compacted> {
  const agent = deps.agents.find(session.agentId);
  if (agent === null) return { outcome: "failed", reason: `its agent "${session.agentId}" is not in the settings any more`, unread: 0 };
  return deps.turns.compact({
    ref: transcriptOf(session),
    model: session.model ?? agent.model,
    fallbacks: agent.fallbacks,
    signal,
    tools: () => deps.tools(agent),
    prompt: () => deps.prompt(agent, session, deps.tools(agent)),
    account: accountOf(deps, session, {
      message: `${session.id}:compact`,
      sessionKey: session.key,
      agentId: agent.id,
      address: session.address ?? NOWHERE,
      person: null,
    }),
  });
}

async function answerNext(deps: ConversationDeps, sessionKey: string, own: Active, onBegin: () => void): Promise<void> {
  const { abort } = own;
  let row: InboxRow | null = null;
  try {
    row = await deps.inbox.claim(sessionKey);
    // Its message was settled by a stop while it waited: what comes next is another turn, under a signal of its own.
    if (own.sitting !== null && own.sitting.rowId !== row?.id) {
      await own.sitting.close("aborted");
      if (row !== null) await deps.inbox.release(row.id);
      return;
    }
    if (row === null) return;
    onBegin();
    await answerRow(deps, row, { sessionKey, own });
  } catch (error) {
    await own.sitting?.close("failed");
    deps.log.error({ err: error, sessionKey, inboxId: row?.id }, "a message could not be answered");
    if (abort.signal.aborted) return;
    if (isStorageError(error) || row === null || !(await apologise(deps, row, error))) await waitForDisk(deps, row, abort.signal);
  }
}

/** The message waits and is taken up again; the try that the disk spoiled is not held against it. */
async function waitForDisk(deps: ConversationDeps, row: InboxRow | null, signal: AbortSignal): Promise<void> {
  for (let isFree = false; !isFree && !signal.aborted; ) {
    await deps.clock.sleep(STORAGE_RETRY_MS, signal);
    try {
      await deps.transcripts.probe();
      if (row !== null) await deps.inbox.release(row.id);
      isFree = true;
    } catch (error) {
      deps.log.warn({ reason: errorText(error) }, "the disk still refuses to write; messages wait");
    }
  }
}

/**
 * A broken transcript or row would fail the same way each time: the person hears it instead of waiting for ever (RC4).
 * False: not even that could be recorded.
 */
async function apologise(deps: ConversationDeps, row: InboxRow, error: unknown): Promise<boolean> {
  const text = `⚠️ This message could not be answered: ${publicErrorText(error)}. The log says more; /new starts a new conversation.`;
  try {
    const channel = deps.channel(row.channel, row.account);
    const inbound = channel?.decode(row.raw) ?? null;
    if (channel === null) await deps.inbox.putBack(row.id);
    else if (inbound === null) await drop(deps, row);
    else await commit(deps, { row, inbound, channel }, text);
    return true;
  } catch (again) {
    deps.log.error({ err: again, inboxId: row.id }, "an apology could not be recorded");
    return false;
  }
}

interface Called {
  readonly sessionKey: string;
  readonly own: Active;
}

async function answerRow(deps: ConversationDeps, row: InboxRow, { sessionKey, own }: Called): Promise<void> {
  // Its claim is on record. Processes that ended at it are apologised for; the others ended at the apology.
  const deaths = row.attempts - 1;
  if (deaths > MAX_WORDLESS) {
    deps.log.error({ sessionKey, inboxId: row.id, deaths }, "a message ends the gateway whenever it is read; it is dropped");
    return drop(deps, row);
  }
  deps.failpoint("turn.claimed");
  const channel = deps.channel(row.channel, row.account);
  if (channel === null) {
    deps.log.warn({ sessionKey, inboxId: row.id, channel: row.channel }, "a message waits for its channel, which is off");
    return deps.inbox.putBack(row.id);
  }
  const inbound = channel.decode(row.raw);
  if (inbound === null) {
    deps.log.error({ sessionKey, inboxId: row.id }, "a waiting message can't be read any more; it is dropped");
    return drop(deps, row);
  }
  if (deaths >= MAX_DEATHS) {
    // Nobody knows whether the message did it: a full memory or an impatient supervisor ends processes too.
    const sorry = `⚠️ This message could not be answered: the gateway ended ${deaths} times while working on it, which need not be its fault. Sending it again is worth a try.`;
    return commit(deps, { row, inbound, channel }, sorry);
  }
  const agentId = agentIdOf(sessionKey);
  const agent = deps.agents.find(agentId);
  if (agent === null) {
    const gone = `⚠️ This message could not be answered: its agent "${agentId}" is not in the settings any more. Send it again, and the present one answers.`;
    return commit(deps, { row, inbound, channel }, gone);
  }
  const session = await ensureSession(deps, { key: sessionKey, agentId, address: inbound.address, parentKey: null });
  const { abort } = own;
  const job: Job = { row, inbound, channel, agent, session, abort, written: own.job?.written ?? "" };
  // A turn that is taken up again has its files on record; but another machine has no copies of them yet.
  const onRecord = inbound.files === undefined ? null : await filesOnRecord(deps, session, row.id);
  const gathered = await deps.gather({ ...job, workspace: agent.workspace, signal: abort.signal, onRecord });
  if (gathered === null) return void (abort.signal.reason === "suspend" && (await deps.inbox.release(row.id)));
  if (!(await beginRequest(deps, job, gathered))) return;
  // Its line is in the file, which outlives this process. On the disk the words are in the inbox, before the model is called (SE2) and
  // until the turn ends: the one sync before that end brings all its lines there. After a power cut in between it begins anew from them.
  deps.failpoint("turn.input-appended");
  own.job = job;
  own.sitting ??= openSitting(deps, job);
  own.sitting.goOn();
  const end = await runTurn(deps, job, own.sitting);
  const isSuspended = end.outcome === "aborted" && abort.signal.reason === "suspend";
  if (isSuspended) await deps.inbox.release(row.id);
  if (end.outcome === "waiting") {
    await deps.inbox.rest(row.id);
    own.waits = end.waits ?? [];
    own.sitting.rest(own.waits);
    return;
  }
  await own.sitting.close(end.outcome);
  if (isSuspended) return;
  await deps.transcripts.sync(transcriptOf(session));
  deps.failpoint("turn.before-commit");
  await commit(deps, job, replyText(end, job));
  deps.failpoint("turn.committed");
}

const decode = (deps: ConversationDeps, row: InboxRow): Inbound | null => deps.channel(row.channel, row.account)?.decode(row.raw) ?? null;

/** Of the message's tree, because of what its turn may have asked: an answer is taken for as long as the message is open. */
const locksOf = ({ sessionKey }: InboxRow, inbound: Inbound | null): LockKey[] => [
  ...(sessionKey === null ? [] : [lock.tree(sessionKey)]),
  ...(inbound === null ? [] : [lock.chat(inbound.address), ...lock.pageOf(inbound.address)]),
];

/** Without a word. */
async function drop(deps: ConversationDeps, row: InboxRow): Promise<void> {
  const inbound = decode(deps, row);
  await deps.db.transaction(locksOf(row, inbound), async (tx) => {
    if (await deps.inbox.finish(tx, row.id)) await bringBackReplaced(deps, tx, row, inbound);
  });
}

/**
 * In one with a look at the row. A stop marks the request it ends in the transcript (ST4): appended behind that mark, a request that
 * was stopped a moment before would be taken for an open one by every later turn. False: it was stopped.
 */
const beginRequest = (deps: ConversationDeps, job: Job, gathered: Gathered): Promise<boolean> =>
  deps.db.transaction(
    [lock.tree(job.session.key)],
    async (tx) => {
      if (!(await deps.inbox.isWaiting(job.row.id))) return false;
      await appendRequest(deps, { ...job, gathered });
      await dropStopMark(deps, tx, job.inbound);
      return true;
    },
    RELAXED,
  );

/** Reply and done row in one transaction. */
async function commit(deps: ConversationDeps, job: Answered, markdown: string): Promise<void> {
  const parts = renderReply(deps, job, { markdown });
  await deps.db.transaction(locksOf(job.row, job.inbound), (tx) => finishReply(deps, tx, job, parts));
}
