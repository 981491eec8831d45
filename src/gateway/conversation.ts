// The turns of main sessions: a waiting inbox row → the session's transcript → a turn → the reply in the outbox and the
// row done, in one transaction. The lane `main` calls work(sessionKey) for one session at a time (AG1); a row that
// lost its process is simply claimed again and its turn takes up where the transcript ends.
import type { Agent, Agents } from "../agents/agent.ts";
import { ensureSession, transcriptOf } from "../agents/open-session.ts";
import type { TurnEnd, Turns } from "../agents/turn.ts";
import type { Clock } from "../core/clock.ts";
import { errorText, isStorageError } from "../core/errors.ts";
import type { Bus } from "../core/events.ts";
import type { HitFailpoint } from "../core/failpoints.ts";
import type { Logger } from "../core/logger.ts";
import type { Channel, Inbound } from "../core/message.ts";
import type { Tool } from "../core/tool.ts";
import type { Lane, Slot } from "../lanes/lanes.ts";
import type { Database } from "../stores/database.ts";
import type { Inbox, InboxRow } from "../stores/inbox.ts";
import type { MailStore } from "../stores/mail.ts";
import type { Outbox } from "../stores/outbox.ts";
import type { Session, Sessions } from "../stores/sessions.ts";
import type { Transcripts } from "../stores/transcripts.ts";

export interface Conversations {
  /** Handler of the lane `main`: the oldest waiting message of this session. */
  work(sessionKey: string, slot: Slot): Promise<void>;
  /** Ends the running turn of a session, if there is one. The caller has settled its rows. */
  abort(sessionKey: string): boolean;
  /** Sums up the older part of a session that is at rest; messages that arrive meanwhile wait. */
  compact(sessionKey: string): Promise<"busy" | "nothing" | "done">;
  /** Ends all turns without settling them: they are taken up at the next start. */
  suspend(): void;
}

export interface ConversationDeps {
  readonly db: Database;
  readonly inbox: Inbox;
  readonly outbox: Outbox;
  readonly sessions: Sessions;
  readonly transcripts: Transcripts;
  readonly mail: MailStore;
  readonly turns: Turns;
  readonly lane: Lane;
  readonly agents: Agents;
  readonly clock: Clock;
  readonly bus: Bus;
  readonly log: Logger;
  readonly failpoint: HitFailpoint;
  channel(name: string, account: string): Channel | null;
  tools(agent: Agent): readonly Tool[];
  prompt(agent: Agent, sessionKey: string, tools: readonly Tool[]): Promise<string>;
}

interface Job {
  readonly row: InboxRow;
  readonly inbound: Inbound;
  readonly channel: Channel;
  readonly agent: Agent;
  readonly session: Session;
  readonly abort: AbortController;
  readonly slot: Slot;
}

/** A message that took the process down this often is answered with an apology instead. */
const MAX_ATTEMPTS = 3;
const STORAGE_RETRY_MS = 5_000;
const STATUS_EVERY_MS = 4_000;

export function createConversations(deps: ConversationDeps): Conversations {
  const active = new Map<string, AbortController>();
  return {
    async work(sessionKey, slot) {
      // A compaction is under way; it rings again when it is over.
      if (active.has(sessionKey)) return;
      const abort = new AbortController();
      active.set(sessionKey, abort);
      try {
        await answerNext(deps, sessionKey, slot, abort);
      } finally {
        active.delete(sessionKey);
      }
      if (abort.signal.reason !== "suspend" && deps.inbox.countWaiting(sessionKey) > 0) deps.lane.ring(sessionKey, sessionKey);
    },
    abort(sessionKey) {
      active.get(sessionKey)?.abort("stop");
      return active.has(sessionKey);
    },
    async compact(sessionKey) {
      const session = deps.sessions.find(sessionKey);
      if (active.has(sessionKey)) return "busy";
      if (session === null) return "nothing";
      const abort = new AbortController();
      active.set(sessionKey, abort);
      try {
        return (await compactSession(deps, session, abort.signal)) ? "done" : "nothing";
      } finally {
        active.delete(sessionKey);
        if (deps.inbox.countWaiting(sessionKey) > 0) deps.lane.ring(sessionKey, sessionKey);
      }
    },
    suspend() {
      for (const abort of active.values()) abort.abort("suspend");
    },
  };
}

async function compactSession(deps: ConversationDeps, session: Session, signal: AbortSignal): Promise<boolean> {
  const agent = deps.agents.find(session.agentId);
  if (agent === null) return false;
  return deps.turns.compact({
    ref: transcriptOf(session),
    model: session.model ?? agent.model,
    fallbacks: agent.fallbacks,
    signal,
    onSpend: (spend, model) => deps.sessions.addSpend(session.id, model, spend),
  });
}

