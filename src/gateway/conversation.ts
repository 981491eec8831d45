// The conversations of main sessions from outside: what is under way in each, ended by /stop or by the button below an answer, summed
// up by /compact. The lane `main` calls work(sessionKey) for one session at a time (AG1); how a message is answered: answer-message.ts.
import type { Compacted } from "../agents/compact.ts";
import { transcriptOf } from "../agents/open-session.ts";
import type { Address } from "../core/address.ts";
import type { Button } from "../core/message.ts";
import type { Tx } from "../stores/database.ts";
import type { Session } from "../stores/sessions.ts";
import { closeQuestions } from "../subagents/open-questions.ts";
import { answerNext, type ConversationDeps, decodeRow } from "./answer-message.ts";
import { createDesk, type Desk } from "./desk.ts";
import { answeredElsewhere, followDrafts } from "./elsewhere.ts";
import { accountOf, stoppedText } from "./main-turn.ts";
import { bringBackReplaced } from "./replacing.ts";
import { endDrafts, finishReply, renderReply } from "./reply.ts";
import { noteStopped, noteUnread } from "./request.ts";

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
      for (const row of waiting) await bringBackReplaced(deps, tx, row, decodeRow(deps, row));
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
    prompt: (given) => deps.prompt(agent, session, given),
    account: accountOf(deps, session, {
      message: `${session.id}:compact`,
      sessionKey: session.key,
      agentId: agent.id,
      address: session.address ?? NOWHERE,
      person: null,
    }),
  });
}
