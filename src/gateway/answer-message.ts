// A message that waits → its turn (main-turn.ts) → the reply in the outbox and the row done, in one transaction. A row that lost its
// process is claimed again, and its turn takes up where the transcript ends. What can't be answered is apologised for; a disk that
// refuses is waited for.
import { ensureSession, transcriptOf } from "../agents/open-session.ts";
import { errorText, isStorageError, publicErrorText } from "../core/errors.ts";
import type { HitFailpoint } from "../core/failpoints.ts";
import { agentIdOf } from "../core/ids.ts";
import type { Channel, Inbound } from "../core/message.ts";
import type { Lane } from "../lanes/lanes.ts";
import { RELAXED } from "../stores/database.ts";
import type { Inbox, InboxRow } from "../stores/inbox.ts";
import { type LockKey, lock } from "../stores/lock-keys.ts";
import type { Outbox } from "../stores/outbox.ts";
import { MAX_DEATHS, MAX_WORDLESS } from "../stores/tries.ts";
import type { OpenQuestionDeps } from "../subagents/open-questions.ts";
import type { Attaching, Gathered } from "./attaching.ts";
import type { Active } from "./desk.ts";
import type { Answered } from "./elsewhere.ts";
import { type Job, type MainTurnDeps, openSitting, replyText, runTurn } from "./main-turn.ts";
import { bringBackReplaced, type ReplacingDeps } from "./replacing.ts";
import { finishReply, renderReply } from "./reply.ts";
import { appendRequest, dropStopMark, filesOnRecord } from "./request.ts";

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

/** `onBegin`: it is about to be answered. */
export async function answerNext(deps: ConversationDeps, sessionKey: string, own: Active, onBegin: () => void): Promise<void> {
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

export const decodeRow = (deps: ConversationDeps, row: InboxRow): Inbound | null =>
  deps.channel(row.channel, row.account)?.decode(row.raw) ?? null;

/** Of the message's tree, because of what its turn may have asked: an answer is taken for as long as the message is open. */
const locksOf = ({ sessionKey }: InboxRow, inbound: Inbound | null): LockKey[] => [
  ...(sessionKey === null ? [] : [lock.tree(sessionKey)]),
  ...(inbound === null ? [] : [lock.chat(inbound.address), ...lock.pageOf(inbound.address)]),
];

/** Without a word. */
async function drop(deps: ConversationDeps, row: InboxRow): Promise<void> {
  const inbound = decodeRow(deps, row);
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