async function answerNext(deps: ConversationDeps, sessionKey: string, slot: Slot, abort: AbortController): Promise<void> {
  let row: InboxRow | null = null;
  try {
    row = deps.inbox.claim(sessionKey);
    if (row !== null) await answerRow(deps, row, { sessionKey, slot, abort });
  } catch (error) {
    deps.log.error({ err: error, sessionKey, inboxId: row?.id }, "a message could not be answered");
    if (abort.signal.aborted) return;
    if (isStorageError(error) || row === null || !apologise(deps, row, error)) await waitForDisk(deps, row, abort.signal);
  }
}

/** The message waits and is taken up again; the try that the disk spoiled is not held against it. */
async function waitForDisk(deps: ConversationDeps, row: InboxRow | null, signal: AbortSignal): Promise<void> {
  for (let isFree = false; !isFree && !signal.aborted; ) {
    await deps.clock.sleep(STORAGE_RETRY_MS, signal);
    try {
      deps.transcripts.probe();
      if (row !== null) deps.inbox.release(row.id);
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
function apologise(deps: ConversationDeps, row: InboxRow, error: unknown): boolean {
  const text = `⚠️ This message could not be answered: ${errorText(error)}. The log says more; /new starts a new conversation.`;
  try {
    const channel = deps.channel(row.channel, row.account);
    const inbound = channel?.decode(row.raw) ?? null;
    if (channel === null || inbound === null) deps.inbox.finish(row.id);
    else commit(deps, { row, inbound, channel }, text);
    return true;
  } catch (again) {
    deps.log.error({ err: again, inboxId: row.id }, "an apology could not be recorded");
    return false;
  }
}

type Called = Pick<Job, "slot" | "abort"> & { readonly sessionKey: string };

async function answerRow(deps: ConversationDeps, row: InboxRow, { sessionKey, slot, abort }: Called): Promise<void> {
  deps.failpoint("turn.claimed");
  const channel = deps.channel(row.channel, row.account);
  const inbound = channel?.decode(row.raw) ?? null;
  const agentId = sessionKey.split(":")[1] ?? "";
  const agent = deps.agents.find(agentId);
  if (channel === null || inbound === null || agent === null) {
    deps.log.error({ sessionKey, inboxId: row.id }, "a waiting message can't be answered any more: its channel or agent is gone");
    deps.inbox.finish(row.id);
    return;
  }
  const session = ensureSession(deps, { key: sessionKey, agentId, address: inbound.address, parentKey: null });
  const job: Job = { row, inbound, channel, agent, session, abort, slot };
  if (row.attempts > MAX_ATTEMPTS) {
    const sorry = `⚠️ This message could not be answered: the gateway ended ${row.attempts - 1} times while working on it. Please put it differently.`;
    return commit(deps, job, sorry);
  }
  appendInput(deps, job);
  deps.failpoint("turn.input-appended");
  const end = await runTurn(deps, job);
  if (end.outcome === "aborted" && abort.signal.reason === "suspend") return deps.inbox.release(row.id);
  deps.transcripts.sync(transcriptOf(session));
  deps.failpoint("turn.before-commit");
  commit(deps, job, replyText(end, abort.signal, agent));
  deps.failpoint("turn.committed");
}

/** Id of the last message on record. One turn at a time, in order: what an earlier try of this message appended is the last one. */
function lastInput({ transcripts }: ConversationDeps, session: Session): string | undefined {
  for (const count of [20, 1_000]) {
    const entries = transcripts.tail(transcriptOf(session), count);
    const last = entries.findLast((entry) => entry.id.startsWith("in:"));
    if (last !== undefined || entries.length < count) return last?.id;
  }
  return undefined;
}

/** The person's words are on disk before the model is called (SE2); a second attempt finds them there. */
function appendInput(deps: ConversationDeps, { row, inbound, session }: Job): void {
  const ref = transcriptOf(session);
  const id = `in:${row.id}`;
  // Again, because the first try may have come to an end right here.
  if (lastInput(deps, session) === id) return void deps.transcripts.sync(ref);
  const from = inbound.sender.name ?? inbound.sender.id;
  // In a group several people speak; the name is theirs to choose, so it stands as data in the text.
  const text = inbound.address.kind === "dm" ? inbound.text : `[from ${JSON.stringify(from)}]\n${inbound.text}`;
  deps.transcripts.append(ref, [{ type: "message", role: "user", text, from, id }]);
  deps.transcripts.sync(ref);
}

async function runTurn(deps: ConversationDeps, job: Job): Promise<TurnEnd> {
  const { row, inbound, agent, session, abort } = job;
  const turnId = `turn:${row.id}`;
  const { address } = inbound;
  const where = { sessionKey: session.key, address, turnId };
  const tools = (): readonly Tool[] => deps.tools(deps.agents.find(agent.id) ?? agent);
  const over = new AbortController();
  const watch = agent.timeoutMs > 0 ? endAfter(deps.clock, agent.timeoutMs, over.signal, abort) : null;
  deps.bus.emit({ type: "turn.started", ...where });
  const status = showWorking(deps, job, over.signal);
  let outcome = "failed";
  try {
    const end = await deps.turns.run({
      id: turnId,
      ref: transcriptOf(session),
      sessionKey: session.key,
      runId: null,
      address,
      model: session.model ?? agent.model,
      fallbacks: session.model === null ? agent.fallbacks : [],
      thinking: agent.thinking,
      workspace: agent.workspace,
      readOnly: false,
      maxIterations: agent.maxIterations,
      signal: abort.signal,
      log: deps.log.child({ sessionKey: session.key, turnId }),
      system: () => deps.prompt(agent, session.key, tools()),
      tools,
      mail: () => notesFor(deps, session.id),
      waitOutsideLane: (work) => job.slot.outside(work, abort.signal),
      onText: (text) => deps.bus.emit({ type: "turn.text", ...where, text }),
      onDoing: (doing) => deps.bus.emit({ type: "turn.doing", sessionKey: session.key, address, runId: null, doing }),
      onSpend: (spend, model) => deps.sessions.addSpend(session.id, model, spend),
    });
    outcome = end.outcome;
    return end;
  } finally {
    over.abort();
    await Promise.all([status, watch]);
    deps.bus.emit({ type: "turn.ended", ...where, outcome });
  }
}

async function endAfter(clock: Clock, ms: number, over: AbortSignal, abort: AbortController): Promise<void> {
  await clock.sleep(ms, over);
  if (!over.aborted) abort.abort("timeout");
}

function notesFor(deps: ConversationDeps, sessionId: string): ReturnType<Parameters<Turns["run"]>[0]["mail"]> {
  const notes = deps.mail.listNotes(sessionId);
  return {
    entries: notes.map((note) => ({ type: "note", id: note.entryId, text: note.text, about: note.from })),
    commit: () => deps.mail.takeNotes(notes.map((note) => note.id)),
  };
}

/** The typing sign, again every few seconds until the turn is over (AG4). Never holds anything up. */
async function showWorking(deps: ConversationDeps, { channel, inbound }: Job, over: AbortSignal): Promise<void> {
  const show = (state: "working" | "idle"): void => {
    channel.status?.(inbound.address, state).catch((error: unknown) => deps.log.debug({ err: error }, "the typing sign failed"));
  };
  while (!over.aborted) {
    show("working");
    await deps.clock.sleep(STATUS_EVERY_MS, over);
  }
  show("idle");
}

function replyText(end: TurnEnd, signal: AbortSignal, agent: Agent): string {
  switch (end.outcome) {
    case "done":
      return end.text.trim() === "" ? "(The agent ended its turn without saying anything.)" : end.text;
    case "capped":
      return `${end.text}\n\n_Stopped early: ${end.reason}. Say "go on" to let it continue._`.trim();
    case "error":
      return `⚠️ ${end.reason}`;
    case "aborted":
      return signal.reason === "timeout"
        ? `⚠️ The turn was ended after ${agent.timeoutMs / 1000} s (agents.defaults.timeoutSeconds). What it did so far is kept; say "go on" to let it continue.`
        : "";
  }
}

/** Reply and done row in one transaction. A row that is done already was settled by /stop: then nothing is said. */
function commit(deps: ConversationDeps, job: Pick<Job, "row" | "inbound" | "channel">, text: string): void {
  const { row, inbound, channel } = job;
  let parts: ReturnType<Channel["render"]>;
  try {
    parts = channel.render({ markdown: text, ...(inbound.ref === undefined ? {} : { replyTo: inbound.ref }) }, inbound.address);
  } catch (error) {
    deps.log.error({ err: error, inboxId: row.id }, "a reply could not be rendered");
    parts = channel.render({ markdown: `⚠️ The answer could not be shown: ${errorText(error)}` }, inbound.address);
  }
  deps.db.transaction(() => {
    if (!deps.inbox.finish(row.id)) return;
    deps.outbox.add({ delivery: `reply:${row.id}`, address: inbound.address, parts });
  });
}
